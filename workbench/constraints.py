"""Points that need no training: outside a definition's `[constraints]`, or the same network as an earlier trial."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from workbench.errors import TrialError

if TYPE_CHECKING:
    from workbench.definition import ConstraintsTable, Definition
    from workbench.engine.protocol import Cost
    from workbench.log import StudyLog
    from workbench.oracles.protocol import Value

FIGURES = ("parameters", "flops", "model_mib", "seconds_per_epoch")
"""What constraints limit, as the journal's `rejected` events have it."""


def violation(constraints: ConstraintsTable, cost: Cost) -> str:
    """What a point breaks, or an empty string."""
    limits = [
        ("parameters", cost.parameters, constraints.min_parameters, constraints.max_parameters),
        ("flops", cost.flops, None, constraints.max_flops),
        ("model_mib", cost.model_mib, None, constraints.max_model_mib),
        ("seconds_per_epoch", cost.seconds_per_epoch, None, constraints.max_seconds_per_epoch),
    ]
    for name, value, least, most in limits:
        if value is not None and most is not None and value > most:
            return f"{name} {value:,.6g} is larger than max_{name} {most:,.6g}"
        if value is not None and least is not None and value < least:
            return f"{name} {value:,.6g} is smaller than min_{name} {least:,.6g}"
    return ""


def network_key(graph: str, values: Mapping[str, Value], definition: Definition) -> str:
    """Equal for points that train the same network in the same way.

    Args:
        graph: the network's hash, which stands for all hyperparameters of the model.
        values: the active hyperparameters.
        definition: names the models.
    """
    others = {
        name: value
        for name, value in values.items()
        if name != "model" and name.partition("/")[0] not in definition.model.names
    }
    return json.dumps([graph, others], sort_keys=True)


class Gate:
    """Decides whether a point may be trained, and journals those that may not.

    A point that cannot be built is admitted, so that it fails with its reason as every failed trial does.

    Args:
        definition: with its constraints.
        cost: builds a point, see `Engine.cost`.
        log: told of each refusal; its trials' networks are not trained again.
    """

    def __init__(self, definition: Definition, cost: Callable[[Mapping[str, Value]], Cost], log: StudyLog):
        self._definition = definition
        self._cost = cost
        self._log = log
        self._graphs: dict[str, str] = {}
        self._twins = {
            network_key(trial.graph, trial.values, definition): trial.trial_id
            for trial in reversed(log.history.trials.values())
            if trial.graph is not None
        }

    def admit(self, values: Mapping[str, Value]) -> bool:
        """Whether the point may be trained; asked once a point."""
        try:
            known = self._cost(values)
        except TrialError:
            return True
        reason = violation(self._definition.constraints, known)
        key = network_key(known.graph, values, self._definition)
        if not reason and key in self._twins:
            reason = f"the same network as trial {self._twins[key] or 'proposed before'}"
        if reason:
            figures = {name: getattr(known, name) for name in FIGURES}
            self._log.append("rejected", values=dict(values), reason=reason, **figures)
            return False
        self._twins[key] = ""
        self._graphs[json.dumps(dict(values), sort_keys=True)] = known.graph
        return True

    def graph_of(self, values: Mapping[str, Value]) -> str | None:
        """The network's hash of a point that was admitted and built; None if it could not be built."""
        return self._graphs.get(json.dumps(dict(values), sort_keys=True))
