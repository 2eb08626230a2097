"""Left-right flip and random saturation: the augmentation of the published flower networks."""

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
    """Declares `flip` and `max_saturation`; see `workbench.Augmentation.build`."""
    import tensorflow as tf
    from workbench_plugins.augmentations._stateless import SeedStream, finish, flip_of

    flip = flip_of(hp)
    max_saturation = hp.Float("max_saturation", 1.0, 3.0, step=0.25, default=2.0)

    def augment(images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        seeds = SeedStream(seed)
        changed = flip(images, seeds)
        factors = tf.random.stateless_uniform(tf.shape(images)[:1], seeds.next(), 0.0, max_saturation)
        return finish(adjust_saturation(changed, factors), images), labels

    return augment


def adjust_saturation(images: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
    """Multiplies the saturation of each image by its factor, as `tf.image.adjust_saturation` does with one.

    With HSV's value v (the largest channel) and saturation s = (v - smallest) / v, a pixel of the same hue
    and value and the saturation s' = min(factor * s, 1) is v - (v - pixel) * s' / s in every channel. That
    needs no conversion to HSV and back.

    Args:
        images: float32 `(batch, height, width, channels)`, not negative; returned as they are unless
            channels is 3.
        factors: float32 `(batch,)`, not negative.
    """
    import tensorflow as tf

    if images.shape[-1] != 3:
        return images
    value = tf.reduce_max(images, axis=-1, keepdims=True)
    chroma = value - tf.reduce_min(images, axis=-1, keepdims=True)
    ratio = tf.minimum(factors[:, None, None, None], tf.math.divide_no_nan(value, chroma))
    return value - (value - images) * ratio


@workbench.hookimpl
def workbench_augmentations() -> list[workbench.Augmentation]:
    """Registers `flip_saturation`."""
    return [
        workbench.Augmentation(
            name="flip_saturation",
            summary="Left-right flip and a saturation factor uniform in [0, max_saturation], an image.",
            source="Google codelab 'Modern convnets, squeezenet, Xception, with Keras and TPUs'.",
            build=build,
        )
    ]
