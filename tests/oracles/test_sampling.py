import contextlib
import json

import keras_tuner
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.oracles import sampling


def conditional_space():
    """12 points: 2 x (pool: max 1, average 2 + 3)."""
    hp = keras_tuner.HyperParameters()
    hp.Boolean("norm")
    hp.Choice("pool", ["max", "average"])
    with hp.conditional_scope("pool", ["average"]):
        hp.Int("size", 2, 6, step=2)
        with hp.conditional_scope("size", [4]):
            hp.Choice("ceil", [1, 2, 3])
    return hp


@st.composite
def spaces(draw):
    """Random finite spaces, conditional on earlier choices."""
    hp = keras_tuner.HyperParameters()
    for index in range(draw(st.integers(1, 5))):
        parents = [p for p in hp.space if isinstance(p, keras_tuner.engine.hyperparameters.Choice)]
        name, size = f"h{index}", draw(st.integers(1, 4))
        declare = draw(st.sampled_from(["choice", "int", "float", "boolean", "fixed"]))

        def add(kind=declare, name=name, size=size):
            if kind == "choice":
                hp.Choice(name, [f"v{i}" for i in range(size)])
            elif kind == "int":
                hp.Int(name, 2, 2**size, step=2, sampling="log")
            elif kind == "float":
                hp.Float(name, 0.0, 0.1 * size, step=0.1)
            elif kind == "boolean":
                hp.Boolean(name)
            else:
                hp.Fixed(name, size)

        if parents and draw(st.booleans()):
            parent = draw(st.sampled_from(parents))
            value = draw(st.sampled_from(parent.values))
            with contextlib.ExitStack() as scopes:
                for condition in parent.conditions:
                    scopes.enter_context(hp.conditional_scope(condition.name, condition.values))
                scopes.enter_context(hp.conditional_scope(parent.name, [value]))
                add()
        else:
            add()
    return hp


def is_point(space, values):
    """Whether Keras Tuner itself finds exactly the active hyperparameters in `values`."""
    probe = space.copy()
    probe.values = dict(values)
    return set(values) == {hp.name for hp in space.space if probe.is_active(hp)}


@given(spaces())
@settings(max_examples=60, deadline=None)
def test_size_counts_the_enumerated_points_which_are_distinct_and_active(space):
    points = list(sampling.enumerate_points(space))
    assert len(points) == sampling.space_size(space)
    assert len({sampling.point_key(point) for point in points}) == len(points)
    assert all(is_point(space, point) for point in points)


@given(spaces(), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_random_points_and_their_neighbours_are_among_the_enumerated(space, seed):
    keys = {sampling.point_key(point) for point in sampling.enumerate_points(space)}
    rng = np.random.default_rng(seed)
    point = sampling.random_values(space, rng)
    assert sampling.point_key(point) in keys
    assert sampling.point_key(sampling.neighbour(space, point, rng)) in keys


@given(spaces(), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_unit_vectors_tell_all_points_apart(space, seed):
    points = list(sampling.enumerate_points(space))
    vectors = [sampling.to_unit_vector(space, point) for point in points]
    assert len({len(vector) for vector in vectors}) == 1
    assert all(0 <= coordinate <= 1 for vector in vectors for coordinate in vector)
    assert len({tuple(vector) for vector in vectors}) == len(points)


def test_enumerates_in_mixed_radix_order():
    points = list(sampling.enumerate_points(conditional_space()))
    assert points[:6] == [
        {"norm": True, "pool": "max"},
        {"norm": True, "pool": "average", "size": 2},
        {"norm": True, "pool": "average", "size": 4, "ceil": 1},
        {"norm": True, "pool": "average", "size": 4, "ceil": 2},
        {"norm": True, "pool": "average", "size": 4, "ceil": 3},
        {"norm": True, "pool": "average", "size": 6},
    ]
    assert len(points) == 12


def test_size_of_a_space_that_cannot_be_enumerated():
    hp = keras_tuner.HyperParameters()
    for index in range(60):
        hp.Int(f"filters_{index}", 8, 80, step=8)
    assert sampling.space_size(hp) == 10**60


def test_size_with_many_parents_is_counted_not_enumerated():
    hp = keras_tuner.HyperParameters()
    for index in range(60):
        hp.Boolean(f"use_{index}")
        with hp.conditional_scope(f"use_{index}", [True]):
            hp.Int(f"size_{index}", 1, 3)
    assert sampling.space_size(hp) == 4**60


def test_a_continuous_float_has_no_size_and_needs_levels():
    hp = keras_tuner.HyperParameters()
    hp.Boolean("norm")
    hp.Float("rate", 1e-4, 1e-2, sampling="log")
    assert sampling.space_size(hp) is None
    with pytest.raises(ValueError, match="rate is a Float without a step"):
        list(sampling.enumerate_points(hp))
    rates = [point["rate"] for point in sampling.enumerate_points(hp, levels=3)]
    assert rates == pytest.approx([1e-4, 1e-3, 1e-2] * 2)
    assert rates[0] == 1e-4
    assert rates[2] == 1e-2


@pytest.mark.parametrize(
    ("declare", "expected"),
    [
        (lambda hp: hp.Int("x", 3, 6), [3, 4, 5, 6]),
        (lambda hp: hp.Int("x", 6, 13, step=3), [6, 9, 12]),
        (lambda hp: hp.Int("x", 2, 32, step=2, sampling="log"), [2, 4, 8, 16, 32]),
        (lambda hp: hp.Int("x", 2, 5, sampling="log"), [2, 3, 4, 5]),
        (lambda hp: hp.Float("x", 0, 1, step=0.25), [0.0, 0.25, 0.5, 0.75, 1.0]),
        (lambda hp: hp.Choice("x", ["b", "a"]), ["b", "a"]),
        (lambda hp: hp.Fixed("x", 7), [7]),
    ],
)
def test_levels_of_every_kind(declare, expected):
    hp = keras_tuner.HyperParameters()
    declare(hp)
    levels = sampling.levels_of(hp.space[0])
    assert levels == expected
    assert [type(value) for value in levels] == [type(value) for value in expected]


def test_levels_of_a_continuous_float():
    hp = keras_tuner.HyperParameters()
    hp.Float("x", 0, 10)
    assert sampling.levels_of(hp.space[0], 3) == [0, 5, 10]
    assert sampling.levels_of(hp.space[0], 1) == [5]


def test_active_values_drops_completes_and_keeps_what_is_fixed():
    hp = conditional_space()
    hp.Fixed("bias", True)
    values = {"pool": "average", "size": 2, "ceil": 3, "bias": False, "unknown": 1}
    assert sampling.active_values(hp, values) == {
        "norm": False,
        "pool": "average",
        "size": 2,
        "bias": True,
    }


def test_a_name_declared_in_two_branches_is_taken_from_the_active_one():
    hp = keras_tuner.HyperParameters()
    hp.Choice("kind", ["a", "b"])
    with hp.conditional_scope("kind", ["a"]):
        hp.Int("size", 1, 2)
    with hp.conditional_scope("kind", ["b"]):
        hp.Int("size", 5, 7)
    assert sampling.space_size(hp) == 5
    assert [point["size"] for point in sampling.enumerate_points(hp)] == [1, 2, 5, 6, 7]


def test_point_key_ignores_order_and_survives_json():
    values = {"b": 0.1 + 0.2, "a": True, "c": "x", "d": 3}
    restored = json.loads(json.dumps(dict(reversed(values.items()))))
    assert sampling.point_key(restored) == sampling.point_key(values)
    assert sampling.point_key({**values, "d": 4}) != sampling.point_key(values)


def test_new_values_gives_every_point_once_and_then_none():
    space, tried = conditional_space(), set()
    rng = np.random.default_rng(0)
    for _ in range(12):
        key = sampling.point_key(sampling.new_values(space, tried, rng))
        assert key not in tried
        tried.add(key)
    assert sampling.new_values(space, tried, rng) is None


def test_new_values_finds_a_point_that_random_draws_hardly_reach():
    hp = keras_tuner.HyperParameters()
    hp.Choice("kind", [f"k{i}" for i in range(50)])
    with hp.conditional_scope("kind", ["k0"]):
        hp.Int("size", 1, 2000)
    everything = list(sampling.enumerate_points(hp))
    left = everything[1234]
    tried = {sampling.point_key(point) for point in everything} - {sampling.point_key(left)}
    assert sampling.new_values(hp, tried, np.random.default_rng(0)) == left


def test_inactive_hyperparameters_do_not_move_the_unit_vector():
    space = conditional_space()
    assert sampling.to_unit_vector(space, {"norm": False, "pool": "max"}) == [0.25, 1, 0, 0.5, 0.5]
