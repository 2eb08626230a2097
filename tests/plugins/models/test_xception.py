import os
import subprocess
import sys
from pathlib import Path

import keras
import keras_tuner
import numpy as np
import pytest
from workbench_plugins.models.xception import workbench_models

from workbench import DataError
from workbench.errors import UsageError

[MODEL] = workbench_models()
keras_saves_with_an_old_protocol = pytest.mark.filterwarnings(
    "ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning"
)
SMALL = {"architecture": "scratch", "width": 0.25, "middle_blocks": 0}


def build(image_shape=(32, 32, 3), num_classes=5, **values):
    hp = keras_tuner.HyperParameters()
    hp.values = {f"xception/{name}": value for name, value in values.items()}
    with hp.name_scope("xception"):
        return MODEL.build(hp, image_shape, num_classes)


def layers(model, kind):
    return [layer for layer in model.layers if type(layer) is kind]


def parameters(variables):
    return sum(int(np.prod(variable.shape)) for variable in variables)


def shape(weight):
    return tuple(weight.shape)


def assert_equal_weights(weights, others):
    for weight, other in zip(weights, others, strict=True):
        np.testing.assert_array_equal(weight, other)


@pytest.fixture(scope="module")
def published():
    return build((32, 32, 3))


@pytest.fixture(scope="module")
def small():
    return build(**SMALL)


def test_default_point_has_the_published_parameters():
    model = build((192, 192, 3), 5)

    assert model.count_params() == 20_871_725
    assert model.get_layer("block14_sepconv2_act").output.shape == (None, 6, 6, 2048)
    # Only the moving averages of batch normalisation are not trained.
    assert parameters(model.trainable_weights) == 20_871_725 - 54_528


def test_scratch_at_its_defaults_is_the_published_network(published):
    scratch = build(architecture="scratch")

    assert sorted(map(shape, scratch.weights)) == sorted(map(shape, published.weights))
    kinds = (
        keras.layers.SeparableConv2D,
        keras.layers.Activation,
        keras.layers.Add,
        keras.layers.MaxPooling2D,
    )
    for kind in kinds:
        assert [layer.output.shape for layer in layers(scratch, kind)] == [
            layer.output.shape for layer in layers(published, kind)
        ]


def test_equal_weights_give_equal_outputs_in_both_architectures(published):
    # By hand from the paper's figure 5 against keras.applications: same arithmetic, not only same shapes.
    scratch = build(architecture="scratch")
    for kind in (keras.layers.Conv2D, keras.layers.SeparableConv2D, keras.layers.BatchNormalization):
        for ours, theirs in zip(by_shape(scratch, kind), by_shape(published, kind), strict=True):
            ours.set_weights(theirs.get_weights())
    scratch.layers[-1].set_weights(published.layers[-1].get_weights())
    images = np.random.default_rng(0).random((2, 32, 32, 3), dtype=np.float32)

    np.testing.assert_allclose(scratch(images), published(images), atol=1e-5)


def by_shape(model, kind):
    """Layers of a kind, those of equal weights and input sizes in network order."""
    return sorted(
        layers(model, kind),
        key=lambda layer: (tuple(map(shape, layer.weights)), layer.input.shape[1:]),
    )


@pytest.mark.parametrize(
    ("trainable_blocks", "frozen"),
    [
        # Convolutions and both vectors of each batch normalisation of the first blocks.
        (13, 864 + 64 + 18_432 + 128),
        (12, 864 + 64 + 18_432 + 128 + 8_192 + 256 + 8_768 + 256 + 17_536 + 256),
    ],
)
def test_first_blocks_are_frozen_with_their_shortcuts(trainable_blocks, frozen):
    model = build(trainable_blocks=trainable_blocks)

    assert parameters(model.trainable_weights) == 20_871_725 - 54_528 - frozen


def test_without_trainable_blocks_only_the_head_is_trained():
    model = build(trainable_blocks=0, head_units=128)
    before = model.get_weights()

    model(np.random.default_rng(0).random((4, 32, 32, 3), dtype=np.float32), training=True)

    assert parameters(model.trainable_weights) == 2048 * 128 + 128 + 128 * 5 + 5
    assert_equal_weights(model.get_weights(), before)


def test_images_are_rescaled_to_the_range_of_the_weights(published):
    [rescaling] = layers(published, keras.layers.Rescaling)

    np.testing.assert_array_equal(rescaling(np.array([0.0, 0.5, 1.0], "float32")), [-1.0, 0.0, 1.0])


def test_one_channel_is_repeated_so_that_weights_fit(published):
    grey = build((32, 32, 1))
    grey.set_weights(published.get_weights())
    images = np.random.default_rng(0).random((2, 32, 32, 1), dtype=np.float32)

    np.testing.assert_allclose(grey(images), published(np.repeat(images, 3, axis=3)), atol=1e-6)


@pytest.mark.parametrize("middle_blocks", [0, 2])
def test_scratch_width_and_middle_blocks(middle_blocks):
    model = build(**{**SMALL, "middle_blocks": middle_blocks})

    entry = [32, 32, 64, 64, 184, 184]
    middle = [184] * 3 * middle_blocks
    assert [layer.filters for layer in layers(model, keras.layers.SeparableConv2D)] == [
        *entry,
        *middle,
        184,
        256,
        384,
        512,
    ]
    assert [layer.filters for layer in layers(model, keras.layers.Conv2D)] == [8, 16, 32, 64, 184, 256]


def test_scratch_with_full_convolutions(small):
    full = build(**SMALL, separable=False)

    assert layers(full, keras.layers.SeparableConv2D) == []
    assert full.count_params() > 5 * small.count_params()
    assert full.output_shape == small.output_shape


def test_head():
    model = build(**SMALL, head_units=256, head_dropout=0.5)

    assert [dense.units for dense in layers(model, keras.layers.Dense)] == [256, 5]
    assert [dropout.rate for dropout in layers(model, keras.layers.Dropout)] == [0.5]


@pytest.mark.parametrize("options", [{}, {"weights": "none"}])
def test_no_weights_leave_the_model_as_it_is(small, options):
    before = small.get_weights()

    MODEL.initialize(small, options)

    assert_equal_weights(small.get_weights(), before)


def test_missing_weights_file_is_named(published, tmp_path):
    path = tmp_path / "missing.h5"

    with pytest.raises(DataError, match=r"the weights file '.*missing\.h5' does not exist"):
        MODEL.initialize(published, {"weights": str(path)})


@pytest.mark.parametrize("name", ["broken.h5", "broken.weights.h5", "broken.bin"])
def test_unfit_weights_file_is_named(published, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"no weights")

    with pytest.raises(DataError, match=rf"{name}' is no weights file of keras\.applications\.Xception"):
        MODEL.initialize(published, {"weights": str(path)})


@keras_saves_with_an_old_protocol
def test_weights_of_another_network_are_refused(published, small, tmp_path):
    path = tmp_path / "small.weights.h5"
    small.save_weights(path)

    with pytest.raises(DataError, match=r"small\.weights\.h5' is no weights file of keras\.applications\.Xception"):
        MODEL.initialize(published, {"weights": str(path)})


@pytest.mark.parametrize("weights", ["imagenet", "file.h5"])
def test_weights_with_a_model_from_scratch_are_refused(small, weights):
    with pytest.raises(UsageError, match=rf"weights = '{weights}' fits the published .* fix architecture = "):
        MODEL.initialize(small, {"weights": weights})


@pytest.mark.parametrize("weights", [3, None, "", True])
def test_weights_that_are_no_text_are_refused(small, weights):
    with pytest.raises(UsageError, match=r"weights must be 'none', 'imagenet' or the path of a file; received"):
        MODEL.initialize(small, {"weights": weights})


@pytest.mark.slow
@keras_saves_with_an_old_protocol
@pytest.mark.parametrize("channels", [1, 3])
def test_weights_file_of_keras_applications_is_loaded(tmp_path, channels):
    path = tmp_path / "notop.weights.h5"
    theirs = keras.applications.Xception(include_top=False, weights=None, input_shape=(71, 71, 3))
    theirs.save_weights(path)
    ours = build((71, 71, channels), trainable_blocks=3)
    head = ours.layers[-1].get_weights()

    MODEL.initialize(ours, {"weights": path})

    assert_equal_weights(layer_weights(ours)[: len(theirs.weights)], layer_weights(theirs))
    assert_equal_weights(ours.layers[-1].get_weights(), head)


@pytest.mark.slow
def test_pretrained_weights_file_is_loaded(monkeypatch):
    path = Path(os.environ.get("WORKBENCH_DATA", ".")) / "xception" / "xception_notop_block14_random.h5"
    if not path.is_file():
        pytest.skip("needs WORKBENCH_DATA with xception/xception_notop_block14_random.h5")
    monkeypatch.chdir(path.parent)
    ours = build((96, 96, 3))
    images = np.random.default_rng(0).random((2, 96, 96, 3), dtype=np.float32)

    MODEL.initialize(ours, {"weights": path.name})

    theirs = keras.applications.Xception(include_top=False, weights=path, input_shape=(96, 96, 3))
    expected = theirs(keras.applications.xception.preprocess_input(255 * images))
    middle = keras.Model(ours.input, ours.get_layer("block14_sepconv2_act").output)
    np.testing.assert_allclose(middle(images), expected, atol=1e-4)


@pytest.mark.slow
def test_failed_download_of_imagenet_weights_is_explained(tmp_path):
    program = (
        "import keras_tuner\n"
        "from workbench_plugins.models.xception import build, initialize\n"
        "initialize(build(keras_tuner.HyperParameters(), (32, 32, 3), 5), {'weights': 'imagenet'})\n"
    )
    # Port 9 refuses connections: no network, whatever the machine has.
    offline = {"KERAS_HOME": str(tmp_path), "https_proxy": "http://127.0.0.1:9", "no_proxy": ""}

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **offline})

    assert run.returncode == 1
    assert "DataError: xception: weights = 'imagenet' could not be downloaded" in run.stderr


def layer_weights(model):
    """The weights in layer order."""
    return [weight for layer in model.layers for weight in layer.get_weights()]
