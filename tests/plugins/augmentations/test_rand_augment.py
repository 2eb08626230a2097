"""RandAugment's operations against Pillow's, and how they are drawn."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance, ImageOps
from workbench_plugins.augmentations import _rand_augment_operations as operations
from workbench_plugins.augmentations._stateless import SeedStream

STRENGTHS = [0.1, 0.3, 0.7]


@pytest.fixture(scope="module")
def levels():
    """Patches of colour with some noise, rather dark, so that every operation has something to do."""
    rng = np.random.default_rng(0)
    patches = rng.uniform(30, 190, (6, 5, 6, 3)).repeat(8, axis=1).repeat(8, axis=2)
    return (patches + rng.normal(0, 8, patches.shape)).clip(0, 255).astype(np.uint8)


def run(operation, levels, strength, sign=1.0):
    signs = tf.fill([len(levels)], sign)
    return np.asarray(operation(tf.constant(levels, tf.float32) / 255, strength, signs)).clip(0, 1) * 255


def with_pillow(change, levels):
    return np.stack([np.asarray(change(Image.fromarray(image))) for image in levels]).astype(np.float32)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize(
    ("operation", "enhance"),
    [
        (operations.color, ImageEnhance.Color),
        (operations.contrast, ImageEnhance.Contrast),
        (operations.brightness, ImageEnhance.Brightness),
        (operations.sharpness, ImageEnhance.Sharpness),
    ],
)
def test_enhancements_are_pillows(levels, operation, enhance, strength, sign):
    expected = with_pillow(lambda image: enhance(image).enhance(1 + 0.9 * strength * sign), levels)
    np.testing.assert_allclose(run(operation, levels, strength, sign), expected, atol=2)
    assert np.abs(expected - levels).max() > 2


def test_auto_contrast_is_pillows(levels):
    expected = with_pillow(ImageOps.autocontrast, levels)
    np.testing.assert_allclose(run(operations.auto_contrast, levels, 0.3), expected, atol=1.01)


def test_equalize_is_pillows_exactly(levels):
    expected = with_pillow(ImageOps.equalize, levels)
    np.testing.assert_allclose(run(operations.equalize, levels, 0.3), expected, atol=1e-3)
    assert np.abs(expected - levels).max() > 20


@pytest.mark.parametrize("strength", STRENGTHS)
def test_solarize_is_pillows_exactly(levels, strength):
    expected = with_pillow(lambda image: ImageOps.solarize(image, 256 * (1 - strength)), levels)
    np.testing.assert_allclose(run(operations.solarize, levels, strength), expected, atol=1e-3)


@pytest.mark.parametrize(("strength", "bits"), [(0.1, 8), (0.3, 7), (0.5, 6), (1.0, 4)])
def test_posterize_is_pillows_exactly(levels, strength, bits):
    expected = with_pillow(lambda image: ImageOps.posterize(image, bits), levels)
    np.testing.assert_allclose(run(operations.posterize, levels, strength), expected, atol=1e-3)


@pytest.mark.parametrize(
    "operation", [operations.auto_contrast, operations.equalize], ids=lambda operation: operation.__name__
)
def test_flat_images_stay_as_they_are(operation):
    flat = np.full((2, 8, 8, 3), 77, np.uint8)
    np.testing.assert_allclose(run(operation, flat, 0.3), flat, atol=1e-3)


def test_translations_shift_by_a_share_of_the_side():
    image = np.zeros((1, 20, 40, 1), np.uint8)
    image[0, 10, 20] = 255
    # 0.45 * strength of 40 and of 20 pixels; positive signs read from the right and from below.
    sideways = run(operations.translate_x, image, 1 / 3)
    down = run(operations.translate_y, image, 1 / 3, -1.0)
    np.testing.assert_array_equal(np.argwhere(sideways.round() == 255), [[0, 10, 14, 0]])
    np.testing.assert_array_equal(np.argwhere(down.round() == 255), [[0, 13, 20, 0]])
    np.testing.assert_allclose(sideways[0, 0, -6:], 127.5)


def test_rotation_keeps_the_centre_and_turns_the_rest():
    image = np.zeros((1, 21, 21, 1), np.uint8)
    image[0, 10, 10] = image[0, 10, 18] = 255
    turned = run(operations.rotate, image, 1.0)
    assert turned[0, 10, 10, 0] == pytest.approx(255, abs=1)
    x, y = 10 + 8 * np.cos(np.pi / 6), 10 - 8 * np.sin(np.pi / 6)
    assert turned[0, round(y), round(x), 0] > 150
    assert turned[0, 10, 18, 0] < 10


def test_shears_move_rows_and_columns_in_proportion():
    image = np.zeros((1, 21, 21, 1), np.uint8)
    image[0, 10, 10] = 255
    assert np.argmax(run(operations.shear_x, image, 1.0)[0, 10, :, 0]) == 7
    assert np.argmax(run(operations.shear_y, image, 1.0, -1.0)[0, :, 10, 0]) == 13


@pytest.mark.parametrize("operation", [operations.color, operations.identity], ids=lambda operation: operation.__name__)
def test_leaves_one_channel_images_alone(levels, operation):
    grey = levels[..., :1]
    np.testing.assert_allclose(run(operation, grey, 0.7), grey, atol=1e-3)


@pytest.mark.parametrize("operation", operations.OPERATIONS, ids=lambda operation: operation.__name__)
def test_takes_no_images_too(operation):
    nothing = np.zeros((0, 8, 8, 3), np.uint8)
    assert run(operation, nothing, 0.3).shape == nothing.shape


def test_each_image_gets_one_of_fourteen_operations_and_keeps_its_place(levels):
    """Every result is that of some operation on the very image, and all fourteen occur equally often."""
    assert len(operations.OPERATIONS) == 14
    images = tf.constant(levels[:1], tf.float32) / 255
    candidates = {
        (operation.__name__, sign): np.asarray(operation(images, 0.3, tf.constant([sign]))).clip(0, 1)[0]
        for operation in operations.OPERATIONS
        for sign in (-1.0, 1.0)
    }
    count = 700
    seed = tf.constant([1, 2])
    changed = operations.apply_random_operations(tf.repeat(images, count, axis=0), 0.3, SeedStream(seed))
    drawn = [min(candidates, key=lambda key: np.abs(candidates[key] - image).max())[0] for image in changed.numpy()]
    counts = [drawn.count(operation.__name__) for operation in operations.OPERATIONS]
    assert min(counts) >= 25
    assert max(counts) <= 80
    # Flat images that no operation of strength 0 changes, but for rounding to grey levels, show their places.
    marks = tf.tile(tf.linspace(0.2, 1.0, count)[:, None, None, None], [1, 8, 8, 1])
    unchanged = operations.apply_random_operations(marks, 0.0, SeedStream(seed))
    np.testing.assert_allclose(unchanged, marks, atol=0.5 / 255 + 1e-6)
