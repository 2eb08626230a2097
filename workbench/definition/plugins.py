"""A definition against what is registered: names, options, image sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from workbench.components import Component, Dataset, Model, Oracle
from workbench.definition.problems import format_path
from workbench.definition.tables import DatasetTable, Definition, TunerTable
from workbench.errors import DefinitionError, PluginError, near_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Registry(Protocol):
    """What is asked of the registry."""

    def find(self, kind: str, name: str) -> Component:
        """The component, or `PluginError`, with near names."""
        ...


def check_plugins(definition: Definition, registry: Registry, where: str) -> None:
    """Checks that everything a definition names is registered and takes the options given.

    Args:
        definition: what to check.
        registry: what is registered.
        where: the file, for the message.

    Raises:
        DefinitionError: with every problem.
    """
    problems = [
        *_check_dataset(definition, registry),
        *_check_models(definition, registry),
        *_check_names(registry, "augmentation", definition.augmentation.names),
        *_check_names(registry, "schedule", definition.schedule.names),
        *_check_tuner(definition, registry),
    ]
    if problems:
        raise DefinitionError(problems, where=where)


def _find(registry: Registry, kind: str, name: str, path: str) -> Component | str:
    """The component, or the problem."""
    try:
        return registry.find(kind, name)
    except PluginError as error:
        return f"{path}: {error}"


def _check_names(registry: Registry, kind: str, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        found = _find(registry, kind, name, f"{kind}.{'name' if len(names) == 1 else 'names'}")
        if isinstance(found, str):
            yield found


def _check_options(
    given: Iterable[str],
    declared: Iterable[str],
    path: tuple[str, ...],
    owner: str,
    common: Iterable[str] = (),
) -> Iterator[str]:
    declared = list(declared)
    takes = f"takes {', '.join(declared)}" if declared else "takes none of its own"
    for key in given:
        if key not in declared:
            near = near_names(key, [*declared, *common])
            yield f"{format_path((*path, key))}: unknown key {key!r}.{near} {owner} {takes}"


def _check_dataset(definition: Definition, registry: Registry) -> Iterator[str]:
    table = definition.dataset
    found = _find(registry, "dataset", table.name, "dataset.name")
    if isinstance(found, str):
        yield found
    elif isinstance(found, Dataset):
        owner = f"The data set {found.name!r}"
        yield from _check_options(table.options, found.options, ("dataset",), owner, common=DatasetTable.model_fields)


def _check_models(definition: Definition, registry: Registry) -> Iterator[str]:
    names, size = definition.model.names, definition.dataset.image_size
    declared: dict[str, None] = {}
    complete = True
    for name in names:
        found = _find(registry, "model", name, f"model.{'name' if len(names) == 1 else 'names'}")
        if not isinstance(found, Model):
            complete = False
            if isinstance(found, str):
                yield found
            continue
        declared.update(dict.fromkeys(found.options))
        if size is not None and size < found.min_image_size:
            yield (
                f"dataset.image_size: must be at least {found.min_image_size} for the model {name!r}; received {size}"
            )
    # With a model missing, nobody knows whether an option was meant for it.
    if complete:
        owner = f"The model {names[0]!r}" if len(names) == 1 else "Those models"
        yield from _check_options(definition.model.options, declared, ("model", "options"), owner)


def _check_tuner(definition: Definition, registry: Registry) -> Iterator[str]:
    table = definition.tuner
    found = _find(registry, "oracle", table.name, "tuner.name")
    if isinstance(found, str):
        yield found
    elif isinstance(found, Oracle):
        owner = f"The tuner {found.name!r}"
        unknown = list(_check_options(table.options, found.options, ("tuner",), owner, common=TunerTable.model_fields))
        yield from unknown
        if not unknown:
            try:
                found.create(table.options)
            except ValueError as error:
                yield f"tuner: {error}"
