"""A Keras Tuner oracle that runs any proposer, and whose only state is the history of proposals."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import keras_tuner
import numpy as np

from workbench.errors import PluginError, SpaceError, near_names
from workbench.oracles.protocol import (
    Direction,
    MultiFidelityProposer,
    Outcome,
    Proposal,
    Proposer,
    Record,
    Value,
    Verdict,
    point_key,
)
from workbench.oracles.sampling import active_values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from keras_tuner.engine.trial import Trial

MAX_REFUSALS = 200
"""So many points in a row outside the constraints end the search."""

_OUTCOMES = {"COMPLETED": Outcome.COMPLETED, "STOPPED": Outcome.STOPPED, "FAILED": Outcome.FAILED}


class HistoryOracle(keras_tuner.Oracle):  # type: ignore[misc]  # Keras Tuner has no types
    """Runs a proposer as a Keras Tuner oracle.

    A Keras Tuner trial is one proposal: a promotion is another Keras Tuner trial that names the study's trial
    again. Every proposal is a function of the seed and the records, so an oracle made from the records of
    another goes on as that one would have. Nothing is written or printed; there are no retries and no limit
    on consecutive failures. Records that are still running at construction are handed out again first, in
    their order, as the trials that they were.

    Several threads may call `create_trial`, `update_trial` and `end_trial` at once, each with a `tuner_id`
    and a thread name of its own (Keras Tuner's lock goes by the thread's name). End a trial with status
    `"COMPLETED"`, `"STOPPED"` (early, on purpose; scored too) or `"FAILED"`. A trial without a finite score
    ends as failed.

    Args:
        proposer: the search algorithm.
        objective: the metric's name.
        direction: whether larger or smaller values are better.
        space: every hyperparameter, as explored beforehand; what trials declare beyond it is ignored, as it
            would make proposals depend on more than the records.
        seed: of all proposals, 0 or greater.
        max_epochs: the full budget of a trial, for proposals that name none.
        max_trials: how many trials may be completed, stopped or running; None for no limit. Failed ones do
            not count. Trials within the limit may still be promoted.
        max_failures: how many proposals may fail before the search stops; None for no limit.
        enqueued: points to propose first, each once and only if the history has none equal; completed from
            the space's defaults.
        records: the history to go on from, in order of proposal.
        earlier: results of other studies that the proposer learns from; they count as no trials.

    Attributes:
        admit: whether a new trial with these values may be trained, everything by default; set it before the
            first call. It is asked once a point; those refused count for nothing and are not proposed again.
        announce: told of each new proposal, its trial's ID and its epochs in total before anyone trains it, in
            the order of the records; set it before the first call.
        proposals: Keras Tuner trial ID -> (proposal, the study's trial ID). Those are "0001", "0002", ... in
            order of their first proposal.
        resumed: Keras Tuner IDs of those that were handed out again.
        stop_reason: "max_trials", "max_failures", "space exhausted", "plan done" (of a multi-fidelity
            algorithm) or "constraints" (`MAX_REFUSALS` points in a row were refused) once the oracle has
            stopped, else None.

    Raises:
        SpaceError: an enqueued point names a hyperparameter that the space does not have.
    """

    def __init__(
        self,
        proposer: Proposer,
        *,
        objective: str,
        direction: Direction,
        space: keras_tuner.HyperParameters,
        seed: int,
        max_epochs: int,
        max_trials: int | None,
        max_failures: int | None = None,
        enqueued: Sequence[Mapping[str, Value]] = (),
        records: Sequence[Record] = (),
        earlier: Sequence[Record] = (),
    ):
        super().__init__(
            objective=keras_tuner.Objective(objective, direction),
            max_trials=None,  # Keras Tuner would count failures and promotions
            hyperparameters=space,
            max_retries_per_trial=0,
            max_consecutive_failed_trials=None,
        )
        self.verbose = 0
        self.proposals: dict[str, tuple[Proposal, str]] = {}
        self.resumed: set[str] = set()
        self.stop_reason: str | None = None
        self._proposer = proposer
        self._direction = direction
        self._study_seed = seed
        self._max_epochs = max_epochs
        self._trials_limit = max_trials
        self._failures_limit = max_failures
        self._enqueued = [_complete(space, values) for values in enqueued]
        self._records = list(records)
        self._earlier = tuple(earlier)
        self.admit: Callable[[Mapping[str, Value]], bool] = lambda values: True
        self.announce: Callable[[Proposal, str, int], None] = lambda proposal, trial_id, epochs: None
        self._unfinished = [i for i, r in enumerate(self._records) if r.outcome is Outcome.RUNNING]
        self._positions: dict[str, int] = {}
        self._error: Exception | None = None

    def records(self) -> list[Record]:
        """Every proposal so far and what came of it, in order."""
        return list(self._records)

    def create_trial(self, tuner_id: str) -> Trial:
        """Keras Tuner's trial for the next proposal, or one with status "IDLE" or "STOPPED".

        Raises:
            Exception: whatever the proposer raised, at this and every later call.
        """
        trial = super().create_trial(tuner_id)
        if self._error is not None:
            raise self._error
        return trial

    def populate_space(self, trial_id: str) -> dict[str, Any]:
        """The next proposal in the form that Keras Tuner's `create_trial` takes."""
        try:
            return self._populate(trial_id)
        except Exception as error:
            # Raised here, it would leave Keras Tuner's lock locked for ever: create_trial raises it.
            self._error = error
            return {"status": "STOPPED", "values": None}

    def _populate(self, kt_trial_id: str) -> dict[str, Any]:
        self.stop_reason = None
        if self._reached_max_failures():
            return self._stop("max_failures")
        if self._unfinished:
            return self._hand_out_again(kt_trial_id)
        new_trials = self._trials_limit is None or self._count_trials() < self._trials_limit
        answer = self._next(new_trials)
        refusals = 0
        while isinstance(answer, Proposal) and answer.trial_id is None and not self.admit(answer.values):
            refusals += 1
            if refusals >= MAX_REFUSALS:
                return self._stop("constraints")
            self._records.append(rejected_record(answer.values))
            answer = self._next(new_trials)
        if answer is Verdict.IDLE:
            return {"status": "IDLE", "values": None}
        if isinstance(answer, Verdict):
            if not new_trials:
                return self._stop("max_trials")
            is_plan = isinstance(self._proposer, MultiFidelityProposer)
            return self._stop("plan done" if is_plan else "space exhausted")
        if answer.trial_id is None and not new_trials:
            raise PluginError(
                f"{type(self._proposer).__name__}.propose must not start a trial when new_trials is False, "
                f"but proposed {dict(answer.values)}"
            )
        return self._start(kt_trial_id, answer)

    def _next(self, new_trials: bool) -> Proposal | Verdict:
        records = tuple(self._records)
        proposer = self._proposer
        if new_trials:
            tried = {record.key for record in records}
            for values in self._enqueued:
                if point_key(values) not in tried:
                    if isinstance(proposer, MultiFidelityProposer):
                        return proposer.place(values, records, max_epochs=self._max_epochs)
                    return Proposal(values=values)
        rng = np.random.default_rng(np.random.SeedSequence([self._study_seed, len(records)]))
        records = (*self._earlier, *records)
        if isinstance(proposer, MultiFidelityProposer):
            return proposer.propose(
                self.hyperparameters,
                records,
                rng,
                direction=self._direction,
                max_epochs=self._max_epochs,
                new_trials=new_trials,
            )
        if not new_trials:
            # A running trial that fails makes room for another.
            is_running = any(record.outcome is Outcome.RUNNING for record in records)
            return Verdict.IDLE if is_running else Verdict.EXHAUSTED
        return proposer.propose(
            self.hyperparameters, records, rng, direction=self._direction, max_epochs=self._max_epochs
        )

    def _start(self, kt_trial_id: str, proposal: Proposal) -> dict[str, Any]:
        known = {record.trial_id for record in self._records if record.outcome is not Outcome.REJECTED}
        trial_id = proposal.trial_id
        if trial_id is None:
            # Not the count: of two workers' proposals a killed process may have journaled the later one only.
            trial_id = f"{max((int(name) for name in known), default=0) + 1:04d}"
        elif trial_id not in known:
            raise PluginError(
                f"{type(self._proposer).__name__}.propose must promote a trial of its records; "
                f"received trial_id={trial_id!r}"
            )
        record = Record(
            trial_id=trial_id,
            values=dict(proposal.values),
            epochs=self._max_epochs if proposal.epochs is None else proposal.epochs,
            outcome=Outcome.RUNNING,
            bracket=proposal.bracket,
            rung=proposal.rung,
        )
        self.announce(proposal, trial_id, record.epochs)
        self._records.append(record)
        return self._hand_out(kt_trial_id, len(self._records) - 1, proposal)

    def _hand_out_again(self, kt_trial_id: str) -> dict[str, Any]:
        position = self._unfinished.pop(0)
        record = self._records[position]
        is_promotion = any(earlier.trial_id == record.trial_id for earlier in self._records[:position])
        proposal = Proposal(
            values=record.values,
            epochs=record.epochs,
            trial_id=record.trial_id if is_promotion else None,
            bracket=record.bracket,
            rung=record.rung,
        )
        self.resumed.add(kt_trial_id)
        return self._hand_out(kt_trial_id, position, proposal)

    def _hand_out(self, kt_trial_id: str, position: int, proposal: Proposal) -> dict[str, Any]:
        self._positions[kt_trial_id] = position
        self.proposals[kt_trial_id] = (proposal, self._records[position].trial_id)
        return {"status": "RUNNING", "values": dict(proposal.values)}

    def _stop(self, reason: str) -> dict[str, Any]:
        self.stop_reason = reason
        return {"status": "STOPPED", "values": None}

    def _count_trials(self) -> int:
        without = (Outcome.FAILED, Outcome.REJECTED)
        return len({record.trial_id for record in self._records if record.outcome not in without})

    def _reached_max_failures(self) -> bool:
        if self._failures_limit is None:
            return False
        failures = sum(record.outcome is Outcome.FAILED for record in self._records)
        return failures >= self._failures_limit

    def update_trial(self, trial_id: str, metrics: Mapping[str, float], step: int = 0) -> Trial:
        """Reports the metrics of one epoch; only the objective is kept, where it is finite.

        Raises:
            ValueError: the objective is not among them.
        """
        name = self.objective.name
        if name not in metrics:
            raise ValueError(f"The objective {name!r} must be among the metrics; received {sorted(metrics)}")
        if not math.isfinite(metrics[name]):
            return self.trials[trial_id]  # it cannot be the best, and Keras Tuner would warn of it
        return super().update_trial(trial_id, {name: metrics[name]}, step=step)

    def end_trial(self, trial: Trial) -> None:
        """Ends a trial with the status that it carries and files its record.

        Raises:
            ValueError: the status is not one that a trial ends with.
        """
        if trial.status not in {*_OUTCOMES, "INVALID"}:  # under the lock, raising would leave it locked
            raise ValueError(f"A trial must end with one of {sorted(_OUTCOMES)}; received {trial.status!r}")
        self._end(trial)

    @keras_tuner.synchronized  # type: ignore[untyped-decorator]
    def _end(self, trial: Trial) -> None:
        own = self.trials[trial.trial_id]
        if trial.status == "STOPPED":  # Keras Tuner scores completed ones only
            self.score_trial(own)
            if math.isnan(own.score):
                trial.status = "FAILED"
        super().end_trial(trial)
        outcome = _OUTCOMES[own.status]
        score = None if outcome is Outcome.FAILED else float(own.score)
        position = self._positions[own.trial_id]
        self._records[position] = replace(self._records[position], outcome=outcome, score=score)

    def score_trial(self, trial: Trial) -> None:
        """Sets the score to the objective's best finite value, NaN if there is none, and its step."""
        name = self.objective.name
        if trial.metrics.exists(name):
            super().score_trial(trial)
        else:
            trial.score = math.nan

    def update_space(self, hyperparameters: keras_tuner.HyperParameters) -> None:
        """Does nothing: the space is fixed, see the class."""

    def save(self) -> None:
        """Does nothing: the study's journal is the storage."""

    def reload(self) -> None:
        """Does nothing: construct with `records`."""

    def _save_trial(self, trial: Trial) -> None:
        pass


def rejected_record(values: Mapping[str, Value]) -> Record:
    """The record of a point that was refused; it takes no place in a bracket."""
    return Record(trial_id="", values=dict(values), epochs=0, outcome=Outcome.REJECTED)


def _complete(space: keras_tuner.HyperParameters, values: Mapping[str, Value]) -> dict[str, Value]:
    names = {hp.name for hp in space.space}
    for name in values:
        if name not in names:
            raise SpaceError(
                f"An enqueued point must name hyperparameters of the space; received {name!r}.{near_names(name, names)}"
            )
    return active_values(space, values)
