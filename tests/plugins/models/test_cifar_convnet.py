import keras
import keras_tuner
import numpy as np
import pytest
from workbench_plugins.models.cifar_convnet import workbench_models

[MODEL] = workbench_models()


def build(image_shape=(32, 32, 3), num_classes=10, **values):
    hp = keras_tuner.HyperParameters()
    hp.values = {f"cifar_convnet/{name}": value for name, value in values.items()}
    with hp.name_scope("cifar_convnet"):
        return MODEL.build(hp, image_shape, num_classes)


def layers(model, kind):
    return [layer for layer in model.layers if isinstance(layer, kind)]


def conv_facts(model):
    return [(conv.filters, conv.kernel_size[0], conv.padding) for conv in layers(model, keras.layers.Conv2D)]


def test_default_point_has_the_published_parameters():
    assert build().count_params() == 1_676_982


def test_default_point_has_the_published_layers():
    model = build()

    names = [type(layer).__name__ for layer in model.layers if not isinstance(layer, keras.layers.Activation)]
    block = ["BatchNormalization", "Conv2D", "Conv2D", "MaxPooling2D", "Dropout"]
    assert names == ["InputLayer", *block, *block, "Flatten", "Dense", "Dropout", "Dense"]
    assert conv_facts(model) == [(32, 3, "same"), (32, 3, "same"), (64, 3, "same"), (64, 3, "valid")]
    assert [layer.rate for layer in layers(model, keras.layers.Dropout)] == [0.25, 0.25, 0.5]
    assert [layer.activation.__name__ for layer in layers(model, keras.layers.Activation)] == ["relu"] * 4
    assert [(dense.units, dense.activation.__name__) for dense in layers(model, keras.layers.Dense)] == [
        (512, "relu"),
        (10, "softmax"),
    ]


@pytest.mark.parametrize(
    ("filters", "growth", "expected"),
    [(32, 1.0, [32, 32, 32]), (32, 1.5, [32, 48, 72]), (40, 1.5, [40, 64, 88]), (16, 2.0, [16, 32, 64])],
)
def test_filters_grow_to_multiples_of_eight(filters, growth, expected):
    model = build(blocks=3, convs=1, filters=filters, growth=growth)

    assert [conv.filters for conv in layers(model, keras.layers.Conv2D)] == expected


def test_kernels_are_chosen_by_block():
    model = build(blocks=3, convs=1, padding="same", **{"block_1/kernel": 7, "block_3/kernel": 1})

    assert [kernel for _, kernel, _ in conv_facts(model)] == [7, 3, 1]


@pytest.mark.parametrize(
    ("padding", "expected"),
    [
        ("same", ["same"] * 4),
        ("valid_last", ["same", "same", "same", "valid"]),
        ("valid", ["valid"] * 4),
    ],
)
def test_padding(padding, expected):
    assert [each for _, _, each in conv_facts(build(padding=padding))] == expected


@pytest.mark.parametrize(("batch_norm", "expected"), [("none", 0), ("block", 2), ("conv", 4)])
def test_batch_normalisations(batch_norm, expected):
    assert len(layers(build(batch_norm=batch_norm), keras.layers.BatchNormalization)) == expected


@pytest.mark.parametrize(("dense_layers", "units"), [(0, [10]), (2, [128, 128, 10])])
def test_dense_layers(dense_layers, units):
    model = build(dense_layers=dense_layers, dense_units=128)

    assert [dense.units for dense in layers(model, keras.layers.Dense)] == units


def test_average_pooling_and_global_average_head():
    model = build(pooling="average", head="global_average")

    assert len(layers(model, keras.layers.AveragePooling2D)) == 2
    assert layers(model, keras.layers.MaxPooling2D) == layers(model, keras.layers.Flatten) == []
    assert layers(model, keras.layers.Dense)[0].kernel.shape == (64, 512)


def test_digits_of_eight_pixels_and_one_channel():
    model = build((8, 8, 1), 10)

    output = model(np.zeros((2, 8, 8, 1), "float32"))

    assert output.shape == (2, 10)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"blocks": 4, "padding": "same"}, r"2x2 pooling of block 4 .* images of 8x8 pixels leave 1x1 there"),
        ({"blocks": 3}, r"3x3 unpadded convolution of block 3 .* leave 2x2 there; .* fewer blocks"),
        (
            {"padding": "valid", "block_1/kernel": 7},
            r"7x7 unpadded convolution of block 1 .* leave 2x2 there",
        ),
    ],
)
def test_too_small_feature_maps_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        build((8, 8, 1), **values)


@pytest.mark.parametrize("values", [{"blocks": 5}, {"blocks": 0}, {"dense_layers": 3}])
def test_points_past_the_declared_space_are_refused(values):
    [(name, value)] = values.items()

    with pytest.raises(ValueError, match=rf"cifar_convnet/{name} must be .*; received {value}"):
        build(**values)


def test_learns_a_batch_by_heart():
    keras.utils.set_random_seed(1)
    model = build((8, 8, 1), 2, filters=16, dense_units=64, block_dropout=0.0, head_dropout=0.0)
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
    images = np.random.default_rng(1).random((16, 8, 8, 1), dtype=np.float32)

    losses = model.fit(images, np.arange(16) % 2, epochs=30, batch_size=16, verbose=0).history["loss"]

    assert losses[-1] < 0.1 < losses[0]
