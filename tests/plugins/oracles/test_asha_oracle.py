from collections import Counter

import keras_tuner
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workbench_plugins.oracles import asha

from workbench.oracles.history import HistoryOracle
from workbench.oracles.protocol import Outcome


def make(options=None, *, max_epochs=9, max_trials=None, direction="max", space=None, **others):
    if space is None:
        space = keras_tuner.HyperParameters()
        space.Float("x", 0, 1)
    return HistoryOracle(
        asha.create(options or {}),
        objective="score",
        direction=direction,
        space=space,
        seed=0,
        max_epochs=max_epochs,
        max_trials=max_trials,
        **others,
    )


def finish(oracle, trial, score=None, status="COMPLETED"):
    if score is not None:
        oracle.update_trial(trial.trial_id, {"score": score})
    trial.status = status
    oracle.end_trial(trial)


def run(oracle, score=lambda values: values["x"], failing=()):
    """One worker, to the end; the proposals numbered in `failing` fail."""
    while (trial := oracle.create_trial("w")).status == "RUNNING":
        if len(oracle.records()) in failing:
            finish(oracle, trial, status="FAILED")
        else:
            finish(oracle, trial, score(trial.hyperparameters.values))
    assert trial.status == "STOPPED"
    return oracle.records()


def counts(records):
    """How many proposals each (rung, epochs) has."""
    return dict(Counter((record.rung, record.epochs) for record in records))


@pytest.mark.parametrize(
    ("options", "max_epochs", "rungs"),
    [
        ({}, 81, (1, 3, 9, 27, 81)),
        ({}, 35, (1, 4, 12, 35)),
        ({"min_epochs": 4}, 35, (12, 35)),  # 35 / 9 is less than 4
        ({"factor": 2}, 8, (1, 2, 4, 8)),
        ({}, 2, (2,)),
        ({"min_epochs": 9}, 5, (5,)),
    ],
)
def test_rungs(options, max_epochs, rungs):
    assert asha.create(options).rungs(max_epochs) == rungs


@given(st.integers(1, 500), st.integers(2, 6), st.integers(1, 20))
def test_epochs_rise_to_the_full_budget(max_epochs, factor, min_epochs):
    rungs = asha.AshaProposer(factor, min_epochs).rungs(max_epochs)
    assert rungs[-1] == max_epochs
    assert list(rungs) == sorted(set(rungs))
    assert rungs[0] >= min(min_epochs, max_epochs)


@pytest.mark.parametrize("direction", ["max", "min"])
def test_promotes_as_soon_as_a_third_is_known(direction):
    oracle = make(direction=direction)
    scores = {"0001": 0.5, "0002": 0.9, "0003": 0.1}
    for trial_id in scores:
        finish(oracle, oracle.create_trial("w"), scores[trial_id])
    oracle.create_trial("w")
    last = oracle.records()[-1]
    best = "0002" if direction == "max" else "0003"
    assert (last.trial_id, last.bracket, last.rung, last.epochs) == (best, 0, 1, 3)
    assert last.values == next(r.values for r in oracle.records() if r.trial_id == best)


def test_the_highest_rung_goes_first():
    oracle = make()
    for number in range(14):  # 9 first ones and 3 promotions make a third-rung promotion possible at the 13th
        trial = oracle.create_trial("w")
        record = oracle.records()[-1]
        finish(oracle, trial, 1 - int(record.trial_id) / 100)
        if number == 11:
            assert counts(oracle.records()) == {(0, 1): 9, (1, 3): 3}
    assert [(r.rung, r.trial_id) for r in oracle.records()[3::4][:3]] == [(1, "0001"), (1, "0002"), (1, "0003")]
    assert (oracle.records()[12].rung, oracle.records()[12].trial_id) == (2, "0001")
    assert oracle.records()[13].rung == 0


def test_never_waits_while_trials_may_be_started():
    oracle = make()
    trials = [oracle.create_trial(f"w{i}") for i in range(30)]
    assert {trial.status for trial in trials} == {"RUNNING"}
    assert counts(oracle.records()) == {(0, 1): 30}
    for trial in trials[:3]:
        finish(oracle, trial, 0.5)
    oracle.create_trial("w0")
    assert oracle.records()[-1].rung == 1


def test_a_new_best_is_promoted_at_once_and_the_one_that_it_drove_out_stays():
    oracle = make()
    for score in (0.3, 0.2, 0.1):
        finish(oracle, oracle.create_trial("w"), score)
    finish(oracle, oracle.create_trial("w"), 0.3)
    finish(oracle, oracle.create_trial("w"), 0.9)
    finish(oracle, oracle.create_trial("w"), 0.9)
    finish(oracle, oracle.create_trial("w"), 0.1)
    promoted = [(r.trial_id, r.rung) for r in oracle.records() if r.rung != 0]
    assert promoted == [("0001", 1), ("0004", 1)]
    assert counts(oracle.records()) == {(0, 1): 5, (1, 3): 2}  # two of rung 1 are no third of three


@pytest.mark.parametrize("status", ["FAILED", "STOPPED"])
def test_failed_and_stopped_trials_neither_count_nor_go_on(status):
    oracle = make()
    for _ in range(3):
        score = 0.9 if status == "STOPPED" else None
        finish(oracle, oracle.create_trial("w"), score, status)
    for score in (0.1, 0.3, 0.2):
        finish(oracle, oracle.create_trial("w"), score)
    assert counts(oracle.records()) == {(0, 1): 6}
    oracle.create_trial("w")
    assert (oracle.records()[-1].trial_id, oracle.records()[-1].rung) == ("0005", 1)


def test_a_study_ends_with_a_trial_of_the_full_budget():
    oracle = make(max_trials=4, max_epochs=27)
    records = run(oracle, score=lambda values: 0.5)
    assert [(r.trial_id, r.rung, r.epochs) for r in records] == [
        ("0001", 0, 1),
        ("0002", 0, 1),
        ("0003", 0, 1),
        ("0001", 1, 3),
        ("0004", 0, 1),
        ("0001", 2, 9),
        ("0001", 3, 27),
    ]
    assert oracle.stop_reason == "max_trials"


def test_the_next_best_takes_the_place_of_a_failure_at_the_end():
    records = run(make(max_trials=2, max_epochs=3), failing=(3,))
    best, other = sorted(records[:2], key=lambda record: record.score, reverse=True)
    assert [(r.trial_id, r.rung, r.outcome) for r in records[2:]] == [
        (best.trial_id, 1, Outcome.FAILED),
        (other.trial_id, 1, Outcome.COMPLETED),
    ]


def test_waits_at_the_end_for_what_still_runs():
    oracle = make(max_trials=2)
    trials = [oracle.create_trial(f"w{i}") for i in range(2)]
    finish(oracle, trials[0], 0.5)
    assert oracle.create_trial("w0").status == "IDLE"
    finish(oracle, trials[1], 0.9)
    assert oracle.create_trial("w0").status == "RUNNING"
    assert (oracle.records()[-1].trial_id, oracle.records()[-1].rung) == ("0002", 1)


def test_a_failure_makes_room_for_a_new_trial():
    oracle = make(max_trials=1)
    finish(oracle, oracle.create_trial("w"), status="FAILED")
    oracle.create_trial("w")
    assert counts(oracle.records()) == {(0, 1): 2}


def test_a_used_up_space_promotes_what_it_has():
    hp = keras_tuner.HyperParameters()
    hp.Int("x", 1, 6)
    oracle = make(space=hp)
    assert counts(run(oracle)) == {(0, 1): 6, (1, 3): 2, (2, 9): 1}
    assert oracle.stop_reason == "plan done"


def test_one_rung_is_random_search():
    assert counts(run(make(max_epochs=1, max_trials=7))) == {(0, 1): 7}


def test_enqueued_points_start_in_the_first_rung():
    oracle = make(enqueued=[{"x": 0.999}, {"x": 0.5}])
    for _ in range(2):
        finish(oracle, oracle.create_trial("w"), 0.5)
    assert [(r.values["x"], r.bracket, r.rung, r.epochs) for r in oracle.records()] == [
        (0.999, 0, 0, 1),
        (0.5, 0, 0, 1),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"factor": 1}, "factor must be a whole number of at least 2; received 1"),
        ({"min_epochs": 0.5}, "min_epochs must be a whole number of at least 1; received 0.5"),
        ({"fator": 3}, "Did you mean 'factor'"),
    ],
)
def test_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        asha.create(options)
