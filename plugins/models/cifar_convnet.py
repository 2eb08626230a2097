"""A plain convolutional network for CIFAR-10: blocks of convolutions, pooling and dropout, then dense.

The default point is the network of a 2018 article on training a Keras CIFAR-10 convnet on a Colab TPU,
itself the CIFAR-10 example of the Keras repository with batch normalisation added:

    BN, conv 32-32 (3x3, same, relu), max pool 2, dropout .25,
    BN, conv 64 (same), conv 64 (valid), max pool 2, dropout .25,
    flatten, dense 512 (relu), dropout .5, softmax 10

It has 1,676,982 parameters on 32x32x3 images and 10 classes. The article trained it with Adam at 1e-3,
128 images a core, for 50 epochs, and reports 90.06 % on the training and 80.79 % on the test images.

The space varies depth, widths and their growth, kernel sizes, padding, normalisation, pooling, dropout
and the head. Deviation: none at the default point. Elsewhere, a filter count that grew is rounded to a
multiple of 8, as accelerators prefer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import workbench

if TYPE_CHECKING:
    import keras
    import keras_tuner

_MAX_BLOCKS = 4
_POOL_SIZE = 2


@dataclass(frozen=True)
class _Point:
    """One network of the space; the tuples have an entry a block."""

    filters: tuple[int, ...]
    kernels: tuple[int, ...]
    convs: int
    padding: str
    batch_norm: str
    pooling: str
    block_dropout: float
    head: str
    dense_layers: int
    dense_units: int | None
    head_dropout: float


def _declare(hp: keras_tuner.HyperParameters) -> _Point:
    """Declares the whole space and reads the point that `hp` stands at."""
    blocks = hp.Int("blocks", 1, _MAX_BLOCKS, default=2)
    first_filters = hp.Int("filters", 16, 128, step=8, default=32)
    growth = hp.Choice("growth", [1.0, 1.5, 2.0], default=2.0)
    kernels = [hp.Choice("block_1/kernel", [1, 3, 5, 7], default=3)]
    for block in range(2, _MAX_BLOCKS + 1):
        with hp.conditional_scope("blocks", list(range(block, _MAX_BLOCKS + 1))):
            kernels.append(hp.Choice(f"block_{block}/kernel", [1, 3, 5, 7], default=3))
    convs = hp.Int("convs", 1, 3, default=2)
    # "valid_last": of all convolutions, only the last one of the last block is unpadded.
    padding = hp.Choice("padding", ["same", "valid_last", "valid"], default="valid_last")
    # "block": on the input of each block; "conv": between each convolution and its activation.
    batch_norm = hp.Choice("batch_norm", ["none", "block", "conv"], default="block")
    pooling = hp.Choice("pooling", ["max", "average"], default="max")
    block_dropout = hp.Float("block_dropout", 0.0, 0.5, step=0.125, default=0.25)
    head = hp.Choice("head", ["flatten", "global_average"], default="flatten")
    dense_layers = hp.Int("dense_layers", 0, 2, default=1)
    with hp.conditional_scope("dense_layers", [1, 2]):
        dense_units = hp.Int("dense_units", 64, 1024, step=64, default=512)
    head_dropout = hp.Float("head_dropout", 0.0, 0.75, step=0.125, default=0.5)
    # An override can widen a range past what was declared above.
    if not 1 <= blocks <= _MAX_BLOCKS:
        raise ValueError(f"cifar_convnet/blocks must be 1 to {_MAX_BLOCKS}; received {blocks}")
    if dense_layers not in (0, 1, 2):
        raise ValueError(f"cifar_convnet/dense_layers must be 0, 1 or 2; received {dense_layers}")
    return _Point(
        filters=tuple(_grown(first_filters, growth, block) for block in range(blocks)),
        kernels=tuple(kernels[:blocks]),
        convs=convs,
        padding=padding,
        batch_norm=batch_norm,
        pooling=pooling,
        block_dropout=block_dropout,
        head=head,
        dense_layers=dense_layers,
        dense_units=dense_units,
        head_dropout=head_dropout,
    )


def _grown(first_filters: int, growth: float, block: int) -> int:
    """The filters of a block, counted from 0."""
    if block == 0 or growth == 1.0:
        return first_filters
    return max(8, 8 * round(first_filters * growth**block / 8))


def _padding(point: _Point, block: int, conv: int) -> str:
    """The padding of one convolution; block and conv count from 0."""
    if point.padding != "valid_last":
        return point.padding
    is_last = block == len(point.filters) - 1 and conv == point.convs - 1
    return "valid" if is_last else "same"


def _require_size(x: keras.KerasTensor, size: int, operation: str, block: int, image_shape: tuple[int, ...]) -> None:
    """Refuses an operation whose window is larger than the feature map."""
    height, width = x.shape[1:3]
    if min(height, width) < size:
        raise ValueError(
            f"cifar_convnet: the {size}x{size} {operation} of block {block + 1} needs a feature map of at "
            f"least {size}x{size}, and images of {image_shape[0]}x{image_shape[1]} pixels leave "
            f"{height}x{width} there; use larger images, fewer blocks, smaller kernels or padding = 'same'"
        )


def _block(x: keras.KerasTensor, point: _Point, block: int, image_shape: tuple[int, ...]) -> keras.KerasTensor:
    """Convolutions, pooling and dropout; halves height and width."""
    import keras

    kernel = point.kernels[block]
    if point.batch_norm == "block":
        x = keras.layers.BatchNormalization()(x)
    for conv in range(point.convs):
        padding = _padding(point, block, conv)
        if padding == "valid":
            _require_size(x, kernel, "unpadded convolution", block, image_shape)
        x = keras.layers.Conv2D(point.filters[block], kernel, padding=padding)(x)
        if point.batch_norm == "conv":
            x = keras.layers.BatchNormalization()(x)
        x = keras.layers.Activation("relu")(x)
    _require_size(x, _POOL_SIZE, "pooling", block, image_shape)
    pool = keras.layers.MaxPooling2D if point.pooling == "max" else keras.layers.AveragePooling2D
    x = pool(_POOL_SIZE)(x)
    return keras.layers.Dropout(point.block_dropout)(x)


def _head(x: keras.KerasTensor, point: _Point, num_classes: int) -> keras.KerasTensor:
    """From the last feature map to class probabilities."""
    import keras

    flatten = keras.layers.Flatten if point.head == "flatten" else keras.layers.GlobalAveragePooling2D
    x = flatten()(x)
    for _ in range(point.dense_layers):
        x = keras.layers.Dense(point.dense_units, activation="relu")(x)
        x = keras.layers.Dropout(point.head_dropout)(x)
    if point.dense_layers == 0:
        x = keras.layers.Dropout(point.head_dropout)(x)
    # float32 keeps the softmax exact under mixed precision.
    return keras.layers.Dense(num_classes, activation="softmax", dtype="float32")(x)


def build(hp: keras_tuner.HyperParameters, image_shape: tuple[int, int, int], num_classes: int) -> keras.Model:
    """Builds the network that `hp` stands at.

    Args:
        hp: the hyperparameters, scoped to this space.
        image_shape: (height, width, channels).
        num_classes: how many classes.

    Returns:
        An uncompiled model from float32 images `(batch, height, width, channels)` in [0, 1] to float32
        probabilities `(batch, num_classes)`.

    Raises:
        ValueError: the images are too small for the blocks and kernels.
    """
    import keras

    point = _declare(hp)
    images = keras.Input(image_shape)
    x = images
    for block in range(len(point.filters)):
        x = _block(x, point, block, image_shape)
    return keras.Model(images, _head(x, point, num_classes), name="cifar_convnet")


@workbench.hookimpl
def workbench_models() -> list[workbench.Model]:
    """Registers the space."""
    return [
        workbench.Model(
            name="cifar_convnet",
            summary="Blocks of convolutions, pooling and dropout, then dense: the plain CIFAR-10 convnet",
            source="2018 article on training a Keras CIFAR-10 convnet on a Colab TPU",
            build=build,
            min_image_size=8,
            reference_image_shape=(32, 32, 3),
            reference_classes=10,
        )
    ]
