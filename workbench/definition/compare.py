"""What differs between a study's definition and the one that it is resumed with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from workbench.definition.problems import format_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.definition.tables import Definition

FREE_KEYS = (
    ("summary",),
    ("budget",),
    ("objective", "target"),
    ("objective", "stop_at_target"),
    ("training", "keep_checkpoints"),
)
"""Key paths (and what is below them) that may change between the runs of a study."""


def differences(old: Definition, new: Definition) -> list[str]:
    """What has changed that makes the results of `old` and `new` no longer comparable.

    Returns:
        One line a value, `key path: old -> new`, values as JSON; nothing for `FREE_KEYS`.
    """
    return list(_compare(old.resolved(), new.resolved(), ()))


def _compare(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[str]:
    if path in FREE_KEYS:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from _compare(old.get(key), new.get(key), (*path, key))
    # As text: to Python true and 1 are equal.
    elif _as_text(old) != _as_text(new):
        yield f"{format_path(path)}: {_as_text(old)} -> {_as_text(new)}"


def _as_text(value: Any) -> str:
    return "(not given)" if value is None else json.dumps(value, sort_keys=True)
