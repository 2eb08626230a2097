"""Figures of costs: the Pareto front of score against size or speed, and failures by reason."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import plotly.graph_objects as go

from workbench.results.plots.look import (
    COLORS,
    FAINT,
    Plot,
    count,
    empty,
    escape,
    figure,
    labelled_bars,
    log_ticks,
    menu,
    number,
    score,
)
from workbench.results.plots.view import View
from workbench.trials import Status

COSTS = {
    "parameters": "parameters",
    "flops": "FLOPs of one image's forward pass",
    "step_ms": "milliseconds a training step",
}
"""What the score is weighed against; smaller is better."""

MAX_REASONS = 12
REASON_LENGTH = 36

_KINDS = {"failed": COLORS[1], "stopped": COLORS[4], "rejected": COLORS[0]}


def pareto(view: View) -> Plot:
    """The trials that no other beats in both score and cost: parameters, FLOPs or step time."""
    name, title = "pareto", "Pareto front of score and cost"
    if view.ranked.empty:
        return empty(name, title, "No trial has completed yet.")
    costs = [cost for cost in COSTS if view.ranked[cost].notna().any()]
    if not costs:
        return empty(name, title, "No trial has known parameters, FLOPs or step time.")
    traces: list[Any] = []
    for place, cost in enumerate(costs):
        traces += [trace.update(visible=place == 0) for trace in _cost_traces(view, cost)]
    updates = [
        [{"visible": [index // 2 == place for index in range(len(traces))]}, _cost_axis(cost)]
        for place, cost in enumerate(costs)
    ]
    made = figure(
        *traces,
        height=420,
        yaxis={"title": {"text": escape(view.study.metric)}},
        xaxis={"type": "log", **log_ticks()},
        updatemenus=[
            menu("cost", [cost.replace("step_ms", "step time").replace("flops", "FLOPs") for cost in costs], updates)
        ],
    )
    made.update_layout(_cost_axis(costs[0]))
    front = front_of(view, costs[0])
    ends = (front.iloc[0], front.iloc[-1])
    small, best = (f"{score(row['score'])} with {number(row[costs[0]])} (trial {row['trial_id']})" for row in ends)
    return Plot(
        name=name,
        title=title,
        figure=made,
        finding=(
            f"{len(front):,} of {count(len(view.ranked), 'completed trial')} are not beaten in both score and "
            f"{costs[0]}: from {small} to {best}."
        ),
        notes=(*view.thinning, "The front is that of all completed trials, at whatever epochs they were trained for."),
    )


def front_of(view: View, cost: str) -> Any:
    """The completed trials with a better score than every cheaper one, cheapest first."""
    sign = 1 if view.study.direction == "max" else -1
    known = view.ranked[view.ranked[cost].notna()]
    ordered = known.assign(_gain=sign * known["score"]).sort_values(
        [cost, "_gain"], ascending=[True, False], kind="stable"
    )
    earlier = ordered["_gain"].cummax().shift(fill_value=-np.inf)
    return ordered[ordered["_gain"] > earlier].drop(columns="_gain")


def _cost_traces(view: View, cost: str) -> list[Any]:
    points = view.shown[view.shown[cost].notna()]
    front = front_of(view, cost)
    hover = "trial %{text}<br>%{y:.4f} with %{x:,} " + ("ms" if cost == "step_ms" else cost) + "<extra></extra>"
    hyperparameters = [
        "<br>".join([escape(row["trial_id"]), *(escape(f"{label} = {value}") for label, value in view.described(row))])
        for _, row in front.iterrows()
    ]
    return [
        go.Scatter(
            x=points[cost].to_numpy(dtype=float),
            y=points["score"].to_numpy(dtype=float),
            text=points["trial_id"].to_numpy(dtype=object),
            mode="markers",
            name="completed trials",
            marker={"size": 6, "opacity": 0.5, "color": FAINT},
            hovertemplate=hover,
        ),
        go.Scatter(
            x=front[cost].to_numpy(dtype=float),
            y=front["score"].to_numpy(dtype=float),
            text=hyperparameters,
            mode="lines+markers",
            name="front",
            line={"shape": "hv", "width": 2, "color": COLORS[1]},
            marker={"size": 8, "color": COLORS[1]},
            hovertemplate=hover,
        ),
    ]


def _cost_axis(cost: str) -> dict[str, Any]:
    return {"xaxis.title.text": COSTS[cost], "xaxis.autorange": True, "yaxis.autorange": True}


def failures(view: View) -> Plot:
    """Trials that failed or were stopped, and proposals that were rejected, by reason."""
    name, title = "failures", "Failures by reason"
    counts: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], str] = {}
    for kind in (str(Status.FAILED), str(Status.STOPPED)):
        for error in view.board.loc[view.board["status"] == kind, "error"]:
            _tally(counts, examples, kind, str(error or "no reason given"))
    for event in view.study.history.rejections:
        _tally(counts, examples, "rejected", str(event.get("reason") or "no reason given"))
    total = len(view.board)
    if not counts:
        return empty(name, title, f"None of {count(total, 'trial')} failed, was stopped or rejected.")
    top = counts.most_common(MAX_REASONS)
    shown = [(kind, examples[kind, pattern], amount) for (kind, pattern), amount in top]
    rest = counts.total() - sum(amount for _, amount in top)
    kinds: Counter[str] = Counter()
    for (kind, _), amount in counts.items():
        kinds[kind] += amount
    bars = [
        go.Bar(
            x=[amount if kind == color_of else None for kind, _, amount in shown],
            text=[f"{amount:,}" for *_, amount in shown],
            textposition="auto",
            textangle=0,
            customdata=[_wrapped(reason) for _, reason, _ in shown],
            name=color_of,
            marker={"color": color},
            hovertemplate="%{x:,} %{fullData.name}<br>%{customdata}<extra></extra>",
        )
        for color_of, color in _KINDS.items()
        if color_of in kinds
    ]
    made = labelled_bars(
        bars,
        [f"{_cut(reason)} ({kind})" for kind, reason, _ in shown],
        xaxis={"title": {"text": "trials or proposals"}, "tickformat": ",d", "rangemode": "tozero"},
        showlegend=len(bars) > 1,
    )
    told = ", ".join(f"{amount:,} {kind}" for kind, amount in kinds.items())
    kind, reason, amount = shown[0]
    notes = ["Reasons that differ only in numbers are counted together, under the first one seen."]
    if rest:
        notes.append(f"Left out: {count(rest, 'case')} of {len(counts) - len(shown):,} rarer reasons.")
    return Plot(
        name=name,
        title=title,
        figure=made,
        finding=(
            f"Of {count(total, 'trial')} and {count(len(view.study.history.rejections), 'rejection')}: {told}. "
            f"Most often ({amount:,}, {kind}): {_cut(reason, 200)}"
        ),
        notes=tuple(notes),
    )


def _tally(counts: Counter[tuple[str, str]], examples: dict[tuple[str, str], str], kind: str, reason: str) -> None:
    key = kind, re.sub(r"\d[\d.,e+-]*", "#", reason)
    counts[key] += 1
    examples.setdefault(key, reason)


def _cut(reason: str, length: int = REASON_LENGTH) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def _wrapped(reason: str) -> str:
    """For a hover box: lines of at most 80 characters, ten of them."""
    words = _cut(reason, 800)
    return "<br>".join(escape(words[start : start + 80]) for start in range(0, len(words), 80))
