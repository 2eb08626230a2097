"""The journal: one JSON object a line, only ever appended to. It is the truth about a study.

A line is written with one system call and synced to the disk before anything that follows from it. A process that is
killed in the middle of a line leaves a torn last line; the next writer cuts it off, keeping the bytes aside. Anything
else that cannot be read is an error that names the line; nothing is overwritten.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic_core import from_json

from workbench.errors import JournalError, StorageError

Event = dict[str, Any]
"""One line: `event` names what happened, the other keys depend on it."""

_BATCH_BYTES = 2**20


def read_journal(path: Path) -> list[Event]:
    """All events, in order; a torn last line is left out.

    Raises:
        JournalError: there is no journal, or a line other than a torn last one cannot be read.
    """
    with paused_collector():
        return list(iterate_journal(path))


def iterate_journal(path: Path, keep: Callable[[bytes], bool] | None = None) -> Iterator[Event]:
    """As `read_journal`, but a large journal is never in memory as a whole.

    Args:
        path: the file.
        keep: which lines to read; the others are passed over unread.

    Raises:
        JournalError: when the iteration gets to a line that cannot be read, or begins without a journal.
    """
    return itertools.chain.from_iterable(_batches(path, keep))


def _batches(path: Path, keep: Callable[[bytes], bool] | None) -> Iterator[list[Event]]:
    """The events, some thousands at a time."""
    try:
        with path.open("rb", buffering=_BATCH_BYTES) as file:
            number = 1
            while lines := file.readlines(_BATCH_BYTES):
                # A writer may be about to finish a torn line: this reader must not take the rest for another.
                is_torn = not lines[-1].endswith(b"\n")
                if is_torn:
                    lines.pop()
                yield _parse(lines if keep is None else list(filter(keep, lines)), path, number)
                if is_torn:
                    return
                number += len(lines)
    except FileNotFoundError:
        raise JournalError(f"{path}: no such journal; the folder is not a study") from None
    except OSError as error:
        raise JournalError(f"{path}: the journal cannot be read ({error})") from error


def _parse(lines: list[bytes], path: Path, first: int) -> list[Event]:
    """One event a line; `first` is the number of the first line."""
    try:
        events = [from_json(line) for line in lines]
        if all(type(event["event"]) is str for event in events):
            return events
    except (ValueError, TypeError, KeyError):
        pass
    # One of them is bad: which?
    for number, line in enumerate((line.removesuffix(b"\n") for line in lines), start=first):
        try:
            event = from_json(line)
        except ValueError as error:
            raise JournalError(_unreadable(path, number, line, str(error))) from error
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            raise JournalError(_unreadable(path, number, line, 'not an object with a key "event"'))
    raise AssertionError(f"{path}: lines {first} to {number} were unreadable, each of them is readable")


@contextlib.contextmanager
def paused_collector() -> Iterator[None]:
    """Keeps Python's cycle collector from walking over millions of events, which have no cycles, again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _unreadable(path: Path, number: int, line: bytes, reason: str) -> str:
    shown = line[:60].decode(errors="replace")
    return (
        f"{path}, line {number}: every line must be one JSON object; received {shown!r} ({reason}). "
        "Nothing was changed: restore the file from a copy, or remove that line if you know what it was"
    )


class Journal:
    """Appends events to a journal file, creating it where there is none.

    Opening it for writing drops a torn last line (its bytes are kept in `journal.torn`). Use as a context
    manager. One writer at a time: the study's lock sees to that.

    Raises:
        JournalError: what is there cannot be read.
        StorageError: the disk is full or fails; what was there is as it was.
    """

    def __init__(self, path: Path):
        self.path = path
        self.events: list[Event] = []
        self._failure: StorageError | None = None
        self._lock = threading.Lock()
        try:
            if path.exists():
                self.events = read_journal(path)
                self._drop_torn_line()
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise StorageError(path, error) from error
        sync_folder(path.parent)

    def _drop_torn_line(self) -> None:
        data = self.path.read_bytes()
        keep = data.rfind(b"\n") + 1
        if keep == len(data):
            return
        with (self.path.parent / "journal.torn").open("ab") as aside:
            aside.write(data[keep:] + b"\n")
            aside.flush()
            os.fsync(aside.fileno())
        with self.path.open("rb+") as journal:
            journal.truncate(keep)
            os.fsync(journal.fileno())

    def append(self, event: str, **fields: Any) -> Event:
        """Writes one event and syncs it to the disk; any thread may call.

        Raises:
            StorageError: the disk is full or fails; what was written of the line is taken back.
        """
        record: Event = {"event": event, **fields}
        line = encode_event(record)
        with self._lock:
            if self._failure is not None:
                raise self._failure
            size = os.fstat(self._file).st_size
            try:
                written = os.write(self._file, line)
                while written < len(line):
                    written += os.write(self._file, line[written:])
                os.fsync(self._file)
            except OSError as error:
                # The line may be half on the disk (a full one): the next append must not be glued to it.
                failure = StorageError(self.path, error)
                try:
                    os.ftruncate(self._file, size)
                except OSError:
                    self._failure = failure
                raise failure from error
            self.events.append(record)
        return record

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def encode_event(event: Mapping[str, Any]) -> bytes:
    """One event as the journal has it: a line of JSON with its line feed."""
    return _ENCODER.encode(event).encode() + b"\n"


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays, paths, tuples and mappings as JSON has them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


_ENCODER = json.JSONEncoder(separators=(",", ":"), default=_plain)


def write_atomically(path: Path, data: bytes | memoryview) -> None:
    """Replaces a file as a whole: written aside, synced, renamed; a crash leaves the old file or the new one.

    Raises:
        StorageError: the disk is full or fails; the old file is as it was.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with aside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise StorageError(path, error) from error
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes renames and new files in a folder durable, where the file system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
