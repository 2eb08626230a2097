"""A study's checkpoint files: what is kept of which trial, and for how long."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.trials import Status, Trial

if TYPE_CHECKING:
    from workbench.directory import StudyDirectory
    from workbench.oracles.protocol import Direction


class CheckpointStore:
    """Removes what is no longer needed: a running trial keeps all, the best trials their weights, others nothing.

    Args:
        directory: the study's.
        metric, direction: the objective.
        keep: how many of the best trials keep their weights.
        full_epochs: of a trial that cannot be promoted any more.
        can_promote: whether the tuner may train a trial on that has ended; such trials keep everything.
    """

    def __init__(
        self,
        directory: StudyDirectory,
        *,
        metric: str,
        direction: Direction,
        keep: int,
        full_epochs: int,
        can_promote: bool,
    ):
        self._directory = directory
        self._metric = metric
        self._direction = direction
        self._keep = keep
        self._full_epochs = full_epochs
        self._can_promote = can_promote

    def folder(self, trial_id: str) -> Path:
        """Where a trial's files are."""
        return self._directory.checkpoint_dir(trial_id)

    def drop_all_but(self, trial_id: str, execution: int, keep: set[str | None]) -> None:
        """Removes an execution's files but for those named, once the journal names the newer ones."""
        for path in self.folder(trial_id).glob(f"execution-{execution}.*.npz"):
            if path.name not in keep:
                path.unlink(missing_ok=True)

    def trial_ended(self, trial: Trial, trials: Mapping[str, Trial]) -> None:
        """Keeps what may still be needed of a trial that ended."""
        if trial.status is Status.FAILED:
            shutil.rmtree(self.folder(trial.trial_id), ignore_errors=True)
        elif trial.target_epochs >= self._full_epochs or not self._can_promote:
            self._keep_weights_only(trial)
        if not self._can_promote:
            self.keep_best_only(trials)

    def keep_best_only(self, trials: Mapping[str, Trial]) -> None:
        """Removes the files of all ended trials but the best; a raised budget trains a promoted one anew."""
        folders = sorted(self._directory.checkpoints.glob("*/"))
        stored = [trials[folder.name] for folder in folders if folder.name in trials]
        ended = [trial for trial in stored if trial.status is not Status.RUNNING]
        completed = [trial for trial in ended if trial.status is Status.COMPLETED]
        best = rank_trials(completed, self._metric, self._direction)[: self._keep]
        for trial in ended:
            if trial in best:
                self._keep_weights_only(trial)
            else:
                shutil.rmtree(self.folder(trial.trial_id), ignore_errors=True)

    def _keep_weights_only(self, trial: Trial) -> None:
        for number, execution in trial.executions.items():
            if execution.checkpoint is not None:
                self.drop_all_but(trial.trial_id, number, {execution.checkpoint["best_file"]})

    def remove_strays(self) -> None:
        """Removes temporary files that a killed process left."""
        for path in self._directory.checkpoints.glob("*/.*.tmp"):
            with contextlib.suppress(OSError):
                path.unlink()

    def size_mib(self) -> float:
        """What the files take on the disk, in MiB."""
        sizes = (path.stat().st_size for path in self._directory.checkpoints.glob("*/*") if path.is_file())
        return sum(sizes) / 2**20


def rank_trials(trials: Sequence[Trial], metric: str, direction: Any) -> list[Trial]:
    """Completed trials, best first: higher rung first, then score."""
    sign = 1 if direction == "max" else -1
    scored = [(trial, trial.score(metric, direction)) for trial in trials]
    known = [(trial, score) for trial, score in scored if score is not None]
    known.sort(key=lambda pair: (-(pair[0].rung or 0), -sign * pair[1]))
    return [trial for trial, _ in known]
