"""Learning curves of networks that were never trained: what hyperparameters do to them, in rough strokes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workbench.oracles.protocol import Value

Floats = npt.NDArray[np.float64]

BATCH_SIZE = 128
TRAINING_IMAGES, VALIDATION_IMAGES = 2525, 458
STEPS = -(-TRAINING_IMAGES // BATCH_SIZE)

_FLOPS_PER_SECOND = 8e12
_TRACING_SECONDS = 6.0
_CHANCE = 0.2


@dataclass(frozen=True)
class Curves:
    """What training would have reported.

    Attributes:
        metrics: by name in Keras's logs; float32 values, shape (points, epochs).
        learning_rate: at the beginning of each epoch, shape (points, epochs).
        step_ms, seconds: of an epoch, shape (points, epochs); the first one holds the graph's tracing.
        is_diverged: shape (points,), whether the loss stops being finite.
    """

    metrics: dict[str, npt.NDArray[np.float32]]
    learning_rate: npt.NDArray[np.float32]
    step_ms: Floats
    seconds: Floats
    is_diverged: npt.NDArray[np.bool_]


def learning_curves(
    columns: dict[str, list[Value]],
    parameters: npt.NDArray[np.int64],
    flops: npt.NDArray[np.int64],
    epochs: int,
    rng: np.random.Generator,
) -> Curves:
    """Curves that depend on learning rate, size, momentum, augmentation and schedule, with the noise of a seed.

    Args:
        columns: hyperparameters as `workbench.testing.points.draw` gives them.
        parameters, flops: shape (points,).
        epochs: of every point.
        rng: of the noise.
    """
    count = len(parameters)
    is_ramped = np.array(columns["schedule"]) == "ramp_exponential"
    is_augmented = np.array(columns["augmentation"]) == "flip_saturation"
    rate = np.where(
        is_ramped,
        np.array(columns["ramp_exponential/learning_rate"], float),
        np.array(columns["constant/learning_rate"], float),
    )
    momentum = np.array(columns["squeezenet/batch_norm_momentum"], float)
    size = np.log2(parameters / 120_000)
    # Best near 1.5e-3, worse away from it; larger networks are better until they learn by heart.
    off = np.log(rate / 1.5e-3)
    reached = 0.82 + 0.02 * size - 0.015 * size**2 - 0.05 * off**2 / (1 + 0.3 * off**2)
    reached += 0.02 * is_augmented + 0.015 * is_ramped - 0.01 * (momentum > 0.95) + rng.normal(0, 0.012, count)
    reached = np.clip(reached, 0.3, 0.95)[:, None]
    pace = (3.5 + 2.0 * np.abs(off) + 1.0 * is_augmented)[:, None]
    epoch = np.arange(1, epochs + 1)[None, :]
    learnt = 1 - np.exp(-epoch / pace)
    spread = 0.05 * np.exp(-epoch / 12) + 0.008
    validation = _CHANCE + (reached - _CHANCE) * learnt + spread * rng.normal(size=(count, epochs))
    # A share of whole images, as an accuracy is.
    validation = np.round(np.clip(validation, 0, 1) * VALIDATION_IMAGES) / VALIDATION_IMAGES
    gap = np.where(is_augmented, 0.03, 0.10)[:, None] * learnt
    training = np.clip(_CHANCE + (reached + gap - _CHANCE) * learnt + rng.normal(0, 0.006, (count, epochs)), 0, 1)
    training = np.round(training * TRAINING_IMAGES) / TRAINING_IMAGES
    metrics = {
        "accuracy": training,
        "loss": 1.7 * (1 - training) + 0.05 + rng.uniform(0, 0.02, (count, epochs)),
        "val_accuracy": validation,
        "val_loss": 1.7 * (1 - validation) + 0.10 + gap + rng.uniform(0, 0.05, (count, epochs)),
    }
    milliseconds = 3000 * BATCH_SIZE * flops[:, None] / _FLOPS_PER_SECOND + 4.0
    step_ms = milliseconds * rng.normal(1, 0.02, (count, epochs)).clip(0.9, 1.1)
    step_ms[:, 0] += 1000 * _TRACING_SECONDS / STEPS
    return Curves(
        metrics={name: values.astype(np.float32) for name, values in metrics.items()},
        learning_rate=_learning_rates(columns, rate, is_ramped, epochs).astype(np.float32),
        step_ms=step_ms,
        seconds=step_ms * STEPS / 1000 * 1.08,
        is_diverged=(rate > 3.5e-3) & (rng.random(count) < 0.25),
    )


def _learning_rates(
    columns: dict[str, list[Value]], rate: Floats, is_ramped: npt.NDArray[np.bool_], epochs: int
) -> Floats:
    """As the schedules `constant` and `ramp_exponential` (with start and floor at 0.025 of the peak) give them."""
    ramp = np.array(columns["ramp_exponential/ramp_epochs"], float)[:, None]
    decay = np.array(columns["ramp_exponential/decay"], float)[:, None]
    epoch = np.arange(epochs)[None, :]
    rising = 0.025 + (1 - 0.025) * epoch / np.maximum(ramp, 1)
    falling = 0.025 + (1 - 0.025) * decay ** np.maximum(epoch - ramp, 0)
    ramped = np.where(epoch < ramp, rising, falling)
    return rate[:, None] * np.where(is_ramped[:, None], ramped, 1.0)
