"""What scores over seeds show: means with intervals, Welch's test, Holm's correction, and who wins. Pure functions.

The randomness is that of the training (initialisation, order of images, augmentation): every seed is measured on the
same test images, so that nothing here speaks of other images.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

LEVEL = 0.95
"""Of every interval."""

ALPHA = 0.05
"""How often a difference may be claimed where there is none."""

Scores: TypeAlias = "Sequence[float] | npt.NDArray[np.float64]"
"""Of one candidate over its seeds, `(n,)`."""


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean over seeds; what `n` values do not tell is NaN.

    Attributes:
        mean: NaN for no value.
        std: sample standard deviation; NaN for fewer than two values.
        low, high: the 95 % interval of the mean by Student's t; likewise.
        n: how many values.
    """

    mean: float
    std: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The mean of one group of scores minus that of another.

    Attributes:
        difference: NaN if a group is empty.
        low, high: the 95 % interval of this difference by itself, Welch's t.
        p: two-sided, of Welch's test that the means are equal. NaN, as are the interval and `df`, where no test is
            possible: fewer than two values in a group, or no variance in either.
        df: degrees of freedom by Welch and Satterthwaite.
        n: how many values each group has.
    """

    difference: float
    low: float
    high: float
    p: float
    df: float
    n: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The winner against one other candidate, on test.

    Attributes:
        other: the other's position.
        test: the winner's test scores against the other's.
        p_holm: `test.p` corrected for as many comparisons as there are; NaN where `test.p` is.
        is_better, is_worse: whether the winner's scores are better, or worse, than the other's at `ALPHA`.
    """

    other: int
    test: Difference
    p_holm: float
    is_better: bool
    is_worse: bool


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Who has the best mean validation, and whether the test scores bear it out.

    Attributes:
        order: positions of the candidates that have a validation score, best mean first; the given order on a tie.
        comparisons: of the first one with each other, in this order: the runner-up's is the first.
    """

    order: tuple[int, ...]
    comparisons: tuple[Comparison, ...]


def mean_interval(scores: Scores) -> Mean:
    """Mean, standard deviation and 95 % interval of finite scores."""
    n, mean, std = len(scores), _mean(scores), _std(scores)
    half = _critical(n - 1) * std / math.sqrt(n) if n > 1 else math.nan
    return Mean(mean=mean, std=std, low=mean - half, high=mean + half, n=n)


def welch(first: Scores, second: Scores) -> Difference:
    """Welch's t test (1947) of two groups of finite scores; variances need not be equal.

    Scipy's `ttest_ind(equal_var=False)` gives the same; it warns and answers p = 0 where neither group varies, and
    takes milliseconds.
    """
    from scipy.special import stdtr

    n = (len(first), len(second))
    difference = _mean(first) - _mean(second)
    one, other = _std(first), _std(second)
    if min(n) < 2 or one == other == 0.0:
        return Difference(difference=difference, low=math.nan, high=math.nan, p=math.nan, df=math.nan, n=n)
    error = math.hypot(one / math.sqrt(n[0]), other / math.sqrt(n[1]))
    # Divided before they are squared, so that tiny variances do not underflow.
    shares = (one / math.sqrt(n[0]) / error) ** 2, (other / math.sqrt(n[1]) / error) ** 2
    df = 1.0 / (shares[0] ** 2 / (n[0] - 1) + shares[1] ** 2 / (n[1] - 1))
    half = _critical(df) * error
    p = min(1.0, 2.0 * float(stdtr(df, -abs(difference) / error)))
    return Difference(difference=difference, low=difference - half, high=difference + half, p=p, df=df, n=n)


def holm(p_values: Scores) -> list[float]:
    """Holm's step-down correction (1979): adjusted p values, in the given order.

    Statsmodels' `multipletests(method="holm")` gives the same. NaN stands for a test that could not be made: it
    stays NaN and does not count.
    """
    known = sorted((p, position) for position, p in enumerate(p_values) if not math.isnan(p))
    adjusted = [math.nan] * len(p_values)
    largest = 0.0
    for rank, (p, position) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        adjusted[position] = largest
    return adjusted


def decide(validation: Sequence[Scores], test: Sequence[Scores], *, direction: str = "max") -> Decision:
    """The winner by mean validation, compared with every other candidate by its test scores.

    Args:
        validation: of each candidate, finite scores over its seeds; none for one that failed.
        test: likewise; the numbers may differ.
        direction: "max" or "min", of both.
    """
    sign = 1.0 if direction == "max" else -1.0
    means = {position: _mean(scores) for position, scores in enumerate(validation) if len(scores)}
    order = tuple(sorted(means, key=lambda position: (-sign * means[position], position)))
    others = order[1:]
    tests = [welch(test[order[0]], test[other]) for other in others]
    return Decision(
        order=order,
        comparisons=tuple(
            Comparison(
                other=other,
                test=found,
                p_holm=p,
                is_better=p < ALPHA and sign * found.difference > 0,
                is_worse=p < ALPHA and sign * found.difference < 0,
            )
            for other, found, p in zip(others, tests, holm([item.p for item in tests]), strict=True)
        ),
    )


def _mean(scores: Scores) -> float:
    return math.fsum(scores) / len(scores) if len(scores) else math.nan


def _std(scores: Scores) -> float:
    """The sample standard deviation; exactly 0 for equal scores, whose mean may be off by a rounding."""
    if len(scores) < 2:
        return math.nan
    if min(scores) == max(scores):
        return 0.0
    mean = _mean(scores)
    # `hypot` does not underflow, as squares would.
    return math.hypot(*(score - mean for score in scores)) / math.sqrt(len(scores) - 1)


def _critical(df: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(df, (1 + LEVEL) / 2))
