"""The base of every table, and the overrides of hyperparameters.

An override is a value, a list of values or a range, given for a hyperparameter's name or glob.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NoReturn

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

Scalar = bool | int | float | str
"""A value of a hyperparameter."""

DEFAULT = "default"
"""The override that fixes a hyperparameter at its default, whatever that is."""


def problem(message: str, *, key: str | None = None) -> NoReturn:
    """Raises a problem of the value at hand, or of one key in the table at hand."""
    raise PydanticCustomError("workbench", "{message}", {"message": message, "key": key})


def _check_number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PydanticCustomError("workbench_type", "must be a number")
    if not math.isfinite(value):
        raise PydanticCustomError("finite_number", "must be a finite number")
    return value


def _check_scalar(value: Any) -> Scalar:
    if not isinstance(value, bool | int | float | str):
        raise PydanticCustomError("workbench_type", "must be a boolean, a number or a string")
    if isinstance(value, float):
        _check_number(value)
    return value


def _check_choices(values: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    if not values:
        problem("must list at least one value; received []")
    kinds = {"number" if type(value) in (int, float) else type(value).__name__ for value in values}
    if len(kinds) > 1:
        problem(f"values must be of one type; received {json.dumps(values)}")
    twice = [value for index, value in enumerate(values) if value in values[:index]]
    if twice:
        problem(f"{json.dumps(twice[0])} is listed more than once")
    return values


Number = Annotated[int | float, PlainValidator(_check_number)]


class Table(BaseModel):
    """What every table has: frozen, no unknown keys, no conversions (but integers to floats)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Range(Table):
    """A numeric range of a hyperparameter.

    Attributes:
        min, max: both included.
        step: distance of neighbouring values; with `sampling = "log"`, their ratio.
        sampling: how values are spread over the range; None keeps what the plugin declares.
        default: the default point's value; None leaves it to the plugin's.
    """

    min: Number
    max: Number
    step: Number | None = None
    sampling: Literal["linear", "log"] | None = None
    default: Number | None = None

    @model_validator(mode="after")
    def _check(self) -> Range:
        if self.min > self.max:
            problem(f"min {self.min} is larger than max {self.max}")
        if self.min == self.max:
            problem(f"min and max are both {self.min}; give the value alone to fix it")
        if self.step is not None and self.step <= 0:
            problem(f"must be larger than 0; received {self.step}", key="step")
        if self.sampling == "log" and self.min <= 0:
            problem(f'must be larger than 0 for sampling = "log"; received {self.min}', key="min")
        if self.sampling == "log" and self.step is not None and self.step <= 1:
            problem(f'is a ratio for sampling = "log": larger than 1; received {self.step}', key="step")
        if self.default is not None and not self.min <= self.default <= self.max:
            problem(f"must be from {self.min} to {self.max}; received {self.default}", key="default")
        return self


RANGE_TAG, LIST_TAG, SCALAR_TAG = "<range>", "<list>", "<scalar>"


def _override_kind(value: Any) -> str:
    if isinstance(value, Mapping | Range):
        return RANGE_TAG
    return LIST_TAG if isinstance(value, list | tuple) else SCALAR_TAG


_Scalar = Annotated[Any, PlainValidator(_check_scalar)]
_Choices = Annotated[tuple[_Scalar, ...], Field(strict=False), AfterValidator(_check_choices)]
Override = Annotated[
    Annotated[Range, Tag(RANGE_TAG)] | Annotated[_Choices, Tag(LIST_TAG)] | Annotated[_Scalar, Tag(SCALAR_TAG)],
    Discriminator(_override_kind),
]
"""A value (fixed), a tuple of values (a choice), a `Range`, or `DEFAULT`."""

Space = dict[str, Override]
"""Overrides by hyperparameter name or glob."""
