"""CutMix: a rectangle of another image is pasted in, the labels are mixed by its area."""

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
    """Declares `flip`, `alpha` of the beta distribution of the kept area, and `probability` of pasting."""
    import keras
    import tensorflow as tf
    from workbench_plugins.augmentations._stateless import SeedStream, finish, flip_of, image_layer

    flip = flip_of(hp)
    alpha = hp.Float("alpha", 0.2, 1.0, step=0.2, default=1.0)
    probability = hp.Float("probability", 0.25, 1.0, step=0.25, default=0.5)
    layer = image_layer(keras.layers.CutMix, factor=(alpha, alpha))

    def augment(images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        seeds = SeedStream(seed)
        transformation = layer.get_random_transformation(images, seed=seeds)
        pasted = tf.random.stateless_uniform(tf.shape(images)[:1], seeds.next()) < probability
        masks = transformation["batch_masks"] & pasted[:, None, None, None]
        transformation["batch_masks"] = masks
        # Keras weighs labels by the rectangle's real-valued area; this is the share of pixels kept.
        transformation["mix_weight"] = 1.0 - tf.reduce_mean(tf.cast(masks, tf.float32), axis=(1, 2, 3))
        mixed = layer.transform_images(flip(images, seeds), transformation)
        return finish(mixed, images), finish(layer.transform_labels(labels, transformation), labels)

    return augment


@workbench.hookimpl
def workbench_augmentations() -> list[workbench.Augmentation]:
    """Registers `cutmix`."""
    return [
        workbench.Augmentation(
            name="cutmix",
            summary="Pastes a rectangle of another image of the batch in and mixes the labels by its area.",
            source=(
                "Yun et al. 2019 (arXiv:1905.04899), alpha 1, probability 0.5 as for CIFAR. As in Keras, "
                "rectangle and probability are drawn for each image and the rectangle lies inside the image; "
                "the authors' code draws one a batch and clips it at the border."
            ),
            build=build,
        )
    ]
