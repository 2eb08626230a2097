"""The tables of a study."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from workbench.errors import JournalError, StudyError
from workbench.study import open_leading, open_study
from workbench.tpu.stored import COLUMNS as TPU_COLUMNS
from workbench.tpu.stored import append_verdict

COLUMNS = [
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
]


@pytest.fixture(scope="module")
def study(write_study, tmp_path_factory):
    trials = [
        {"values": {"a/x": 1, "a/kind": "p"}, "scores": [[0.5, 0.6]]},
        {"values": {"a/x": 2, "b/y": 0.5}, "scores": [[0.9, 0.4, 0.5]], "parameters": 900},
        {"values": {"a/x": 3}, "scores": [[0.99]], "status": "failed", "error": "ValueError: no"},
        {"values": {"a/x": 4}, "scores": [[0.7]], "status": None},
        {"values": {"a/x": 5}, "scores": [[0.6, 0.6], [0.7, 0.8]]},
        {"values": {"a/x": 6}, "scores": [[0.95, 0.1]], "status": "stopped", "error": "median"},
    ]
    return write_study(tmp_path_factory.mktemp("tables") / "study", trials)


def test_the_columns_are_the_published_ones(study):
    assert list(study.trials().columns) == [*COLUMNS, "hp.a/x", "hp.a/kind", "hp.b/y"]
    assert list(study.leaderboard().columns)[:2] == ["rank", "trial_id"]


def test_one_row_a_trial(study):
    trials = study.trials().set_index("trial_id")
    assert trials["status"].to_list() == ["completed", "completed", "failed", "interrupted", "completed", "stopped"]
    assert trials.loc["0005", "score"] == pytest.approx(0.7)
    assert trials.loc["0005", "score_std"] == pytest.approx(0.1 * 2**0.5)
    assert pd.isna(trials.loc["0001", "score_std"])
    assert pd.isna(trials.loc["0003", "score"])
    assert trials.loc["0003", "error"] == "ValueError: no"
    assert pd.isna(trials.loc["0001", "hp.b/y"])
    assert trials["best_epoch"].to_list()[:2] == [2, 1]
    assert str(trials["started_at"].dt.tz) == "UTC"
    assert str(trials["parameters"].dtype) == "Int64"


def test_one_row_an_epoch(study):
    epochs = study.epochs()
    head = ["trial_id", "execution", "epoch", "loss", "val_accuracy", "learning_rate", "seconds"]
    assert list(epochs.columns) == [*head, "step_ms", "images_per_s"]
    chosen = epochs[epochs["trial_id"] == "0005"]
    assert chosen[["execution", "epoch", "val_accuracy"]].to_numpy().tolist() == [
        [1, 1, 0.6],
        [1, 2, 0.6],
        [2, 1, 0.7],
        [2, 2, 0.8],
    ]


def test_the_leaderboard_ranks_completed_trials(study):
    board = study.leaderboard()
    assert board["trial_id"].to_list() == ["0002", "0005", "0001"]
    assert board["rank"].to_list() == [1, 2, 3]


def test_all_statuses_come_after_and_have_no_rank(study):
    board = study.leaderboard(all_statuses=True)
    assert board["trial_id"].to_list() == ["0002", "0005", "0001", "0006", "0004", "0003"]
    assert board["rank"].isna().to_list() == [False] * 3 + [True] * 3


@pytest.mark.parametrize("all_statuses", [False, True])
@pytest.mark.parametrize("top", range(1, 8))
def test_the_top_is_the_head_of_the_whole_leaderboard(study, top, all_statuses):
    whole = study.leaderboard(all_statuses=all_statuses)
    board = study.leaderboard(all_statuses=all_statuses, top=top)
    expected = whole.head(top)
    names = [name for name in whole.columns if not name.startswith("hp.") or expected[name].notna().any()]
    assert set(board.columns) == set(names)
    pd.testing.assert_frame_equal(board[names], expected[names])
    assert len(whole) == study.count_ranked(all_statuses=all_statuses)


@pytest.mark.parametrize("top", range(1, 5))
def test_leading_trials_are_read_as_from_the_whole_journal(study, top):
    whole = study.leaderboard()
    leading, count = open_leading(study.path, top)
    board, expected = leading.leaderboard(), whole.head(top)
    assert count == len(whole)
    names = list(board.columns)
    assert set(whole.columns) - set(names) == {name for name in whole.columns if name not in names}
    assert expected.drop(columns=names).isna().all(axis=None), "only what no leading trial has is left out"
    pd.testing.assert_frame_equal(board, expected[names])


def test_epochs_of_a_discarded_attempt_do_not_count_for_leading_trials_either(write_study, tmp_path):
    again = {"trial_id": "0001", "execution": 1, "seed": 1, "device": "cpu", "replicas": 1}
    epoch = {"learning_rate": 1.0, "seconds": 1.0, "step_ms": 1.0, "images_per_s": 1.0, "first": True}
    study = write_study(
        tmp_path / "s",
        [{"values": {"a": 1}, "scores": [[0.5, 0.9]], "status": None}],
        extra=[
            ("attempt", {**again, "from_epoch": 1}),
            ("epoch", {**epoch, "trial_id": "0001", "execution": 1, "epoch": 2, "metrics": {"val_accuracy": 0.6}}),
            ("result", {"trial_id": "0001", "status": "completed", "score": 0.6, "error": None}),
        ],
    )
    pd.testing.assert_frame_equal(open_leading(study.path, 1)[0].leaderboard(), study.leaderboard())
    assert study.leaderboard()["score"].to_list() == [0.6]


def test_a_damaged_line_of_a_leading_trial_is_named(study, tmp_path):
    copy = shutil.copytree(study.path, tmp_path / "copy")
    journal = copy / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines) if b'"epoch"' in line and b'"trial_id":"0002"' in line)
    journal.write_bytes(b"".join([*lines[:number], lines[number][:40] + b"\n", *lines[number + 1 :]]))
    with pytest.raises(JournalError, match=rf"journal\.jsonl, line {number + 1}: "):
        open_leading(copy, 1)


def test_a_study_without_completed_trials_has_no_leading_ones(write_study, tmp_path):
    study = write_study(tmp_path / "s", [{"values": {"a": 1}, "scores": [[0.5]], "status": "failed"}])
    leading, count = open_leading(study.path, 5)
    assert count == 0
    assert list(leading.history.trials) == ["0001"]


def test_a_top_of_none_is_an_error(study):
    with pytest.raises(StudyError, match="top must be 1 or greater; received 0"):
        study.leaderboard(top=0)


def test_at_epoch_ranks_by_what_was_reached_then(study):
    board = study.leaderboard(at_epoch=1)
    assert board["trial_id"].to_list() == ["0002", "0005", "0001"]
    assert board["score"].to_list() == pytest.approx([0.9, 0.65, 0.5])
    assert study.leaderboard(at_epoch=3)["trial_id"].to_list() == ["0002"]
    assert study.leaderboard(at_epoch=4).empty
    with pytest.raises(StudyError, match="at_epoch must be 1 or greater; received 0"):
        study.leaderboard(at_epoch=0)


def test_smaller_is_better_where_the_objective_says_so(write_study, tmp_path):
    trials = [{"values": {"a": n}, "scores": [[score, 1.0]]} for n, score in enumerate([0.5, 0.2, 0.9])]
    study = write_study(tmp_path / "s", trials, metric="val_loss", direction="min")
    board = study.leaderboard()
    assert board["score"].to_list() == [0.2, 0.5, 0.9]
    assert board["best_epoch"].to_list() == [1, 1, 1]


def test_a_higher_rung_goes_before_a_higher_score(write_study, tmp_path):
    scores = {0: 0.9, 1: 0.5, 2: 0.4}
    trials = [{"values": {"a": rung}, "scores": [[score]], "rung": rung} for rung, score in scores.items()]
    trials.append({"values": {"a": 9}, "scores": [[0.6]], "rung": 1})
    board = write_study(tmp_path / "s", trials).leaderboard()
    assert board["rung"].to_list() == [2, 1, 1, 0]
    assert board["score"].to_list() == [0.4, 0.6, 0.5, 0.9]


def test_equal_scores_keep_the_order_of_proposal(write_study, tmp_path):
    trials = [{"values": {"a": n}, "scores": [[0.5]]} for n in range(4)]
    assert write_study(tmp_path / "s", trials).leaderboard()["hp.a"].to_list() == [0, 1, 2, 3]


def test_a_study_without_trials_has_empty_tables(write_study, tmp_path):
    study = write_study(tmp_path / "s", [])
    assert list(study.trials().columns) == COLUMNS
    assert len(study.leaderboard()) == len(study.epochs()) == 0


def test_verdicts_of_the_tpu_compiler_have_columns_before_the_hyperparameters(study, tmp_path):
    copy = Path(shutil.copytree(study.path, tmp_path / "study"))
    row = {"topology": "v2-8", "batch_size_per_replica": 128, "peak_gib": 1.5, "gflop": 18.0, "mxu_fill": 0.25}
    append_verdict(copy, {"trial_id": "0001", **row})
    append_verdict(copy, {"trial_id": "0002", **row, "peak_gib": 0.5, "gflop": None})

    board = open_study(copy).leaderboard()
    assert list(board.columns) == ["rank", *COLUMNS, *TPU_COLUMNS, "hp.a/x", "hp.a/kind", "hp.b/y"]
    known = board.set_index("trial_id").loc[["0001", "0002", "0005"], "tpu.peak_gib"]
    assert known.to_list()[:2] == [1.5, 0.5]
    assert pd.isna(known["0005"])
    assert board["tpu.gflop"].dtype == "float64"
    assert board.sort_values("tpu.peak_gib")["trial_id"].iloc[0] == "0002"


def test_a_journal_without_fill_is_read(study):
    assert study.trials()["mxu_fill"].isna().all()
