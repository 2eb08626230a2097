"""A plugin with models that train in a blink, and one that gets into trouble where it is asked to."""

from __future__ import annotations

import os
import signal
from typing import Any

import workbench


@workbench.hookimpl
def workbench_models() -> list[workbench.Model]:
    return [
        workbench.Model(name="tiny", summary="One hidden layer", build=_build_tiny),
        workbench.Model(name="fragile", summary="A small model with troubles to choose from", build=_build_fragile),
    ]


def _build_tiny(hp: Any, image_shape: workbench.components.ImageShape, num_classes: int) -> Any:
    """`(pixels + classes + 1) * units + classes` parameters; 4 x 2 points."""
    import keras

    units = hp.Int("units", 4, 16, step=4, default=8)
    activation = hp.Choice("activation", ["relu", "tanh"])
    images = keras.Input(image_shape)
    x = keras.layers.Flatten()(images)
    x = keras.layers.Dense(units, activation=activation)(x)
    x = keras.layers.Dropout(0.2)(x)
    return keras.Model(images, keras.layers.Dense(num_classes, activation="softmax")(x))


def _build_fragile(hp: Any, image_shape: workbench.components.ImageShape, num_classes: int) -> Any:
    import keras

    trouble = hp.Choice("trouble", ["none", "raise", "nan", "exit", "kill"])
    number = hp.Int("number", 1, 4)
    if trouble == "raise":
        raise ValueError("this point never builds")
    if trouble == "exit":
        raise SystemExit(3)
    if trouble == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    images = keras.Input(image_shape)
    x = keras.layers.Flatten()(images)
    x = keras.layers.Dense(number)(x)
    if trouble == "nan":
        x = keras.layers.Rescaling(float("nan"))(x)
    return keras.Model(images, keras.layers.Dense(num_classes, activation="softmax")(x))
