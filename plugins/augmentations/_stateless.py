"""Keras's image layers as pure functions of an explicit seed, inside tf.data on every Keras backend.

Keras's random layers keep the state of their random numbers, so what they do depends on how often they were
called before. Here the transformation is drawn with seeds that are derived from one given seed, and the
layers' own state is never used. Imports Keras and TensorFlow: import it inside `build`, never at the
top of a plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf
from workbench_plugins.augmentations._pixels import mirror

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras_tuner


class SeedStream(keras.random.SeedGenerator):
    """A sequence of independent seeds, all derived from one seed; it holds no variable.

    Args:
        seed: int32 `(2,)`.
    """

    def __init__(self, seed: tf.Tensor):
        # Keras's own constructor creates the variable that is to be avoided.
        self._seed = seed
        self._drawn = 0

    def next(self, ordered: bool = True) -> tf.Tensor:
        """Returns the next seed, int32 `(2,)`."""
        self._drawn += 1
        return tf.random.experimental.stateless_fold_in(self._seed, self._drawn)


def image_layer(layer_class: type[Any], **arguments: Any) -> Any:
    """Makes a Keras image layer that computes in float32 with TensorFlow, whatever backend and policy."""
    layer = layer_class(dtype="float32", data_format="channels_last", **arguments)
    layer.backend.set_backend("tensorflow")
    return layer


def flip_of(hp: keras_tuner.HyperParameters) -> Callable[[tf.Tensor, SeedStream], tf.Tensor]:
    """Declares the hyperparameter `flip` and returns `(images, seeds) -> images`.

    The result mirrors each image left to right with probability 0.5, or changes nothing if `flip` is false.
    """
    draw = draw_flips_of(hp)
    return lambda images, seeds: mirror(images, draw(images, seeds))


def draw_flips_of(hp: keras_tuner.HyperParameters) -> Callable[[tf.Tensor, SeedStream], tf.Tensor]:
    """Declares the hyperparameter `flip` and returns `(images, seeds) -> is_mirrored`, bool `(batch,)`."""
    probability = 0.5 if hp.Boolean("flip", default=True) else 0.0
    return lambda images, seeds: tf.random.stateless_uniform(tf.shape(images)[:1], seeds.next()) < probability


def finish(images: tf.Tensor, original: tf.Tensor) -> tf.Tensor:
    """Clips images to [0, 1] and restores the static shape of the original ones."""
    return tf.ensure_shape(tf.clip_by_value(images, 0.0, 1.0), original.shape)
