"""What data set plugins share: options, finding files, signatures, decoding in parallel."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from workbench.errors import DataError, near_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

Item = TypeVar("Item")
Result = TypeVar("Result")

DATA_VARIABLE = "WORKBENCH_DATA"
"""The environment variable that names the data folder where no `--data-dir` does."""

CHUNK = 512
"""Examples decoded together: bounds the memory and is the step of the progress display."""

_TASK = 16


def choice(options: Mapping[str, Any], key: str, allowed: Sequence[str], default: str) -> str:
    """The value of an option that takes one of a few words.

    Raises:
        DataError: another value; the message names those allowed.
    """
    value = options.get(key, default)
    if value not in allowed:
        raise DataError(
            f"dataset.{key} must be one of {', '.join(map(repr, allowed))}; received {value!r}."
            + near_names(str(value), allowed)
        )
    return str(value)


def names(options: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    """The value of an option that takes a list of distinct class names, or None where it is not given.

    Raises:
        DataError: anything else.
    """
    value = options.get(key)
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not value or not all(isinstance(name, str) for name in value):
        raise DataError(f"dataset.{key} must be a list of names; received {value!r}")
    if len(set(value)) != len(value):
        raise DataError(f"dataset.{key} must be distinct names; received {value!r}")
    return tuple(value)


def existing(data_dir: Path | None, dataset: str) -> Path:
    """The data folder or file, checked.

    Raises:
        DataError: none was given, or it does not exist.
    """
    if data_dir is None:
        raise DataError(
            f"data set {dataset!r} reads files and no folder was given: pass --data-dir FOLDER or set WORKBENCH_DATA"
        )
    if not data_dir.exists():
        raise DataError(f"data set {dataset!r}: the data folder {data_dir} does not exist")
    return data_dir


def files_matching(folder: Path, pattern: str) -> list[Path]:
    """The files of a folder that match a glob, by name; hidden ones and folders left out."""
    return sorted(path for path in folder.glob(pattern) if path.is_file() and not path.name.startswith("."))


def contents(folder: Path) -> str:
    """What a folder holds, short enough for a message."""
    if not folder.is_dir():
        return f"{folder} is no folder"
    found = sorted(path.name + ("/" if path.is_dir() else "") for path in folder.iterdir())
    if not found:
        return f"{folder} is empty"
    more = f" and {len(found) - 6} more" if len(found) > 6 else ""
    return f"{folder} holds {', '.join(found[:6])}{more}"


def signature(files: Iterable[Path], *settings: Any) -> str:
    """A signature of files by path, size and modification time, and of what else decides what is read."""
    states = [(str(path.resolve()), status.st_size, status.st_mtime_ns) for path, status in _statuses(files)]
    return hashlib.sha256(json.dumps([states, settings]).encode()).hexdigest()


def _statuses(files: Iterable[Path]) -> Iterator[tuple[Path, os.stat_result]]:
    for path in files:
        try:
            yield path, path.stat()
        except OSError as error:
            raise DataError(f"{path} cannot be read ({error.strerror})") from error


def map_in_order(
    function: Callable[[Item], Result], chunks: Iterable[Sequence[Item]]
) -> Iterator[tuple[Sequence[Item], list[Result]]]:
    """Applies a function to the items of each chunk in threads; gives each chunk and its results, in order.

    Pillow decodes without holding Python's lock. The next chunk is worked on while the caller takes the last.
    """
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        pending: tuple[Sequence[Item], Iterator[list[Result]]] | None = None
        for chunk in chunks:
            # Several items a task: handing over a thumbnail takes as long as decoding it.
            tasks = [chunk[start : start + _TASK] for start in range(0, len(chunk), _TASK)]
            following = chunk, pool.map(lambda items: [function(item) for item in items], tasks)
            if pending is not None:
                yield pending[0], list(itertools.chain.from_iterable(pending[1]))
            pending = following
        if pending is not None:
            yield pending[0], list(itertools.chain.from_iterable(pending[1]))
