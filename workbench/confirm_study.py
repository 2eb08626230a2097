"""The best trials of a study, retrained with new seeds and tested once: which one wins, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.definition import Definition, check_plugins, definition_from_dict
from workbench.directory import StudyDirectory, now
from workbench.errors import StudyChangedError, StudyError, StudyLockedError, UsageError
from workbench.log import StudyLog
from workbench.oracles.protocol import Direction, Proposal, Record, Value, Verdict
from workbench.plan import Plan, check_data_and_space
from workbench.points import find_study
from workbench.registry import Registry
from workbench.retrained import asked_candidates, confirmation_directory, point_key
from workbench.run import Request, held, prepared_engines, run_plan
from workbench.seeds import confirmation_seed
from workbench.store import CheckpointStore
from workbench.study import Study, open_study
from workbench.trials import Status, Trial, fold

if TYPE_CHECKING:
    import keras_tuner
    import numpy as np

    from workbench.display import Display
    from workbench.engine.protocol import Engine
    from workbench.results.confirmation import Confirmation

ENDED = (Status.COMPLETED, Status.STOPPED, Status.FAILED)


def confirm(
    study: str | Path | Study,
    *,
    top: int = 3,
    seeds: int = 5,
    epochs: int | None = None,
    directory: str | Path = "studies",
    workers: int = 1,
    request: Request | None = None,
    **how: Any,
) -> Confirmation:
    """Retrains the best trials of a study with new seeds, tests each model once and compares them; resumes.

    The retrainings are a study of their own, `STUDY/confirm`: one trial for each candidate and seed, in rounds over
    the candidates. A larger `top` or `seeds` extends it. Candidates are the best `top` completed trials now, and
    every one that was a candidate before. Training is on the training split from scratch, without constraints and
    early stops by comparison; the weights tested are those of the best validation epoch. A retraining that fails
    is not repeated.

    Args:
        study: a path, a name in `directory`, or an opened study.
        top: how many distinct points to retrain.
        seeds: how often each.
        epochs: of a retraining; by default those of the first confirmation, or else the definition's.
        directory: the folder that studies are in.
        workers: how many retrainings run at once, each in a process of its own.
        request, how: see `workbench.search`.

    Raises:
        UsageError: `top`, `seeds`, `epochs` or `workers` is out of range.
        StudyError: the study is running, has no completed trial or no validation.
        StudyChangedError: other data or another search space than the search's; other epochs than before.
        WorkbenchError: see `workbench.errors`.
        KeyboardInterrupt: the confirmation is left resumable.
    """
    request = request or Request(**how)
    _check(top, seeds, epochs, workers, inline=request.inline)
    searched = open_study(study.path) if isinstance(study, Study) else find_study(str(study), directory)
    place = confirmation_directory(searched.path)
    _check_study(searched)
    project = _project(searched, place, top=top, seeds=seeds, epochs=epochs)
    if place.journal.exists() and not place.is_running():
        earlier = searched.confirmation()
        if project.is_done(earlier):
            return earlier
    registry = Registry.load(request.plugin_files, request.plugins_dirs)
    check_plugins(project.definition, registry, str(searched.path))
    with held(place):
        # Another process may have confirmed more since.
        project = _project(searched, place, top=top, seeds=seeds, epochs=epochs)
        place.check(project.definition)
        _retrain(searched, place, project, registry, workers, request)
        _drop_weights(place, project.definition, searched)
    return open_study(searched.path).confirmation()


@dataclass(frozen=True, kw_only=True)
class _Project:
    """What is asked for.

    Attributes:
        candidates: the search's trials -> their hyperparameters, earlier candidates first.
        seeds: retrainings of each.
        definition: of the retrainings.
    """

    candidates: Mapping[str, Mapping[str, Value]]
    seeds: int
    definition: Definition

    def event(self) -> dict[str, Any]:
        """As the journal has it."""
        listed = [{"trial_id": name, "values": dict(values)} for name, values in self.candidates.items()]
        return {"candidates": listed, "seeds": self.seeds}

    def is_done(self, stored: Confirmation) -> bool:
        """Whether a stored confirmation has all that is asked for."""
        runs = {item.trial_id: item.runs for item in stored.candidates}
        return (
            set(self.candidates) == set(runs)
            and all(len(own) >= self.seeds for own in runs.values())
            and all(run.status in ENDED for own in runs.values() for run in own)
            and not stored.untested
        )


class _Rounds:
    """A proposer: every candidate once a round, as many rounds as there are seeds; then nothing more."""

    def __init__(self, candidates: Mapping[str, Mapping[str, Value]], seeds: int):
        self._candidates = [dict(values) for values in candidates.values()]
        self._seeds = seeds

    def propose(
        self,
        space: keras_tuner.HyperParameters,
        records: Sequence[Record],
        rng: np.random.Generator,
        *,
        direction: Direction,
        max_epochs: int,
    ) -> Proposal | Verdict:
        """The candidate with the fewest retrainings, failed ones included."""
        keys = [point_key(record.values) for record in records]
        counts = [keys.count(point_key(values)) for values in self._candidates]
        fewest = min(counts)
        if fewest >= self._seeds:
            return Verdict.EXHAUSTED
        return Proposal(values=self._candidates[counts.index(fewest)])


def _retrain(
    searched: Study, place: StudyDirectory, project: _Project, registry: Registry, workers: int, request: Request
) -> None:
    """Trains what is missing, and tests it; needs the confirmation's lock."""
    definition = project.definition
    used = {item.seed for trial in searched.history.trials.values() for item in trial.executions.values()}
    plan = Plan(
        definition=definition,
        proposer=_Rounds(project.candidates, project.seeds),
        enqueue=lambda default: [],
        can_promote=False,
        seed_of=lambda trial_id, execution: confirmation_seed(definition.seed, trial_id, execution, used),
        metric=definition.objective.metric,
        repeats=True,
        opening=[("candidates", project.event())],
        ending="Every retraining is done.",
    )
    job = request.job(definition)
    with prepared_engines(job, place, request, workers) as (engines, preparation):
        check_data_and_space(
            StudyDirectory(searched.path),
            searched.history.space,
            {"facts": preparation.facts, "space": preparation.space},
            "Retrained trials are compared with the search's scores: undo the change, or search again",
        )
        request.display.message(
            f"Retrains trials {', '.join(project.candidates)} of {searched.path} with {project.seeds} new "
            f"{'seed' if project.seeds == 1 else 'seeds'} each, in rounds; the numbers below are the retrainings'."
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
        if "test" in preparation.facts["counts"]:
            _test(place, definition, engines[0], request.display)


def _check(top: int, seeds: int, epochs: int | None, workers: int, *, inline: bool) -> None:
    for name, value in (("top", top), ("seeds", seeds), ("epochs", epochs), ("workers", workers)):
        if value is not None and value < 1:
            raise UsageError(f"{name} must be 1 or more; received {value}")
    if inline and workers > 1:
        raise UsageError(f"--inline trains in one process; received --workers {workers}. Leave one of them out")


def _check_study(study: Study) -> None:
    if study.is_running:
        raise StudyLockedError(
            f"{study.path}: a study must have ended before its best trials are confirmed; a process runs it. Wait for "
            "it, or stop it"
        )
    split = study.history.space.get("split", "train")
    if split != "train":
        raise StudyError(
            f"{study.path}: a winner is chosen by validation; this study trained on {split}, so that nothing validates"
        )


def _project(study: Study, place: StudyDirectory, *, top: int, seeds: int, epochs: int | None) -> _Project:
    """The candidates (earlier ones stay) and the definition of their retrainings."""
    board = study.leaderboard()
    distinct: dict[str, Trial] = {}
    for trial_id in board["trial_id"]:
        distinct.setdefault(point_key(study.history.trials[trial_id].values), study.history.trials[trial_id])
    if not distinct:
        counts = study.trials()["status"].value_counts()
        others = ", ".join(f"{count} {status}" for status, count in counts.items()) or "none at all"
        raise StudyError(
            f"{study.path}: a study must have completed trials to confirm; it has {others}. `workbench search` goes "
            "on with it"
        )
    if top > len(distinct):
        raise UsageError(
            f"--top must be at most the number of completed trials (distinct points) of {study.path}, "
            f"{len(distinct)}; received {top}. Add --top {len(distinct)}"
        )
    events = list(place.events()) if place.journal.exists() else []
    candidates = asked_candidates(events)
    for trial in list(distinct.values())[:top]:
        candidates.setdefault(trial.trial_id, trial.values)
    known = {point_key(values): 0 for values in candidates.values()}
    history = fold(events)
    for run in history.trials.values():
        known[point_key(run.values)] += 1
    if events:
        earlier = history.definition["training"]["epochs"]
        if epochs not in (None, earlier):
            raise StudyChangedError(
                f"{place.path}: a confirmation keeps the epochs of its retrainings; --epochs was {earlier} and is now "
                f"{epochs}. Leave it out, or remove the folder to begin again"
            )
        epochs = earlier
    return _Project(
        candidates=candidates,
        seeds=seeds,
        definition=_of_retrainings(
            definition_from_dict(study.definition), sum(max(seeds, count) for count in known.values()), epochs
        ),
    )


def _of_retrainings(base: Definition, count: int, epochs: int | None) -> Definition:
    """The search's definition for so many retrainings: nothing ends them, and all keep their weights until tested."""
    tables = base.resolved()
    tables["training"] |= {"executions": 1, "keep_checkpoints": count}
    if epochs is not None:
        tables["training"]["epochs"] = epochs
    tables["training"].pop("median_rule", None)
    tables["budget"] = {"max_trials": count, "max_failures": count + 1, "max_same_failures": count + 1}
    tables["objective"]["stop_at_target"] = False
    tables.pop("constraints", None)
    return definition_from_dict(tables)


def _test(place: StudyDirectory, definition: Definition, engine: Engine, display: Display) -> None:
    """Tests each completed retraining that was not tested before, and journals what came of it."""
    stored = open_study(place.path)
    with place.begin(definition) as journal:
        log = StudyLog(journal)
        done = {event["trial_id"] for event in journal.events if event["event"] == "test"}
        completed = [run for run in stored.history.trials.values() if run.status is Status.COMPLETED]
        waiting = [run for run in completed if run.trial_id not in done]
        for number, run in enumerate(waiting):
            display.phase("testing", number, len(waiting))
            weights = stored.weights(run).get(1)
            if weights is None:
                log.append("test", trial_id=run.trial_id, error="its weights were removed", at=now())
                continue
            found = engine.examine(run.values, str(weights), "test")
            log.append("test", trial_id=run.trial_id, metrics=found.metrics, confusion=found.confusion, at=now())


def _drop_weights(place: StudyDirectory, definition: Definition, study: Study) -> None:
    """Keeps the weights of as many of the best retrainings as the search keeps of its trials."""
    store = CheckpointStore(
        place,
        metric=definition.objective.metric,
        direction=definition.objective.direction,
        keep=study.definition["training"]["keep_checkpoints"],
        full_epochs=definition.training.epochs,
        can_promote=False,
    )
    store.keep_best_only(place.history().trials)
