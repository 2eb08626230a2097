"""Studies compared from Python."""

from __future__ import annotations

import pandas as pd
import pytest

import workbench
from workbench.errors import StudyError, UsageError
from workbench.results.comparison import COMPARE_COLUMNS

FACTS = {"facts": {"fingerprint": "f" * 64}, "metric": "val_accuracy", "direction": "max", "split": "train"}


@pytest.fixture
def make(write_study, tmp_path):
    """`make(name, scores, **changes)`: a study of one trial a score list."""

    def write(name, scores, folder="", fingerprint="f", metric="val_accuracy", direction="max", **changes):
        trials = [{"values": {"a": n}, "scores": [values], "parameters": 10 * n} for n, values in enumerate(scores)]
        space = FACTS | {"facts": {"fingerprint": fingerprint * 64}, "metric": metric, "direction": direction}
        return write_study(
            tmp_path / folder / name, trials, extra=[("space", space)], metric=metric, direction=direction, **changes
        )

    return write


def test_one_row_a_study(make):
    left = make("left", [[0.5, 0.7], [0.6, 0.81]], objective={"target": 0.8})
    right = make("right", [[0.5]], objective={"target": 0.8}, seed=9, tuner={"name": "evolution"})
    frame = workbench.compare([left, right.path])
    assert list(frame.columns[: len(COMPARE_COLUMNS)]) == list(COMPARE_COLUMNS)
    first, second = frame.iloc[0], frame.iloc[1]
    assert (first["study"], first["best"], first["best_trial"], first["parameters"]) == ("left", 0.81, "0002", 10)
    assert (first["metric"], first["direction"], first["target"]) == ("val_accuracy", "max", 0.8)
    assert first[["target_reached", "target_trials", "target_epochs", "target_seconds"]].to_list() == [True, 2, 4, 8.0]
    assert first[["trials", "completed", "failed", "epochs", "seconds"]].to_list() == [2, 2, 0, 4, 8.0]
    assert first["images_per_s"] == 500.0
    assert first["fingerprint"] == "f" * 64
    assert second["target_reached"] is False or not second["target_reached"]
    assert pd.isna(second["target_trials"])
    assert frame[["definition.seed", "definition.tuner.name"]].to_numpy().tolist() == [[5, "random"], [9, "evolution"]]
    assert "definition.dataset.name" not in frame


def test_another_target_than_their_own(make):
    frame = workbench.compare([make("one", [[0.5, 0.7]], objective={"target": 0.9})], target=0.6)
    assert frame.loc[0, ["target", "target_reached", "target_epochs"]].to_list() == [0.6, True, 2]


def test_smaller_is_better_where_the_objective_says_so(make):
    study = make("loss", [[0.9, 0.4], [0.3]], metric="val_loss", direction="min")
    frame = workbench.compare([study], target=0.5)
    # What `write_study` takes for the score is the largest; the table of trials looks at the epochs.
    assert frame.loc[0, ["best", "best_trial", "target_epochs"]].to_list() == [0.3, "0002", 2]


def test_a_study_without_trials_or_target(make):
    frame = workbench.compare([make("empty", [])])
    assert frame.loc[0, "trials"] == 0
    assert frame.loc[0, ["best", "best_trial", "target_reached", "parameters"]].isna().all()


def test_the_same_study_twice_is_one_and_equal_names_are_told_apart(make):
    one, other = make("study", [[0.5]], folder="a"), make("study", [[0.6]], folder="b")
    assert len(workbench.compare([one, one.path, other])) == 2
    assert workbench.compare([one, other])["study"].to_list() == [str(one.path), str(other.path)]


def test_trials_of_all_studies_in_one_ranking(make):
    left, right = make("left", [[0.5], [0.9]]), make("right", [[0.7], [0.6]], seed=9)
    board = workbench.compare_trials([left, right])
    assert list(board.columns[:3]) == ["rank", "study", "trial_id"]
    assert board["rank"].to_list() == [1, 2, 3, 4]
    assert board["study"].to_list() == ["left", "right", "right", "left"]
    assert board["score"].to_list() == [0.9, 0.7, 0.6, 0.5]
    alone = left.leaderboard()
    for name in alone.columns:
        assert board[name].dtype == alone[name].dtype, name


def test_rungs_go_first_only_where_they_mean_the_same(write_study, tmp_path):
    def study(name, scores, **changes):
        trials = [{"values": {"a": 1}, "scores": [[score]], "rung": rung} for rung, score in scores]
        return write_study(tmp_path / name, trials, **changes)

    first = study("first", [(0, 0.9), (1, 0.5)], tuner={"name": "hyperband"})
    second = study("second", [(0, 0.8), (1, 0.6)], tuner={"name": "hyperband"}, seed=9)
    third = study("third", [(None, 0.7)], tuner={"name": "random"})
    assert workbench.compare_trials([first, second])["score"].to_list() == [0.6, 0.5, 0.9, 0.8]
    board = workbench.compare_trials([first, third])
    assert board["score"].to_list() == [0.9, 0.7, 0.5]
    assert board["rung"].to_list() == [0, pd.NA, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"metric": "val_loss", "direction": "min"},
            r"same objectives; left has val_accuracy \(max\), right has val_loss \(min\)",
        ),
        (
            {"fingerprint": "0"},
            r"same data; left has digits \(.*fingerprint ffffffffffff\), right .*000000\)",
        ),
        (
            {"dataset": {"limit": 100}, "fingerprint": "0"},
            r"left has digits \(limit 200, .*right .*limit 100",
        ),
    ],
)
def test_what_cannot_be_compared_is_not_ranked_unless_asked_for(make, changes, message):
    studies = [make("left", [[0.5]]), make("right", [[0.7]], **changes)]
    with pytest.raises(StudyError, match=message) as caught:
        workbench.compare_trials(studies)
    assert "--anyway" in str(caught.value)
    assert workbench.compare_trials(studies, anyway=True)["score"].to_list() == [0.7, 0.5]
    assert len(workbench.compare(studies)) == 2


def test_curves_of_all_studies(make):
    left, right = make("left", [[0.5, 0.7]]), make("right", [[0.6]])
    curves = workbench.compare_curves([left, right])
    assert list(curves.columns) == ["study", "trials", "epochs", "seconds", "trial_id", "best"]
    assert curves["study"].to_list() == ["left", "left", "right"]
    assert curves["best"].to_list() == [0.5, 0.7, 0.6]
    assert len(workbench.compare_curves([left, right], against="trials")) == 2


def test_all_studies_that_cannot_be_read_are_named_at_once(make, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "journal.jsonl").write_text("[1]\n")
    with pytest.raises(StudyError) as caught:
        workbench.compare([make("left", [[0.5]]), tmp_path / "lef", tmp_path / "broken"])
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert "no such study" in lines[0]
    assert "'left'" in lines[0]
    assert "line 1: every line must be one JSON object" in lines[1]


def test_no_study_is_wrong_use():
    with pytest.raises(UsageError, match="one study or more; received none"):
        workbench.compare([])
