"""What a network costs before it is trained: parameters and floating-point operations."""

from __future__ import annotations

import hashlib
import json
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


def model_mib(model: keras.Model) -> float:
    """The weights in memory, in MiB, at the variables' own precision."""
    return float(sum(math.prod(weight.shape) * _bytes_of(weight.dtype) for weight in model.weights) / 2**20)


def _bytes_of(dtype: str) -> int:
    digits = "".join(character for character in str(dtype) if character.isdigit())
    return max(1, int(digits or 8) // 8)


def graph_hash(model: keras.Model) -> str:
    """A hash of the network's structure: layers, their settings and connections, whatever their names.

    Two settings that give the same network (one of them has a hyperparameter without effect) have equal hashes.
    """
    config = model.get_config()
    order: dict[str, str] = {}
    canonical = json.dumps(_anonymous(config, order), sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


def _anonymous(part: Any, order: dict[str, str]) -> Any:
    """The configuration with names replaced by their order of appearance, and without what building left in it."""
    if isinstance(part, dict):
        kept = {}
        for key, value in part.items():
            if key == "build_config":
                continue
            if key == "name" and isinstance(value, str):
                kept[key] = order.setdefault(value, f"#{len(order)}")
            else:
                kept[key] = _anonymous(value, order)
        return kept
    if isinstance(part, list | tuple):
        return [_anonymous(item, order) for item in part]
    return order.get(part, part) if isinstance(part, str) else part
