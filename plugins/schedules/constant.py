"""One learning rate for the whole budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

import workbench

if TYPE_CHECKING:
    import keras
    import keras_tuner


def build(
    hp: keras_tuner.HyperParameters, steps_per_epoch: int, total_epochs: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Declares `learning_rate`; see `workbench.Schedule.build`."""
    import keras

    learning_rate = hp.Float("learning_rate", 1e-5, 1e-2, sampling="log", default=1e-3)
    # Keras has no constant schedule; this is its schedule that multiplies by 1.
    return keras.optimizers.schedules.ExponentialDecay(learning_rate, decay_steps=1, decay_rate=1.0)


@workbench.hookimpl
def workbench_schedules() -> list[workbench.Schedule]:
    """Registers `constant`."""
    return [
        workbench.Schedule(
            name="constant",
            summary="One learning rate for the whole budget.",
            source="Adam's 0.001, Kingma and Ba 2015 (arXiv:1412.6980).",
            build=build,
        )
    ]
