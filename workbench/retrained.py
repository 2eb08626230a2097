"""Which retrainings a confirmation holds: its place, its candidates, their scores. Imports no pandas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.directory import StudyDirectory
from workbench.trials import History, Status, Trial, fold

if TYPE_CHECKING:
    from workbench.journal import Event
    from workbench.oracles.protocol import Direction, Value

FOLDER = "confirm"
"""The confirmation's own folder in a study's."""


def confirmation_directory(study: Path) -> StudyDirectory:
    """Where a study's confirmation is, or would be: a study, too."""
    return StudyDirectory(study / FOLDER)


def point_key(values: Mapping[str, Value]) -> str:
    """Equal for equal points, whatever the order of their names."""
    return json.dumps(dict(values), sort_keys=True)


def asked_candidates(events: Sequence[Event]) -> dict[str, dict[str, Value]]:
    """The search's trials that a confirmation retrains -> their hyperparameters, in the order of their choice."""
    found = [event for event in events if event["event"] == "candidates"]
    return {item["trial_id"]: item["values"] for item in found[-1]["candidates"]} if found else {}


def asked_seeds(events: Sequence[Event]) -> int:
    """How many retrainings of each candidate were asked for last; 0 before anything was."""
    found = [event for event in events if event["event"] == "candidates"]
    return int(found[-1]["seeds"]) if found else 0


def runs_by_candidate(events: Sequence[Event], history: History) -> dict[str, list[Trial]]:
    """Candidates -> their retrainings, in order."""
    names = {point_key(values): trial_id for trial_id, values in asked_candidates(events).items()}
    runs: dict[str, list[Trial]] = {trial_id: [] for trial_id in names.values()}
    for run in history.trials.values():
        runs[names[point_key(run.values)]].append(run)
    return runs


def confirmed_scores(place: StudyDirectory) -> dict[str, list[float]]:
    """The search's trials -> validation scores over the new seeds; only those that have one."""
    events = list(place.events())
    history = fold(events)
    runs = runs_by_candidate(events, history)
    scores = {trial_id: validation_scores(own, history.metric, history.direction) for trial_id, own in runs.items()}
    return {trial_id: found for trial_id, found in scores.items() if found}


def validation_scores(runs: Sequence[Trial], metric: str, direction: Direction) -> list[float]:
    """The objective at each completed retraining's best epoch."""
    completed = [run for run in runs if run.status is Status.COMPLETED]
    return [score for run in completed if (score := run.score(metric, direction)) is not None]
