"""Studies side by side: one row a study, and what differs between their definitions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from workbench.definition.problems import format_path
from workbench.errors import StudyError
from workbench.results.tables import rank
from workbench.trials import Status

if TYPE_CHECKING:
    from workbench.study import Study

COMPARE_COLUMNS = (
    "study",
    "best",
    "best_trial",
    "metric",
    "direction",
    "target",
    "target_reached",
    "target_trials",
    "target_epochs",
    "target_seconds",
    "trials",
    *(str(status) for status in Status),
    "epochs",
    "seconds",
    "images_per_s",
    "parameters",
    "flops",
    "fingerprint",
)
"""The table of studies before its `definition.KEY` columns."""

_COUNTS = ("target_trials", "target_epochs", "trials", *(str(status) for status in Status), "epochs", "parameters")
_TYPES = {
    "best": "float64",
    "target": "float64",
    "target_reached": "boolean",
    "target_seconds": "float64",
    "seconds": "float64",
    "images_per_s": "float64",
    "flops": "Int64",
    **dict.fromkeys(_COUNTS, "Int64"),
}


def studies_table(studies: Mapping[str, Study], target: float | None = None) -> pd.DataFrame:
    """One row a study, with `COMPARE_COLUMNS` and a column `definition.KEY` for each key that differs.

    Args:
        studies: by what to call them.
        target: of all of them, in place of each one's own.
    """
    frame = pd.DataFrame([_row(label, study, target) for label, study in studies.items()], columns=[*COMPARE_COLUMNS])
    frame = frame.astype(_TYPES)
    for key, values in differences_table(studies).set_index("key").iterrows():
        frame[f"definition.{key}"] = _column(values.to_list())
    return frame


def _column(values: list[Any]) -> pd.Series[Any]:
    """Whole numbers stay whole where some are missing."""
    kinds = {type(value) for value in values if value is not None}
    dtype = {frozenset({int}): "Int64", frozenset({bool}): "boolean"}.get(frozenset(kinds))
    return pd.Series(values, dtype=dtype)


def _row(label: str, study: Study, target: float | None) -> dict[str, Any]:
    trials = study.trials()
    board = rank(trials, direction=study.direction)
    best = board.iloc[0] if len(board) else None
    if target is None:
        target = study.definition["objective"].get("target")
    history = study.history
    return {
        "study": label,
        "best": best["score"] if best is not None else None,
        "best_trial": best["trial_id"] if best is not None else None,
        "metric": study.metric,
        "direction": study.direction,
        "target": target,
        **_time_to_target(study, target),
        "trials": len(trials),
        **{str(status): int((trials["status"] == str(status)).sum()) for status in Status},
        "epochs": history.epochs,
        "seconds": history.seconds,
        "images_per_s": trials["images_per_s"].median(),
        "parameters": best["parameters"] if best is not None else None,
        "flops": best["flops"] if best is not None else None,
        "fingerprint": fingerprint(study),
    }


def _time_to_target(study: Study, target: float | None) -> dict[str, Any]:
    """Whether a target was reached, and after how many trials, epochs and seconds."""
    if target is None:
        return {}
    curve = study.best_so_far("epochs")
    is_there = curve["best"] >= target if study.direction == "max" else curve["best"] <= target
    if not is_there.any():
        return {"target_reached": False}
    first = curve[is_there].iloc[0]
    spent = {f"target_{name}": first[name] for name in ("trials", "epochs", "seconds")}
    return {"target_reached": True, **spent}


def fingerprint(study: Study) -> str | None:
    """The sha256 of the study's data and splits, or None for a study that has not got as far."""
    found = study.history.space.get("facts", {}).get("fingerprint")
    return str(found) if found is not None else None


def differences_table(studies: Mapping[str, Study]) -> pd.DataFrame:
    """What differs between the definitions: a column `key`, and one column a study; None where a key is not given.

    Lists are JSON text. The summary counts as no difference.
    """
    flat = {label: dict(_leaves(study.definition, ())) for label, study in studies.items()}
    keys = dict.fromkeys(key for values in flat.values() for key in values)
    rows = []
    for key in keys:
        values = [own.get(key) for own in flat.values()]
        # As text: to Python true and 1 are equal.
        if len({json.dumps(value) for value in values}) > 1:
            rows.append([key, *values])
    return pd.DataFrame(rows, columns=["key", *studies], dtype=object)


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if (*path, key) != ("summary",):
                yield from _leaves(item, (*path, key))
    else:
        yield format_path(path), value if isinstance(value, bool | int | float | str) else json.dumps(value)


def ranked_together(studies: Mapping[str, Study], *, anyway: bool = False) -> pd.DataFrame:
    """The completed trials of all studies as one leaderboard, with a column `study` after `rank`.

    Rungs go first, as in a leaderboard, where the studies' tuners and epochs are the same; otherwise they say nothing
    across studies, and the score alone counts.

    Args:
        studies: by what to call them.
        anyway: rank what cannot be compared, in the first one's direction.

    Raises:
        StudyError: objectives, data or splits differ.
    """
    if not anyway:
        _check_comparable(studies)
    frames = [study.trials().assign(study=label) for label, study in studies.items()]
    # Columns that are empty in one study must not decide the type of the others'.
    whole = pd.concat([frame.astype(object) for frame in frames], ignore_index=True)
    types = {name: dtype for frame in frames for name, dtype in frame.dtypes.items() if not str(name).startswith("hp.")}
    whole = whole.astype(
        {name: dtype for name, dtype in types.items() if not pd.api.types.is_object_dtype(dtype)}
    ).infer_objects()
    levels = {
        json.dumps([study.definition["tuner"], study.definition["training"]["epochs"]]) for study in studies.values()
    }
    rungs = whole["rung"].copy()
    if len(levels) > 1:
        whole["rung"] = pd.NA
    board = rank(whole.assign(position=range(len(whole))), direction=next(iter(studies.values())).direction)
    board["rung"] = rungs.loc[board.pop("position")].to_numpy()
    board["rung"] = board["rung"].astype("Int64")
    board.insert(1, "study", board.pop("study"))
    return board


def _check_comparable(studies: Mapping[str, Study]) -> None:
    first_label, first = next(iter(studies.items()))
    for label, study in studies.items():
        pairs = {
            "objectives": [f"{item.metric} ({item.direction})" for item in (first, study)],
            "splits to train on": [str(item.history.space.get("split", "train")) for item in (first, study)],
            "data": [_data(item) for item in (first, study)],
        }
        for what, (left, right) in pairs.items():
            if left != right:
                raise StudyError(
                    f"trials are ranked together only if their studies have the same {what}; {first_label} has {left}, "
                    f"{label} has {right}. Compare the studies without --trials, or add --anyway (in Python "
                    "anyway=True) to rank them all the same"
                )


def _data(study: Study) -> str:
    table = study.definition["dataset"]
    options = ", ".join(f"{key} {value}" for key, value in table.items() if key != "name")
    found = fingerprint(study)
    return f"{table['name']} ({options}; fingerprint {found[:12] if found else 'unknown'})"
