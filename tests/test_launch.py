"""Searches from a definition to a study, on real digits."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import workbench
from workbench.directory import StudyDirectory
from workbench.display import SilentDisplay
from workbench.errors import DefinitionError, SpaceError, StudyChangedError, StudyLockedError, UsageError, WorkError
from workbench.journal import read_journal
from workbench.registry import Registry

LOGGER = """
import json
from pathlib import Path
import workbench

FILE = Path({file!r})

@workbench.hookimpl
def workbench_trial_finished(record):
    with FILE.open("a") as file:
        file.write(json.dumps([record["trial_id"], record["status"], record["score"]]) + "\\n")

@workbench.hookimpl
def workbench_study_finished(study):
    with FILE.open("a") as file:
        file.write(json.dumps(["finished", study.name, len(study.trials())]) + "\\n")
    raise RuntimeError("the logger's server is down")
"""


@pytest.fixture
def search(tmp_path, tiny_tables, tiny_plugin):
    """`search(**changes)`: runs the tiny search in this process, in the test's folder."""

    def run(study="study", plugin_files=(), workers=1, inline=True, display=None, **changes):
        how = {} if display is None else {"display": display}
        return workbench.search(
            tiny_tables(**changes),
            study=study,
            directory=tmp_path,
            plugin_files=[tiny_plugin, *plugin_files],
            inline=inline,
            workers=workers,
            device="cpu",
            **how,
        )

    return run


def reason(study):
    return study.history.finished["reason"]


def test_a_random_search(search, tmp_path):
    study = search(budget={"max_trials": 2}, objective={"target": 0.01})
    trials = study.trials()
    assert trials["status"].to_list() == ["completed"] * 2
    assert trials["trial_id"].to_list() == ["0001", "0002"]
    assert trials.loc[0, "hp.tiny/units"] == 8, "trial 1 is the default point"
    assert (trials["parameters"] == 75 * trials["hp.tiny/units"] + 10).all()
    assert (trials["flops"] == 149 * trials["hp.tiny/units"] + 10).all()
    assert trials["device"].unique().tolist() == ["cpu"]
    assert trials["seed"].nunique() == 2
    assert reason(study) == "max_trials"
    epochs = study.epochs()
    assert len(epochs) == 2
    np.testing.assert_allclose(epochs["learning_rate"], 1e-3)
    assert study.leaderboard()["score"].is_monotonic_decreasing
    assert study.history.sessions[0]["versions"].keys() == {"tensorflow", "keras", "keras-tuner", "numpy"}
    plugins = {item["name"]: item["sha256"] for item in study.history.sessions[0]["plugins"]}
    assert len(plugins["tiny_plugin"]) == 64
    assert {path.name for path in study.path.iterdir()} <= {".lock", "checkpoints", "definition.json", "journal.jsonl"}
    # The same command again finds nothing to do.
    before = read_journal(study.path / "journal.jsonl")
    again = search(budget={"max_trials": 2}, objective={"target": 0.01})
    events = read_journal(study.path / "journal.jsonl")[len(before) :]
    assert [event["event"] for event in events] == ["session", "finished"]
    assert again.trials().equals(trials)
    # A larger budget goes on, and gives what a search in one go gives.
    raised = search(budget={"max_trials": 3}, objective={"target": 0.01})
    whole = search(study="whole", budget={"max_trials": 3}, objective={"target": 0.01})
    assert raised.trials()["trial_id"].to_list() == ["0001", "0002", "0003"]
    columns = ["hp.tiny/units", "hp.tiny/activation", "seed"]
    assert raised.trials()[columns].equals(whole.trials()[columns])
    np.testing.assert_allclose(raised.trials()["score"], whole.trials()["score"], atol=1e-6)
    with pytest.raises(StudyChangedError, match=r"seed: 5 -> 6"):
        search(seed=6)
    best = raised.best_model(Registry.load([tiny_file(raised)], environ={}))
    assert best.input_shape == (None, 8, 8, 1)


def tiny_file(study):
    return next(item["file"] for item in study.history.sessions[0]["plugins"] if item["name"] == "tiny_plugin")


FOUR_POINTS = {"space": {"activation": "relu"}}


def test_a_grid_search_exhausts_a_finite_space(search):
    study = search(
        model=FOUR_POINTS, tuner={"name": "grid"}, budget={"max_trials": 100}, training={"keep_checkpoints": 2}
    )
    assert sorted(study.trials()["hp.tiny/units"]) == [4, 8, 12, 16]
    assert reason(study) == "space exhausted"
    kept = sorted(path.name for path in StudyDirectory(study.path).checkpoints.iterdir())
    assert kept == sorted(study.leaderboard()["trial_id"].head(2))


def test_hyperband_promotes_trials_that_train_on(search):
    study = search(
        tuner={"name": "hyperband", "factor": 3, "hyperband_iterations": 1},
        training={"epochs": 3},
        budget={"max_trials": 3},
    )
    assert reason(study) == "max_trials"
    trials = study.trials().set_index("trial_id")
    promoted = trials[trials["rung"] > 0]
    assert len(promoted) >= 1
    attempts = [event for event in read_journal(study.path / "journal.jsonl") if event["event"] == "attempt"]
    for trial_id in promoted.index:
        starts = [event["from_epoch"] for event in attempts if event["trial_id"] == trial_id]
        assert starts == [0, 1], "a promotion goes on after the epochs that were trained"
        epochs = study.epochs().query("trial_id == @trial_id")["epoch"].to_list()
        assert epochs == [1, 2, 3]
    assert study.leaderboard()["rung"].iloc[0] == trials["rung"].max()


def test_several_executions_are_averaged(search):
    study = search(training={"executions": 2}, budget={"max_trials": 1})
    (row,) = study.trials().to_dict("records")
    scores = study.epochs().groupby("execution")["val_accuracy"].max()
    assert len(scores) == 2
    assert row["score"] == pytest.approx(scores.mean())
    assert row["score_std"] == pytest.approx(scores.std(ddof=1))
    seeds = {execution.seed for execution in study.history.trials["0001"].executions.values()}
    assert len(seeds) == 2


def test_points_outside_the_constraints_are_never_trained(search):
    study = search(model=FOUR_POINTS, tuner={"name": "grid"}, constraints={"max_parameters": 700, "max_flops": 900})
    assert study.trials()["hp.tiny/units"].to_list() == [4]
    reasons = {event["parameters"]: event["reason"] for event in study.history.rejections}
    assert reasons == {
        610: "flops 1,202 is larger than max_flops 900",
        910: "parameters 910 is larger than max_parameters 700",
        1210: "parameters 1,210 is larger than max_parameters 700",
    }


def test_constraints_that_nothing_meets(search):
    with pytest.raises(WorkError, match=r"no point .* inside the constraints in 4 draws.* parameters 310 to 1,210"):
        search(model=FOUR_POINTS, tuner={"name": "grid"}, constraints={"max_parameters": 10})


def test_a_failing_point_is_recorded_with_its_reason_and_the_search_goes_on(search):
    study = search(
        model={"name": "fragile", "space": {"trouble": ["none", "raise", "nan"], "number": 1}},
        tuner={"name": "grid"},
        budget={"max_trials": 10},
    )
    trials = study.trials().set_index("hp.fragile/trouble")
    assert trials["status"].to_dict() == {"none": "completed", "raise": "failed", "nan": "failed"}
    assert trials.loc["raise", "error"] == "ValueError: this point never builds"
    assert "the training loss must be finite; it was nan in epoch 1" in trials.loc["nan", "error"]
    assert math.isnan(trials.loc["nan", "score"])
    kinds = {event.get("kind") for event in read_journal(study.path / "journal.jsonl") if event["event"] == "result"}
    assert kinds == {None, "ValueError", "non_finite_loss"}
    assert study.leaderboard()["status"].to_list() == ["completed"]
    assert reason(study) == "space exhausted"


def test_max_failures_ends_the_search(search, tmp_path):
    with pytest.raises(WorkError, match=r"stopped at budget\.max_failures: 2 trials failed, .*this point never builds"):
        search(
            model={"name": "fragile", "space": {"trouble": ["none", "raise"], "number": [1, 2]}},
            tuner={"name": "grid"},
            budget={"max_trials": 10, "max_failures": 2},
        )
    study = workbench.open_study(tmp_path / "study")
    assert (study.trials()["status"] == "failed").sum() == 2
    assert reason(study) == "max_failures"


def test_a_default_point_that_does_not_build_is_an_error_of_the_definition(search, tmp_path):
    with pytest.raises(SpaceError, match=r"that of fragile does not for 8x8x1 images .* ValueError: this point never"):
        search(model={"name": "fragile", "space": {"trouble": "raise"}})
    assert not (tmp_path / "study").exists()


def test_the_search_stops_at_its_target(search):
    study = search(budget={"max_trials": 50}, objective={"target": 0.01, "stop_at_target": True})
    assert len(study.trials()) == 1
    assert reason(study) == "target reached"


def test_plugins_are_told_and_their_failures_are_messages(search, tmp_path):
    file, plugin = tmp_path / "told", tmp_path / "logger.py"
    plugin.write_text(LOGGER.format(file=str(file)))
    study = search(plugin_files=[plugin], budget={"max_trials": 1})
    told = [json.loads(line) for line in file.read_text().splitlines()]
    rows = study.trials()[["trial_id", "status", "score"]].to_numpy().tolist()
    assert told == [*rows, ["finished", "study", 1]]


def test_several_models_and_schedules_are_chosen_from(search):
    study = search(
        model={"names": ["tiny", "fragile"], "space": {"trouble": "none"}},
        schedule={"names": ["constant", "warmup_cosine"]},
        budget={"max_trials": 3},
    )
    trials = study.trials()
    assert trials.loc[0, ["hp.model", "hp.schedule"]].to_list() == ["tiny", "constant"]
    assert trials["hp.model"].nunique() == 2
    assert trials["hp.tiny/units"].isna().equals(trials["hp.model"] == "fragile")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"model": {"name": "tinny"}}, DefinitionError, r"model\.name.*Did you mean 'tiny'"),
        ({"model": {"space": {"unitz": 4}}}, SpaceError, r'model\.space\."unitz" must match a hyperparameter of tiny'),
        ({"study": "a/b"}, UsageError, "a study's name must be one folder name"),
        ({"study": None}, UsageError, "needs study='NAME'"),
        ({"workers": 0}, UsageError, "workers must be 1 or more; received 0"),
        ({"workers": 2}, UsageError, "--inline trains in one process; received --workers 2"),
        ({"dataset": {"limit": 40}}, workbench.DataError, "a training batch needs 1 to 40 images"),
    ],
)
def test_what_cannot_be_carried_out_leaves_no_folder(search, tmp_path, changes, error, message):
    with pytest.raises(error, match=message):
        search(**changes)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_another_process_is_refused(search, tmp_path):
    search(budget={"max_trials": 1})
    with StudyDirectory(tmp_path / "study").lock(), pytest.raises(StudyLockedError, match="one process runs a study"):
        search(budget={"max_trials": 1})


def test_an_interrupted_search_goes_on_as_if_it_had_not_been(search, tmp_path):
    """Ctrl-C in the second trial's first epoch: its trial is trained again, the first one is not."""

    class Interrupting(SilentDisplay):
        def epoch(self, event):
            if event["trial_id"] == "0002" and event["epoch"] == 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(display=Interrupting(), training={"epochs": 2}, budget={"max_trials": 2})
    stopped = workbench.open_study(tmp_path / "study")
    assert stopped.trials()["status"].to_list() == ["completed", "interrupted"]
    resumed = search(training={"epochs": 2}, budget={"max_trials": 2})
    whole = search(study="whole", training={"epochs": 2}, budget={"max_trials": 2})
    columns = ["trial_id", "status", "epochs", "seed", "hp.tiny/units", "hp.tiny/activation"]
    assert resumed.trials()[columns].equals(whole.trials()[columns])
    np.testing.assert_allclose(resumed.trials()["score"], whole.trials()["score"], atol=1e-6)
    assert [session["event"] for session in resumed.history.sessions] == ["session"] * 2


@pytest.mark.slow
def test_several_workers(search):
    study = search(inline=False, workers=2, budget={"max_trials": 6})
    trials = study.trials()
    assert trials["status"].to_list() == ["completed"] * 6
    assert sorted(trials["trial_id"]) == [f"{number:04d}" for number in range(1, 7)]
    assert trials[["hp.tiny/units", "hp.tiny/activation"]].duplicated().sum() == 0
    assert study.history.sessions[0]["workers"] == 2


@pytest.mark.slow
def test_a_worker_that_dies_fails_its_trial_only(search):
    study = search(
        model={"name": "fragile", "space": {"trouble": ["none", "kill"], "number": 1}},
        inline=False,
        tuner={"name": "grid"},
    )
    trials = study.trials().set_index("hp.fragile/trouble")
    assert trials["status"].to_dict() == {"none": "completed", "kill": "failed"}
    assert "signal SIGKILL" in trials.loc["kill", "error"]
    assert "3 times in a row" in trials.loc["kill", "error"]
