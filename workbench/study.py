"""A stored study, to read: its tables, its leaderboard, its best model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.directory import StudyDirectory, list_studies
from workbench.errors import JournalError, StudyError, near_names
from workbench.retrained import confirmation_directory, confirmed_scores
from workbench.tpu.stored import read_verdicts
from workbench.trials import History, Status, Trial

if TYPE_CHECKING:
    import keras
    import pandas as pd
    import plotly.graph_objects as go

    from workbench.display import Display
    from workbench.exports.writing import Exported
    from workbench.registry import Registry
    from workbench.results.confirmation import Confirmation


class Study:
    """One stored run of a search definition, as it was when it was opened.

    Attributes:
        path: its directory.
        history: what its journal says.
        definition: its resolved definition, as a mapping.
    """

    def __init__(self, place: StudyDirectory, history: History | None = None):
        self.path = place.path
        self.history: History = place.history() if history is None else history
        self.definition: dict[str, Any] = dict(self.history.definition)
        self._place = place
        self._tpu = read_verdicts(place.path)
        if not place.is_running():
            for trial in self.history.trials.values():
                if trial.status is Status.RUNNING:
                    trial.status = Status.INTERRUPTED

    def __repr__(self) -> str:
        scores = [trial.journaled_score for trial in self.history.trials.values() if trial.status is Status.COMPLETED]
        known = [score for score in scores if score is not None]
        best = (max if self.direction == "max" else min)(known, default=None)
        return f"<Study {self.name}: {len(self.history.trials)} trials, best {self.metric} {best}>"

    @property
    def name(self) -> str:
        """The directory's name."""
        return self.path.name

    @property
    def metric(self) -> str:
        """The objective's metric, for example "val_accuracy"."""
        return self.history.metric

    @property
    def direction(self) -> str:
        """The objective's direction: "max" or "min"."""
        return self.history.direction

    @property
    def is_running(self) -> bool:
        """Whether a process works on it now."""
        return self._place.is_running()

    def trials(self) -> pd.DataFrame:
        """One row a trial, in order of first proposal.

        Columns: `workbench.trials.TRIAL_COLUMNS`, after `workbench check --tpu` on it `tpu.NAME`, then `hp.NAME`
        for each hyperparameter (missing where it is not active). `score` is the mean over executions of the
        objective at each one's best epoch, `score_std` their sample standard deviation (missing for one execution),
        `seconds` those of training and validation, `step_ms` and `images_per_s` medians over epochs, `flops` of
        one image's forward pass, `mxu_fill` the share of it that a TPU's matrix unit would spend on useful work.
        """
        from workbench.results.tables import trials_table

        return trials_table(self.history, tpu=self._tpu)

    def epochs(self) -> pd.DataFrame:
        """One row a trial_id, execution and epoch (from 1), with every metric and `learning_rate`."""
        from workbench.results.tables import epochs_table

        return epochs_table(self.history)

    def leaderboard(
        self, *, all_statuses: bool = False, at_epoch: int | None = None, top: int | None = None
    ) -> pd.DataFrame:
        """The completed trials, best first, with a column `rank`: higher rung first, then score.

        A study that was confirmed has two more columns at the end, `confirmed_score` and `confirmed_seeds`: the mean
        validation over the new seeds, and how many there are.

        Args:
            all_statuses: list trials that are not completed, too, after the others and without a rank.
            at_epoch: rank by what the trials had reached at this epoch (from 1); shorter ones are left out.
            top: the first so many rows only, with the hyperparameters that are active in one of them: of ten thousand
                trials, that takes half the time.

        Raises:
            StudyError: `at_epoch` or `top` is smaller than 1.
        """
        from workbench.results.tables import leading_trials, mark_confirmed, rank, trials_table

        for name, value in (("at_epoch", at_epoch), ("top", top)):
            if value is not None and value < 1:
                raise StudyError(f"{name} must be 1 or greater; received {value}")
        first = None
        if top is not None and at_epoch is None:
            first = leading_trials(self.history, top, all_statuses=all_statuses)
        table = trials_table(self.history, until=at_epoch, trials=first, tpu=self._tpu)
        board = rank(table, direction=self.direction, all_statuses=all_statuses)
        board = board if top is None else board.head(top)
        place = confirmation_directory(self.path)
        return mark_confirmed(board, confirmed_scores(place)) if place.journal.exists() else board

    def count_ranked(self, *, all_statuses: bool = False) -> int:
        """How many rows the leaderboard has."""
        trials = self.history.trials.values()
        return len(trials) if all_statuses else sum(trial.status is Status.COMPLETED for trial in trials)

    def searched(self) -> set[str]:
        """The hyperparameters that the search space has more than one value for, by full name."""
        declared = (self.history.space.get("space") or {}).get("space", ())
        configs = [item["config"] for item in declared if item["class_name"] != "Fixed"]
        return {
            str(config["name"])
            for config in configs
            if len(config.get("values") or (0, 0)) > 1 and config.get("min_value", 0) != config.get("max_value", 1)
        }

    def plot(self, name: str) -> go.Figure:
        """A Plotly figure, the one that `workbench report` shows: a notebook draws it.

        Args:
            name: "best_so_far", "learning_curves", "parallel_coordinates", "importance", "hyperparameters", "pareto"
                or "failures".

        Raises:
            UsageError: there is no such plot.
        """
        from workbench.results.plots import plot_study

        return plot_study(self, name)

    def best_so_far(self, against: str = "epochs") -> pd.DataFrame:
        """What the search had found by when: the best score so far of the completed trials.

        Columns: `trials` (begun), `epochs` and `seconds` (trained, discarded attempts included), `trial_id` and
        `best` (missing before the first score). A trial with several executions counts once all have a value.

        Args:
            against: "epochs" or "seconds": one row an epoch; "trials": one row a trial's (or rung's) end.

        Raises:
            StudyError: another word.
        """
        from workbench.results.progress import AXES, best_so_far

        if against not in AXES:
            raise StudyError(f"against must be one of {', '.join(AXES)}; received {against!r}")
        return best_so_far(self.history, against)

    def confirmation(self) -> Confirmation:
        """What `workbench confirm` found: its best trials, retrained with new seeds.

        Raises:
            StudyError: that was never asked for.
        """
        from workbench.results.confirmation import read_confirmation

        place = confirmation_directory(self.path)
        if not place.journal.exists():
            raise StudyError(f"{self.path}: no trial was confirmed; `workbench confirm {self.name}` does it")
        return read_confirmation(place, study=self.name, board=self.leaderboard(), trials=self.history.trials)

    def trial(self, trial_id: str) -> Trial:
        """One trial's state.

        Raises:
            StudyError: there is no such trial.
        """
        known = self.history.trials
        found = known.get(trial_id) or known.get(trial_id.zfill(4))
        if found is None:
            hint = near_names(trial_id, known) or f" It has {len(known)} trials, {next(iter(known), 'none')} the first."
            raise StudyError(f"{self.path}: no trial {trial_id!r}.{hint}")
        return found

    def best_model(self, registry: Registry | None = None) -> keras.Model:
        """The best trial's model, compiled, with the weights of its best epoch; imports TensorFlow.

        Args:
            registry: with the plugins that the study names; by default the installed ones.

        Returns:
            Takes float32 images `(batch, height, width, channels)` in [0, 1].

        Raises:
            StudyError: no completed trial has weights.
        """
        from workbench.engine.rebuild import rebuild_model

        trial, execution = self._with_weights(None)
        return rebuild_model(self.definition, self.history, (trial, self.weights(trial)[execution]), registry)

    def export(
        self,
        path: str | Path,
        *,
        format: str | None = None,
        trial_id: str | None = None,
        data_dir: str | Path | None = None,
        overwrite: bool = False,
        registry: Registry | None = None,
        display: Display | None = None,
    ) -> Exported:
        """Writes a trial's model in a format that other programs read; see `workbench.export`.

        Args:
            trial_id: by default the leaderboard's first with stored weights.
            path, format, data_dir, overwrite, display: see `workbench.export`.
            registry: with the plugins that the study names; by default the installed ones.
        """
        from workbench.exports.study import export_trial

        trial, execution = self._with_weights(trial_id)
        return export_trial(
            self,
            trial,
            execution,
            Path(path),
            format_name=format,
            data_dir=Path(data_dir) if data_dir is not None else None,
            overwrite=overwrite,
            registry=registry,
            display=display,
            confirmed=self._confirmed(trial.trial_id),
        )

    def _confirmed(self, trial_id: str) -> dict[str, Any] | None:
        """A trial's scores over new seeds, JSON-able, if `workbench confirm` retrained it."""
        if not confirmation_directory(self.path).journal.exists():
            return None
        for candidate in self.confirmation().candidates:
            if candidate.trial_id == trial_id and candidate.validation:
                return {"validation": candidate.validation, "test": candidate.test}
        return None

    def weights(self, trial: Trial) -> dict[int, Path]:
        """The files with a trial's kept weights, by execution (from 1); empty if none were kept."""
        found = {}
        for number, execution in trial.executions.items():
            name = (execution.checkpoint or {}).get("best_file")
            path = self._place.checkpoint_dir(trial.trial_id) / str(name)
            if name and path.is_file():
                found[number] = path
        return found

    def _with_weights(self, trial_id: str | None) -> tuple[Trial, int]:
        """A trial (by default the best one that has weights) and its best execution that has, from 1."""
        candidates = self.leaderboard()["trial_id"] if trial_id is None else [self.trial(trial_id).trial_id]
        sign = 1 if self.direction == "max" else -1
        for candidate in candidates:
            trial = self.history.trials[candidate]
            found = self.weights(trial)
            if found:
                scores = {number: (trial.executions[number].checkpoint or {}).get("best_score") for number in found}
                known = {number: sign * score for number, score in scores.items() if score is not None}
                return trial, max(known, key=lambda number: known[number]) if known else min(found)
        if trial_id is not None:
            kept = self.definition["training"].get("keep_checkpoints")
            raise StudyError(
                f"{self.path}: trial {self.trial(trial_id).trial_id} has no stored weights; the best {kept} "
                "keep theirs (training.keep_checkpoints). `workbench train ... --point STUDY:TRIAL` trains it again"
            )
        raise StudyError(f"{self.path}: no completed trial has stored weights")


def open_leading(path: str | Path, top: int) -> tuple[Study, int]:
    """The study as `open_study` opens it, but with the leaderboard's first trials only.

    Of ten thousand trials that takes half the time: two thirds of the lines of the journal need not be parsed.

    Args:
        path: its directory.
        top: how many trials.

    Returns:
        The study, and how many trials its leaderboard has.

    Raises:
        StudyError: see `open_study`.
    """
    from workbench.results.tables import leading_trials

    place = StudyDirectory(Path(path))
    try:
        outline = Study(place, place.history(lambda line: not line.startswith(_EPOCH)))
        chosen = {trial.trial_id.encode() for trial in leading_trials(outline.history, top)}
        if not chosen:
            return outline, 0

        def is_shown(line: bytes) -> bool:
            found = _TRIAL.search(line)
            return found is None or found[1] in chosen

        return Study(place, place.history(is_shown)), outline.count_ranked()
    except JournalError:
        # Which line it is, and whether it matters, only the whole journal tells.
        study = open_study(path)
        return study, study.count_ranked()


_EPOCH = b'{"event":"epoch",'
_TRIAL = re.compile(rb'"trial_id":"([^"]*)"')


def open_study(path: str | Path) -> Study:
    """Opens a stored study for reading; imports no deep-learning library.

    Args:
        path: its directory.

    Raises:
        StudyError: there is none, or its journal cannot be read.
    """
    return Study(StudyDirectory(Path(path)))


def studies(directory: str | Path = "studies") -> list[Study]:
    """All studies in a folder, by name.

    Raises:
        StudyError: one of them cannot be read.
    """
    return [Study(place) for place in list_studies(Path(directory))]


def list_table(directory: str | Path) -> tuple[pd.DataFrame, list[str]]:
    """One row a study of a folder, and one line for each that cannot be read.

    Columns: study, status, trials, completed, best (the best score), metric, target, epochs, seconds, started_at.
    """
    import pandas as pd

    rows, problems = [], []
    for place in list_studies(Path(directory)):
        try:
            rows.append(_study_row(Study(place)))
        except StudyError as error:
            problems.append(str(error))
    columns = [
        "study",
        "status",
        "trials",
        "completed",
        "best",
        "metric",
        "target",
        "epochs",
        "seconds",
        "started_at",
    ]
    frame = pd.DataFrame(rows, columns=columns)
    frame["started_at"] = pd.to_datetime(frame["started_at"], utc=True)
    return frame, problems


def _study_row(study: Study) -> dict[str, Any]:
    trials = study.history.trials.values()
    completed = [trial for trial in trials if trial.status is Status.COMPLETED]
    board = study.leaderboard()
    status = "interrupted"
    if study.is_running:
        status = "running"
    elif study.history.finished is not None:
        status = "finished"
    return {
        "study": study.name,
        "status": status,
        "trials": len(trials),
        "completed": len(completed),
        "best": float(board["score"].iloc[0]) if len(board) else None,
        "metric": study.metric,
        "target": study.definition["objective"].get("target"),
        "epochs": sum(len(item.epochs) for trial in trials for item in trial.executions.values()),
        "seconds": round(study.history.seconds, 1),
        "started_at": study.history.header.get("created_at"),
    }
