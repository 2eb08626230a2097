"""The architecture search workbench: register an architecture, launch a search, compare leaderboards.

`search` runs a study, `open_study` reads one; plugins return the frozen components named here. Importing this
package imports no deep-learning library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.components import (
    Augmentation,
    Dataset,
    DatasetRequest,
    DatasetSource,
    ExampleBatch,
    Model,
    Oracle,
    Schedule,
)
from workbench.errors import (
    DataError,
    DefinitionError,
    DeviceError,
    JournalError,
    PluginClashError,
    PluginError,
    PluginLoadError,
    SpaceError,
    StudyChangedError,
    StudyError,
    StudyLockedError,
    TrialError,
    UnknownPluginError,
    UsageError,
    WorkbenchError,
    WorkerDiedError,
    WorkError,
)
from workbench.hookspecs import hookimpl

if TYPE_CHECKING:
    from workbench.search import search
    from workbench.study import Study, open_study, studies

__all__ = [
    "Augmentation",
    "DataError",
    "Dataset",
    "DatasetRequest",
    "DatasetSource",
    "DefinitionError",
    "DeviceError",
    "ExampleBatch",
    "JournalError",
    "Model",
    "Oracle",
    "PluginClashError",
    "PluginError",
    "PluginLoadError",
    "Schedule",
    "SpaceError",
    "Study",
    "StudyChangedError",
    "StudyError",
    "StudyLockedError",
    "TrialError",
    "UnknownPluginError",
    "UsageError",
    "WorkError",
    "WorkbenchError",
    "WorkerDiedError",
    "hookimpl",
    "open_study",
    "search",
    "studies",
]

_LAZY = {"search": "search", "Study": "study", "open_study": "study", "studies": "study"}


def __getattr__(name: str) -> Any:
    # Plugins import this package for its components; they should not wait for pandas and pydantic.
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(f"workbench.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
