"""`--set KEY=VALUE`: one value of a definition, given on the command line."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import Any

from workbench.definition.overrides import Range
from workbench.definition.problems import format_path, format_value
from workbench.errors import DefinitionError

# A quoted part of a key, or a bare one. Globs and slashes may stand unquoted: shells eat quotes.
_PART = r"""(?:"[^"]*"|'[^']*'|[^."'=]+)"""
_ASSIGNMENT = re.compile(rf"\s*({_PART}(?:\.{_PART})*)\s*=(.*)", re.DOTALL)

_PAIRS = (("name", "names"), ("batch_size_per_replica", "global_batch_size"))
_INSTEAD = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
"""Keys that exclude each other: the one given last stays."""


@dataclass(frozen=True)
class Setting:
    """One value to put into a definition.

    Attributes:
        label: what error messages call it, such as `--set training.epochs`.
        path: the key path.
        value: the TOML value.
    """

    label: str
    path: tuple[str, ...]
    value: Any


def read_setting(text: str, *, label: str | None = None, value: Any = None) -> Setting:
    """Reads `KEY=VALUE`, or with a `label` a key alone whose `value` is given.

    Parts of the key may be quoted. In a table of overrides all that follows `space.` is one key, but for a
    last part that names a range's key: `model.space.stage_*/expand.min=16` sets `min`.

    Raises:
        DefinitionError: no `=`, or a key that is not a dotted path.
    """
    match = _ASSIGNMENT.fullmatch(text if label is None else f"{text}=")
    if match is None:
        raise DefinitionError(
            [f"must be KEY=VALUE, such as training.epochs=2; received {text!r}"], where=label or "--set"
        )
    path = _join_space_keys([part.strip() for part in re.findall(_PART, match[1])])
    if label is not None:
        return Setting(label, path, value)
    return Setting(f"--set {format_path(path)}", path, _read_value(match[2].strip()))


def apply_setting(data: dict[str, Any], setting: Setting) -> None:
    """Puts the value into the tables, made where missing; what it excludes is removed (`names` by `name`).

    Raises:
        DefinitionError: something on the way is not a table.
    """
    table = data
    for depth, key in enumerate(setting.path[:-1], start=1):
        inner = table.setdefault(key, {})
        if not isinstance(inner, dict):
            holder = format_path(setting.path[:depth])
            problem = f"{holder} must be a table to hold {setting.path[depth]!r}; received {format_value(inner)}"
            raise DefinitionError([problem], where=setting.label)
        table = inner
    last = setting.path[-1]
    if len(setting.path) == 2 and last in _INSTEAD:
        table.pop(_INSTEAD[last], None)
    table[last] = setting.value


def _join_space_keys(parts: list[str]) -> tuple[str, ...]:
    keys = [part[1:-1] if part[0] in "\"'" else part for part in parts]
    if len(parts) <= 3 or parts[1] != "space":
        return tuple(keys)
    name, rest = keys[2:], []
    if parts[-1] in Range.model_fields:
        name, rest = keys[2:-1], keys[-1:]
    return (*keys[:2], ".".join(name), *rest)


def _read_value(text: str) -> Any:
    """The text as a TOML value, else as the string that it is."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    # More than one key: the text held line breaks.
    return parsed["value"] if parsed.keys() == {"value"} else text
