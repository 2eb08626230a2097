"""A study while it runs: its journal and the state derived from it, kept in step."""

from __future__ import annotations

import threading
from typing import Any

from workbench.journal import Event, Journal
from workbench.trials import History, fold


class StudyLog:
    """Appends events to the journal, then applies them to the history; any thread may call.

    Attributes:
        history: what the journal says so far; read it, change it through `append` only.
    """

    def __init__(self, journal: Journal):
        self._journal = journal
        self._lock = threading.Lock()
        self.history: History = fold(journal.events)

    def append(self, event: str, **fields: Any) -> Event:
        """Writes an event to the disk and applies it."""
        with self._lock:
            record = self._journal.append(event, **fields)
            self.history.apply(record)
        return record
