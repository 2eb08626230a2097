"""What augmentations do to the pixels of a batch, once everything random is drawn; compiled by XLA.

Operation by operation, TensorFlow passes over the whole batch a dozen times; compiled, once or twice, in a tenth of
the time. The functions stand at the module's level so that a shape is compiled once a process, not once a trial.
Imports TensorFlow: import it inside `build`.
"""

from __future__ import annotations

import tensorflow as tf


@tf.function(jit_compile=True, autograph=False)
def mirror(images: tf.Tensor, is_mirrored: tf.Tensor) -> tf.Tensor:
    """Mirrors some images left to right.

    Args:
        images: float32 `(batch, height, width, channels)`.
        is_mirrored: bool `(batch,)`.
    """
    return _mirrored(images, is_mirrored)


@tf.function(jit_compile=True, autograph=False)
def mirror_and_saturate(images: tf.Tensor, is_mirrored: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
    """Mirrors some images and multiplies the saturation of each by its factor; clips to [0, 1].

    The saturation is changed as `tf.image.adjust_saturation` does with one factor. With HSV's value v (the largest
    channel) and saturation s = (v - smallest) / v, a pixel of the same hue and value and the saturation
    s' = min(factor * s, 1) is v - (v - pixel) * s' / s in every channel. That needs no conversion to HSV and back.

    Args:
        images: float32 `(batch, height, width, channels)`, not negative; of unchanged colour unless channels is 3.
        is_mirrored: bool `(batch,)`.
        factors: float32 `(batch,)`, not negative.
    """
    images = _mirrored(images, is_mirrored)
    if images.shape[-1] == 3:
        value = tf.reduce_max(images, axis=-1, keepdims=True)
        chroma = value - tf.reduce_min(images, axis=-1, keepdims=True)
        ratio = tf.minimum(factors[:, None, None, None], tf.math.divide_no_nan(value, chroma))
        images = value - (value - images) * ratio
    return tf.clip_by_value(images, 0.0, 1.0)


@tf.function(jit_compile=True, autograph=False)
def crop(padded: tf.Tensor, first_rows: tf.Tensor, first_columns: tf.Tensor, size: tuple[int, int]) -> tf.Tensor:
    """Cuts a window out of each image.

    Args:
        padded: float32 `(batch, height, width, channels)`.
        first_rows, first_columns: int32 `(batch,)`, where the window begins.
        size: height and width of the window.
    """
    rows = tf.gather(padded, first_rows[:, None] + tf.range(size[0]), axis=1, batch_dims=1)
    return tf.gather(rows, first_columns[:, None] + tf.range(size[1]), axis=2, batch_dims=1)


def _mirrored(images: tf.Tensor, is_mirrored: tf.Tensor) -> tf.Tensor:
    return tf.where(is_mirrored[:, None, None, None], images[:, :, ::-1], images)
