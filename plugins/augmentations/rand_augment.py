"""RandAugment: a few operations, drawn for each image, all of one magnitude."""

from __future__ import annotations

from typing import TYPE_CHECKING

import workbench

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras_tuner
    import tensorflow as tf

_MAX_MAGNITUDE = 30


def build(
    hp: keras_tuner.HyperParameters,
) -> Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    """Declares `flip`, `num_ops` (operations an image, one after the other) and `magnitude` (of 30)."""
    from workbench_plugins.augmentations._rand_augment_operations import apply_random_operations
    from workbench_plugins.augmentations._stateless import SeedStream, finish, flip_of

    flip = flip_of(hp)
    num_ops = hp.Int("num_ops", 1, 3, default=2)
    strength = hp.Int("magnitude", 3, 21, step=3, default=9) / _MAX_MAGNITUDE

    def augment(images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        seeds = SeedStream(seed)
        changed = flip(images, seeds)
        for _ in range(num_ops):
            changed = apply_random_operations(changed, strength, seeds)
        return finish(changed, images), labels

    return augment


@workbench.hookimpl
def workbench_augmentations() -> list[workbench.Augmentation]:
    """Registers `rand_augment`."""
    return [
        workbench.Augmentation(
            name="rand_augment",
            summary="A few of 14 operations on geometry and colour, drawn for each image, of one magnitude.",
            source=(
                "Cubuk et al. 2020 (arXiv:1909.13719), 2 operations of magnitude 9 as for ResNet-50. "
                "Deviations: bilinear interpolation; posterising gets stronger with the magnitude; what "
                "comes in from outside is grey. Not Keras's RandAugment: that draws one set of operations a "
                "batch, computes them all, ignores the seed given, and is slower than the networks it feeds."
            ),
            build=build,
        )
    ]
