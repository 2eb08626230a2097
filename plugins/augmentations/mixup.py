"""Mixup: convex combinations of pairs of images and of their labels."""

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
    """Declares `flip` and `alpha` of the beta distribution that the weights are drawn from."""
    import keras
    from workbench_plugins.augmentations._stateless import SeedStream, finish, flip_of, image_layer

    flip = flip_of(hp)
    layer = image_layer(keras.layers.MixUp, alpha=hp.Float("alpha", 0.1, 1.0, step=0.1, default=0.2))

    def augment(images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        seeds = SeedStream(seed)
        transformation = layer.get_random_transformation(images, seed=seeds)
        mixed = layer.transform_images(flip(images, seeds), transformation)
        return finish(mixed, images), finish(layer.transform_labels(labels, transformation), labels)

    return augment


@workbench.hookimpl
def workbench_augmentations() -> list[workbench.Augmentation]:
    """Registers `mixup`."""
    return [
        workbench.Augmentation(
            name="mixup",
            summary="Blends each image and its label with another of the batch.",
            source=(
                "Zhang et al. 2018 (arXiv:1710.09412), alpha 0.2 as for ImageNet. As in Keras, the weight is "
                "drawn for each image; the authors' code draws one a batch."
            ),
            build=build,
        )
    ]
