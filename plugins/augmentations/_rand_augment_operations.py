"""The 14 operations of RandAugment on batches: `(images, strength, signs) -> images`.

Images are float32 `(n, height, width, channels)` in [0, 1], where n may be 0; strength is the magnitude in
[0, 1]; signs are float32 `(n,)`, -1 or 1. Operations on values agree with Pillow's ImageOps and ImageEnhance,
but for rounding to whole grey levels. Imports TensorFlow: import it inside `build`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
    from workbench_plugins.augmentations._stateless import SeedStream

_GREY_LEVELS = 256
_OUTSIDE = 0.5


def apply_random_operations(images: tf.Tensor, strength: float, seeds: SeedStream) -> tf.Tensor:
    """Applies to each image one of `OPERATIONS`, all equally probable; forgets the static batch size."""
    batch = tf.shape(images)[:1]
    chosen = tf.random.stateless_uniform(batch, seeds.next(), 0, len(OPERATIONS), dtype=tf.int32)
    signs = 2.0 * tf.cast(tf.random.stateless_uniform(batch, seeds.next()) < 0.5, tf.float32) - 1.0
    # Sorted by operation, so that each image is computed once and not by every operation.
    groups = tf.dynamic_partition(images, chosen, len(OPERATIONS))
    group_signs = tf.dynamic_partition(signs, chosen, len(OPERATIONS))
    places = tf.dynamic_partition(tf.range(batch[0]), chosen, len(OPERATIONS))
    changed = [
        operation(group, strength, sign) for operation, group, sign in zip(OPERATIONS, groups, group_signs, strict=True)
    ]
    return tf.clip_by_value(tf.dynamic_stitch(places, changed), 0.0, 1.0)


def identity(images: tf.Tensor, strength: float, signs: tf.Tensor) -> tf.Tensor:
    """Changes nothing."""
    return images


def auto_contrast(images: tf.Tensor, strength: float, signs: tf.Tensor) -> tf.Tensor:
    """Stretches each channel of each image to [0, 1]; the strength has no say."""
    low = tf.reduce_min(images, axis=(1, 2), keepdims=True)
    high = tf.reduce_max(images, axis=(1, 2), keepdims=True)
    return tf.where(high > low, tf.math.divide_no_nan(images - low, high - low), images)


def equalize(images: tf.Tensor, strength: float, signs: tf.Tensor) -> tf.Tensor:
    """Equalises the histogram of each channel of each image; the strength has no say."""
    height, width, channels = images.shape[1:]
    levels = tf.reshape(tf.transpose(_levels(images), [0, 3, 1, 2]), [-1, height * width])
    rows = tf.shape(levels)[0]
    # One histogram over (row, level) pairs: the row-wise bincount does not take an empty batch.
    keys = tf.reshape(levels + _GREY_LEVELS * tf.range(rows)[:, None], [-1])
    counts = tf.math.unsorted_segment_sum(tf.ones_like(keys), keys, rows * _GREY_LEVELS)
    histograms = tf.reshape(counts, [rows, _GREY_LEVELS])
    brightest = tf.gather(histograms, tf.reduce_max(levels, axis=1), batch_dims=1)
    step = (height * width - brightest)[:, None] // (_GREY_LEVELS - 1)
    below = tf.cumsum(histograms, axis=1, exclusive=True)
    table = tf.minimum((below + step // 2) // tf.maximum(step, 1), _GREY_LEVELS - 1)
    equalized = tf.where(step > 0, tf.gather(table, levels, batch_dims=1), levels)
    planes = tf.reshape(tf.cast(equalized, tf.float32), [-1, channels, height, width])
    return tf.transpose(planes, [0, 2, 3, 1]) / (_GREY_LEVELS - 1)


def solarize(images: tf.Tensor, strength: float, signs: tf.Tensor) -> tf.Tensor:
    """Inverts values from a threshold on, which falls from 256 to 0 of 256 grey levels."""
    threshold = _GREY_LEVELS * (1.0 - strength) / (_GREY_LEVELS - 1)
    return tf.where(images < threshold, images, 1.0 - images)


def posterize(images: tf.Tensor, strength: float, signs: tf.Tensor) -> tf.Tensor:
    """Keeps the upper 8 to 4 of 8 bits of each value."""
    cell = 2 ** round(4 * strength)
    return tf.cast(_levels(images) // cell * cell, tf.float32) / (_GREY_LEVELS - 1)


def color(images: tf.Tensor, strength: float, signs: tf.Tensor) -> tf.Tensor:
    """Blends with the grey image; nothing happens to one-channel images."""
    return _blend(_grey(images), images, strength, signs)


def contrast(images: tf.Tensor, strength: float, signs: tf.Tensor) -> tf.Tensor:
    """Blends with the mean of the grey image."""
    return _blend(tf.reduce_mean(_grey(images), axis=(1, 2), keepdims=True), images, strength, signs)


def brightness(images: tf.Tensor, strength: float, signs: tf.Tensor) -> tf.Tensor:
    """Blends with black."""
    return _blend(tf.zeros_like(images), images, strength, signs)


def sharpness(images: tf.Tensor, strength: float, signs: tf.Tensor) -> tf.Tensor:
    """Blends with the image smoothed by a 3x3 kernel (ones, 5 in the middle); borders stay as they are."""
    middle = images[:, 1:-1, 1:-1]
    smooth = (9.0 * tf.nn.avg_pool2d(images, 3, 1, "VALID") + 4.0 * middle) / 13.0
    change = tf.pad(smooth - middle, [[0, 0], [1, 1], [1, 1], [0, 0]])
    return _blend(images + change, images, strength, signs)


def rotate(images: tf.Tensor, strength: float, signs: tf.Tensor) -> tf.Tensor:
    """Rotates about the centre by up to 30 degrees."""
    angle = signs * math.radians(30.0 * strength)
    cos, sin = tf.cos(angle), tf.sin(angle)
    x, y = (images.shape[2] - 1) / 2.0, (images.shape[1] - 1) / 2.0
    return _affine(images, cos, -sin, x - x * cos + y * sin, sin, cos, y - x * sin - y * cos)


def shear_x(images: tf.Tensor, strength: float, signs: tf.Tensor) -> tf.Tensor:
    """Shears rows by up to 0.3 of their distance from the top."""
    return _affine(images, x_per_y=0.3 * strength * signs)


def shear_y(images: tf.Tensor, strength: float, signs: tf.Tensor) -> tf.Tensor:
    """Shears columns by up to 0.3 of their distance from the left."""
    return _affine(images, y_per_x=0.3 * strength * signs)


def translate_x(images: tf.Tensor, strength: float, signs: tf.Tensor) -> tf.Tensor:
    """Shifts sideways by up to 0.45 of the width (AutoAugment's 150 of 331 pixels)."""
    return _affine(images, x_shift=0.45 * strength * images.shape[2] * signs)


def translate_y(images: tf.Tensor, strength: float, signs: tf.Tensor) -> tf.Tensor:
    """Shifts up or down by up to 0.45 of the height."""
    return _affine(images, y_shift=0.45 * strength * images.shape[1] * signs)


OPERATIONS = (
    identity,
    auto_contrast,
    equalize,
    rotate,
    solarize,
    color,
    posterize,
    contrast,
    brightness,
    sharpness,
    shear_x,
    shear_y,
    translate_x,
    translate_y,
)
"""The paper's list, in its order."""


def _levels(images: tf.Tensor) -> tf.Tensor:
    """The nearest of 256 grey levels, int32 in [0, 255]."""
    return tf.cast(tf.round(images * (_GREY_LEVELS - 1)), tf.int32)


def _grey(images: tf.Tensor) -> tf.Tensor:
    """The luma (ITU-R 601), `(n, height, width, 1)`."""
    return tf.image.rgb_to_grayscale(images) if images.shape[-1] == 3 else images


def _blend(other: tf.Tensor, images: tf.Tensor, strength: float, signs: tf.Tensor) -> tf.Tensor:
    """Weighs the images by 1 - 0.9 or 1 + 0.9 at full strength, against another version of them."""
    return other + (1.0 + 0.9 * strength * signs)[:, None, None, None] * (images - other)


def _affine(
    images: tf.Tensor,
    x_per_x: tf.Tensor | float = 1.0,
    x_per_y: tf.Tensor | float = 0.0,
    x_shift: tf.Tensor | float = 0.0,
    y_per_x: tf.Tensor | float = 0.0,
    y_per_y: tf.Tensor | float = 1.0,
    y_shift: tf.Tensor | float = 0.0,
) -> tf.Tensor:
    """Reads each output pixel (x, y) at x_per_x * x + x_per_y * y + x_shift and likewise for y, in pixels."""
    count = tf.shape(images)[0]
    row = (x_per_x, x_per_y, x_shift, y_per_x, y_per_y, y_shift, 0.0, 0.0)
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=images,
        transforms=tf.stack([tf.broadcast_to(tf.cast(value, tf.float32), [count]) for value in row], axis=1),
        output_shape=images.shape[1:3],
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
        fill_value=_OUTSIDE,
    )
