"""Classes of image files."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from PIL import Image

from workbench.errors import DataError
from workbench.modelfile import save_model
from workbench.predict import BATCH_SIZE, find_images, predict_images, stream_predictions


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


def test_rows_come_batch_by_batch_and_broken_images_are_told(model_file, image, tmp_path):
    files = [image(level, f"{level}.png", mode="L") for level in range(BATCH_SIZE)]
    (tmp_path / "broken.jpg").write_bytes(b"no image")
    told, asked = [], []

    def paths():
        for number in range(4 * BATCH_SIZE):
            asked.append(number)
            yield tmp_path / "broken.jpg" if number == 1 else files[number % BATCH_SIZE]

    rows = stream_predictions(model_file(), paths(), told.append)
    assert asked == []
    first = next(rows)
    assert (len(first), len(asked)) == (BATCH_SIZE - 1, 2 * BATCH_SIZE), "one batch ahead, no more"
    (error,) = told
    assert str(error).startswith(f"{tmp_path / 'broken.jpg'}: this image cannot be decoded")
    assert [len(batch) for batch in rows] == [BATCH_SIZE] * 3


def test_folders_and_patterns_stand_for_images(image, tmp_path):
    (tmp_path / "photos" / "deep").mkdir(parents=True)
    files = [image((0, 0, 0), f"photos/{name}") for name in ("b.png", "a.PNG", "deep/c.webp", ".hidden.png")]
    (tmp_path / "photos" / "notes.txt").touch()
    photos = tmp_path / "photos"
    assert find_images([photos]) == [files[1], files[0], files[2]]
    assert find_images([photos / "*.png", files[1]]) == [files[0], files[1]]
    assert find_images([photos / "**" / "*.webp"]) == [files[2]]
    odd = image((0, 0, 0), "odd[1].png")
    assert find_images([odd]) == [odd]
    assert find_images([tmp_path / "missing.png"]) == [tmp_path / "missing.png"]
    with pytest.raises(DataError, match=r"\*\.gif: no file matches this pattern"):
        find_images([photos / "*.gif"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: no images in this folder \(looked for \.jpg.*empty is empty"):
        find_images([tmp_path / "empty"])


def test_a_model_that_takes_bytes(image, tmp_path):
    images = keras.Input((8, 8, 3), dtype="uint8")
    model = keras.Model(images, keras.layers.GlobalMaxPooling2D()(keras.layers.Rescaling(1 / 255)(images)))
    facts = {"class_names": ["r", "g", "b"], "image_shape": [8, 8, 3], "output": "probabilities", "input": "uint8"}
    save_model(model, tmp_path / "m.keras", facts)
    (found,) = predict_images(tmp_path / "m.keras", [image((255, 51, 0))])
    np.testing.assert_allclose(found.probabilities, [1, 0.2, 0], atol=1e-6)


@pytest.mark.parametrize("name", ["m.tflite", "m.onnx", "m", "m.keras"])
def test_models_that_are_none(name, tmp_path, image):
    path = tmp_path / name
    path.mkdir() if name == "m" else path.write_bytes(b"no model")
    with pytest.raises(DataError, match=rf"{name}: "):
        predict_images(path, [image((0, 0, 0))])
    with pytest.raises(DataError, match=r"no such model file"):
        predict_images(tmp_path / f"none{path.suffix}", [image((0, 0, 0))])
