"""Figures of progress: the best score so far, and how the best trials learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from workbench.results.plots.look import FAINT, Plot, count, duration, empty, escape, figure, line_style, menu, score
from workbench.results.plots.view import View
from workbench.trials import Trial

AXES = {"trials": "trials", "epochs": "epochs trained", "seconds": "seconds of training and validation"}
"""What the best score so far is drawn against."""

MIN_CURVES = 20
"""From so many completed trials on, learning curves show a band of all of them."""


def best_so_far(view: View) -> Plot:
    """The best score of a study against trials, epochs and seconds."""
    return compare_best_so_far([view])


def compare_best_so_far(views: Sequence[View]) -> Plot:
    """The best score so far of one or several studies, with their targets."""
    title = "Best score so far"
    tables = [view.progress for view in views]
    if all(table["best"].isna().all() for table in tables):
        return empty("best_so_far", title, "No trial has completed yet.")
    metrics = dict.fromkeys(view.study.metric for view in views)
    traces: list[Any] = []
    x_values: dict[str, list[Any]] = {axis: [] for axis in AXES}
    for view, table in zip(views, tables, strict=True):
        steps = _corners(table, view.study.direction)
        for axis in AXES:
            x_values[axis].append(steps[axis].to_numpy())
        traces.append(
            go.Scatter(
                x=steps["trials"],
                y=steps["best"],
                text=steps["trial_id"],
                name=escape(view.study.name),
                mode="lines+markers",
                marker={"size": 5},
                line={"shape": "hv", "width": 2, **line_style(view.position)},
                hovertemplate="%{y:.4f} by trial %{text}, at %{x:,}<extra>%{fullData.name}</extra>",
            )
        )
    updates: list[list[dict[str, Any]]] = [
        [{"x": list(x_values[axis])}, {"xaxis.title.text": label}] for axis, label in AXES.items()
    ]
    made = figure(
        *traces,
        xaxis={"title": {"text": AXES["trials"]}, "rangemode": "tozero"},
        yaxis={"title": {"text": f"best {escape(' or '.join(metrics))}"}},
        showlegend=len(views) > 1,
        updatemenus=[menu("horizontal axis", list(AXES), updates)],
    )
    for target in sorted({view.target for view in views if view.target is not None}):
        made.add_hline(
            y=target,
            line={"dash": "dot", "width": 1, "color": FAINT},
            annotation={"text": f"target {target:g}"},
            annotation_position="top right",
        )
    finding = " ".join(_progress_sentence(view, table) for view, table in zip(views, tables, strict=True))
    return Plot(
        name="best_so_far",
        title=title,
        figure=made,
        finding=finding,
        notes=("A trial or rung counts when it ends; failed trials cost epochs and seconds, too.",),
    )


def _corners(table: pd.DataFrame, direction: str) -> pd.DataFrame:
    """The rows in which the best score rises, and the last one."""
    known = table[table["best"].notna()]
    is_better = known["best"].ne(known["best"].shift())
    corners = known[is_better]
    # The line goes on to the last trial at the level of the best one.
    end = known.iloc[-1:].assign(trial_id=corners["trial_id"].iloc[-1:].to_numpy()) if len(known) else known
    return pd.concat([corners, end]) if len(known) and not is_better.iloc[-1] else corners


def _progress_sentence(view: View, table: pd.DataFrame) -> str:
    known = table[table["best"].notna()]
    if known.empty:
        return f"{view.study.name}: no trial has completed yet."
    last = known.iloc[-1]
    first = known[known["best"] == last["best"]].iloc[0]
    total = table.iloc[-1]
    text = (
        f"{view.study.name}: best {view.study.metric} {score(last['best'])} by trial {first['trial_id']}, after "
        f"{first['trials']:,} of {count(int(total['trials']), 'trial')}, {first['epochs']:,} epochs and "
        f"{duration(first['seconds'])}."
    )
    return f"{text} {target_sentence(view, table)}".strip()


def target_sentence(view: View, table: pd.DataFrame) -> str:
    """Whether, when and at what cost the target was reached; empty without a target."""
    if view.target is None:
        return ""
    reached = table[table["best"].map(view.is_reached)]
    if reached.empty:
        return f"The target {view.target:g} is not reached."
    row = reached.iloc[0]
    return f"The target {view.target:g} was reached by trial {row['trial_id']}, after {cost(row)}."


def cost(row: pd.Series) -> str:
    """What was spent up to a row of `View.progress`."""
    return f"{count(int(row['trials']), 'trial')}, {row['epochs']:,} epochs and {duration(row['seconds'])}"


def learning_curves(view: View) -> Plot:
    """The objective by epoch of the best trials, with the middle 80 % of all completed ones behind."""
    title = "Learning curves of the best trials"
    if view.ranked.empty:
        return empty("learning_curves", title, "No trial has completed yet.")
    trials = view.study.history.trials
    metric = view.study.metric
    traces = _band(view, metric) if len(view.ranked) >= MIN_CURVES else []
    for _, row in view.ranked.head(len(view.styles)).iterrows():
        curve = _mean_curve(trials[row["trial_id"]], metric)
        hyperparameters = "<br>".join(escape(f"{label} = {value}") for label, value in view.described(row))
        traces.append(
            go.Scatter(
                x=list(curve),
                y=list(curve.values()),
                name=escape(row["trial_id"]),
                mode="lines+markers" if len(curve) < 30 else "lines",
                marker={"size": 4},
                line={"width": 2, **view.styles[row["trial_id"]]},
                # One text for a whole trace would not be shown at its points.
                text=[hyperparameters] * len(curve),
                hovertemplate="trial <b>%{fullData.name}</b>, epoch %{x}: %{y:.4f}<br>%{text}<extra></extra>",
            )
        )
    made = figure(
        *traces,
        height=420,
        xaxis={"title": {"text": "epoch"}, "rangemode": "tozero"},
        yaxis={"title": {"text": escape(metric)}},
        showlegend=True,
    )
    best = view.ranked.iloc[0]
    notes = ["The mean over a trial's executions; hover over a line for its hyperparameters."]
    if len(view.ranked) >= MIN_CURVES:
        notes.append(f"Grey: the middle 80 % of all {len(view.ranked):,} completed trials, and their median.")
    return Plot(
        name="learning_curves",
        title=title,
        figure=made,
        finding=(
            f"The best trial, {best['trial_id']}, has its best {metric}, {score(best['score'])}, at epoch "
            f"{best['best_epoch']} of {best['epochs']}. Shown: the best {len(view.styles)} of "
            f"{count(len(view.ranked), 'completed trial')}."
        ),
        notes=tuple(notes),
    )


def _mean_curve(trial: Trial, metric: str) -> dict[int, float]:
    values: dict[int, list[float]] = {}
    for execution in trial.executions.values():
        for epoch, value in execution.metric(metric):
            values.setdefault(epoch, []).append(value)
    return {epoch: float(np.mean(values[epoch])) for epoch in sorted(values)}


def _band(view: View, metric: str) -> list[Any]:
    by_epoch: dict[int, list[float]] = {}
    for trial_id in view.ranked["trial_id"]:
        for execution in view.study.history.trials[trial_id].executions.values():
            for epoch, value in execution.metric(metric):
                by_epoch.setdefault(epoch, []).append(value)
    epochs = sorted(by_epoch)
    low, middle, high = np.array([np.nanquantile(by_epoch[epoch], [0.1, 0.5, 0.9]) for epoch in epochs]).T
    common = {"x": epochs, "hoverinfo": "skip", "mode": "lines"}
    return [
        go.Scatter(y=low, line={"width": 0}, showlegend=False, **common),
        go.Scatter(
            y=high, line={"width": 0}, fill="tonexty", fillcolor="rgba(125,135,148,0.22)", name="middle 80 %", **common
        ),
        go.Scatter(y=middle, line={"width": 1.5, "color": FAINT}, name="median", **common),
    ]
