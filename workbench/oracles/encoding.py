"""Many points of a search space as one array, for algorithms that weigh thousands of candidates a proposal.

A row is a point and a column is a declaration of a hyperparameter. A cell holds the place of the value: its
index among the values if they are finitely many, else its position in the range, in [0, 1]; NaN where the
hyperparameter is inactive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from keras_tuner.engine import hyperparameters as kinds

from workbench.oracles.sampling import levels_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import keras_tuner

    from workbench.oracles.protocol import Value

_MAX_LEVELS = 256
"""A number with more values than this is treated as continuous; it is rounded when it is decoded."""
_STEP_RANGE = (0.01, 0.5)
"""Standard deviations of a mutation's step in units of the range, drawn evenly in logarithms: some mutations
refine, others leave the neighbourhood, whatever the scale of the objective."""


class _Column:
    """One declaration of a hyperparameter.

    Attributes:
        hp: Keras Tuner's hyperparameter.
        levels: all of its values, or None if it is continuous.
        is_ordered: whether neighbouring values are alike: numbers and ordered choices.
        units: float64 `(levels,)`, the position of each value in the range, in [0, 1]; empty if continuous.
        conditions: for each condition, the columns that may satisfy it and which of their values do (float64
            cells).
        earlier: columns of the same name; one of them being active makes this one inactive.
    """

    def __init__(self, hp: Any, columns: Sequence[_Column]):
        self.hp = hp
        levels = _few_levels(hp)
        self.levels = levels
        self.is_ordered = isinstance(hp, kinds.Int | kinds.Float) or bool(getattr(hp, "ordered", False))
        self.units = np.empty(0)
        self._known: dict[Value, float] = {}
        if levels is not None:
            self._index = {value: index for index, value in enumerate(levels)}
            is_logarithmic = isinstance(hp, kinds.Int) and hp.step is None
            self.units = (
                np.array([hp.value_to_prob(value) for value in levels])
                if is_logarithmic
                else (np.arange(len(levels)) + 0.5) / len(levels)
            )
            self._bounds = (self.units[1:] + self.units[:-1]) / 2
        self.conditions = [
            [(i, column.cells_that_satisfy(c)) for i, column in enumerate(columns) if column.hp.name == c.name]
            for c in hp.conditions
        ]
        self.earlier = [i for i, column in enumerate(columns) if column.hp.name == hp.name]

    def cells_that_satisfy(self, condition: Any) -> np.ndarray:
        """The cells whose value satisfies a condition on this hyperparameter."""
        values = condition.values if self.levels is None else self.levels
        name = self.hp.name
        return np.array([self.cell(value) for value in values if condition.is_active({name: value})])

    def cell(self, value: Value) -> float:
        """The place of a value; of the nearest one for a number off the range or between its steps."""
        if self.levels is None:
            position = float(self.hp.value_to_prob(min(max(value, self.hp.min_value), self.hp.max_value)))
            return min(max(position, 0.0), 1.0)
        if value in self._index:
            return float(self._index[value])
        if isinstance(value, int | float) and all(isinstance(level, int | float) for level in self.levels):
            return float(np.argmin([abs(float(level) - value) for level in self.levels]))
        return float(self._index.get(self.hp.default, 0))

    def cells(self, values: Sequence[Value]) -> list[float]:
        """The place of each value."""
        for value in set(values).difference(self._known):
            self._known[value] = self.cell(value)
        return [self._known[value] for value in values]

    def value(self, cell: float) -> Value:
        """The value at a place."""
        if self.levels is not None:
            return self.levels[int(cell)]
        # Powers can miss the ends by a rounding error.
        value: Value = min(max(self.hp.prob_to_value(float(cell)), self.hp.min_value), self.hp.max_value)
        return value

    def cells_at(self, positions: np.ndarray) -> np.ndarray:
        """The cells at positions in [0, 1], float64 `(n,)`."""
        if self.levels is None:
            return positions
        return np.searchsorted(self._bounds, positions).astype(np.float64)

    def positions(self, cells: np.ndarray) -> np.ndarray:
        """The position in [0, 1] of each cell, float64 `(n,)`; none may be NaN."""
        return cells if self.levels is None else self.units[cells.astype(np.int64)]

    def moved(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Another value for each cell, float64 `(n,)`: near the old one if values are ordered, else any."""
        if self.levels is not None and not self.is_ordered:
            others = rng.integers(1, len(self.levels), size=len(cells))
            return (cells + others) % len(self.levels)
        low, high = np.log(_STEP_RANGE)
        steps = rng.standard_normal(len(cells)) * np.exp(rng.uniform(low, high, size=len(cells)))
        moved = self.cells_at(_reflected(self.positions(cells) + steps))
        if self.levels is None:
            return moved
        last = len(self.levels) - 1
        towards = np.where((steps > 0) & (cells < last) | (cells == 0), 1.0, -1.0)
        return np.where(moved == cells, cells + towards, moved)


class Encoding:
    """The points of one search space as rows of numbers.

    Args:
        space: every hyperparameter with its range and conditions; fixed ones have a column too.

    Attributes:
        searched: the columns that have more than one value.
    """

    def __init__(self, space: keras_tuner.HyperParameters):
        self._columns: list[_Column] = []
        for hp in space.space:
            self._columns.append(_Column(hp, self._columns))
        self.searched = [i for i, column in enumerate(self._columns) if column.levels is None or len(column.levels) > 1]

    def encode(self, points: Iterable[Mapping[str, Value]]) -> np.ndarray:
        """Rows of points, float64 `(points, columns)`; a missing value is taken from the defaults."""
        listed = list(points)
        rows = np.empty((len(listed), len(self._columns)))
        for index, column in enumerate(self._columns):
            name, default = column.hp.name, column.hp.default
            rows[:, index] = column.cells([point.get(name, default) for point in listed])
        return self._settle(rows, None)

    def decode(self, row: np.ndarray) -> dict[str, Value]:
        """The point of one row, float64 `(columns,)`."""
        return {
            column.hp.name: column.value(cell)
            for column, cell in zip(self._columns, row, strict=True)
            if not np.isnan(cell)
        }

    def random(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Random points, float64 `(count, columns)`, each value by its hyperparameter's sampling."""
        return self._settle(np.full((count, len(self._columns)), np.nan), rng)

    def mutate(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A child of every row that differs from it in one active searched hyperparameter.

        What becomes active by it is drawn at random, what becomes inactive is dropped. A number takes a step
        that is small more often than large; an unordered choice takes any other value.

        Args:
            rows: float64 `(points, columns)`.
            rng: the source of randomness.

        Returns:
            float64 `(points, columns)`; equal to the parents if the space has but one point.
        """
        if not self.searched:
            return rows.copy()
        lots = rng.random((len(rows), len(self.searched)))
        lots[np.isnan(rows[:, self.searched])] = -1.0
        chosen = np.array(self.searched)[np.argmax(lots, axis=1)]
        can_change = lots.max(axis=1) >= 0
        children = rows.copy()
        for index in self.searched:
            at = np.flatnonzero((chosen == index) & can_change)
            children[at, index] = self._columns[index].moved(rows[at, index], rng)
        return self._settle(children, rng)

    def features(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates whose squared distances say how unlike two points are.

        An ordered hyperparameter has one coordinate, its position in its range, 0.5 where inactive; an unordered one
        has a coordinate a value, such that any two values are at distance 1, all 0 where inactive.

        Args:
            rows: float64 `(points, columns)`.

        Returns:
            float64 `(points, coordinates)`, and int64 `(coordinates,)`: the index into `searched` of each.
        """
        parts, owners = [np.empty((len(rows), 0))], [np.empty(0, np.int64)]
        for number, index in enumerate(self.searched):
            column, cells = self._columns[index], rows[:, index]
            active = ~np.isnan(cells)
            if column.levels is not None and not column.is_ordered:
                part = (cells[:, None] == np.arange(len(column.levels))) * np.sqrt(0.5)
            else:
                part = np.full((len(rows), 1), 0.5)
                part[active, 0] = column.positions(cells[active])
            parts.append(part)
            owners.append(np.full(part.shape[1], number))
        return np.hstack(parts), np.concatenate(owners)

    def _settle(self, rows: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        """Drops what is inactive and, given `rng`, draws what is active but has no value. Changes `rows`."""
        for index, column in enumerate(self._columns):
            active = np.ones(len(rows), bool)
            for options in column.conditions:
                holds = np.zeros(len(rows), bool)
                for parent, cells in options:
                    holds |= (np.abs(rows[:, parent, None] - cells) < 1e-9).any(axis=1)
                active &= holds
            for other in column.earlier:
                active &= np.isnan(rows[:, other])
            rows[~active, index] = np.nan
            if rng is not None:
                missing = np.flatnonzero(active & np.isnan(rows[:, index]))
                rows[missing, index] = column.cells_at(rng.random(len(missing)))
        return rows


def _few_levels(hp: Any) -> list[Value] | None:
    """All values, or None for a number that has very many."""
    if isinstance(hp, kinds.Int | kinds.Float) and (hp.sampling == "linear" or hp.step is None):
        step = 1 if hp.step is None else hp.step
        if hp.max_value - hp.min_value >= _MAX_LEVELS * step:
            return None
    return levels_of(hp)


def _reflected(positions: np.ndarray) -> np.ndarray:
    """Positions folded back into [0, 1] at its ends."""
    folded = np.abs(positions) % 2.0
    nearest: np.ndarray = np.minimum(folded, 2.0 - folded)
    return nearest
