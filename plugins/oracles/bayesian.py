"""Bayesian optimisation: a Gaussian process of the scores, and the point that promises the most improvement."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import workbench
from workbench.oracles.options import check_names, whole_number
from workbench.oracles.protocol import Direction, Outcome, Proposal, Record, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import keras_tuner
    import numpy as np
    from threadpoolctl import ThreadpoolController
    from workbench_plugins.oracles._gaussian_process import GaussianProcess

    from workbench.oracles.encoding import Encoding

_OPTIONS = {
    "num_initial_points": "random points before the model is used; at least 1 (default: twice the number of "
    "searched hyperparameters, 4 to 10)",
    "max_points": "results that the model is fitted to, half of them the best and half the latest; at least 20 "
    "(default 200)",
}

_SAMPLE = 80
"""Results that decide how much each hyperparameter matters; a proposal's cost grows with the cube."""
_PARENTS = 20
"""The best results, whose children are candidates."""
_ROUNDS = 3
_CANDIDATES = 150
"""Children in a round; in the first there are as many random points too."""
_SURVIVORS = 10
"""The best candidates so far, whose children the next round weighs."""


@dataclass(frozen=True)
class BayesianProposer:
    """Bayesian optimisation whose cost a proposal is bounded, as a function of the records.

    A Gaussian process with the kernel exp(-sum of weight * squared difference), a weight for each hyperparameter
    and the noise by their likelihood under a weak prior. Between unordered choices the difference is 0 or 1, so
    the kernel is the product of diffusion kernels on their complete graphs (Oh et al., COMBO, arXiv:1902.00448); in
    numbers it is their distance on their own scale; an inactive hyperparameter has one constant place. Scores are
    warped (see `_warped`), so that a few networks that fail to learn do not bend the model. The candidate with the
    greatest expected improvement (Jones et al., 1998) is proposed. Candidates come from a local search in a few
    rounds of mutations from the best results and from random points (as in SMAC: Hutter et al., 2011); none was
    proposed before.

    The model is fitted to at most `max_points` results, half of them the best and half the latest of the rest; to
    every proposal that still runs it gives the average score, so that workers spread. Scores at fewer epochs (of
    stopped trials) count as any other. Where points were rejected, a second process of the same kind tells how
    feasible a candidate is, which its expected improvement is multiplied by (Gardner et al., 2014): otherwise the
    best that the model can imagine might always be too large.

    Attributes:
        num_initial_points: how many points with a result it takes to use the model; None for twice the number
            of searched hyperparameters, but 4 to 10.
        max_points: how many results the model is fitted to.
    """

    num_initial_points: int | None = None
    max_points: int = 200

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
        from workbench.oracles.encoding import Encoding
        from workbench.oracles.protocol import point_key
        from workbench.oracles.sampling import new_values

        tried = {record.key for record in records}
        first = new_values(space, tried, rng)
        if first is None:
            return Verdict.EXHAUSTED
        encoding = Encoding(space)
        scored = [record for record in records if record.score is not None]
        if len(scored) < self._initial_points(encoding):
            return Proposal(values=first)
        running = [record for record in records if record.outcome is Outcome.RUNNING]
        results = self._results(encoding, scored, direction)
        # One thread: the last digits depend on their number, and more of them would wait for a training's.
        with _threads().limit(limits=1, user_api="blas"):
            model = _fit(encoding, results, encoding.encode(record.values for record in running))
            feasibility = _fit_feasibility(encoding, results, records)
            candidates = _candidates(encoding, results, model, feasibility, rng)
        for row in candidates:
            values = encoding.decode(row)
            if point_key(values) not in tried:
                return Proposal(values=values)
        return Proposal(values=first)

    def _initial_points(self, encoding: Encoding) -> int:
        if self.num_initial_points is not None:
            return self.num_initial_points
        return min(max(2 * len(encoding.searched), 4), 10)

    def _results(self, encoding: Encoding, scored: Sequence[Record], direction: Direction) -> _Results:
        """The results that the model is fitted to, the best one first."""
        import numpy as np

        raw = np.array([record.score for record in scored], dtype=np.float64)
        scores = _warped(raw if direction == "max" else -raw)
        chosen = np.argsort(-scores, kind="stable")
        if len(chosen) > self.max_points:
            best, rest = np.split(chosen, [self.max_points // 2])
            latest = np.sort(rest)[len(best) - self.max_points :]
            chosen = np.concatenate([best, latest[np.argsort(-scores[latest], kind="stable")]])
        return _Results(encoding.encode(scored[index].values for index in chosen), scores[chosen])


@functools.cache
def _threads() -> ThreadpoolController:
    """What sets the threads of the linear algebra; to look for its libraries takes longer than a proposal."""
    import workbench_plugins.oracles._gaussian_process  # noqa: F401  # they must be loaded
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _warped(raw: np.ndarray) -> np.ndarray:
    """Scores, larger is better, on a scale that the model can follow, float64 `(n,)`.

    There are two, and they take turns, as neither is best everywhere: normal scores, the quantiles of a normal
    distribution at the ranks, tell the best apart however close they are; the scores themselves, standardised
    and cut off where they are three times as far below the best as the median is, keep a smooth objective smooth.
    """
    import numpy as np
    from scipy.special import ndtri
    from scipy.stats import rankdata

    if len(raw) % 2:
        warped: np.ndarray = ndtri((rankdata(raw) - 0.5) / len(raw))
        return warped
    median = np.median(raw)
    cut = np.maximum(raw, median - 2 * (raw.max() - median))
    deviation = cut.std()
    return (cut - cut.mean()) / (deviation if deviation > 0 else 1.0)


@dataclass(frozen=True)
class _Results:
    """What the model is fitted to, the best first.

    Attributes:
        rows: float64 `(results, columns)`, encoded points.
        scores: float64 `(results,)`, normal scores, larger is better.
    """

    rows: np.ndarray
    scores: np.ndarray


def _fit(encoding: Encoding, results: _Results, running: np.ndarray) -> GaussianProcess:
    """The model of the results and of points that still run, float64 `(points, columns)`."""
    import numpy as np
    from workbench_plugins.oracles._gaussian_process import fit

    count = len(results.scores)
    sample = np.arange(min(count, _SAMPLE))
    if count > _SAMPLE:  # the better half of the sample is the best results, the other is spread over the rest
        spread = np.linspace(_SAMPLE // 2, count - 1, _SAMPLE - _SAMPLE // 2)
        sample = np.concatenate([sample[: _SAMPLE // 2], spread.astype(np.int64)])
    points, owners = encoding.features(np.concatenate([results.rows, running]))
    scores = np.concatenate([results.scores, np.full(len(running), results.scores.mean())])
    return fit(points, scores, owners, sample)


def _fit_feasibility(encoding: Encoding, results: _Results, records: Sequence[Record]) -> GaussianProcess | None:
    """A model that is 1 at points that were trained and 0 at rejected ones, or None if none was rejected."""
    import numpy as np
    from workbench_plugins.oracles._gaussian_process import fit

    rejected = [record.values for record in records if record.outcome is Outcome.REJECTED][-_SAMPLE:]
    if not rejected:
        return None
    trained = results.rows[:_SAMPLE]
    points, owners = encoding.features(np.concatenate([trained, encoding.encode(rejected)]))
    labels = np.repeat([1.0, 0.0], [len(trained), len(rejected)])
    return fit(points, labels, owners, np.arange(len(points)))


def _candidates(
    encoding: Encoding,
    results: _Results,
    model: GaussianProcess,
    feasibility: GaussianProcess | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """Encoded points, float64 `(candidates, columns)`, with the greatest expected improvement first."""
    import numpy as np

    parents = results.rows[rng.integers(min(_PARENTS, len(results.rows)), size=_CANDIDATES)]
    new = np.concatenate([encoding.mutate(parents, rng), encoding.random(_CANDIDATES, rng)])
    pool, worth = new[:0], np.empty(0)
    for _ in range(_ROUNDS):
        pool = np.concatenate([pool, new])
        means, deviations = model.predict(encoding.features(new)[0])
        improvement = _expected_improvement(means, deviations, results.scores[0])
        if feasibility is not None:
            improvement *= np.clip(feasibility.predict(encoding.features(new)[0])[0], 1e-6, 1.0)
        worth = np.concatenate([worth, improvement])
        survivors = pool[np.argsort(-worth, kind="stable")[:_SURVIVORS]]
        new = encoding.mutate(np.repeat(survivors, _CANDIDATES // _SURVIVORS, axis=0), rng)
    return pool[np.argsort(-worth, kind="stable")]


def _expected_improvement(means: np.ndarray, deviations: np.ndarray, best: float) -> np.ndarray:
    """How much each candidate is expected to exceed the best score, float64 `(n,)`."""
    import numpy as np
    from scipy.special import ndtr

    standard = (means - best) / deviations
    density = np.exp(-0.5 * standard**2) / np.sqrt(2 * np.pi)
    return deviations * (standard * ndtr(standard) + density)


def create(options: Mapping[str, Any]) -> BayesianProposer:
    """The proposer; raises `ValueError` for an unknown option or one out of range."""
    check_names(options, _OPTIONS, "bayesian")
    initial = None
    if "num_initial_points" in options:
        initial = whole_number(options, "num_initial_points", 0, least=1)
    return BayesianProposer(
        num_initial_points=initial,
        max_points=whole_number(options, "max_points", BayesianProposer.max_points, least=20),
    )


@workbench.hookimpl
def workbench_oracles() -> list[workbench.Oracle]:
    """Bayesian optimisation."""
    return [
        workbench.Oracle(
            name="bayesian",
            summary="Gaussian process with expected improvement; the cost of a proposal is bounded.",
            source="Jones et al., EGO, 1998; Oh et al., COMBO, arXiv:1902.00448; Hutter et al., SMAC, 2011",
            options=_OPTIONS,
            create=create,
        )
    ]
