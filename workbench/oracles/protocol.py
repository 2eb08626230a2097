"""What a search algorithm is: a pure function of the search space and the history.

A proposer holds no state between calls, so a study that was killed continues as if it had not been: the same
records give the same proposal.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import keras_tuner
    import numpy as np

Value = bool | int | float | str
"""A hyperparameter's value."""

Direction = Literal["max", "min"]
"""Whether the objective is to be maximised or minimised."""


def point_key(values: Mapping[str, Value]) -> Hashable:
    """A hashable key that is equal for equal points, whatever the order of their names."""
    return frozenset(values.items())


class Outcome(enum.StrEnum):
    """What came of a proposal."""

    RUNNING = "running"
    """Not finished; it may be running now or be waiting to be resumed."""
    COMPLETED = "completed"
    """Trained for all of its epochs; has a score."""
    STOPPED = "stopped"
    """Ended early on purpose; has a score."""
    FAILED = "failed"
    """Has no score and never will."""
    REJECTED = "rejected"
    """Outside the definition's constraints; never trained, counts for nothing but is not proposed again."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One earlier proposal and what came of it.

    Attributes:
        trial_id: the trial that it created or promoted.
        values: the active hyperparameters by full name.
        epochs: how many epochs the trial has been trained for in total once this proposal is done.
        bracket, rung: Hyperband's levels, from 0; None for algorithms without them.
        outcome: see `Outcome`.
        score: the objective, or None if there is none (yet).
    """

    trial_id: str
    values: Mapping[str, Value]
    epochs: int
    outcome: Outcome
    score: float | None = None
    bracket: int | None = None
    rung: int | None = None

    @functools.cached_property
    def key(self) -> Hashable:
        """Equal for records of equal points; kept, as every proposal compares with every record."""
        return point_key(self.values)


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What to train next.

    Attributes:
        values: the active hyperparameters by full name.
        epochs: total epochs of the trial once done, or None for the definition's `training.epochs`.
        trial_id: the trial to promote (train on from its last epoch), or None for a new trial.
        bracket, rung: Hyperband's levels, from 0.
    """

    values: Mapping[str, Value]
    epochs: int | None = None
    trial_id: str | None = None
    bracket: int | None = None
    rung: int | None = None


class Verdict(enum.Enum):
    """Why there is no proposal."""

    IDLE = "idle"
    """Running trials must end first."""
    EXHAUSTED = "exhausted"
    """Nothing is left to propose: a finite space is used up, or the algorithm's plan is done."""


class Proposer(Protocol):
    """A search algorithm, made by `workbench.Oracle.create(options)`."""

    def propose(
        self,
        space: keras_tuner.HyperParameters,
        records: Sequence[Record],
        rng: np.random.Generator,
        *,
        direction: Direction,
        max_epochs: int,
    ) -> Proposal | Verdict:
        """The next proposal, a function of its arguments alone.

        Args:
            space: every hyperparameter with its range and conditions.
            records: every earlier proposal in order, the enqueued ones included.
            rng: a stream of its own for each number of records; the only source of randomness.
            direction: whether larger or smaller scores are better.
            max_epochs: the definition's `training.epochs`, the full budget of a trial.
        """
        ...


@runtime_checkable
class MultiFidelityProposer(Proposer, Protocol):
    """A search algorithm that gives trials a part of the budget first and promotes some of them (Hyperband).

    A proposer is one if it has the method `place`.
    """

    def propose(
        self,
        space: keras_tuner.HyperParameters,
        records: Sequence[Record],
        rng: np.random.Generator,
        *,
        direction: Direction,
        max_epochs: int,
        new_trials: bool = True,
    ) -> Proposal | Verdict:
        """As `Proposer.propose`.

        Args:
            space, records, rng, direction, max_epochs: as there.
            new_trials: whether a new trial may be started. It is False while the study has as many trials as
                its budget allows: then the answer is a promotion or a verdict, and a rung that has fewer
                trials than planned counts as full. A running trial that fails can make it True again.
        """
        ...

    def place(self, values: Mapping[str, Value], records: Sequence[Record], *, max_epochs: int) -> Proposal:
        """The proposal of a new trial for a point that was chosen outside (the published one).

        Args:
            values: the active hyperparameters by full name.
            records: every earlier proposal in order.
            max_epochs: the full budget of a trial.

        Returns:
            A proposal with these values and the epochs, bracket and rung that a new trial would get now.
        """
        ...
