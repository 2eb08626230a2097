import time

import keras_tuner
import numpy as np
import pytest
from workbench_plugins.oracles import bayesian, random

from workbench.oracles.protocol import Outcome, Proposal, Record
from workbench.oracles.sampling import point_key, random_values


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


def best_loss(proposer, direction, seed, count=30, space=None, scored=loss):
    """The least loss of `count` proposals, one after the other."""
    sign = -1 if direction == "max" else 1
    records = []
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        values = proposer.propose(space or bowl_space(), records, rng, direction=direction, max_epochs=1).values
        record = Record(
            trial_id=f"{number}",
            values=values,
            epochs=1,
            outcome=Outcome.COMPLETED,
            score=sign * float(scored(values)),
        )
        records.append(record)
    return min(scored(record.values) for record in records)


@pytest.mark.parametrize("direction", ["max", "min"])
def test_finds_the_optimum_of_a_mixed_conditional_space(direction):
    ours = [best_loss(bayesian.create({}), direction, seed) for seed in range(3)]
    others = [best_loss(random.create({}), direction, seed) for seed in range(3)]
    assert max(ours) < 0.005
    assert min(others) > 0.01


def branin(values):
    """Its least value, in three places, is 0."""
    x, y = values["x"], values["y"]
    bent = y - 5.1 / (4 * np.pi**2) * x**2 + 5 / np.pi * x - 6
    return float(bent**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10 - 0.397887)


def test_finds_a_better_point_of_a_continuous_function_than_random_search():
    hp = keras_tuner.HyperParameters()
    hp.Float("x", -5, 10)
    hp.Float("y", 0, 15)
    ours = [best_loss(bayesian.create({}), "min", seed, 40, hp, branin) for seed in range(4)]
    others = [best_loss(random.create({}), "min", seed, 40, hp, branin) for seed in range(4)]
    assert np.mean(ours) < np.mean(others) / 2


def test_tells_what_matters_from_what_does_not():
    """One hyperparameter of twelve decides: after few points all proposals have its best value or are near it."""
    hp = keras_tuner.HyperParameters()
    for index in range(12):
        hp.Float(f"x{index}", 0, 1)
    found = best_loss(bayesian.create({}), "min", 0, 30, hp, lambda values: (values["x7"] - 0.6) ** 2)
    assert found < 1e-4


def test_networks_that_fail_to_learn_do_not_bend_the_model():
    def with_cliff(values):
        return 1e6 if values["x"] > 0.7 else loss(values)

    ours = [best_loss(bayesian.create({}), "min", seed, scored=with_cliff) for seed in range(3)]
    others = [best_loss(random.create({}), "min", seed, scored=with_cliff) for seed in range(3)]
    assert np.mean(ours) < np.mean(others) / 3


def test_the_cost_of_a_proposal_is_bounded():
    """2,000 results cost about as much as 400, as the model is fitted to 200 of them."""
    rng = np.random.default_rng(0)
    points = [random_values(bowl_space(), rng) for _ in range(2000)]
    records = [
        Record(trial_id=f"{i}", values=values, epochs=1, outcome=Outcome.COMPLETED, score=float(loss(values)))
        for i, values in enumerate(points)
    ]

    def seconds(count):
        def once():
            started = time.process_time()
            bayesian.create({}).propose(bowl_space(), records[:count], rng, direction="min", max_epochs=1)
            return time.process_time() - started

        return min(once() for _ in range(5))

    assert seconds(2000) < 3 * seconds(400)


def test_workers_spread():
    """What still runs is counted on to be average, so the next proposals go elsewhere."""
    rng = np.random.default_rng(0)
    records = [
        Record(trial_id=f"{i}", values=values, epochs=1, outcome=Outcome.COMPLETED, score=float(loss(values)))
        for i, values in enumerate(random_values(bowl_space(), rng) for _ in range(20))
    ]
    for number in range(4):
        answer = bayesian.create({}).propose(bowl_space(), records, rng, direction="min", max_epochs=1)
        records.append(Record(trial_id=f"r{number}", values=answer.values, epochs=1, outcome=Outcome.RUNNING))
    places = np.array([[r.values["x"], np.log10(r.values["rate"]) / 4] for r in records[20:]])
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)[np.triu_indices(4, 1)]
    assert apart.min() > 0.005


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
        ({"max_points": 19}, "max_points must be a whole number of at least 20; received 19"),
        ({"num_initial_points": 0}, "num_initial_points must be a whole number of at least 1; received 0"),
    ],
)
def test_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        bayesian.create(options)
