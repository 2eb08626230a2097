from collections import Counter

import keras_tuner
import numpy as np
import pytest
from workbench_plugins.oracles import evolution, random

from workbench.oracles.history import HistoryOracle
from workbench.oracles.protocol import Outcome, Record, Verdict
from workbench.oracles.sampling import point_key


def ops():
    """4,096 points."""
    hp = keras_tuner.HyperParameters()
    for index in range(6):
        hp.Choice(f"op{index}", ["a", "b", "c", "d"])
    return hp


def record(number, values, score=0.0, outcome=Outcome.COMPLETED):
    has_score = outcome in (Outcome.COMPLETED, Outcome.STOPPED)
    return Record(
        trial_id=f"{number:04d}", values=values, epochs=1, outcome=outcome, score=score if has_score else None
    )


def points(letters):
    return [{f"op{i}": letter for i in range(6)} for letter in letters]


def propose(proposer, records, seed=0, direction="max", space=None):
    return proposer.propose(space or ops(), records, np.random.default_rng(seed), direction=direction, max_epochs=1)


def distance(left, right):
    return sum(left[name] != right[name] for name in left)


def parents_of_children(proposer, records, direction="max"):
    """How often each record's point is the one that a child differs from in one value."""
    counts = Counter()
    for seed in range(60):
        child = propose(proposer, records, seed, direction).values
        near = [r.trial_id for r in records if distance(r.values, child) == 1]
        counts.update(near or ["none"])
    return counts


@pytest.mark.parametrize(("direction", "parent"), [("max", "0003"), ("min", "0001")])
def test_a_child_differs_from_the_best_of_the_sample_in_one_value(direction, parent):
    records = [record(i, values, score=i) for i, values in enumerate(points("abc"), start=1)]
    proposer = evolution.create({"population": 3, "sample": 3})
    assert parents_of_children(proposer, records, direction) == {parent: 60}


def test_a_sample_of_one_lets_every_member_have_children():
    records = [record(i, values, score=i) for i, values in enumerate(points("abc"), start=1)]
    counts = parents_of_children(evolution.create({"population": 3, "sample": 1}), records)
    assert set(counts) == {"0001", "0002", "0003"}
    assert min(counts.values()) >= 10


def test_the_oldest_dies_however_good_it_is():
    records = [record(i, values, score=-i) for i, values in enumerate(points("abcd"), start=1)]
    counts = parents_of_children(evolution.create({"population": 2, "sample": 2}), records)
    assert counts == {"0003": 60}


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.STOPPED, Outcome.REJECTED, Outcome.RUNNING])
def test_only_completed_trials_have_children_and_places_in_the_population(outcome):
    letters = points("abcd")
    records = [record(1, letters[0], 1.0), record(2, letters[1], 2.0)]
    records += [record(3, letters[2], 9.0, outcome), record(4, letters[3], 9.0, outcome)]
    counts = parents_of_children(evolution.create({"population": 2, "sample": 2}), records)
    assert counts == {"0002": 60}


@pytest.mark.parametrize(
    ("outcome", "is_random"), [(Outcome.FAILED, True), (Outcome.REJECTED, True), (Outcome.RUNNING, False)]
)
def test_points_are_random_until_the_population_is_there(outcome, is_random):
    letters = points("abc")
    records = [record(1, letters[0], 1.0), record(2, letters[1], 1.0), record(3, letters[2], outcome=outcome)]
    ours = propose(evolution.create({"population": 3, "sample": 2}), records)
    assert (ours == propose(random.create({}), records)) == is_random


def test_a_mutated_parent_switches_branches():
    hp = keras_tuner.HyperParameters()
    hp.Choice("kind", ["plain", "fire"])
    with hp.conditional_scope("kind", ["plain"]):
        hp.Int("filters", 1, 9)
    with hp.conditional_scope("kind", ["fire"]):
        hp.Int("squeeze", 1, 9)
    records = [record(i, {"kind": "plain", "filters": i}, score=i) for i in (1, 2)]
    proposer = evolution.create({"population": 2, "sample": 2})
    children = [propose(proposer, records, seed, space=hp).values for seed in range(60)]
    switched = [child for child in children if child["kind"] == "fire"]
    assert 10 < len(switched) < 50
    assert all(set(child) == {"kind", "squeeze"} for child in switched)
    assert len({child["squeeze"] for child in switched}) > 4
    assert all(set(child) == {"kind", "filters"} for child in children if child not in switched)


def test_goes_further_where_the_neighbours_are_taken():
    parent = points("a")[0]
    neighbours = [{**parent, f"op{i}": letter} for i in range(6) for letter in "bcd"]
    records = [record(i, values, score=-i) for i, values in enumerate([*neighbours, parent], start=1)]
    child = propose(evolution.create({"population": 2, "sample": 1}), records).values
    assert point_key(child) not in {point_key(r.values) for r in records}
    assert distance(child, parent) in (2, 3)


def test_a_used_up_space_ends():
    hp = keras_tuner.HyperParameters()
    hp.Int("size", 1, 3)
    records = [record(i, {"size": i}) for i in (1, 2, 3)]
    assert propose(evolution.create({"population": 2, "sample": 2}), records, space=hp) is Verdict.EXHAUSTED


@pytest.mark.parametrize("direction", ["max", "min"])
def test_finds_a_better_point_than_random_search(direction):
    sign = 1 if direction == "max" else -1

    def best(proposer, seed):
        oracle = HistoryOracle(
            proposer,
            objective="score",
            direction=direction,
            space=ops(),
            seed=seed,
            max_epochs=1,
            max_trials=120,
        )
        while (trial := oracle.create_trial("w")).status == "RUNNING":
            matches = sum(trial.hyperparameters.get(f"op{i}") == "abcdab"[i] for i in range(6))
            oracle.update_trial(trial.trial_id, {"score": sign * float(matches)})
            trial.status = "COMPLETED"
            oracle.end_trial(trial)
        return max(sign * r.score for r in oracle.records())

    assert [best(evolution.create({}), seed) for seed in range(3)] == [6.0] * 3
    assert max(best(random.create({}), seed) for seed in range(3)) < 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"population": 1}, "population must be a whole number of at least 2; received 1"),
        ({"sample": 0}, "sample must be a whole number of at least 1; received 0"),
        ({"population": 4, "sample": 5}, "sample must be at most population, 4; received 5"),
        ({"samples": 5}, "Did you mean 'sample'"),
    ],
)
def test_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        evolution.create(options)


def test_a_small_population_has_a_sample_that_fits():
    assert evolution.create({"population": 3}).sample == 3
