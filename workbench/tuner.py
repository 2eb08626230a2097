"""The tuner: Keras Tuner's loop over a study, with the journal as its memory and engines to train on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras_tuner
from keras_tuner.engine.base_tuner import BaseTuner

from workbench.constraints import Gate
from workbench.directory import StudyDirectory, now
from workbench.errors import TimeLimitError, TrialError, WorkerDiedError
from workbench.stopping import Stop, StopKind, StoppingRules
from workbench.store import CheckpointStore
from workbench.training import Task
from workbench.trials import Status, Trial

if TYPE_CHECKING:
    from workbench.definition import Definition
    from workbench.display import Display
    from workbench.engine.protocol import Cost, Engine, Preparation
    from workbench.log import StudyLog
    from workbench.oracles.history import HistoryOracle
    from workbench.oracles.protocol import Proposal, Value

MAX_DEATHS = 3
"""A worker that dies so often in a row without a new checkpoint fails the trial."""

IDLE_SECONDS = 1.0

GRACE, GRACE_SECONDS = 1.5, 60.0
"""A worker that says nothing is ended after this multiple of what is left of `max_trial_seconds`, and this long."""


@dataclass(frozen=True, kw_only=True)
class StudyContext:
    """What the tuner works with, assembled by `workbench.run`.

    Attributes:
        store: the study's checkpoint files.
        device: "tpu", "gpu" or "cpu", for the table of trials.
        seed_of: (trial_id, execution) -> the execution's seed.
        metric: the objective; a training metric where nothing validates.
        split: what to train on.
        repeats: whether a point may be trained more than once; then no point is refused.
    """

    definition: Definition
    directory: StudyDirectory
    log: StudyLog
    preparation: Preparation
    display: Display
    device: str
    store: CheckpointStore
    on_trial_finished: Callable[[dict[str, Any]], None]
    seed_of: Callable[[str, int], int]
    metric: str
    split: str = "train"
    repeats: bool = False


class StudyTuner(BaseTuner):  # type: ignore[misc]
    """Runs an oracle's proposals on engines, one thread an engine, and journals what happens.

    Keras Tuner's own files, prints, retries and model saving are off: the journal is the truth, checkpoints are
    the study's.

    Args:
        oracle: made from the study's history; hands out its unfinished trials first.
        context: the study.
        engines: prepared; as many trials run at once.
    """

    def __init__(self, oracle: HistoryOracle, context: StudyContext, engines: Sequence[Engine]):
        self._context = context
        self._engines = engines
        self._stopping = threading.Event()
        self._trial_ended = threading.Condition()
        self._errors: list[BaseException] = []
        self._own = threading.local()
        self._failures_in_a_row: list[str] = []
        self._rules = StoppingRules(context.definition, context.metric, context.definition.objective.direction)
        self._store = context.store
        self._gate = Gate(context.definition, self._cost, context.log)
        if not context.repeats:
            oracle.admit = self._gate.admit
        oracle.announce = self._journal_proposal
        self.stop_reason = ""
        path = context.directory.path
        super().__init__(oracle, directory=str(path.parent), project_name=path.name)

    def search(self, *args: Any, **kwargs: Any) -> None:
        """Runs until the oracle, the budget or the target says stop.

        Raises:
            WorkbenchError: the study cannot go on.
            KeyboardInterrupt: as it came; engines are left to the caller to close.
        """
        if len(self._engines) == 1:
            self._loop(self._engines[0], "worker-1")
        else:
            threads = [
                threading.Thread(target=self._guarded_loop, args=(engine, f"worker-{number}"), name=f"worker-{number}")
                for number, engine in enumerate(self._engines, start=1)
            ]
            for thread in threads:
                thread.start()
            try:
                for thread in threads:
                    thread.join()
            except BaseException:
                self._stopping.set()
                for engine in self._engines:
                    engine.close()
                for thread in threads:
                    thread.join()
                raise
            if self._errors:
                raise self._errors[0]
        self._store.keep_best_only(self._context.log.history.trials)

    def _guarded_loop(self, engine: Engine, tuner_id: str) -> None:
        try:
            self._loop(engine, tuner_id)
        except BaseException as error:
            if not self._stopping.is_set():
                self._errors.append(error)
            self._stopping.set()
            self._wake()

    def _loop(self, engine: Engine, tuner_id: str) -> None:
        self._own.engine = engine
        while not self._stopping.is_set() and not self._is_over():
            trial = self.oracle.create_trial(tuner_id)
            if trial.status == "STOPPED":
                self.stop_reason = self.stop_reason or self.oracle.stop_reason or ""
                return
            if trial.status == "IDLE":
                with self._trial_ended:
                    self._trial_ended.wait(IDLE_SECONDS)
                continue
            self.on_trial_begin(trial)
            self.run_trial(trial, engine)
            self.on_trial_end(trial)
            self._wake()

    def _cost(self, values: Mapping[str, Value]) -> Cost:
        """What a point costs, found out by the calling thread's engine."""
        engine: Engine = self._own.engine
        measure = self._context.definition.constraints.max_seconds_per_epoch is not None
        deaths = 0
        while True:
            try:
                return engine.cost(values, measure=measure)
            except WorkerDiedError as error:
                deaths += 1
                if self._stopping.is_set():
                    raise
                if deaths >= MAX_DEATHS:
                    raise TrialError(str(error), "worker_died") from error
                self._context.display.message(f"{error}. A new worker goes on.")

    def _wake(self) -> None:
        with self._trial_ended:
            self._trial_ended.notify_all()

    def _is_over(self) -> bool:
        history = self._context.log.history
        budget, objective = self._context.definition.budget, self._context.definition.objective
        if len(self._failures_in_a_row) >= budget.max_same_failures:
            self.stop_reason = "max_same_failures"
        elif budget.max_hours is not None and history.seconds / len(self._engines) >= 3600 * budget.max_hours:
            self.stop_reason = "max_hours"
        elif budget.max_epochs is not None and history.epochs >= budget.max_epochs:
            self.stop_reason = "max_epochs"
        elif objective.stop_at_target and objective.target is not None:
            sign = 1 if objective.direction == "max" else -1
            scores = [record.score for record in history.records if record.score is not None]
            if any(sign * score >= sign * objective.target for score in scores):
                self.stop_reason = "target reached"
        return bool(self.stop_reason)

    def run_trial(self, trial: keras_tuner.engine.trial.Trial, engine: Engine) -> None:
        """Trains one proposal, through as many worker processes as that takes, and files what came of it."""
        context = self._context
        log = context.log
        proposal, trial_id = self.oracle.proposals[trial.trial_id]
        epochs = proposal.epochs or context.definition.training.epochs
        state = log.history.trials[trial_id]
        done = max((epoch for item in state.executions.values() for epoch in item.epochs), default=0)
        context.display.trial_started(trial_id, epochs, done)
        result = self._train(state, epochs, engine)
        log.append("result", trial_id=trial_id, **result, at=now())
        self._count_failure(result)
        self._report(trial, result, state)
        self._store.trial_ended(state, log.history.trials)

    def _journal_proposal(self, proposal: Proposal, trial_id: str, epochs: int) -> None:
        """Journals a proposal within the oracle's lock, so that the journal has them in the oracle's order."""
        self._context.log.append(
            "proposal",
            trial_id=trial_id,
            values=dict(proposal.values),
            epochs=epochs,
            bracket=proposal.bracket,
            rung=proposal.rung,
            graph=self._gate.graph_of(proposal.values),
            at=now(),
        )

    def _train(self, state: Trial, epochs: int, engine: Engine) -> dict[str, Any]:
        """Runs the trial's executions; the result as the journal has it: status, score, error, kind."""
        context = self._context
        result: dict[str, Any] = {"status": str(Status.COMPLETED), "score": None, "error": None, "kind": None}
        try:
            for execution in range(1, context.definition.training.executions + 1):
                stop = self._rules.check_time(state) if execution > 1 and execution not in state.executions else None
                stop = stop or self._run_execution(state, execution, epochs, engine)
                if stop is not None and stop.kind is StopKind.CUT:
                    result |= {"status": str(Status.STOPPED), "error": stop.reason}
                    break
        except TrialError as error:
            return result | {"status": str(Status.FAILED), "error": str(error), "kind": error.kind}
        result["score"] = state.score(context.metric, context.definition.objective.direction)
        if result["score"] is None:
            reason = result["error"] or f"no epoch gave a finite {context.metric}"
            return result | {"status": str(Status.FAILED), "error": reason, "kind": "no_score"}
        return result

    def _count_failure(self, result: Mapping[str, Any]) -> None:
        """Remembers how many trials in a row failed in the same way, since this process began."""
        row = self._failures_in_a_row
        if row and result["kind"] != row[-1]:
            row.clear()
        if result["kind"] is not None:
            row.append(result["kind"])

    def _report(self, trial: keras_tuner.engine.trial.Trial, result: dict[str, Any], state: Trial) -> None:
        context = self._context
        row = state.row(context.metric, context.definition.objective.direction)
        if result["score"] is None:
            trial.status, trial.message = "FAILED", result["error"]
        else:
            self.oracle.update_trial(trial.trial_id, {context.metric: result["score"]}, step=row["best_epoch"])
            trial.status = result["status"].upper()
        context.display.trial_finished(row)
        context.on_trial_finished(row)

    def _run_execution(self, state: Trial, execution: int, epochs: int, engine: Engine) -> Stop | None:
        """Trains until the last epoch, or until a rule ends it early; the rule's word if one did."""
        context = self._context
        deaths, reached = 0, -1
        while True:
            seed = context.seed_of(state.trial_id, execution)
            task = self._task(state, execution, epochs, seed)
            from_epoch = task.first_epoch - 1
            if from_epoch >= epochs:
                return None
            if from_epoch and from_epoch == max(state.executions[execution].epochs):
                # Killed between the last epoch's checkpoint and the trial's result: the rule has its say again.
                stop = self._stop_of(state, execution)
                if stop is not None:
                    return stop
            context.log.append(
                "attempt",
                trial_id=state.trial_id,
                execution=execution,
                seed=seed,
                from_epoch=from_epoch,
                device=context.device,
                replicas=context.preparation.replicas,
                at=now(),
            )
            try:
                engine.execute(task, self._receive, max_seconds=self._hard_limit(state))
            except WorkerDiedError as error:
                if self._stopping.is_set():
                    raise
                deaths = deaths + 1 if from_epoch <= reached else 1
                reached = max(reached, from_epoch)
                context.log.append("worker_died", trial_id=state.trial_id, execution=execution, error=str(error))
                if deaths >= MAX_DEATHS:
                    text = f"{error}; {deaths} times in a row at epoch {from_epoch + 1}"
                    raise TrialError(text, "worker_died") from error
                context.display.message(f"trial {state.trial_id}: {error}. A new worker goes on with it.")
            except TimeLimitError as error:
                return Stop(StopKind.CUT, f"max_trial_seconds: {error}; the worker did not answer")
            else:
                return self._stop_of(state, execution)

    def _stop_of(self, state: Trial, execution: int) -> Stop | None:
        return self._rules.check(state, execution, list(self._context.log.history.trials.values()))

    def _hard_limit(self, state: Trial) -> float | None:
        """When to give a silent worker up: well after the rules would have ended the trial."""
        limit = self._context.definition.budget.max_trial_seconds
        if limit is None:
            return None
        spent = sum(event["seconds"] for item in state.executions.values() for event in item.epochs.values())
        return GRACE * max(0.0, limit - float(spent)) + GRACE_SECONDS

    def _task(self, state: Trial, execution: int, epochs: int, seed: int) -> Task:
        folder = self._store.folder(state.trial_id)
        known = state.executions.get(execution)
        checkpoint = known.checkpoint if known is not None else None
        last = folder / checkpoint["file"] if checkpoint is not None else None
        if last is None or checkpoint is None or not last.is_file():
            checkpoint = None
        best = folder / checkpoint["best_file"] if checkpoint is not None and checkpoint["best_file"] else None
        return Task(
            trial_id=state.trial_id,
            execution=execution,
            seed=seed,
            values=state.values,
            first_epoch=int(checkpoint["epoch"]) + 1 if checkpoint is not None else 1,
            last_epoch=epochs,
            resume_from=str(last) if checkpoint is not None else None,
            best_from=str(best) if best is not None else None,
            best_score=checkpoint["best_score"] if checkpoint is not None else None,
            checkpoint_dir=str(folder),
            metric=self._context.metric,
            split=self._context.split,
        )

    def _receive(self, event: dict[str, Any]) -> str | None:
        """Takes an event of a running execution; answers an epoch with why to end it there, or None."""
        name = event.pop("event")
        display = self._context.display
        if name == "step":
            display.step(event["trial_id"], event["step"], event["steps"])
            return None
        self._context.log.append(name, **event)
        if name == "epoch":
            display.epoch(event)
            state = self._context.log.history.trials[event["trial_id"]]
            stop = self._stop_of(state, event["execution"])
            return stop.reason if stop is not None else None
        if name == "checkpoint":
            self._store.drop_all_but(event["trial_id"], event["execution"], {event["file"], event["best_file"]})
        return None

    def save(self) -> None:
        """Does nothing: the journal is the storage."""

    def reload(self) -> None:
        """Does nothing: the oracle is made from the journal."""
