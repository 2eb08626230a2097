"""What is read from a confirmation's journal, and the sentences about it."""

from __future__ import annotations

import warnings

import pandas as pd
import pytest
from scipy import stats

from workbench.results.confirmation import CLASS_COLUMNS, COMPARISON_COLUMNS, CONFIRMATION_COLUMNS
from workbench.results.statistics import holm

TRIALS = [
    {"values": {"net/units": 4}, "scores": [[0.5, 0.9]], "parameters": 1000},
    {"values": {"net/units": 8}, "scores": [[0.97]], "parameters": 2000},
    {"values": {"net/units": 16}, "scores": [[0.95]], "parameters": 3000},
    {"values": {"net/units": 32}, "scores": [[0.2]]},
]
BEST = [(0.95, 0.94), (0.96, 0.95), (0.94, 0.95), (0.95, 0.94)]
SECOND = [(0.90, 0.85), (0.92, 0.84), (0.91, 0.86), (0.90, 0.85)]
NEAR = [(0.93, 0.94), (0.94, 0.95), (0.93, 0.96), (0.94, 0.93)]


@pytest.fixture
def found(write_study, write_confirmation, tmp_path):
    """`found(runs, ...)`: the confirmation of a study of four trials; 0002 is its best, 0003 and 0001 follow."""

    def read(runs, **arguments):
        study = write_study(tmp_path / "study", TRIALS, **{"training": {"epochs": 1}})
        return write_confirmation(study, runs, **arguments).confirmation()

    return read


def test_the_table_has_one_row_a_candidate_best_validation_first(found):
    confirmation = found({"0002": SECOND, "0003": BEST})
    table = confirmation.table()
    assert tuple(table.columns) == CONFIRMATION_COLUMNS
    assert table["trial_id"].to_list() == ["0003", "0002"]
    assert table["rank"].to_list() == [2, 1]
    first, second = table.to_dict("records")
    assert (first["score"], first["validation_mean"], first["validation_n"]) == (0.95, pytest.approx(0.95), 4)
    interval = stats.t.interval(0.95, 3, loc=0.85, scale=stats.sem([0.85, 0.84, 0.86, 0.85]))
    assert (second["test_low"], second["test_high"]) == pytest.approx(interval)
    assert second["macro_f1"] == pytest.approx(0.84)
    assert second["optimism"] == pytest.approx(0.97 - 0.9075)
    assert (second["failed"], second["parameters"], second["seconds"]) == (0, 100, 8.0)
    assert confirmation.winner.trial_id == "0003"


def test_a_winner_that_beats_the_runner_up(found):
    confirmation = found({"0002": SECOND, "0003": BEST, "0001": NEAR})
    comparisons = confirmation.comparisons()
    assert tuple(comparisons.columns) == COMPARISON_COLUMNS
    assert comparisons["other"].to_list() == ["0001", "0002"]
    test = [[run[1] for run in runs] for runs in (BEST, NEAR, SECOND)]
    single = [stats.ttest_ind(test[0], other, equal_var=False).pvalue for other in test[1:]]
    assert comparisons["p"].to_list() == pytest.approx(single)
    assert comparisons["p_holm"].to_list() == pytest.approx(holm(single))
    assert comparisons["is_better"].to_list() == [False, True]
    assert not confirmation.beats_runner_up
    assert confirmation.sentences()[:2] == [
        "No winner at this n: trial 0003 has the best mean validation (0.9500, n = 4); its mean test accuracy "
        "is better than that of the runner-up 0001 by 0.00 points (95 % interval -1.93 to 1.93, Welch's t, p = 1.000, "
        "p = 1.000 by Holm over 2 comparisons; n = 4 and 4 seeds).",
        "Of the others, by the same test and correction: it beats 0002 (p < 0.001).",
    ]


def test_of_two_the_sentence_says_who_by_how_much_and_how_sure(found):
    confirmation = found({"0002": SECOND, "0003": BEST})
    assert confirmation.beats_runner_up
    assert confirmation.sentences() == [
        "Trial 0003 beats the runner-up 0002 on test accuracy by 9.50 points (95 % interval 8.24 to 10.76, Welch's t, "
        "p < 0.001; n = 4 and 4 seeds).",
        "The search scored 0002, its number 1, 0.9700; over 4 new seeds its mean is 0.9075: the search was optimistic "
        "by 6.25 points (optimistic by 3.12 points on average over 2 candidates).",
    ]


def test_a_winner_by_validation_that_tests_worse_is_none(found):
    worse = [(validation, test - 0.3) for validation, test in BEST]
    confirmation = found({"0002": SECOND, "0003": worse})
    assert confirmation.winner.trial_id == "0003"
    assert not confirmation.beats_runner_up
    assert confirmation.sentences()[0].startswith(
        "No winner: trial 0003 has the best mean validation (0.9500, n = 4), but the runner-up 0002 beats it on test "
        "accuracy by 20.50 points (95 % interval 19.24 to 21.76"
    )


def test_one_seed_allows_no_test(found):
    confirmation = found({"0002": [(0.9, 0.9)], "0003": [(0.8, 0.5)]})
    assert confirmation.sentences()[0] == (
        "No winner at this n: trial 0002 has the best mean validation (0.9000, n = 1), but Welch's test takes 2 or "
        "more tested seeds of each; the winner has n = 1, the runner-up 0003 n = 1. Raise --seeds."
    )


def test_scores_without_variance_allow_no_test_and_warn_of_nothing(found):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        confirmation = found({"0002": [(0.9, 0.9)] * 3, "0003": [(0.8, 0.8)] * 3})
        assert not confirmation.beats_runner_up
        assert confirmation.sentences()[0] == (
            "No winner at this n: trial 0002 has the best mean validation (0.9000, n = 3), but neither its test scores "
            "nor those of the runner-up 0003 differ between seeds (difference 10.00 points, n = 3 and 3), so no test "
            "is possible. Raise --seeds."
        )


def test_one_candidate_is_compared_with_nothing(found):
    confirmation = found({"0003": BEST})
    assert confirmation.comparisons().empty
    assert confirmation.sentences()[0] == (
        "No comparison: trial 0003 has the best mean validation (0.9500, n = 4), and no other candidate has a result."
    )


def test_failures_are_counted_and_said(found):
    confirmation = found({"0002": [None, None, None, None], "0003": [*BEST[:3], None]})
    table = confirmation.table().set_index("trial_id")
    assert table.loc[["0003", "0002"], "failed"].to_list() == [1, 4]
    assert pd.isna(table.loc["0002", "validation_mean"])
    assert confirmation.sentences()[-2:] == [
        "Trial 0003: 1 of 4 retrainings failed (ValueError: no).",
        "Trial 0002: 4 of 4 retrainings failed (ValueError: no).",
    ]


def test_nothing_but_failures_is_no_winner(found):
    confirmation = found({"0002": [None], "0003": [None]})
    assert confirmation.winner is None
    assert confirmation.sentences()[0] == "No winner: no retraining has a result."
    assert confirmation.confusion().empty
    assert confirmation.per_class().empty


def test_what_is_not_done_yet_is_said(found):
    confirmation = found({"0002": [*SECOND[:2], (0.9, None)], "0003": BEST[:2]}, seeds=5)
    assert (confirmation.unfinished, confirmation.untested, confirmation.is_complete) == (5, 1, False)
    assert confirmation.sentences()[-1] == (
        "Not finished: 5 of the retrainings are not trained yet, 1 of the retrainings are not tested yet; "
        "`workbench confirm study` continues."
    )


def test_the_classes_of_the_winner(found):
    confirmation = found({"0002": SECOND, "0003": BEST})
    classes = confirmation.per_class()
    assert tuple(classes.columns) == CLASS_COLUMNS
    assert classes["class"].to_list() == ["a", "b"]
    assert classes["images"].to_list() == [50, 50]
    # Of 50 images of "b", 6, 5, 5 and 6 errors.
    assert classes["accuracy_mean"].to_list() == pytest.approx([1.0, 0.89])
    assert classes["accuracy_std"].to_list() == pytest.approx([0.0, 0.0115470])
    assert confirmation.confusion().to_numpy().tolist() == [["a", 200, 0], ["b", 22, 178]]


def test_a_loss_is_compared_in_its_own_unit(write_study, write_confirmation, tmp_path):
    study = write_study(tmp_path / "s", TRIALS[:2], metric="val_loss", direction="min", training={"epochs": 1})
    runs = {"0001": [(0.6, None), (0.7, None)], "0002": [(0.5, None), (0.55, None)]}
    confirmation = write_confirmation(study, runs, splits=["train", "validation"]).confirmation()
    assert confirmation.winner.trial_id == "0002"
    assert confirmation.sentences() == [
        "No test: data set 'digits' has no test split here. By validation alone trial 0002 has the best mean "
        "validation (0.5250, n = 2); it was chosen by that, so no test of it means anything.",
        "The search scored 0002, its number 2, 0.9700; over 2 new seeds its mean is 0.5250: the search was pessimistic "
        "by 0.445.",
    ]


def test_a_trial_that_was_trained_in_part_says_nothing_of_optimism(write_study, write_confirmation, tmp_path):
    study = write_study(tmp_path / "s", TRIALS, training={"epochs": 2})
    confirmation = write_confirmation(study, {"0001": BEST, "0002": SECOND}, training={"epochs": 2}).confirmation()
    optimism = confirmation.table().set_index("trial_id")["optimism"]
    assert optimism["0001"] == pytest.approx(0.9 - 0.95)
    assert pd.isna(optimism["0002"])
