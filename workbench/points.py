"""Points that a person names: the default one, one from a file, one of a stored trial; and results of other studies."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import StudyError, UsageError
from workbench.oracles.protocol import Outcome, Record, Value
from workbench.study import Study, open_study

if TYPE_CHECKING:
    import keras_tuner


def read_point(point: str, directory: str | Path) -> tuple[dict[str, Value] | None, dict[int, int]]:
    """The hyperparameters that `--point` names, and the seeds of its executions where it is a stored trial.

    Args:
        point: see `train`.
        directory: where a STUDY that is no path is looked for.

    Returns:
        Values by full name (None for the default point), and execution (from 1) -> seed.
    """
    if point == "default":
        return None, {}
    path = Path(point)
    if path.suffix in (".toml", ".json"):
        return _read_point_file(path), {}
    name, colon, trial_id = point.rpartition(":")
    if not colon:
        raise UsageError(f"--point must be default, a .toml or .json file, or STUDY:TRIAL; received {point!r}")
    folder = Path(name) if (Path(name) / "journal.jsonl").exists() else Path(directory) / name
    trial = open_study(folder).trial(trial_id)
    return dict(trial.values), {number: item.seed for number, item in trial.executions.items()}


def _read_point_file(path: Path) -> dict[str, Value]:
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except FileNotFoundError:
        raise UsageError(f"--point {path}: no such file") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"--point {path}: cannot be read as {path.suffix[1:].upper()} ({error})") from error
    rule = f'--point {path}: must map full hyperparameter names to values, as in "cifar_convnet/blocks" = 2'
    if not isinstance(values, dict):
        raise UsageError(f"{rule}; received {type(values).__name__}")
    wrong = [key for key, value in values.items() if not isinstance(value, bool | int | float | str)]
    if wrong:
        raise UsageError(f"{rule}; {wrong[0]!r} is {type(values[wrong[0]]).__name__}")
    return dict(values)


def find_study(name: str, directory: str | Path) -> Study:
    """A study by path, or by name in the folder of studies."""
    as_path = Path(name)
    if "/" in name or (as_path / "journal.jsonl").exists():
        return open_study(as_path)
    return open_study(Path(directory) / name)


def earlier_results(
    studies: Sequence[Study], space: keras_tuner.HyperParameters, *, metric: str, direction: str, max_epochs: int
) -> list[dict[str, Any]]:
    """Results of other studies that a search over this space can learn from.

    A trial fits if it is completed and its hyperparameters are exactly the active ones of a point of this space, with
    values in range; the objective must be the same, the data need not.

    Args:
        studies: to take trials from, in order.
        space: of the new search.
        metric, direction: its objective.
        max_epochs: its full budget; trials with fewer or more epochs are left out.

    Returns:
        One mapping a trial: study, trial_id, values, score.

    Raises:
        StudyError: a study has another objective.
    """
    from workbench.oracles.sampling import is_point

    found = []
    for study in studies:
        if (study.metric, study.direction) != (metric, direction):
            raise StudyError(
                f"--warm-start {study.path}: its objective is {study.metric} ({study.direction}); this search's is "
                f"{metric} ({direction})"
            )
        for record in study.history.records:
            fits = record.outcome is Outcome.COMPLETED and record.epochs == max_epochs
            if fits and is_point(space, record.values):
                found.append(
                    {
                        "study": study.name,
                        "trial_id": record.trial_id,
                        "values": dict(record.values),
                        "score": record.score,
                    }
                )
    return found


def as_records(earlier: Sequence[Mapping[str, Any]], max_epochs: int) -> list[Record]:
    """Earlier results as oracles see them: completed, in full, trials of no bracket."""
    return [
        Record(
            trial_id=f"{item['study']}:{item['trial_id']}",
            values=item["values"],
            epochs=max_epochs,
            outcome=Outcome.COMPLETED,
            score=item["score"],
        )
        for item in earlier
    ]
