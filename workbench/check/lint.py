"""What can be said of a search before a minute is spent on it: `workbench check` without `--tpu`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.check.subjects import Subject, build_network
from workbench.constraints import violation
from workbench.engine.protocol import Cost

if TYPE_CHECKING:
    from workbench.definition import Definition
    from workbench.registry import Registry

COLUMNS = ("name", "image_shape", "classes", "parameters", "flops", "model_mib", "mxu_fill", "problems")
"""Of the table that the command prints."""

TYPES = {"parameters": "Int64", "flops": "Int64", "classes": "Int64", "model_mib": "float64", "mxu_fill": "float64"}
"""Their dtypes where they are not words."""

_STEPS_PER_EPOCH = 100


@dataclass(frozen=True, kw_only=True)
class Linted:
    """What was found.

    Attributes:
        rows: one mapping a network, with the keys `COLUMNS`; `problems` are constraints that it breaks.
        notes: what is searched, and what would train on it.
    """

    rows: list[dict[str, Any]]
    notes: list[str]


def lint(subjects: Sequence[Subject], registry: Registry) -> Linted:
    """Builds each network and explores the search space; trains nothing and decodes nothing.

    Args:
        subjects: of one definition, see `subjects_of_search`.
        registry: with the plugins that it names.

    Raises:
        SpaceError: a point does not build; an override matches nothing or does not fit.
    """
    rows = [_row(subject, registry) for subject in subjects]
    definition = subjects[0].definition
    notes = [_space_note(subjects[0], registry), _budget_note(definition)]
    outside = [row["name"] for row in rows if row["problems"]]
    if outside:
        notes.append(f"outside [constraints], never trained: {', '.join(outside)}")
    return Linted(rows=rows, notes=notes)


def _row(subject: Subject, registry: Registry) -> dict[str, Any]:
    from workbench.costs import count_flops, graph_hash, model_mib
    from workbench.tpu.fill import model_fill

    model = build_network(subject, registry).model
    flops, uncounted = count_flops(model)
    cost = Cost(parameters=model.count_params(), flops=flops, model_mib=model_mib(model), graph=graph_hash(model))
    problems = [violation(subject.definition.constraints, cost)]
    problems += [f"flops leaves out {', '.join(uncounted)}"] if uncounted else []
    return {
        "name": subject.name,
        "image_shape": "x".join(map(str, subject.image_shape)),
        "classes": subject.num_classes,
        "parameters": cost.parameters,
        "flops": cost.flops,
        "model_mib": cost.model_mib,
        "mxu_fill": model_fill(model),
        "problems": "; ".join(filter(None, problems)),
    }


def _space_note(subject: Subject, registry: Registry) -> str:
    """How many hyperparameters are searched, and how many points that makes."""
    from keras_tuner.engine.hyperparameters import Fixed

    from workbench.hypermodel import ClassifierHyperModel, overrides_of
    from workbench.oracles.sampling import space_size
    from workbench.space import explore

    hypermodel = ClassifierHyperModel.of(
        subject.definition,
        registry,
        image_shape=subject.image_shape,
        num_classes=subject.num_classes,
        steps_per_epoch=_STEPS_PER_EPOCH,
    )
    space = explore(hypermodel.build, overrides_of(subject.definition))
    searched = sum(not isinstance(item, Fixed) for item in space.space)
    size = space_size(space)
    points = "infinitely many points (a range without steps)" if size is None else f"{size:,} points"
    return f"space: {searched} hyperparameters are searched, {points}"


def _budget_note(definition: Definition) -> str:
    budget = definition.budget.model_dump(exclude_none=True)
    limits = ", ".join(f"{key} {value}" for key, value in budget.items() if key.startswith("max_"))
    return f"budget: {limits}; tuner {definition.tuner.name}, {definition.training.epochs} epochs a trial in full"
