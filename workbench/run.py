"""Carries out a plan of trials in a study's directory: what `search` and `train` share."""

from __future__ import annotations

import contextlib
import importlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.constraints import FIGURES
from workbench.data.sources import DATA_VARIABLE
from workbench.definition import Definition
from workbench.devices import DeviceChoice, DeviceWish, Kind, choose_device, share_processor
from workbench.directory import StudyDirectory, now
from workbench.display import Display, Outlook, SilentDisplay
from workbench.engine import make_engine
from workbench.engine.protocol import Engine, Job, Preparation
from workbench.errors import DefinitionError, TrialError, UsageError, WorkerDiedError, WorkError, near_names
from workbench.log import StudyLog
from workbench.plan import Plan, begin_session
from workbench.points import as_records
from workbench.quiet import quiet_stderr
from workbench.registry import Registry
from workbench.store import CheckpointStore
from workbench.trials import Status

if TYPE_CHECKING:
    from workbench.oracles.history import HistoryOracle


@dataclass(frozen=True, kw_only=True)
class Request:
    """How to carry out a search or a training, apart from its definition.

    Attributes:
        data_dir: for the data set; None takes the environment's WORKBENCH_DATA.
        device: "auto", "tpu", "gpu", "cpu", or a `workbench.DeviceWish` that says more.
        inline: train in this process instead of a worker.
        plugin_files, plugins_dirs: see `Registry.load`.
        display: told of progress.
    """

    data_dir: str | Path | None = None
    device: Kind | DeviceWish = "auto"
    inline: bool = False
    plugin_files: Sequence[str | Path] = ()
    plugins_dirs: Sequence[str | Path] = ()
    display: Display = field(default_factory=SilentDisplay)

    def job(self, definition: Definition) -> Job:
        """The engines' job; decides the device and tells how."""
        self.display.phase("looking for devices")
        device = choose_device(self.device)
        for reason in device.reasons:
            self.display.message(reason)
        data_dir = self.data_dir or os.environ.get(DATA_VARIABLE) or None
        return Job(
            definition=definition.resolved(),
            device=device,
            plugin_files=tuple(str(Path(name).resolve()) for name in self.plugin_files),
            plugins_dirs=tuple(str(Path(name).resolve()) for name in self.plugins_dirs),
            data_dir=str(Path(data_dir).resolve()) if data_dir is not None else None,
        )


@contextlib.contextmanager
def held(place: StudyDirectory) -> Iterator[None]:
    """The study's lock; a study that did not get as far as a journal leaves nothing behind."""
    with place.lock():
        try:
            yield
        finally:
            if not place.journal.exists():
                place.discard()


@contextlib.contextmanager
def prepared_engines(
    job: Job, place: StudyDirectory, request: Request, workers: int
) -> Iterator[tuple[list[Engine], Preparation]]:
    """Engines that are ready to train, closed at the end.

    Raises:
        UsageError: several workers for a TPU, which belongs to one process.
    """
    if workers > 1 and job.device.kind == "tpu":
        raise UsageError(
            f"a TPU belongs to one process, whose trials use all of its cores; received --workers {workers}. Leave it "
            "out"
        )
    with contextlib.ExitStack() as stack:
        engines: list[Engine] = []
        job = replace(job, device=share_processor(job.device, workers))
        for _ in range(workers):
            engines.append(make_engine(job, place.worker_log, inline=request.inline))
            stack.callback(engines[-1].close)

        def tell(event: dict[str, Any]) -> None:
            if event["event"] == "decode":
                request.display.phase("decoding images", event["done"], event["total"])
            elif event["event"] == "explore":
                request.display.phase("exploring the search space")

        request.display.phase("starting")
        # Its libraries take seconds to import; the workers import theirs meanwhile.
        _import_tuner()
        preparations = [engine.prepare(tell) for engine in engines]
        for advice in preparations[0].batches.advice:
            request.display.message(advice)
        yield engines, preparations[0]


def _import_tuner() -> None:
    with quiet_stderr():
        importlib.import_module("workbench.tuner")


def run_plan(
    plan: Plan,
    place: StudyDirectory,
    *,
    device: DeviceChoice,
    engines: Sequence[Engine],
    preparation: Preparation,
    registry: Registry,
    display: Display,
) -> None:
    """Runs, or resumes, the plan's trials; needs the study's lock.

    Raises:
        StudyChangedError: the study was begun with other data, another search space or another plan.
        WorkError: not one point was inside the constraints.
        KeyboardInterrupt: the study is left resumable.
    """
    from workbench.tuner import StudyContext, StudyTuner

    definition = plan.definition
    if not place.journal.exists():
        _rehearse(plan, preparation, engines[0])
    with place.begin(definition) as journal:
        log = StudyLog(journal)
        begin_session(plan, place, log, device, len(engines), preparation, registry)
        store = CheckpointStore(
            place,
            metric=plan.metric,
            direction=definition.objective.direction,
            keep=definition.training.keep_checkpoints,
            full_epochs=definition.training.epochs,
            can_promote=plan.can_promote,
        )
        store.remove_strays()
        display.begin(_outlook(plan, place, log))

        def tell_plugins(row: dict[str, Any]) -> None:
            for problem in registry.notify("workbench_trial_finished", record=row):
                display.message(problem)

        context = StudyContext(
            definition=definition,
            directory=place,
            log=log,
            preparation=preparation,
            display=display,
            device=device.kind,
            store=store,
            on_trial_finished=tell_plugins,
            seed_of=plan.seed_of,
            metric=plan.metric,
            split=plan.split,
            repeats=plan.repeats,
        )
        with warnings.catch_warnings():
            # keras-tuner 1.4.8 calls threading.currentThread(), deprecated since Python 3.10.
            warnings.filterwarnings("ignore", category=DeprecationWarning, module="keras_tuner")
            tuner = StudyTuner(_oracle(plan, log), context, engines)
            try:
                tuner.search()
            except KeyboardInterrupt:
                log.append("interrupted", at=now())
                raise
        log.append("finished", at=now(), reason=tuner.stop_reason)
        _tell_end(tuner.stop_reason, log, display, plan.ending)
        display.message(f"Checkpoints take {store.size_mib():.1f} MiB in {place.checkpoints}.")


def _rehearse(plan: Plan, preparation: Preparation, engine: Engine) -> None:
    """Looks at a new study's default point before anything is trained: a wrong objective or data shows in seconds.

    Raises:
        DefinitionError: the objective's metric is none that training reports.
        DataError: there is nothing to validate with.
    """
    try:
        metrics = engine.rehearse(preparation.space["values"])
    except (TrialError, WorkerDiedError):
        # The trial will fail with this reason, and others may not.
        return
    if plan.metric not in metrics:
        hint = near_names(plan.metric, metrics)
        problem = f"objective.metric: must be one of {', '.join(metrics)}; received {plan.metric!r}.{hint}"
        raise DefinitionError([problem.rstrip(".")], where="definition")


def _outlook(plan: Plan, place: StudyDirectory, log: StudyLog) -> Outlook:
    budget, objective = plan.definition.budget, plan.definition.objective
    scores = [record.score for record in log.history.records if record.score is not None]
    pick = max if objective.direction == "max" else min
    return Outlook(
        study=str(place.path),
        metric=plan.metric,
        direction=objective.direction,
        target=objective.target,
        max_trials=budget.max_trials,
        max_seconds=3600 * budget.max_hours if budget.max_hours is not None else None,
        executions=plan.definition.training.executions,
        finished=sum(trial.status is not Status.RUNNING for trial in log.history.trials.values()),
        seconds=log.history.seconds,
        best=pick(scores) if scores else None,
    )


def _oracle(plan: Plan, log: StudyLog) -> HistoryOracle:
    from workbench.oracles.history import HistoryOracle
    from workbench.space import space_from_config

    definition = plan.definition
    return HistoryOracle(
        plan.proposer,
        objective=plan.metric,
        direction=definition.objective.direction,
        space=space_from_config(log.history.space["space"]),
        seed=definition.seed,
        max_epochs=definition.training.epochs,
        max_trials=definition.budget.max_trials,
        max_failures=definition.budget.max_failures,
        enqueued=log.history.space["enqueued"],
        records=log.history.records,
        earlier=as_records(log.history.space["earlier"], definition.training.epochs),
    )


def _tell_end(reason: str, log: StudyLog, display: Display, ending: str) -> None:
    rejections = log.history.rejections
    twins = sum(event["reason"].startswith("the same network") for event in rejections)
    if len(rejections) > twins:
        display.message(f"{len(rejections) - twins} proposed points were outside the constraints and not trained.")
    if twins:
        display.message(f"{twins} proposed points gave the same network as an earlier trial and were not trained.")
    if len(rejections) > twins and not log.history.trials:
        raise WorkError(_nothing_feasible(rejections))
    if reason in ("max_failures", "max_same_failures"):
        failed = [trial for trial in log.history.trials.values() if trial.status is Status.FAILED]
        raise WorkError(
            f"the search stopped at budget.{reason}: {len(failed)} trials failed, the last one with: "
            f"{failed[-1].error}. Mend the cause and run the same command again, or allow more with "
            f"--set budget.{reason}=N"
        )
    display.message(ending or f"The search ended: {_REASONS.get(reason, reason)}.")


def _nothing_feasible(rejections: Sequence[Mapping[str, Any]]) -> str:
    ranges = []
    for name in FIGURES:
        values = sorted(event[name] for event in rejections if event[name] is not None)
        if values:
            ranges.append(f"{name} {values[0]:,.6g} to {values[-1]:,.6g}")
    return (
        f"no point of the search space was inside the constraints in {len(rejections)} draws, the last one because "
        f"{rejections[-1]['reason']}; they had {', '.join(ranges)}. Widen [constraints] or the space"
    )


_REASONS: Mapping[str, str] = {
    "max_trials": "budget.max_trials reached",
    "max_hours": "budget.max_hours spent",
    "max_epochs": "budget.max_epochs spent",
    "space exhausted": "every point of the space has a result",
    "plan done": "the tuner's plan is done",
    "target reached": "the target is reached",
    "constraints": "no more points inside the constraints were found",
}
