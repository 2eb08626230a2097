"""Tiny data for the tests of workbench.data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import workbench
from workbench.data.prepared import PreparedData, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))


class Counted:
    """A data set whose image i is filled with the value i, and which counts its decodings."""

    def __init__(self, examples: int, classes: int = 3, **source):
        self.reads = 0
        self.examples = examples
        self.classes = classes
        self.source = source

    def read(self) -> Iterator[workbench.ExampleBatch]:
        self.reads += 1
        for start in range(0, self.examples, 16):
            values = np.arange(start, min(start + 16, self.examples))
            images = np.broadcast_to(values[:, None, None, None], (len(values), 4, 4, 1)).astype(np.uint8)
            yield workbench.ExampleBatch(part="all", images=images, labels=(values % self.classes).astype(np.int32))

    def component(self) -> workbench.Dataset:
        fields = {
            "class_names": tuple(f"class {label}" for label in range(self.classes)),
            "image_shape": (4, 4, 1),
            "parts": {"train": ("all",)},
            "signature": "1",
            "read": self.read,
            "count": self.examples,
        } | self.source
        return workbench.Dataset(
            name="counted",
            summary="counted",
            options={"shade": "unused"},
            needs_data_dir=False,
            open=lambda request: workbench.DatasetSource(**fields),
        )

    def prepare(self, **arguments) -> PreparedData:
        return prepare(self.component(), **({"data_dir": None, "image_size": None, "options": {}} | arguments))


@pytest.fixture
def counted() -> Callable[..., Counted]:
    return Counted
