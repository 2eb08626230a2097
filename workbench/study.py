"""A stored study, to read: its tables, its leaderboard, its best model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.directory import StudyDirectory, list_studies, stored_definition
from workbench.errors import StudyError, near_names
from workbench.trials import History, Status, Trial, fold

if TYPE_CHECKING:
    import keras
    import pandas as pd

    from workbench.registry import Registry


class Study:
    """One stored run of a search definition, as it was when it was opened.

    Attributes:
        path: its directory.
        history: what its journal says.
        definition: its resolved definition, as a mapping.
    """

    def __init__(self, place: StudyDirectory):
        events = place.events()
        self.path = place.path
        self.history: History = fold(events)
        self.definition: dict[str, Any] = stored_definition(events, place.journal)
        self._place = place
        if not place.is_running():
            for trial in self.history.trials.values():
                if trial.status is Status.RUNNING:
                    trial.status = Status.INTERRUPTED

    @property
    def name(self) -> str:
        """The directory's name."""
        return self.path.name

    @property
    def metric(self) -> str:
        """The objective's metric, for example "val_accuracy"."""
        return str(self.definition["objective"]["metric"])

    @property
    def direction(self) -> str:
        """The objective's direction: "max" or "min"."""
        return str(self.definition["objective"]["direction"])

    @property
    def is_running(self) -> bool:
        """Whether a process works on it now."""
        return self._place.is_running()

    def trials(self) -> pd.DataFrame:
        """One row a trial, in order of first proposal.

        Columns: `workbench.trials.TRIAL_COLUMNS`, then `hp.NAME` for each hyperparameter (missing where it is
        not active). `score` is the mean over executions of the objective at each one's best epoch,
        `score_std` their sample standard deviation (missing for one execution), `seconds` those of training and
        validation, `step_ms` and `images_per_s` medians over epochs, `flops` of one image's forward pass.
        """
        from workbench.results.tables import trials_table

        return trials_table(self.history)

    def epochs(self) -> pd.DataFrame:
        """One row a trial_id, execution and epoch (from 1), with every metric and `learning_rate`."""
        from workbench.results.tables import epochs_table

        return epochs_table(self.history)

    def leaderboard(self, *, all_statuses: bool = False, at_epoch: int | None = None) -> pd.DataFrame:
        """The completed trials, best first, with a column `rank`: higher rung first, then score.

        Args:
            all_statuses: list trials that are not completed, too, after the others and without a rank.
            at_epoch: rank by what the trials had reached at this epoch (from 1); shorter ones are left out.

        Raises:
            StudyError: `at_epoch` is smaller than 1.
        """
        from workbench.results.tables import rank, trials_table

        if at_epoch is not None and at_epoch < 1:
            raise StudyError(f"at_epoch must be 1 or greater; received {at_epoch}")
        return rank(
            trials_table(self.history, until=at_epoch), direction=self.direction, all_statuses=all_statuses
        )

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

        return rebuild_model(self.definition, self.history, self._best_with_weights(), registry)

    def _best_with_weights(self) -> tuple[Trial, Path]:
        for trial_id in self.leaderboard()["trial_id"]:
            trial = self.history.trials[trial_id]
            for execution in trial.executions.values():
                name = (execution.checkpoint or {}).get("best_file")
                path = self._place.checkpoint_dir(trial_id) / str(name)
                if name and path.is_file():
                    return trial, path
        raise StudyError(f"{self.path}: no completed trial has stored weights")


def open_study(path: str | Path) -> Study:
    """Opens a stored study for reading; imports no deep-learning library.

    Args:
        path: its directory.

    Raises:
        StudyError: there is none, or its journal cannot be read.
    """
    return Study(StudyDirectory(Path(path)))


def studies(directory: str | Path = "studies") -> list[Study]:
    """All studies in a folder, by name."""
    return [Study(place) for place in list_studies(Path(directory))]
