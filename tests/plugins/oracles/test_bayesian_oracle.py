import keras_tuner
import numpy as np
import pytest
from workbench_plugins.oracles import bayesian, random

from workbench.oracles.protocol import Outcome, Proposal, Record
from workbench.oracles.sampling import point_key


def bowl_space():
    hp = keras_tuner.HyperParameters()
    hp.Float("x", 0, 1)
    hp.Float("rate", 1e-4, 1, sampling="log")
    hp.Choice("kind", ["bad", "good"])
    with hp.conditional_scope("kind", ["good"]):
        hp.Int("size", 1, 20)
    return hp


def loss(values):
    """0 at x = 0.3, rate = 1e-3, kind = good, size = 12."""
    size = ((values["size"] - 12) / 20) ** 2 if values["kind"] == "good" else 1.0
    return (values["x"] - 0.3) ** 2 + (np.log10(values["rate"] / 1e-3) / 4) ** 2 + size


def best_loss(proposer, direction, seed, count=30):
    sign = -1 if direction == "max" else 1
    records = []
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        values = proposer.propose(bowl_space(), records, rng, direction=direction, max_epochs=1).values
        record = Record(
            trial_id=f"{number}",
            values=values,
            epochs=1,
            outcome=Outcome.COMPLETED,
            score=sign * float(loss(values)),
        )
        records.append(record)
    return min(loss(record.values) for record in records)


@pytest.mark.parametrize("direction", ["max", "min"])
def test_finds_a_better_point_than_random_search(direction):
    ours = [best_loss(bayesian.create({}), direction, seed) for seed in range(3)]
    others = [best_loss(random.create({}), direction, seed) for seed in range(3)]
    assert np.mean(ours) < np.mean(others) / 3
    assert max(ours) < 0.02


def test_the_first_points_are_random_ones():
    ours, other = bayesian.create({"num_initial_points": 6}), random.create({})
    assert best_loss(ours, "max", 0, count=6) == best_loss(other, "max", 0, count=6)
    assert best_loss(ours, "max", 0, count=15) < best_loss(other, "max", 0, count=15)


@pytest.mark.parametrize("score", [0.0, 1e-12, 1e9])
def test_equal_scores_are_no_obstacle(score):
    hp = keras_tuner.HyperParameters()
    hp.Int("size", 1, 30)
    records = [
        Record(trial_id=f"{i}", values={"size": i}, epochs=1, outcome=Outcome.COMPLETED, score=score)
        for i in range(1, 25)
    ]
    answer = bayesian.create({}).propose(hp, records, np.random.default_rng(0), direction="min", max_epochs=1)
    assert isinstance(answer, Proposal)
    assert point_key(answer.values) not in {point_key(record.values) for record in records}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0}, "alpha must be a finite number greater than 0; received 0"),
        ({"beta": -1}, "beta must be a finite number greater than 0; received -1"),
        ({"num_initial_points": 0}, "num_initial_points must be a whole number of at least 1; received 0"),
    ],
)
def test_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        bayesian.create(options)
