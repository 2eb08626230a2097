"""The best score so far, against trials, epochs and seconds."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.errors import StudyError

NAN = float("nan")


def test_one_row_an_epoch(write_study, tmp_path):
    study = write_study(
        tmp_path / "study",
        [
            {"values": {"a": 1}, "scores": [[0.5, 0.4]]},
            {"values": {"a": 2}, "scores": [[0.9]], "status": "failed"},
            {"values": {"a": 3}, "scores": [[NAN, 0.6, 0.6]]},
        ],
    )
    curve = study.best_so_far()
    assert curve["trials"].to_list() == [1, 1, 2, 3, 3, 3]
    assert curve["epochs"].to_list() == [1, 2, 3, 4, 5, 6]
    assert curve["seconds"].to_list() == [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    assert curve["best"].to_list() == [0.5, 0.5, 0.5, 0.5, 0.6, 0.6], "a failed trial's score is none"
    assert curve["trial_id"].to_list() == ["0001"] * 4 + ["0003"] * 2
    assert study.best_so_far("seconds").equals(curve)


def test_one_row_a_trial(write_study, tmp_path):
    trials = [{"values": {"a": n}, "scores": [[score, 1.0]]} for n, score in enumerate([0.5, 0.2, 0.9])]
    trials.insert(0, {"values": {"a": 9}, "scores": [[0.1]], "status": "stopped", "error": "median_rule"})
    curve = write_study(tmp_path / "s", trials, metric="val_loss", direction="min").best_so_far("trials")
    assert curve["trials"].to_list() == [1, 2, 3, 4]
    assert curve["epochs"].to_list() == [1, 3, 5, 7]
    np.testing.assert_array_equal(curve["best"], [NAN, 0.5, 0.2, 0.2])


def test_several_executions_count_once_all_have_a_value(write_study, tmp_path):
    study = write_study(tmp_path / "study", [{"values": {"a": 1}, "scores": [[0.9, 0.5], [0.4, 0.8, 0.6]]}])
    np.testing.assert_allclose(study.best_so_far()["best"], [NAN, NAN, 0.65, 0.85, 0.85])


def test_a_superseded_attempt_costs_and_counts_for_nothing(write_study, tmp_path):
    one = {"trial_id": "0002", "execution": 1}
    again = [
        ("proposal", {"trial_id": "0002", "values": {"a": 2}, "epochs": 1, "at": "2026-01-02T03:04:06+00:00"}),
        *(
            item
            for score in (0.9, 0.7)
            for item in (
                ("attempt", one | {"seed": 1, "from_epoch": 0}),
                (
                    "epoch",
                    {
                        "trial_id": "0002",
                        "execution": 1,
                        "epoch": 1,
                        "metrics": {"val_accuracy": score},
                        "seconds": 2.0,
                    },
                ),
            )
        ),
        ("result", {"trial_id": "0002", "status": "completed", "score": 0.7}),
    ]
    study = write_study(tmp_path / "study", [{"values": {"a": 1}, "scores": [[0.5]]}], extra=again)
    curve = study.best_so_far()
    assert curve["best"].to_list() == [0.5, 0.5, 0.7]
    assert curve["epochs"].iloc[-1] == 3


def test_its_end_is_the_best_completed_trial(tmp_path):
    from workbench.testing import synthetic_study

    for hyperband in (False, True):
        study = synthetic_study(tmp_path / str(hyperband), trials=50, epochs=9, hyperband=hyperband)
        trials = study.trials()
        best = trials[trials["status"] == "completed"].sort_values("score").iloc[-1]
        for against in ("trials", "epochs", "seconds"):
            last = study.best_so_far(against).iloc[-1]
            assert (last["best"], last["trials"]) == (best["score"], 50)
            assert last["seconds"] == pytest.approx(trials["seconds"].sum())


def test_nothing_trained_is_an_empty_table(write_study, tmp_path):
    curve = write_study(tmp_path / "s", []).best_so_far()
    assert list(curve.columns) == ["trials", "epochs", "seconds", "trial_id", "best"]
    assert curve.empty


def test_another_axis_is_an_error(write_study, tmp_path):
    with pytest.raises(StudyError, match="against must be one of trials, epochs, seconds; received 'hours'"):
        write_study(tmp_path / "s", []).best_so_far("hours")
