"""One execution: compile, fit, report every epoch, checkpoint, resume."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from workbench.checkpoint import (
    assign_variables,
    load_arrays,
    read_variables,
    save_arrays,
    training_variables,
)
from workbench.data.pipeline import evaluation_dataset, steps_per_epoch, training_dataset
from workbench.errors import TrialError

if TYPE_CHECKING:
    from workbench.data import PreparedData
    from workbench.hypermodel import Network
    from workbench.oracles.protocol import Direction, Value

Emit = Callable[[dict[str, Any]], str | None]
"""Takes an event for the driver; its answer to an `epoch` event is why to end the execution here, or None."""

CHECKPOINT_SECONDS = 15.0
"""A checkpoint is written at an epoch's end if at least this long has passed since the last one."""

MAX_STEPS_PER_EXECUTION = 16
PROGRESS_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Task:
    """What to train: one execution of a trial, or a further part of one.

    Attributes:
        first_epoch, last_epoch: from 1, inclusive; `first_epoch` is 1 or one past the checkpoint's.
        resume_from: checkpoint file to continue from, or None.
        best_from: file with the best weights until then, and its score, or None.
        checkpoint_dir: where checkpoints go, or None to write none.
        metric: the objective, for keeping the best epoch's weights.
        split: what to train on: "train", or "train+validation"; then nothing validates, the objective is a
            training metric, and the weights kept are those of the last epoch.
    """

    trial_id: str
    execution: int
    seed: int
    values: dict[str, Value]
    first_epoch: int
    last_epoch: int
    resume_from: str | None = None
    best_from: str | None = None
    best_score: float | None = None
    checkpoint_dir: str | None = None
    metric: str = "val_accuracy"
    split: str = "train"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What every execution of a study shares.

    Attributes:
        global_batch_size: images a step, over all replicas.
        direction: the objective's.
        replicas: cores that hold a copy of the model.
        pad_evaluation: fill the last evaluation batch, for static shapes and equal shares; metrics stay exact.
    """

    global_batch_size: int
    direction: Direction
    replicas: int = 1
    pad_evaluation: bool = False


def steps_per_execution(steps: int) -> int:
    """How many steps run in one call: the largest divisor of an epoch's steps up to 16.

    A divisor, because Keras's last call of an epoch would otherwise take steps from the next one.
    """
    return max(count for count in range(1, MAX_STEPS_PER_EXECUTION + 1) if steps % count == 0)


def compile_network(network: Network, steps: int, settings: Settings | None = None) -> keras.Model:
    """Compiles the network for training and builds its optimizer, so that checkpoints hold it whole.

    Args:
        network: built, in the distribution's scope.
        steps: of an epoch.
        settings: of the study; None for one device.
    """
    on_jax = keras.backend.backend() == "jax"
    replicas = settings.replicas if settings is not None else 1
    # What fills a padded batch has the weight 0, which only weighted metrics heed; their names are the same.
    metrics = "weighted_metrics" if settings is not None and settings.pad_evaluation else "metrics"
    network.model.compile(
        optimizer=network.optimizer,
        loss=network.loss,
        # TensorFlow's strategies fail on several steps in a call (Keras 3.15).
        steps_per_execution=steps_per_execution(steps) if on_jax or replicas == 1 else 1,
        # Without it, Keras runs JAX operation by operation; with it, TensorFlow is slower on a CPU and its
        # strategies fail.
        jit_compile=on_jax,
        **{metrics: ["accuracy"]},
    )
    network.optimizer.build(network.model.trainable_variables)
    if keras.backend.backend() == "tensorflow" and replicas == 1 and metrics == "metrics":
        _build_metrics(network.model)
    return network.model


def _build_metrics(model: keras.Model) -> None:
    """Makes the metrics' variables now: made in the first training step, they would have TensorFlow trace it twice."""
    outputs = np.zeros((1, model.output_shape[-1]), np.float32)
    model.compute_metrics(None, outputs, outputs)
    model.reset_metrics()


def train(network: Network, data: PreparedData, task: Task, settings: Settings, emit: Emit) -> keras.Model:
    """Runs one execution and returns the model, with the weights of its last epoch.

    Emits an `epoch` event for each epoch, `step` events for live progress, and a `checkpoint` event for each
    checkpoint file written (always one at the last epoch). The answer to an `epoch` event may end it there.

    Raises:
        TrialError: the loss stopped being finite.
        StorageError: a checkpoint could not be written.
        DataError: the batch is larger than the training split.
    """
    batch_size = settings.global_batch_size
    steps = steps_per_epoch(data, batch_size, task.split)
    model = compile_network(network, steps, settings)
    if task.resume_from is not None:
        assign_variables(training_variables(model), load_arrays(Path(task.resume_from)), task.resume_from)
    if task.first_epoch > task.last_epoch:
        return model
    training = training_dataset(
        data,
        batch_size=batch_size,
        augment=network.augment,
        seed=task.seed,
        first_epoch=task.first_epoch,
        last_epoch=task.last_epoch,
        split=task.split,
    )
    validation = None
    if task.split == "train":
        validation = evaluation_dataset(data, split="validation", batch_size=batch_size, padded=settings.pad_evaluation)
    recorder = _Recorder(task, settings, network.schedule, steps, emit)
    model.fit(
        training,
        validation_data=validation,
        initial_epoch=task.first_epoch - 1,
        epochs=task.last_epoch,
        steps_per_epoch=steps,
        # The pipeline shuffles.
        shuffle=False,
        callbacks=[recorder],
        verbose=0,
    )
    if recorder.failure is not None:
        raise recorder.failure
    return model


@dataclass
class _Best:
    """The best epoch's weights so far."""

    score: float | None = None
    weights: list[np.ndarray] = field(default_factory=list)
    written: bool = True


class _Recorder(keras.callbacks.Callback):  # type: ignore[misc]
    """Reports steps and epochs, keeps the best weights, writes checkpoints, stops on a loss that is not finite."""

    def __init__(self, task: Task, settings: Settings, schedule: Any, steps: int, emit: Emit):
        super().__init__()
        self.failure: TrialError | None = None
        self._task = task
        self._settings = settings
        self._schedule = schedule
        self._steps = steps
        self._emit = emit
        self._best = _Best(score=task.best_score)
        self._best_file = task.best_from
        self._checkpoint_at = time.monotonic()
        self._told_at = 0.0
        self._epoch_at = 0.0
        self._train_seconds = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch_at = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        now = time.perf_counter()
        self._train_seconds = now - self._epoch_at
        if batch + 1 == self._steps:
            # Reading a metric waits for the step to end, so that validation is not counted as training.
            float((logs or {}).get("loss", 0.0))
            self._train_seconds = time.perf_counter() - self._epoch_at
        elif now - self._told_at > PROGRESS_SECONDS:
            self._told_at = now
            self._emit({"event": "step", "step": batch + 1, "steps": self._steps, **self._identity()})

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        metrics = {name: float(value) for name, value in (logs or {}).items()}
        number = epoch + 1
        step_ms = 1000 * self._train_seconds / self._steps
        stop = self._emit(
            {
                "event": "epoch",
                **self._identity(),
                "epoch": number,
                "metrics": metrics,
                "learning_rate": float(self._schedule(epoch * self._steps)),
                "seconds": round(time.perf_counter() - self._epoch_at, 6),
                "step_ms": round(step_ms, 4),
                "images_per_s": round(1000 * self._settings.global_batch_size / step_ms, 2),
                "first": number == self._task.first_epoch,
            }
        )
        if not math.isfinite(metrics.get("loss", 0.0)):
            self.failure = TrialError(
                f"the training loss must be finite; it was {metrics['loss']} in epoch {number}. A smaller learning "
                "rate usually helps",
                "non_finite_loss",
            )
            self.model.stop_training = True
            return
        self._keep_best(metrics.get(self._task.metric))
        if stop:
            self.model.stop_training = True
        due = time.monotonic() - self._checkpoint_at >= CHECKPOINT_SECONDS
        if self._task.checkpoint_dir is not None and (due or stop or number == self._task.last_epoch):
            self._write_checkpoint(number)

    def _identity(self) -> dict[str, Any]:
        return {"trial_id": self._task.trial_id, "execution": self._task.execution}

    def _keep_best(self, score: float | None) -> None:
        if score is None or not math.isfinite(score):
            return
        sign = 1 if self._settings.direction == "max" else -1
        if self._task.split != "train" or self._best.score is None or sign * score > sign * self._best.score:
            self._best = _Best(score, read_variables(self.model.variables), written=False)

    def _write_checkpoint(self, epoch: int) -> None:
        folder = Path(str(self._task.checkpoint_dir))
        stem = f"execution-{self._task.execution}.epoch-{epoch:04d}"
        last = folder / f"{stem}.npz"
        save_arrays(last, read_variables(training_variables(self.model)))
        if not self._best.written:
            best = folder / f"{stem}.best.npz"
            save_arrays(best, self._best.weights)
            self._best_file, self._best.written = str(best), True
        self._checkpoint_at = time.monotonic()
        self._emit(
            {
                "event": "checkpoint",
                **self._identity(),
                "epoch": epoch,
                "file": last.name,
                "best_file": Path(self._best_file).name if self._best_file else None,
                "best_score": self._best.score,
            }
        )
