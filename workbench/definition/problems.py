"""Pydantic's errors as lines of ours: key path, constraint, value received, near name."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel

from workbench.definition.overrides import LIST_TAG, RANGE_TAG, SCALAR_TAG, Range
from workbench.definition.tables import Definition
from workbench.errors import near_names

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

KeyPath = tuple[str | int, ...]
Problem = tuple[KeyPath, str]
"""Where in the definition, and what is wrong there."""

_TYPES = {
    "bool_type": "a boolean",
    "int_type": "an integer",
    "float_type": "a number",
    "string_type": "a string",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "tuple_type": "a list",
}
_BOUNDS = {
    "greater_than": ("larger than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than_equal": ("at most", "le"),
}
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def format_path(path: Sequence[str | int]) -> str:
    """A key path as TOML writes it, with list positions in brackets.

    Example: `model.space."stage_*/expand"[0]`.
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if _BARE_KEY.fullmatch(part) else json.dumps(part))
    return text


def format_value(value: Any) -> str:
    """A value as TOML writes it, with its type, shortened."""
    if isinstance(value, bool):
        return f"{str(value).lower()} (boolean)"
    if isinstance(value, Mapping):
        return "a table" + (f" with {', '.join(map(str, value))}" if value else " without keys")
    names: tuple[tuple[type, str], ...] = (
        (int, "integer"),
        (float, "float"),
        (str, "string"),
        (list, "list"),
    )
    name = next((name for kind, name in names if isinstance(value, kind)), type(value).__name__)
    text = json.dumps(value, default=str)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({name})"


def plain(value: Any, problems: list[Problem], path: KeyPath = ()) -> Any:
    """The value as JSON has it: string keys, lists for tuples, strings for paths, no `None` in tables.

    What JSON cannot hold is put into `problems` and kept as it is.
    """
    if isinstance(value, Mapping):
        odd = [key for key in value if not isinstance(key, str)]
        problems += [(path, f"keys must be strings; received {key!r}") for key in odd]
        return {str(k): plain(v, problems, (*path, str(k))) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [plain(item, problems, (*path, index)) for index, item in enumerate(value)]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        problems.append((path, f"must be a finite number; received {value}"))
    elif isinstance(value, datetime.date | datetime.time):
        problems.append((path, f"dates and times are not used here; received {value}"))
    elif not isinstance(value, bool | int | float | str):
        problems.append((path, f"must be a boolean, number, string, list or table; received {format_value(value)}"))
    return value


def explain(errors: Sequence[ErrorDetails], data: Mapping[str, Any]) -> Iterator[Problem]:
    """Turns pydantic's errors on `data` into problems, in their order."""
    for error in errors:
        path = _as_written(error, data)
        kind, context = error["type"], error.get("ctx", {})
        received = f"received {format_value(error['input'])}"
        if kind == "extra_forbidden":
            yield _unknown_key(error, path, data)
        elif kind == "missing":
            yield from _missing(error, path)
        elif kind == "workbench":
            yield (*path, *([context["key"]] if context["key"] else [])), context["message"]
        elif kind in _TYPES:
            yield path, f"must be {_TYPES[kind]}; {received}"
        elif kind in _BOUNDS:
            words, key = _BOUNDS[kind]
            yield path, f"must be {words} {context[key]:.12g}; {received}"
        elif kind == "literal_error":
            allowed = _allowed(error)
            near = near_names(str(error["input"]), allowed)
            yield (
                path,
                f"must be {_any_of(json.dumps(item) for item in allowed)}; {received}.{near}".rstrip("."),
            )
        else:
            yield path, f"{error['msg'][0].lower()}{error['msg'][1:]}; {received}"


def _any_of(items: Iterator[str]) -> str:
    *most, last = items
    return f"{', '.join(most)} or {last}" if most else last


def _keys(error: ErrorDetails) -> KeyPath:
    return tuple(part for part in error["loc"] if part not in (RANGE_TAG, LIST_TAG, SCALAR_TAG))


def _as_written(error: ErrorDetails, data: Mapping[str, Any]) -> KeyPath:
    """The key path, with `name` where the file says `name` for `names`."""
    path = _keys(error)
    if len(path) == 3 and path[1:] == ("names", 0):
        table = data.get(str(path[0]))
        if isinstance(table, Mapping) and "names" not in table:
            return (path[0], "name")
    return path


def _table_at(loc: Sequence[str | int]) -> type[BaseModel]:
    """The class of the table that a pydantic location leads to."""
    table: type[BaseModel] = Definition
    for part in loc:
        if part == RANGE_TAG:
            return Range
        field = table.model_fields.get(str(part))
        if field is not None and isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            table = field.annotation
    return table


def _allowed(error: ErrorDetails) -> list[str]:
    annotation = _table_at(error["loc"]).model_fields[str(error["loc"][-1])].annotation
    literals = [annotation, *get_args(annotation)]
    return [item for literal in literals for item in get_args(literal) if isinstance(item, str)]


def _unknown_key(error: ErrorDetails, path: KeyPath, data: Mapping[str, Any]) -> Problem:
    known = list(_table_at(error["loc"][:-1]).model_fields)
    key = str(path[-1])
    if key == "name" and "names" in known:
        return path, "give either name or names, not both"
    if "names" in known:
        known.insert(0, "name")
    return path, f"unknown key {key!r}.{near_names(key, known)} The keys here are {', '.join(known)}"


def _missing(error: ErrorDetails, path: KeyPath) -> Iterator[Problem]:
    if path[-1] == "names":
        yield (*path[:-1], "name"), "is required (or names, a list to choose from)"
    elif path[-1] == "direction":
        metric = error["input"].get("metric")
        yield path, f'is required for the metric {format_value(metric)}: give "max" or "min"'
    else:
        table = _table_at(error["loc"])
        if error["loc"][:-1] and table is _table_at(error["loc"][:-1]):
            yield path, "is required"
            return
        for name, field in table.model_fields.items():
            if field.is_required():
                yield from _missing({**error, "loc": (*error["loc"], name)}, (*path, name))
