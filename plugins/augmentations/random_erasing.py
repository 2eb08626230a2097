"""Random erasing (cutout): a rectangle of each image is overwritten."""

from __future__ import annotations

from typing import TYPE_CHECKING

import workbench

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras_tuner
    import tensorflow as tf

_MIN_AREA = 0.02


def build(
    hp: keras_tuner.HyperParameters,
) -> Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    """Declares `flip`, `probability`, `max_area` (a fraction of the image) and `fill`.

    Fill is `noise` (every value uniform in [0, 1], the published choice), `black` (cutout) or `grey`.
    """
    import keras
    import tensorflow as tf
    from workbench_plugins.augmentations._stateless import SeedStream, finish, flip_of, image_layer

    flip = flip_of(hp)
    probability = hp.Float("probability", 0.25, 1.0, step=0.25, default=0.5)
    max_area = hp.Float("max_area", 0.1, 0.5, step=0.1, default=0.4)
    fill = hp.Choice("fill", ["noise", "black", "grey"], default="noise")
    layer = image_layer(
        keras.layers.RandomErasing,
        factor=(probability, probability),
        scale=(_MIN_AREA, max_area),
        fill_value=0.5 if fill == "grey" else 0.0,
        value_range=(0, 1),
    )

    def augment(images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        seeds = SeedStream(seed)
        transformation = layer.get_random_transformation(images, seed=seeds)
        if fill == "noise":
            # Keras's own noise is a normal distribution clipped to the range: half of it is black.
            transformation["fill_value"] = tf.random.stateless_uniform(tf.shape(images), seeds.next())
        return finish(layer.transform_images(flip(images, seeds), transformation), images), labels

    return augment


@workbench.hookimpl
def workbench_augmentations() -> list[workbench.Augmentation]:
    """Registers `random_erasing`."""
    return [
        workbench.Augmentation(
            name="random_erasing",
            summary="Overwrites a rectangle of the image with noise, black (cutout) or grey.",
            source=(
                "Zhong et al. 2020 (arXiv:1708.04896); with black fill cutout, DeVries and Taylor 2017 "
                "(arXiv:1708.04552). As in Keras, height and width are drawn apart, each the square root of "
                "an area in [0.02, max_area]; the rectangle lies inside the image."
            ),
            build=build,
        )
    ]
