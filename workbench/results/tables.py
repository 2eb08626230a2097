"""The tables of a study as DataFrames: one row a trial, one row an epoch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from workbench.tpu.stored import COLUMNS as TPU_COLUMNS
from workbench.trials import History, Status, Trial, trial_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

EPOCH_COLUMNS = ("trial_id", "execution", "epoch", "learning_rate", "seconds", "step_ms", "images_per_s")

_TYPES = {
    "trial_id": "str",
    "status": "str",
    "device": "str",
    "error": "str",
    "score": "float64",
    "score_std": "float64",
    "last_score": "float64",
    "best_epoch": "Int64",
    "epochs": "Int64",
    "bracket": "Int64",
    "rung": "Int64",
    "parameters": "Int64",
    "flops": "Int64",
    "mxu_fill": "float64",
    "seconds": "float64",
    "step_ms": "float64",
    "images_per_s": "float64",
    "replicas": "Int64",
    "seed": "Int64",
}


def trials_table(
    history: History,
    *,
    until: int | None = None,
    trials: Iterable[Trial] | None = None,
    tpu: Mapping[str, Mapping[str, Any]] | None = None,
) -> pd.DataFrame:
    """One row a trial, in order of first proposal, with `TRIAL_COLUMNS` and a column `hp.NAME` a hyperparameter.

    Args:
        history: of the study.
        until: look at the first so many epochs only; trials with fewer are left out.
        trials: those to list; by default all.
        tpu: what the TPU compiler said by trial_id, see `workbench.tpu.stored`; its columns stand before `hp.NAME`,
            and only if there is anything in them.
    """
    chosen = list(history.trials.values() if trials is None else trials)
    names: dict[str, None] = {}
    for trial in chosen:
        names.update(dict.fromkeys(trial.values))
    if until is not None:
        chosen = [trial for trial in chosen if trial.epochs >= until]
    # By columns: from a list of rows, pandas takes ten times as long.
    columns = {
        name: pd.Series(column, dtype=_TYPES.get(name))
        for name, column in trial_columns(chosen, history.metric, history.direction, until).items()
    }
    columns["started_at"] = pd.to_datetime(columns["started_at"], utc=True, errors="coerce", format="ISO8601")
    for name in TPU_COLUMNS if tpu else ():
        found = [(tpu or {}).get(trial.trial_id, {}).get(name) for trial in chosen]
        columns[name] = pd.Series(found, dtype="object" if name == "tpu.topology" else "float64")
    # Row by row, as each trial's values lie together in memory; then turned over.
    values = [[trial.values.get(name, math.nan) for name in names] for trial in chosen]
    for name, column in zip(names, zip(*values, strict=True) if values else [()] * len(names), strict=True):
        columns[f"hp.{name}"] = pd.Series(list(column))
    return pd.DataFrame(columns)


def epochs_table(history: History) -> pd.DataFrame:
    """One row a trial, execution and epoch (from 1), with every metric and `learning_rate`."""
    rows = [
        {
            "trial_id": trial.trial_id,
            "execution": number,
            "epoch": epoch,
            **event["metrics"],
            **{name: event.get(name) for name in EPOCH_COLUMNS[3:]},
        }
        for trial in history.trials.values()
        for number, execution in trial.executions.items()
        for epoch, event in execution.epochs.items()
    ]
    metrics = list(dict.fromkeys(name for row in rows for name in row if name not in EPOCH_COLUMNS))
    return pd.DataFrame(rows, columns=[*EPOCH_COLUMNS[:3], *metrics, *EPOCH_COLUMNS[3:]])


def rank(trials: pd.DataFrame, *, direction: str, all_statuses: bool = False) -> pd.DataFrame:
    """The leaderboard: completed trials, higher rung first, then score; a column `rank` in front.

    Args:
        trials: as `trials_table` gives it.
        direction: "max" or "min".
        all_statuses: list the others too, after the completed ones.
    """
    is_completed = trials["status"] == str(Status.COMPLETED)
    chosen = trials if all_statuses else trials[is_completed]
    keys = pd.DataFrame(
        {
            "others": ~is_completed[chosen.index],
            "rung": -chosen["rung"].fillna(0).astype("int64"),
            "score": -chosen["score"] if direction == "max" else chosen["score"],
        }
    )
    ordered = chosen.loc[keys.sort_values(["others", "rung", "score"], kind="stable", na_position="last").index]
    ordered = ordered.reset_index(drop=True)
    ordered.insert(0, "rank", pd.Series(range(1, len(ordered) + 1), dtype="Int64"))
    ordered.loc[ordered["status"] != str(Status.COMPLETED), "rank"] = pd.NA
    return ordered


def leading_trials(history: History, top: int, *, all_statuses: bool = False) -> list[Trial]:
    """The first trials of the leaderboard, without making a table of the others."""
    trials = list(history.trials.values())
    keys = pd.DataFrame(
        {
            "trial_id": [trial.trial_id for trial in trials],
            "status": [str(trial.status) for trial in trials],
            "rung": pd.Series([trial.rung for trial in trials], dtype="Int64"),
            "score": pd.Series([_known_score(trial, history) for trial in trials], dtype="float64"),
        }
    )
    board = rank(keys, direction=history.direction, all_statuses=all_statuses)
    return [history.trials[trial_id] for trial_id in board["trial_id"].head(top)]


def _known_score(trial: Trial, history: History) -> float | None:
    if trial.status is Status.COMPLETED:
        # From the journal: to look through all epochs of all trials takes longer than everything else.
        return trial.journaled_score
    return None if trial.status is Status.FAILED else trial.score(history.metric, history.direction)


def mark_confirmed(board: pd.DataFrame, scores: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """A leaderboard with the columns `confirmed_score` (the mean) and `confirmed_seeds` at the end.

    Args:
        board: as `rank` gives it.
        scores: trial_id -> validation scores of its retrainings, at least one.
    """
    means = {trial_id: sum(found) / len(found) for trial_id, found in scores.items()}
    counts = {trial_id: len(found) for trial_id, found in scores.items()}
    return board.assign(
        confirmed_score=board["trial_id"].map(means).astype("float64"),
        confirmed_seeds=board["trial_id"].map(counts).astype("Int64"),
    )
