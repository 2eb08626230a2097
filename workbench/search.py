"""From a search definition to a study: the only module that assembles all the others."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.definition import Definition, check_plugins, definition_from_dict, load_definition
from workbench.devices import Kind, choose_device
from workbench.directory import StudyDirectory, now, process_facts
from workbench.display import Display, SilentDisplay
from workbench.engine import make_engine
from workbench.engine.protocol import Engine, Job, Preparation
from workbench.errors import StudyChangedError
from workbench.log import StudyLog
from workbench.registry import Registry
from workbench.study import Study, open_study

if TYPE_CHECKING:
    from workbench.oracles.history import HistoryOracle
    from workbench.tuner import StudyTuner

DATA_VARIABLE = "WORKBENCH_DATA"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What `search` and `train` are asked, apart from the definition.

    Attributes:
        data_dir: for the data set; None takes the environment's WORKBENCH_DATA.
        device: "auto", "tpu", "gpu" or "cpu".
        inline: train in this process instead of a worker.
        plugin_files, plugins_dirs: see `Registry.load`.
        display: told of progress.
    """

    data_dir: str | Path | None = None
    device: Kind = "auto"
    inline: bool = False
    plugin_files: Sequence[str | Path] = ()
    plugins_dirs: Sequence[str | Path] = ()
    display: Display = field(default_factory=SilentDisplay)


def read_definition(
    source: str | Path | Mapping[str, Any] | Definition, sets: Sequence[str] = ()
) -> tuple[Definition, str]:
    """The definition and the name of where it stands, from a shipped name, a file, a mapping, or itself."""
    if isinstance(source, Definition):
        return source, "definition"
    if isinstance(source, Mapping):
        return definition_from_dict(source), "definition"
    return load_definition(source, sets), str(source)


def make_job(definition: Definition, request: Request) -> Job:
    """The engine's job; decides the device."""
    data_dir = request.data_dir or os.environ.get(DATA_VARIABLE) or None
    return Job(
        definition=definition.resolved(),
        device=choose_device(request.device),
        plugin_files=tuple(str(Path(name).resolve()) for name in request.plugin_files),
        plugins_dirs=tuple(str(Path(name).resolve()) for name in request.plugins_dirs),
        data_dir=str(Path(data_dir).resolve()) if data_dir is not None else None,
    )


def search(
    source: str | Path | Mapping[str, Any] | Definition,
    *,
    directory: str | Path = "studies",
    study: str | None = None,
    sets: Sequence[str] = (),
    workers: int = 1,
    request: Request | None = None,
    **options: Any,
) -> Study:
    """Runs a search, or resumes it, and returns its study.

    Args:
        source: a shipped search's name, a TOML file, or the same tables as a mapping.
        directory: the folder that studies are in.
        study: the study's name; by default the definition's file stem.
        sets: changes of the definition, `KEY=VALUE`.
        workers: how many trials run at once, each in a process of its own.
        request, options: a `Request`, or its fields as keyword arguments.

    Raises:
        WorkbenchError: see `workbench.errors`.
        KeyboardInterrupt: the study is left resumable.
    """
    request = request or Request(**options)
    registry = Registry.load(request.plugin_files, request.plugins_dirs)
    definition, where = read_definition(source, sets)
    check_plugins(definition, registry, where)
    name = study or (Path(where).stem if not isinstance(source, Mapping | Definition) else "study")
    place = StudyDirectory(Path(directory) / name)
    job = make_job(definition, request)
    with _held(place):
        place.check(definition)
        engines = [make_engine(job, place.worker_log, inline=request.inline) for _ in range(workers)]
        with contextlib.ExitStack() as stack:
            for engine in engines:
                stack.callback(engine.close)
            preparation = _prepare(engines, request.display)
            _run(place, definition, job, engines, preparation, registry, request.display)
    result = open_study(place.path)
    for problem in registry.notify("workbench_study_finished", study=result):
        request.display.message(problem)
    return result


@contextlib.contextmanager
def _held(place: StudyDirectory) -> Iterator[None]:
    """The study's lock; a study that did not get as far as a journal leaves nothing behind."""
    with place.lock():
        try:
            yield
        finally:
            if not place.journal.exists():
                place.discard()


def _prepare(engines: Sequence[Engine], display: Display) -> Preparation:
    def tell(event: dict[str, Any]) -> None:
        if event["event"] == "decode":
            display.phase("decoding images", event["done"], event["total"])
        elif event["event"] == "explore":
            display.phase("exploring the search space")

    display.phase("starting")
    preparations = [engine.prepare(tell) for engine in engines]
    return preparations[0]


def _run(
    place: StudyDirectory,
    definition: Definition,
    job: Job,
    engines: Sequence[Engine],
    preparation: Preparation,
    registry: Registry,
    display: Display,
) -> None:
    from workbench.tuner import StudyContext, StudyTuner, remove_stray_files

    with place.begin(definition) as journal:
        log = StudyLog(journal)
        _check_unchanged(place, log, preparation)
        log.append(
            "session",
            at=now(),
            **process_facts(),
            device=job.device.kind,
            reasons=list(job.device.reasons),
            replicas=preparation.replicas,
            precision=preparation.precision,
            workers=len(engines),
            versions=preparation.versions,
            plugins=[
                {"name": source.name, "file": source.file, "distribution": source.distribution, "sha256": source.sha256}
                for source in registry.sources()
            ],
        )
        if not log.history.space:
            objective = definition.objective
            log.append(
                "space",
                facts=preparation.facts,
                space=preparation.space,
                metric=objective.metric,
                direction=objective.direction,
            )
        remove_stray_files(place)
        oracle = _oracle(definition, registry, log)

        def tell_plugins(row: dict[str, Any]) -> None:
            for problem in registry.notify("workbench_trial_finished", record=row):
                display.message(problem)

        context = StudyContext(
            definition=definition,
            directory=place,
            log=log,
            preparation=preparation,
            display=display,
            device=job.device.kind,
            can_promote=registry.find("oracle", definition.tuner.name).multi_fidelity,
            on_trial_finished=tell_plugins,
        )
        tuner = StudyTuner(oracle, context, engines)
        _loop(tuner, log, display)


def _loop(tuner: StudyTuner, log: StudyLog, display: Display) -> None:
    try:
        tuner.search()
    except KeyboardInterrupt:
        log.append("interrupted", at=now())
        raise
    log.append("finished", at=now(), reason=tuner.stop_reason)
    display.message(f"search ended: {tuner.stop_reason}")


def _oracle(definition: Definition, registry: Registry, log: StudyLog) -> HistoryOracle:
    import keras_tuner

    from workbench.oracles.history import HistoryOracle

    space = keras_tuner.HyperParameters.from_config(log.history.space["space"])
    component = registry.find("oracle", definition.tuner.name)
    with warnings.catch_warnings():
        # keras-tuner 1.4.8 calls threading.currentThread(), deprecated since Python 3.10.
        warnings.simplefilter("ignore", DeprecationWarning)
        return HistoryOracle(
            component.create(definition.tuner.options),
            objective=definition.objective.metric,
            direction=definition.objective.direction,
            space=space,
            seed=definition.seed,
            max_epochs=definition.training.epochs,
            max_trials=definition.budget.max_trials,
            max_failures=definition.budget.max_failures,
            enqueued=[dict(space.values)] if definition.tuner.enqueue_default else [],
            records=log.history.records,
        )


def _check_unchanged(place: StudyDirectory, log: StudyLog, preparation: Preparation) -> None:
    """A resumed study must have the data and the search space that it was begun with."""
    known = log.history.space
    if not known:
        return
    if known["facts"]["fingerprint"] != preparation.facts["fingerprint"]:
        raise StudyChangedError(
            f"{place.path}: a study keeps its data; the images or labels of data set "
            f"{preparation.facts['dataset']!r} are not those that it was begun with (fingerprint "
            f"{known['facts']['fingerprint'][:12]} then, {preparation.facts['fingerprint'][:12]} now). "
            "Start another study with --study NAME, or give the old data"
        )
    if known["space"] != preparation.space:
        old = {hp["config"]["name"] for hp in known["space"]["space"]}
        new = {hp["config"]["name"] for hp in preparation.space["space"]}
        names = ", ".join(sorted(old ^ new)) or "ranges or defaults"
        raise StudyChangedError(
            f"{place.path}: a study keeps its search space; a plugin now declares another one ({names}). "
            "Start another study with --study NAME, or take the plugin's old version"
        )
