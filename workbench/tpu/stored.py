"""A study's file of TPU verdicts, `tpu.jsonl`: one JSON object a line, only ever appended to.

It is apart from the journal because the journal has one writer, which may be running while a person checks trials.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from workbench.errors import StorageError
from workbench.journal import encode_event

FILE = "tpu.jsonl"

COLUMNS = ("tpu.topology", "tpu.peak_gib", "tpu.gflop", "tpu.mxu_fill")
"""What the table of trials shows of it."""


def append_verdict(study: Path, verdict: Mapping[str, Any]) -> None:
    """Appends one trial's verdict, in one write.

    Raises:
        StorageError: the disk is full or fails.
    """
    path = study / FILE
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(file).st_size
            # A process that was killed while it wrote may have left half a line.
            glue = b"\n" if size and os.pread(file, 1, size - 1) != b"\n" else b""
            os.write(file, glue + encode_event(verdict))
            os.fsync(file)
        finally:
            os.close(file)
    except OSError as error:
        raise StorageError(path, error) from error


def read_verdicts(study: Path) -> dict[str, dict[str, Any]]:
    """The columns by trial_id: those of the topology and batch that were checked last, so that rows compare.

    Lines that cannot be read are passed over: the verdicts can be had again.
    """
    try:
        lines = (study / FILE).read_bytes().splitlines()
    except OSError:
        return {}
    rows = [row for row in map(_read_line, lines) if row is not None]
    if not rows:
        return {}
    last = (rows[-1]["topology"], rows[-1]["batch_size_per_replica"], rows[-1].get("precision"))
    return {
        row["trial_id"]: {
            "tpu.topology": row["topology"],
            "tpu.peak_gib": row.get("peak_gib"),
            "tpu.gflop": row.get("gflop"),
            "tpu.mxu_fill": row.get("mxu_fill"),
        }
        for row in rows
        if (row["topology"], row["batch_size_per_replica"], row.get("precision")) == last
    }


def _read_line(line: bytes) -> dict[str, Any] | None:
    try:
        row = from_json(line)
    except ValueError:
        return None
    keys = ("trial_id", "topology", "batch_size_per_replica")
    return row if isinstance(row, dict) and all(key in row for key in keys) else None
