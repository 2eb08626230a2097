"""Figures of the search space: parallel coordinates, importance, score against each hyperparameter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from workbench.results.plots.importance import (
    FOLDS,
    MIN_TRIALS,
    PERMUTATIONS,
    REPEATS,
    TREES,
    WEAK_R2,
    Importances,
    importances,
)
from workbench.results.plots.look import COLORS, FAINT, Plot, count, empty, escape, figure, menu, number, score
from workbench.results.plots.view import Hyperparameter, View

MAX_AXES = 12
"""Parallel coordinates of more hyperparameters cannot be read."""

NO_TRIALS = "No trial has completed yet."
NOTHING_VARIES = "No hyperparameter differs between the trials."


def parallel_coordinates(view: View) -> Plot:
    """One line a trial through its hyperparameters to its score."""
    name, title = "parallel_coordinates", "Parallel coordinates"
    if view.ranked.empty:
        return empty(name, title, NO_TRIALS)
    varied = [item for item in view.hyperparameters if view.ranked[item.column].nunique() > 1]
    if not varied:
        return empty(name, title, NOTHING_VARIES)
    # The best are drawn last, on top of the others.
    trials = view.shown.iloc[::-1]
    shown = _most_telling(view, varied)
    dimensions = [_dimension(trials[item.column], item) for item in shown]
    if trials["epochs"].nunique() > 1:
        dimensions.append({"label": "epochs", "values": trials["epochs"].to_numpy(dtype=float)})
    scores = trials["score"].to_numpy(dtype=float)
    dimensions.append({"label": escape(view.study.metric), "values": scores})
    made = figure(
        go.Parcoords(
            dimensions=dimensions,
            line={"color": scores, "coloraxis": "coloraxis"},
            labelangle=-20,
            labelside="top",
        ),
        height=460,
        coloraxis={"colorbar": {"title": {"text": escape(view.study.metric)}}, "reversescale": _is_min(view)},
        margin={"l": 70, "r": 40, "t": 100, "b": 30},
    )
    notes = [*view.thinning, "Drag along an axis to keep only the trials in that range; drag an axis to move it."]
    if len(shown) < len(varied):
        left_out = ", ".join(item.label for item in varied if item not in shown)
        notes.append(f"Left out, as the less important ones: {left_out}.")
    best = view.ranked.iloc[0]
    values = ", ".join(f"{label} {value}" for label, value in view.described(best))
    return Plot(
        name=name,
        title=title,
        figure=made,
        finding=f"The best of {count(len(view.ranked), 'completed trial')} has {values}.",
        notes=tuple(notes),
    )


def _is_min(view: View) -> bool:
    return view.study.direction == "min"


def _most_telling(view: View, varied: list[Hyperparameter]) -> list[Hyperparameter]:
    if len(varied) <= MAX_AXES:
        return varied
    found = view.importances
    order = list(found.table["name"]) if found else []
    by_importance = sorted(varied, key=lambda item: order.index(item.name) if item.name in order else len(order))
    chosen = by_importance[:MAX_AXES]
    return [item for item in varied if item in chosen]


def _dimension(column: pd.Series, item: Hyperparameter) -> dict[str, Any]:
    """An axis; where the hyperparameter is not active the line goes through "none", below all values."""
    is_active = column.notna().to_numpy()
    if item.is_category:
        codes = {value: place for place, value in enumerate(item.values)}
        values = np.array([codes.get(value, -1) if active else -1 for value, active in zip(column, is_active, strict=True)])
        ticks, texts = list(range(len(codes))), [escape(number(value)) for value in codes]
        below = -1.0
    else:
        numbers = column.astype(float).to_numpy()
        values = np.log10(numbers) if item.is_log else numbers
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        ticks = list(np.linspace(low, high, 5))
        texts = [f"{10**tick:.2g}" if item.is_log else number(float(f"{tick:.3g}")) for tick in ticks]
        below = low - 0.2 * (high - low)
        values = np.where(is_active, values, below)
    if not is_active.all():
        ticks, texts = [below, *ticks], ["none", *texts]
    return {
        "label": escape(item.label),
        "values": values.astype(float),
        "tickvals": ticks,
        "ticktext": texts,
        "range": [min(ticks), max(ticks)] if max(ticks) > min(ticks) else None,
    }


def importance(view: View) -> Plot:
    """How much a random forest needs each hyperparameter to predict the score, with the spread over folds."""
    name, title = "importance", "Hyperparameter importance"
    found = view.importances
    if found is None:
        return empty(name, title, _why_no_importance(view))
    table = found.table.iloc[::-1]
    made = figure(
        go.Bar(
            x=table["importance"],
            y=[escape(label) for label in table["label"]],
            orientation="h",
            marker={"color": COLORS[0] if found.r2 >= WEAK_R2 else FAINT},
            error_x={"type": "data", "array": table["importance_std"], "color": FAINT, "thickness": 1.5},
            hovertemplate="%{y}: %{x:.3f} ± %{error_x.array:.3f}<extra></extra>",
        ),
        height=120 + 28 * len(table),
        xaxis={"title": {"text": "fall of R² when shuffled"}},
        bargap=0.35,
    )
    return Plot(name=name, title=title, figure=made, finding=_importance_finding(found), notes=_importance_notes(found))


def _why_no_importance(view: View) -> str:
    if len(view.ranked) < MIN_TRIALS:
        return f"Importances need {MIN_TRIALS} completed trials; there are {len(view.ranked)}."
    return "All completed trials have the same score, or the same hyperparameters: nothing to explain."


def _importance_finding(found: Importances) -> str:
    told = f"cross-validated R² {found.r2:.2f} ± {found.r2_std:.2f}"
    if found.r2 < WEAK_R2:
        return (
            f"Do not rely on this ranking: the forest explains too little of the scores ({told}; below {WEAK_R2} it says "
            "little). More trials help, or the score depends mostly on chance."
        )
    top = found.table.iloc[0]
    clear = found.table[found.table["importance"] > 2 * found.table["importance_std"]]["label"]
    others = f" Clearly above their spread (2 standard deviations): {', '.join(clear)}." if len(clear) else ""
    return f"The score depends most on {top['label']} ({top['importance']:.2f} ± {top['importance_std']:.2f}; {told}).{others}"


def _importance_notes(found: Importances) -> tuple[str, ...]:
    sampled = f"a seeded sample of {found.trials:,} of " if found.trials < found.of_trials else ""
    return (
        f"Permutation importance (Breiman 2001): a random forest of {TREES} trees predicts the score of held-out trials; a "
        f"bar says how much its R² falls when one hyperparameter is shuffled, {PERMUTATIONS} times. Bars are means, "
        f"whiskers one standard deviation, over {FOLDS} folds, {REPEATS} times, of {sampled}"
        f"{found.of_trials:,} completed trials.",
        "It says what the forest uses within the ranges that were searched, not what causes what; correlated "
        "hyperparameters share their importance. An inactive one counts for the one that it is conditional on.",
    )


def hyperparameters(view: View) -> Plot:
    """The score against each hyperparameter, chosen from a menu."""
    name, title = "hyperparameters", "Score against each hyperparameter"
    if view.ranked.empty:
        return empty(name, title, NO_TRIALS)
    varied = [item for item in view.hyperparameters if view.ranked[item.column].nunique() > 1]
    if not varied:
        return empty(name, title, NOTHING_VARIES)
    found = view.importances
    if found is not None:
        order = list(found.table["name"])
        varied.sort(key=lambda item: order.index(item.name))
    traces: list[Any] = []
    for place, item in enumerate(varied):
        traces += [trace.update(visible=place == 0) for trace in _against(view, item)]
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
        notes=(*view.thinning, f"In colour: the best {count(len(view.styles), 'trial')}. Values without trials are not shown."),
    )


def _against(view: View, item: Hyperparameter) -> list[Any]:
    """All shown trials, and the best ones in their colours."""
    active = view.shown[view.shown[item.column].notna()]
    top = active[active["trial_id"].isin(view.styles)]
    hover = "trial %{text}: %{y:.4f}<br>" + escape(item.label).replace("%", "%%") + " = %{x}<extra></extra>"
    if item.is_category:
        x, top_x = ([number(value) for value in frame[item.column]] for frame in (active, top))
        x, top_x = ([escape(value) for value in values] for values in (x, top_x))
        points: Any = go.Box(
            boxpoints="all",
            jitter=0.5,
            pointpos=0,
            line={"width": 1, "color": FAINT},
            fillcolor="rgba(125,135,148,0.12)",
        )
    else:
        x, top_x = (frame[item.column].to_numpy(dtype=float) for frame in (active, top))
        points = go.Scatter(mode="markers")
    points.update(
        x=x,
        y=active["score"].to_numpy(dtype=float),
        text=list(active["trial_id"]),
        marker={"size": 5, "opacity": 0.5, "color": FAINT},
        hovertemplate=hover,
        hoveron="points" if item.is_category else None,
    )
    best = go.Scatter(
        x=top_x,
        y=top["score"].to_numpy(dtype=float),
        text=list(top["trial_id"]),
        mode="markers",
        marker={"size": 9, "color": [view.styles[trial_id]["color"] for trial_id in top["trial_id"]]},
        hovertemplate=hover,
    )
    return [points, best]


def _axis(item: Hyperparameter) -> dict[str, Any]:
    kind = "category" if item.is_category else "log" if item.is_log else "linear"
    return {
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
        means = active.groupby(active[item.column].map(number))["score"].agg(["mean", "count"])
        best = means["mean"].idxmin() if _is_min(view) else means["mean"].idxmax()
        return (
            f"By mean score, the best {item.label} is {best}: {score(means.loc[best, 'mean'])} over "
            f"{count(int(means.loc[best, 'count']), 'trial')}."
        )
    tenth = active.head(max(1, len(active) // 10))[item.column].astype(float)
    return (
        f"The best tenth of the trials has {item.label} from {number(float(tenth.min()))} to {number(float(tenth.max()))}; all "
        f"trials have {number(float(active[item.column].min()))} to {number(float(active[item.column].max()))}."
    )
