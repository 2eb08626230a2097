"""How well a network fills a TPU's matrix units, from its graph alone: rules that need no compiler.

A matrix unit multiplies by a stationary square of 128 x 128 weights (256 x 256 from v6e on). Contraction (kernel
places x input features) and output features are padded to whole squares; a 3x3 convolution from 24 to 24 features takes
2 x 1 squares of which 216 x 24 places are used: a fill of 0.16. Depthwise convolutions run on the vector unit and are
left out. In memory a tensor is padded to tiles of 8 x 128 numbers of 32 bits, or 16 x 128 of 16 bits; the compiler
lays the batch along the 128 where it is a multiple of that and features are fewer, and features along the 8 or 16.

Sources: 'Cloud TPU performance guide' (padding to 8 and 128) and 'TPU system architecture'; that kernel places are
folded into the contraction agrees better with the compiler's own cycle estimates than a fill by features alone: see
docs/tpu-check.md for the comparison.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workbench.costs import MatrixProduct, matrix_products

if TYPE_CHECKING:
    import keras

UNIT = 128
"""Rows and columns of a matrix unit, but for v6e."""

LANES = 128
SUBLANES = {"float32": 8, "mixed_bfloat16": 16, "bfloat16": 16, "mixed_float16": 16, "float16": 16}
"""How many feature rows a tile in memory has, by dtype policy."""


@dataclass(frozen=True, kw_only=True)
class LayerFill:
    """One matrix product of the forward pass, and how much of the matrix unit it uses.

    Attributes:
        layer: the layer's name.
        contraction, features: what is padded to the unit's size.
        share: of the network's multiply-adds, 0 to 1.
        fill: useful multiply-adds over those that the unit carries out, 0 to 1; None on the vector unit.
    """

    layer: str
    kind: str
    contraction: int
    features: int
    share: float
    fill: float | None


def layer_fills(model: keras.Model, unit: int = UNIT) -> list[LayerFill]:
    """Each matrix product of the forward pass, in the order of the graph."""
    products = matrix_products(model)
    total = sum(product.multiply_adds for product in products) or 1
    return [
        LayerFill(
            layer=product.layer,
            kind=product.kind,
            contraction=product.taps * product.inputs,
            features=product.features,
            share=product.multiply_adds / total,
            fill=product.multiply_adds / issued(product, unit) if product.kind != "depthwise" else None,
        )
        for product in products
    ]


def model_fill(model: keras.Model, unit: int = UNIT) -> float | None:
    """Useful multiply-adds of the forward pass over those that the matrix unit carries out, 0 to 1.

    That is the mean of the layers' fills, each weighted by what it takes of the unit's time. None for a network
    without matrix products.
    """
    products = [product for product in matrix_products(model) if product.kind != "depthwise"]
    carried_out = sum(issued(product, unit) for product in products)
    return sum(product.multiply_adds for product in products) / carried_out if carried_out else None


def issued(product: MatrixProduct, unit: int = UNIT) -> int:
    """Multiply-adds that the matrix unit carries out for one image, padding included."""
    contraction = _padded(product.taps * product.inputs, unit)
    return product.places * product.groups * contraction * _padded(product.features, unit)


def advise(model: keras.Model, *, batch_size: int, precision: str, unit: int = UNIT) -> list[str]:
    """What would use the hardware better, most important first; empty if nothing stands out.

    Args:
        model: functional, built.
        batch_size: images a core.
        precision: the Keras dtype policy.
        unit: of the matrix unit.
    """
    return [
        *_batch_advice(batch_size),
        *_precision_advice(precision),
        *_width_advice(matrix_products(model), precision, unit),
        *_worst_layer(layer_fills(model, unit)),
    ]


def _batch_advice(batch_size: int) -> list[str]:
    if batch_size % LANES == 0:
        return []
    padded = _padded(batch_size, 8 if batch_size < LANES else LANES)
    best = _padded(batch_size, LANES)
    if batch_size % 8:
        return [f"batch {batch_size} a core: not a multiple of 8; {_padded(batch_size, 8)} costs nothing, 128 is best"]
    if batch_size < LANES or padded == batch_size:
        return [f"batch {batch_size} a core leaves {best - batch_size} of {best} lanes empty; {best} fills them"]
    return [f"batch {batch_size} a core is padded to {best}; {best} costs nothing, {best - LANES} half as much or less"]


def _precision_advice(precision: str) -> list[str]:
    if precision == "float32":
        return ["float32: matrix products in bfloat16 (training.precision = 'auto') take half the memory and time"]
    if "float16" in precision and "bfloat16" not in precision:
        return [f"{precision}: TPUs have no float16 units; use mixed_bfloat16"]
    return []


def _width_advice(products: Sequence[MatrixProduct], precision: str, unit: int) -> list[str]:
    """Layers that can be wider without one more tile in memory or square, their own or of those that read them."""
    rows = SUBLANES.get(precision, 8)
    free: dict[tuple[int, int], list[str]] = defaultdict(list)
    layers = {product.layer: product for product in products if product.kind != "depthwise"}
    last = products[-1].layer if products else ""
    for name, product in layers.items():
        width, wider = product.features, _padded(product.features, rows)
        # The last layer's width is the number of classes.
        if wider == width or name == last or product.groups > 1:
            continue
        own = replace(product, features=wider)
        readers = [(item, item.sources.count(name)) for item in products if name in item.sources]
        widened = [replace(item, inputs=item.inputs + count * (wider - width)) for item, count in readers]
        before = issued(product, unit) + sum(issued(item, unit) for item, _ in readers if item.kind != "depthwise")
        after = issued(own, unit) + sum(issued(item, unit) for item in widened if item.kind != "depthwise")
        if after == before:
            free[(width, wider)].append(name)
    return [
        f"{width} -> {wider} features cost nothing in {_few(names)}"
        for (width, wider), names in sorted(free.items(), key=lambda item: -len(item[1]))
    ]


def _worst_layer(fills: Sequence[LayerFill]) -> list[str]:
    """The layer that wastes most of the unit's time, if it is a large part of it."""
    on_unit = [(item.share / item.fill, item) for item in fills if item.fill]
    total = sum(time for time, _ in on_unit)
    if not on_unit:
        return ["no matrix products: the matrix unit idles"]
    time, worst = max(on_unit, key=lambda pair: pair[0] * (1 - (pair[1].fill or 0)))
    fill = worst.fill or 0.0
    if fill > 0.5 or time < 0.1 * total:
        return []
    return [
        f"{worst.layer} ({worst.contraction} x {worst.features}) fills {fill:.0%} of the unit in {time / total:.0%} of "
        f"its time"
    ]


def _padded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
