"""Grid search: every point of the space, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import workbench
from workbench.oracles.options import check_names, whole_number
from workbench.oracles.protocol import Direction, Proposal, Record, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import keras_tuner
    import numpy as np

_OPTIONS = {
    "levels": "how many values stand for a Float without a step, ends included; at least 1 (default 5)",
}


@dataclass(frozen=True)
class GridProposer:
    """Proposes the first point of the grid that no record holds; the last hyperparameter changes fastest.

    Attributes:
        levels: how many values stand for a Float without a step, evenly spaced in its sampling from its least
            to its greatest value (by a constant factor if that is logarithmic).
    """

    levels: int = 5

    def propose(
        self,
        space: keras_tuner.HyperParameters,
        records: Sequence[Record],
        rng: np.random.Generator,
        *,
        direction: Direction,
        max_epochs: int,
    ) -> Proposal | Verdict:
        """See `workbench.oracles.protocol.Proposer`; draws nothing from `rng`."""
        from workbench.oracles.protocol import point_key
        from workbench.oracles.sampling import enumerate_points

        tried = {record.key for record in records}
        # Of any n + 1 points one is not among n tried ones, so this looks at no more than that.
        for values in enumerate_points(space, self.levels):
            if point_key(values) not in tried:
                return Proposal(values=values)
        return Verdict.EXHAUSTED


def create(options: Mapping[str, Any]) -> GridProposer:
    """The proposer; raises `ValueError` for an unknown option or one out of range."""
    check_names(options, _OPTIONS, "grid")
    return GridProposer(levels=whole_number(options, "levels", GridProposer.levels, least=1))


@workbench.hookimpl
def workbench_oracles() -> list[workbench.Oracle]:
    """Grid search."""
    return [
        workbench.Oracle(
            name="grid",
            summary="Every point in order; continuous ranges in a few levels.",
            options=_OPTIONS,
            create=create,
        )
    ]
