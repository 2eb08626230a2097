"""Classes of image files."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from PIL import Image

from workbench.errors import DataError
from workbench.modelfile import save_model
from workbench.predict import BATCH_SIZE, predict_images


@pytest.fixture
def model_file(tmp_path):
    """A model whose output for (red, green) is the mean red and green of an image, times a scale."""

    def write(output="probabilities", scale=1.0):
        images = keras.Input((8, 8, 3))
        pooled = keras.layers.GlobalAveragePooling2D()(images)
        dense = keras.layers.Dense(2, use_bias=False, name="mix")
        model = keras.Model(images, dense(pooled))
        dense.set_weights([np.array([[scale, 0], [0, scale], [0, 0]], np.float32)])
        path = tmp_path / "model.keras"
        save_model(model, path, {"class_names": ["red", "green"], "image_shape": [8, 8, 3], "output": output})
        return path

    return write


@pytest.fixture
def image(tmp_path):
    def write(color, name="image.png", size=(20, 12), mode="RGB"):
        Image.new(mode, size, color).save(tmp_path / name)
        return tmp_path / name

    return write


def test_classes_and_probabilities(model_file, image):
    files = [image((255, 0, 0), "a.png"), image((51, 204, 0), "b.bmp", (3, 40))]
    first, second = predict_images(model_file(), files)
    assert first.image == files[0]
    assert first.best(2) == [("red", 1.0), ("green", 0.0)]
    assert second.best(1) == [("green", pytest.approx(0.8))]
    assert second.probabilities.dtype == np.float32
    assert second.as_dict(1) == {
        "image": str(files[1]),
        "classes": [{"class": "green", "probability": pytest.approx(0.8)}],
    }


def test_logits_become_probabilities(model_file, image):
    (found,) = predict_images(model_file("logits", scale=3.0), [image((255, 0, 0))])
    np.testing.assert_allclose(found.probabilities, [np.exp(3) / (np.exp(3) + 1), 1 / (np.exp(3) + 1)], rtol=1e-5)


def test_other_modes_and_more_images_than_a_batch(model_file, image):
    files = [image(level, f"{level}.png", mode="L") for level in range(BATCH_SIZE + 3)]
    found = predict_images(model_file(), files)
    assert [item.image for item in found] == files
    np.testing.assert_allclose([item.probabilities[1] for item in found], np.arange(len(files)) / 255, atol=1e-6)


def test_a_broken_image_is_an_error_that_names_it(model_file, image, tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"no image")
    for files in ([tmp_path / "broken.jpg"], [image((0, 0, 0)), tmp_path / "broken.jpg"]):
        with pytest.raises(DataError, match=r"broken\.jpg: this image cannot be decoded"):
            predict_images(model_file(), files)
    with pytest.raises(DataError, match=r"missing\.jpg: no such image file"):
        predict_images(model_file(), [tmp_path / "missing.jpg"])


def test_a_missing_model(image, tmp_path):
    with pytest.raises(DataError, match="no such model file"):
        predict_images(tmp_path / "model.keras", [image((0, 0, 0))])
