"""Bayesian optimisation: a Gaussian process of the scores, and the point with the best confidence bound."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import workbench
from workbench.oracles.options import check_names, real_number, whole_number
from workbench.oracles.protocol import Direction, Outcome, Proposal, Record, Value, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import keras_tuner
    import numpy as np
    from sklearn.gaussian_process import GaussianProcessRegressor

_OPTIONS = {
    "alpha": "the noise of a score, as a part of the scores' variance; greater than 0 (default 1e-4)",
    "beta": "how much uncertainty is worth; greater than 0, larger explores more (default 2.6)",
    "num_initial_points": "random points before the model is used; at least 1 (default: twice the number of "
    "searched hyperparameters, 4 to 20)",
}

_RANDOM_CANDIDATES = 500
_NEIGHBOURS = 40
"""Candidates around each of the best points."""
_BEST_POINTS = 5
_LENGTH_SCALES = (0.1, 0.18, 0.32, 0.56, 1.0, 1.8, 3.2, 5.6, 10.0)
"""In units of a hyperparameter's range."""


@dataclass(frozen=True)
class BayesianProposer:
    """The method of `keras_tuner.oracles.BayesianOptimizationOracle`, as a function of the records.

    As there: a Gaussian process with a Matern 5/2 kernel over hyperparameters scaled to [0, 1] and normalised
    scores, and the least `mean - beta * standard deviation` of the loss. Other than there:
    candidates are points of the space that were not proposed yet (random ones and neighbours of the best)
    instead of the optima of a continuous search, which repeat points after rounding; the length scale is the
    likeliest of a fixed series instead of the best of 20 random restarts; unordered choices take one
    coordinate a value; inactive hyperparameters have a constant place; running trials are given the mean
    score; there are fewer random points at first.

    Attributes:
        alpha: added to the kernel's diagonal, in units of the scores' variance.
        beta: the weight of the standard deviation.
        num_initial_points: how many points with a result it takes to use the model; None for twice the number
            of searched hyperparameters, but 4 to 20.
    """

    alpha: float = 1e-4
    beta: float = 2.6
    num_initial_points: int | None = None

    def propose(
        self,
        space: keras_tuner.HyperParameters,
        records: Sequence[Record],
        rng: np.random.Generator,
        *,
        direction: Direction,
        max_epochs: int,
    ) -> Proposal | Verdict:
        """See `workbench.oracles.protocol.Proposer`."""
        import numpy as np

        from workbench.oracles.sampling import new_values, point_key, to_unit_vector

        tried = {point_key(record.values) for record in records}
        first = new_values(space, tried, rng)
        if first is None:
            return Verdict.EXHAUSTED
        losses = _losses(records, direction)
        if len(losses) < self._initial_points(space):
            return Proposal(values=first)

        running = [record for record in records if record.outcome is Outcome.RUNNING]
        mean_loss = statistics.fmean(loss for _, loss in losses)
        points = [record.values for record, _ in losses] + [record.values for record in running]
        targets = [loss for _, loss in losses] + [mean_loss] * len(running)
        process = self._fit(np.array([to_unit_vector(space, values) for values in points]), np.array(targets))
        best = [record.values for record, _ in sorted(losses, key=lambda pair: pair[1])[:_BEST_POINTS]]
        candidates = [first, *_candidates(space, best, tried, rng)]
        mean, deviation = process.predict(
            np.array([to_unit_vector(space, values) for values in candidates]), return_std=True
        )
        return Proposal(values=candidates[int(np.argmin(mean - self.beta * deviation))])

    def _initial_points(self, space: keras_tuner.HyperParameters) -> int:
        if self.num_initial_points is not None:
            return self.num_initial_points
        searched = sum(type(hp).__name__ != "Fixed" for hp in space.space)
        return min(max(2 * searched, 4), 20)

    def _fit(self, points: np.ndarray, losses: np.ndarray) -> GaussianProcessRegressor:
        """The process with the likeliest length scale.

        Args:
            points: float64 `(points, coordinates)` in [0, 1].
            losses: float64 `(points,)`.
        """
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import Matern

        processes = [
            GaussianProcessRegressor(
                kernel=Matern(length_scale=scale, nu=2.5), alpha=self.alpha, optimizer=None, normalize_y=True
            ).fit(points, losses)
            for scale in _LENGTH_SCALES
        ]
        return max(processes, key=lambda process: process.log_marginal_likelihood_value_)


def _losses(records: Sequence[Record], direction: Direction) -> list[tuple[Record, float]]:
    sign = -1.0 if direction == "max" else 1.0
    return [(record, sign * record.score) for record in records if record.score is not None]


def _candidates(
    space: keras_tuner.HyperParameters,
    best: Sequence[Mapping[str, Value]],
    tried: set[Any],
    rng: np.random.Generator,
) -> list[dict[str, Value]]:
    """New distinct points: random ones, and some that differ from one of the best in one hyperparameter."""
    from workbench.oracles.sampling import neighbour, point_key, random_values

    drawn = [random_values(space, rng) for _ in range(_RANDOM_CANDIDATES)]
    drawn += [neighbour(space, values, rng) for values in best for _ in range(_NEIGHBOURS)]
    distinct = {point_key(values): values for values in drawn}
    return [values for key, values in distinct.items() if key not in tried]


def create(options: Mapping[str, Any]) -> BayesianProposer:
    """The proposer; raises `ValueError` for an unknown option or one out of range."""
    check_names(options, _OPTIONS, "bayesian")
    initial = None
    if "num_initial_points" in options:
        initial = whole_number(options, "num_initial_points", 0, least=1)
    return BayesianProposer(
        alpha=real_number(options, "alpha", BayesianProposer.alpha, above=0),
        beta=real_number(options, "beta", BayesianProposer.beta, above=0),
        num_initial_points=initial,
    )


@workbench.hookimpl
def workbench_oracles() -> list[workbench.Oracle]:
    """Bayesian optimisation."""
    return [
        workbench.Oracle(
            name="bayesian",
            summary="Gaussian process with an upper confidence bound.",
            source="Srinivas et al., GP-UCB, arXiv:0912.3995; keras_tuner.oracles.BayesianOptimizationOracle",
            options=_OPTIONS,
            create=create,
        )
    ]
