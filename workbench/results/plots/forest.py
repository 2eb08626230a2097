"""Which hyperparameters the score depends on: permutation importance, with its uncertainty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from workbench.results.permutation import Problem, Solver
from workbench.results.plots.view import Hyperparameter, View

MIN_TRIALS = 20
"""With fewer completed trials importances mean nothing, and none are computed."""

MAX_TRIALS = 1000
"""More trials are sampled down to so many; the ranking is stable from a few hundred on."""

WEAK_R2 = 0.3
"""Below this share of explained variance a warning stands by the importances."""

TREES = 50
FEW_TRIALS = 300
"""Up to so many trials the folds are drawn twice."""

EPOCHS = "epochs"
"""Stands beside the hyperparameters where trials were trained for different numbers of epochs."""


@dataclass(frozen=True)
class Importances:
    """Importances and how far to trust them.

    Attributes:
        table: one row a hyperparameter, most important first. Columns: name, label, importance (mean over folds of
            how much R^2 falls), importance_std (over folds).
        r2: mean over folds of R^2 on trials that the forest had not seen; at most 1.
        r2_std: over folds.
        trials: how many were used.
        of_trials: how many have completed.
        repeats: how many times the folds were drawn.
    """

    table: pd.DataFrame
    r2: float
    r2_std: float
    trials: int
    of_trials: int
    repeats: int


def begin_importances(view: View, solver: Solver | None = None, seed: int = 0) -> Callable[[], Importances | None]:
    """Begins to find out how much worse a random forest predicts the score when one hyperparameter is shuffled.

    The forest (scikit-learn) is fitted on four fifths of the completed trials, R^2 is measured on the last fifth, then
    again with the values of one hyperparameter shuffled among the trials in which it is active (Breiman, Random
    Forests, Machine Learning 45, 2001, section 10, on held-out trials instead of out-of-bag ones); 5 folds,
    drawn twice if trials are few.
    Logarithmic hyperparameters enter as logarithms, categories one-hot. Where a hyperparameter is not active it enters
    as its usual value, so that what depends on being active at all counts for the one that it is conditional on.

    Args:
        view: the study.
        solver: another process that does the work; None for this one, when the answer is asked for.
        seed: of everything random.

    Returns:
        A function that waits for the importances. They are None if fewer than `MIN_TRIALS` trials have completed, or
        all with one score, or nothing differs between them.
    """
    ranked = view.ranked
    varied = [item for item in view.hyperparameters if ranked[item.column].nunique() > 1]
    if len(ranked) < MIN_TRIALS or ranked["score"].nunique() < 2 or not varied:
        return lambda: None
    used = ranked.sample(MAX_TRIALS, random_state=seed) if len(ranked) > MAX_TRIALS else ranked
    groups = [_encode(used[item.column], item) for item in varied]
    names = [(item.name, item.label) for item in varied]
    if used["epochs"].nunique() > 1:
        groups.append((used[["epochs"]].to_numpy(dtype=float), np.ones(len(used), dtype=bool)))
        names.append((EPOCHS, "epochs trained"))
    repeats = 2 if len(used) <= FEW_TRIALS else 1
    problem = Problem(groups, used["score"].to_numpy(dtype=float), repeats, TREES, seed)
    solve = solver.submit(problem).result if solver is not None else problem.solve

    def finish() -> Importances:
        scores, falls = solve()
        table = pd.DataFrame(names, columns=["name", "label"])
        table["importance"], table["importance_std"] = falls.mean(axis=0), falls.std(axis=0, ddof=1)
        return Importances(
            table=table.sort_values("importance", ascending=False, kind="stable", ignore_index=True),
            r2=float(scores.mean()),
            r2_std=float(scores.std(ddof=1)),
            trials=len(used),
            of_trials=len(ranked),
            repeats=repeats,
        )

    return finish


def _encode(column: pd.Series, item: Hyperparameter) -> tuple[np.ndarray, np.ndarray]:
    """(float columns `(trials, columns)`, whether active `(trials,)`) of one hyperparameter."""
    is_active = column.notna().to_numpy()
    if item.is_number:
        values = column.astype(float).to_numpy()
        values = np.log(values) if item.is_log else values
        return np.where(is_active, values, np.nanmedian(values))[:, None], is_active
    filled = column.fillna(column.mode(dropna=True).iloc[0])
    return np.stack([(filled == value).to_numpy(dtype=float) for value in item.values], axis=1), is_active
