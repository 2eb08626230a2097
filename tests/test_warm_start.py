"""Points that run first, and results of earlier studies that a search learns from."""

from __future__ import annotations

import json
import shutil

import keras_tuner
import pytest

import workbench
from workbench.errors import SpaceError, StudyChangedError, StudyError
from workbench.points import as_records, earlier_results, find_study

POINT = {"tiny/units": 8, "tiny/activation": "relu"}


@pytest.fixture
def space():
    found = keras_tuner.HyperParameters()
    found.Int("tiny/units", 4, 16, step=4)
    found.Choice("tiny/activation", ["relu", "tanh"])
    return found


def test_results_that_fit_are_taken_over(write_study, space, tmp_path):
    trials = [
        {"values": POINT, "scores": [[0.5, 0.6]]},
        {"values": {**POINT, "tiny/units": 20}, "scores": [[0.9, 0.9]]},
        {"values": {"tiny/units": 8}, "scores": [[0.9, 0.9]]},
        {"values": {**POINT, "tiny/more": 1}, "scores": [[0.9, 0.9]]},
        {"values": {**POINT, "tiny/units": 12}, "scores": [[0.9]]},
        {"values": {**POINT, "tiny/units": 16}, "scores": [[0.9, 0.9]], "status": "failed"},
        {"values": {**POINT, "tiny/units": 4}, "scores": [[0.9, 0.9]], "status": None},
        {"values": {**POINT, "tiny/activation": "tanh"}, "scores": [[0.7, 0.4]]},
    ]
    studies = [write_study(tmp_path / "one", trials), write_study(tmp_path / "two", trials[:1])]
    found = earlier_results(studies, space, metric="val_accuracy", direction="max", max_epochs=2)
    assert [(item["study"], item["trial_id"], item["score"]) for item in found] == [
        ("one", "0001", 0.6),
        ("one", "0008", 0.7),
        ("two", "0001", 0.6),
    ]
    records = as_records(found, 2)
    assert [record.trial_id for record in records] == ["one:0001", "one:0008", "two:0001"]
    assert {(str(record.outcome), record.epochs, record.rung) for record in records} == {("completed", 2, None)}


def test_another_objective_is_refused(write_study, space, tmp_path):
    study = write_study(tmp_path / "one", [], metric="val_loss", direction="min")
    with pytest.raises(StudyError, match=r"one: its objective is val_loss \(min\); this search's is val_acc"):
        earlier_results([study], space, metric="val_accuracy", direction="max", max_epochs=2)


def test_studies_by_path_and_by_name(write_study, tmp_path):
    write_study(tmp_path / "one", [])
    assert find_study("one", tmp_path).path == find_study(str(tmp_path / "one"), "elsewhere").path
    with pytest.raises(StudyError, match="Did you mean 'one'"):
        find_study("onne", tmp_path)


@pytest.fixture
def search(tmp_path, tiny_tables, tiny_plugin):
    def run(study="study", **changes):
        how = {name: changes.pop(name) for name in ("enqueue", "warm_start") if name in changes}
        return workbench.search(
            tiny_tables(**changes),
            **{"study": study, "directory": tmp_path, "plugin_files": [tiny_plugin], "inline": True, "device": "cpu"},
            **how,
        )

    return run


def test_points_run_first_and_teachers_may_grow(search, tmp_path, write_study):
    (tmp_path / "point.json").write_text(json.dumps({"tiny/units": 16, "tiny/activation": "tanh"}))
    teacher = [{"values": {"tiny/units": 4, "tiny/activation": "tanh"}, "scores": [[0.9]]}]
    write_study(tmp_path / "teacher", teacher)
    asked = {"enqueue": [str(tmp_path / "point.json"), "teacher:0001"], "warm_start": ["teacher"]}
    study = search(**asked, budget={"max_trials": 3})
    trials = study.trials()
    points = trials[["hp.tiny/units", "hp.tiny/activation"]].to_numpy().tolist()
    assert points == [[8, "relu"], [16, "tanh"], [4, "tanh"]], "the default point, then those that were asked for"
    assert study.history.space["warm_start"] == ["teacher"]
    # The same command, and one without the options, find the study as it was begun, whatever its teacher has by now.
    shutil.rmtree(tmp_path / "teacher")
    write_study(tmp_path / "teacher", [*teacher, {"values": POINT, "scores": [[0.8]]}])
    assert search(**asked, budget={"max_trials": 3}).trials().equals(trials)
    assert search(budget={"max_trials": 3}).trials().equals(trials)
    write_study(tmp_path / "other", teacher)
    with pytest.raises(StudyChangedError, match=r"warm_start \['teacher'\] and is now asked for \['other'\]"):
        search(**{**asked, "warm_start": ["other"]})
    with pytest.raises(StudyChangedError, match="begun with enqueued"):
        search(enqueue=["teacher:0001"])


def test_an_enqueued_point_of_another_space_is_refused(search, tmp_path):
    (tmp_path / "point.json").write_text('{"tiny/unitz": 4}')
    with pytest.raises(SpaceError, match=r"received 'tiny/unitz'\. Did you mean 'tiny/units'"):
        search(enqueue=[str(tmp_path / "point.json")])
