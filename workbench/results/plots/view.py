"""A study as its plots see it: every table made once, hyperparameters with their kinds, the trials that are shown."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from workbench.results.plots.look import line_style, number
from workbench.trials import Status

if TYPE_CHECKING:
    from workbench.results.permutation import Solver
    from workbench.results.plots.forest import Importances
    from workbench.study import Study

TOP = 10
"""So many of the best trials have a colour of their own, the same in every figure and table."""

BEST_SHOWN = 1000
OTHERS_SHOWN = 1000
"""Figures of single trials show the best and a sample of the others, not more."""

FEW_VALUES = 8
"""A number that takes at most so many values, in steps, is drawn as categories."""


@dataclass(frozen=True, kw_only=True)
class Hyperparameter:
    """A hyperparameter that differs between a study's trials.

    Attributes:
        name: in full, "COMPONENT/NAME".
        label: the shortest name that is unambiguous in the study.
        is_number: whether all of its values are numbers.
        is_log: whether it is searched on a logarithmic scale.
        is_category: whether it is drawn as categories: texts, and numbers in few steps.
        values: its distinct values: numbers ascending, others in the order of the search space.
    """

    name: str
    label: str
    is_number: bool
    is_log: bool
    is_category: bool
    values: tuple[Any, ...]

    @property
    def column(self) -> str:
        """Its column in the table of trials."""
        return f"hp.{self.name}"


class View:
    """Everything that figures and report take from one study.

    Attributes:
        study: it.
        position: its place among the studies of a report, from 0, which gives its colour.
    """

    def __init__(self, study: Study, position: int = 0):
        self.study = study
        self.position = position
        self._finish_importances: Callable[[], Importances | None] | None = None

    @functools.cached_property
    def board(self) -> pd.DataFrame:
        """All trials, ranked ones first."""
        return self.study.leaderboard(all_statuses=True)

    @functools.cached_property
    def proposed(self) -> pd.DataFrame:
        """All trials, in order of first proposal."""
        order = {trial_id: place for place, trial_id in enumerate(self.study.history.trials)}
        return self.board.sort_values("trial_id", key=lambda ids: ids.map(order), kind="stable")

    @functools.cached_property
    def ranked(self) -> pd.DataFrame:
        """The completed trials with a score, best first."""
        is_completed = self.board["status"] == str(Status.COMPLETED)
        return self.board[is_completed & self.board["score"].notna()]

    @functools.cached_property
    def shown(self) -> pd.DataFrame:
        """The ranked trials that figures of single trials show: the best and a seeded sample of the others."""
        best, others = self.ranked.iloc[:BEST_SHOWN], self.ranked.iloc[BEST_SHOWN:]
        if len(others) > OTHERS_SHOWN:
            others = others.sample(OTHERS_SHOWN, random_state=0).sort_index()
        return pd.concat([best, others]) if len(others) else best

    @property
    def thinning(self) -> tuple[str, ...]:
        """A sentence on what `shown` leaves out; empty if that is nothing."""
        left_out = len(self.ranked) - len(self.shown)
        if not left_out:
            return ()
        others = len(self.ranked) - BEST_SHOWN
        return (
            f"Shown: the best {BEST_SHOWN:,} completed trials and a seeded sample of {OTHERS_SHOWN:,} "
            f"of the {others:,} others.",
        )

    @functools.cached_property
    def hyperparameters(self) -> tuple[Hyperparameter, ...]:
        """Those that differ between trials, in the order of the search space."""
        columns = [name for name in self.board.columns if name.startswith("hp.")]
        varied = [name for name in columns if self.board[name].nunique() > 1]
        labels = short_names([name.removeprefix("hp.") for name in columns])
        space = self.study.history.space.get("space") or {}
        known = {item["config"]["name"]: item["config"] for item in space.get("space", ())}
        ordered = sorted(varied, key=lambda name: _place(list(known), name.removeprefix("hp.")))
        return tuple(
            _hyperparameter(name.removeprefix("hp."), labels, self.board[name], known.get(name.removeprefix("hp."), {}))
            for name in ordered
        )

    @functools.cached_property
    def importances(self) -> Importances | None:
        """What the score depends on; None if that cannot be told."""
        if self._finish_importances is None:
            self.begin_importances()
        return self._finish_importances() if self._finish_importances is not None else None

    def begin_importances(self, solver: Solver | None = None) -> None:
        """Has another process compute `importances`, so that they are there when they are asked for."""
        from workbench.results.plots.forest import begin_importances

        self._finish_importances = begin_importances(self, solver)

    @functools.cached_property
    def progress(self) -> pd.DataFrame:
        """The best score so far, one row a trial's (or rung's) end; see `Study.best_so_far`."""
        return self.study.best_so_far("trials")

    @functools.cached_property
    def styles(self) -> dict[str, dict[str, str]]:
        """Colour and dash of the best trials, by trial_id."""
        return {trial_id: line_style(place) for place, trial_id in enumerate(self.ranked["trial_id"].iloc[:TOP])}

    def described(self, row: pd.Series) -> list[tuple[str, str]]:
        """(label, value) of each active hyperparameter that differs between trials."""
        return [
            (item.label, number(row[item.column])) for item in self.hyperparameters if not _is_missing(row[item.column])
        ]

    @property
    def target(self) -> float | None:
        """The objective's target."""
        value = self.study.definition["objective"].get("target")
        return None if value is None else float(value)

    def is_reached(self, score: float) -> bool:
        """Whether a score reaches the target; False without one."""
        if self.target is None:
            return False
        return score >= self.target if self.study.direction == "max" else score <= self.target


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Names of hyperparameters without their component, where that leaves them distinct."""
    short = {name: name.partition("/")[2] or name for name in names}
    counts = Counter(short.values())
    return {name: short[name] if counts[short[name]] == 1 else name for name in names}


def _place(order: list[str], name: str) -> int:
    return order.index(name) if name in order else len(order)


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or value != value


def _hyperparameter(name: str, labels: dict[str, str], column: pd.Series, config: dict[str, Any]) -> Hyperparameter:
    distinct = list(column.dropna().unique())
    is_number = all(isinstance(value, int | float) and not isinstance(value, bool) for value in map(_plain, distinct))
    if is_number:
        distinct.sort()
    else:
        order = [str(value) for value in config.get("values", ())]
        distinct.sort(key=lambda value: (_place(order, str(value)), str(value)))
    is_stepped = "values" in config or config.get("step") is not None
    return Hyperparameter(
        name=name,
        label=labels[name],
        is_number=is_number,
        is_log=is_number and config.get("sampling") == "log" and min(distinct) > 0,
        is_category=not is_number or (is_stepped and len(distinct) <= FEW_VALUES),
        values=tuple(map(_plain, distinct)),
    )


def _plain(value: Any) -> Any:
    """A Python value for one of NumPy's."""
    return value.item() if hasattr(value, "item") else value
