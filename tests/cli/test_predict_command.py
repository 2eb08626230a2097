"""`workbench predict`: its formats, broken images, readers that have seen enough, Ctrl-C."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys

import keras
import numpy as np
import pytest
from PIL import Image

from workbench.cli import main
from workbench.modelfile import save_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model whose output for (red, green) is the mean red and green, and two images."""
    place = tmp_path_factory.mktemp("predict")
    images = keras.Input((8, 8, 3))
    dense = keras.layers.Dense(2, use_bias=False)
    model = keras.Model(images, dense(keras.layers.GlobalAveragePooling2D()(images)))
    dense.set_weights([np.array([[1, 0], [0, 1], [0, 0]], np.float32)])
    facts = {"class_names": ["red", "green"], "image_shape": [8, 8, 3], "output": "probabilities"}
    save_model(model, place / "model.keras", facts)
    (place / "images").mkdir()
    Image.new("RGB", (20, 12), (255, 0, 0)).save(place / "images" / "a.png")
    Image.new("RGB", (9, 12), (51, 204, 0)).save(place / "images" / "b.png")
    return place


@pytest.fixture
def run(capsys, folder, monkeypatch):
    monkeypatch.chdir(folder)

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(["predict", "model.keras", *arguments])
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return call


def test_a_table(run):
    code, out, err = run("images")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "image         class  probability  next",
        "images/a.png  red         100.0%  green 0.0%",
        "images/b.png  green        80.0%  red 20.0%",
    ]


def test_csv_and_json(run):
    _, out, _ = run("images", "--format", "csv", "--top", "1")
    assert list(csv.reader(io.StringIO(out))) == [
        ["image", "rank", "class", "probability"],
        ["images/a.png", "1", "red", "1.000000"],
        ["images/b.png", "1", "green", "0.800000"],
    ]
    _, out, _ = run("images", "--format", "json")
    listed = json.loads(out)
    assert [row["image"] for row in listed] == ["images/a.png", "images/b.png"]
    assert listed[1]["classes"][0] == {"class": "green", "probability": pytest.approx(0.8)}
    _, out, _ = run("images", "--format", "jsonl")
    assert [json.loads(line) for line in out.splitlines()] == listed


def test_broken_images_are_named_and_the_others_predicted(run, folder, tmp_path):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no image")
    arguments = ("images/a.png", str(broken), "images/b.png", "--format", "json")
    code, out, err = run(*arguments)
    assert (code, [row["image"] for row in json.loads(out)]) == (2, ["images/a.png", "images/b.png"])
    assert f"warning: {broken}: this image cannot be decoded" in err
    assert "error: 1 of 3 images could not be read (named above); the others were predicted" in err
    code, out, err = run(*arguments, "--on-bad-image", "skip")
    assert (code, len(json.loads(out)), err.count("\n")) == (0, 2, 1)
    code, out, err = run(str(broken), "--format", "json")
    assert (code, out) == (2, "[]\n")
    assert err.startswith(f"error: {broken}: this image cannot be decoded")


# The tests' own level lets TensorFlow tell of a missing graphics card.
QUIET = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": QUIET}
# A shell's background job ignores SIGINT, and so do its children.
COMMAND = """
import signal, sys
from workbench.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
main(sys.argv[1:])
"""


def test_a_reader_that_has_seen_enough_is_no_error(folder):
    # More than a pipe holds.
    images = ["images/a.png"] * 3000
    command = [sys.executable, "-c", COMMAND, "predict", "model.keras", *images, "--format", "json"]
    with subprocess.Popen(command, cwd=folder, **PIPES) as child:
        assert child.stdout.readline() == "[\n"
        child.stdout.close()
        assert child.stderr.read() == ""
    assert child.returncode == 0


def test_ctrl_c_leaves_a_list_that_can_be_read(folder):
    images = ["images/a.png"] * 20_000
    command = [sys.executable, "-c", COMMAND, "predict", "model.keras", *images, "--format", "json"]
    with subprocess.Popen(command, cwd=folder, **PIPES) as child:
        first = child.stdout.readline()
        child.send_signal(signal.SIGINT)
        out, err = child.stdout.read(), child.stderr.read()
    assert 0 < len(json.loads(first + out)) < len(images)
    assert (child.returncode, err) == (130, "Stopped.\n")
