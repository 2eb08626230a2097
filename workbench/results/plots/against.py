"""The figure of the score against each hyperparameter."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from workbench.results.plots.look import (
    FAINT,
    NO_TRIALS,
    NOTHING_VARIES,
    Plot,
    count,
    empty,
    escape,
    figure,
    log_ticks,
    menu,
    number,
    score,
)
from workbench.results.plots.view import Hyperparameter, View


def hyperparameters(view: View) -> Plot:
    """The score against each hyperparameter, chosen from a menu."""
    name, title = "hyperparameters", "Score against each hyperparameter"
    if view.ranked.empty:
        return empty(name, title, NO_TRIALS)
    varied = [item for item in view.hyperparameters if view.ranked[item.column].nunique() > 1]
    if not varied:
        return empty(name, title, NOTHING_VARIES)
    # Before the importances, which another process may still be working on.
    drawn = {item.name: _against(view, item) for item in varied}
    found = view.importances
    if found is not None:
        order = list(found.table["name"])
        varied.sort(key=lambda item: order.index(item.name))
    traces: list[Any] = []
    for place, item in enumerate(varied):
        traces += [trace.update(visible=place == 0) for trace in drawn[item.name]]
    updates = []
    for place, item in enumerate(varied):
        is_visible = [index // 2 == place for index in range(len(traces))]
        updates.append([{"visible": is_visible}, _axis(item)])
    made = figure(
        *traces,
        height=420,
        yaxis={"title": {"text": escape(view.study.metric)}},
        showlegend=False,
        updatemenus=[menu("hyperparameter", [escape(item.label) for item in varied], updates, "dropdown")],
    )
    made.update_layout(_axis(varied[0]))
    first = varied[0]
    return Plot(
        name=name,
        title=title,
        figure=made,
        finding=_best_value(view, first),
        notes=(
            *view.thinning,
            f"In colour: the best {count(len(view.styles), 'trial')}. Values without trials are not shown.",
        ),
    )


def _against(view: View, item: Hyperparameter) -> list[Any]:
    """All shown trials, and the best ones in their colours."""
    active = view.shown[view.shown[item.column].notna()]
    top = active[active["trial_id"].isin(view.styles)]
    # In a template, braces after a percent sign would name a variable.
    label = escape(item.label).replace("{", "&#123;")
    hover = f"trial %{{text}}: %{{y:.4f}}<br>{label} = %{{x}}<extra></extra>"
    points: Any
    if item.is_category:
        points = go.Box(
            boxpoints="all",
            jitter=0.5,
            pointpos=0,
            line={"width": 1, "color": FAINT},
            fillcolor="rgba(125,135,148,0.12)",
        )
    else:
        points = go.Scatter(mode="markers")
    points.update(
        x=_places(active, item),
        y=active["score"].to_numpy(dtype=float),
        text=active["trial_id"].to_numpy(dtype=object),
        marker={"size": 5, "opacity": 0.5, "color": FAINT},
        hovertemplate=hover,
        hoveron="points" if item.is_category else None,
    )
    best = go.Scatter(
        x=_places(top, item),
        y=top["score"].to_numpy(dtype=float),
        text=top["trial_id"].to_numpy(dtype=object),
        mode="markers",
        marker={"size": 9, "color": [view.styles[trial_id]["color"] for trial_id in top["trial_id"]]},
        hovertemplate=hover,
    )
    return [points, best]


def _places(frame: pd.DataFrame, item: Hyperparameter) -> Any:
    """The values on the horizontal axis: texts of categories, else numbers."""
    if item.is_category:
        # Plotly checks a list value by value, an array at once.
        return frame[item.column].map(number).map(escape).to_numpy(dtype=object)
    return frame[item.column].to_numpy(dtype=float)


def _axis(item: Hyperparameter) -> dict[str, Any]:
    kind = "category" if item.is_category else "log" if item.is_log else "linear"
    ticks = log_ticks() if kind == "log" else {"tickmode": "auto", "tickvals": None, "ticktext": None}
    return {
        **{f"xaxis.{key}": value for key, value in ticks.items()},
        "xaxis.title.text": escape(item.label),
        "xaxis.type": kind,
        "xaxis.categoryorder": "array",
        "xaxis.categoryarray": [escape(number(value)) for value in item.values] if item.is_category else [],
        "xaxis.autorange": True,
        "yaxis.autorange": True,
    }


def _best_value(view: View, item: Hyperparameter) -> str:
    active = view.ranked[view.ranked[item.column].notna()]
    if item.is_category:
        groups = {str(value): part["score"] for value, part in active.groupby(active[item.column].map(number))}
        sign = 1 if view.study.direction == "max" else -1
        best = max(groups, key=lambda value: sign * groups[value].mean())
        return (
            f"By mean score, the best {item.label} is {best}: {score(groups[best].mean())} over "
            f"{count(len(groups[best]), 'trial')}."
        )
    tenth, every = (frame[item.column].astype(float) for frame in (active.head(max(1, len(active) // 10)), active))
    return (
        f"The best tenth of the trials has {item.label} from {tenth.min():.3g} to {tenth.max():.3g}; all trials have "
        f"{every.min():.3g} to {every.max():.3g}."
    )
