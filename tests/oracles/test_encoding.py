import keras_tuner
import numpy as np
import pytest

from workbench.oracles.encoding import Encoding
from workbench.oracles.sampling import active_values, levels_of, random_values


def space():
    """Conditional two levels deep, with every kind of hyperparameter and a name in two branches."""
    hp = keras_tuner.HyperParameters()
    hp.Choice("kind", ["plain", "fire"])
    hp.Fixed("bias", True)
    with hp.conditional_scope("kind", ["plain"]):
        hp.Float("dropout", 0, 0.5, step=0.1)
        hp.Int("size", 1, 4)
    with hp.conditional_scope("kind", ["fire"]):
        hp.Int("size", 8, 64, step=2, sampling="log")
        hp.Boolean("bypass")
        with hp.conditional_scope("bypass", [True]):
            hp.Choice("where", [1, 2, 3])
    hp.Float("rate", 1e-4, 1e-1, sampling="log")
    return hp


def rows_and_points(count=300, seed=0):
    encoding = Encoding(space())
    rows = encoding.random(count, np.random.default_rng(seed))
    return encoding, rows, [encoding.decode(row) for row in rows]


def test_random_rows_are_active_points_on_their_ranges():
    _, _, points = rows_and_points()
    by_name = {}
    for point in points:
        assert point == active_values(space(), point)
        for name, value in point.items():
            by_name.setdefault((point["kind"], name), set()).add(value)
    assert by_name["plain", "size"] == {1, 2, 3, 4}
    assert by_name["fire", "size"] == {8, 16, 32, 64}
    assert by_name["plain", "dropout"] == set(levels_of(space().space[2]))
    assert by_name["fire", "where"] == {1, 2, 3}
    assert all(1e-4 <= point["rate"] <= 1e-1 for point in points)


def test_decoding_undoes_encoding():
    encoding = Encoding(space())
    rng = np.random.default_rng(0)
    points = [random_values(space(), rng) for _ in range(200)]
    for point, row in zip(points, encoding.encode(points), strict=True):
        assert encoding.decode(row) == {**point, "rate": pytest.approx(point["rate"])}


def test_encoding_undoes_decoding():
    encoding, rows, points = rows_and_points()
    np.testing.assert_allclose(encoding.encode(points), rows, atol=1e-12)


def test_a_value_off_the_range_is_taken_to_the_nearest_and_a_missing_one_is_the_default():
    encoding = Encoding(space())
    row = encoding.encode([{"kind": "fire", "size": 1000, "rate": 5.0}])[0]
    assert encoding.decode(row) == {"kind": "fire", "bias": True, "size": 64, "bypass": False, "rate": 0.1}


def test_draws_by_the_sampling_of_a_hyperparameter():
    hp = keras_tuner.HyperParameters()
    hp.Float("rate", 1e-4, 1, sampling="log")
    hp.Int("filters", 1, 99, sampling="log")
    encoding = Encoding(hp)
    points = [encoding.decode(row) for row in encoding.random(2000, np.random.default_rng(0))]
    assert np.mean([point["rate"] < 1e-2 for point in points]) == pytest.approx(0.5, abs=0.05)
    assert np.mean([point["filters"] < 10 for point in points]) == pytest.approx(0.5, abs=0.05)


def test_a_child_differs_in_one_hyperparameter_and_what_depends_on_it():
    encoding, rows, parents = rows_and_points(600)
    children = [encoding.decode(row) for row in encoding.mutate(rows, np.random.default_rng(1))]
    changed_names = set()
    for parent, child in zip(parents, children, strict=True):
        assert child == active_values(space(), child)
        changed = {name for name in parent.keys() | child.keys() if parent.get(name) != child.get(name)}
        roots = changed & {"kind"} or changed & {"bypass"} or changed
        assert len(roots) == 1
        changed_names |= roots
        assert len(changed) == 1 or roots <= {"kind", "bypass"}
    assert changed_names == {"kind", "dropout", "size", "bypass", "where", "rate"}


def test_what_a_mutation_makes_active_is_drawn_at_random():
    hp = keras_tuner.HyperParameters()
    hp.Boolean("use")
    with hp.conditional_scope("use", [True]):
        hp.Int("size", 1, 5)
    encoding = Encoding(hp)
    rows = encoding.encode([{"use": False}] * 200)
    children = [encoding.decode(row) for row in encoding.mutate(rows, np.random.default_rng(0))]
    assert {child["size"] for child in children} == {1, 2, 3, 4, 5}


def test_a_mutated_number_is_near_more_often_than_far():
    hp = keras_tuner.HyperParameters()
    hp.Int("size", 0, 99)
    encoding = Encoding(hp)
    rows = encoding.encode([{"size": 50}] * 1000)
    sizes = np.array([encoding.decode(row)["size"] for row in encoding.mutate(rows, np.random.default_rng(0))])
    assert (sizes != 50).all()
    assert np.mean(abs(sizes - 50) <= 10) > 0.5
    assert sizes.min() < 10
    assert sizes.max() > 90


@pytest.mark.parametrize("end", [0, 3])
def test_a_mutated_number_stays_in_its_range(end):
    hp = keras_tuner.HyperParameters()
    hp.Int("size", 0, 3)
    encoding = Encoding(hp)
    rows = encoding.encode([{"size": end}] * 200)
    children = encoding.mutate(rows, np.random.default_rng(0))
    sizes = {encoding.decode(row)["size"] for row in children}
    assert sizes >= {1, 2}
    assert sizes <= {0, 1, 2, 3} - {end}


def test_a_space_of_one_point_has_no_children():
    hp = keras_tuner.HyperParameters()
    hp.Fixed("bias", True)
    encoding = Encoding(hp)
    rows = encoding.random(2, np.random.default_rng(0))
    np.testing.assert_array_equal(encoding.mutate(rows, np.random.default_rng(0)), rows)


def test_a_range_of_a_million_numbers_is_not_listed():
    hp = keras_tuner.HyperParameters()
    hp.Int("units", 1, 1_000_000)
    encoding = Encoding(hp)
    point = encoding.decode(encoding.encode([{"units": 123_456}])[0])
    assert point == {"units": 123_456}


def test_distances_of_features():
    hp = keras_tuner.HyperParameters()
    hp.Choice("kind", ["a", "b", "c"])
    hp.Fixed("bias", True)
    hp.Float("rate", 1e-4, 1, sampling="log")
    with hp.conditional_scope("kind", ["c"]):
        hp.Int("size", 1, 4)
    encoding = Encoding(hp)
    points = [
        {"kind": "a", "rate": 1e-4},
        {"kind": "b", "rate": 1e-4},
        {"kind": "a", "rate": 1e-2},
        {"kind": "c", "rate": 1e-4, "size": 4},
    ]
    features, owners = encoding.features(encoding.encode(points))
    assert owners.tolist() == [0, 0, 0, 1, 2]
    squares = ((features - features[0]) ** 2).sum(axis=1)
    assert squares == pytest.approx([0, 1, 0.25, 1 + 0.375**2])
