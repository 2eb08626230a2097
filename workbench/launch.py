"""From a search definition to a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.definition import Definition, check_plugins, definition_from_dict, load_definition
from workbench.directory import StudyDirectory
from workbench.errors import UsageError
from workbench.oracles.protocol import Value
from workbench.plan import Plan
from workbench.points import find_study, read_point
from workbench.registry import Registry
from workbench.run import Request, held, prepared_engines, run_plan
from workbench.seeds import execution_seed
from workbench.study import Study, open_study
from workbench.trials import fold

Source = str | Path | Mapping[str, Any] | Definition
"""A shipped search's name, a TOML file's path, the tables of one, or a definition."""


def read_definition(
    source: Source,
    sets: Sequence[str] = (),
    options: Mapping[str, tuple[str, Any]] | None = None,
) -> tuple[Definition, str]:
    """The definition, and the name of where it stands."""
    if isinstance(source, Definition):
        return source, "definition"
    if isinstance(source, Mapping):
        return definition_from_dict(source), "definition"
    return load_definition(source, sets, options=options), str(source)


def study_directory(directory: str | Path, study: str | None, source: Source, suffix: str = "") -> StudyDirectory:
    """DIRECTORY/STUDY; STUDY is by default the definition's stem.

    Raises:
        UsageError: the study's name is no single folder name, or there is none to go by.
    """
    if study is None and isinstance(source, Mapping | Definition):
        raise UsageError("a definition that is not a file needs study='NAME'; received none")
    name = study if study is not None else Path(str(source)).stem + suffix
    if not name or name in (".", "..") or "/" in name or name.startswith("."):
        raise UsageError(f"a study's name must be one folder name, not starting with a dot; received {name!r}")
    return StudyDirectory(Path(directory) / name)


def search(
    source: Source,
    *,
    directory: str | Path = "studies",
    study: str | None = None,
    sets: Sequence[str] = (),
    options: Mapping[str, tuple[str, Any]] | None = None,
    workers: int = 1,
    enqueue: Sequence[str] = (),
    warm_start: Sequence[str | Path] = (),
    request: Request | None = None,
    **how: Any,
) -> Study:
    """Runs a search, or resumes it, and returns its study.

    Args:
        source: a shipped search's name, a TOML file's path, or the same tables as a mapping.
        directory: the folder that studies are in.
        study: the study's name; by default the definition's stem. A mapping needs one.
        sets: changes of the definition, `KEY=VALUE`.
        options: changes by key path, see `workbench.definition.load_definition`.
        workers: how many trials run at once, each in a process of its own.
        enqueue: points to run first, after the default one: files or "STUDY:TRIAL", see `workbench.train`.
        warm_start: studies (paths, or names in `directory`) whose results the tuner learns from.
        request, how: a `workbench.run.Request`, or its fields as keyword arguments: data_dir, device, inline,
            plugin_files, plugins_dirs, display.

    Raises:
        WorkbenchError: see `workbench.errors`.
        KeyboardInterrupt: the study is left resumable.
    """
    if workers < 1:
        raise UsageError(f"workers must be 1 or more; received {workers}")
    request = request or Request(**how)
    if request.inline and workers > 1:
        raise UsageError(f"--inline trains in one process; received --workers {workers}. Leave one of them out")
    registry = Registry.load(request.plugin_files, request.plugins_dirs)
    definition, where = read_definition(source, sets, options)
    check_plugins(definition, registry, where)
    place = study_directory(directory, study, source)
    oracle = registry.find("oracle", definition.tuner.name)
    points = [values for values, _ in (read_point(point, directory) for point in enqueue) if values is not None]

    def enqueued(default: Mapping[str, Value]) -> list[Mapping[str, Value]] | None:
        # The journal is there by now; what the study searches is not, if it is only just begun.
        if not points and fold(place.events()).space:
            return None
        return [*([default] if definition.tuner.enqueue_default else []), *points]

    plan = Plan(
        definition=definition,
        proposer=oracle.create(definition.tuner.options),
        enqueue=enqueued,
        warm_start=[find_study(str(name), directory) for name in warm_start],
        can_promote=oracle.multi_fidelity,
        seed_of=lambda trial_id, execution: execution_seed(definition.seed, trial_id, execution),
        metric=definition.objective.metric,
    )
    job = request.job(definition)
    with held(place):
        place.check(definition)
        with prepared_engines(job, place, request, workers) as (engines, preparation):
            run_plan(
                plan,
                place,
                device=job.device,
                engines=engines,
                preparation=preparation,
                registry=registry,
                display=request.display,
            )
    result = open_study(place.path)
    for problem in registry.notify("workbench_study_finished", study=result):
        request.display.message(problem)
    return result
