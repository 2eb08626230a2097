"""Which checkpoint files are kept, and when."""

from __future__ import annotations

import pytest

from workbench.directory import StudyDirectory
from workbench.store import CheckpointStore, rank_trials
from workbench.trials import fold


class Study:
    """Trials of one execution with a checkpoint at their last epoch, and files as training writes them."""

    def __init__(self, path, *, keep=2, can_promote=False, full_epochs=9, direction="max"):
        self.directory = StudyDirectory(path)
        self.events = []
        self.store = CheckpointStore(
            self.directory,
            metric="val_accuracy",
            direction=direction,
            keep=keep,
            full_epochs=full_epochs,
            can_promote=can_promote,
        )

    @property
    def trials(self):
        return fold(self.events).trials

    def add(self, trial_id, score, status="completed", *, epochs=9, rung=None):
        names = {"trial_id": trial_id, "execution": 1}
        file, best = f"execution-1.epoch-{epochs:04d}.npz", "execution-1.epoch-0001.best.npz"
        checkpoint = {"epoch": epochs, "file": file, "best_file": best, "best_score": score}
        metrics = {"val_accuracy": score}
        self.events += [
            {"event": "proposal", "trial_id": trial_id, "values": {}, "epochs": epochs, "rung": rung, "at": ""},
            {"event": "attempt", **names, "seed": 1, "from_epoch": 0},
            {"event": "epoch", **names, "epoch": 1, "metrics": metrics, "seconds": 1.0},
            {"event": "checkpoint", **names, **checkpoint},
        ]
        if status is not None:
            self.events.append({"event": "result", "trial_id": trial_id, "status": status, "score": score})
        folder = self.directory.checkpoint_dir(trial_id)
        folder.mkdir(parents=True)
        for name in (file, best):
            (folder / name).write_bytes(b"x" * 1024)

    def end(self, trial_id):
        self.store.trial_ended(self.trials[trial_id], self.trials)

    def kept(self):
        """Trial -> how many of the two files are left: 2, or 1 for the best weights alone."""
        found = {}
        for folder in sorted(self.directory.checkpoints.glob("*/")):
            names = sorted(path.name for path in folder.iterdir())
            found[folder.name] = len(names)
            assert names == [] or "execution-1.epoch-0001.best.npz" in names
        return found


def test_the_best_keep_their_weights_and_the_others_nothing(tmp_path):
    study = Study(tmp_path, keep=2)
    for trial_id, score in (("0001", 0.3), ("0002", 0.5), ("0003", 0.1), ("0004", 0.4)):
        study.add(trial_id, score)
        study.end(trial_id)
    assert study.kept() == {"0002": 1, "0004": 1}


def test_smaller_is_better_where_the_objective_says_so(tmp_path):
    study = Study(tmp_path, keep=1, direction="min")
    study.add("0001", 0.3)
    study.add("0002", 0.5)
    study.end("0002")
    assert study.kept() == {"0001": 1}


def test_a_running_trial_keeps_everything(tmp_path):
    study = Study(tmp_path, keep=1)
    study.add("0001", 0.1, status=None)
    study.add("0002", 0.5)
    study.end("0002")
    assert study.kept() == {"0001": 2, "0002": 1}


def test_stopped_and_failed_trials_keep_nothing(tmp_path):
    study = Study(tmp_path, keep=5)
    study.add("0001", 0.9, status="stopped")
    study.add("0002", 0.5, status="failed")
    study.add("0003", 0.1)
    for trial_id in ("0001", "0002", "0003"):
        study.end(trial_id)
    assert study.kept() == {"0003": 1}


def test_what_a_killed_process_did_not_remove_goes_with_the_next_trial(tmp_path):
    study = Study(tmp_path, keep=1)
    study.add("0001", 0.1)
    study.add("0002", 0.5, status="failed")
    study.add("0003", 0.3)
    study.end("0003")
    assert study.kept() == {"0003": 1}


def test_what_may_be_promoted_keeps_everything_until_the_search_ends(tmp_path):
    study = Study(tmp_path, keep=1, can_promote=True)
    study.add("0001", 0.3, epochs=1, rung=0)
    study.add("0002", 0.5, epochs=1, rung=0)
    study.add("0003", 0.4, epochs=9, rung=2)
    for trial_id in ("0001", "0002", "0003"):
        study.end(trial_id)
    assert study.kept() == {"0001": 2, "0002": 2, "0003": 1}
    study.store.keep_best_only(study.trials)
    assert study.kept() == {"0003": 1}, "the highest rung is the best, whatever the score"


def test_an_executions_older_files_go_and_another_executions_stay(tmp_path):
    study = Study(tmp_path)
    folder = study.directory.checkpoint_dir("0001")
    folder.mkdir(parents=True)
    names = [f"execution-{n}.epoch-000{e}.npz" for n in (1, 2, 10) for e in (1, 2)]
    for name in names:
        (folder / name).touch()
    study.store.drop_all_but("0001", 1, {"execution-1.epoch-0002.npz", None})
    assert sorted(path.name for path in folder.iterdir()) == sorted(set(names) - {"execution-1.epoch-0001.npz"})


def test_strays_of_a_killed_process_are_removed(tmp_path):
    study = Study(tmp_path)
    study.add("0001", 0.5)
    stray = study.directory.checkpoint_dir("0001") / ".execution-1.epoch-0003.npz.123.tmp"
    stray.touch()
    study.store.remove_strays()
    assert not stray.exists()
    assert study.kept() == {"0001": 2}


def test_the_size_on_disk(tmp_path):
    study = Study(tmp_path)
    assert study.store.size_mib() == 0
    study.add("0001", 0.5)
    assert study.store.size_mib() == pytest.approx(2 / 1024)


def test_ranking_puts_higher_rungs_first_and_leaves_out_what_has_no_score(tmp_path):
    study = Study(tmp_path)
    study.add("0001", 0.9, rung=0)
    study.add("0002", 0.1, rung=1)
    study.add("0003", 0.2, rung=1)
    study.add("0004", float("nan"), rung=2)
    ranked = rank_trials(list(study.trials.values()), "val_accuracy", "max")
    assert [trial.trial_id for trial in ranked] == ["0003", "0002", "0001"]
