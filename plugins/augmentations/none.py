"""No augmentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import workbench

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras_tuner
    import tensorflow as tf


def build(
    hp: keras_tuner.HyperParameters,
) -> Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    """Returns the function that gives images and labels back as they are; declares no hyperparameter."""

    def augment(images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return images, labels

    return augment


@workbench.hookimpl
def workbench_augmentations() -> list[workbench.Augmentation]:
    """Registers `none`."""
    return [workbench.Augmentation(name="none", summary="Training images as they are.", build=build)]
