"""The best trials of a study, retrained with new seeds: small ones, on real data."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest

import workbench
from workbench.errors import StudyChangedError, StudyError, StudyLockedError, UsageError
from workbench.journal import read_journal
from workbench.results.confirmation import CONFIRMATION_COLUMNS
from workbench.results.report import render_report
from workbench.seeds import confirmation_seed, execution_seed

UNTESTED = """
import dataclasses

import workbench
from workbench_plugins.datasets import digits


@workbench.hookimpl
def workbench_datasets():
    (found,) = digits.workbench_datasets()

    def open_without_test(request):
        return dataclasses.replace(found.open(request), cuts=("validation",))

    return [dataclasses.replace(found, name="untested", open=open_without_test)]
"""


@pytest.fixture(scope="module")
def searched(tmp_path_factory, tiny_tables, tiny_plugin):
    """A finished search of three trials; copy it before it is changed."""
    return workbench.search(
        tiny_tables(budget={"max_trials": 3}, training={"epochs": 2, "keep_checkpoints": 2}),
        study="searched",
        directory=tmp_path_factory.mktemp("searched"),
        plugin_files=[tiny_plugin],
        inline=True,
        device="cpu",
    )


@pytest.fixture
def study(searched, tmp_path):
    """A copy of the finished search: a study is a folder."""
    return workbench.open_study(shutil.copytree(searched.path, tmp_path / "study"))


@pytest.fixture(scope="module")
def confirm(tiny_plugin):
    def run(study, **arguments):
        return workbench.confirm(study, **{"plugin_files": [tiny_plugin], "inline": True, "device": "cpu"} | arguments)

    return run


@pytest.fixture(scope="module")
def confirmed(confirm, searched, tmp_path_factory):
    """A study whose best two trials were retrained with two seeds each; to read only."""
    path = shutil.copytree(searched.path, tmp_path_factory.mktemp("confirmed") / "study")
    confirm(path, top=2, seeds=2)
    return workbench.open_study(path)


def change_journal(study, change):
    """Rewrites a study's journal: `change(event)` changes an event, or answers with events to put before it."""
    path = study.path / "journal.jsonl"
    lines = []
    for event in read_journal(path):
        more = change(event) or []
        lines += [json.dumps(item) for item in (*more, event)]
    path.write_text("\n".join(lines) + "\n")


def events(study, name):
    return [event for event in read_journal(study.path / "confirm" / "journal.jsonl") if event["event"] == name]


def test_the_best_are_retrained_tested_once_and_compared(confirmed, searched):
    study, before = confirmed, searched.leaderboard()
    found = study.confirmation()
    best = before["trial_id"].to_list()[:2]
    table = found.table().set_index("trial_id")
    assert tuple(found.table().columns) == CONFIRMATION_COLUMNS
    assert set(table.index) == set(best)
    assert table.loc[best, "rank"].to_list() == [1, 2]
    assert table.loc[best, "score"].to_list() == before["score"].to_list()[:2]
    stored = workbench.open_study(study.path / "confirm")
    assert stored.trials()["status"].to_list() == ["completed"] * 4
    assert stored.trials()["epochs"].to_list() == [2] * 4
    # In rounds, so that an interrupted confirmation has as many seeds of each.
    units = stored.trials()["hp.tiny/units"].to_list()
    assert units[:2] == units[2:]
    for trial_id in best:
        own = stored.trials()[
            [trial.values == study.trial(trial_id).values for trial in stored.history.trials.values()]
        ]
        assert table.loc[trial_id, "validation_mean"] == pytest.approx(own["score"].mean())
        assert table.loc[trial_id, "validation_std"] == pytest.approx(own["score"].std())
        assert table.loc[trial_id, "optimism"] == pytest.approx(table.loc[trial_id, "score"] - own["score"].mean())
        assert table.loc[trial_id, ["validation_n", "test_n", "failed"]].to_list() == [2, 2, 0]
        assert table.loc[trial_id, "seconds"] == pytest.approx(own["seconds"].sum())
    assert found.winner.trial_id == table.index[0] == table["validation_mean"].idxmax()
    (comparison,) = found.comparisons().to_dict("records")
    assert comparison["difference"] == pytest.approx(table["test_mean"].iloc[0] - table["test_mean"].iloc[1])
    assert found.is_complete
    assert len(found.sentences()) == 2
    # The best retrainings keep their weights, as the best trials of a search do.
    assert len(list((study.path / "confirm" / "checkpoints").glob("*/*.npz"))) == 2


def test_seeds_are_new_and_all_different(confirmed):
    study = confirmed
    used = {item.seed for trial in study.history.trials.values() for item in trial.executions.values()}
    seeds = workbench.open_study(study.path / "confirm").trials()["seed"].to_list()
    assert seeds == [confirmation_seed(5, f"{number:04d}", 1) for number in range(1, 5)]
    assert len(set(seeds)) == 4
    assert used.isdisjoint(seeds)


def test_streams_of_confirmations_are_not_those_of_searches():
    first = confirmation_seed(7, "0001", 1)
    assert first != execution_seed(7, "0001", 1)
    second = confirmation_seed(7, "0001", 1, used={first})
    assert second != first
    assert confirmation_seed(7, "0001", 1, used={second}) == first


def test_what_is_finished_is_not_done_again_and_more_can_be_asked_for(confirm, confirmed, tmp_path):
    study = workbench.open_study(shutil.copytree(confirmed.path, tmp_path / "study"))
    first = events(study, "test")
    again = confirm(study, top=2, seeds=1)
    assert len(events(study, "session")) == 1, "nothing was left to do, no engine was started"
    assert again.table()["validation_n"].to_list() == [2, 2], "what was confirmed stays"

    more = confirm(study, top=3, seeds=2)
    tests = events(study, "test")
    assert tests[:4] == first
    assert len({event["trial_id"] for event in tests}) == len(tests) == len(events(study, "attempt")) == 6
    assert more.table()["validation_n"].to_list() == [2, 2, 2]
    assert more.is_complete


def test_candidates_stay_when_the_search_goes_on(confirm, confirmed, tmp_path):
    study = workbench.open_study(shutil.copytree(confirmed.path, tmp_path / "study"))
    first, second, last = study.leaderboard()["trial_id"]

    def be_the_best(event):
        if event["event"] == "epoch" and event["trial_id"] == last:
            event["metrics"]["val_accuracy"] = 1.0

    change_journal(study, be_the_best)
    found = confirm(study, top=1, seeds=1)
    assert found.table().set_index("trial_id")["rank"].to_dict() == {last: 1, first: 2, second: 3}
    assert found.table().set_index("trial_id")["validation_n"].to_dict() == {last: 1, first: 2, second: 2}


def test_the_winners_classes_come_from_its_own_tests(confirmed):
    study, found = confirmed, confirmed.confirmation()
    winner = found.winner
    images = read_journal(study.path / "journal.jsonl")
    (space,) = [event for event in images if event["event"] == "space"]
    count = space["facts"]["counts"]["test"]
    confusion = found.confusion()
    assert confusion["true_class"].to_list() == list(found.class_names) == [str(digit) for digit in range(10)]
    counts = confusion.drop(columns="true_class").to_numpy()
    assert counts.sum() == 2 * count
    assert np.trace(counts) / counts.sum() == pytest.approx(np.mean(winner.test))
    classes = found.per_class()
    assert (classes["images"] * 2).to_list() == counts.sum(axis=1).tolist()
    assert (classes["accuracy_mean"] * classes["images"] * 2).to_list() == pytest.approx(np.diag(counts).tolist())
    assert classes["n"].to_list() == [2] * 10
    for event in winner.tests:
        matrix = np.array(event["confusion"])
        f1 = 2 * np.diag(matrix) / np.maximum(matrix.sum(axis=0) + matrix.sum(axis=1), 1)
        assert event["metrics"]["macro_f1"] == pytest.approx(f1.mean())


def test_the_leaderboard_marks_confirmed_trials(confirmed, searched):
    before = searched.leaderboard()
    assert "confirmed_score" not in before
    found = confirmed.confirmation()
    board = confirmed.leaderboard()
    assert list(board.columns) == [*before.columns, "confirmed_score", "confirmed_seeds"]
    assert not [name for name in board if "test" in name]
    means = found.table().set_index("trial_id")["validation_mean"]
    assert board["confirmed_score"].to_list()[:2] == pytest.approx([means[name] for name in board["trial_id"][:2]])
    assert pd.isna(board["confirmed_score"].iloc[2])
    assert board["confirmed_seeds"].fillna(0).to_list() == [2, 2, 0]
    page = render_report([confirmed])
    assert '"key":"confirmed_score"' in page.replace(" ", "")
    assert '"key":"confirmed_score"' not in render_report([searched]).replace(" ", "")


def test_a_retraining_that_fails_is_recorded_and_the_rest_goes_on(
    confirm, tiny_tables, tiny_plugin, tmp_path, write_study
):
    """The search had a result for a point that never trains again: its plugin changed, say."""
    changes = {"model": {"name": "fragile"}, "budget": {"max_trials": 2}}
    space = {"fragile/trouble": ["none", "raise"], "fragile/number": 2}
    changes["model"]["space"] = space
    study = workbench.search(
        tiny_tables(**changes),
        study="fragile",
        directory=tmp_path,
        plugin_files=[tiny_plugin],
        inline=True,
        device="cpu",
    )
    failed = next(trial.trial_id for trial in study.history.trials.values() if trial.error)

    def have_had_a_result(event):
        if event["event"] != "result" or event["trial_id"] != failed:
            return []
        event |= {"status": "completed", "score": 0.99, "error": None}
        metrics = {"metrics": {"val_accuracy": 0.99}, "learning_rate": 0.1, "step_ms": 1.0, "images_per_s": 1.0}
        of_trial = {"trial_id": failed, "execution": 1}
        return [
            {"event": "attempt", **of_trial, "seed": 1, "from_epoch": 0},
            {"event": "epoch", **of_trial, "epoch": 1, "seconds": 1.0, **metrics},
        ]

    change_journal(study, have_had_a_result)
    found = confirm(study, top=2, seeds=1)
    assert found.table().set_index("trial_id").loc[failed, ["failed", "validation_n", "test_n"]].to_list() == [1, 0, 0]
    other = found.winner
    assert (other.trial_id != failed, len(other.test)) == (True, 1)
    assert found.sentences()[0].startswith(f"No comparison: trial {other.trial_id} has the best mean validation")
    assert found.sentences()[-1] == (
        f"Trial {failed}: 1 of 1 retrainings failed (ValueError: this point never builds)."
    )


@pytest.mark.slow
def test_data_without_a_test_split_are_validated_only(confirm, tmp_path, tiny_tables, tiny_plugin):
    plugin = tmp_path / "untested.py"
    plugin.write_text(UNTESTED)
    study = workbench.search(
        tiny_tables(dataset={"name": "untested"}, budget={"max_trials": 1}),
        study="untested",
        directory=tmp_path,
        plugin_files=[tiny_plugin, plugin],
        inline=True,
        device="cpu",
    )
    found = confirm(study, top=1, seeds=1, plugin_files=[tiny_plugin, plugin])
    assert found.test_images is None
    assert found.table()[["validation_n", "test_n"]].to_numpy().tolist() == [[1, 0]]
    assert len(found.confusion()) == len(found.per_class()) == 0
    assert found.is_complete
    assert events(study, "test") == []


def test_other_data_are_refused_with_both_fingerprints(confirm, study):
    now = study.history.space["facts"]["fingerprint"]

    def have_other_data(event):
        if event["event"] == "space":
            event["facts"]["fingerprint"] = "f" * 64

    change_journal(study, have_other_data)
    with pytest.raises(StudyChangedError, match=f"fingerprint ffffffffffff then, {now[:12]} now.*search again"):
        confirm(study)
    assert not (study.path / "confirm").exists(), "nothing is left behind"


@pytest.mark.slow
def test_epochs_stay_and_weights_that_are_gone_are_said(confirm, study, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("workbench.confirm_study._test", lambda *arguments: None)
        waiting = confirm(study, top=1, seeds=1, epochs=1)
    assert (waiting.untested, waiting.is_complete) == (1, False)
    assert "1 of the retrainings are not tested yet" in waiting.sentences()[-1]
    assert waiting.table()["optimism"].isna().all(), "scores after other epochs say nothing of the search's"
    with pytest.raises(StudyChangedError, match="--epochs was 1 and is now 2"):
        confirm(study, top=1, seeds=2, epochs=2)
    shutil.rmtree(study.path / "confirm" / "checkpoints" / "0001")
    found = confirm(study, top=1, seeds=2)
    assert workbench.open_study(found.path).trials()["epochs"].to_list() == [1, 1]
    assert found.table()["test_n"].to_list() == [1]
    assert found.sentences()[-1] == "1 of the retrainings could not be tested: the weights were removed."
    assert found.is_complete


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"top": 0}, "top must be 1 or more; received 0"),
        ({"seeds": 0}, "seeds must be 1 or more; received 0"),
        ({"epochs": 0}, "epochs must be 1 or more; received 0"),
        ({"workers": 2}, "--inline trains in one process; received --workers 2"),
        ({"top": 4}, r"--top must be at most .* completed trials \(distinct points\) of .*study, 3; received 4"),
    ],
)
def test_wrong_arguments(confirm, study, arguments, message):
    with pytest.raises(UsageError, match=message):
        confirm(study, **arguments)
    assert not (study.path / "confirm").exists()


def test_studies_that_cannot_be_confirmed(confirm, write_study, tmp_path):
    failed = [{"values": {"a/x": 1}, "scores": [[]], "status": "failed", "error": "no"}]
    with pytest.raises(StudyError, match="must have completed trials to confirm; it has 1 failed"):
        confirm(write_study(tmp_path / "failed", failed))
    with pytest.raises(StudyError, match="no such study"):
        confirm("none", directory=tmp_path)
    study = write_study(tmp_path / "running", [{"values": {"a/x": 1}, "scores": [[0.5]]}])
    with pytest.raises(StudyError, match="no trial was confirmed; `workbench confirm running` does it"):
        study.confirmation()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("workbench.study.StudyDirectory.is_running", lambda self: True)
        with pytest.raises(StudyLockedError, match="must have ended before its best trials are confirmed"):
            confirm(study)


def test_equal_points_are_one_candidate(confirm, write_study, tmp_path):
    trials = [{"values": {"a/x": x}, "scores": [[score]]} for x, score in ((1, 0.9), (1, 0.8), (2, 0.7))]
    study = write_study(tmp_path / "twice", trials)
    with pytest.raises(UsageError, match="2; received 3"):
        confirm(study, top=3)
