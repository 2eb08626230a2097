import itertools

import keras
import keras_tuner
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workbench_plugins.models import squeezenet
from workbench_plugins.models.squeezenet import workbench_models

[MODEL] = workbench_models()


def hyperparameters(**values):
    hp = keras_tuner.HyperParameters()
    hp.values = {f"squeezenet/{name}": value for name, value in values.items()}
    return hp


def build(image_shape=(32, 32, 3), num_classes=5, **values):
    hp = hyperparameters(**values)
    with hp.name_scope("squeezenet"):
        return MODEL.build(hp, image_shape, num_classes)


def active(**values):
    """The names, without the component, that are active at a point."""
    hp = hyperparameters(**values)
    with hp.name_scope("squeezenet"):
        MODEL.build(hp, (16, 16, 3), 5)
    return {each.name.removeprefix("squeezenet/") for each in hp.space if hp.is_active(each)}


def layers(model, kind):
    return [layer for layer in model.layers if isinstance(layer, kind)]


def fires(model):
    """(squeeze, expand) of each fire module, in order."""
    found = []
    for concatenate in layers(model, keras.layers.Concatenate):
        expand = concatenate.output.shape[-1]
        branch = concatenate.input[0]._keras_history.operation
        while not isinstance(branch, keras.layers.Conv2D):
            branch = branch.input._keras_history.operation
        found.append((branch.input.shape[-1], expand))
    return found


def test_default_point_has_the_published_parameters():
    assert build((192, 192, 3), 5).count_params() == 120_613


def test_default_point_has_the_published_layers():
    model = build((192, 192, 3), 5)

    assert fires(model) == [(24, 48), (48, 96), (64, 128), (48, 96), (24, 48)]
    assert len(layers(model, keras.layers.MaxPooling2D)) == 4
    assert {norm.momentum for norm in layers(model, keras.layers.BatchNormalization)} == {0.9}
    convs = layers(model, keras.layers.Conv2D)
    assert len(convs) == len(layers(model, keras.layers.BatchNormalization)) == 1 + 3 * 5
    assert all(conv.use_bias for conv in convs)
    assert {conv.activation.__name__ for conv in convs} == {"relu"}
    assert model.layers[-2].input.shape == (None, 12, 12, 48)


def test_a_fire_module_expands_with_1x1_and_3x3_side_by_side():
    model = build(batch_norm=False)

    [concatenate, *_] = layers(model, keras.layers.Concatenate)
    branches = [tensor._keras_history.operation for tensor in concatenate.input]
    assert [(branch.kernel_size, branch.filters) for branch in branches] == [((1, 1), 24), ((3, 3), 24)]
    assert branches[0].input is branches[1].input


@pytest.mark.parametrize("pools", [2, 3, 4])
def test_stages_follow_pools(pools):
    model = build(pools=pools, **{"stage_2/fire_modules": 3})

    published = [(24, 48), (48, 96), (64, 128), (48, 96), (24, 48)]
    assert fires(model) == [published[0], *[published[1]] * 3, *published[2 : pools + 1]]
    assert len(layers(model, keras.layers.MaxPooling2D)) == pools


def test_constant_filters():
    assert fires(build(filters="constant", expand=64, squeeze_ratio=0.125)) == [(8, 64)] * 5


def test_growing_filters_stop_at_196():
    model = build(filters="growing", expand=32, expand_increment=64, squeeze_ratio=0.5)

    assert fires(model) == [(16, 32), (48, 96), (80, 160), (98, 196), (98, 196)]


@given(
    expand=st.integers(1, 98).map(lambda half: 2 * half),
    ratio=st.floats(0.0, 2.0),
)
def test_squeeze_is_always_smaller_than_expand(expand, ratio):
    stage = squeezenet._stage(1, expand, ratio, "per_stage")

    assert 1 <= stage.squeeze < stage.expand == expand


def test_odd_expand_filters_are_refused():
    with pytest.raises(ValueError, match=r"expand filters must be even .* received 31 \(filters = 'per_stage'\)"):
        build(**{"stage_2/expand": 31})


def test_batch_norm_off():
    assert layers(build(batch_norm=False), keras.layers.BatchNormalization) == []
    assert "batch_norm_momentum" not in active(batch_norm=False)


def test_stem():
    stem = layers(build(stem_filters=64, stem_kernel=7), keras.layers.Conv2D)[0]

    assert (stem.filters, stem.kernel_size) == (64, (7, 7))


def test_simple_bypass_adds_where_channels_agree_and_costs_nothing():
    values = {"stage_1/expand": 32, "stage_3/fire_modules": 3}

    plain, simple = (build(bypass=bypass, **values) for bypass in ("none", "simple"))

    # The stem has 32 channels, so the first module counts; of stage 3, the second and third.
    assert len(layers(simple, keras.layers.Add)) == 3
    assert simple.count_params() == plain.count_params()


def test_complex_bypass_adds_a_1x1_convolution_where_channels_differ():
    plain, complicated = (build(bypass=bypass) for bypass in ("none", "complex"))

    assert len(layers(complicated, keras.layers.Add)) == 5
    channels = [32, 48, 96, 128, 96, 48]
    convolutions = sum(before * after + after for before, after in itertools.pairwise(channels))
    assert complicated.count_params() == plain.count_params() + convolutions


STAGES = {f"stage_{stage}/{name}" for stage in range(1, 6) for name in ("expand", "squeeze_ratio")}


@pytest.mark.parametrize(
    ("filters", "pools", "stages", "shared"),
    [
        ("per_stage", 4, 5, set()),
        ("per_stage", 2, 3, set()),
        ("constant", 4, 0, {"expand", "squeeze_ratio"}),
        ("growing", 3, 0, {"expand", "squeeze_ratio", "expand_increment"}),
    ],
)
def test_only_what_the_network_uses_is_active(filters, pools, stages, shared):
    names = active(filters=filters, pools=pools)

    assert names & STAGES == {name for name in STAGES if int(name[6]) <= stages}
    assert names & {"expand", "squeeze_ratio", "expand_increment"} == shared
    assert {name for name in names if name.endswith("fire_modules")} == {
        f"stage_{stage}/fire_modules" for stage in range(1, pools + 2)
    }


def test_weights_run_at_another_image_size():
    small, large = build((32, 32, 3)), build((48, 64, 3))

    large.set_weights(small.get_weights())

    assert large(np.zeros((1, 48, 64, 3), "float32")).shape == (1, 5)


def test_too_small_images_are_refused():
    with pytest.raises(ValueError, match=r"4 pools .* at least 16x16 pixels; received 15x64; .* fewer pools"):
        build((15, 64, 3))


def test_more_pools_than_declared_are_refused():
    with pytest.raises(ValueError, match=r"squeezenet/pools must be 2 to 4; received 5"):
        build(pools=5)
