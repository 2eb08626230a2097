"""What the driver asks of an engine, and what it gets back. Imports no deep-learning library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from workbench.batches import Batches
    from workbench.devices import DeviceChoice, Route
    from workbench.oracles.protocol import Value
    from workbench.training import Task

Emit = Callable[[dict[str, Any]], str | None]
"""Takes an event; the answer to an `epoch` event is why to end the execution there, or None."""


QUESTIONS = ("epoch",)
"""Events whose answer the session waits for."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a session needs to know before it can train a study's points.

    Attributes:
        definition: resolved, as `Definition.resolved()` gives it.
        plugin_files, plugins_dirs: as given to `Registry.load`.
        data_dir: for the data set, or None.
    """

    definition: Mapping[str, Any]
    device: DeviceChoice
    plugin_files: tuple[str, ...] = ()
    plugins_dirs: tuple[str, ...] = ()
    data_dir: str | None = None


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """What a session found out while it prepared.

    Attributes:
        facts: of the data, see `workbench.data.DataFacts`.
        space: every hyperparameter, as `HyperParameters.get_config()` gives it, with the default point's values.
        replicas: how many accelerator cores hold a copy of the model.
        batches: what follows from them, as `workbench.batches.Batches` has it.
        route: how a step is spread over them, see `workbench.devices.Route`.
        replica_shapes: of a batch's images as each replica gets them, `(batch, height, width, channels)`.
        precision: the Keras dtype policy.
        versions: of the libraries that decide results.
    """

    facts: dict[str, Any]
    space: dict[str, Any]
    batches: Batches
    replicas: int
    route: Route
    replica_shapes: list[tuple[int, ...]]
    precision: str
    versions: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a point costs before it is trained.

    Attributes:
        parameters: all of them.
        flops: forward pass of one image, a multiply-add is 2.
        model_mib: of the weights in memory, in MiB.
        graph: hash of the network's structure, equal for settings that give the same network.
        seconds_per_epoch: from measured training steps; None if that was not asked for.
    """

    parameters: int
    flops: int
    model_mib: float
    graph: str
    seconds_per_epoch: float | None = None


@dataclass(frozen=True, kw_only=True)
class Examination:
    """What a model does on a whole split.

    Attributes:
        metrics: of `Engine.evaluate`, and `macro_f1`: the mean over classes of F1, 0 for a class without a true or
            predicted example.
        confusion: counts, a row a true class, a column a predicted one.
    """

    metrics: dict[str, float]
    confusion: list[list[int]]


class Engine(Protocol):
    """Runs the tasks of one job. Every method may take long; none is called from two threads at once."""

    def prepare(self, emit: Emit) -> Preparation:
        """Loads plugins and data, explores the search space; emits `decode` events for progress."""
        ...

    def cost(self, values: Mapping[str, Value], *, measure: bool = False) -> Cost:
        """Builds a point without training it; measures some training steps if asked to."""
        ...

    def rehearse(self, values: Mapping[str, Value]) -> list[str]:
        """Runs one small batch through pipeline, augmentation, network, loss and optimizer.

        Returns:
            The metrics that training will report.
        """
        ...

    def execute(self, task: Task, emit: Emit, *, max_seconds: float | None = None) -> None:
        """Trains one execution; see `workbench.training.train` for the events.

        Args:
            task: what to train.
            emit: takes the events.
            max_seconds: after so long without an end the process is ended; an engine without a process of its
                own leaves that to the answers of `emit`.

        Raises:
            TrialError: the execution failed.
            TimeLimitError: it took longer than `max_seconds`.
            WorkerDiedError: the process that trained it is gone.
        """
        ...

    def evaluate(self, values: Mapping[str, Value], weights: str, split: str) -> dict[str, float]:
        """Metrics on a whole split of a point with the weights of a checkpoint file."""
        ...

    def examine(self, values: Mapping[str, Value], weights: str, split: str) -> Examination:
        """As `evaluate`, with the predicted classes counted."""
        ...

    def save(self, values: Mapping[str, Value], weights: str, path: str, facts: Mapping[str, Any]) -> None:
        """Writes a point with the weights of a checkpoint file to a `.keras` file for `workbench predict`."""
        ...

    def close(self) -> None:
        """Ends the engine's process, if it has one; a second call does nothing."""
        ...
