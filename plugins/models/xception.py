"""Xception: depthwise separable convolutions with residual connections, fine-tuned or from scratch.

Paper: Chollet, 'Xception: Deep Learning with Depthwise Separable Convolutions', arXiv:1610.02357. The
default point is the network of the Google codelab 'Modern convnets, squeezenet, Xception, with Keras and
TPUs' for 192x192 flower photos: `keras.applications.Xception` without its top, all weights trainable,
global average pooling, softmax; it has 20,871,725 parameters for 5 classes. The codelab starts from
ImageNet weights, trains for 12 epochs of batches of 128 with a learning rate that ramps from 1e-5 to
4e-4 in 5 epochs and then falls by a factor of 0.8 an epoch, and reports 96.3 %.

`architecture = published` is that network, of which the last `trainable_blocks` of 14 blocks are
trained; the others keep their weights, and their batch normalisation its statistics. `architecture =
scratch` varies the architecture itself: the widths, the number of middle blocks, separable or full
convolutions; at its defaults it is the published network again. Both end in an optional dense layer and
dropout, as the paper's experiments do.

Deviations: images in [0, 1] are rescaled to the [-1, 1] that the ImageNet weights expect by a first
layer. A one-channel image is repeated to three channels for the published architecture, so that its
weights fit. Widths are rounded to multiples of 8. Keras documents 71 pixels as the smallest size;
smaller images work down to 7 pixels, with feature maps of 1x1 towards the end.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import workbench
from workbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import keras
    import keras_tuner

_BLOCKS = 14
_SHORTCUT_BLOCKS = (2, 3, 4, 13)
"""Blocks with a convolution on the residual connection; keras.applications leaves those layers unnamed."""
_LAST_LAYER = "block14_sepconv2_act"
_MIN_IMAGE_SIZE = 7
"""What the two unpadded convolutions of block 1 need."""


@dataclass(frozen=True)
class _Point:
    """One network of the space; None marks what the other architecture has no use for."""

    architecture: str
    trainable_blocks: int | None
    width: float | None
    middle_blocks: int | None
    separable: bool | None
    head_units: int
    head_dropout: float


def _declare(hp: keras_tuner.HyperParameters) -> _Point:
    """Declares the whole space and reads the point that `hp` stands at."""
    architecture = hp.Choice("architecture", ["published", "scratch"], default="published")
    with hp.conditional_scope("architecture", ["published"]):
        trainable_blocks = hp.Int("trainable_blocks", 0, _BLOCKS, default=_BLOCKS)
    with hp.conditional_scope("architecture", ["scratch"]):
        width = hp.Choice("width", [0.25, 0.5, 0.75, 1.0], default=1.0)
        middle_blocks = hp.Int("middle_blocks", 0, 12, default=8)
        separable = hp.Boolean("separable", default=True)
    return _Point(
        architecture=architecture,
        trainable_blocks=trainable_blocks,
        width=width,
        middle_blocks=middle_blocks,
        separable=separable,
        # 0 stands for no dense layer between the average and the softmax.
        head_units=hp.Choice("head_units", [0, 128, 256, 512, 1024], default=0),
        head_dropout=hp.Float("head_dropout", 0.0, 0.75, step=0.125, default=0.0),
    )


def _published(x: keras.KerasTensor, trainable_blocks: int) -> keras.KerasTensor:
    """The published network without top; returns its last feature map (2,048 channels)."""
    import keras

    if x.shape[-1] == 1:
        x = keras.layers.Concatenate()([x, x, x])
    base = keras.applications.Xception(include_top=False, weights=None, input_tensor=x)
    for layer, block in _blocks_of_layers(base).items():
        layer.trainable = block > _BLOCKS - trainable_blocks
    return base.output


def _blocks_of_layers(base: keras.Model) -> dict[keras.layers.Layer, int]:
    """Each layer that has weights, with the number (from 1) of the block that it belongs to."""
    import keras

    blocks = {}
    shortcuts = {
        keras.layers.Conv2D: iter(_SHORTCUT_BLOCKS),
        keras.layers.BatchNormalization: iter(_SHORTCUT_BLOCKS),
    }
    for layer in base.layers:
        if not layer.weights:
            continue
        if layer.name.startswith("block"):
            blocks[layer] = int(layer.name.removeprefix("block").split("_")[0])
        else:
            blocks[layer] = next(shortcuts[type(layer)])
    return blocks


@dataclass(frozen=True)
class _Scratch:
    """The paper's figure 5, with its widths scaled."""

    width: float
    middle_blocks: int
    separable: bool

    def __call__(self, x: keras.KerasTensor) -> keras.KerasTensor:
        """Entry, middle and exit flow; returns the last feature map."""
        import keras

        relu = keras.layers.Activation
        x = self._conv(x, 32, kernel=3, strides=2, padding="valid")
        x = self._conv(relu("relu")(x), 64, kernel=3, padding="valid")
        x = relu("relu")(x)
        for index, filters in enumerate((128, 256, 728)):
            x = self._downsampling(x, (filters, filters), leading_relu=index > 0)
        for _ in range(self.middle_blocks):
            shortcut = x
            for _ in range(3):
                x = self._separable(relu("relu")(x), 728)
            x = keras.layers.Add()([x, shortcut])
        x = self._downsampling(x, (728, 1024), leading_relu=True)
        for filters in (1536, 2048):
            x = relu("relu")(self._separable(x, filters))
        return x

    def _downsampling(self, x: keras.KerasTensor, filters: tuple[int, int], *, leading_relu: bool) -> keras.KerasTensor:
        """Two convolutions and a pool of stride 2, beside a strided 1x1 convolution."""
        import keras

        shortcut = self._conv(x, filters[1], kernel=1, strides=2)
        if leading_relu:
            x = keras.layers.Activation("relu")(x)
        x = self._separable(x, filters[0])
        x = self._separable(keras.layers.Activation("relu")(x), filters[1])
        x = keras.layers.MaxPooling2D(3, strides=2, padding="same")(x)
        return keras.layers.Add()([x, shortcut])

    def _separable(self, x: keras.KerasTensor, filters: int) -> keras.KerasTensor:
        """A 3x3 convolution, separable or full, and batch normalisation."""
        import keras

        if not self.separable:
            return self._conv(x, filters, kernel=3)
        x = keras.layers.SeparableConv2D(self._scaled(filters), 3, padding="same", use_bias=False)(x)
        return keras.layers.BatchNormalization()(x)

    def _conv(
        self, x: keras.KerasTensor, filters: int, *, kernel: int, strides: int = 1, padding: str = "same"
    ) -> keras.KerasTensor:
        """A full convolution and batch normalisation."""
        import keras

        x = keras.layers.Conv2D(self._scaled(filters), kernel, strides=strides, padding=padding, use_bias=False)(x)
        return keras.layers.BatchNormalization()(x)

    def _scaled(self, filters: int) -> int:
        return max(8, 8 * round(filters * self.width / 8))


def build(hp: keras_tuner.HyperParameters, image_shape: tuple[int, int, int], num_classes: int) -> keras.Model:
    """Builds the network that `hp` stands at, without pretrained weights.

    Args:
        hp: the hyperparameters, scoped to this space.
        image_shape: (height, width, channels).
        num_classes: how many classes.

    Returns:
        An uncompiled model from float32 images `(batch, height, width, channels)` in [0, 1] to float32
        probabilities `(batch, num_classes)`.

    Raises:
        ValueError: the images are smaller than 7 pixels.
    """
    import keras

    point = _declare(hp)
    if min(image_shape[:2]) < _MIN_IMAGE_SIZE:
        raise ValueError(
            f"xception: images must be at least {_MIN_IMAGE_SIZE}x{_MIN_IMAGE_SIZE} pixels for the unpadded "
            f"convolutions of its first block; received {image_shape[0]}x{image_shape[1]}; use larger images"
        )
    images = keras.Input(image_shape)
    x = keras.layers.Rescaling(2.0, offset=-1.0)(images)
    if point.architecture == "published":
        x = _published(x, point.trainable_blocks)
    else:
        x = _Scratch(point.width, point.middle_blocks, point.separable)(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    if point.head_units:
        x = keras.layers.Dense(point.head_units, activation="relu")(x)
    x = keras.layers.Dropout(point.head_dropout)(x)
    # float32 keeps the softmax exact under mixed precision.
    probabilities = keras.layers.Dense(num_classes, activation="softmax", dtype="float32")(x)
    return keras.Model(images, probabilities, name="xception")


def initialize(model: keras.Model, options: Mapping[str, Any]) -> None:
    """Loads pretrained weights into everything before the global average pooling.

    Args:
        model: a model of this space, of the published architecture unless `weights` is "none".
        options: `weights`: "none" (as when absent), "imagenet" (downloaded once into Keras's cache), or the
            path of a weights file of `keras.applications.Xception(include_top=False)`.

    Raises:
        workbench.DataError: the file is missing or does not fit, or the download failed.
        workbench.errors.UsageError: `weights` is no string, or the model was built from scratch.
    """
    weights = options.get("weights", "none")
    if not isinstance(weights, str | os.PathLike) or not os.fspath(weights):
        raise UsageError(f"xception: weights must be 'none', 'imagenet' or the path of a file; received {weights!r}")
    if weights == "none":
        return
    features = _features(model, weights)
    if weights == "imagenet":
        _load_imagenet(features)
    else:
        _load_file(features, Path(weights))


def _features(model: keras.Model, weights: str | os.PathLike[str]) -> keras.Model:
    """The part of the model that pretrained weights exist for; shares the model's layers."""
    import keras

    if all(layer.name != _LAST_LAYER for layer in model.layers):
        raise UsageError(
            f"xception: weights = {os.fspath(weights)!r} fits the published architecture only, and this "
            "model has architecture = 'scratch'; fix architecture = 'published' in [model.space], or set "
            "weights = 'none'"
        )
    return keras.Model(model.inputs, model.get_layer(_LAST_LAYER).output)


def _load_imagenet(features: keras.Model) -> None:
    import keras

    try:
        pretrained = keras.applications.Xception(include_top=False, weights="imagenet")
    except Exception as error:  # Keras raises a bare Exception when a download fails.
        raise workbench.DataError(
            f"xception: weights = 'imagenet' could not be downloaded ({error}); check the network, or "
            "download the file elsewhere and set weights to its path"
        ) from error
    features.set_weights(pretrained.get_weights())


def _load_file(features: keras.Model, path: Path) -> None:
    if not path.is_file():
        raise workbench.DataError(
            f"xception: the weights file {str(path)!r} does not exist (seen from {Path.cwd()}); set weights "
            "to an existing file, 'imagenet' or 'none'"
        )
    try:
        with warnings.catch_warnings():
            # Keras only warns of layers that the file has nothing for, and leaves them random.
            warnings.simplefilter("error", UserWarning)
            features.load_weights(path)
    except (ValueError, OSError, KeyError, UserWarning) as error:
        raise workbench.DataError(
            f"xception: {str(path)!r} is no weights file of keras.applications.Xception(include_top=False): {error}"
        ) from error


@workbench.hookimpl
def workbench_models() -> list[workbench.Model]:
    """Registers the space."""
    return [
        workbench.Model(
            name="xception",
            summary="Separable convolutions with residual connections: Xception, fine-tuned or from scratch",
            source="Xception, arXiv:1610.02357, as in the Google codelab 'Modern convnets, squeezenet, "
            "Xception, with Keras and TPUs'",
            options={
                "weights": "pretrained weights: 'none', 'imagenet' (downloads), or the path of a weights "
                "file of keras.applications.Xception(include_top=False)"
            },
            build=build,
            initialize=initialize,
            any_image_size=True,
            min_image_size=_MIN_IMAGE_SIZE,
            reference_image_shape=(192, 192, 3),
            reference_classes=5,
        )
    ]
