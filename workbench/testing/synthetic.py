"""Writes studies that no training made."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.definition import definition_from_dict
from workbench.directory import FORMAT, StudyDirectory
from workbench.errors import StudyError, UsageError
from workbench.journal import encode_event, sync_folder, write_atomically
from workbench.study import Study, open_study
from workbench.testing.curves import BATCH_SIZE, TRAINING_IMAGES, VALIDATION_IMAGES, Curves, learning_curves
from workbench.testing.points import (
    IMAGE_SIZE,
    TABLES,
    Hyperparameter,
    active_values,
    costs,
    draw,
    hyperparameters,
)
from workbench.trials import Status

if TYPE_CHECKING:
    from workbench.definition import Definition
    from workbench.journal import Event
    from workbench.oracles.protocol import Value

CLASS_NAMES = ("daisy", "dandelion", "roses", "sunflowers", "tulips")

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_STOPPED, _DIED, _NO_MEMORY = 0.10, 0.01, 0.02
_ETA, _BRACKET = 3, 9


def synthetic_study(
    path: str | Path, *, trials: int = 100, epochs: int = 10, seed: int = 0, hyperband: bool = False
) -> Study:
    """Writes a study of realistic shape in the real format, without training, and opens it.

    The search is of SqueezeNets on the flower photos, towards a validation accuracy of 0.80. Hyperparameters are
    conditional; scores, curves, times and sizes depend on them. Trial 0001 is the default point and completed;
    of the others about 85 % are completed, 10 % stopped by the median rule (where there are 4 epochs or more) and 5 %
    failed, because of memory, a worker that died, or a loss that was not finite. No weights are stored. 10,000 trials
    of 10 epochs take about 42 MiB on the disk.

    Args:
        path: the study's directory, which must not exist; its parent may not, either.
        trials: how many, at least 1.
        epochs: of a trial in full, at least 1.
        seed: what everything random follows from; equal arguments give equal files.
        hyperband: train in brackets of 9 trials, of which 3 and then 1 are promoted, to a ninth, a third and all of
            the epochs; needs 9 epochs or more. Otherwise every trial is proposed for all epochs.

    Returns:
        The study, as `workbench.open_study` gives it.

    Raises:
        StudyError: there is something at the path.
        UsageError: a number outside its range.
    """
    place = StudyDirectory(Path(path))
    for name, value, low in (("trials", trials, 1), ("epochs", epochs, 9 if hyperband else 1), ("seed", seed, 0)):
        if value < low:
            raise UsageError(f"synthetic_study: {name} must be {low} or greater; received {value}")
    if place.path.exists():
        raise StudyError(f"{place.path}: a synthetic study is written to a new path; there is something. Name another")
    aside = StudyDirectory(place.path.with_name(f".{place.path.name}.tmp"))
    shutil.rmtree(aside.path, ignore_errors=True)
    aside.path.mkdir(parents=True)
    try:
        writer = _Writer(trials, epochs, seed, hyperband)
        resolved = writer.definition.resolved()
        with aside.journal.open("wb", buffering=2**20) as file:
            file.writelines(map(encode_event, writer.events()))
            file.flush()
            os.fsync(file.fileno())
        write_atomically(aside.definition, json.dumps(resolved, indent=1).encode() + b"\n")
        aside.path.rename(place.path)
    except BaseException:
        shutil.rmtree(aside.path, ignore_errors=True)
        raise
    sync_folder(place.path.parent)
    return open_study(place.path)


def _definition(trials: int, epochs: int, seed: int, hyperband: bool) -> Definition:
    training: dict[str, Any] = {"epochs": epochs, "batch_size_per_replica": BATCH_SIZE, "space": {"*": "default"}}
    if not hyperband:
        training["median_rule"] = {"min_epochs": 3}
    return definition_from_dict(
        {
            "summary": "A synthetic study: SqueezeNets on the flower photos that nothing trained.",
            "seed": seed,
            "dataset": {"name": "flowers", "image_size": IMAGE_SIZE},
            **TABLES,
            "training": training,
            "budget": {"max_trials": trials, "max_failures": trials, "max_same_failures": trials},
            "objective": {"metric": "val_accuracy", "target": 0.80},
            "tuner": {"name": "hyperband", "factor": _ETA} if hyperband else {"name": "random"},
        }
    )


class _Writer:
    """The events of a study, in the order in which a search with one worker would have journaled them."""

    def __init__(self, trials: int, epochs: int, seed: int, hyperband: bool):
        rng = np.random.default_rng([seed, trials, epochs, hyperband])
        self.definition = _definition(trials, epochs, seed, hyperband)
        self._trials, self._epochs, self._hyperband = trials, epochs, hyperband
        self._space: list[Hyperparameter] = hyperparameters()
        self._columns = draw(rng, trials)
        parameters, flops, mxu_fill = costs(self._columns)
        self._parameters, self._flops, self._mxu_fill = parameters.tolist(), flops.tolist(), mxu_fill.tolist()
        curves = learning_curves(self._columns, parameters, flops, epochs, rng)
        self._plan_ends(curves, rng)
        # Python's own numbers: a hundred thousand trials are a million events.
        self._metrics = {name: values.astype(float).tolist() for name, values in curves.metrics.items()}
        self._rates = curves.learning_rate.astype(float).tolist()
        self._step_ms = curves.step_ms.round(4).tolist()
        self._images_per_s = (1000 * BATCH_SIZE / curves.step_ms).round(2).tolist()
        self._epoch_seconds = curves.seconds.round(6).tolist()
        self._seeds = rng.integers(2**32, size=trials).tolist()
        self._spent = 0.0

    def _plan_ends(self, curves: Curves, rng: np.random.Generator) -> None:
        """After which epoch each trial ends, and why: None for "completed"."""
        self._failures: list[tuple[str, str] | None] = [None] * self._trials
        self._last = np.full(self._trials, self._epochs)
        accuracy = curves.metrics["val_accuracy"]
        chances = rng.random(self._trials)
        first = rng.integers(1, min(self._epochs, 4) + 1, self._trials)
        self._last[curves.is_diverged] = first[curves.is_diverged]
        for index in np.flatnonzero(curves.is_diverged):
            self._failures[index] = (_not_finite(int(first[index])), "non_finite_loss")
        for index in np.flatnonzero(chances > 1 - _NO_MEMORY - _DIED):
            if chances[index] > 1 - _DIED:
                self._failures[index] = (f"{_DIED_TEXT}; 3 times in a row at epoch 1", "worker_died")
            else:
                self._failures[index] = (_NO_MEMORY_TEXT, "ResourceExhaustedError")
            self._last[index] = 0
        self._failures[0], self._last[0] = None, self._epochs
        self._stops: dict[int, str] = {}
        if self._epochs < 4 or self._hyperband:
            return
        at = 3
        best = accuracy[:, :at].max(axis=1)
        median = float(np.median(accuracy[:, :at].mean(axis=1)))
        for index in np.flatnonzero(best <= np.quantile(best, _STOPPED / 0.93)):
            if index and self._failures[index] is None:
                self._last[index] = at
                self._stops[int(index)] = (
                    f"median_rule: best val_accuracy {best[index]:.4g} after epoch {at}; the median of "
                    f"{max(5, int(index))} others' averages is {max(median, float(best[index])):.4g}"
                )

    def events(self) -> Iterator[Event]:
        """All of them."""
        yield {
            "event": "study",
            "format": FORMAT,
            "created_at": self._now(),
            "definition": self.definition.resolved(),
        }
        yield {
            "event": "session",
            "at": self._now(),
            "pid": 1,
            "host": "synthetic",
            "device": "gpu",
            "reasons": ["a synthetic study: nothing was trained"],
            "backend": "tensorflow",
            "route": "single",
            "replicas": 1,
            "global_batch_size": BATCH_SIZE,
            "batch_size_per_replica": BATCH_SIZE,
            "replica_shapes": [[BATCH_SIZE, IMAGE_SIZE, IMAGE_SIZE, 3]],
            "learning_rate_scaling": "none",
            "learning_rate_factor": 1.0,
            "advice": [],
            "precision": "float32",
            "workers": 1,
            "versions": {},
            "plugins": [],
        }
        default = active_values(self._columns, 0, self._space)
        yield {
            "event": "space",
            "facts": {
                "dataset": "flowers",
                "class_names": list(CLASS_NAMES),
                "image_shape": [IMAGE_SIZE, IMAGE_SIZE, 3],
                "counts": {"train": TRAINING_IMAGES, "validation": VALIDATION_IMAGES, "test": 687},
                "fingerprint": hashlib.sha256(b"a synthetic study").hexdigest(),
            },
            "space": {"space": [item.config() for item in self._space], "values": default},
            "metric": "val_accuracy",
            "direction": "max",
            "split": "train",
            "global_batch_size": BATCH_SIZE,
            "enqueued": [default],
            "warm_start": [],
            "earlier": [],
        }
        yield from self._brackets() if self._hyperband else self._full_trials()
        yield {"event": "finished", "at": self._now(), "reason": "max_trials"}

    def _full_trials(self) -> Iterator[Event]:
        for index in range(self._trials):
            yield from self._proposal(index, 0, self._epochs, None, None)

    def _brackets(self) -> Iterator[Event]:
        for begin in range(0, self._trials, _BRACKET):
            left = list(range(begin, min(begin + _BRACKET, self._trials)))
            done = 0
            for rung in range(3):
                until = self._epochs // _ETA ** (2 - rung)
                for index in left:
                    yield from self._proposal(index, done, until, 0, rung)
                scored = [(score, -index) for index in left if (score := self._score(index, until)) is not None]
                left = sorted(-index for _, index in sorted(scored)[::-1][: len(left) // _ETA])
                done = until

    def _proposal(self, index: int, done: int, until: int, bracket: int | None, rung: int | None) -> Iterator[Event]:
        """One proposal of a trial: what is trained from epoch `done` + 1 on, and how it ends."""
        trial_id = f"{index + 1:04d}"
        values: dict[str, Value] = active_values(self._columns, index, self._space)
        yield {
            "event": "proposal",
            "trial_id": trial_id,
            "values": values,
            "epochs": until,
            "bracket": bracket,
            "rung": rung,
            "graph": hashlib.md5(repr(values).encode(), usedforsecurity=False).hexdigest(),
            "at": self._now(),
        }
        yield {
            "event": "attempt",
            "trial_id": trial_id,
            "execution": 1,
            "seed": self._seeds[index],
            "from_epoch": done,
            "device": "gpu",
            "replicas": 1,
            "at": self._now(),
        }
        yield {
            "event": "model",
            "trial_id": trial_id,
            "parameters": self._parameters[index],
            "flops": self._flops[index],
            "mxu_fill": self._mxu_fill[index],
            "uncounted_layers": [],
        }
        last = min(until, int(self._last[index]))
        for epoch in range(done + 1, last + 1):
            yield self._epoch(trial_id, index, epoch, is_first=epoch == done + 1)
        ends_here = last == self._last[index]
        failure = self._failures[index] if ends_here else None
        if last > done and failure is None:
            yield self._checkpoint(trial_id, index, last)
        stop = self._stops.get(index) if ends_here else None
        status = Status.FAILED if failure else Status.STOPPED if stop else Status.COMPLETED
        yield {
            "event": "result",
            "trial_id": trial_id,
            "status": str(status),
            "score": None if failure else self._score(index, last),
            "error": failure[0] if failure else stop,
            "kind": failure[1] if failure else None,
            "at": self._now(),
        }

    def _epoch(self, trial_id: str, index: int, epoch: int, *, is_first: bool) -> Event:
        at = epoch - 1
        metrics = {name: values[index][at] for name, values in self._metrics.items()}
        failure = self._failures[index]
        if failure is not None and epoch == self._last[index]:
            metrics |= {"loss": float("nan"), "val_loss": float("nan")}
        seconds = self._epoch_seconds[index][at]
        self._spent += seconds
        return {
            "event": "epoch",
            "trial_id": trial_id,
            "execution": 1,
            "epoch": epoch,
            "metrics": metrics,
            "learning_rate": self._rates[index][at],
            "seconds": seconds,
            "step_ms": self._step_ms[index][at],
            "images_per_s": self._images_per_s[index][at],
            "first": is_first,
        }

    def _checkpoint(self, trial_id: str, index: int, epoch: int) -> Event:
        return {
            "event": "checkpoint",
            "trial_id": trial_id,
            "execution": 1,
            "epoch": epoch,
            "file": f"execution-1.epoch-{epoch:04d}.npz",
            "best_file": f"execution-1.epoch-{epoch:04d}.best.npz",
            "best_score": self._score(index, epoch),
        }

    def _score(self, index: int, until: int) -> float | None:
        if self._failures[index] is not None and until >= self._last[index]:
            return None
        return float(max(self._metrics["val_accuracy"][index][:until]))

    def _now(self) -> str:
        return (_BEGIN + timedelta(seconds=int(self._spent))).isoformat(timespec="seconds")


_DIED_TEXT = "the worker process ended without an answer (killed by SIGKILL); memory may have run out"
_NO_MEMORY_TEXT = "ResourceExhaustedError: out of memory while allocating a tensor of shape [128,96,192,192]"


def _not_finite(epoch: int) -> str:
    return f"the training loss must be finite; it was nan in epoch {epoch}. A smaller learning rate usually helps"
