"""Floating-point operations of small models, counted by hand."""

from __future__ import annotations

import keras
import pytest
from keras import layers

from workbench.costs import count_flops, has_own_layers, matrix_products


def chain(shape, *parts):
    x = images = keras.Input(shape)
    for part in parts:
        x = part(x)
    return keras.Model(images, x)


# Output places x (2 x multiply-adds + biases) for each output value.
CASES = {
    "conv": (layers.Conv2D(8, 3, padding="same"), (10, 10, 3), 100 * 8 * (2 * 27 + 1)),
    "valid, no bias": (layers.Conv2D(8, 3, use_bias=False), (10, 10, 3), 64 * 8 * 2 * 27),
    "strided": (layers.Conv2D(8, (1, 3), strides=2, padding="same"), (10, 10, 3), 25 * 8 * (2 * 9 + 1)),
    "grouped": (layers.Conv2D(8, 3, groups=2, padding="same"), (10, 10, 4), 100 * 8 * (2 * 18 + 1)),
    "depthwise": (layers.DepthwiseConv2D(3, padding="same"), (10, 10, 4), 100 * 4 * (2 * 9 + 1)),
    "depthwise x 2": (layers.DepthwiseConv2D(3, depth_multiplier=2), (10, 10, 4), 64 * 8 * (2 * 9 + 1)),
    "separable": (
        layers.SeparableConv2D(8, 3, padding="same"),
        (10, 10, 4),
        100 * (4 * 2 * 9 + 8 * (2 * 4 + 1)),
    ),
    "separable x 2": (
        layers.SeparableConv2D(8, 3, padding="same", depth_multiplier=2, use_bias=False),
        (10, 10, 4),
        100 * (8 * 2 * 9 + 8 * 2 * 8),
    ),
    "dense": (layers.Dense(5), (7,), 5 * (2 * 7 + 1)),
    "dense on maps": (layers.Dense(5, use_bias=False), (2, 2, 7), 4 * 5 * 2 * 7),
    "pooling": (layers.MaxPooling2D(), (4, 4, 3), 0),
    "normalisation": (layers.BatchNormalization(), (4, 4, 3), 0),
}


@pytest.mark.parametrize(("layer", "shape", "flops"), CASES.values(), ids=CASES.keys())
def test_one_layer(layer, shape, flops):
    assert count_flops(chain(shape, layer)) == (flops, [])


def test_a_chain_and_a_sequential_model_sum_up():
    parts = [layers.Conv2D(4, 3), layers.ReLU(), layers.GlobalAveragePooling2D(), layers.Dense(2)]
    expected = 64 * 4 * (2 * 27 + 1) + 2 * (2 * 4 + 1)
    assert count_flops(chain((10, 10, 3), *parts)) == (expected, [])
    assert count_flops(keras.Sequential([keras.Input((10, 10, 3)), *parts])) == (expected, [])


def test_a_shared_layer_counts_at_each_call():
    shared = layers.Conv2D(3, 3, padding="same")
    flops = 100 * 3 * (2 * 27 + 1)
    assert count_flops(chain((10, 10, 3), shared, shared, layers.MaxPooling2D(), shared)) == (
        2 * flops + flops // 4,
        [],
    )


def test_nested_models_are_opened():
    inner = chain((10, 10, 3), layers.Conv2D(4, 3))
    outer = chain((10, 10, 3), inner, layers.Flatten(), layers.Dense(2))
    flops = 64 * 4 * (2 * 27 + 1)
    assert count_flops(outer) == (flops + 2 * (2 * 256 + 1), [])


def test_a_nested_model_that_is_called_twice_counts_twice():
    inner = chain((10, 10, 3), layers.Conv2D(3, 3, padding="same"))
    assert count_flops(chain((10, 10, 3), inner, inner)) == (2 * 100 * 3 * (2 * 27 + 1), [])


def test_calls_outside_of_the_model_do_not_count():
    shared = layers.Conv2D(3, 3, padding="same")
    model = chain((10, 10, 3), shared)
    chain((40, 40, 3), shared)
    assert count_flops(model) == (100 * 3 * (2 * 27 + 1), [])


def test_layers_with_weights_that_are_not_counted_are_named():
    model = chain((8, 8, 3), layers.Conv2DTranspose(4, 3), layers.Conv2DTranspose(4, 3), layers.LayerNormalization())
    assert count_flops(model) == (0, ["Conv2DTranspose", "LayerNormalization"])


@pytest.mark.parametrize(("layer", "shape", "flops"), CASES.values(), ids=CASES.keys())
def test_matrix_products_are_the_flops_without_biases(layer, shape, flops):
    model = chain(shape, layer)
    products = matrix_products(model)
    without = sum(2 * product.multiply_adds for product in products)
    width = model.output.shape[-1]
    places = flops and products[-1].places
    assert flops - without in (0, places * width)


def test_products_know_whose_features_they_take():
    images = keras.Input((8, 8, 3))
    squeeze = layers.Conv2D(4, 1, name="squeeze")(images)
    squeeze = layers.ReLU()(layers.BatchNormalization()(squeeze))
    left = layers.Conv2D(6, 1, name="left")(squeeze)
    right = layers.Conv2D(6, 3, padding="same", name="right")(squeeze)
    joined = layers.Concatenate()([left, right])
    top = layers.Dense(2, name="top")(layers.GlobalAveragePooling2D()(layers.SeparableConv2D(5, 3, name="sep")(joined)))
    found = {(item.layer, item.kind): item.sources for item in matrix_products(keras.Model(images, top))}
    assert found == {
        ("squeeze", "conv"): (),
        ("left", "conv"): ("squeeze",),
        ("right", "conv"): ("squeeze",),
        ("sep", "depthwise"): ("left", "right"),
        ("sep", "conv"): ("left", "right"),
        ("top", "dense"): ("sep",),
    }


def test_layers_of_others_are_told_from_those_of_keras():
    class Own(layers.ReLU):
        pass

    assert not has_own_layers(chain((4, 4, 3), layers.Conv2D(2, 1), layers.ReLU()))
    assert has_own_layers(chain((4, 4, 3), chain((4, 4, 3), Own()), layers.ReLU()))
