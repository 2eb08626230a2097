"""Figures of the search space: parallel coordinates, importance, score against each hyperparameter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from workbench.results.permutation import FOLDS, PERMUTATIONS
from workbench.results.plots.forest import (
    MIN_TRIALS,
    TREES,
    WEAK_R2,
    Importances,
)
from workbench.results.plots.look import (
    COLORS,
    FAINT,
    NO_TRIALS,
    NOTHING_VARIES,
    Plot,
    count,
    empty,
    escape,
    figure,
    labelled_bars,
    number,
)
from workbench.results.plots.view import TOP, Hyperparameter, View

MAX_AXES = 12
"""Parallel coordinates of more hyperparameters cannot be read."""

MAX_BARS = 12
TICK_LENGTH = 14


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
    return Plot(name=name, title=title, figure=made, finding=_in_common(view, shown), notes=tuple(notes))


def _in_common(view: View, shown: list[Hyperparameter]) -> str:
    """What most of the best trials have and not most of all: four fifths of the best, at most half as many of all."""
    top = view.ranked.head(TOP)
    found = []
    for item in shown:
        if item.is_category and top[item.column].notna().any():
            value = top[item.column].mode().iloc[0]
            among, overall = (frame[item.column] == value for frame in (top, view.ranked))
            if among.mean() >= 0.8 and overall.mean() <= 0.5 * among.mean() + 0.1:
                found.append(f"{item.label} = {number(value)} ({among.sum()} of them, {overall.mean():.0%} of all)")
    if not found:
        return f"The best {count(len(top), 'trial')} share no value of a hyperparameter that is rare among all."
    return f"What the best {count(len(top), 'trial')} share: {', '.join(found)}."


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
        values = np.array(
            [codes.get(value, -1) if active else -1 for value, active in zip(column, is_active, strict=True)]
        )
        ticks, texts = [float(code) for code in range(len(codes))], [number(value) for value in codes]
        below = -1.0
    else:
        numbers = column.astype(float).to_numpy()
        values = np.log10(numbers) if item.is_log else numbers
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        ticks = list(np.linspace(low, high, 5))
        texts = [f"{10**tick:.2g}" if item.is_log else number(float(f"{tick:.3g}")) for tick in ticks]
        below = low - 0.2 * (high - low)
        values = np.where(is_active, values, below)
    texts = [text if len(text) <= TICK_LENGTH else f"{text[: TICK_LENGTH - 1]}…" for text in texts]
    if not is_active.all():
        ticks, texts = [below, *ticks], ["none", *texts]
    return {
        "label": escape(item.label),
        "values": values.astype(float),
        "tickvals": ticks,
        "ticktext": [escape(text) for text in texts],
        "range": [min(ticks), max(ticks)] if max(ticks) > min(ticks) else None,
    }


def importance(view: View) -> Plot:
    """How much a random forest needs each hyperparameter to predict the score, with the spread over folds."""
    name, title = "importance", "Hyperparameter importance"
    found = view.importances
    if found is None:
        return empty(name, title, _why_no_importance(view))
    table = found.table.head(MAX_BARS)
    bar = go.Bar(
        x=table["importance"],
        customdata=[escape(label) for label in table["label"]],
        marker={"color": COLORS[0] if found.r2 >= WEAK_R2 else FAINT},
        error_x={"type": "data", "array": table["importance_std"], "color": FAINT, "thickness": 1.5},
        hovertemplate="%{customdata}: %{x:.3f} ± %{error_x.array:.3f}<extra></extra>",
    )
    made = labelled_bars(
        [bar], list(table["label"]), xaxis={"title": {"text": "fall of R² when shuffled"}}, showlegend=False
    )
    notes = _importance_notes(found)
    if len(found.table) > MAX_BARS:
        notes = (f"Left out: the {len(found.table) - MAX_BARS} least important ones.", *notes)
    return Plot(name=name, title=title, figure=made, finding=_importance_finding(found), notes=notes)


def _why_no_importance(view: View) -> str:
    if len(view.ranked) < MIN_TRIALS:
        return f"Importances need {MIN_TRIALS} completed trials; there are {len(view.ranked)}."
    return "All completed trials have the same score, or the same hyperparameters: nothing to explain."


def _importance_finding(found: Importances) -> str:
    told = f"cross-validated R² {found.r2:.2f} ± {found.r2_std:.2f}"
    if found.r2 < WEAK_R2:
        return (
            f"Do not rely on this ranking: the forest explains too little of the scores ({told}; below {WEAK_R2} it "
            "says little). More trials help, or the score depends mostly on chance."
        )
    top = found.table.iloc[0]
    clear = found.table[found.table["importance"] > 2 * found.table["importance_std"]]["label"]
    others = f" Clearly above their spread (2 standard deviations): {', '.join(clear)}." if len(clear) else ""
    value = f"{top['importance']:.2f} ± {top['importance_std']:.2f}"
    return f"The score depends most on {top['label']} ({value}; {told}).{others}"


def _importance_notes(found: Importances) -> tuple[str, ...]:
    sampled = f"a seeded sample of {found.trials:,} of " if found.trials < found.of_trials else ""
    folds = f"{FOLDS} folds{', drawn twice,' if found.repeats > 1 else ''} of {sampled}"
    return (
        f"Permutation importance (Breiman 2001): a random forest of {TREES} trees predicts the score of held-out "
        f"trials; a bar says how much its R² falls when one hyperparameter is shuffled, {PERMUTATIONS} times. Bars are "
        f"means, whiskers one standard deviation, over {folds}{found.of_trials:,} completed trials.",
        "It says what the forest uses within the ranges that were searched, not what causes what; correlated "
        "hyperparameters share their importance. An inactive one counts for the one that it is conditional on.",
    )
