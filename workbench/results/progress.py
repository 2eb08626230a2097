"""What a search had found by when."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

import pandas as pd

from workbench.trials import Status

if TYPE_CHECKING:
    from workbench.journal import Event
    from workbench.trials import History

AXES = ("trials", "epochs", "seconds")
"""What progress is measured against."""


def best_so_far(history: History, against: str) -> pd.DataFrame:
    """The table that `Study.best_so_far` describes; `against` is one of `AXES`."""
    candidates = _Candidates(history)
    metric, sign = history.metric, 1 if history.direction == "max" else -1
    # With one execution a trial, a value that is no better than the best is no better score: no need to look further.
    is_simple = all(len(trial.executions) == 1 for trial in history.trials.values())
    seen: set[str] = set()
    epochs, seconds = 0, 0.0
    best, best_id = math.nan, None
    rows = []
    for event in history.progress:
        seen.add(event["trial_id"])
        is_epoch = event["event"] == "epoch"
        if is_epoch:
            epochs += 1
            seconds += event["seconds"]
            value = event["metrics"].get(metric)
            is_idle = is_simple and value is not None and sign * value <= sign * best
            score = None if is_idle else candidates.score_after(event)
            if score is not None and not sign * score <= sign * best:
                best, best_id = score, event["trial_id"]
        if is_epoch != (against == "trials"):
            rows.append((len(seen), epochs, seconds, best_id, best))
    frame = pd.DataFrame(rows, columns=[*AXES, "trial_id", "best"])
    return frame.astype({"trials": "int64", "epochs": "int64", "seconds": "float64", "best": "float64"})


class _Candidates:
    """The scores that completed trials had after each of their epochs."""

    def __init__(self, history: History):
        self._metric = history.metric
        self._pick = max if history.direction == "max" else min
        self._trials = {key: trial for key, trial in history.trials.items() if trial.status is Status.COMPLETED}
        self._best: dict[str, dict[int, float]] = {}

    def score_after(self, event: Event) -> float | None:
        """The mean over the trial's executions of the best until this epoch; None unless all have a value."""
        trial = self._trials.get(event["trial_id"])
        value = event["metrics"].get(self._metric)
        if trial is None or value is None or not math.isfinite(value):
            return None
        number = event["execution"]
        if trial.executions[number].epochs.get(event["epoch"]) is not event:
            # Of an attempt that was superseded.
            return None
        if len(trial.executions) == 1:
            return float(value)
        best = self._best.setdefault(trial.trial_id, {})
        best[number] = self._pick(value, best.get(number, value))
        return statistics.fmean(best.values()) if len(best) == len(trial.executions) else None
