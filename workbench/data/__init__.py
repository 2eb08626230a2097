"""Data: splits, the decoded cache and the input pipeline. Importing this package imports no TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.data.cache import cache_dir
    from workbench.data.images import decode_image
    from workbench.data.pipeline import evaluation_dataset, steps_per_epoch, training_dataset
    from workbench.data.prepared import DataFacts, PreparedData, prepare

__all__ = [
    "DataFacts",
    "PreparedData",
    "cache_dir",
    "decode_image",
    "evaluation_dataset",
    "prepare",
    "steps_per_epoch",
    "training_dataset",
]

_HOMES = {
    "DataFacts": "prepared",
    "PreparedData": "prepared",
    "cache_dir": "cache",
    "decode_image": "images",
    "evaluation_dataset": "pipeline",
    "prepare": "prepared",
    "steps_per_epoch": "pipeline",
    "training_dataset": "pipeline",
}


def __getattr__(name: str) -> Any:
    # Lazily, so that plugins that only need one helper do not pay for NumPy, Pillow and filelock.
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(f"workbench.data.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
