"""Reading the options of a search algorithm: one clear message for each that is out of range."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from workbench.errors import near_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def check_names(options: Mapping[str, Any], known: Iterable[str], owner: str) -> None:
    """Checks that every option is one that `owner` takes.

    Raises:
        ValueError: for an option that is not known; offers near names.
    """
    names = sorted(known)
    for name in options:
        if name not in names:
            takes = "takes " + ", ".join(names) if names else "takes no options"
            raise ValueError(f"{owner} has no option {name!r}; it {takes}.{near_names(name, names)}")


def whole_number(options: Mapping[str, Any], name: str, default: int, *, least: int) -> int:
    """The option `name`, a whole number of at least `least`.

    Raises:
        ValueError: for anything else.
    """
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; received {value!r}")
    return value


def real_number(options: Mapping[str, Any], name: str, default: float, *, above: float) -> float:
    """The option `name`, a finite number greater than `above`.

    Raises:
        ValueError: for anything else.
    """
    value = options.get(name, default)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value <= above:
        raise ValueError(f"{name} must be a finite number greater than {above:g}; received {value!r}")
    return float(value)
