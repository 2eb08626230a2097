"""Why an execution may end before its last epoch: decided in the driver, from the journaled epochs alone."""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.definition import Definition
    from workbench.oracles.protocol import Direction
    from workbench.trials import Execution, Trial


class StopKind(enum.Enum):
    """What an early end says of the trial."""

    CONVERGED = "converged"
    """It has learnt what it can: the trial counts as completed."""
    CUT = "cut"
    """It was cut short: the trial counts as stopped."""


@dataclass(frozen=True)
class Stop:
    """An early end: its kind, and the reason for people."""

    kind: StopKind
    reason: str


@dataclass(frozen=True)
class StoppingRules:
    """The rules of a definition; every answer is a function of the epochs so far, so a resumed run gives the same.

    Attributes:
        definition: with its `[training]` and `[budget]` tables.
        metric, direction: the objective.
    """

    definition: Definition
    metric: str
    direction: Direction

    def check(self, trial: Trial, number: int, others: Iterable[Trial]) -> Stop | None:
        """Whether an execution should end after its last journaled epoch; one that is trained in full just ends.

        Args:
            trial: being trained.
            number: of the execution, from 1.
            others: the study's trials.
        """
        execution = trial.executions[number]
        if max(execution.epochs, default=0) >= trial.target_epochs:
            return None
        return (
            self.check_time(trial)
            or self._target(execution)
            or self._patience(execution)
            or self._median(trial, execution, others)
        )

    def check_time(self, trial: Trial) -> Stop | None:
        """Whether a trial has used up `max_trial_seconds`, so that no further epoch or execution should begin."""
        limit = self.definition.budget.max_trial_seconds
        if limit is None:
            return None
        spent = sum(event["seconds"] for item in trial.executions.values() for event in item.epochs.values())
        if spent < limit:
            return None
        return Stop(StopKind.CUT, f"max_trial_seconds: {spent:.1f} s of {limit:g} s are spent")

    def _target(self, execution: Execution) -> Stop | None:
        objective = self.definition.objective
        # The score of several executions is their mean, which one of them does not decide.
        if not objective.stop_at_target or objective.target is None or self.definition.training.executions > 1:
            return None
        for epoch, value in self._signed(execution):
            if value >= self._sign * objective.target:
                return Stop(
                    StopKind.CONVERGED, f"stop_at_target: {self.metric} {self._sign * value:.4g} at epoch {epoch}"
                )
        return None

    def _patience(self, execution: Execution) -> Stop | None:
        table = self.definition.training.early_stopping
        if table is None:
            return None
        best, best_epoch, last = -math.inf, 0, 0
        for epoch, value in self._signed(execution):
            last = epoch
            if value > best + (table.min_delta if best_epoch else 0.0):
                best, best_epoch = value, epoch
        if last - best_epoch < table.patience:
            return None
        return Stop(StopKind.CONVERGED, f"early_stopping: no better {self.metric} since epoch {best_epoch}")

    def _median(self, trial: Trial, execution: Execution, others: Iterable[Trial]) -> Stop | None:
        table = self.definition.training.median_rule
        own = self._signed(execution)
        if table is None or not own or own[-1][0] < table.min_epochs:
            return None
        epoch = own[-1][0]
        averages = []
        for other in others:
            if other is trial:
                continue
            runs = [self._signed(item, epoch) for item in other.executions.values()]
            runs = [run for run in runs if run and run[-1][0] >= epoch]
            if runs:
                averages.append(statistics.fmean(statistics.fmean(value for _, value in run) for run in runs))
        if len(averages) < table.min_trials:
            return None
        median = statistics.median(averages)
        best = max(value for _, value in own)
        if best >= median:
            return None
        sign = self._sign
        return Stop(
            StopKind.CUT,
            f"median_rule: best {self.metric} {sign * best:.4g} after epoch {epoch}; the median of "
            f"{len(averages)} others' averages is {sign * median:.4g}",
        )

    @property
    def _sign(self) -> int:
        return 1 if self.direction == "max" else -1

    def _signed(self, execution: Execution, until: int | None = None) -> list[tuple[int, float]]:
        """(epoch, value), larger values better; values that are not finite are left out."""
        pairs = execution.metric(self.metric, until)
        return [(epoch, self._sign * value) for epoch, value in pairs if math.isfinite(value)]
