"""Asynchronous successive halving: a good trial goes on as soon as it is known to be good."""

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
    "min_epochs": "the least epochs of the first rung; at least 1 (default 1)",
}


@dataclass(frozen=True)
class AshaProposer:
    """Asynchronous successive halving (Li et al., ASHA, arXiv:1810.05934) as a function of the records.

    One bracket, the paper's s = 0. With R = max_epochs, the last rung has R epochs and each one below `factor`
    times fewer, rounded to whole ones, down to at least `min_epochs`. A proposal is the promotion of a trial that
    is among the best 1 / factor of those that completed its rung, from the highest rung where there is one;
    else a new random trial in the first rung. So a worker waits only while no new trial may be started and what
    still runs may yet be promoted.

    Where it differs from the paper: a failed or stopped trial is never promoted and does not count in its rung; no
    point is started twice; and once no trial may be started any more and nothing runs, the best go on into rungs
    that are empty or hold failed trials only, so that a study ends with a trial of the full budget.

    Attributes:
        factor: the paper's eta.
        min_epochs: the least epochs of the first rung.
    """

    factor: int = 3
    min_epochs: int = 1

    def rungs(self, max_epochs: int) -> tuple[int, ...]:
        """Total epochs of a trial in each rung, strictly increasing; the last is the full budget."""
        deepest = 0
        while self.min_epochs * self.factor ** (deepest + 1) <= max_epochs:
            deepest += 1
        # Rounding half up keeps rungs that are a factor of two apart distinct.
        return tuple(math.floor(max_epochs / self.factor ** (deepest - i) + 0.5) for i in range(deepest + 1))

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

        rungs = self._rungs_of(records, max_epochs, direction)
        promotion = self._promotion(rungs)
        if promotion is not None:
            return promotion
        if new_trials:
            values = new_values(space, {record.key for record in records}, rng)
            if values is not None:
                return self.place(values, records, max_epochs=max_epochs)
        if any(record.outcome is Outcome.RUNNING for record in records):
            return Verdict.IDLE
        last = _last_promotion(rungs)
        return Verdict.EXHAUSTED if last is None else last

    def _rungs_of(self, records: Sequence[Record], max_epochs: int, direction: Direction) -> list[_Rung]:
        rungs = []
        for number, epochs in enumerate(self.rungs(max_epochs)):
            held = [record for record in records if record.rung == number]
            completed = [record for record in held if record.outcome is Outcome.COMPLETED]
            # sorted() is stable in both directions: of equal scores the earlier trial wins.
            best_first = sorted(completed, key=_score, reverse=direction == "max")
            rungs.append(_Rung(number, epochs, held, best_first))
        return rungs

    def _promotion(self, rungs: Sequence[_Rung]) -> Proposal | None:
        """A promotion from the highest rung that has one, or None."""
        for below, above in reversed(list(itertools.pairwise(rungs))):
            promoted = {record.trial_id for record in above.records}
            for record in below.best_first[: len(below.best_first) // self.factor]:
                if record.trial_id not in promoted:
                    return _promote(record, above)
        return None

    def place(self, values: Mapping[str, Value], records: Sequence[Record], *, max_epochs: int) -> Proposal:
        """A new trial in the first rung."""
        return Proposal(values=values, epochs=self.rungs(max_epochs)[0], bracket=0, rung=0)


@dataclass(frozen=True)
class _Rung:
    number: int
    epochs: int
    records: Sequence[Record]
    best_first: Sequence[Record]
    """The completed ones."""


def _last_promotion(rungs: Sequence[_Rung]) -> Proposal | None:
    """The best trial below a rung that holds none but failed ones, from the highest such rung, or None."""
    for below, above in reversed(list(itertools.pairwise(rungs))):
        if all(record.outcome is Outcome.FAILED for record in above.records):
            promoted = {record.trial_id for record in above.records}
            for record in below.best_first:
                if record.trial_id not in promoted:
                    return _promote(record, above)
    return None


def _promote(record: Record, above: _Rung) -> Proposal:
    return Proposal(values=record.values, epochs=above.epochs, trial_id=record.trial_id, bracket=0, rung=above.number)


def _score(record: Record) -> float:
    if record.score is None:
        raise ValueError(f"A completed record must have a score; trial {record.trial_id} has none")
    return record.score


def create(options: Mapping[str, Any]) -> AshaProposer:
    """The proposer; raises `ValueError` for an unknown option or one out of range."""
    check_names(options, _OPTIONS, "asha")
    return AshaProposer(
        factor=whole_number(options, "factor", AshaProposer.factor, least=2),
        min_epochs=whole_number(options, "min_epochs", AshaProposer.min_epochs, least=1),
    )


@workbench.hookimpl
def workbench_oracles() -> list[workbench.Oracle]:
    """Asynchronous successive halving."""
    return [
        workbench.Oracle(
            name="asha",
            summary="Hyperband's idea without waiting: promotes whenever it can.",
            source="Li et al., A System for Massively Parallel Hyperparameter Tuning, arXiv:1810.05934",
            options=_OPTIONS,
            create=create,
            multi_fidelity=True,
        )
    ]
