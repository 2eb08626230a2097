"""What a search or a training tells people while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What is known when trials begin to run.

    Attributes:
        study: its directory, for people.
        metric, direction, target: the objective.
        max_trials: how many trials there will be at most; None if only time limits them.
        max_seconds: what the budget allows, or None.
        executions: trainings of each trial.
        finished: trials that an earlier session finished.
        seconds: that earlier sessions spent on them.
        best: their best score.
    """

    study: str
    metric: str
    direction: str
    target: float | None
    max_trials: int | None
    max_seconds: float | None
    executions: int
    finished: int
    seconds: float
    best: float | None


class Display(Protocol):
    """Receives progress; any thread may call any method."""

    def phase(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Preparation: decoding images, exploring the search space."""
        ...

    def begin(self, outlook: Outlook) -> None:
        """Trials are about to run."""
        ...

    def trial_started(self, trial_id: str, epochs: int, already: int) -> None:
        """A trial will be trained up to `epochs` epochs, of which it has `already`."""
        ...

    def step(self, trial_id: str, step: int, steps: int) -> None:
        """So many of an epoch's training steps are done."""
        ...

    def epoch(self, event: dict[str, Any]) -> None:
        """An epoch ended; the journal's event."""
        ...

    def trial_finished(self, row: dict[str, Any]) -> None:
        """A trial ended; its row of the table of trials."""
        ...

    def message(self, text: str) -> None:
        """Something that a person should know."""
        ...

    def close(self) -> None:
        """The work ended; a second call does nothing."""
        ...


class SilentDisplay:
    """Tells nothing."""

    def phase(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Nothing."""

    def begin(self, outlook: Outlook) -> None:
        """Nothing."""

    def trial_started(self, trial_id: str, epochs: int, already: int) -> None:
        """Nothing."""

    def step(self, trial_id: str, step: int, steps: int) -> None:
        """Nothing."""

    def epoch(self, event: dict[str, Any]) -> None:
        """Nothing."""

    def trial_finished(self, row: dict[str, Any]) -> None:
        """Nothing."""

    def message(self, text: str) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""
