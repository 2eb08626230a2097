"""The hooks that a plugin may implement: markers and specifications, nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.components import Augmentation, Dataset, Model, Oracle, Schedule

PROJECT = "workbench"
"""The pluggy project name."""

ENTRY_POINT_GROUP = "workbench.plugins"
"""The entry-point group through which installed distributions register plugin modules."""

Hook = TypeVar("Hook", bound="Callable[..., Any]")

hookspec = pluggy.HookspecMarker(PROJECT)
_hookimpl = pluggy.HookimplMarker(PROJECT)


def hookimpl(function: Hook) -> Hook:
    """Marks a plugin's function as the implementation of the hook of the same name."""
    return _hookimpl(function)


@hookspec
def workbench_models() -> Iterable[Model]:  # type: ignore[empty-body]
    """Returns the models (search spaces) that this plugin gives."""


@hookspec
def workbench_augmentations() -> Iterable[Augmentation]:  # type: ignore[empty-body]
    """Returns the augmentations that this plugin gives."""


@hookspec
def workbench_schedules() -> Iterable[Schedule]:  # type: ignore[empty-body]
    """Returns the learning rate schedules that this plugin gives."""


@hookspec
def workbench_datasets() -> Iterable[Dataset]:  # type: ignore[empty-body]
    """Returns the data sets that this plugin gives."""


@hookspec
def workbench_oracles() -> Iterable[Oracle]:  # type: ignore[empty-body]
    """Returns the search algorithms that this plugin gives."""


@hookspec
def workbench_trial_finished(record: dict[str, Any]) -> None:
    """Called in the driver after each trial, with its row of the table of trials, for loggers."""


@hookspec
def workbench_study_finished(study: Any) -> None:
    """Called in the driver when a search ends, with the open `workbench.Study`, for loggers."""
