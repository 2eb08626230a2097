"""Static rules: fill of the matrix unit by hand-counted squares, and advice that is computed."""

from __future__ import annotations

import keras
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import layers

from workbench.costs import MatrixProduct
from workbench.tpu.fill import advise, issued, layer_fills, model_fill


def chain(shape, *parts):
    x = images = keras.Input(shape)
    for part in parts:
        x = part(x)
    return keras.Model(images, x)


def product(**changes):
    return MatrixProduct(
        **{"layer": "a", "kind": "conv", "places": 1, "taps": 1, "inputs": 128, "features": 128} | changes
    )


@pytest.mark.parametrize(
    ("changes", "unit", "expected"),
    [
        ({}, 128, 128 * 128),
        ({"inputs": 1, "features": 1}, 128, 128 * 128),
        ({"inputs": 129}, 128, 256 * 128),
        ({"taps": 9, "inputs": 24, "features": 24, "places": 10}, 128, 10 * 256 * 128),
        ({"groups": 3}, 128, 3 * 128 * 128),
        ({}, 256, 256 * 256),
    ],
)
def test_multiply_adds_carried_out_are_whole_squares(changes, unit, expected):
    assert issued(product(**changes), unit) == expected


@given(
    taps=st.sampled_from([1, 9, 25]),
    inputs=st.integers(1, 600),
    features=st.integers(1, 600),
    unit=st.sampled_from([128, 256]),
)
def test_fill_is_a_share_and_whole_only_for_multiples_of_the_unit(taps, inputs, features, unit):
    item = product(taps=taps, inputs=inputs, features=features)
    fill = item.multiply_adds / issued(item, unit)
    assert 0 < fill <= 1
    assert (fill == 1) == (taps * inputs % unit == 0 and features % unit == 0)


def test_fill_of_a_model_is_useful_over_carried_out():
    model = chain(
        (8, 8, 64),
        layers.Conv2D(32, 1, name="first"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(128, name="second"),
    )
    first, second = layer_fills(model)
    assert (first.layer, first.contraction, first.features, first.fill) == ("first", 64, 32, 0.125)
    assert (second.contraction, second.features, second.fill) == (32, 128, 0.25)
    assert first.share == pytest.approx(64 * 64 * 32 / (64 * 64 * 32 + 32 * 128))
    assert model_fill(model) == pytest.approx((64 * 64 * 32 + 32 * 128) / (65 * 128 * 128))


def test_depthwise_convolutions_do_not_count():
    model = chain((8, 8, 128), layers.SeparableConv2D(128, 3, name="sep"))
    assert [item.fill for item in layer_fills(model)] == [None, 1.0]
    assert model_fill(model) == 1.0
    assert model_fill(chain((8, 8, 4), layers.DepthwiseConv2D(3))) is None
    assert model_fill(chain((8, 8, 4), layers.GlobalMaxPooling2D())) is None


def about_width(model, **changes):
    options = {"batch_size": 128, "precision": "mixed_bfloat16"} | changes
    return [line for line in advise(model, **options) if "cost" in line]


def test_wider_layers_that_cost_nothing_are_named():
    model = chain((8, 8, 3), layers.Conv2D(24, 1, name="squeeze"), layers.Conv2D(64, 1, name="expand"), layers.Dense(5))
    assert about_width(model) == ["24 -> 32 features cost nothing in squeeze"]
    # 24 is a whole number of rows of 8 numbers of 32 bits.
    assert about_width(model, precision="float32") == []


def test_a_width_that_its_reader_pays_for_is_not_free():
    # 9 x 24 fits in two squares of 128, 9 x 32 takes three.
    model = chain((8, 8, 3), layers.Conv2D(24, 1, name="squeeze"), layers.Conv2D(64, 3, name="expand"), layers.Dense(5))
    assert about_width(model) == []


def test_the_number_of_classes_is_no_width():
    assert about_width(chain((8, 8, 16), layers.GlobalAveragePooling2D(), layers.Dense(5))) == []


@pytest.mark.parametrize(
    ("batch_size", "expected"),
    [
        (128, None),
        (256, None),
        (100, "not a multiple of 8; 104 costs nothing"),
        (64, "leaves 64 of 128 lanes empty"),
        (136, "is padded to 256"),
    ],
)
def test_batches_fill_lanes(batch_size, expected):
    model = chain((4, 4, 128), layers.Conv2D(128, 1))
    found = advise(model, batch_size=batch_size, precision="mixed_bfloat16")
    assert found == [] if expected is None else expected in found[0]


@pytest.mark.parametrize(("precision", "words"), [("float32", "bfloat16"), ("mixed_float16", "no float16 units")])
def test_dtypes_without_units_are_named(precision, words):
    model = chain((4, 4, 128), layers.Conv2D(128, 1))
    assert any(words in line for line in advise(model, batch_size=128, precision=precision))


def test_the_layer_that_wastes_most_is_named():
    model = chain((32, 32, 3), layers.Conv2D(32, 3, padding="same", name="stem"), layers.Conv2D(128, 2, name="rest"))
    assert [line for line in advise(model, batch_size=128, precision="mixed_bfloat16") if "stem" in line] == [
        "stem (27 x 32) fills 5% of the unit in 52% of its time"
    ]
