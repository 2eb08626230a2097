"""Search spaces: a plugin's hyperparameters, a definition's overrides of them, and what a point costs.

Keras Tuner's `HyperParameters` is the language that plugins speak. Every declaration passes one method, and that is
where an override takes hold, so a plugin need not know of them.
"""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras_tuner
from keras_tuner.engine import hyperparameters as kinds

from workbench.definition import Override, Range
from workbench.errors import SpaceError, near_names

if TYPE_CHECKING:
    from workbench.oracles.protocol import Value


class Overrides:
    """The `[....space]` tables of a definition, matched by name.

    A pattern is a glob that is compared with the full name (`squeezenet/stage_2/expand`) and with the name
    without its component (`stage_2/expand`). An exact name goes before a glob; of several globs the last one
    counts.

    Args:
        tables: for each table its key path (for messages), the components that it speaks of, and
            pattern -> override.
    """

    def __init__(self, tables: Iterable[tuple[str, Sequence[str], Mapping[str, Override]]] = ()):
        self._entries = [
            (path, tuple(components), pattern, override)
            for path, components, table in tables
            for pattern, override in table.items()
        ]

    def find(self, name: str) -> tuple[str, Override] | None:
        """The key path and the override that a full hyperparameter name gets, or None."""
        component, _, rest = name.partition("/")
        best: tuple[str, Override] | None = None
        for path, components, pattern, override in self._entries:
            if component not in components:
                continue
            if pattern in (name, rest):
                return f'{path}."{pattern}"', override
            if _matches(pattern, name, rest):
                best = f'{path}."{pattern}"', override
        return best

    def check_all_match(self, names: Iterable[str]) -> None:
        """Raises SpaceError for every pattern that matches none of the declared names."""
        known = list(dict.fromkeys(names))
        problems = []
        for path, components, pattern, _ in self._entries:
            own = [name for name in known if name.partition("/")[0] in components]
            if not any(_matches(pattern, name, name.partition("/")[2]) for name in own):
                short = [name.partition("/")[2] for name in own]
                problems.append(
                    f'{path}."{pattern}" must match a hyperparameter of {", ".join(components)}; it matches none.'
                    + (near_names(pattern, own + short) or f" There are: {', '.join(short)}.")
                )
        if problems:
            raise SpaceError("\n".join(problems))


def _matches(pattern: str, name: str, rest: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern) or (bool(rest) and fnmatch.fnmatchcase(rest, pattern))


class SearchSpace(keras_tuner.HyperParameters):  # type: ignore[misc]
    """Keras Tuner's `HyperParameters` with a definition's overrides applied to each declaration.

    Args:
        overrides: what to change.
        values: values by full name; declared hyperparameters without one take their default.
    """

    def __init__(self, overrides: Overrides | None = None, values: Mapping[str, Value] | None = None):
        super().__init__()
        self._overrides = overrides or Overrides()
        self.values = dict(values or {})

    def _retrieve(self, hp: kinds.HyperParameter) -> Any:
        found = self._overrides.find(hp.name)
        if found is not None:
            hp = _overridden(hp, *found)
        return super()._retrieve(hp)

    def copy(self) -> SearchSpace:
        """An independent copy; the base class would drop the overrides."""
        other = SearchSpace(self._overrides)
        other.merge(self.space)
        other.values = dict(self.values)
        return other


def _overridden(hp: kinds.HyperParameter, path: str, override: Override) -> kinds.HyperParameter:
    """The declared hyperparameter with its range replaced: range -> same kind, list -> Choice, scalar -> Fixed."""
    common = {"name": hp.name, "conditions": hp.conditions}
    if isinstance(hp, kinds.Fixed):
        if override == "default" or override == hp.value:
            return hp
        raise SpaceError(f"{path}: {hp.name} is fixed at {hp.value!r} by its plugin; received {override!r}")
    if override == "default" and not _is_choice_of(hp, "default"):
        return kinds.Fixed(value=hp.default, **common)
    if isinstance(override, Range):
        return _ranged(hp, path, override)
    if isinstance(override, list | tuple):
        values = [_fitting(hp, path, value) for value in override]
        default = hp.default if hp.default in values else values[0]
        if isinstance(hp, kinds.Boolean) or len(values) == 1:
            if len(set(values)) == 2:
                return hp
            return kinds.Fixed(value=values[0], **common)
        ordered = None if isinstance(values[0], int | float) else False
        return kinds.Choice(values=values, default=default, ordered=ordered, **common)
    return kinds.Fixed(value=_fitting(hp, path, override), **common)


def _is_choice_of(hp: kinds.HyperParameter, value: object) -> bool:
    return isinstance(hp, kinds.Choice) and value in hp.values


def _fitting(hp: kinds.HyperParameter, path: str, value: Any) -> Value:
    """The value as the declared kind takes it, or a SpaceError."""
    if isinstance(hp, kinds.Boolean):
        wanted, good = "true or false", isinstance(value, bool)
    elif isinstance(hp, kinds.Int) or (isinstance(hp, kinds.Choice) and isinstance(hp.values[0], int)):
        wanted, good = "an integer", isinstance(value, int) and not isinstance(value, bool)
    elif isinstance(hp, kinds.Float) or (isinstance(hp, kinds.Choice) and isinstance(hp.values[0], float)):
        wanted, good = "a number", isinstance(value, int | float) and not isinstance(value, bool)
        value = float(value) if good else value
    else:
        wanted, good = f"one of {', '.join(map(repr, hp.values))}", value in hp.values
    if not good:
        hint = near_names(value, hp.values) if isinstance(hp, kinds.Choice) and isinstance(value, str) else ""
        raise SpaceError(f"{path}: {hp.name} must be {wanted}; received {value!r}.{hint}")
    return value  # type: ignore[no-any-return]


def _ranged(hp: kinds.HyperParameter, path: str, override: Range) -> kinds.HyperParameter:
    numeric_choice = isinstance(hp, kinds.Choice) and isinstance(hp.values[0], int | float)
    if not (isinstance(hp, kinds.Int | kinds.Float) or numeric_choice):
        raise SpaceError(f"{path}: a range needs a numeric hyperparameter; {hp.name} is a {type(hp).__name__}")
    integer = isinstance(hp, kinds.Int) or (numeric_choice and isinstance(hp.values[0], int))
    bounds = [override.min, override.max, override.step, override.default]
    if integer and any(isinstance(bound, float) and bound != int(bound) for bound in bounds if bound is not None):
        raise SpaceError(f"{path}: {hp.name} takes integers; received {override.min}..{override.max}")
    number = int if integer else float
    sampling = override.sampling or (None if numeric_choice else hp.sampling) or "linear"
    # A linear step is a distance and a logarithmic one a ratio: neither stands for the other.
    keeps_step = not numeric_choice and sampling == (hp.sampling or "linear")
    step = override.step if override.step is not None or not keeps_step else hp.step
    cls = kinds.Int if integer else kinds.Float
    new = cls(
        name=hp.name,
        min_value=number(override.min),
        max_value=number(override.max),
        step=None if step is None else number(step),
        sampling=sampling,
        conditions=hp.conditions,
    )
    wished = override.default if override.default is not None else hp.default
    clipped = min(max(number(wished), new.min_value), new.max_value)
    # Through the unit interval and back: the nearest value that the new range can take.
    default = new.prob_to_value(new.value_to_prob(clipped)) if new.step is not None else clipped
    return cls.from_config({**new.get_config(), "default": default})


def explore(build: Callable[[SearchSpace], object], overrides: Overrides) -> SearchSpace:
    """Finds every hyperparameter that a build can declare, by building at different points.

    Builds the default point, then one point in each conditional scope that was not yet active, then one with every
    integer at its largest value and one with every numeric choice at its largest, too (for hyperparameters that are
    declared in loops).

    Args:
        build: declares hyperparameters; raises if the point cannot be built.
        overrides: applied to every declaration.

    Returns:
        The space, with the default point's values.

    Raises:
        SpaceError: an override that does not fit or that matches nothing.
    """
    space = SearchSpace(overrides)
    build(space)
    defaults = dict(space.values)
    seen = [list(scope) for scope in space.active_scopes]
    waiting = [list(scope) for scope in space.inactive_scopes]
    while waiting:
        scope = waiting.pop(0)
        if scope in seen:
            continue
        seen.append(scope)
        point = _activating(space, scope, defaults)
        if point is not None:
            found = _try_build(build, SearchSpace(overrides, point), space)
            waiting.extend(list(other) for other in found.inactive_scopes if list(other) not in seen)
    largest = dict(defaults)
    for kind in (kinds.Int, kinds.Choice):
        before = dict(largest)
        largest |= _largest(space, kind)
        if largest != before:
            _try_build(build, SearchSpace(overrides, largest), space)
    overrides.check_all_match(hp.name for hp in space.space)
    space.values = defaults
    space.ensure_active_values()
    return space


def _largest(space: SearchSpace, kind: type[kinds.HyperParameter]) -> dict[str, Value]:
    """The largest value of each active integer or numeric choice."""
    return {
        hp.name: hp.max_value if isinstance(hp, kinds.Int) else max(hp.values)
        for hp in space.space
        if isinstance(hp, kind) and space.is_active(hp) and not isinstance(hp.default, str | bool)
    }


def _try_build(build: Callable[[SearchSpace], object], point: SearchSpace, space: SearchSpace) -> SearchSpace:
    try:
        build(point)
    except SpaceError:
        raise
    except Exception:
        # Not every point of a space can be built; what it declared until then counts all the same.
        pass
    values, space.values = space.values, {}
    space.merge(point.space, overwrite=False)
    space.values = values
    return point


def _activating(space: SearchSpace, scope: Sequence[Any], defaults: Mapping[str, Value]) -> dict[str, Value] | None:
    """The default point changed so that every condition of the scope holds, or None if the ranges forbid it."""
    point = dict(defaults)
    for condition in scope:
        parents = [hp for hp in space.space if hp.name == condition.name]
        allowed = [value for value in condition.values if any(_can_take(hp, value) for hp in parents)]
        if not allowed:
            return None
        if point.get(condition.name) not in allowed:
            point[condition.name] = allowed[0]
    return point


def _can_take(hp: kinds.HyperParameter, value: Value) -> bool:
    if isinstance(hp, kinds.Fixed):
        return bool(hp.value == value)
    if isinstance(hp, kinds.Int | kinds.Float):
        return bool(hp.min_value <= value <= hp.max_value)
    return value in hp.values


def space_from_config(config: Mapping[str, Any]) -> keras_tuner.HyperParameters:
    """The space of a `HyperParameters.get_config()`, which is left as it is (Keras Tuner's own way changes it)."""
    return keras_tuner.HyperParameters.from_config(copy.deepcopy(dict(config)))


def describe(space: keras_tuner.HyperParameters) -> list[dict[str, Any]]:
    """One row a hyperparameter: name, kind, range, default and the condition under which it is active."""
    rows = []
    for hp in space.space:
        if isinstance(hp, kinds.Fixed):
            values: str = repr(hp.value)
        elif isinstance(hp, kinds.Boolean):
            values = "false, true"
        elif isinstance(hp, kinds.Choice):
            values = ", ".join(str(value) for value in hp.values)
        else:
            values = f"{hp.min_value:g} to {hp.max_value:g}"
            values += f", step {hp.step:g}" if hp.step else ""
            values += f", {hp.sampling}" if hp.sampling and hp.sampling != "linear" else ""
        condition = " and ".join(
            f"{parent.name} = {' or '.join(str(value) for value in parent.values)}" for parent in hp.conditions
        )
        row = {
            "name": hp.name,
            "kind": type(hp).__name__,
            "values": values,
            "default": hp.default,
            "when": condition,
        }
        rows.append(row)
    return rows
