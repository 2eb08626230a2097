"""The numbers of the table of trials, for many trials at once: a hundred thousand of them take seconds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from workbench.journal import Event
    from workbench.oracles.protocol import Direction
    from workbench.trials import Trial

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Summary:
    """One value a trial in each array, shape (trials,); NaN, and 0 for epochs, where there is none.

    Attributes:
        score, score_std: mean and sample standard deviation over executions of the objective at each one's best epoch.
        last_score: mean over executions of the objective at the last epoch.
        best_epoch: the best epoch (from 1) of the best execution, the first one on a tie.
        seconds: of training and validation.
        step_ms, images_per_s: medians over epochs.
    """

    score: Floats
    score_std: Floats
    last_score: Floats
    best_epoch: Ints
    seconds: Floats
    step_ms: Floats
    images_per_s: Floats


@dataclass(frozen=True)
class _Epochs:
    """Every epoch of the trials, in order: shape (epochs,) but for `trial_of_run`, shape (executions,)."""

    events: list[Event]
    number: Ints
    run: Ints
    trial: Ints
    trial_of_run: Ints


def summarise(trials: Sequence[Trial], metric: str, direction: Direction, until: int | None = None) -> Summary:
    """The numbers that follow from the trials' epochs; `until` looks at the first epochs only."""
    epochs = _gather(trials, until)
    count = len(trials)
    is_first = np.array([bool(event.get("first")) for event in epochs.events], bool)
    # The first epoch of an attempt holds the tracing of the graph; it says nothing of a step.
    has_steady = np.zeros(count, bool)
    has_steady[epochs.trial[~is_first]] = True
    counts = ~is_first | ~has_steady[epochs.trial]

    def median(name: str) -> Floats:
        values = np.array([event.get(name) for event in epochs.events], float)
        return _medians(values[counts], epochs.trial[counts], count)

    seconds = np.array([event["seconds"] for event in epochs.events], np.float64)
    score, deviation, last, best_epoch = _scores(epochs, count, metric, direction)
    return Summary(
        score=score,
        score_std=deviation,
        last_score=last,
        best_epoch=best_epoch,
        seconds=np.bincount(epochs.trial, seconds, count).astype(np.float64),
        step_ms=median("step_ms"),
        images_per_s=median("images_per_s"),
    )


def _gather(trials: Sequence[Trial], until: int | None) -> _Epochs:
    events: list[Event] = []
    numbers: list[int] = []
    lengths: list[int] = []
    owners: list[int] = []
    for index, trial in enumerate(trials):
        for execution in trial.executions.values():
            # A copy, as another worker's thread may be adding an epoch.
            kept = dict(execution.epochs)
            if until is not None:
                kept = {epoch: event for epoch, event in kept.items() if epoch <= until}
            events += kept.values()
            numbers += kept
            lengths.append(len(kept))
            owners.append(index)
    trial_of_run = np.array(owners, np.int64)
    run = np.repeat(np.arange(len(owners)), np.array(lengths, np.int64))
    return _Epochs(events, np.array(numbers, np.int64), run, trial_of_run[run], trial_of_run)


def _scores(epochs: _Epochs, count: int, metric: str, direction: Direction) -> tuple[Floats, Floats, Floats, Ints]:
    """Score, its deviation, last score and best epoch of each trial."""
    sign = 1 if direction == "max" else -1
    runs = len(epochs.trial_of_run)
    values = np.array([event["metrics"].get(metric) for event in epochs.events], float)
    is_there = np.array([metric in event["metrics"] for event in epochs.events], bool)
    last, best, best_epoch = np.full(runs, np.nan), np.full(runs, np.nan), np.zeros(runs, np.int64)
    # Where an index comes twice, the last one stays.
    last[epochs.run[is_there]] = values[is_there]
    finite = np.flatnonzero(np.isfinite(values))
    # Best last, the first of equals at the very end.
    order = finite[np.lexsort((-epochs.number[finite], sign * values[finite], epochs.run[finite]))]
    best[epochs.run[order]] = values[order]
    best_epoch[epochs.run[order]] = epochs.number[order]
    has_last = np.zeros(runs, bool)
    has_last[epochs.run[is_there]] = True
    scores, deviations = _over_runs(best, np.isfinite(best), epochs.trial_of_run, count)
    lasts, _ = _over_runs(last, has_last, epochs.trial_of_run, count)
    scored = np.flatnonzero(np.isfinite(best))
    order = scored[np.lexsort((-scored, sign * best[scored]))]
    epoch_of_trial = np.zeros(count, np.int64)
    epoch_of_trial[epochs.trial_of_run[order]] = best_epoch[order]
    return scores, deviations, lasts, epoch_of_trial


def _over_runs(values: Floats, counts: npt.NDArray[np.bool_], trial_of_run: Ints, trials: int) -> tuple[Floats, Floats]:
    """Means and sample standard deviations over each trial's executions that count."""
    mean, deviation = np.full(trials, np.nan), np.full(trials, np.nan)
    owners, chosen = trial_of_run[counts], values[counts]
    mean[owners] = chosen
    for trial in np.flatnonzero(np.bincount(owners, minlength=trials) > 1):
        own = chosen[owners == trial].tolist()
        mean[trial] = statistics.fmean(own)
        # The last epoch's values need not be finite, which the exact deviation takes for granted.
        deviation[trial] = statistics.stdev(own) if np.isfinite(own).all() else np.nan
    return mean, deviation


def _medians(values: Floats, groups: Ints, count: int) -> Floats:
    """The median of each group of values; NaN of none."""
    result = np.full(count, np.nan)
    order = np.lexsort((values, groups))
    sizes = np.bincount(groups, minlength=count)
    starts = np.cumsum(sizes) - sizes
    filled = sizes > 0
    begin, size = starts[filled], sizes[filled]
    ordered = values[order]
    result[filled] = ordered[begin + (size - 1) // 2] / 2 + ordered[begin + size // 2] / 2
    return result


def plain(value: Any) -> Any:
    """A NumPy number as Python's, NaN as None."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if value != value else value
