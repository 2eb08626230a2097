"""Events folded into trials."""

from __future__ import annotations

import json
import math

import hypothesis
import pytest
from hypothesis import strategies as st

from workbench.errors import StudyError
from workbench.oracles.protocol import Outcome
from workbench.study import open_study
from workbench.trials import TRIAL_COLUMNS, Status, fold


def proposal(trial_id="0001", epochs=3, rung=None, **values):
    return {
        "event": "proposal",
        "trial_id": trial_id,
        "values": values or {"tiny/units": 8},
        "epochs": epochs,
        "bracket": 0 if rung is not None else None,
        "rung": rung,
        "at": "2026-01-02T03:04:06+00:00",
    }


def attempt(from_epoch=0, execution=1, trial_id="0001", seed=11):
    return {
        "event": "attempt",
        "trial_id": trial_id,
        "execution": execution,
        "seed": seed,
        "from_epoch": from_epoch,
        "device": "cpu",
        "replicas": 1,
    }


def epoch(number, score, execution=1, trial_id="0001", step_ms=10.0, **more):
    return {
        "event": "epoch",
        "trial_id": trial_id,
        "execution": execution,
        "epoch": number,
        "metrics": {"loss": 0.5, "val_accuracy": score},
        "learning_rate": 0.001,
        "seconds": 2.0,
        "step_ms": step_ms,
        "images_per_s": 1000 / step_ms,
        **more,
    }


def result(status="completed", score=None, trial_id="0001", **more):
    return {"event": "result", "trial_id": trial_id, "status": status, "score": score, **more}


def row(*events, direction="max", until=None):
    history = fold([proposal(), *events])
    return history.trials["0001"].row("val_accuracy", direction, until)


def test_a_row_has_the_columns_in_order():
    assert tuple(row(attempt())) == (*TRIAL_COLUMNS, "hp.tiny/units")


def test_a_row_of_one_execution():
    found = row(
        {"event": "space", "metric": "val_accuracy"},
        attempt(seed=7),
        {"event": "model", "trial_id": "0001", "parameters": 610, "flops": 1200, "mxu_fill": 0.25},
        epoch(1, 0.5, step_ms=500.0, first=True),
        epoch(2, 0.7, step_ms=20.0),
        epoch(3, 0.6, step_ms=10.0),
        result(score=0.7),
    )
    assert found == {
        "trial_id": "0001",
        "status": "completed",
        "score": 0.7,
        "score_std": None,
        "last_score": 0.6,
        "best_epoch": 2,
        "epochs": 3,
        "bracket": None,
        "rung": None,
        "parameters": 610,
        "flops": 1200,
        "mxu_fill": 0.25,
        "seconds": 6.0,
        "step_ms": 15.0,
        "images_per_s": 75.0,
        "device": "cpu",
        "replicas": 1,
        "seed": 7,
        "started_at": "2026-01-02T03:04:06+00:00",
        "error": None,
        "hp.tiny/units": 8,
    }


def test_a_later_attempt_supersedes_the_epochs_after_its_checkpoint():
    history = fold(
        [
            proposal(),
            attempt(),
            epoch(1, 0.1),
            epoch(2, 0.9),
            epoch(3, 0.95),
            attempt(from_epoch=1),
            epoch(2, 0.3),
        ]
    )
    execution = history.trials["0001"].executions[1]
    assert execution.metric("val_accuracy") == [(1, 0.1), (2, 0.3)]
    assert history.seconds == 8.0, "time is spent whether its epochs count or not"
    assert history.trials["0001"].score("val_accuracy", "max") == 0.3


def test_score_is_the_mean_over_executions_of_each_ones_best_epoch():
    events = [attempt(), epoch(1, 0.5), epoch(2, 0.8), attempt(execution=2), epoch(1, 0.6, 2), epoch(2, 0.4, 2)]
    found = row(*events, result(score=0.7))
    assert found["score"] == pytest.approx(0.7)
    assert found["score_std"] == pytest.approx(0.2 / math.sqrt(2))
    assert found["last_score"] == pytest.approx(0.6)
    assert found["best_epoch"] == 2, "of the better execution"
    smallest = row(*events, result(score=0.45), direction="min")
    assert (smallest["score"], smallest["best_epoch"]) == (pytest.approx(0.45), 2)


@pytest.mark.parametrize("direction", ["max", "min"])
def test_the_first_of_equal_epochs_is_the_best(direction):
    assert row(attempt(), *(epoch(n, 0.5) for n in (1, 2, 3)), direction=direction)["best_epoch"] == 1


def test_values_that_are_not_finite_are_never_the_best():
    found = row(attempt(), epoch(1, 0.4), epoch(2, float("nan")), epoch(3, float("inf")))
    assert (found["score"], found["best_epoch"], found["epochs"]) == (0.4, 1, 3)


def test_looking_at_the_first_epochs_only():
    found = row(attempt(), epoch(1, 0.5), epoch(2, 0.4), epoch(3, 0.9), until=2)
    assert (found["score"], found["last_score"], found["best_epoch"], found["seconds"]) == (0.5, 0.4, 1, 4.0)


@pytest.mark.parametrize(("status", "scored"), [("completed", True), ("stopped", True), ("failed", False)])
def test_statuses(status, scored):
    history = fold([proposal(), attempt(), epoch(1, 0.5), result(status, 0.5 if scored else None, error="a reason")])
    trial = history.trials["0001"]
    assert trial.status is Status(status)
    assert trial.row("val_accuracy", "max")["error"] == "a reason"
    assert trial.row("val_accuracy", "max")["score"] == (0.5 if scored else None)
    assert [(record.outcome, record.score) for record in history.records] == [
        (Outcome(status), 0.5 if scored else None)
    ]


def test_a_promotion_is_another_record_of_the_same_trial():
    history = fold(
        [
            proposal(epochs=1, rung=0),
            attempt(),
            epoch(1, 0.5),
            result(score=0.5),
            proposal("0002", epochs=1, rung=0),
            result("failed", trial_id="0002"),
            proposal(epochs=3, rung=1),
        ]
    )
    trial = history.trials["0001"]
    assert (trial.status, trial.rung, trial.target_epochs) == (Status.RUNNING, 1, 3)
    assert list(history.trials) == ["0001", "0002"]
    assert [(record.trial_id, record.epochs, record.rung, record.outcome.value) for record in history.records] == [
        ("0001", 1, 0, "completed"),
        ("0002", 1, 0, "failed"),
        ("0001", 3, 1, "running"),
    ]
    for event in (attempt(from_epoch=1), epoch(2, 0.6), epoch(3, 0.7), result(score=0.7)):
        history.apply(event)
    assert [record.score for record in history.records] == [0.5, None, 0.7]
    assert trial.row("val_accuracy", "max")["epochs"] == 3


def test_rejected_points_are_records_and_no_trials():
    history = fold([{"event": "rejected", "values": {"a": 1}, "parameters": 5, "flops": 6, "reason": "large"}])
    assert history.trials == {}
    assert [(record.outcome, record.values) for record in history.records] == [(Outcome.REJECTED, {"a": 1})]
    assert history.rejections[0]["reason"] == "large"


def test_finished_holds_until_the_next_session():
    history = fold([{"event": "session"}, {"event": "finished", "reason": "max_trials"}])
    assert history.finished["reason"] == "max_trials"
    history.apply({"event": "session"})
    assert history.finished is None
    assert len(history.sessions) == 2


def test_events_of_later_versions_are_passed_over():
    assert fold([{"event": "from_the_future"}, proposal()]).trials.keys() == {"0001"}


def test_objective_and_checkpoint():
    checkpoint = {"event": "checkpoint", "trial_id": "0001", "execution": 1, "file": "a.npz"}
    history = fold([{"event": "space", "metric": "val_loss", "direction": "min"}, proposal(), attempt(), checkpoint])
    assert (history.metric, history.direction) == ("val_loss", "min")
    assert history.trials["0001"].executions[1].checkpoint["file"] == "a.npz"


WRONG = [None, [], {}, -1, "x", 1e308, True]


@pytest.fixture(scope="module")
def journal_lines(write_study, tmp_path_factory):
    trials = [{"values": {"a": n}, "scores": [[0.5, 0.6]]} for n in range(2)]
    study = write_study(tmp_path_factory.mktemp("studies") / "study", trials)
    return (study.path / "journal.jsonl").read_text().splitlines()


@hypothesis.given(data=st.data())
def test_a_changed_key_is_read_or_named(journal_lines, tmp_path_factory, data):
    """Whatever one key of one event becomes: tables are made, or one error says which line is wrong."""
    number = data.draw(st.integers(0, len(journal_lines) - 1))
    event = json.loads(journal_lines[number])
    key = data.draw(st.sampled_from(sorted(event)))
    value = data.draw(st.sampled_from([*WRONG, ...]))
    changed = {name: found for name, found in event.items() if name != key or value is not ...}
    if value is not ...:
        changed[key] = value
    folder = tmp_path_factory.mktemp("changed")
    lines = [*journal_lines[:number], json.dumps(changed), *journal_lines[number + 1 :]]
    (folder / "journal.jsonl").write_text("\n".join(lines) + "\n")
    error = _read(folder)
    if error is not None:
        assert str(folder / "journal.jsonl") in error
        assert "received" in error


def _read(folder):
    """Makes every table; the error's text if there was one."""
    try:
        study = open_study(folder)
        study.leaderboard(all_statuses=True)
        study.epochs()
        study.best_so_far()
    except StudyError as error:
        return str(error)
    return None
