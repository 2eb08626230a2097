"""What the driver asks of an engine, and what it gets back. Imports no deep-learning library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from workbench.devices import DeviceChoice
    from workbench.oracles.protocol import Value
    from workbench.training import Task

Emit = Callable[[dict[str, Any]], None]


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
        global_batch_size: images a step, over all replicas.
        replicas: how many accelerator cores hold a copy of the model.
        precision: the Keras dtype policy.
        versions: of the libraries that decide results.
    """

    facts: dict[str, Any]
    space: dict[str, Any]
    global_batch_size: int
    replicas: int
    precision: str
    versions: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a point costs before it is trained."""

    parameters: int
    flops: int


class Engine(Protocol):
    """Runs the tasks of one job. Every method may take long; none is called from two threads at once."""

    def prepare(self, emit: Emit) -> Preparation:
        """Loads plugins and data, explores the search space; emits `decode` events for progress."""
        ...

    def cost(self, values: Mapping[str, Value]) -> Cost:
        """Builds a point without training it."""
        ...

    def execute(self, task: Task, emit: Emit) -> None:
        """Trains one execution; see `workbench.training.train` for the events.

        Raises:
            TrialError: the execution failed.
            WorkerDiedError: the process that trained it is gone.
        """
        ...

    def evaluate(self, values: Mapping[str, Value], weights: str, split: str) -> dict[str, float]:
        """Metrics on a whole split of a point with the weights of a checkpoint file."""
        ...

    def save(self, values: Mapping[str, Value], weights: str, path: str, facts: Mapping[str, Any]) -> None:
        """Writes a point with the weights of a checkpoint file to a `.keras` file for `workbench predict`."""
        ...

    def close(self) -> None:
        """Ends the engine's process, if it has one; a second call does nothing."""
        ...
