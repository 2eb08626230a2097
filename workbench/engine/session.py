"""The deep-learning side of a study: data, search space and training in one process.

The worker process holds one, and so does the driver with `--inline`.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras

from workbench.batches import plan_batches
from workbench.checkpoint import assign_variables, load_arrays
from workbench.costs import count_flops, graph_hash, model_mib
from workbench.data import PreparedData, evaluation_dataset, prepare, steps_per_epoch, training_dataset
from workbench.definition import Definition, definition_from_dict
from workbench.engine.distribution import make_distribution
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
        self._distribution = make_distribution(job.device)
        self._batches = plan_batches(self._definition, self._distribution.replicas, job.device.kind)
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
        batch_size = self._batches.global_batch_size
        self._hypermodel = ClassifierHyperModel.of(
            self._definition,
            self._registry,
            image_shape=facts.image_shape,
            num_classes=len(facts.class_names),
            steps_per_epoch=steps_per_epoch(self._data, batch_size),
            learning_rate_factor=self._batches.learning_rate_factor,
        )
        emit({"event": "explore"})
        space = _explore(self._hypermodel, self._definition)
        keras.backend.clear_session()
        return Preparation(
            facts=asdict(facts),
            space=space.get_config(),
            batches=self._batches,
            replicas=self._distribution.replicas,
            route=self._distribution.route,
            replica_shapes=self._replica_shapes(),
            precision=self._precision,
            versions=_versions(),
        )

    def cost(self, values: Mapping[str, Value], measure: bool = False) -> Cost:
        """Builds a point and counts; see `Engine.cost`."""
        with _as_trial_error(), self._distribution.scope():
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
            # On one device: what a distribution needs (shares of a batch, no eager steps) would be in the way.
            network = self._build(values)
            self._initialize(network)
            return rehearse(network, self._prepared())

    def execute(self, task: Task, emit: Emit, max_seconds: float | None = None) -> None:
        """Trains one execution; see `Engine.execute`."""
        keras.backend.clear_session()
        keras.utils.set_random_seed(task.seed)
        with _as_trial_error(), self._distribution.scope():
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
            train(network, self._prepared(), task, self._settings(), emit)

    def evaluate(self, values: Mapping[str, Value], weights: str, split: str) -> dict[str, float]:
        """Evaluates stored weights; see `Engine.evaluate`."""
        with self._distribution.scope():
            network = self._restore(values, weights)
            metrics = network.model.evaluate(self._evaluation(split), verbose=0, return_dict=True)
        return {name: float(value) for name, value in metrics.items()}

    def examine(self, values: Mapping[str, Value], weights: str, split: str) -> Examination:
        """Evaluates stored weights and counts the predicted classes; see `Engine.examine`."""
        from sklearn.metrics import confusion_matrix, f1_score

        keras.backend.clear_session()
        prepared = self._prepared()
        labels = prepared.labels[prepared.indices(split)]
        data = self._evaluation(split)
        with self._distribution.scope():
            network = self._restore(values, weights)
            metrics = network.model.evaluate(data, verbose=0, return_dict=True)
            # Without what fills the last batch.
            predicted = network.model.predict(data, verbose=0)[: len(labels)].argmax(axis=-1)
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
        compile_network(network, 1, self._settings())
        assign_variables(network.model.variables, load_arrays(Path(weights)), weights)
        return network

    def _settings(self) -> Settings:
        objective = self._definition.objective
        replicas = self._distribution.replicas
        return Settings(
            global_batch_size=self._batches.global_batch_size,
            direction=objective.direction,
            replicas=replicas,
            pad_evaluation=replicas > 1 or self._job.device.kind == "tpu",
        )

    def _evaluation(self, split: str) -> Any:
        settings = self._settings()
        return evaluation_dataset(
            self._prepared(), split=split, batch_size=settings.global_batch_size, padded=settings.pad_evaluation
        )

    def _replica_shapes(self) -> list[tuple[int, ...]]:
        batches = training_dataset(
            self._prepared(),
            batch_size=self._batches.global_batch_size,
            augment=None,
            seed=0,
            first_epoch=1,
            last_epoch=1,
        )
        return self._distribution.replica_shapes(batches)


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


def _versions() -> dict[str, str]:
    names = [*_VERSIONED, *(("jax", "jaxlib") if keras.backend.backend() == "jax" else ())]
    return {name: importlib.metadata.version(name) for name in names}


def _precision(wanted: str, device: str) -> str:
    if wanted != "auto":
        return wanted
    return "mixed_bfloat16" if device == "tpu" else "float32"
