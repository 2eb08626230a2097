"""Hyperband: many trials for a few epochs, the best of them for more, in brackets of different severity."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import workbench
from workbench.oracles.options import check_names, whole_number
from workbench.oracles.protocol import Direction, Outcome, Proposal, Record, Value, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import keras_tuner
    import numpy as np

_OPTIONS = {
    "factor": "how many times more epochs, and fewer trials, each rung has; at least 2 (default 3)",
    "hyperband_iterations": "how often the whole plan is run; at least 1 (default: as often as the budget allows)",
    "min_epochs": "the least epochs of a first rung; at least 1 (default 1)",
}


@dataclass(frozen=True)
class Bracket:
    """One bracket of the plan.

    Attributes:
        trials: how many trials its first rung has.
        epochs: total epochs of a trial in each rung, strictly increasing; the last is the full budget.
    """

    trials: int
    epochs: tuple[int, ...]


@dataclass(frozen=True)
class HyperbandProposer:
    """Hyperband (Li et al., JMLR 18(185)) as a function of the records.

    With R = max_epochs, s_max = floor(log(R / min_epochs) / log(factor)): bracket 0 has s = s_max, the next
    s_max - 1, down to 0. A bracket has s + 1 rungs; the first has ceil((s_max + 1) / (s + 1) * factor^s) new
    random trials; rung i has R * factor^(i - s) epochs, rounded to whole ones, and factor^i times fewer
    trials than the first, rounded down, at least one: the best completed ones of the rung below.

    Where it differs from the paper: brackets are filled in order, but a later one starts where an earlier one
    has to wait; a failed or stopped trial keeps its place in its rung and is never promoted, so fewer may be
    left to promote than planned; a first rung that cannot be filled, as the study may start no more trials or
    the space is used up, is full with the trials that it has, and its later rungs shrink in proportion; no
    point is started twice, in no bracket.

    Attributes:
        factor: the paper's eta.
        hyperband_iterations: how often the whole plan is run; brackets are numbered on. None: as often as the
            study may start trials.
        min_epochs: the least epochs of a first rung.
    """

    factor: int = 3
    hyperband_iterations: int | None = None
    min_epochs: int = 1

    def plan(self, max_epochs: int) -> list[Bracket]:
        """The brackets of one run of the plan in order, for a full budget of `max_epochs`."""
        deepest = 0
        while self.min_epochs * self.factor ** (deepest + 1) <= max_epochs:
            deepest += 1
        brackets = []
        for s in range(deepest, -1, -1):
            trials = -(-(deepest + 1) * self.factor**s // (s + 1))
            # Rounding half up keeps rungs that are a factor of two apart distinct.
            epochs = tuple(math.floor(max_epochs / self.factor ** (s - i) + 0.5) for i in range(s + 1))
            brackets.append(Bracket(trials, epochs))
        return brackets

    def _brackets(self, max_epochs: int, records: Sequence[Record]) -> list[Bracket]:
        """The brackets of all runs; without a limit, of one more than the records have begun."""
        plan = self.plan(max_epochs)
        if self.hyperband_iterations is not None:
            return plan * self.hyperband_iterations
        begun = max((record.bracket for record in records if record.bracket is not None), default=-1)
        return plan * (begun // len(plan) + 2)

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
        """See `workbench.oracles.protocol.MultiFidelityProposer`."""
        from workbench.oracles.sampling import new_values

        brackets = self._brackets(max_epochs, records)
        values: Mapping[str, Value] | None = None
        if new_trials and any(_room(b, i, records) for i, b in enumerate(brackets)):
            values = new_values(space, {record.key for record in records}, rng)
        for index, bracket in enumerate(brackets):
            can_grow = values is not None and _room(bracket, index, records)
            if values is not None and can_grow:
                return Proposal(values=values, epochs=bracket.epochs[0], bracket=index, rung=0)
            promotion = self._promotion(bracket, index, records, direction)
            if promotion is not None:
                return promotion
        is_running = any(record.outcome is Outcome.RUNNING for record in records)
        return Verdict.IDLE if is_running else Verdict.EXHAUSTED

    def _promotion(
        self, bracket: Bracket, index: int, records: Sequence[Record], direction: Direction
    ) -> Proposal | None:
        """The next promotion in a bracket whose first rung is full, or None."""
        rungs = [_rung(records, index, rung) for rung in range(len(bracket.epochs))]
        for rung, (below, above) in enumerate(itertools.pairwise(rungs), start=1):
            if any(record.outcome is Outcome.RUNNING for record in below):
                return None
            completed = [record for record in below if record.outcome is Outcome.COMPLETED]
            # sorted() is stable in both directions: of equal scores the earlier trial wins.
            best_first = sorted(completed, key=_score, reverse=direction == "max")
            places = max(1, len(rungs[0]) // self.factor**rung)
            promoted = {record.trial_id for record in above}
            for record in best_first:
                if len(promoted) < places and record.trial_id not in promoted:
                    return Proposal(
                        values=record.values,
                        epochs=bracket.epochs[rung],
                        trial_id=record.trial_id,
                        bracket=index,
                        rung=rung,
                    )
        return None

    def place(self, values: Mapping[str, Value], records: Sequence[Record], *, max_epochs: int) -> Proposal:
        """A new trial in the first bracket that has room; outside the plan, in full, if none has."""
        for index, bracket in enumerate(self._brackets(max_epochs, records)):
            if _room(bracket, index, records):
                return Proposal(values=values, epochs=bracket.epochs[0], bracket=index, rung=0)
        return Proposal(values=values, epochs=max_epochs)


def _rung(records: Sequence[Record], bracket: int, rung: int) -> list[Record]:
    return [record for record in records if record.bracket == bracket and record.rung == rung]


def _room(bracket: Bracket, index: int, records: Sequence[Record]) -> bool:
    return len(_rung(records, index, 0)) < bracket.trials


def _score(record: Record) -> float:
    if record.score is None:
        raise ValueError(f"A completed record must have a score; trial {record.trial_id} has none")
    return record.score


def create(options: Mapping[str, Any]) -> HyperbandProposer:
    """The proposer; raises `ValueError` for an unknown option or one out of range."""
    check_names(options, _OPTIONS, "hyperband")
    return HyperbandProposer(
        factor=whole_number(options, "factor", HyperbandProposer.factor, least=2),
        hyperband_iterations=(
            whole_number(options, "hyperband_iterations", 1, least=1) if "hyperband_iterations" in options else None
        ),
        min_epochs=whole_number(options, "min_epochs", HyperbandProposer.min_epochs, least=1),
    )


@workbench.hookimpl
def workbench_oracles() -> list[workbench.Oracle]:
    """Hyperband."""
    return [
        workbench.Oracle(
            name="hyperband",
            summary="Few epochs for many trials, more for the best of them.",
            source="Li et al., Hyperband, JMLR 18(185), 2018",
            options=_OPTIONS,
            create=create,
            multi_fidelity=True,
        )
    ]
