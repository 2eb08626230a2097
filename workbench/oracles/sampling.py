"""Points of a search space: sampling, counting, enumerating, comparing.

A point is a mapping from the full names of the active hyperparameters to their values. A hyperparameter is
active if all of its conditions hold; Keras Tuner lists conditional hyperparameters after their parents, so
one pass in the order of `space.space` decides. Where a name is declared twice, under different conditions,
the first active declaration counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keras_tuner.engine import hyperparameters as kinds

from workbench.oracles.protocol import point_key

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Mapping

    import keras_tuner
    import numpy as np

    from workbench.oracles.protocol import Value

_ATTEMPTS = 100
"""Random draws before a finite space is enumerated. Bounds the time that a nearly used-up space takes."""


def active_values(space: keras_tuner.HyperParameters, values: Mapping[str, Value]) -> dict[str, Value]:
    """The point nearest to `values`: inactive ones dropped, missing ones from the defaults.

    A fixed hyperparameter keeps its fixed value whatever `values` say.
    """
    point: dict[str, Value] = {}
    for hp in space.space:
        if hp.name not in point and _is_active(hp, point):
            is_fixed = isinstance(hp, kinds.Fixed)
            point[hp.name] = hp.default if is_fixed else values.get(hp.name, hp.default)
    return point


def is_point(space: keras_tuner.HyperParameters, values: Mapping[str, Value]) -> bool:
    """Whether `values` are exactly the active hyperparameters of a point of the space, each within its range."""
    point: dict[str, Value] = {}
    for hp in space.space:
        if hp.name not in point and _is_active(hp, point):
            if hp.name not in values or not _can_take(hp, values[hp.name]):
                return False
            point[hp.name] = values[hp.name]
    return len(point) == len(values)


def _can_take(hp: Any, value: Value) -> bool:
    if isinstance(hp, kinds.Int | kinds.Float):
        return not isinstance(value, str) and hp.min_value <= value <= hp.max_value
    return value in ([hp.value] if isinstance(hp, kinds.Fixed) else hp.values)


def random_values(space: keras_tuner.HyperParameters, rng: np.random.Generator) -> dict[str, Value]:
    """A random point; each hyperparameter is drawn by its own kind's sampling (steps, logarithms)."""
    point: dict[str, Value] = {}
    for hp in space.space:
        if hp.name not in point and _is_active(hp, point):
            point[hp.name] = hp.random_sample(_seed(rng))
    return point


def new_values(
    space: keras_tuner.HyperParameters, tried: Collection[Hashable], rng: np.random.Generator
) -> dict[str, Value] | None:
    """A random point whose key is not among `tried`, or None if a finite space is used up.

    Draws at random, a bounded number of times; after that a finite space is enumerated and one of the points
    left is drawn, all equally likely. A space with a continuous hyperparameter never repeats a point in
    practice; should it (its floats are inactive in most points), None is returned too.
    """
    for _ in range(_ATTEMPTS):
        point = random_values(space, rng)
        if point_key(point) not in tried:
            return point
    if space_size(space) is None:
        return None
    chosen = None
    for count, point in enumerate((p for p in enumerate_points(space) if point_key(p) not in tried), start=1):
        if rng.integers(count) == 0:  # reservoir sampling: nothing is kept but the choice
            chosen = point
    return chosen


def neighbour(
    space: keras_tuner.HyperParameters, values: Mapping[str, Value], rng: np.random.Generator
) -> dict[str, Value]:
    """The point that differs from `values` in one searched hyperparameter, drawn anew.

    If that hyperparameter is a parent, those that become active take their defaults.
    """
    searched = [
        hp for hp in space.space if not isinstance(hp, kinds.Fixed) and hp.name in values and _is_active(hp, values)
    ]
    if not searched:
        return active_values(space, values)
    hp = searched[int(rng.integers(len(searched)))]
    return active_values(space, {**values, hp.name: hp.random_sample(_seed(rng))})


def levels_of(hp: Any, levels: int | None = None) -> list[Value] | None:
    """All values of one hyperparameter in ascending (or declared) order.

    Args:
        hp: a Keras Tuner hyperparameter. An Int without a step has step 1.
        levels: how many values stand for a Float without a step, evenly spaced in its sampling (that is, by a
            constant factor if it is logarithmic) from its least to its greatest value; 1 is the middle.

    Returns:
        The values, or None for a Float without a step if `levels` is None.
    """
    if isinstance(hp, kinds.Int) and hp.step is None:
        return list(range(hp.min_value, hp.max_value + 1))
    if isinstance(hp, kinds.Int):
        return sorted({int(value) for value in hp.values})
    if isinstance(hp, kinds.Float) and hp.step is None:
        if levels is None:
            return None
        positions = [index / (levels - 1) for index in range(levels)] if levels > 1 else [0.5]
        # Powers can miss the upper end by a rounding error.
        return sorted({min(max(hp.prob_to_value(p), hp.min_value), hp.max_value) for p in positions})
    return list(dict.fromkeys(hp.values))


def space_size(space: keras_tuner.HyperParameters) -> int | None:
    """How many distinct points the space has, or None if a Float without a step can be active."""
    hps = list(space.space)
    # What later declarations depend on: their parents, and their own names.
    needed: list[frozenset[str]] = [frozenset()] * (len(hps) + 1)
    for index in reversed(range(len(hps))):
        parents = {condition.name for condition in hps[index].conditions}
        needed[index] = needed[index + 1] | parents | {hps[index].name}
    known: dict[Hashable, int | None] = {}

    def count(index: int, point: Mapping[str, Value]) -> int | None:
        if index == len(hps):
            return 1
        point = {name: value for name, value in point.items() if name in needed[index]}
        key = (index, point_key(point))
        if key not in known:
            known[key] = count_from(index, point)
        return known[key]

    def count_from(index: int, point: Mapping[str, Value]) -> int | None:
        hp = hps[index]
        if hp.name in point or not _is_active(hp, point):
            return count(index + 1, point)
        values = levels_of(hp)
        if values is None:
            return None
        if hp.name not in needed[index + 1]:
            rest = count(index + 1, point)
            return None if rest is None else len(values) * rest
        total = 0
        for value in values:
            rest = count(index + 1, {**point, hp.name: value})
            if rest is None:
                return None
            total += rest
        return total

    return count(0, {})


def enumerate_points(space: keras_tuner.HyperParameters, levels: int | None = None) -> Iterator[dict[str, Value]]:
    """Every distinct point once, lazily, in mixed radix order: the last hyperparameter changes fastest.

    Args:
        space: the search space.
        levels: how many values stand for a Float without a step, see `levels_of`.

    Raises:
        ValueError: at such a Float if `levels` is None.
    """
    hps = list(space.space)

    def extend(index: int, point: dict[str, Value]) -> Iterator[dict[str, Value]]:
        while index < len(hps) and (hps[index].name in point or not _is_active(hps[index], point)):
            index += 1
        if index == len(hps):
            yield point
            return
        hp = hps[index]
        values = levels_of(hp, levels)
        if values is None:
            raise ValueError(
                f"A space with a continuous hyperparameter cannot be enumerated; {hp.name} is a Float "
                "without a step: give it a step, or a number of levels"
            )
        for value in values:
            yield from extend(index + 1, {**point, hp.name: value})

    return extend(0, {})


def to_unit_vector(space: keras_tuner.HyperParameters, values: Mapping[str, Value]) -> list[float]:
    """The point as coordinates in [0, 1], of one length for all points of the space.

    Numbers, booleans and ordered choices take one coordinate, at their place in their range (in logarithms if
    they are sampled so); unordered choices take one coordinate a value, 1 for the chosen one. Inactive
    hyperparameters are 0.5, or 0 for all values of a choice, so that they tell nothing apart.
    """
    vector: list[float] = []
    for hp in space.space:
        if isinstance(hp, kinds.Fixed):
            continue
        active = hp.name in values and _is_active(hp, values)
        if isinstance(hp, kinds.Choice) and not hp.ordered:
            vector += [float(active and values[hp.name] == value) for value in hp.values]
        else:
            vector.append(float(hp.value_to_prob(values[hp.name])) if active else 0.5)
    return vector


def _is_active(hp: Any, values: Mapping[str, Value]) -> bool:
    return all(condition.is_active(values) for condition in hp.conditions)


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(1, 2**31))  # Keras Tuner's kinds take 0 for "none"
