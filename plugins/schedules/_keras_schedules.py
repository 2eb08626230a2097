"""The schedules that Keras does not have.

Imports Keras: import it inside `build`, never at the top of a plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

if TYPE_CHECKING:
    from keras import KerasTensor


@keras.saving.register_keras_serializable(package="workbench")
class RampExponential(keras.optimizers.schedules.LearningRateSchedule):
    """Linear from start to peak, then exponential towards the floor; constant within an epoch.

    Args:
        peak, start, floor: learning rates, > 0.
        decay: factor of (rate - floor) from one epoch to the next, after the ramp, in (0, 1].
        ramp_epochs: epoch (from 0) at which the peak is reached; 0 for no ramp.
        steps_per_epoch: at least 1.
    """

    def __init__(self, peak: float, start: float, floor: float, decay: float, ramp_epochs: int, steps_per_epoch: int):
        self.peak = peak
        self.start = start
        self.floor = floor
        self.decay = decay
        self.ramp_epochs = ramp_epochs
        self.steps_per_epoch = steps_per_epoch

    def __call__(self, step: KerasTensor | int) -> KerasTensor:
        """The learning rate at a step (from 0), float32."""
        # In integers: a float32 quotient may fall just below the whole epoch.
        epoch = keras.ops.floor_divide(keras.ops.cast(step, "int32"), self.steps_per_epoch)
        epoch = keras.ops.cast(epoch, "float32")
        ramp = self.start + (self.peak - self.start) / max(self.ramp_epochs, 1) * epoch
        decayed_epochs = keras.ops.maximum(epoch - self.ramp_epochs, 0.0)
        decayed = (self.peak - self.floor) * keras.ops.power(self.decay, decayed_epochs) + self.floor
        return keras.ops.where(epoch < self.ramp_epochs, ramp, decayed)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            "peak": self.peak,
            "start": self.start,
            "floor": self.floor,
            "decay": self.decay,
            "ramp_epochs": self.ramp_epochs,
            "steps_per_epoch": self.steps_per_epoch,
        }


@keras.saving.register_keras_serializable(package="workbench")
class OneCycle(keras.optimizers.schedules.LearningRateSchedule):
    """Linear from start to peak, back to start in as many steps, and to the end's rate over the rest.

    Args:
        peak, start, end: learning rates, > 0.
        rise_fraction: share of the steps that the rise takes, in (0, 0.5); the fall takes the same.
        total_steps: at least 1; beyond them the end's rate holds.
    """

    def __init__(self, peak: float, start: float, end: float, rise_fraction: float, total_steps: int):
        self.peak = peak
        self.start = start
        self.end = end
        self.rise_fraction = rise_fraction
        self.total_steps = total_steps

    def __call__(self, step: KerasTensor | int) -> KerasTensor:
        """The learning rate at a step (from 0), float32."""
        done = keras.ops.clip(keras.ops.cast(step, "float32") / self.total_steps, 0.0, 1.0)
        height = keras.ops.maximum(1.0 - keras.ops.abs(done / self.rise_fraction - 1.0), 0.0)
        cycle = self.start + (self.peak - self.start) * height
        fall_end = 2.0 * self.rise_fraction
        left = (1.0 - done) / (1.0 - fall_end)
        return keras.ops.where(done < fall_end, cycle, self.end + (self.start - self.end) * left)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            "peak": self.peak,
            "start": self.start,
            "end": self.end,
            "rise_fraction": self.rise_fraction,
            "total_steps": self.total_steps,
        }
