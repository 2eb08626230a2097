"""A study's directory: its files, its lock, and how it is begun or resumed."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock

from workbench.errors import JournalError, StorageError, StudyChangedError, StudyError, StudyLockedError, near_names
from workbench.journal import (
    Event,
    Journal,
    iterate_journal,
    paused_collector,
    read_journal,
    write_atomically,
)
from workbench.trials import History, fold

if TYPE_CHECKING:
    from workbench.definition import Definition

FORMAT = 1
"""The version of the journal's format, in its first event."""


def now() -> str:
    """The time, in UTC, as journals have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class StudyDirectory:
    """The files of one study.

    Attributes:
        path: the directory.
        journal: `journal.jsonl`, the truth.
        definition: `definition.json`, a readable copy of the definition in force.
        checkpoints: `checkpoints/TRIAL/`, weights and optimizer states.
        worker_log: what worker processes printed.
    """

    def __init__(self, path: Path):
        self.path = path
        self.journal = path / "journal.jsonl"
        self.definition = path / "definition.json"
        self.checkpoints = path / "checkpoints"
        self.worker_log = path / "worker.log"
        self._lock = path / ".lock"
        self._made_parents: list[Path] = []

    def checkpoint_dir(self, trial_id: str) -> Path:
        """Where a trial's checkpoints are."""
        return self.checkpoints / trial_id

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Holds the study for this process, creating the directory where there is none.

        Raises:
            StudyLockedError: another process holds it.
            StudyError: the folder has files and is not a study, or cannot be made.
            StorageError: the disk is full or fails.
        """
        self._check_is_ours()
        self._made_parents = [parent for parent in self.path.parents if not parent.exists()]
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # A reader that looks whether the study runs holds the lock for a moment.
            lock = filelock.FileLock(self._lock, timeout=1)
            lock.acquire()
        except filelock.Timeout:
            raise StudyLockedError(
                f"{self.path}: one process runs a study; {self._holder()} runs this one. Wait for it, stop it, or "
                "start another study (search and train take --study NAME)"
            ) from None
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
                raise StorageError(self.path, error) from error
            raise StudyError(f"{self.path}: the study's folder cannot be written ({error})") from error
        try:
            yield
        finally:
            lock.release()

    def is_running(self) -> bool:
        """Whether a process holds the lock now."""
        if not self._lock.exists():
            return False
        lock = filelock.FileLock(self._lock, timeout=0)
        try:
            with lock:
                return False
        except filelock.Timeout:
            return True
        except OSError:
            # A read-only copy of a study: nothing runs there.
            return False

    def check(self, definition: Definition) -> None:
        """Compares a definition with the one of the study, if there is a study.

        Raises:
            StudyChangedError: it differs in more than its budget and target.
            JournalError: the journal cannot be read.
        """
        if self.journal.exists() and (events := read_journal(self.journal)):
            self._check_definition(stored_definition(events, self.journal), definition)

    def _check_definition(self, stored: dict[str, Any], definition: Definition) -> None:
        from workbench.definition import definition_from_dict, differences

        changes = differences(definition_from_dict(stored, str(self.definition)), definition)
        if changes:
            raise StudyChangedError(_changed(self.path, changes))

    def discard(self) -> None:
        """Removes a folder that holds no study yet, and those that were made for it; needs the lock."""
        for path in (self.worker_log, self._lock):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        with contextlib.suppress(OSError):
            for folder in (self.path, *self._made_parents):
                folder.rmdir()

    def begin(self, definition: Definition) -> Journal:
        """Opens the journal for writing: a new one, or a resumed one with the same definition. Needs the lock.

        Raises:
            StudyChangedError: the study was made with a definition that differs in more than its budget.
            JournalError: the journal cannot be read, or is of a later format.
        """
        journal = Journal(self.journal)
        try:
            resolved = definition.resolved()
            if not journal.events:
                journal.append("study", format=FORMAT, created_at=now(), definition=resolved)
            stored = stored_definition(journal.events, self.journal)
            if stored != resolved:
                self._check_definition(stored, definition)
                journal.append("definition", at=now(), definition=resolved)
            write_atomically(self.definition, json.dumps(resolved, indent=1).encode() + b"\n")
        except BaseException:
            journal.close()
            raise
        return journal

    def events(self, keep: Callable[[bytes], bool] | None = None) -> Iterator[Event]:
        """The journal's events one by one, for reading; `keep` says which lines, see `iterate_journal`.

        Raises:
            StudyError: no such study, with the near ones; later, that a line of its journal cannot be read.
        """
        if not _is_file(self.journal):
            raise StudyError(_no_study(self.path))
        events = iterate_journal(self.journal, keep)
        first = list(itertools.islice(events, 1))
        if first:
            _check_first(first[0], self.journal)
        return itertools.chain(first, events)

    def history(self, keep: Callable[[bytes], bool] | None = None) -> History:
        """What the journal says about the study; `keep` says which of its lines are read.

        Raises:
            StudyError: no such study, with the near ones, or its journal cannot be read.
        """
        try:
            with paused_collector():
                history = fold(self.events(keep))
        except JournalError as error:
            text = str(error)
            raise JournalError(text if str(self.journal) in text else f"{self.journal}, {text}") from error
        if not history.header:
            _check_first({}, self.journal)
        return history

    def _check_is_ours(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise StudyError(f"{self.path}: a study is a folder; this is a file. Name another with --study NAME")
        if self.path.is_dir() and not self.journal.exists():
            # A process that was killed while it prepared leaves these two.
            own = {self._lock.name, self.worker_log.name}
            strangers = sorted(item.name for item in self.path.iterdir() if item.name not in own)
            if strangers:
                raise StudyError(
                    f"{self.path}: the folder must be empty or a study; it has {', '.join(strangers[:3])} and no "
                    "journal.jsonl. Name another with --study NAME"
                )

    def _holder(self) -> str:
        with contextlib.suppress(JournalError, OSError):
            sessions = [event for event in read_journal(self.journal) if event["event"] == "session"]
            if sessions:
                last = sessions[-1]
                return f"process {last['pid']} on {last['host']} (since {last['at']})"
        return "another process"


def process_facts() -> dict[str, Any]:
    """Who runs a session: process and host."""
    return {"pid": os.getpid(), "host": socket.gethostname()}


def stored_definition(events: list[Event], path: Path) -> dict[str, Any]:
    """The resolved definition in force, from a journal's events.

    Raises:
        JournalError: the journal does not begin like one, or is of a later format.
    """
    _check_first(events[0] if events else {}, path)
    latest = [event for event in events if event["event"] in ("study", "definition")]
    return dict(latest[-1]["definition"])


def _check_first(first: Event, path: Path) -> None:
    """Raises JournalError unless a journal's first event is of a study, and of this format."""
    if first.get("event") != "study" or "definition" not in first:
        found = json.dumps(first)[:80] if first else "an empty file"
        raise JournalError(
            f"{path}, line 1: a journal must begin with a study event that has a definition; received {found}. It is "
            "another program's file or damaged: restore it from a copy, or move the folder away"
        )
    if first.get("format") != FORMAT:
        raise JournalError(
            f"{path}: this version reads journals of format {FORMAT}; received {first.get('format')!r}. "
            "Use the version of the workbench that wrote it"
        )


def list_studies(folder: Path) -> list[StudyDirectory]:
    """The studies in a folder, by name."""
    if not folder.is_dir():
        return []
    return [StudyDirectory(path.parent) for path in sorted(folder.glob("*/journal.jsonl"))]


def _changed(path: Path, changes: list[str]) -> str:
    lines = "\n".join(f"  - {change}" for change in changes)
    return (
        f"{path}: a study keeps its definition (budgets and target may change); this one differs:\n{lines}\n"
        "Start another study with --study NAME, or undo the change"
    )


def _is_file(path: Path) -> bool:
    """Whether there is such a file; a name too long for one is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def _no_study(path: Path) -> str:
    others = [study.path.name for study in list_studies(path.parent) if study.path.name != path.name]
    hint = near_names(path.name, others)
    if not hint and others:
        hint = f" There are: {', '.join(others)}."
    return f"{path}: no such study (a folder with a journal.jsonl).{hint or ' `workbench search` makes one.'}"
