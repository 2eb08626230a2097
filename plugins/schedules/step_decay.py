"""Constant learning rates that drop twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import workbench

if TYPE_CHECKING:
    import keras
    import keras_tuner


def build(
    hp: keras_tuner.HyperParameters, steps_per_epoch: int, total_epochs: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Declares `learning_rate` (the first), `drop_factor`, `first_drop` and `second_drop` (of the budget).

    A drop at a fraction of the budget holds from the step nearest to it on, the first step excepted.
    """
    import keras

    learning_rate = hp.Float("learning_rate", 1e-5, 1e-2, sampling="log", default=1e-3)
    factor = hp.Float("drop_factor", 0.1, 0.5, step=0.1, default=0.1)
    fractions = (
        hp.Float("first_drop", 0.3, 0.6, step=0.1, default=0.5),
        hp.Float("second_drop", 0.65, 0.95, step=0.05, default=0.75),
    )
    total_steps = steps_per_epoch * total_epochs
    # Keras's boundary is the last step before the drop.
    boundaries = [max(round(fraction * total_steps), 1) - 1 for fraction in fractions]
    values = [learning_rate, learning_rate * factor, learning_rate * factor**2]
    return keras.optimizers.schedules.PiecewiseConstantDecay(boundaries, values)


@workbench.hookimpl
def workbench_schedules() -> list[workbench.Schedule]:
    """Registers `step_decay`."""
    return [
        workbench.Schedule(
            name="step_decay",
            summary="A constant learning rate that drops by a factor twice.",
            source=(
                "He et al. 2016 (arXiv:1512.03385), CIFAR-10: x0.1 at 50 % and 75 % of the steps. The first "
                "rate's default is that of Adam, not of SGD."
            ),
            build=build,
        )
    ]
