"""What holds for every registered augmentation."""

import importlib.util
import os
import subprocess
import sys

import keras_tuner
import numpy as np
import pytest
import tensorflow as tf
from workbench_plugins.augmentations import (
    crop_flip,
    cutmix,
    flip_saturation,
    mixup,
    none,
    rand_augment,
    random_erasing,
)

from workbench import Augmentation
from workbench.registry import Registry

MODULES = (crop_flip, cutmix, flip_saturation, mixup, none, rand_augment, random_erasing)
SHAPES = [(4, 16, 16, 3), (4, 8, 8, 1)]
SEED = (7, 11)


def all_augmentations() -> list[Augmentation]:
    return [item.component for item in Registry.load(environ={}).registered("augmentation")]


@pytest.fixture(params=all_augmentations(), ids=lambda augmentation: augmentation.name)
def augmentation(request):
    return request.param


@pytest.fixture(params=SHAPES, ids=str)
def batch(request):
    """Images with each corner of the range in them, and labels of three classes."""
    images = np.random.default_rng(0).random(request.param, dtype=np.float32)
    images[0, 0, 0], images[0, 0, 1] = 0.0, 1.0
    return images, np.eye(3, dtype=np.float32)[[0, 1, 2, 0]]


def build(augmentation, hp=None):
    hp = hp or keras_tuner.HyperParameters()
    with hp.name_scope(augmentation.name):
        return augmentation.build(hp)


def run(augment, batch, seed=SEED):
    images, labels = augment(*map(tf.constant, batch), tf.constant(seed, tf.int32))
    return images.numpy(), labels.numpy()


def test_keeps_shapes_dtypes_and_range(augmentation, batch):
    augment = build(augmentation)
    for seed in range(5):
        images, labels = run(augment, batch, (seed, 0))
        assert (images.shape, images.dtype) == (batch[0].shape, np.float32)
        assert (labels.shape, labels.dtype) == (batch[1].shape, np.float32)
        assert images.min() >= 0
        assert images.max() <= 1


def test_labels_stay_distributions(augmentation, batch):
    augment = build(augmentation)
    for seed in range(5):
        _, labels = run(augment, batch, (seed, 1))
        assert labels.min() >= 0
        np.testing.assert_allclose(labels.sum(axis=1), 1, rtol=1e-6)


def test_is_a_function_of_its_arguments(augmentation, batch):
    augment = build(augmentation)
    first = run(augment, batch)
    run(augment, batch, (0, 0))
    for images, labels in (run(augment, batch), run(build(augmentation), batch)):
        np.testing.assert_array_equal(images, first[0])
        np.testing.assert_array_equal(labels, first[1])


@pytest.mark.parametrize("part", [0, 1])
def test_both_numbers_of_the_seed_matter(augmentation, batch, part):
    augment = build(augmentation)
    seeds = np.zeros((10, 2), dtype=np.int32)
    seeds[:, part] = range(10)
    different = {run(augment, batch, seed)[0].tobytes() for seed in seeds}
    assert len(different) == 1 if augmentation.name == "none" else len(different) >= 5


def test_leaves_its_arguments_alone(augmentation, batch):
    images, labels = map(tf.constant, batch)
    build(augmentation)(images, labels, tf.constant(SEED))
    np.testing.assert_array_equal(images, batch[0])
    np.testing.assert_array_equal(labels, batch[1])


def test_runs_inside_tf_data_with_static_shapes(augmentation, batch):
    augment = build(augmentation)
    dataset = tf.data.Dataset.from_tensors((*batch, np.array(SEED, np.int32))).map(augment)
    assert [spec.shape for spec in dataset.element_spec] == [part.shape for part in batch]
    (inside,) = dataset.as_numpy_iterator()
    # The graph's optimiser may re-order float32 sums.
    np.testing.assert_allclose(inside[0], run(augment, batch)[0], atol=1e-5)
    np.testing.assert_allclose(inside[1], run(augment, batch)[1], atol=1e-6)


def test_keeps_float32_under_a_mixed_precision_policy(augmentation, batch):
    import keras

    expected = run(build(augmentation), batch)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        images, labels = run(build(augmentation), batch)
    finally:
        keras.config.set_dtype_policy("float32")
    np.testing.assert_array_equal(images, expected[0])
    np.testing.assert_array_equal(labels, expected[1])


def test_equal_images_of_one_batch_are_changed_differently(augmentation):
    if augmentation.name in ("none", "mixup"):
        pytest.skip("changes nothing in a batch of equal images")
    images = np.random.default_rng(0).random((1, 16, 16, 3), dtype=np.float32).repeat(32, axis=0)
    images[1::2] = 1 - images[1::2]
    changed, _ = run(build(augmentation), (images, np.eye(32, dtype=np.float32)))
    assert len({image.tobytes() for image in changed[::2]}) > 2


def test_defaults_lie_on_their_grids_and_names_are_declared_once(augmentation):
    hp = keras_tuner.HyperParameters()
    build(augmentation, hp)
    assert len({each.name for each in hp.space}) == len(hp.space)
    for each in hp.space:
        assert each.name.startswith(f"{augmentation.name}/")
        numeric = isinstance(each.default, float)
        matches = np.isclose(list(each.values), each.default) if numeric else [each.default in each.values]
        assert any(matches)


@pytest.mark.parametrize("seed", range(5))
def test_every_point_of_the_space_works(augmentation, seed):
    hp = keras_tuner.HyperParameters()
    build(augmentation, hp)
    for number, each in enumerate(hp.space):
        hp.values[each.name] = each.random_sample(100 * seed + number)
    images = np.random.default_rng(seed).random((4, 16, 16, 3), dtype=np.float32)
    changed, labels = run(build(augmentation, hp), (images, np.eye(4, dtype=np.float32)))
    assert np.isfinite(changed).all()
    np.testing.assert_allclose(labels.sum(axis=1), 1, rtol=1e-6)


def test_names_are_unique_and_those_of_the_files():
    expected = [module.__name__.rpartition(".")[2] for module in MODULES]
    assert [augmentation.name for augmentation in all_augmentations()] == expected


def test_importing_them_imports_no_deep_learning_library():
    names = ", ".join(module.__name__ for module in MODULES)
    code = f"import sys, {names}; print({{'tensorflow', 'keras', 'keras_tuner'}} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_run_inside_tf_data_on_another_keras_backend(tmp_path):
    """With JAX as the backend, each augmentation gives what it gives with TensorFlow."""
    images = np.random.default_rng(0).random((4, 16, 16, 3), dtype=np.float32)
    batch = (images, np.eye(4, dtype=np.float32))
    np.savez(tmp_path / "batch.npz", images=batch[0], labels=batch[1])
    code = f"""
import importlib, keras_tuner, keras, numpy as np, tensorflow as tf
assert keras.backend.backend() == "jax"
batch = np.load("batch.npz")
results = {{}}
for module in {[module.__name__ for module in MODULES]}:
    (each,) = importlib.import_module(module).workbench_augmentations()
    hp = keras_tuner.HyperParameters()
    with hp.name_scope(each.name):
        augment = each.build(hp)
    seed = np.array({SEED}, np.int32)
    dataset = tf.data.Dataset.from_tensors((batch["images"], batch["labels"], seed)).map(augment)
    results[each.name + "_images"], results[each.name + "_labels"] = next(iter(dataset))
np.savez("results.npz", **results)
"""
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    results = np.load(tmp_path / "results.npz")
    for each in all_augmentations():
        images, labels = run(build(each), batch)
        np.testing.assert_allclose(results[f"{each.name}_images"], images, atol=1e-5)
        np.testing.assert_allclose(results[f"{each.name}_labels"], labels, atol=1e-6)
