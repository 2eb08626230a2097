"""Padded random crop and left-right flip."""

from __future__ import annotations

from typing import TYPE_CHECKING

import workbench

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras_tuner
    import tensorflow as tf
    from workbench_plugins.augmentations._stateless import SeedStream


def build(
    hp: keras_tuner.HyperParameters,
) -> Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    """Declares `flip`, `padding_fraction` (of the side, 0.125 is 4 pixels at 32) and `padding_mode`."""
    from workbench_plugins.augmentations._stateless import SeedStream, finish, flip_of

    flip = flip_of(hp)
    fraction = hp.Float("padding_fraction", 0.0625, 0.25, step=0.0625, default=0.125)
    mode = hp.Choice("padding_mode", ["constant", "reflect"], default="constant")

    def augment(images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        seeds = SeedStream(seed)
        return finish(_random_crop(flip(images, seeds), fraction, mode, seeds), images), labels

    return augment


def _random_crop(images: tf.Tensor, fraction: float, mode: str, seeds: SeedStream) -> tf.Tensor:
    """Pads each side and cuts the original size out of it, at a place of its own for every image."""
    import tensorflow as tf
    from workbench_plugins.augmentations._pixels import crop

    batch = tf.shape(images)[:1]
    height, width = images.shape[1], images.shape[2]
    top, left = round(fraction * height), round(fraction * width)
    padded = tf.pad(images, [[0, 0], [top, top], [left, left], [0, 0]], mode=mode)
    first_rows = tf.random.stateless_uniform(batch, seeds.next(), 0, 2 * top + 1, dtype=tf.int32)
    first_columns = tf.random.stateless_uniform(batch, seeds.next(), 0, 2 * left + 1, dtype=tf.int32)
    return crop(padded, first_rows, first_columns, (height, width))


@workbench.hookimpl
def workbench_augmentations() -> list[workbench.Augmentation]:
    """Registers `crop_flip`."""
    return [
        workbench.Augmentation(
            name="crop_flip",
            summary="Random crop of the padded image and left-right flip.",
            source=(
                "He et al. 2016 (arXiv:1512.03385), section 4.2: 4 pixels at 32, flip. The padding is black; "
                "there it is the mean colour."
            ),
            build=build,
        )
    ]
