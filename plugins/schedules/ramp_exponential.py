"""Ramp up, then exponential decay, in steps of one epoch: the schedule of the published Xception."""

from __future__ import annotations

from typing import TYPE_CHECKING

import workbench

if TYPE_CHECKING:
    import keras
    import keras_tuner

_PUBLISHED_PEAK = 4e-4
_PUBLISHED_START = 1e-5


def build(
    hp: keras_tuner.HyperParameters, steps_per_epoch: int, total_epochs: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Declares `learning_rate` (the peak), `ramp_epochs`, `decay`, `start_fraction` and `floor_fraction`.

    The fractions are of the peak. The ramp takes at most half of the budget, so that a budget of one epoch
    trains at the peak.
    """
    from workbench_plugins.schedules._keras_schedules import RampExponential

    learning_rate = hp.Float("learning_rate", 1e-5, 1e-2, sampling="log", default=_PUBLISHED_PEAK)
    ramp_epochs = hp.Int("ramp_epochs", 0, 10, default=5)
    published_fraction = _PUBLISHED_START / _PUBLISHED_PEAK
    start_fraction = hp.Float("start_fraction", 0.01, 0.5, sampling="log", default=published_fraction)
    floor_fraction = hp.Float("floor_fraction", 0.001, 0.1, sampling="log", default=published_fraction)
    return RampExponential(
        peak=learning_rate,
        start=learning_rate * start_fraction,
        floor=learning_rate * floor_fraction,
        decay=hp.Float("decay", 0.5, 0.95, step=0.05, default=0.8),
        ramp_epochs=min(ramp_epochs, total_epochs // 2),
        steps_per_epoch=steps_per_epoch,
    )


@workbench.hookimpl
def workbench_schedules() -> list[workbench.Schedule]:
    """Registers `ramp_exponential`."""
    return [
        workbench.Schedule(
            name="ramp_exponential",
            summary="Linear ramp over the first epochs, then exponential decay; constant within an epoch.",
            source=(
                "Google codelab 'Modern convnets, squeezenet, Xception, with Keras and TPUs': 1e-5 to 4e-4 "
                "over 5 epochs, then x0.8 an epoch down to 1e-5. Start and floor are fractions of the "
                "peak here."
            ),
            build=build,
        )
    ]
