"""Which trials a study runs, and how a session of it begins: what may have changed since the last one, and what not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.definition import Definition
from workbench.directory import StudyDirectory, now, process_facts
from workbench.errors import StudyChangedError
from workbench.log import StudyLog
from workbench.oracles.protocol import Proposer, Value
from workbench.points import earlier_results

if TYPE_CHECKING:
    from workbench.devices import DeviceChoice
    from workbench.engine.protocol import Preparation
    from workbench.registry import Registry
    from workbench.study import Study


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which trials to run.

    Attributes:
        definition: what a trial is, and the budget.
        proposer: what to propose after the enqueued points.
        enqueue: the default point -> points to propose first, by full hyperparameter names; None for those
            that the study was begun with.
        warm_start: studies whose results the proposer learns from; none for those that it was begun with.
        can_promote: whether the proposer may train a trial on that has ended.
        seed_of: (trial_id, execution) -> seed.
        metric: the objective; a training metric where nothing validates.
        split: what to train on.
        repeats: whether a point may be trained more than once; then no point is refused, by constraints neither.
        opening: further events for the journal, each time that a session begins.
        ending: what to say at the end instead of the tuner's reason.
    """

    definition: Definition
    proposer: Proposer
    enqueue: Callable[[Mapping[str, Value]], Sequence[Mapping[str, Value]] | None]
    can_promote: bool
    seed_of: Callable[[str, int], int]
    metric: str
    split: str = "train"
    warm_start: Sequence[Study] = ()
    repeats: bool = False
    opening: Sequence[tuple[str, Mapping[str, Any]]] = ()
    ending: str = ""


def begin_session(
    plan: Plan,
    place: StudyDirectory,
    log: StudyLog,
    device: DeviceChoice,
    workers: int,
    preparation: Preparation,
    registry: Registry,
) -> None:
    """Journals who runs the study now, on what, with which versions and plugins; and what it searches, once.

    Raises:
        StudyChangedError: the study was begun with other data, another search space or another plan.
        StudyError: a study to learn from has another objective.
    """
    from workbench.space import space_from_config

    old = log.history.space
    asked = plan.enqueue(preparation.space["values"])
    # A study that this one learns from may have grown since: what counts is what it had at the beginning.
    earlier = (
        old["earlier"]
        if old
        else earlier_results(
            plan.warm_start,
            space_from_config(preparation.space),
            metric=plan.metric,
            direction=plan.definition.objective.direction,
            max_epochs=plan.definition.training.epochs,
        )
    )
    teachers = [study.name for study in plan.warm_start]
    space = {
        "facts": preparation.facts,
        "space": preparation.space,
        "metric": plan.metric,
        "direction": plan.definition.objective.direction,
        "split": plan.split,
        "global_batch_size": preparation.batches.global_batch_size,
        "enqueued": old.get("enqueued", []) if asked is None else [dict(values) for values in asked],
        "warm_start": teachers or old.get("warm_start", []),
        "earlier": earlier,
    }
    _check_unchanged(place, old, space)
    log.append(
        "session",
        at=now(),
        **process_facts(),
        device=device.kind,
        reasons=list(device.reasons),
        backend=device.backend,
        route=preparation.route,
        replicas=preparation.replicas,
        global_batch_size=preparation.batches.global_batch_size,
        batch_size_per_replica=preparation.batches.batch_size_per_replica,
        replica_shapes=[list(shape) for shape in preparation.replica_shapes],
        learning_rate_scaling=plan.definition.training.learning_rate_scaling,
        learning_rate_factor=preparation.batches.learning_rate_factor,
        advice=list(preparation.batches.advice),
        precision=preparation.precision,
        workers=workers,
        versions=preparation.versions,
        plugins=[
            {
                "name": source.name,
                "file": source.file,
                "distribution": source.distribution,
                "sha256": source.sha256,
            }
            for source in registry.sources()
        ],
    )
    if not log.history.space:
        log.append("space", **space)
    for name, fields in plan.opening:
        log.append(name, at=now(), **fields)


def _check_unchanged(place: StudyDirectory, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """A resumed study must have the data, the search space and the plan that it was begun with."""
    if not old:
        return
    advice = "Start another study with --study NAME, or undo the change"
    check_data_and_space(place, old, new, advice)
    batch, now_batch = old.get("global_batch_size", new["global_batch_size"]), new["global_batch_size"]
    if batch != now_batch:
        raise StudyChangedError(
            f"{place.path}: a study keeps its global batch, by which its steps and learning rates go; it was begun "
            f"with {batch} images a step over all replicas, and the replicas here make {now_batch}. Continue it on as "
            "many replicas as before (--replicas N), or start another study with --study NAME; "
            "training.global_batch_size keeps a study's batch on any number of replicas"
        )
    for key in ("split", "enqueued", "warm_start"):
        if old[key] != new[key]:
            changed = f"{_brief(old[key])} and is now asked for {_brief(new[key])}"
            if key == "enqueued" and len(old[key]) == len(new[key]):
                changed = "; ".join(
                    line for was, wanted in zip(old[key], new[key], strict=True) for line in _value_changes(was, wanted)
                )
            raise StudyChangedError(
                f"{place.path}: a study keeps what it trains; it was begun with {key} points that differ: {changed}. "
                f"{advice}"
                if key == "enqueued"
                else f"{place.path}: a study keeps what it trains; it was begun with {key} {changed}. {advice}"
            )


def _value_changes(was: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    names = [name for name in {**was, **wanted} if was.get(name) != wanted.get(name)]
    told = [f"{name} {was.get(name, 'absent')} -> {wanted.get(name, 'absent')}" for name in names[:3]]
    return [*told, f"and {len(names) - 3} more"] if len(names) > 3 else told


def check_data_and_space(place: StudyDirectory, old: Mapping[str, Any], new: Mapping[str, Any], advice: str) -> None:
    """Compares what a study was begun with and what there is now.

    Args:
        place: the study's.
        old: its `space` event.
        new: likewise, `facts` and `space` of today.
        advice: what to do, for the message.

    Raises:
        StudyChangedError: other data, or another search space.
    """
    before, after = old["facts"]["fingerprint"], new["facts"]["fingerprint"]
    if before != after:
        raise StudyChangedError(
            f"{place.path}: a study keeps its data; the images, labels or splits of data set "
            f"{new['facts']['dataset']!r} are not those that it was begun with (fingerprint {before[:12]} then, "
            f"{after[:12]} now). {advice}"
        )
    if old["space"] != new["space"]:
        names = {part["config"]["name"] for part in old["space"]["space"]}
        names ^= {part["config"]["name"] for part in new["space"]["space"]}
        raise StudyChangedError(
            f"{place.path}: a study keeps its search space; a plugin now declares another one "
            f"({', '.join(sorted(names)) or 'ranges or defaults differ'}). {advice}"
        )


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}..."
