"""The deep-learning side of a study: data, search space and training in one process.

The worker process holds one, and so does the driver with `--inline`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from workbench.checkpoint import assign_variables, load_arrays
from workbench.costs import count_flops, graph_hash, model_mib
from workbench.data import PreparedData, evaluation_dataset, prepare, steps_per_epoch
from workbench.definition import Definition, definition_from_dict
from workbench.engine.protocol import Cost, Emit, Examination, Job, Preparation
from workbench.errors import SpaceError, StorageError, TrialError, WorkbenchError
from workbench.hypermodel import ClassifierHyperModel, Network, overrides_of
from workbench.modelfile import save_model
from workbench.registry import Registry
from workbench.rehearsal import measure_epoch, rehearse
from workbench.space import SearchSpace, explore
from workbench.tpu.fill import model_fill
from workbench.training import Settings, Task, compile_network, train

if TYPE_CHECKING:
    from workbench.oracles.protocol import Value

_VERSIONED = ("tensorflow", "keras", "keras-tuner", "numpy")


class Session:
    """Prepares a job and trains its points; implements `workbench.engine.protocol.Engine` in this process."""

    def __init__(self, job: Job):
        self._job = job
        self._definition: Definition = definition_from_dict(job.definition)
        self._registry = Registry.load(job.plugin_files, job.plugins_dirs)
        self._strategy = _strategy(job)
        self._replicas = self._strategy.num_replicas_in_sync if self._strategy is not None else 1
        self._precision = _precision(self._definition.training.precision, job.device.kind)
        self._data: PreparedData | None = None
        self._hypermodel: ClassifierHyperModel | None = None

    def prepare(self, emit: Emit) -> Preparation:
        """Loads the data, decoding it if that was not done before, and explores the search space."""

        def tell(done: int, total: int | None) -> None:
            emit({"event": "decode", "done": done, "total": total})

        keras.config.set_dtype_policy(self._precision)
        table = self._definition.dataset
        data_dir = self._job.data_dir
        self._data = prepare(
            self._registry.find("dataset", table.name),
            data_dir=Path(data_dir) if data_dir is not None else None,
            image_size=table.image_size,
            options=table.options,
            limit=table.limit,
            split_seed=table.split_seed,
            progress=tell,
        )
        facts = self._data.facts
        batch_size = self._definition.training.batch_size_per_replica * self._replicas
        self._hypermodel = ClassifierHyperModel.of(
            self._definition,
            self._registry,
            image_shape=facts.image_shape,
            num_classes=len(facts.class_names),
            steps_per_epoch=steps_per_epoch(self._data, batch_size),
        )
        emit({"event": "explore"})
        space = _explore(self._hypermodel, self._definition)
        keras.backend.clear_session()
        return Preparation(
            facts=asdict(facts),
            space=space.get_config(),
            global_batch_size=batch_size,
            replicas=self._replicas,
            precision=self._precision,
            versions={name: importlib.metadata.version(name) for name in _VERSIONED},
        )

    def cost(self, values: Mapping[str, Value], measure: bool = False) -> Cost:
        """Builds a point and counts; see `Engine.cost`."""
        with _as_trial_error():
            network = self._build(values)
            flops, _ = count_flops(network.model)
            return Cost(
                parameters=network.model.count_params(),
                flops=flops,
                model_mib=model_mib(network.model),
                graph=graph_hash(network.model),
                seconds_per_epoch=measure_epoch(network, self._prepared(), self._settings()) if measure else None,
            )

    def rehearse(self, values: Mapping[str, Value]) -> list[str]:
        """One small batch through everything; see `Engine.rehearse`."""
        with _as_trial_error(WorkbenchError):
            network = self._build(values)
            self._initialize(network)
            return rehearse(network, self._prepared())

    def execute(self, task: Task, emit: Emit, max_seconds: float | None = None) -> None:
        """Trains one execution; see `Engine.execute`."""
        keras.backend.clear_session()
        gc.collect()
        keras.utils.set_random_seed(task.seed)
        with _as_trial_error():
            network = self._build(task.values)
            flops, uncounted = count_flops(network.model)
            emit(
                {
                    "event": "model",
                    "trial_id": task.trial_id,
                    "parameters": network.model.count_params(),
                    "flops": flops,
                    "mxu_fill": model_fill(network.model),
                    "uncounted_layers": uncounted,
                }
            )
            if task.resume_from is None:
                self._initialize(network)
            with self._scope():
                train(network, self._prepared(), task, self._settings(), emit)

    def evaluate(self, values: Mapping[str, Value], weights: str, split: str) -> dict[str, float]:
        """Evaluates stored weights; see `Engine.evaluate`."""
        network = self._restore(values, weights)
        data = evaluation_dataset(self._prepared(), split=split, batch_size=self._settings().global_batch_size)
        metrics = network.model.evaluate(data, verbose=0, return_dict=True)
        return {name: float(value) for name, value in metrics.items()}

    def examine(self, values: Mapping[str, Value], weights: str, split: str) -> Examination:
        """Evaluates stored weights and counts the predicted classes; see `Engine.examine`."""
        from sklearn.metrics import confusion_matrix, f1_score

        keras.backend.clear_session()
        gc.collect()
        prepared = self._prepared()
        network = self._restore(values, weights)
        data = evaluation_dataset(prepared, split=split, batch_size=self._settings().global_batch_size)
        metrics = network.model.evaluate(data, verbose=0, return_dict=True)
        predicted = network.model.predict(data, verbose=0).argmax(axis=-1)
        labels = prepared.labels[prepared.indices(split)]
        classes = range(len(prepared.facts.class_names))
        f1 = f1_score(labels, predicted, labels=classes, average="macro", zero_division=0)
        return Examination(
            metrics={**{name: float(value) for name, value in metrics.items()}, "macro_f1": float(f1)},
            confusion=confusion_matrix(labels, predicted, labels=classes).tolist(),
        )

    def save(self, values: Mapping[str, Value], weights: str, path: str, facts: Mapping[str, Any]) -> None:
        """Writes stored weights as a model; see `Engine.save`."""
        network = self._restore(values, weights)
        data = self._prepared().facts
        save_model(
            network.model,
            Path(path),
            {
                **facts,
                "class_names": list(data.class_names),
                "image_shape": list(data.image_shape),
                "output": network.component.output,
                "dataset": data.dataset,
                "data_fingerprint": data.fingerprint,
            },
        )

    def close(self) -> None:
        """Does nothing: there is no process to end."""

    def _build(self, values: Mapping[str, Value]) -> Network:
        if self._hypermodel is None:
            raise WorkbenchError("prepare() must come first")
        with self._scope():
            return self._hypermodel.build(SearchSpace(overrides_of(self._definition), values))

    def _initialize(self, network: Network) -> None:
        if network.component.initialize is not None:
            network.component.initialize(network.model, self._definition.model.options)

    def _prepared(self) -> PreparedData:
        if self._data is None:
            raise WorkbenchError("prepare() must come first")
        return self._data

    def _restore(self, values: Mapping[str, Value], weights: str) -> Network:
        network = self._build(values)
        compile_network(network, 1)
        assign_variables(network.model.variables, load_arrays(Path(weights)), weights)
        return network

    def _settings(self) -> Settings:
        objective = self._definition.objective
        return Settings(
            global_batch_size=self._definition.training.batch_size_per_replica * self._replicas,
            direction=objective.direction,
        )

    def _scope(self) -> contextlib.AbstractContextManager[Any]:
        return self._strategy.scope() if self._strategy is not None else contextlib.nullcontext()


def _explore(hypermodel: ClassifierHyperModel, definition: Definition) -> SearchSpace:
    try:
        return explore(hypermodel.build, overrides_of(definition))
    except WorkbenchError:
        raise
    except (Exception, SystemExit) as error:
        height, width, channels = hypermodel.image_shape
        raise SpaceError(
            f"the default point of a search must build; that of {', '.join(definition.model.names)} does not "
            f"for {height}x{width}x{channels} images and {hypermodel.num_classes} classes: "
            f"{type(error).__name__}: {error}. "
            "Change dataset.image_size or what [model.space] fixes, or mend the plugin"
        ) from error


@contextlib.contextmanager
def _as_trial_error(*others: type[WorkbenchError]) -> Iterator[None]:
    """Failures of one point as TrialError with the class's name as kind; storage and `others` are not the point's."""
    let_through: tuple[type[BaseException], ...] = (TrialError, StorageError, *others)
    try:
        yield
    except let_through:
        raise
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split()) or "no message"
        raise TrialError(f"{type(error).__name__}: {text}", type(error).__name__) from error


def _strategy(job: Job) -> Any:
    """The distribution strategy of the chosen device; None for one device, which needs none."""
    if job.device.kind == "tpu":
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver()
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    if job.device.kind == "gpu" and len(tf.config.list_physical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return None


def _precision(wanted: str, device: str) -> str:
    if wanted != "auto":
        return wanted
    return "mixed_bfloat16" if device == "tpu" else "float32"
