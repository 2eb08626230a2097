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
    StorageError,
    StudyChangedError,
    StudyError,
    StudyLockedError,
    TimeLimitError,
    TrialError,
    UnknownPluginError,
    UsageError,
    WorkbenchError,
    WorkerDiedError,
    WorkError,
)
from workbench.hookspecs import hookimpl

if TYPE_CHECKING:
    from workbench.comparisons import compare, compare_curves, compare_trials
    from workbench.confirm_study import confirm
    from workbench.convert import export
    from workbench.devices import DeviceWish, TpuAddress
    from workbench.exports.writing import Exported
    from workbench.launch import search
    from workbench.results.confirmation import Confirmation
    from workbench.study import Study, open_study, studies
    from workbench.train_point import Trained, train

__all__ = [
    "Augmentation",
    "Confirmation",
    "DataError",
    "Dataset",
    "DatasetRequest",
    "DatasetSource",
    "DefinitionError",
    "DeviceError",
    "DeviceWish",
    "ExampleBatch",
    "Exported",
    "JournalError",
    "Model",
    "Oracle",
    "PluginClashError",
    "PluginError",
    "PluginLoadError",
    "Schedule",
    "SpaceError",
    "StorageError",
    "Study",
    "StudyChangedError",
    "StudyError",
    "StudyLockedError",
    "TimeLimitError",
    "TpuAddress",
    "Trained",
    "TrialError",
    "UnknownPluginError",
    "UsageError",
    "WorkError",
    "WorkbenchError",
    "WorkerDiedError",
    "compare",
    "compare_curves",
    "compare_trials",
    "confirm",
    "export",
    "hookimpl",
    "open_study",
    "search",
    "studies",
    "train",
]

_LAZY = {
    "compare": "comparisons",
    "compare_curves": "comparisons",
    "compare_trials": "comparisons",
    "Confirmation": "results.confirmation",
    "confirm": "confirm_study",
    "DeviceWish": "devices",
    "TpuAddress": "devices",
    "export": "convert",
    "Exported": "exports.writing",
    "search": "launch",
    "Study": "study",
    "open_study": "study",
    "studies": "study",
    "Trained": "train_point",
    "train": "train_point",
}


def __getattr__(name: str) -> Any:
    # Plugins import this package for its components; they should not wait for pandas and pydantic.
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(f"workbench.{_LAZY[name]}"), name)
    # No module may have a name of `_LAZY`: importing it would hide the function of that name.
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
