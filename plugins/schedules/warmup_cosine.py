"""Linear warm-up, then cosine decay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import workbench

if TYPE_CHECKING:
    import keras
    import keras_tuner


def build(
    hp: keras_tuner.HyperParameters, steps_per_epoch: int, total_epochs: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Declares `learning_rate` (the peak), `warmup_epochs` and `floor_fraction`.

    The first and the last rate are the floor, a fraction of the peak. The warm-up takes at most half of
    the budget's steps.
    """
    import keras

    learning_rate = hp.Float("learning_rate", 1e-5, 1e-2, sampling="log", default=1e-3)
    warmup_epochs = hp.Int("warmup_epochs", 0, 10, default=5)
    floor_fraction = hp.Float("floor_fraction", 0.001, 0.1, sampling="log", default=0.01)
    total_steps = steps_per_epoch * total_epochs
    warmup_steps = min(warmup_epochs * steps_per_epoch, total_steps // 2)
    return keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=learning_rate * floor_fraction if warmup_steps else learning_rate,
        decay_steps=total_steps - warmup_steps,
        alpha=floor_fraction,
        warmup_target=learning_rate if warmup_steps else None,
        warmup_steps=warmup_steps,
    )


@workbench.hookimpl
def workbench_schedules() -> list[workbench.Schedule]:
    """Registers `warmup_cosine`."""
    return [
        workbench.Schedule(
            name="warmup_cosine",
            summary="Linear warm-up over the first epochs, then half a cosine down to a floor.",
            source=(
                "Loshchilov and Hutter 2017 (arXiv:1608.03983) without restarts; warm-up over 5 epochs, "
                "Goyal et al. 2017 (arXiv:1706.02677). First and last rate are the floor, not 0."
            ),
            build=build,
        )
    ]
