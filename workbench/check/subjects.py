"""Which networks to check: default points of a search, a point, the best trials of a study; and how they are built."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.components import DatasetRequest, ImageShape
from workbench.data.sources import DATA_VARIABLE
from workbench.definition import Definition, check_plugins, definition_from_dict
from workbench.errors import DataError, SpaceError, UsageError, WorkbenchError
from workbench.launch import Source, read_definition
from workbench.points import read_point
from workbench.registry import Registry
from workbench.store import rank_trials
from workbench.trials import Status

if TYPE_CHECKING:
    import keras_tuner

    from workbench.hypermodel import Network
    from workbench.study import Study

_STEPS_PER_EPOCH = 100


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A network to check.

    Attributes:
        name: of the model, the point or the trial.
        trial_id: of a stored trial, or "".
    """

    name: str
    definition: Definition
    values: Mapping[str, Any]
    image_shape: ImageShape
    num_classes: int
    trial_id: str = ""


def subjects_of_search(
    source: Source,
    registry: Registry,
    *,
    point: str = "default",
    directory: str | Path = "studies",
    data_dir: str | Path | None = None,
    **how: Any,
) -> tuple[list[Subject], list[str]]:
    """The default point of each model of a search definition, or the one point named; and what was assumed.

    Args:
        source: see `workbench.search`; `how` are the keyword arguments of `read_definition`.
        registry: with the plugins that it names.
        point: see `workbench.train`.
        directory: where a STUDY of STUDY:TRIAL is.
        data_dir: for the data set; without it a network is built for what it was published for.

    Raises:
        UsageError: a bad definition, an unknown plugin, a point that is none.
    """
    definition, where = read_definition(source, **how)
    check_plugins(definition, registry, where)
    values, _ = read_point(point, directory)
    names = definition.model.names
    found, notes = [], []
    chosen = names if values is None else [str((values or {}).get("model", names[0]))]
    for name in chosen:
        shape, classes, note = _data_facts(definition, name, registry, data_dir)
        notes += [note] if note and note not in notes else []
        found.append(
            Subject(
                name=name if values is None else f"{name} ({point})",
                definition=definition,
                values=values if values is not None else ({"model": name} if len(names) > 1 else {}),
                image_shape=shape,
                num_classes=classes,
            )
        )
    return found, notes


def subjects_of_study(study: Study, top: int) -> list[Subject]:
    """The best completed trials of a study.

    Raises:
        UsageError: no trial is completed.
    """
    completed = [trial for trial in study.history.trials.values() if trial.status is Status.COMPLETED]
    best = rank_trials(completed, study.metric, study.direction)[:top]
    if not best:
        raise UsageError(f"{study.path}: --tpu checks completed trials; the study has none yet")
    definition = definition_from_dict(study.definition)
    facts = study.history.space["facts"]
    return [
        Subject(
            name=f"{study.name}:{trial.trial_id}",
            definition=definition,
            values=trial.values,
            image_shape=tuple(facts["image_shape"]),
            num_classes=len(facts["class_names"]),
            trial_id=trial.trial_id,
        )
        for trial in best
    ]


def build_network(subject: Subject, registry: Registry) -> Network:
    """Builds a subject's point under the dtype policy in force.

    Raises:
        SpaceError: it does not build.
    """
    from workbench.hypermodel import ClassifierHyperModel, overrides_of
    from workbench.space import SearchSpace

    hypermodel = ClassifierHyperModel.of(
        subject.definition,
        registry,
        image_shape=subject.image_shape,
        num_classes=subject.num_classes,
        steps_per_epoch=_STEPS_PER_EPOCH,
    )
    point: keras_tuner.HyperParameters = SearchSpace(overrides_of(subject.definition), subject.values)
    try:
        return hypermodel.build(point)
    except WorkbenchError:
        raise
    except Exception as error:
        shape = "x".join(map(str, subject.image_shape))
        raise SpaceError(
            f"{subject.name} must build for {shape} images and {subject.num_classes} classes; it does not: "
            f"{type(error).__name__}: {error}"
        ) from error


def _data_facts(
    definition: Definition, model: str, registry: Registry, data_dir: str | Path | None
) -> tuple[ImageShape, int, str]:
    """Image shape and number of classes: the data set's where it is at hand, else what the model was published for."""
    table = definition.dataset
    dataset = registry.find("dataset", table.name)
    given = data_dir or os.environ.get(DATA_VARIABLE) or None
    folder = Path(given) if given is not None else None
    if folder is not None or not dataset.needs_data_dir:
        request = DatasetRequest(data_dir=folder, image_size=table.image_size, options=dict(table.options))
        try:
            source = dataset.open(request)
        except DataError:
            if data_dir is not None:
                raise
        else:
            shape, classes = source.image_shape, len(source.class_names)
            count = f"{source.count:,} images" if source.count is not None else "images"
            return shape, classes, f"data set {table.name!r}: {count} {'x'.join(map(str, shape))} of {classes} classes"
    component = registry.find("model", model)
    height, width, channels = component.reference_image_shape
    shape = (table.image_size or height, table.image_size or width, channels)
    classes = component.reference_classes
    note = (
        f"data set {table.name!r} is not at hand (--data-dir): {model} is built for "
        f"{'x'.join(map(str, shape))} images and {classes} classes"
    )
    return shape, classes, note
