"""Points outside a definition's `[constraints]`: found by building them, before a minute is spent on training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from workbench.errors import TrialError

if TYPE_CHECKING:
    from workbench.definition import ConstraintsTable
    from workbench.engine.protocol import Cost
    from workbench.log import StudyLog
    from workbench.oracles.protocol import Value


def violation(constraints: ConstraintsTable, cost: Cost) -> str:
    """What a point breaks, or an empty string."""
    if constraints.max_parameters is not None and cost.parameters > constraints.max_parameters:
        return f"{cost.parameters:,} parameters, max_parameters {constraints.max_parameters:,}"
    if constraints.min_parameters is not None and cost.parameters < constraints.min_parameters:
        return f"{cost.parameters:,} parameters, min_parameters {constraints.min_parameters:,}"
    if constraints.max_flops is not None and cost.flops > constraints.max_flops:
        return f"{cost.flops:,} FLOPs, max_flops {constraints.max_flops:,}"
    return ""


def gate(
    constraints: ConstraintsTable, cost: Callable[[Mapping[str, Value]], Cost], log: StudyLog
) -> Callable[[Mapping[str, Any]], bool]:
    """Decides whether a point may be trained, and journals those that may not.

    A point that cannot be built is admitted, so that it fails with its reason as every failed trial does.

    Args:
        constraints: of the definition.
        cost: builds a point, see `Engine.cost`.
        log: told of each refusal.
    """
    if constraints == type(constraints)():
        return lambda values: True

    def admit(values: Mapping[str, Any]) -> bool:
        try:
            known = cost(values)
        except TrialError:
            return True
        broken = violation(constraints, known)
        if broken:
            log.append(
                "rejected",
                values=dict(values),
                parameters=known.parameters,
                flops=known.flops,
                reason=broken,
            )
        return not broken

    return admit
