"""One point, trained in full: the published network, a point from a file, or a stored trial again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from workbench.definition import Definition, check_plugins, definition_from_dict
from workbench.directory import now
from workbench.errors import UsageError, WorkError
from workbench.exports.facts import trial_facts
from workbench.launch import Source, read_definition, study_directory
from workbench.oracles.protocol import Direction, Proposal, Record, Verdict
from workbench.plan import Plan
from workbench.points import read_point
from workbench.registry import Registry
from workbench.run import Request, held, prepared_engines, run_plan
from workbench.seeds import execution_seed
from workbench.study import Study, open_study
from workbench.trials import Status

if TYPE_CHECKING:
    import keras_tuner
    import numpy as np

    from workbench.engine.protocol import Engine
    from workbench.trials import Trial

SPLITS = ("train", "train+validation")


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What came of a training.

    Attributes:
        study: the one-trial study that it is stored in.
        trial_id: its trial.
        test: for each execution (from 1) the metrics on the test split, if that was asked for.
        output: the model's file, if one was asked for.
    """

    study: Study
    trial_id: str
    test: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    output: Path | None = None


class _NothingMore:
    """A proposer for plans whose points are all enqueued."""

    def propose(
        self,
        space: keras_tuner.HyperParameters,
        records: Sequence[Record],
        rng: np.random.Generator,
        *,
        direction: Direction,
        max_epochs: int,
    ) -> Proposal | Verdict:
        return Verdict.EXHAUSTED


def train(
    source: Source,
    *,
    point: str = "default",
    seeds: int = 1,
    on: Literal["train", "train+validation"] = "train",
    evaluate_test: bool = False,
    output: str | Path | None = None,
    directory: str | Path = "studies",
    study: str | None = None,
    sets: Sequence[str] = (),
    options: Mapping[str, tuple[str, Any]] | None = None,
    request: Request | None = None,
    **how: Any,
) -> Trained:
    """Trains one point of a search definition for all of its epochs; resumes if it was begun before.

    The training is a study of one trial (`STUDY` is by default the definition's stem and `-train`), so it
    survives what a search survives. The weights kept, tested and written are those of the best validation epoch,
    or of the last epoch when nothing validates.

    Args:
        source, directory, study, sets, options, request, how: see `workbench.search`.
        point: "default" (the published network), a TOML or JSON file that maps hyperparameters to values, or
            "STUDY:TRIAL"; such a trial runs again with its own seeds.
        seeds: how many executions, each from a seed of its own.
        on: "train", or "train+validation" once nothing is left to choose.
        evaluate_test: measure on the test split at the end.
        output: where to write the (best) model, a `.keras` file.

    Raises:
        WorkbenchError: see `workbench.errors`.
        KeyboardInterrupt: the training is left resumable.
    """
    request = request or Request(**how)
    _check(seeds, on, output)
    registry = Registry.load(request.plugin_files, request.plugins_dirs)
    base, where = read_definition(source, sets, options)
    check_plugins(base, registry, where)
    values, known_seeds = read_point(point, directory)
    definition = _of_one_trial(base, seeds)

    def seed_of(trial_id: str, execution: int) -> int:
        return known_seeds.get(execution, execution_seed(definition.seed, trial_id, execution))

    validates = on == "train"
    plan = Plan(
        definition=definition,
        proposer=_NothingMore(),
        enqueue=lambda default: [dict(default) if values is None else values],
        can_promote=False,
        seed_of=seed_of,
        metric=base.objective.metric if validates else base.objective.metric.removeprefix("val_"),
        split=on,
    )
    place = study_directory(directory, study, source, suffix="-train")
    job = request.job(definition)
    with held(place):
        place.check(definition)
        with prepared_engines(job, place, request, 1) as (engines, preparation):
            if evaluate_test and "test" not in preparation.facts["counts"]:
                splits = ", ".join(preparation.facts["counts"])
                raise UsageError(
                    f"--evaluate-test needs a test split; data set {base.dataset.name!r} as asked for has {splits}"
                )
            run_plan(
                plan,
                place,
                device=job.device,
                engines=engines,
                preparation=preparation,
                registry=registry,
                display=request.display,
            )
            return _finish(open_study(place.path), engines[0], evaluate_test, output, request)


def _check(seeds: int, on: str, output: str | Path | None) -> None:
    if seeds < 1:
        raise UsageError(f"seeds must be 1 or more; received {seeds}")
    if on not in SPLITS:
        raise UsageError(f"on must be one of {', '.join(SPLITS)}; received {on!r}")
    if output is not None and Path(output).suffix != ".keras":
        raise UsageError(f"a model's file must end in .keras; received {str(output)!r}")


def _of_one_trial(definition: Definition, seeds: int) -> Definition:
    tables = definition.resolved()
    tables["training"]["executions"] = seeds
    tables["budget"] = {"max_trials": 1}
    tables.pop("constraints", None)
    return definition_from_dict(tables)


def _finish(study: Study, engine: Engine, evaluate_test: bool, output: str | Path | None, request: Request) -> Trained:
    trial = next(iter(study.history.trials.values()))
    if trial.status is not Status.COMPLETED:
        raise WorkError(
            f"{study.path}: the training {trial.status}: {trial.error}. Mend the cause and train again with "
            "--study NAME"
        )
    weights = study.weights(trial)
    test: dict[int, Mapping[str, float]] = {}
    if evaluate_test:
        for execution, path in weights.items():
            request.display.phase(f"testing execution {execution}")
            test[execution] = engine.evaluate(trial.values, str(path), "test")
    if output is not None:
        best = _best_execution(trial, study)
        known = trial_facts(study.history, study.definition, study=study.name, trial=trial, execution=best)
        facts = {**known, "test": test.get(best), "written_at": now()}
        engine.save(trial.values, str(weights[best]), str(output), facts)
    return Trained(study=study, trial_id=trial.trial_id, test=test, output=Path(output) if output is not None else None)


def _best_execution(trial: Trial, study: Study) -> int:
    """The execution with the best validation score; the first where nothing validates."""
    if study.history.space["split"] != "train":
        return 1
    sign = 1 if study.history.direction == "max" else -1
    best = {
        number: max(sign * value for _, value in execution.metric(study.history.metric))
        for number, execution in trial.executions.items()
    }
    return max(best, key=lambda number: best[number])
