import keras_tuner
import numpy as np
import pytest
from workbench_plugins.oracles import grid

from workbench.oracles.protocol import Outcome, Record, Verdict


def walk(proposer, space, first=()):
    """All values that the proposer gives after the ones in `first`, in order."""
    values = list(first)
    while True:
        records = [
            Record(trial_id=f"{i}", values=v, epochs=1, outcome=Outcome.COMPLETED, score=0.0)
            for i, v in enumerate(values)
        ]
        rng = np.random.default_rng(0)
        answer = proposer.propose(space, records, rng, direction="max", max_epochs=1)
        if answer is Verdict.EXHAUSTED:
            return values[len(first) :]
        values.append(answer.values)


def two_by_three():
    hp = keras_tuner.HyperParameters()
    hp.Choice("kind", ["a", "b"])
    hp.Int("size", 2, 6, step=2)
    return hp


ORDER = [("a", 2), ("a", 4), ("a", 6), ("b", 2), ("b", 4), ("b", 6)]


def test_the_last_hyperparameter_changes_fastest():
    assert [tuple(v.values()) for v in walk(grid.create({}), two_by_three())] == ORDER


@pytest.mark.parametrize("enqueued", ORDER)
def test_a_point_proposed_before_is_left_out_of_the_order(enqueued):
    first = dict(zip(("kind", "size"), enqueued, strict=True))
    points = [tuple(v.values()) for v in walk(grid.create({}), two_by_three(), [first])]
    assert points == [point for point in ORDER if point != enqueued]


def test_continuous_floats_have_levels_in_their_sampling():
    hp = keras_tuner.HyperParameters()
    hp.Float("rate", 1e-5, 1e-1, sampling="log")
    rates = [values["rate"] for values in walk(grid.create({}), hp)]
    assert rates == pytest.approx([1e-5, 1e-4, 1e-3, 1e-2, 1e-1])
    assert [v["rate"] for v in walk(grid.create({"levels": 2}), hp)] == [1e-5, 1e-1]


def test_a_point_off_the_grid_does_not_move_it():
    hp = keras_tuner.HyperParameters()
    hp.Float("rate", 0, 1)
    assert [v["rate"] for v in walk(grid.create({"levels": 3}), hp, [{"rate": 0.3}])] == [0, 0.5, 1]


def test_levels_out_of_range():
    with pytest.raises(ValueError, match="levels must be a whole number of at least 1; received 0"):
        grid.create({"levels": 0})
