"""SqueezeNet: stages of fire modules between pools, global average pooling, softmax.

Paper: Iandola et al., 'SqueezeNet: AlexNet-level accuracy with 50x fewer parameters and < 0.5 MB model
size', arXiv:1602.07360. The default point is the network of the Google codelab 'Modern convnets,
squeezenet, Xception, with Keras and TPUs' for 192x192 flower photos, with 120,613 parameters for 5
classes:

    conv3x3 32, fire 24/48, pool, fire 48/96, pool, fire 64/128, pool, fire 48/96, pool, fire 24/48,
    global average pooling, softmax

(fire squeeze/expand). The codelab trained it with Adam for 35 epochs of batches of 128 and reports 80 %.

A fire module is a 1x1 convolution to `squeeze` filters, then a 1x1 and a 3x3 convolution of `expand / 2`
filters each, side by side, concatenated. Every convolution has a bias and a relu; batch normalisation
follows the relu. The squeeze is `round(squeeze_ratio * expand)`, always at least 1 and less than expand.

Deviations of the default point from the paper, all of them the codelab's: batch normalisation, a 3x3
stem without stride, pools of 2x2 instead of 3x3 with stride 2, a squeeze of half the expand filters instead
of an eighth, a dense softmax layer after the average instead of a 1x1 convolution before it, no dropout.
From the paper the space takes: expand filters that grow with depth (here by a constant step a stage, up to
196), several fire modules between pools, and bypass connections: `simple` adds a module's input to its
output where the channels agree, `complex` also where they do not, through a 1x1 convolution.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import workbench

if TYPE_CHECKING:
    from collections.abc import Iterator

    import keras
    import keras_tuner

_MIN_POOLS, _MAX_POOLS = 2, 4
_MIN_EXPAND, _MAX_EXPAND = 8, 196
_PUBLISHED_EXPAND = (48, 96, 128, 96, 48)


@dataclass(frozen=True)
class _Stage:
    """The fire modules between two pools; all alike."""

    fire_modules: int
    squeeze: int
    expand: int


@dataclass(frozen=True)
class _Point:
    """One network of the space; momentum is None without batch normalisation."""

    stem_filters: int
    stem_kernel: int
    stages: tuple[_Stage, ...]
    momentum: float | None
    bypass: str


def _declare(hp: keras_tuner.HyperParameters) -> _Point:
    """Declares the whole space and reads the point that `hp` stands at."""
    pools = hp.Int("pools", _MIN_POOLS, _MAX_POOLS, default=4)
    stem_filters = hp.Int("stem_filters", 16, 96, step=8, default=32)
    stem_kernel = hp.Choice("stem_kernel", [3, 5, 7], default=3)
    batch_norm = hp.Boolean("batch_norm", default=True)
    with hp.conditional_scope("batch_norm", [True]):
        momentum = hp.Choice("batch_norm_momentum", [0.8, 0.9, 0.95, 0.99], default=0.9)
    bypass = hp.Choice("bypass", ["none", "simple", "complex"], default="none")
    filters = hp.Choice("filters", ["per_stage", "constant", "growing"], default="per_stage")
    shared = _declare_shared_filters(hp)
    stages = [_declare_stage(hp, stage, shared) for stage in range(1, _MAX_POOLS + 2)]
    # An override can widen the range past the stages that were declared above.
    if not _MIN_POOLS <= pools <= _MAX_POOLS:
        raise ValueError(f"squeezenet/pools must be {_MIN_POOLS} to {_MAX_POOLS}; received {pools}")
    return _Point(
        stem_filters=stem_filters,
        stem_kernel=stem_kernel,
        stages=tuple(
            _stage(fire_modules, expand, ratio, filters) for fire_modules, expand, ratio in stages[: pools + 1]
        ),
        momentum=momentum if batch_norm else None,
        bypass=bypass,
    )


@dataclass(frozen=True)
class _SharedFilters:
    """Filters from one rule for all stages; None where the rule is not in force."""

    expand: int | None
    increment: int | None
    squeeze_ratio: float | None

    def at(self, stage: int) -> int | None:
        """The expand filters of a stage, counted from 1."""
        if self.expand is None or self.increment is None:
            return self.expand
        grown = self.expand + (stage - 1) * self.increment
        return min(grown, max(self.expand, _MAX_EXPAND))


def _declare_shared_filters(hp: keras_tuner.HyperParameters) -> _SharedFilters:
    """Declares what `filters = constant` and `filters = growing` need."""
    with hp.conditional_scope("filters", ["constant", "growing"]):
        expand = hp.Int("expand", _MIN_EXPAND, _MAX_EXPAND, step=2, default=48)
        squeeze_ratio = hp.Float("squeeze_ratio", 0.125, 0.875, step=0.125, default=0.5)
    with hp.conditional_scope("filters", ["growing"]):
        increment = hp.Int("expand_increment", 8, 64, step=8, default=32)
    return _SharedFilters(expand=expand, increment=increment, squeeze_ratio=squeeze_ratio)


def _declare_stage(
    hp: keras_tuner.HyperParameters, stage: int, shared: _SharedFilters
) -> tuple[int | None, int | None, float | None]:
    """Declares one stage, counted from 1; returns (fire modules, expand, squeeze ratio)."""
    if stage <= _MIN_POOLS + 1:
        fire_modules = hp.Int(f"stage_{stage}/fire_modules", 1, 3, default=1)
        with hp.conditional_scope("filters", ["per_stage"]):
            expand, ratio = _declare_filters(hp, stage)
    else:
        with hp.conditional_scope("pools", list(range(stage - 1, _MAX_POOLS + 1))):
            fire_modules = hp.Int(f"stage_{stage}/fire_modules", 1, 3, default=1)
            with _second_condition(hp, "filters", ["per_stage"]):
                expand, ratio = _declare_filters(hp, stage)
    if shared.expand is not None:
        return fire_modules, shared.at(stage), shared.squeeze_ratio
    return fire_modules, expand, ratio


def _declare_filters(hp: keras_tuner.HyperParameters, stage: int) -> tuple[int | None, float | None]:
    """Declares what `filters = per_stage` needs; returns (expand, squeeze ratio)."""
    default = _PUBLISHED_EXPAND[stage - 1]
    expand = hp.Int(f"stage_{stage}/expand", _MIN_EXPAND, _MAX_EXPAND, step=2, default=default)
    return expand, hp.Float(f"stage_{stage}/squeeze_ratio", 0.125, 0.875, step=0.125, default=0.5)


@contextlib.contextmanager
def _second_condition(hp: keras_tuner.HyperParameters, parent: str, values: list[str]) -> Iterator[None]:
    """Opens a conditional scope inside another one, for a parent that was declared outside of that one.

    `hp.conditional_scope` finds only parents declared under exactly the open conditions, so it cannot ask for
    two independent parents at once. Here it looks one condition further out, which is then put back in
    front of the new one.
    """
    outer = hp._conditions
    hp._conditions = outer[:-1]
    try:
        with hp.conditional_scope(parent, values):
            hp._conditions = [*outer, hp._conditions[-1]]
            yield
    finally:
        hp._conditions = outer


def _stage(fire_modules: int, expand: int, squeeze_ratio: float, filters: str) -> _Stage:
    """Derives the squeeze filters."""
    if expand < 2 or expand % 2:
        raise ValueError(
            f"squeezenet: expand filters must be even and at least 2, as half of them are 1x1 and half 3x3; "
            f"received {expand} (filters = {filters!r})"
        )
    squeeze = max(1, min(round(expand * squeeze_ratio), expand - 1))
    return _Stage(fire_modules=fire_modules, squeeze=squeeze, expand=expand)


def _conv(x: keras.KerasTensor, filters: int, kernel: int, momentum: float | None) -> keras.KerasTensor:
    """Convolution with bias, relu, then batch normalisation unless `momentum` is None."""
    import keras

    x = keras.layers.Conv2D(filters, kernel, padding="same", activation="relu")(x)
    if momentum is None:
        return x
    return keras.layers.BatchNormalization(momentum=momentum)(x)


def _fire(x: keras.KerasTensor, stage: _Stage, momentum: float | None, bypass: str) -> keras.KerasTensor:
    """A fire module; returns `stage.expand` channels at the same height and width."""
    import keras

    squeezed = _conv(x, stage.squeeze, 1, momentum)
    expanded = keras.layers.Concatenate()([_conv(squeezed, stage.expand // 2, kernel, momentum) for kernel in (1, 3)])
    if bypass == "none":
        return expanded
    if x.shape[-1] == stage.expand:
        return keras.layers.Add()([x, expanded])
    if bypass == "simple":
        return expanded
    return keras.layers.Add()([keras.layers.Conv2D(stage.expand, 1)(x), expanded])


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
        ValueError: the images are too small for the pools, or expand filters are odd.
    """
    import keras

    point = _declare(hp)
    pools = len(point.stages) - 1
    if min(image_shape[:2]) < 2**pools:
        raise ValueError(
            f"squeezenet: {pools} pools halve the image {pools} times and need at least "
            f"{2**pools}x{2**pools} pixels; received {image_shape[0]}x{image_shape[1]}; "
            "use larger images or fewer pools"
        )
    images = keras.Input(image_shape)
    x = _conv(images, point.stem_filters, point.stem_kernel, point.momentum)
    for index, stage in enumerate(point.stages):
        if index > 0:
            x = keras.layers.MaxPooling2D(2)(x)
        for _ in range(stage.fire_modules):
            x = _fire(x, stage, point.momentum, point.bypass)
    x = keras.layers.GlobalAveragePooling2D()(x)
    # float32 keeps the softmax exact under mixed precision.
    probabilities = keras.layers.Dense(num_classes, activation="softmax", dtype="float32")(x)
    return keras.Model(images, probabilities, name="squeezenet")


@workbench.hookimpl
def workbench_models() -> list[workbench.Model]:
    """Registers the space."""
    return [
        workbench.Model(
            name="squeezenet",
            summary="Fire modules between pools, global average pooling: a small network for photos",
            source="SqueezeNet, arXiv:1602.07360, as in the Google codelab 'Modern convnets, squeezenet, "
            "Xception, with Keras and TPUs'",
            build=build,
            any_image_size=True,
            min_image_size=16,
            reference_image_shape=(192, 192, 3),
            reference_classes=5,
        )
    ]
