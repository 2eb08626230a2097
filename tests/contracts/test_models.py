"""What holds for every registered model."""

import random
import subprocess
import sys
from collections import Counter

import keras
import keras_tuner
import numpy as np
import pytest
from keras_tuner.engine import hyperparameters as kinds
from workbench_plugins.models import cifar_convnet, squeezenet, xception

from workbench import Model
from workbench.registry import Registry

MODULES = (cifar_convnet, squeezenet, xception)
RANDOM_POINTS = {"xception": 3}
"""How many random points to build, where 8 would take long."""


def all_models() -> list[Model]:
    return [item.component for item in Registry.load(environ={}).registered("model")]


@pytest.fixture(params=all_models(), ids=lambda model: model.name)
def model(request):
    return request.param


def build(model, hp, image_shape=None, num_classes=4):
    size = max(model.min_image_size, 16)
    with hp.name_scope(model.name):
        return model.build(hp, image_shape or (size, size, 3), num_classes)


def explored(model):
    """The space as one build at the default point declares it."""
    hp = keras_tuner.HyperParameters()
    build(model, hp)
    return hp


def random_point(space, seed):
    """A point with a value for each active hyperparameter, parents first."""
    hp = space.copy()
    hp.values = {}
    rng = random.Random(seed)
    for each in hp.space:
        if hp.is_active(each):
            hp.values[each.name] = each.random_sample(rng.randrange(2**31))
    return hp


def definition(hp):
    """Everything that a declaration says, but the conditions."""
    return type(hp), {key: value for key, value in hp.get_config().items() if key != "conditions"}


def test_default_point_builds_for_the_reference_shape(model):
    built = build(model, keras_tuner.HyperParameters(), model.reference_image_shape, model.reference_classes)

    assert built.input_shape == (None, *model.reference_image_shape)
    assert built.output_shape == (None, model.reference_classes)


@pytest.mark.parametrize("channels", [1, 3])
def test_smallest_declared_images_give_probabilities(model, channels):
    size = model.min_image_size
    built = build(model, keras_tuner.HyperParameters(), (size, size, channels), 10)
    images = np.random.default_rng(0).random((2, size, size, channels), dtype=np.float32)

    output = keras.ops.convert_to_numpy(built(images))

    assert output.dtype == np.float32
    assert output.shape == (2, 10)
    assert model.output == "probabilities"
    np.testing.assert_allclose(output.sum(axis=1), 1.0, atol=1e-5)


def test_images_below_the_declared_minimum_are_refused(model):
    size = model.min_image_size - 1

    with pytest.raises(ValueError, match=rf"{model.name}.*{size}x{size}.*use larger images"):
        build(model, keras_tuner.HyperParameters(), (size, size, 3))


def test_output_stays_float32_under_mixed_precision(model):
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        built = build(model, keras_tuner.HyperParameters())
    finally:
        keras.config.set_dtype_policy("float32")

    assert built.output.dtype == "float32"
    assert {layer.compute_dtype for layer in built.layers if isinstance(layer, keras.layers.Conv2D)} == {"bfloat16"}


def test_random_points_build_within_the_explored_space(model):
    space = explored(model)
    declared = [each.get_config() for each in space.space]
    output_shapes = set()

    for seed in range(RANDOM_POINTS.get(model.name, 8)):
        hp = random_point(space, seed)
        values = dict(hp.values)
        try:
            output_shapes.add(build(model, hp, (16, 16, 3)).output_shape)
        except ValueError as error:
            assert str(error).startswith(f"{model.name}: ")  # noqa: PT017
        assert [each.get_config() for each in hp.space] == declared
        assert hp.values == values
    assert output_shapes == {(None, 4)}


def test_inactive_hyperparameters_have_no_value(model):
    hp = explored(model)

    assert set(hp.values) == {each.name for each in hp.space if hp.is_active(each)}


def test_each_name_is_declared_once(model):
    counts = Counter(each.name for each in explored(model).space)

    assert [name for name, count in counts.items() if count > 1] == []


def test_names_are_scoped_to_the_component(model):
    assert all(each.name.startswith(f"{model.name}/") for each in explored(model).space)


def test_every_default_can_be_sampled(model):
    for each in explored(model).space:
        values = list(each.values)
        assert each.default in values, each.name
        assert type(each.default) is type(values[0]), each.name


def test_every_value_of_a_range_is_reached_by_its_step(model):
    for each in explored(model).space:
        if isinstance(each, kinds.Int | kinds.Float):
            assert list(each.values)[-1] == each.max_value, each.name


def test_space_is_the_same_under_the_choice_of_a_model(model):
    alone = explored(model)
    hp = keras_tuner.HyperParameters()
    hp.Choice("model", [model.name, "other"])

    with hp.conditional_scope("model", [model.name]):
        build(model, hp)

    nested = hp.space[1:]
    assert [definition(each) for each in nested] == [definition(each) for each in alone.space]
    for each, expected in zip(nested, alone.space, strict=True):
        assert each.conditions[0].name == "model"
        assert each.conditions[1:] == expected.conditions


def test_equal_values_build_equal_networks(model):
    point = random_point(explored(model), seed=1)

    first, second = (build(model, point.copy(), (64, 64, 3)) for _ in range(2))

    assert [weight.shape for weight in first.weights] == [weight.shape for weight in second.weights]


@pytest.mark.parametrize("module", [module.__name__ for module in MODULES])
def test_import_leaves_deep_learning_libraries_alone(module):
    program = (
        f"import sys, {module} as plugin; plugin.workbench_models(); "
        "print({'tensorflow', 'keras', 'keras_tuner'} & set(sys.modules))"
    )

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "set()"
