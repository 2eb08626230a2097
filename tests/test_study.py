"""Stored studies, read."""

from __future__ import annotations

import pytest

import workbench
from workbench.directory import StudyDirectory
from workbench.errors import StudyError
from workbench.study import list_table, open_study, studies

TRIALS = [
    {"values": {"tiny/units": 4}, "scores": [[0.5, 0.6]]},
    {"values": {"tiny/units": 8}, "scores": [[0.7]], "status": None},
]


@pytest.fixture
def study(write_study, tmp_path):
    return write_study(tmp_path / "study", TRIALS, objective={"target": 0.8})


def test_it_tells_its_name_definition_and_objective(study):
    assert (study.name, study.metric, study.direction) == ("study", "val_accuracy", "max")
    assert study.definition["objective"]["target"] == 0.8
    assert workbench.open_study(str(study.path)).name == "study"


def test_a_running_trial_of_a_study_that_nobody_runs_is_interrupted(study):
    assert study.trials()["status"].to_list() == ["completed", "interrupted"]
    assert not study.is_running
    with StudyDirectory(study.path).lock():
        running = open_study(study.path)
        assert running.is_running
        assert running.trials()["status"].to_list() == ["completed", "running"]


def test_a_trial_by_its_id(study):
    assert study.trial("0002").values == study.trial("2").values == {"tiny/units": 8}
    with pytest.raises(StudyError, match=r"no trial '0003'\. Did you mean '000"):
        study.trial("0003")
    with pytest.raises(StudyError, match=r"no trial 'best'\. It has 2 trials, 0001 the first"):
        study.trial("best")


def test_no_weights_no_best_model(study):
    assert study.weights(study.trial("1")) == {}
    with pytest.raises(StudyError, match="study: no completed trial has stored weights"):
        study.best_model()


def test_weights_are_the_best_files_that_are_there(write_study, tmp_path):
    event = {"trial_id": "0001", "execution": 1, "epoch": 2, "file": "a.npz", "best_file": "b.npz", "best_score": 0.6}
    study = write_study(tmp_path / "study", TRIALS, extra=[("checkpoint", event)])
    assert study.weights(study.trial("1")) == {}
    folder = StudyDirectory(study.path).checkpoint_dir("0001")
    folder.mkdir(parents=True)
    (folder / "b.npz").touch()
    assert study.weights(study.trial("1")) == {1: folder / "b.npz"}


def test_opening_reads_a_torn_journal_without_changing_it(study):
    journal = study.path / "journal.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"event":"pro')
    before = journal.read_bytes()
    assert len(open_study(study.path).trials()) == 2
    assert journal.read_bytes() == before


def test_a_table_of_studies(write_study, tmp_path):
    write_study(tmp_path / "b", TRIALS, extra=[("finished", {"reason": "max_trials"})])
    write_study(tmp_path / "a", [], metric="val_loss", direction="min", objective={"target": 0.1})
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "journal.jsonl").write_text("nonsense\n")
    frame, problems = list_table(tmp_path)
    assert frame["study"].to_list() == ["a", "b"]
    assert frame["status"].to_list() == ["interrupted", "finished"]
    assert frame.loc[1, ["trials", "completed", "best", "epochs", "seconds"]].to_list() == [2, 1, 0.6, 3, 6.0]
    assert frame.loc[0, ["trials", "metric", "target"]].to_list() == [0, "val_loss", 0.1]
    (problem,) = problems
    assert "broken/journal.jsonl, line 1" in problem
    with pytest.raises(StudyError, match="broken"):
        studies(tmp_path)


def test_an_empty_folder_has_no_studies(tmp_path):
    frame, problems = list_table(tmp_path / "nowhere")
    assert frame.empty
    assert problems == []
    assert studies(tmp_path) == []


def test_reading_imports_no_deep_learning_library(study, run_python):
    code = (
        "import sys, workbench; s = workbench.open_study(sys.argv[1]); s.trials(); s.epochs(); s.leaderboard(); "
        "print({'tensorflow', 'keras', 'keras_tuner', 'sklearn'} & set(sys.modules))"
    )
    assert run_python(code, str(study.path)).stdout == "set()\n"
