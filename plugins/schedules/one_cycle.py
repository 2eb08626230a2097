"""The 1cycle policy: linearly up, down again, and far down at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import workbench

if TYPE_CHECKING:
    import keras
    import keras_tuner


def build(
    hp: keras_tuner.HyperParameters, steps_per_epoch: int, total_epochs: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Declares `learning_rate` (the peak), `start_fraction`, `end_fraction` and `rise_fraction`.

    The first two fractions are of the peak, the third is of the budget; the fall takes as long as the rise.
    """
    from workbench_plugins.schedules._keras_schedules import OneCycle

    learning_rate = hp.Float("learning_rate", 1e-4, 1e-1, sampling="log", default=1e-3)
    return OneCycle(
        peak=learning_rate,
        start=learning_rate * hp.Float("start_fraction", 0.04, 0.2, step=0.02, default=0.1),
        end=learning_rate * hp.Float("end_fraction", 1e-4, 1e-2, sampling="log", default=1e-3),
        rise_fraction=hp.Float("rise_fraction", 0.25, 0.45, step=0.05, default=0.45),
        total_steps=steps_per_epoch * total_epochs,
    )


@workbench.hookimpl
def workbench_schedules() -> list[workbench.Schedule]:
    """Registers `one_cycle`."""
    return [
        workbench.Schedule(
            name="one_cycle",
            summary="Linearly up to the peak, down again for as long, then far down over the rest.",
            source=(
                "Smith 2018 (arXiv:1803.09820). Only the learning rate is cycled, not the momentum; the "
                "peak's default is that of Adam, not of SGD."
            ),
            build=build,
        )
    ]
