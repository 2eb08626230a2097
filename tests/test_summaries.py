"""Numbers of many trials at once, against the same one trial at a time with Python's statistics."""

from __future__ import annotations

import math
import statistics

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.summaries import plain, summarise
from workbench.trials import Execution, Trial

VALUES = st.one_of(st.none(), st.floats(-1, 1), st.sampled_from([0.5, math.nan, math.inf]))
RUNS = st.lists(st.lists(VALUES, max_size=4), max_size=3)


def trial(number, runs):
    made = Trial(f"{number:04d}", {}, 4, "2026-01-01T00:00:00+00:00")
    for run, values in enumerate(runs, start=1):
        made.executions[run] = Execution(seed=run)
        for epoch, value in enumerate(values, start=1):
            metrics = {"loss": 1.0} if value is None else {"loss": 1.0, "val_accuracy": value}
            speed = 10.0 * number + epoch
            made.executions[run].epochs[epoch] = {
                "metrics": metrics,
                "seconds": 2.0,
                "step_ms": speed,
                "images_per_s": 1 / speed,
                "first": epoch == 1,
            }
    return made


def expected(runs, direction):
    pick = max if direction == "max" else min
    kept = [[(n, v) for n, v in enumerate(run, start=1) if v is not None] for run in runs]
    finite = [[(n, v) for n, v in run if math.isfinite(v)] for run in kept]
    best = [pick(run, key=lambda pair: pair[1]) for run in finite if run]
    scores = [value for _, value in best]
    last = [run[-1][1] for run in kept if run]
    return {
        "score": statistics.fmean(scores) if scores else math.nan,
        "score_std": statistics.stdev(scores) if len(scores) > 1 else math.nan,
        "last_score": statistics.fmean(last) if last else math.nan,
        "best_epoch": pick(best, key=lambda pair: pair[1])[0] if best else 0,
    }


@settings(max_examples=200, deadline=None)
@given(trials=st.lists(RUNS, max_size=4), direction=st.sampled_from(["max", "min"]))
def test_many_trials_are_as_one_at_a_time(trials, direction):
    # Means of infinities are nothing to compare.
    trials = [[[v for v in run if v is None or not math.isinf(v)] for run in runs] for runs in trials]
    found = summarise([trial(n, runs) for n, runs in enumerate(trials)], "val_accuracy", direction)
    for index, runs in enumerate(trials):
        for name, value in expected(runs, direction).items():
            np.testing.assert_allclose(getattr(found, name)[index], value, rtol=1e-12, err_msg=name)
        epochs = sum(map(len, runs))
        assert found.seconds[index] == 2.0 * epochs
        steps = [10.0 * index + n for run in runs for n in range(1, len(run) + 1)]
        steady = [10.0 * index + n for run in runs for n in range(2, len(run) + 1)] or steps
        median = statistics.median(steady) if steady else math.nan
        np.testing.assert_allclose(found.step_ms[index], median)


def test_numbers_as_python_has_them():
    assert plain(np.float64("nan")) is None
    assert plain(None) is None
    assert type(plain(np.float64(0.5))) is float
    assert (plain("a"), plain(3)) == ("a", 3)
