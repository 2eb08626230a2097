"""What the benchmarks share: the machine, the versions, CSV files, the last line."""

from __future__ import annotations

import csv
import importlib.metadata
import json
import os
import platform
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FLAGS = {"TF_ENABLE_ONEDNN_OPTS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
"""What the workbench sets for its workers on a CPU, for peers that get the same."""


def hardware() -> str:
    """The processor, as the system names it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} x {names[0] if names else platform.processor() or platform.machine()}"


def versions(*packages: str) -> dict[str, str]:
    """Of Python and of those packages that are installed."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def announce(*packages: str) -> None:
    """Prints what the figures depend on."""
    load = f"; load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{hardware()}{load}; {json.dumps(versions(*packages))}", flush=True)


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median, least and greatest, for people."""
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def write_csv(rows: Iterable[Mapping[str, Any]], path: Path | None) -> None:
    """One line a row; nothing without a path."""
    listed = list(rows)
    if path is None or not listed:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(listed[0]))
        writer.writeheader()
        writer.writerows(listed)
    print(f"{len(listed)} rows written to {path}", file=sys.stderr)
