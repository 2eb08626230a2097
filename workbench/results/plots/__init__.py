"""The figures of a study, on Plotly: the same in a notebook and in the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.errors import UsageError, near_names
from workbench.results.plots.against import hyperparameters
from workbench.results.plots.curves import best_so_far, compare_best_so_far, learning_curves
from workbench.results.plots.look import Plot
from workbench.results.plots.spaces import importance, parallel_coordinates
from workbench.results.plots.tradeoffs import failures, pareto
from workbench.results.plots.view import View

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from workbench.study import Study

__all__ = ["NEED_IMPORTANCES", "PLOTS", "Plot", "View", "compare_best_so_far", "plot_study"]

PLOTS: dict[str, Callable[[View], Plot]] = {
    "best_so_far": best_so_far,
    "learning_curves": learning_curves,
    "parallel_coordinates": parallel_coordinates,
    "importance": importance,
    "hyperparameters": hyperparameters,
    "pareto": pareto,
    "failures": failures,
}
"""Every figure by name, in the order of the report."""

NEED_IMPORTANCES = ("hyperparameters", "parallel_coordinates", "importance")
"""The figures that `View.importances` decides on, the one first that has most to do without them."""


def plot_study(study: Study, name: str) -> go.Figure:
    """One figure of a study.

    Raises:
        UsageError: there is no such plot.
    """
    if name not in PLOTS:
        hint = near_names(name, PLOTS) or ""
        raise UsageError(f"plot must be one of {', '.join(PLOTS)}; received {name!r}.{hint}")
    return PLOTS[name](View(study)).figure
