"""The leaderboard as a report's page holds it: columns of plain values, so that 10,000 rows stay small."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from workbench.results.plots.view import View

COLUMNS = {
    "rank": ("rank", "count"),
    "trial_id": ("trial", "text"),
    "status": ("status", "text"),
    "score": ("score", "score"),
    "score_std": ("score std", "score"),
    "confirmed_score": ("confirmed score", "score"),
    "confirmed_seeds": ("new seeds", "count"),
    "best_epoch": ("best epoch", "count"),
    "epochs": ("epochs", "count"),
    "rung": ("rung", "count"),
    "parameters": ("parameters", "count"),
    "flops": ("FLOPs", "count"),
    "seconds": ("seconds", "decimal"),
    "step_ms": ("step ms", "decimal"),
    "images_per_s": ("images/s", "decimal"),
}
"""What the page's leaderboard shows before the hyperparameters that differ: heading and kind by column."""

ERROR_LENGTH = 300


def board_data(view: View, max_rows: int) -> dict[str, Any]:
    """The best rows of the leaderboard, then the trials without a rank.

    Returns:
        columns: each with key, label, kind ("text", "count", "score", "decimal", "value") and values, best trial
            first; texts that repeat are numbers into `texts`, in which they stand once.
        total: how many trials there are; rows: how many are in the page.
        direction: "max" or "min". styles: colour and dash of the best trials.
    """
    frame = view.board.head(max_rows)
    columns = [
        _column(name, label, kind, frame[name])
        for name, (label, kind) in COLUMNS.items()
        if name in ("rank", "trial_id", "score") or (name in frame and frame[name].notna().any())
    ]
    for item in view.hyperparameters:
        kind = "value" if item.is_number else "text"
        columns.append(_column(item.column, item.label, kind, frame[item.column]))
    if frame["error"].notna().any():
        errors = frame["error"].map(lambda text: str(text)[:ERROR_LENGTH], na_action="ignore")
        columns.append(_column("error", "error", "text", errors))
    return {
        "columns": columns,
        "total": len(view.board),
        "rows": len(frame),
        "direction": view.study.direction,
        "statuses": list(view.board["status"].unique()),
        "styles": view.styles,
    }


def _column(name: str, label: str, kind: str, values: pd.Series) -> dict[str, Any]:
    column: dict[str, Any] = {"key": name, "label": label, "kind": kind}
    if kind == "text" and name != "trial_id":
        codes, texts = pd.factorize(values.map(_text, na_action="ignore"))
        return {**column, "texts": list(texts), "values": codes.tolist()}
    if kind == "text":
        return {**column, "values": list(values)}
    if kind == "count":
        numbers = values.astype("Int64").to_numpy(dtype="float64", na_value=math.nan).tolist()
        return {**column, "values": [None if value != value else int(value) for value in numbers]}
    # Distinct values only: most hyperparameters have few.
    codes, distinct = pd.factorize(values.astype(float))
    rounded = [float(f"{value:.6g}") for value in distinct]
    return {**column, "values": [None if code < 0 else rounded[code] for code in codes.tolist()]}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
