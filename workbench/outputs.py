"""Files that a person asks for with --output: written whole or not at all, and never over a study's own."""

from __future__ import annotations

from pathlib import Path

from workbench.errors import OutputError, StorageError, UsageError
from workbench.journal import write_atomically

_OWN = (
    "journal.jsonl",
    "journal.torn",
    "definition.json",
    "tpu.jsonl",
    "worker.log",
    ".lock",
    "checkpoints",
    "confirm",
)
"""Files and folders of a study."""


def check_output(path: Path, option: str = "--output", example: str = "table.csv") -> Path:
    """Where to write for a path that was asked for: behind links, in a folder that is there now.

    Raises:
        UsageError: a folder, a study's own file, or in a folder that cannot be made.
    """
    if path.is_dir():
        raise UsageError(f"{option} must be a file; received {path}, a folder. Name a file in it: {path / example}")
    place = path.resolve()
    if _is_of_study(place):
        raise UsageError(f"{option} must not be a file of a study; received {path}. Name a file outside of the study")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{option} must be in a folder that is there or can be made; received {path} ({error.strerror})"
        ) from error
    return place


def _is_of_study(place: Path) -> bool:
    if place.name in _OWN and (place.parent / "journal.jsonl").exists():
        return True
    return any(parent.name in _OWN and (parent.parent / "journal.jsonl").exists() for parent in place.parents)


def write_output(path: Path, data: bytes, option: str = "--output") -> None:
    """Replaces a file as a whole; a device or pipe is written to.

    Raises:
        UsageError: see `check_output`; or there is no permission.
        OutputError: the disk is full or fails; an old file is as it was.
    """
    place = check_output(path, option)
    try:
        if place.exists() and not place.is_file():
            with place.open("wb") as stream:
                stream.write(data)
        else:
            write_atomically(place, data)
    except PermissionError as error:
        raise UsageError(f"{option} must be a place that can be written; received {path} ({error.strerror})") from error
    except OSError as error:
        raise OutputError(path, error) from error
    except StorageError as error:
        if isinstance(error.__cause__, PermissionError):
            raise UsageError(
                f"{option} must be a place that can be written; received {path} ({error.reason})"
            ) from error
        raise OutputError(path, error.reason) from error
