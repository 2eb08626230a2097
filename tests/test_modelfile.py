"""Trained models in one file."""

from __future__ import annotations

import json
import zipfile

import keras
import numpy as np
import pytest

from workbench.errors import DataError
from workbench.modelfile import MEMBER, load_model, read_facts, save_model

FACTS = {"class_names": ["cat", "dög"], "image_shape": [8, 8, 3], "output": "probabilities", "score": None}


@pytest.fixture(scope="module")
def model():
    images = keras.Input((8, 8, 3))
    x = keras.layers.Dropout(0.5)(keras.layers.Flatten()(images))
    return keras.Model(images, keras.layers.Dense(2, activation="softmax")(x))


@pytest.fixture
def path(model, tmp_path):
    path = tmp_path / "new" / "model.keras"
    save_model(model, path, FACTS)
    return path


def test_a_round_trip(model, path):
    loaded, facts = load_model(path)
    images = np.random.default_rng(0).random((3, 8, 8, 3), dtype=np.float32)
    np.testing.assert_array_equal(loaded.predict_on_batch(images), model.predict_on_batch(images))
    assert facts == read_facts(path) == FACTS
    assert [item.name for item in path.parent.iterdir()] == ["model.keras"]


def test_keras_alone_can_load_it(path):
    assert keras.models.load_model(path, compile=False).output_shape == (None, 2)


def test_a_write_that_fails_leaves_the_old_file(model, path):
    before = path.read_bytes()
    with pytest.raises(TypeError, match="not JSON serializable"):
        save_model(model, path, {"class_names": object()})
    assert path.read_bytes() == before
    assert [item.name for item in path.parent.iterdir()] == ["model.keras"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"no such model file; `workbench train \.\.\. -o MODEL\.keras` writes one"),
        (b"", "must be a .keras file; it cannot be read as one"),
        (b"\x89PNG", "must be a .keras file; it cannot be read as one"),
    ],
)
def test_a_file_that_is_no_model(tmp_path, content, message):
    path = tmp_path / "other.keras"
    if content is not None:
        path.write_bytes(content)
    for read in (read_facts, load_model):
        with pytest.raises(DataError, match=rf"other\.keras: {message}"):
            read(path)


def test_a_model_that_the_workbench_did_not_write(model, tmp_path):
    model.save(tmp_path / "plain.keras")
    with pytest.raises(DataError, match=rf"plain\.keras: has no {MEMBER}, so its class names are not known"):
        read_facts(tmp_path / "plain.keras")


def test_a_damaged_model(path, tmp_path):
    torn = tmp_path / "torn.keras"
    torn.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"torn\.keras: must be a \.keras file"):
        read_facts(torn)
    facts = tmp_path / "facts.keras"
    with zipfile.ZipFile(facts, "w") as archive:
        archive.writestr(MEMBER, "no JSON")
    with pytest.raises(DataError, match=rf"facts\.keras: .*{MEMBER}"):
        read_facts(facts)
    hollow = tmp_path / "hollow.keras"
    with zipfile.ZipFile(hollow, "w") as archive:
        archive.writestr(MEMBER, json.dumps({"class_names": ["a"], "image_shape": [8, 8, 1], "output": "logits"}))
    with pytest.raises(DataError, match=r"hollow\.keras: Keras cannot load this model"):
        load_model(hollow)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ([], "must have class_names, a list of str; received None"),
        ({"class_names": 1}, "must have class_names, a list of str; received 1"),
        ({"class_names": ["a"], "image_shape": "x"}, "must have image_shape, a list of int; received 'x'"),
        ({"class_names": ["a"], "image_shape": [8, 8], "output": "logits"}, r"three numbers .* received \[8, 8\]"),
        ({"class_names": ["a"], "image_shape": [8, 8, 1], "output": "x"}, "received .* and 'x'"),
    ],
)
def test_facts_that_are_not_those_of_a_model(tmp_path, facts, message):
    path = tmp_path / "model.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MEMBER, json.dumps(facts))
    with pytest.raises(DataError, match=rf"model\.keras: its workbench\.json {message}|{message}"):
        read_facts(path)
