"""Random search: every point is drawn anew and never twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import workbench
from workbench.oracles.options import check_names
from workbench.oracles.protocol import Direction, Proposal, Record, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import keras_tuner
    import numpy as np


@dataclass(frozen=True)
class RandomProposer:
    """Draws points at random; a finite space ends when all of its points are proposed."""

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

        values = new_values(space, {record.key for record in records}, rng)
        return Verdict.EXHAUSTED if values is None else Proposal(values=values)


def create(options: Mapping[str, Any]) -> RandomProposer:
    """The proposer; raises `ValueError` for any option, as there are none."""
    check_names(options, (), "random")
    return RandomProposer()


@workbench.hookimpl
def workbench_oracles() -> list[workbench.Oracle]:
    """Random search."""
    return [
        workbench.Oracle(
            name="random",
            summary="Random search without repetition.",
            source="Bergstra and Bengio, JMLR 13(10), 2012",
            create=create,
        )
    ]
