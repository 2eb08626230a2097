"""Means, Welch, Holm and the verdict, against scipy and statsmodels; and how often there is a winner by chance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

from workbench.results.statistics import decide, holm, mean_interval, welch

REPETITIONS = 1000

scores = st.lists(st.floats(0, 1, allow_subnormal=False), min_size=2, max_size=12)


def varies(values):
    # Scipy itself warns of lost precision where values are nearly identical.
    return np.std(values) > 1e-6


@settings(max_examples=40, deadline=None)
@given(scores)
def test_the_interval_of_a_mean_is_scipys(values):
    assume(varies(values))
    found = mean_interval(values)
    assert found.n == len(values)
    assert (found.mean, found.std) == (pytest.approx(np.mean(values)), pytest.approx(np.std(values, ddof=1)))
    expected = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    assert (found.low, found.high) == pytest.approx(expected)


def test_an_interval_on_known_numbers():
    # t(0.975, 4) = 2.776445; the standard error of 1..5 is sqrt(2.5 / 5).
    found = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (found.mean, found.std) == (3.0, pytest.approx(math.sqrt(2.5)))
    assert (found.low, found.high) == (pytest.approx(3 - 2.776445 * math.sqrt(0.5)), pytest.approx(4.963243, abs=1e-6))


def test_few_or_equal_values_have_no_interval_or_an_empty_one():
    none, one, equal = mean_interval([]), mean_interval([0.5]), mean_interval([0.1, 0.1, 0.1])
    assert (none.n, one.n, one.mean) == (0, 1, 0.5)
    assert all(math.isnan(value) for value in (none.mean, none.std, none.low, one.std, one.low, one.high))
    assert (equal.std, equal.low, equal.high) == (0.0, equal.mean, equal.mean)


@settings(max_examples=40, deadline=None)
@given(scores, scores)
def test_welch_is_scipys_and_statsmodels(first, second):
    assume(varies(first) and varies(second))
    found = welch(first, second)
    expected = stats.ttest_ind(first, second, equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue, abs=1e-12)
    assert found.df == pytest.approx(expected.df)
    assert (found.low, found.high) == (pytest.approx(interval.low, abs=1e-9), pytest.approx(interval.high, abs=1e-9))
    compared = CompareMeans(DescrStatsW(first), DescrStatsW(second))
    assert found.p == pytest.approx(compared.ttest_ind(usevar="unequal")[1], abs=1e-12)
    assert (found.low, found.high) == pytest.approx(compared.tconfint_diff(usevar="unequal"), abs=1e-9)
    other_way = welch(second, first)
    assert (other_way.p, other_way.difference) == (pytest.approx(found.p), pytest.approx(-found.difference))


def test_welch_on_published_numbers():
    # The second example of Wikipedia's "Welch's t-test", with its rounded answers: t = -2.46, 25.0 degrees, P = 0.021.
    first = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4]
    second = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4]
    found = welch(first, second)
    assert (round(found.df, 1), round(found.p, 3), found.n) == (25.0, 0.021, (15, 15))


@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [
        ([0.5], [0.4, 0.6], 0.0),
        ([0.5, 0.7], [0.1], 0.5),
        ([0.97, 0.97], [0.96, 0.96, 0.96], 0.01),
        ([0.1, 0.1, 0.1], [0.1, 0.1], 0.0),
    ],
)
def test_where_no_test_is_possible_only_the_difference_is_known(first, second, difference):
    found = welch(first, second)
    assert found.difference == pytest.approx(difference)
    assert all(math.isnan(value) for value in (found.p, found.low, found.high, found.df))
    assert found.n == (len(first), len(second))


def test_one_group_without_variance_is_tested():
    found = welch([0.97, 0.97, 0.97], [0.96, 0.97, 0.95])
    # One sample against a constant: t = 0.01 / (0.01 / sqrt(3)) with 2 degrees of freedom.
    assert (found.df, found.p) == (pytest.approx(2), pytest.approx(stats.ttest_1samp([0.96, 0.97, 0.95], 0.97).pvalue))


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-200, 1e-150))
def test_tiny_variances_do_not_vanish(scale):
    found = welch([1 * scale, 2 * scale, 3 * scale], [2 * scale, 3 * scale, 4 * scale])
    assert found.p == pytest.approx(stats.ttest_ind([1, 2, 3], [2, 3, 4], equal_var=False).pvalue)


@settings(max_examples=5, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_statsmodels(p_values):
    assert holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]))


def test_holm_on_known_numbers_leaves_out_tests_that_were_not_made():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    adjusted = holm([0.01, math.nan, 0.04])
    assert (adjusted[0], adjusted[2]) == (0.02, 0.04)
    assert math.isnan(adjusted[1])
    assert holm([]) == []


def test_the_winner_is_chosen_on_validation_and_compared_on_test():
    validation = [[0.8, 0.82], [0.9, 0.92], [], [0.85, 0.87]]
    test = [[0.5, 0.51, 0.52], [0.7, 0.71, 0.72], [], [0.9, 0.91, 0.92]]
    found = decide(validation, test)
    assert found.order == (1, 3, 0)
    assert [item.other for item in found.comparisons] == [3, 0]
    assert [(item.is_better, item.is_worse) for item in found.comparisons] == [(False, True), (True, False)]
    single = [welch(test[1], test[other]).p for other in (3, 0)]
    assert [item.p_holm for item in found.comparisons] == pytest.approx(holm(single))


def test_smaller_is_better_where_the_objective_says_so():
    found = decide([[0.3, 0.3], [0.2, 0.2]], [[0.5, 0.51], [0.2, 0.21]], direction="min")
    assert found.order == (1, 0)
    assert found.comparisons[0].test.difference == pytest.approx(-0.3)
    assert found.comparisons[0].is_better


def test_equal_means_keep_the_given_order():
    assert decide([[0.5], [0.5], [0.6]], [[], [], []]).order == (2, 0, 1)
    assert decide([[], []], [[], []]).order == ()


def rates(candidates, seeds, correlation):
    """How often equal candidates are told apart: (beats the runner-up, differs from any other)."""
    rng = np.random.default_rng([candidates, seeds, int(10 * correlation)])
    validation = rng.normal(size=(REPETITIONS, candidates, seeds))
    noise = rng.normal(size=validation.shape)
    test = correlation * validation + math.sqrt(1 - correlation**2) * noise
    decisions = [decide(one, other) for one, other in zip(validation.tolist(), test.tolist(), strict=True)]
    return (
        sum(found.comparisons[0].is_better for found in decisions) / REPETITIONS,
        sum(any(item.is_better or item.is_worse for item in found.comparisons) for found in decisions) / REPETITIONS,
    )


@pytest.mark.parametrize("correlation", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("candidates", [2, 5])
def test_equal_candidates_have_no_winner_but_for_the_stated_error_rate(candidates, correlation):
    """Of a run's validation and test score, correlated as seeds make them; n = 5."""
    beaten, told_apart = rates(candidates, 5, correlation)
    # 0.05 plus two standard errors of a rate of 0.05 over the repetitions.
    most = 0.05 + 2 * math.sqrt(0.05 * 0.95 / REPETITIONS)
    assert beaten <= most
    if correlation < 1:
        # A winner chosen by the very scores that it is tested on would exceed it over all of five candidates.
        assert told_apart <= most


def test_a_real_difference_is_found():
    rng = np.random.default_rng(1)
    means = np.array([0.0, 3.0])[:, None]
    found = [
        decide((means + rng.normal(size=(2, 5))).tolist(), (means + rng.normal(size=(2, 5))).tolist())
        for _ in range(100)
    ]
    # The power of a two-sided t test at three standard deviations, 5 against 5, is 0.99.
    assert sum(item.order[0] == 1 and item.comparisons[0].is_better for item in found) >= 95
