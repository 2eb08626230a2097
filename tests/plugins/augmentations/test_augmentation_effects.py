"""What each augmentation does to images and labels."""

import keras_tuner
import numpy as np
import pytest
import tensorflow as tf
from workbench_plugins.augmentations import crop_flip, cutmix, flip_saturation, mixup, none, random_erasing
from workbench_plugins.augmentations._pixels import mirror_and_saturate

COUNT = 1000
LABELS = np.eye(10, dtype=np.float32)[np.arange(COUNT) % 10]


def build(module, **values):
    (component,) = module.workbench_augmentations()
    hp = keras_tuner.HyperParameters()
    hp.values = {f"{component.name}/{name}": value for name, value in values.items()}
    with hp.name_scope(component.name):
        return component.build(hp)


def run(augment, images, labels=LABELS, seed=(3, 5)):
    changed, changed_labels = augment(tf.constant(images), tf.constant(labels), tf.constant(seed, tf.int32))
    return changed.numpy(), changed_labels.numpy()


def noise(*shape):
    return np.random.default_rng(1).random(shape, dtype=np.float32)


def test_none_changes_nothing():
    images = noise(COUNT, 4, 4, 3)
    changed, labels = run(build(none), images)
    np.testing.assert_array_equal(changed, images)
    np.testing.assert_array_equal(labels, LABELS)


@pytest.mark.parametrize("factor", [0.0, 0.3, 1.0, 1.7, 2.0])
def test_saturation_equals_tensorflows(factor):
    images = noise(8, 16, 16, 3)
    images[0] = 0.5
    images[1, ..., 1] = 0.0
    images[2] = 0.0
    changed = mirror_and_saturate(tf.constant(images), tf.fill([8], False), tf.fill([8], factor))
    np.testing.assert_allclose(changed, tf.image.adjust_saturation(images, factor), atol=1e-5)


def test_saturation_factors_are_uniform_from_zero_to_two():
    """A pixel of value 0.8 and saturation 0.25 shows the factor in its smallest channel."""
    images = np.tile(np.array([0.8, 0.7, 0.6], np.float32), (COUNT, 4, 4, 1))
    changed, labels = run(build(flip_saturation), images)
    factors = (1 - changed[:, 0, 0, 2] / 0.8) / 0.25
    counts, _ = np.histogram(factors, bins=4, range=(0, 2))
    assert counts.sum() == COUNT
    assert counts.min() > 200
    np.testing.assert_array_equal(labels, LABELS)


@pytest.mark.parametrize("module", [flip_saturation, random_erasing, mixup, cutmix, crop_flip])
def test_half_of_the_images_are_flipped_unless_switched_off(module):
    """A bright left column shows on the right where an image was mirrored, whatever else was done to it."""
    images = np.zeros((COUNT, 8, 8, 1), np.float32)
    images[:, :, 0] = 1.0
    mirrored = {}
    for flip in (True, False):
        changed, _ = run(build(module, flip=flip), images)
        left, right = (changed[:, :, part].mean(axis=(1, 2, 3)) for part in (slice(2), slice(6, None)))
        mirrored[flip] = (right > left).mean()
    assert mirrored[True] - mirrored[False] > 0.2


def test_flip_is_the_exact_mirror_image():
    images = noise(COUNT, 4, 4, 1)
    changed, _ = run(build(flip_saturation), images)
    kept = (changed == images).all(axis=(1, 2, 3))
    np.testing.assert_array_equal(changed[~kept], images[~kept, :, ::-1])
    assert 0.4 < kept.mean() < 0.6


@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_crops_are_windows_of_the_padded_image(mode):
    images = noise(200, 16, 32, 3)
    changed, labels = run(build(crop_flip, flip=False, padding_mode=mode), images, LABELS[:200])
    padded = np.pad(images, [(0, 0), (2, 2), (4, 4), (0, 0)], mode=mode)
    places = set()
    for image, source in zip(changed, padded, strict=True):
        windows = np.lib.stride_tricks.sliding_window_view(source, (16, 32, 3))[:, :, 0]
        found = np.argwhere((windows == image).all(axis=(2, 3, 4)))
        assert len(found) == 1
        places.add(tuple(found[0]))
    assert {y for y, _ in places} == set(range(5))
    assert {x for _, x in places} == set(range(9))
    np.testing.assert_array_equal(labels, LABELS[:200])


@pytest.mark.parametrize(("fill", "value"), [("black", 0.0), ("grey", 0.5)])
def test_random_erasing_overwrites_a_rectangle_of_half_of_the_images(fill, value):
    images = np.ones((COUNT, 32, 32, 3), np.float32)
    changed, labels = run(build(random_erasing, fill=fill), images)
    erased = (changed == value).all(axis=3)
    assert ((changed == 1).all(axis=3) | erased).all()
    hit = erased.any(axis=(1, 2))
    assert 0.45 < hit.mean() < 0.55
    areas = erased[hit].sum(axis=(1, 2))
    boxes = erased[hit].any(axis=1).sum(axis=1) * erased[hit].any(axis=2).sum(axis=1)
    np.testing.assert_array_equal(areas, boxes)
    assert areas.max() <= 0.4 * 32 * 32 * 1.15
    assert len(set(areas)) > 50
    np.testing.assert_array_equal(labels, LABELS)


def test_random_erasing_fills_with_uniform_noise():
    images = np.full((COUNT, 32, 32, 1), 2.0 / 3.0, np.float32)
    changed, _ = run(build(random_erasing, probability=1.0), images)
    counts, _ = np.histogram(changed[changed != images], bins=4, range=(0, 1))
    np.testing.assert_allclose(counts / counts.sum(), 0.25, atol=0.01)


@pytest.mark.parametrize("module", [mixup, cutmix])
def test_labels_are_mixed_as_the_pixels_are(module):
    """Image i is i everywhere, its label is one-hot i: both give the mean of what was mixed."""
    values = (np.arange(10) / 9).astype(np.float32)
    images = np.tile(values[np.arange(COUNT) % 10, None, None, None], (1, 16, 16, 3))
    changed, labels = run(build(module), images)
    np.testing.assert_allclose(changed.mean(axis=(1, 2, 3)), labels @ values, atol=1e-5)
    assert ((labels > 0).sum(axis=1) <= 2).all()


def test_mixup_weights_follow_the_beta_distribution():
    _, labels = run(build(mixup, alpha=0.2), np.zeros((COUNT, 2, 2, 1), np.float32))
    weights = labels[np.arange(COUNT), np.arange(COUNT) % 10]
    # A partner of the same class hides the weight: nine of ten are seen. Beta(a, a) has mean 1/2 and
    # variance 1 / (4 (2a + 1)).
    seen = weights[weights < 1]
    assert seen.mean() == pytest.approx(0.5, abs=0.06)
    assert seen.var() == pytest.approx(1 / (4 * 1.4), abs=0.03)


def test_cutmix_pastes_into_the_declared_share_of_images():
    images = np.zeros((COUNT, 32, 32, 1), np.float32)
    for probability in (0.25, 1.0):
        _, labels = run(build(cutmix, probability=probability), images)
        mixed = (labels.max(axis=1) < 1).mean()
        # A tenth of the partners has the same class, and some rectangles are smaller than a pixel.
        assert mixed == pytest.approx(0.88 * probability, abs=0.05)
