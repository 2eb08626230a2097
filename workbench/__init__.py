"""The architecture search workbench: register an architecture, launch a search, compare leaderboards."""

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
from workbench.errors import DataError, WorkbenchError
from workbench.hookspecs import hookimpl

__all__ = [
    "Augmentation",
    "DataError",
    "Dataset",
    "DatasetRequest",
    "DatasetSource",
    "ExampleBatch",
    "Model",
    "Oracle",
    "Schedule",
    "WorkbenchError",
    "hookimpl",
]
