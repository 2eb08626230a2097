"""Several studies compared, from Python and for the command line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import StudyError, UsageError
from workbench.journal import paused_collector
from workbench.study import Study, open_study

if TYPE_CHECKING:
    import pandas as pd

    Studies = Iterable[str | Path | Study]


def compare(studies: Studies, *, target: float | None = None) -> pd.DataFrame:
    """One row a study: its best trial, when it reached its target, what it spent, and what is different about it.

    Columns: `workbench.results.comparison.COMPARE_COLUMNS`, then `definition.KEY` for each key of the definitions
    that differs. `best` is the leaderboard's first score, `best_trial` its trial, and `parameters` and `flops` are of
    it; `target_trials`, `target_epochs` and `target_seconds` say how much had been trained when a completed trial
    first reached the target.

    Args:
        studies: their directories, or studies; one that is named twice is listed once.
        target: the objective's value to look for in all of them; by default each one's own.

    Raises:
        StudyError: one or more cannot be read; the message has them all.
        UsageError: there are none.
    """
    from workbench.results.comparison import studies_table

    return studies_table(labelled(studies), target)


def compare_trials(studies: Studies, *, anyway: bool = False) -> pd.DataFrame:
    """The completed trials of all studies as one leaderboard, with a column `study`.

    Args:
        studies: as for `compare`.
        anyway: rank them even if objectives, data or splits differ, in the first study's direction.

    Raises:
        StudyError: one or more cannot be read, or their scores do not compare.
        UsageError: there are none.
    """
    from workbench.results.comparison import ranked_together

    return ranked_together(labelled(studies), anyway=anyway)


def compare_curves(studies: Studies, *, against: str = "epochs") -> pd.DataFrame:
    """Each study's `Study.best_so_far`, one below the other, with a column `study` in front.

    Raises:
        StudyError: one or more cannot be read, or `against` is none of "trials", "epochs" and "seconds".
        UsageError: there are none.
    """
    import pandas as pd

    curves = {label: study.best_so_far(against) for label, study in labelled(studies).items()}
    for label, curve in curves.items():
        curve.insert(0, "study", label)
    filled = [curve for curve in curves.values() if len(curve)]
    return pd.concat(filled or list(curves.values()), ignore_index=True)


def labelled(studies: Studies) -> dict[str, Study]:
    """Opens studies; by name, or by path where two have one name.

    Raises:
        StudyError: one or more cannot be read; the message has them all.
        UsageError: there are none.
    """
    opened: dict[Path, Study] = {}
    problems = []
    with paused_collector():
        for item in studies:
            try:
                study = item if isinstance(item, Study) else open_study(item)
                opened.setdefault(study.path.resolve(), study)
            except StudyError as error:
                problems.append(str(error))
    if problems:
        raise StudyError("\n".join(dict.fromkeys(problems)))
    if not opened:
        raise UsageError("a comparison takes one study or more; received none")
    names = [study.name for study in opened.values()]
    return {study.name if names.count(study.name) == 1 else str(study.path): study for study in opened.values()}
