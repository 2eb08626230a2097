from collections import Counter

import keras_tuner
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workbench_plugins.oracles import hyperband

from workbench.oracles.history import HistoryOracle
from workbench.oracles.protocol import Outcome


def line():
    hp = keras_tuner.HyperParameters()
    hp.Float("x", 0, 1)
    return hp


def make(options=None, *, max_epochs=9, max_trials=None, direction="max", space=None, **others):
    return HistoryOracle(
        hyperband.create({"hyperband_iterations": 1} if options is None else options),
        objective="score",
        direction=direction,
        space=space or line(),
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
    """How many proposals each (bracket, rung, epochs) has."""
    return dict(Counter((record.bracket, record.rung, record.epochs) for record in records))


def test_the_plan_of_the_paper():
    """Algorithm 1 of JMLR 18(185) for R = 81, eta = 3, and the epochs of its Table 1."""
    plan = hyperband.HyperbandProposer().plan(81)
    assert [(b.trials, b.epochs) for b in plan] == [
        (81, (1, 3, 9, 27, 81)),
        (34, (3, 9, 27, 81)),  # 27 in the table; 5 / 4 * 27 rounded up in Algorithm 1
        (15, (9, 27, 81)),  # 9 in the table
        (8, (27, 81)),  # 6 in the table
        (5, (81,)),
    ]


@given(st.integers(1, 500), st.integers(2, 6), st.integers(1, 20))
def test_epochs_rise_to_the_full_budget(max_epochs, factor, min_epochs):
    for bracket in hyperband.HyperbandProposer(factor, None, min_epochs).plan(max_epochs):
        assert bracket.epochs[-1] == max_epochs
        assert list(bracket.epochs) == sorted(set(bracket.epochs))
        assert bracket.epochs[0] >= min(min_epochs, max_epochs)
        assert bracket.trials >= factor ** (len(bracket.epochs) - 1)


def test_min_epochs_leaves_out_the_severest_brackets():
    plan = hyperband.HyperbandProposer(min_epochs=4).plan(35)
    assert [b.epochs for b in plan] == [(12, 35), (35,)]  # 35 / 9 is less than 4


def test_the_whole_plan_is_run():
    records = run(make())
    assert counts(records) == {
        (0, 0, 1): 9,
        (0, 1, 3): 3,
        (0, 2, 9): 1,
        (1, 0, 3): 5,
        (1, 1, 9): 1,
        (2, 0, 9): 3,
    }
    assert len({record.trial_id for record in records}) == 17


def test_without_a_number_of_iterations_the_plan_repeats_to_the_end_of_the_budget():
    records = run(make({}, max_trials=40))
    assert len({record.trial_id for record in records}) == 40, "one run of the plan has 17"
    assert {record.bracket for record in records} == set(range(7))
    assert counts(records)[0, 0, 1] == counts(records)[3, 0, 1] == 9


def test_a_budget_of_few_epochs_still_gives_the_trials_asked_for():
    records = run(make({}, max_epochs=2, max_trials=3))
    assert [record.epochs for record in records] == [2, 2, 2]


def test_iterations_repeat_the_plan_with_new_brackets():
    once, twice = run(make()), run(make({"hyperband_iterations": 2}))
    assert len(twice) == 2 * len(once)
    assert {record.bracket for record in twice} == set(range(6))


@pytest.mark.parametrize("direction", ["max", "min"])
def test_the_best_are_promoted_with_their_values(direction):
    records = run(make(direction=direction))
    first = [r for r in records if (r.bracket, r.rung) == (0, 0)]
    second = [r for r in records if (r.bracket, r.rung) == (0, 1)]
    best = sorted(first, key=lambda record: record.score, reverse=direction == "max")[:3]
    assert [(r.trial_id, r.values) for r in second] == [(r.trial_id, r.values) for r in best]


def test_failures_neither_block_promotion_nor_are_promoted():
    records = run(make(), failing=(1, 2, 3, 4, 5, 6, 7, 10))
    assert [r.outcome for r in records[:9]] == [Outcome.FAILED] * 7 + [Outcome.COMPLETED] * 2
    promoted = [r for r in records if (r.bracket, r.rung) == (0, 1)]
    assert {r.trial_id for r in promoted} == {"0008", "0009"}
    assert promoted[0].outcome is Outcome.FAILED
    last = [r for r in records if (r.bracket, r.rung) == (0, 2)]
    assert [r.trial_id for r in last] == [promoted[1].trial_id]


def test_a_rung_of_failures_ends_its_bracket_only():
    records = run(make(), failing=range(1, 10))
    assert counts(records) == {(0, 0, 1): 9, (1, 0, 3): 5, (1, 1, 9): 1, (2, 0, 9): 3}


def test_stopped_trials_are_not_promoted():
    oracle = make()
    for number in range(9):
        trial = oracle.create_trial("w")
        finish(oracle, trial, 1.0 - number / 10, status="STOPPED" if number < 3 else "COMPLETED")
    oracle.create_trial("w")
    assert oracle.records()[-1].trial_id == "0004"


def test_a_full_rung_that_still_runs_lets_the_next_bracket_start():
    oracle = make()
    trials = [oracle.create_trial(f"w{i}") for i in range(9)]
    for trial in trials[:8]:
        finish(oracle, trial, 0.5)
    oracle.create_trial("w0")
    assert (oracle.records()[-1].bracket, oracle.records()[-1].rung) == (1, 0)
    finish(oracle, trials[8], 0.9)
    oracle.create_trial("w1")
    last = oracle.records()[-1]
    assert (last.bracket, last.rung, last.trial_id) == (0, 1, "0009")


def test_waits_where_nothing_else_can_start():
    oracle = make(max_trials=9)
    trials = [oracle.create_trial(f"w{i}") for i in range(9)]
    for trial in trials[:8]:
        finish(oracle, trial, 0.5)
    assert oracle.create_trial("w0").status == "IDLE"
    finish(oracle, trials[8], 0.9)
    assert oracle.create_trial("w0").status == "RUNNING"
    assert oracle.records()[-1].trial_id == "0009"


def test_fewer_trials_than_the_first_rung_are_promoted_in_proportion():
    oracle = make({}, max_epochs=27, max_trials=10)
    records = run(oracle)
    assert counts(records) == {(0, 0, 1): 10, (0, 1, 3): 3, (0, 2, 9): 1, (0, 3, 27): 1}
    assert oracle.stop_reason == "max_trials"


def test_max_trials_ends_a_later_bracket_with_what_it_has():
    records = run(make(max_trials=12))
    assert counts(records) == {
        (0, 0, 1): 9,
        (0, 1, 3): 3,
        (0, 2, 9): 1,
        (1, 0, 3): 3,
        (1, 1, 9): 1,
    }


def test_a_larger_max_trials_fills_up_what_was_closed():
    records = run(make(max_epochs=9, max_trials=4))
    assert counts(records) == {(0, 0, 1): 4, (0, 1, 3): 1, (0, 2, 9): 1}
    assert counts(run(make(records=records))) == counts(run(make()))


def test_a_used_up_space_closes_the_rung():
    hp = keras_tuner.HyperParameters()
    hp.Int("x", 1, 6)
    oracle = make(space=hp)
    assert counts(run(oracle)) == {(0, 0, 1): 6, (0, 1, 3): 2, (0, 2, 9): 1}
    assert oracle.stop_reason == "plan done"


def test_enqueued_points_take_places_of_the_first_rung():
    oracle = make(enqueued=[{"x": 0.999}, {"x": 0.5}])
    records = run(oracle)
    assert counts(records) == counts(run(make()))
    assert [(r.values["x"], r.bracket, r.rung, r.epochs) for r in records[:2]] == [
        (0.999, 0, 0, 1),
        (0.5, 0, 0, 1),
    ]
    full = [r for r in records if (r.bracket, r.rung) == (0, 2)]
    assert [r.trial_id for r in full] == ["0001"]


def test_more_enqueued_points_than_the_plan_has_places_are_trained_in_full():
    oracle = make(max_epochs=1, enqueued=[{"x": 0.1}, {"x": 0.2}])
    records = run(oracle)
    assert [(r.bracket, r.rung, r.epochs) for r in records] == [(0, 0, 1), (None, None, 1)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"factor": 1}, "factor must be a whole number of at least 2; received 1"),
        (
            {"hyperband_iterations": 0},
            "hyperband_iterations must be a whole number of at least 1",
        ),
        ({"min_epochs": 0.5}, "min_epochs must be a whole number of at least 1; received 0.5"),
        ({"fator": 3}, "Did you mean 'factor'"),
    ],
)
def test_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        hyperband.create(options)
