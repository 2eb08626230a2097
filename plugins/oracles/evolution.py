"""Regularised evolution: children of good recent points, each changed in one hyperparameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import workbench
from workbench.oracles.options import check_names, whole_number
from workbench.oracles.protocol import Direction, Outcome, Proposal, Record, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import keras_tuner
    import numpy as np

_OPTIONS = {
    "population": "how many of the latest completed trials may have children; at least 2 (default 20)",
    "sample": "how many of them are drawn for each child, the best of which is its parent; at least 1 and at "
    "most population (default 5)",
}

_MUTATIONS = 100
"""Children drawn before the search for a new one goes further from the population."""
_MAX_STEPS = 3
"""Mutations of a child at most, where nearer ones are all taken."""


@dataclass(frozen=True)
class EvolutionProposer:
    """Regularised (aging) evolution (Real et al., arXiv:1802.01548) as a function of the records.

    The population is the latest `population` completed trials: the oldest dies when a new one completes, however
    good it is. For a child, `sample` of them are drawn and the best is its parent; one active hyperparameter is
    mutated (see `workbench.oracles.encoding.Encoding.mutate`: what becomes active by it is drawn at random, what
    becomes inactive is dropped). Until as many trials are completed or running as the population has places,
    points are random.

    Where it differs from the paper: the sample is drawn without replacement; numbers take a step near their
    value, as the paper's spaces have none; the population is smaller (the paper's 100 suits 20,000 trials); a
    child that was proposed before is drawn again, as its score is known, with a second and a third mutation where
    the neighbours of the population are all taken, and at random after that. Failed, stopped and rejected
    proposals are never parents.

    Attributes:
        population: how many trials may have children.
        sample: how many of them compete to be the parent.
    """

    population: int = 20
    sample: int = 5

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
        from workbench.oracles.sampling import new_values

        completed = [record for record in records if record.outcome is Outcome.COMPLETED]
        running = sum(record.outcome is Outcome.RUNNING for record in records)
        tried = {record.key for record in records}
        if completed and len(completed) + running >= self.population:
            child = self._child(space, completed[-self.population :], tried, rng, direction)
            if child is not None:
                return child
        values = new_values(space, tried, rng)
        return Verdict.EXHAUSTED if values is None else Proposal(values=values)

    def _child(
        self,
        space: keras_tuner.HyperParameters,
        population: Sequence[Record],
        tried: set[Any],
        rng: np.random.Generator,
        direction: Direction,
    ) -> Proposal | None:
        """A new child, or None if none was found."""
        import numpy as np

        from workbench.oracles.encoding import Encoding
        from workbench.oracles.protocol import point_key

        encoding = Encoding(space)
        scores = np.array([record.score for record in population], dtype=np.float64)
        # Of equal scores the later trial wins: it has proved nothing less, and lives longer.
        ranks = np.argsort(np.argsort(scores if direction == "max" else -scores, kind="stable"))
        lots = rng.random((_MUTATIONS, len(population))).argsort(axis=1)[:, : self.sample]
        parents = lots[np.arange(_MUTATIONS), ranks[lots].argmax(axis=1)]
        children = encoding.encode(record.values for record in population)[parents]
        for _ in range(_MAX_STEPS):
            children = encoding.mutate(children, rng)
            for child in children:
                values = encoding.decode(child)
                if point_key(values) not in tried:
                    return Proposal(values=values)
        return None


def create(options: Mapping[str, Any]) -> EvolutionProposer:
    """The proposer; raises `ValueError` for an unknown option or one out of range."""
    check_names(options, _OPTIONS, "evolution")
    population = whole_number(options, "population", EvolutionProposer.population, least=2)
    sample = whole_number(options, "sample", min(EvolutionProposer.sample, population), least=1)
    if sample > population:
        raise ValueError(f"sample must be at most population, {population}; received {sample}")
    return EvolutionProposer(population=population, sample=sample)


@workbench.hookimpl
def workbench_oracles() -> list[workbench.Oracle]:
    """Regularised evolution."""
    return [
        workbench.Oracle(
            name="evolution",
            summary="Mutates the best of a sample of the latest trials.",
            source="Real et al., Regularized Evolution for Image Classifier Architecture Search, arXiv:1802.01548",
            options=_OPTIONS,
            create=create,
        )
    ]
