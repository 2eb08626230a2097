"""How plots look: colours that hold in light and dark and for colour-blind readers, templates, words and numbers."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

THEMES: dict[str, dict[str, str]] = {
    "light": {
        "page": "#f4f5f7",
        "panel": "#ffffff",
        "ink": "#1a2029",
        "muted": "#56606d",
        "line": "#dde1e6",
        "accent": "#0a66a8",
        "faint": "#7d8794",
    },
    "dark": {
        "page": "#0f1216",
        "panel": "#171b21",
        "ink": "#e7eaee",
        "muted": "#a3adb9",
        "line": "#2d343d",
        "accent": "#6cb6f0",
        "faint": "#7d8794",
    },
}
"""The colours of page and plots, by theme."""

COLORS = ("#0f7cc0", "#d55e00", "#00916a", "#c0609b", "#9a7600")
"""Okabe and Ito's colours that can be told apart with any colour vision (https://jfly.uni-koeln.de/color/), each moved
until it has a contrast of 3 or more against the panels of both themes."""

NO_TRIALS = "No trial has completed yet."
NOTHING_VARIES = "No hyperparameter differs between the completed trials."

DASHES = ("solid", "dash", "dot")
"""What tells lines of one colour apart."""

FAINT = THEMES["light"]["faint"]
"""What is not singled out; the same in both themes."""

# Ends of cividis, which colour-blind readers see as others do; the best score is what stands out from the panel.
_SCALES = {
    "light": ((0.0, "#d9cd8a"), (0.5, "#7c7b78"), (1.0, "#00306f")),
    "dark": ((0.0, "#3d5277"), (0.5, "#8c8a83"), (1.0, "#fde737")),
}

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A figure and what it says in words.

    Attributes:
        name: one of `PLOTS`.
        title: a short heading.
        figure: the Plotly figure; it says so itself where there is nothing to draw.
        finding: the main finding in a sentence, which stands for the figure where it cannot be seen.
        notes: how it was made, what was left out.
        is_empty: whether there is nothing to draw.
    """

    name: str
    title: str
    figure: go.Figure
    finding: str
    notes: tuple[str, ...] = ()
    is_empty: bool = False


def template(theme: str) -> go.layout.Template:
    """The Plotly template of a theme, "light" or "dark"."""
    colors = THEMES[theme]
    axis = {
        "gridcolor": colors["line"],
        "linecolor": colors["line"],
        "zerolinecolor": colors["line"],
        "tickcolor": colors["line"],
        "automargin": True,
        "title": {"standoff": 10},
    }
    return go.layout.Template(
        layout={
            "font": {"family": FONT, "size": 13, "color": colors["ink"]},
            "paper_bgcolor": colors["panel"],
            "plot_bgcolor": colors["panel"],
            "colorway": list(COLORS),
            "coloraxis": {
                "colorscale": [list(stop) for stop in _SCALES[theme]],
                "colorbar": {"thickness": 12, "outlinewidth": 0},
            },
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {
                "bgcolor": colors["panel"],
                "bordercolor": colors["muted"],
                "font": {"color": colors["ink"], "family": FONT, "size": 12},
                "align": "left",
            },
            "legend": {
                "orientation": "h",
                "yanchor": "bottom",
                "y": 1.02,
                "xanchor": "left",
                "x": 0,
                "traceorder": "normal",
            },
            "margin": {"l": 56, "r": 16, "t": 40, "b": 48},
        }
    )


def figure(*traces: Any, height: int = 380, **layout: Any) -> go.Figure:
    """A figure of `height` pixels in the light theme, as wide as there is room."""
    made = go.Figure(list(traces))
    made.update_layout(template=template("light"), height=height, **layout)
    return made


def labelled_bars(bars: Sequence[go.Bar], labels: Sequence[str], **layout: Any) -> go.Figure:
    """Horizontal bars, the first on top, each under its label, as beside it there is no room on a phone.

    Args:
        bars: traces with one `x` a label, None where it is another trace's.
        labels: what stands above each; not escaped yet.
    """
    places = range(len(labels), 0, -1)
    for bar in bars:
        bar.update(y=[place - 0.2 for place in places], width=0.36, orientation="h")
    texts = go.Scatter(
        x=[0] * len(labels),
        y=[place + 0.2 for place in places],
        text=[escape(label) for label in labels],
        mode="text",
        textposition="middle right",
        cliponaxis=False,
        hoverinfo="skip",
        showlegend=False,
    )
    made = figure(*bars, texts, height=120 + 44 * len(labels), barmode="overlay", **layout)
    made.update_layout(
        yaxis={"visible": False, "range": [0.4, len(labels) + 0.6], "fixedrange": True}, margin={"l": 12}
    )
    return made


def empty(name: str, title: str, reason: str) -> Plot:
    """A plot of nothing that says why."""
    made = figure(height=120, xaxis={"visible": False}, yaxis={"visible": False})
    made.add_annotation(text=escape(reason), showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper")
    return Plot(name=name, title=title, figure=made, finding=reason, is_empty=True)


def line_style(position: int) -> dict[str, str]:
    """Colour and dash of the trial or study at a position from 0; they repeat after fifteen."""
    return {"color": COLORS[position % len(COLORS)], "dash": DASHES[position // len(COLORS) % len(DASHES)]}


def menu(
    name: str, labels: Sequence[str], updates: Sequence[Sequence[dict[str, Any]]], kind: str = "buttons"
) -> dict[str, Any]:
    """A Plotly update menu above the figure: "buttons" in a row, or a "dropdown"; the report makes HTML of it."""
    return {
        "name": name,
        "type": kind,
        "direction": "right" if kind == "buttons" else "down",
        "x": 1,
        "xanchor": "right",
        "y": 1.02,
        "yanchor": "bottom",
        "showactive": True,
        "buttons": [
            {"label": label, "method": "update", "args": list(args)}
            for label, args in zip(labels, updates, strict=True)
        ],
    }


def log_ticks() -> dict[str, Any]:
    """Ticks at 1, 2 and 5 times the powers of ten, for a logarithmic axis."""
    places = [step * 10.0**power for power in range(-9, 13) for step in (1, 2, 5)]
    return {"tickmode": "array", "tickvals": places, "ticktext": [_short(place) for place in places]}


def _short(value: float) -> str:
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:.12g}" if value >= 1e-4 else f"{value:.0e}"


def escape(text: object) -> str:
    """Text of users and plugins for a figure, in which Plotly would read HTML."""
    return html.escape(str(text), quote=False)


def number(value: object) -> str:
    """A value as figures and sentences show it."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.6g}"
    if isinstance(value, int | float) and math.isfinite(value):
        return f"{int(value):,}"
    return str(value)


def score(value: float) -> str:
    """A score with four digits."""
    return f"{value:.4f}"


def duration(seconds: float) -> str:
    """Seconds as people say them: "48 s", "12 min", "3.5 h"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def count(amount: int, word: str) -> str:
    """A number with its noun: "1 trial", "2,000 trials"."""
    return f"{amount:,} {word}" if amount == 1 else f"{amount:,} {word}s"
