"""What the journal says about trials: events folded into one state a trial, and its row of the table of trials."""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.errors import JournalError
from workbench.journal import Event
from workbench.oracles.protocol import Direction, Outcome, Record, Value
from workbench.summaries import plain, summarise


class Status(enum.StrEnum):
    """A trial's status, the column `status`."""

    RUNNING = "running"
    """Being trained now."""
    COMPLETED = "completed"
    """Trained for all of its epochs; an unpromoted rung of Hyperband is completed too."""
    STOPPED = "stopped"
    """Ended early on purpose; `error` says why."""
    FAILED = "failed"
    """Ended by an error; `error` says which."""
    INTERRUPTED = "interrupted"
    """Not finished, and no process is training it; the search's command resumes it."""


TRIAL_COLUMNS = (
    "trial_id",
    "status",
    "score",
    "score_std",
    "last_score",
    "best_epoch",
    "epochs",
    "bracket",
    "rung",
    "parameters",
    "flops",
    "mxu_fill",
    "seconds",
    "step_ms",
    "images_per_s",
    "device",
    "replicas",
    "seed",
    "started_at",
    "error",
)
"""The table of trials before its `hp.<name>` columns."""


@dataclass
class Execution:
    """One training of a trial from one seed.

    Attributes:
        epochs: the epoch events that count, by epoch (from 1); a later attempt replaced earlier ones.
        checkpoint: the last journaled checkpoint event, or None.
    """

    seed: int
    epochs: dict[int, Event] = field(default_factory=dict)
    checkpoint: Event | None = None

    def metric(self, name: str, until: int | None = None) -> list[tuple[int, float]]:
        """(epoch, value) for each epoch (up to `until`) that has the metric."""
        # A copy, as another worker's thread may be adding an epoch.
        return [
            (epoch, float(event["metrics"][name]))
            for epoch, event in list(self.epochs.items())
            if name in event["metrics"] and (until is None or epoch <= until)
        ]


@dataclass
class Trial:
    """Everything that the journal says about one trial.

    Attributes:
        values: the active hyperparameters by full name.
        target_epochs: what the current proposal trains it to, in total.
        journaled_score: of its last result, None before; `score` says the same of completed trials.
    """

    trial_id: str
    values: dict[str, Value]
    target_epochs: int
    started_at: str
    status: Status = Status.RUNNING
    bracket: int | None = None
    rung: int | None = None
    parameters: int | None = None
    flops: int | None = None
    mxu_fill: float | None = None
    graph: str | None = None
    device: str | None = None
    replicas: int | None = None
    error: str | None = None
    executions: dict[int, Execution] = field(default_factory=dict)
    journaled_score: float | None = None

    @property
    def epochs(self) -> int:
        """How many epochs it has been trained for: the most that one of its executions has."""
        return max((max(item.epochs, default=0) for item in self.executions.values()), default=0)

    def score(self, metric: str, direction: Direction, until: int | None = None) -> float | None:
        """The mean over executions of the metric at each one's best epoch, or None if there is no value."""
        pick = max if direction == "max" else min
        best = []
        for execution in self.executions.values():
            values = [value for _, value in execution.metric(metric, until) if math.isfinite(value)]
            if values:
                best.append(pick(values))
        return statistics.fmean(best) if best else None

    def row(self, metric: str, direction: Direction, until: int | None = None) -> dict[str, Any]:
        """This trial's row of the table of trials, None where a value is missing; see `trial_columns`."""
        columns = trial_columns([self], metric, direction, until)
        return {
            **{name: plain(column[0]) for name, column in columns.items()},
            **{f"hp.{name}": value for name, value in self.values.items()},
        }


def trial_columns(
    trials: Sequence[Trial], metric: str, direction: Direction, until: int | None = None
) -> dict[str, Sequence[Any]]:
    """`TRIAL_COLUMNS` of some trials; None or NaN where a value is missing.

    Args:
        trials: in the order of the rows.
        metric, direction: the objective.
        until: look at the first so many epochs only (but for `epochs`, which has all).
    """
    numbers = summarise(trials, metric, direction, until)
    has_score = np.array([trial.status is not Status.FAILED for trial in trials], bool)
    best_epoch = np.where(has_score & (numbers.best_epoch > 0), numbers.best_epoch, np.nan)
    firsts = [next(iter(trial.executions.values()), None) for trial in trials]
    columns: dict[str, Any] = {
        "trial_id": [trial.trial_id for trial in trials],
        "status": [trial.status.value for trial in trials],
        "score": np.where(has_score, numbers.score, np.nan),
        "score_std": np.where(has_score, numbers.score_std, np.nan),
        "last_score": numbers.last_score,
        "best_epoch": [None if epoch != epoch else int(epoch) for epoch in best_epoch.tolist()],
        "seconds": numbers.seconds,
        "step_ms": numbers.step_ms,
        "images_per_s": numbers.images_per_s,
        "seed": [first.seed if first else None for first in firsts],
    }
    for name in TRIAL_COLUMNS:
        if name not in columns:
            columns[name] = [getattr(trial, name) for trial in trials]
    return {name: columns[name] for name in TRIAL_COLUMNS}


@dataclass
class History:
    """A whole journal, folded.

    Attributes:
        header: the first event, `study`.
        definition: the resolved definition in force.
        sessions: one event for each time that a search ran on the study.
        space: the last `space` event: data facts, space configuration, objective, direction.
        trials: by trial_id, in order of first proposal.
        records: every proposal in order, as oracles see them.
        rejections: one event for each point that was outside the constraints.
        finished: the last `finished` event, if nothing happened after it.
        progress: the `epoch` and `result` events in journal order, those of discarded attempts included.
    """

    header: Event = field(default_factory=dict)
    definition: dict[str, Any] = field(default_factory=dict)
    sessions: list[Event] = field(default_factory=list)
    space: Event = field(default_factory=dict)
    trials: dict[str, Trial] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    rejections: list[Event] = field(default_factory=list)
    finished: Event | None = None
    progress: list[Event] = field(default_factory=list)

    @property
    def metric(self) -> str:
        """The objective's metric."""
        return str(self.space.get("metric", "val_accuracy"))

    @property
    def direction(self) -> Direction:
        """The objective's direction."""
        return "min" if self.space.get("direction") == "min" else "max"

    @property
    def seconds(self) -> float:
        """Seconds spent in training and validation so far, discarded attempts included."""
        return self._seconds

    def apply(self, event: Event) -> None:
        """Takes one more event; unknown ones are passed over."""
        handle = _HANDLERS.get(event["event"])
        if handle is not None:
            handle(self, event)

    @property
    def epochs(self) -> int:
        """Epochs trained so far, discarded attempts included."""
        return self._epochs

    _seconds: float = 0.0
    _epochs: int = 0
    _open_records: dict[str, int] = field(default_factory=dict)


def fold(events: Iterable[Event]) -> History:
    """Derives the state of a study from its journal's events, one a line.

    Raises:
        JournalError: an event lacks a key or has a value of the wrong type; names the line, but not the file.
    """
    history = History()
    number = 0
    event: Event = {}
    try:
        for event in events:
            number += 1
            name = event["event"]
            # Most events are epochs, and to find their handler takes as long as it does.
            handle = _on_epoch if name == "epoch" else _HANDLERS.get(name)
            if handle is not None:
                handle(history, event)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"no such key or trial: {error}" if isinstance(error, KeyError) else str(error)
        raise JournalError(
            f"line {number}: the event {str(event.get('event'))!r} must have the keys and types of this version's "
            f"journals ({reason}); received {str(event)[:200]}. Nothing was changed: restore the file from a copy, or "
            "remove that line if you know what it was"
        ) from error
    return history


def _on_study(history: History, event: Event) -> None:
    if history.header:
        raise ValueError("a journal has one study event, its first")
    history.header = event
    history.definition = _mapping(event.get("definition", {}), "definition")


def _on_definition(history: History, event: Event) -> None:
    history.definition = _mapping(event["definition"], "definition")


def _on_session(history: History, event: Event) -> None:
    history.sessions.append(event)
    history.finished = None


def _on_space(history: History, event: Event) -> None:
    history.space = event


def _on_proposal(history: History, event: Event) -> None:
    trial_id = event["trial_id"]
    if not isinstance(trial_id, str):
        raise TypeError(f"trial_id must be a text; received {trial_id!r}")
    trial = history.trials.get(trial_id)
    if trial is None:
        trial = Trial(trial_id, dict(event["values"]), int(event["epochs"]), str(event["at"]))
        trial.graph = event.get("graph")
        history.trials[trial_id] = trial
    trial.status = Status.RUNNING
    trial.target_epochs = int(event["epochs"])
    trial.bracket, trial.rung = _count(event, "bracket"), _count(event, "rung")
    history._open_records[trial_id] = len(history.records)
    history.records.append(
        Record(
            trial_id=trial_id,
            values=trial.values,
            epochs=trial.target_epochs,
            outcome=Outcome.RUNNING,
            bracket=trial.bracket,
            rung=trial.rung,
        )
    )


def _on_rejected(history: History, event: Event) -> None:
    history.rejections.append(event)
    history.records.append(Record(trial_id="", values=event["values"], epochs=0, outcome=Outcome.REJECTED))


def _on_attempt(history: History, event: Event) -> None:
    trial, seed = history.trials[event["trial_id"]], _count(event, "seed")
    if seed is None:
        raise TypeError("seed must be a whole number; received None")
    execution = trial.executions.setdefault(int(event["execution"]), Execution(seed))
    execution.epochs = {epoch: kept for epoch, kept in execution.epochs.items() if epoch <= int(event["from_epoch"])}
    trial.device, trial.replicas = event.get("device"), _count(event, "replicas")


def _on_model(history: History, event: Event) -> None:
    trial = history.trials[event["trial_id"]]
    trial.parameters, trial.flops = _count(event, "parameters"), _count(event, "flops")
    trial.mxu_fill = event.get("mxu_fill")


def _on_epoch(history: History, event: Event) -> None:
    history.trials[event["trial_id"]].executions[event["execution"]].epochs[event["epoch"]] = event
    if type(event["metrics"]) is not dict or type(event["epoch"]) is not int:
        raise TypeError("metrics must be an object and epoch a whole number")
    # What tables are made of: a sum of numbers is the quickest way to see that they are.
    event.get("step_ms", 0.0) + event.get("images_per_s", 0.0) + event.get("learning_rate", 0.0)
    history._seconds += event["seconds"]
    history._epochs += 1
    history.progress.append(event)


def _mapping(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be an object; received {value!r}")
    return value


def _count(event: Event, name: str) -> int | None:
    value = event.get(name)
    if value is not None and (type(value) is not int or not 0 <= value < 2**63):
        raise TypeError(f"{name} must be a whole number or null; received {value!r}")
    return value


def _on_checkpoint(history: History, event: Event) -> None:
    history.trials[event["trial_id"]].executions[int(event["execution"])].checkpoint = event


def _on_result(history: History, event: Event) -> None:
    trial = history.trials[event["trial_id"]]
    trial.status = Status(event["status"])
    trial.error = event.get("error")
    score = event.get("score")
    trial.journaled_score = None if score is None else float(score)
    history.progress.append(event)
    position = history._open_records.pop(trial.trial_id)
    opened = history.records[position]
    history.records[position] = Record(
        trial_id=opened.trial_id,
        values=opened.values,
        epochs=opened.epochs,
        outcome=Outcome(event["status"]),
        score=event.get("score"),
        bracket=opened.bracket,
        rung=opened.rung,
    )


def _on_finished(history: History, event: Event) -> None:
    history.finished = event


_HANDLERS: Mapping[str, Any] = {
    "study": _on_study,
    "definition": _on_definition,
    "session": _on_session,
    "space": _on_space,
    "proposal": _on_proposal,
    "rejected": _on_rejected,
    "attempt": _on_attempt,
    "model": _on_model,
    "epoch": _on_epoch,
    "checkpoint": _on_checkpoint,
    "result": _on_result,
    "finished": _on_finished,
}
