"""When executions end early: the rules, by numbers computed by hand."""

from __future__ import annotations

import pytest

from workbench.stopping import StopKind, StoppingRules
from workbench.trials import fold


def trial(*executions, metric="val_accuracy", seconds=2.0, target=10, trial_id="0001"):
    """A trial whose executions had these values of the objective by epoch."""
    events = [
        {"event": "proposal", "trial_id": trial_id, "values": {}, "epochs": target, "at": "2026-01-02T03:04:05+00:00"}
    ]
    for number, values in enumerate(executions, start=1):
        events.append({"event": "attempt", "trial_id": trial_id, "execution": number, "seed": 1, "from_epoch": 0})
        for epoch, value in enumerate(values, start=1):
            metrics = {"loss": 1.0} if value is None else {"loss": 1.0, metric: value}
            events.append(
                {
                    **{"event": "epoch", "trial_id": trial_id, "execution": number, "epoch": epoch},
                    **{"metrics": metrics, "seconds": seconds},
                }
            )
    return fold(events).trials[trial_id]


@pytest.fixture
def rules(tiny_definition):
    def make(metric="val_accuracy", direction="max", objective=None, **training):
        budget = training.pop("budget", {"max_trials": 2})
        definition = tiny_definition(
            training={"epochs": 10, **training},
            objective={"metric": metric, "direction": direction, **(objective or {})},
            budget=budget,
        )
        return StoppingRules(definition, metric, direction)

    return make


def test_no_rules_no_end(rules):
    assert rules().check(trial([0.1] * 9), 1, [trial([0.9] * 9, trial_id="0002")] * 9) is None


@pytest.mark.parametrize(
    ("metric", "direction", "values", "ends"),
    [
        ("val_accuracy", "max", [0.5, 0.69], False),
        ("val_accuracy", "max", [0.5, 0.7], True),
        ("val_accuracy", "max", [0.8, 0.5], True),
        ("val_loss", "min", [0.9, 0.71], False),
        ("val_loss", "min", [0.9, 0.7], True),
    ],
)
def test_the_epoch_that_reaches_the_target_is_the_last_one(rules, metric, direction, values, ends):
    objective = {"target": 0.7, "stop_at_target": True}
    stop = rules(metric, direction, objective).check(trial(values, metric=metric), 1, [])
    assert (stop is not None) == ends
    if stop is not None:
        assert stop.kind is StopKind.CONVERGED
        assert "stop_at_target" in stop.reason


@pytest.mark.parametrize(
    ("objective", "executions"), [({"target": 0.7}, 1), ({"target": 0.7, "stop_at_target": True}, 2)]
)
def test_a_target_alone_and_one_of_several_executions_end_nothing(rules, objective, executions):
    assert rules(objective=objective, executions=executions).check(trial([0.9]), 1, []) is None


@pytest.mark.parametrize(
    ("values", "best"),
    [
        ([0.5, 0.4, 0.4], None),
        ([0.5, 0.4, 0.4, 0.5], 1),
        ([0.5, 0.4, 0.6, 0.5], None),
        ([0.1, 0.2, 0.3, 0.3, 0.3, 0.3], 3),
        ([0.5, float("nan"), float("nan"), 0.4], 1),
        ([None, 0.5, 0.4, 0.4], None),
        ([None, 0.5, 0.4, 0.4, 0.4], 2),
    ],
)
def test_patience_counts_epochs_since_the_best(rules, values, best):
    stop = rules(early_stopping={"patience": 3}).check(trial(values), 1, [])
    if best is None:
        assert stop is None
    else:
        assert stop.kind is StopKind.CONVERGED
        assert stop.reason == f"early_stopping: no better val_accuracy since epoch {best}"


def test_patience_follows_the_direction(rules):
    falling = [0.9, 0.8, 0.7, 0.6]
    setting = {"early_stopping": {"patience": 2}}
    assert rules("val_loss", "min", **setting).check(trial(falling, metric="val_loss"), 1, []) is None
    rising = trial(falling[::-1], metric="val_loss")
    assert "since epoch 1" in rules("val_loss", "min", **setting).check(rising, 1, []).reason


@pytest.mark.parametrize(("delta", "best"), [(0.0, None), (0.05, None), (0.11, 1)])
def test_min_delta_is_what_counts_as_better(rules, delta, best):
    # 0.5 to 0.6 is better by 0.1; what follows is not better than 0.6 but within the patience of 2.
    stop = rules(early_stopping={"patience": 2, "min_delta": delta}).check(trial([0.5, 0.6, 0.59]), 1, [])
    assert (stop is None) == (best is None)
    small_steps = trial([0.50, 0.54, 0.58])
    stop = rules(early_stopping={"patience": 2, "min_delta": 0.05}).check(small_steps, 1, [])
    assert stop is None, "0.58 is better than 0.50 by more than 0.05"


def test_the_first_value_is_better_than_none_whatever_min_delta_says(rules):
    stop = rules("val_loss", "min", early_stopping={"patience": 1, "min_delta": 100.0}).check(
        trial([1000.0], metric="val_loss"), 1, []
    )
    assert stop is None


@pytest.mark.parametrize(("limit", "ends"), [(11.9, True), (12.0, True), (12.1, False)])
def test_the_time_of_a_trial_is_that_of_all_its_executions(rules, limit, ends):
    stop = rules(budget={"max_trials": 2, "max_trial_seconds": limit}).check(trial([0.1] * 4, [0.1] * 2), 2, [])
    if ends:
        assert stop.kind is StopKind.CUT
        assert stop.reason == f"max_trial_seconds: 12.0 s of {limit:g} s are spent"
    else:
        assert stop is None


OTHERS = [
    # Running averages at epoch 3: 0.2, 0.4, 0.6.
    trial([0.1, 0.2, 0.3, 0.99], trial_id="0002"),
    trial([0.2, 0.4, 0.6], trial_id="0003"),
    trial([0.6, 0.6, 0.6], trial_id="0004"),
]


@pytest.mark.parametrize(
    ("values", "ends"),
    [([0.0, 0.39, 0.1], True), ([0.0, 0.41, 0.1], False), ([0.0, 0.4, 0.1], False), ([0.0, 0.1], False)],
)
def test_the_median_rule(rules, values, ends):
    """Vizier's: stopped if the best until then is below the median of the others' running averages, here 0.4."""
    own = trial(values)
    stop = rules(median_rule={"min_epochs": 3, "min_trials": 3}).check(own, 1, [own, *OTHERS])
    if ends:
        assert stop.kind is StopKind.CUT
        assert stop.reason == (
            "median_rule: best val_accuracy 0.39 after epoch 3; the median of 3 others' averages is 0.4"
        )
    else:
        assert stop is None


def test_the_median_rule_follows_the_direction(rules):
    others = [trial([value] * 3, metric="val_loss", trial_id=str(value)) for value in (1.0, 2.0, 3.0)]
    rule = rules("val_loss", "min", median_rule={"min_epochs": 1, "min_trials": 3})
    assert rule.check(trial([2.5, 2.1], metric="val_loss"), 1, others).reason == (
        "median_rule: best val_loss 2.1 after epoch 2; the median of 3 others' averages is 2"
    )
    assert rule.check(trial([2.5, 1.9], metric="val_loss"), 1, others) is None


def test_the_median_rule_waits_for_enough_others_at_that_epoch(rules):
    poor = trial([0.0] * 4)
    rule = rules(median_rule={"min_epochs": 1, "min_trials": 3})
    assert rule.check(trial([0.0] * 3), 1, OTHERS) is not None
    assert rule.check(poor, 1, [poor, *OTHERS]) is None, "only one other got to epoch 4"


def test_other_trials_executions_are_averaged(rules):
    # Averages (0.2 + 0.6) / 2 = 0.4 of the two executions that got so far; the third is too short to count.
    other = trial([0.2, 0.2], [0.6, 0.6], [0.9], trial_id="0002")
    rule = rules(median_rule={"min_epochs": 1, "min_trials": 1})
    assert "others' averages is 0.4" in rule.check(trial([0.39, 0.3]), 1, [other]).reason
    assert rule.check(trial([0.4, 0.3]), 1, [other]) is None


@pytest.mark.parametrize(
    "setting",
    [
        {"early_stopping": {"patience": 1}},
        {"median_rule": {"min_epochs": 1, "min_trials": 1}},
        {"budget": {"max_trials": 2, "max_trial_seconds": 1}},
    ],
)
def test_no_rule_ends_what_is_trained_in_full(rules, setting):
    """A trial that was killed after its last epoch, and one that was not, end in the same way."""
    rule = rules(**setting)
    assert rule.check(trial([0.3, 0.1], target=3), 1, OTHERS) is not None
    assert rule.check(trial([0.3, 0.1], target=2), 1, OTHERS) is None


def test_rules_in_a_search(tiny_tables, tiny_plugin, tmp_path):
    """A learning rate of almost nothing: the objective does not move, so patience ends every execution."""
    import workbench

    study = workbench.search(
        tiny_tables(
            training={"epochs": 9, "early_stopping": {"patience": 2, "min_delta": 0.5}},
            budget={"max_trials": 1},
        ),
        **{"study": "study", "directory": tmp_path, "plugin_files": [tiny_plugin], "inline": True, "device": "cpu"},
    )
    (row,) = study.trials().to_dict("records")
    assert (row["status"], row["epochs"]) == ("completed", 3)
    assert study.history.finished["reason"] == "max_trials"
