"""What is asked of the TPU compiler, what it answers, and the cache of its answers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from workbench.data.cache import cache_dir
from workbench.journal import write_atomically

_FORMAT = 1
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = r"([\d.]+)([KMGT]?)"
_REFUSALS = (
    re.compile(rf"\({_SIZE}\) exceeds available HBM \({_SIZE}\)"),
    re.compile(rf"Used {_SIZE} of {_SIZE} hbm", re.IGNORECASE),
)


@dataclass(frozen=True, kw_only=True)
class Step:
    """A train step to lower or compile; plain values, so that another process can build it.

    Attributes:
        definition: resolved, as `Definition.resolved()` gives it.
        values: the point's hyperparameters by full name; those that are left out take their defaults.
        image_shape: (height, width, channels).
        num_classes: how many classes there are.
        precision: the Keras dtype policy.
        batch_size: images a core.
        topology: the compiler's name of it, such as "v2:2x2".
        plugin_files, plugins_dirs: as for `Registry.load`.
    """

    definition: Mapping[str, Any]
    values: Mapping[str, Any]
    image_shape: tuple[int, ...]
    num_classes: int
    precision: str
    batch_size: int
    topology: str
    plugin_files: tuple[str, ...] = ()
    plugins_dirs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """A train step as lowered for TPUs, on a CPU.

    Attributes:
        host_ops: what would leave the TPU in every step (callbacks, infeeds, ...), with the layer that does it.
        dynamic: shapes that are not known before it runs, likewise; the trace's error if it could not be traced.
    """

    host_ops: tuple[str, ...] = ()
    dynamic: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """The compiler's answer for one core: compiled for, not executed on, TPU.

    Attributes:
        fits: whether the step fits into the core's memory.
        peak_bytes: memory at its fullest; where it does not fit, what it would need as far as the compiler says.
        available_bytes: what the compiler may use; known where it does not fit.
        temporary_bytes, argument_bytes: of the step's intermediate values; of weights, optimizer and one batch.
        flops: floating-point operations of a step, forward and backward.
        bytes_accessed: read and written in memory.
        matrix_cycles: see `workbench.tpu.hlo`; never shown and never ranked on.
        seconds: that the compilation took.
    """

    fits: bool
    peak_bytes: float | None = None
    available_bytes: float | None = None
    temporary_bytes: float | None = None
    argument_bytes: float | None = None
    flops: float | None = None
    bytes_accessed: float | None = None
    matrix_cycles: Mapping[str, int] | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class VerdictCache:
    """Compiled answers by graph, in `CACHE/tpu/KEY.json`, each written aside and renamed."""

    folder: Path = field(default_factory=lambda: cache_dir() / "tpu")

    def get(self, key: str) -> Compiled | None:
        """The stored answer; None where there is none that can be read."""
        try:
            stored = json.loads(self._path(key).read_bytes())
            return Compiled(**stored["compiled"]) if stored["format"] == _FORMAT else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, compiled: Compiled) -> None:
        """Stores an answer.

        Raises:
            StorageError: the disk is full or fails.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"format": _FORMAT, "compiled": asdict(compiled)}, indent=1)
        write_atomically(self._path(key), text.encode())

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def cache_key(step: Step, *, graph: str, training: Mapping[str, Any], versions: Mapping[str, str]) -> str:
    """A name for a step's answer: equal for points that give the same program.

    Args:
        step: what is compiled.
        graph: the network's hash, see `workbench.costs.graph_hash`.
        training: what else the program depends on (optimizer, loss).
        versions: of the libraries that build and compile it.
    """
    parts = [
        _FORMAT,
        graph,
        dict(training),
        dict(versions),
        step.topology,
        step.batch_size,
        step.precision,
        list(step.image_shape),
        step.num_classes,
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:40]


def read_refusal(text: str) -> tuple[float | None, float | None] | None:
    """Bytes needed and available, from the compiler's words for too little memory; None if it complains otherwise.

    The compiler checks in several places and words it differently; where the sizes are not found they are None.
    """
    for pattern in _REFUSALS:
        found = pattern.search(text)
        if found:
            needed, needed_unit, available, available_unit = found.groups()
            return float(needed) * _UNITS[needed_unit.upper()], float(available) * _UNITS[available_unit.upper()]
    if "RESOURCE_EXHAUSTED" in text or "Ran out of memory" in text:
        return None, None
    return None
