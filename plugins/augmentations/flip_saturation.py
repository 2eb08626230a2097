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
    from workbench_plugins.augmentations._pixels import mirror_and_saturate
    from workbench_plugins.augmentations._stateless import SeedStream, draw_flips_of

    draw_flips = draw_flips_of(hp)
    max_saturation = hp.Float("max_saturation", 1.0, 3.0, step=0.25, default=2.0)

    def augment(images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        seeds = SeedStream(seed)
        is_mirrored = draw_flips(images, seeds)
        factors = tf.random.stateless_uniform(tf.shape(images)[:1], seeds.next(), 0.0, max_saturation)
        return mirror_and_saturate(images, is_mirrored, factors), labels

    return augment


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
