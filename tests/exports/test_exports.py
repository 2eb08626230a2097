"""Exports: what is written predicts what Keras does, nothing of the user's is lost, the card tells the truth."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path

import keras
import numpy as np
import pytest

import workbench
from workbench.definition import load_definition
from workbench.errors import StudyError, UsageError, WorkError
from workbench.exports.formats import FORMATS, choose_format
from workbench.exports.predictors import open_predictor
from workbench.exports.samples import Sample, draw_sample
from workbench.exports.writing import write_export
from workbench.hypermodel import ClassifierHyperModel, overrides_of
from workbench.modelfile import read_facts
from workbench.registry import Registry
from workbench.space import SearchSpace

NAMES = {"keras": "m.keras", "weights": "m.weights.h5", "savedmodel": "m", "tflite": "m.tflite", "onnx": "m.onnx"}
PREDICTING = [name for name in NAMES if name != "weights"]

# Converters of others warn of their own future.
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", r"ignore:\s*Warning. tf.lite.Interpreter is deprecated"
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_tables, tiny_plugin):
    """Two executions of one trial, and the better one's model in a file."""
    return workbench.train(
        tiny_tables(),
        seeds=2,
        study="tiny",
        directory=tmp_path_factory.mktemp("studies"),
        plugin_files=[tiny_plugin],
        inline=True,
        device="cpu",
        output=tmp_path_factory.mktemp("models") / "trained.keras",
    )


@pytest.fixture(scope="module")
def study(trained):
    return trained.study


@pytest.fixture(scope="module")
def byte_values():
    """Every value that a pixel can have, thrice."""
    return np.stack([np.arange(256, dtype=np.uint8).reshape(16, 16, 1)] * 3)


@pytest.fixture(scope="module")
def lookup():
    """A network that gives its pixels back, behind layers that are random in training."""
    images = keras.Input((16, 16, 1))
    x = keras.layers.RandomFlip()(images)
    x = keras.layers.RandomRotation(0.5)(x)
    x = keras.layers.GaussianNoise(1.0)(x)
    x = keras.layers.Flatten()(keras.layers.Dropout(0.5)(x))
    return keras.Model(images, x, name="lookup")


def facts_of(model, output="probabilities"):
    return {
        "class_names": [f"c{number}" for number in range(model.output_shape[1])],
        "image_shape": list(model.input_shape[1:]),
        "output": output,
    }


def write(model, path, images, output="probabilities", **options):
    sample = Sample(images=images, origin="images of a test")
    return write_export(model, facts_of(model, output), sample, path=path, **options)


@pytest.mark.parametrize("name", NAMES)
def test_a_study_in_every_format(name, study, tiny_registry, tmp_path):
    path = tmp_path / "new" / NAMES[name]
    done = study.export(path, format=name, registry=tiny_registry)
    assert (done.path, done.format, done.images, done.reason) == (path, name, 100, "")
    assert done.origin == "validation images of digits"
    assert done.largest_difference <= done.tolerance == FORMATS[name].tolerance
    beside = {"weights": {"m.weights.h5.json", "m.weights.h5.md"}, "savedmodel": set()}
    assert {item.name for item in path.parent.iterdir()} == {path.name} | beside.get(name, {f"{path.name}.md"})

    card = done.card.read_text()
    (row,) = study.leaderboard().to_dict("records")
    best = study.epochs()["val_accuracy"].max()
    for expected in (
        f"| val_accuracy | {best:.4f} |",
        f"| parameters | {row['parameters']:,} |",
        f"| FLOPs of one image (a multiply-add is 2) | {row['flops']:,} |",
        "| tiny/units | 8 |",
        f"| fingerprint of the data | {study.history.space['facts']['fingerprint']} |",
        "| read back and compared with Keras on | 100 validation images of digits |",
        "(batch, 8, 8, 1)",
        f"keras {keras.__version__}",
    ):
        assert expected in card
    check_loading_example(card, path.parent)


def check_loading_example(card, folder):
    """The card's code, run where the model is."""
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    before = Path.cwd()
    found = {}
    try:
        os.chdir(folder)
        exec(code, found)
    finally:
        os.chdir(before)
    assert np.asarray(found["probabilities"]).shape == (1, 10)
    assert np.asarray(found["probabilities"]).sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", PREDICTING)
def test_preprocessing_is_exact_and_random_layers_do_nothing(name, lookup, byte_values, tmp_path):
    path = tmp_path / NAMES[name]
    done = write(lookup, path, byte_values, format_name=name)
    assert done.largest_difference == 0
    predict = open_predictor(path)
    assert predict.facts["input"] == "uint8"
    expected = byte_values.reshape(3, 256).astype(np.float32) / np.float32(255)
    for count in (3, 1, 2):
        np.testing.assert_array_equal(predict(byte_values[:count]), expected[:count])


@pytest.mark.parametrize("name", ["keras", "weights"])
def test_logits_become_probabilities(name, byte_values, tmp_path):
    images = keras.Input((16, 16, 1))
    model = keras.Model(images, keras.layers.Dense(3)(keras.layers.Flatten()(images)))
    path = tmp_path / NAMES[name]
    done = write(model, path, byte_values, "logits", format_name=name)
    if name == "keras":
        logits = np.asarray(model.predict_on_batch(byte_values / np.float32(255)), np.float64)
        expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(open_predictor(path)(byte_values), expected, atol=1e-6)
    else:
        assert "float32 (batch, 3), logits" in done.card.read_text()


def test_what_predicts_otherwise_is_removed_and_told(lookup, byte_values, tmp_path, monkeypatch):
    images = keras.Input((16, 16, 1))
    other = keras.Model(images, keras.ops.minimum(keras.layers.Flatten()(images) + 0.25, 1.0))

    def write_another(network, classifier, path, facts):
        FORMATS["keras"].write(network, inference_of(other), path, facts)

    from workbench.exports.inference import inference_model

    def inference_of(model):
        return inference_model(model, "probabilities")

    wrong = dataclasses.replace(FORMATS["onnx"], write=write_another, ending=".keras")
    monkeypatch.setitem(FORMATS, "onnx", wrong)
    with pytest.raises(WorkError, match=r"ONNX model must predict what Keras does, to 0\.0001; .* difference is 0\.25"):
        write(lookup, tmp_path / "m.keras", byte_values, format_name="onnx")
    assert list(tmp_path.iterdir()) == []


def test_probabilities_that_are_not_finite_are_told(byte_values, tmp_path):
    images = keras.Input((16, 16, 1))
    model = keras.Model(images, keras.layers.Rescaling(float("nan"))(keras.layers.Flatten()(images)))
    with pytest.raises(WorkError, match="probabilities must be finite; those of image 0 of images of a test are not"):
        write(model, tmp_path / "m.keras", byte_values, format_name="keras")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_converted_is_told(byte_values, tmp_path):
    @keras.saving.register_keras_serializable()
    class Unsavable(keras.layers.Layer):
        def call(self, inputs):
            return inputs

        def get_config(self):
            raise ValueError("no config")

    images = keras.Input((16, 16, 1))
    model = keras.Model(images, Unsavable()(keras.layers.Flatten()(images)))
    with pytest.raises(WorkError, match=r"cannot be written as Keras: .*Other formats are weights, savedmodel"):
        write(model, tmp_path / "m.keras", byte_values, format_name="keras")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_unasked(lookup, byte_values, tmp_path):
    for name, taken in [("keras", "m.keras"), ("keras", "m.keras.md"), ("weights", "m.weights.h5.json")]:
        (tmp_path / taken).write_text("mine")
        with pytest.raises(UsageError, match=rf"{re.escape(taken)}: is there already; .*--overwrite"):
            write(lookup, tmp_path / NAMES[name], byte_values, format_name=name)
        assert (tmp_path / taken).read_text() == "mine"
        (tmp_path / taken).unlink()
    (tmp_path / "m.keras").write_text("old")
    write(lookup, tmp_path / "m.keras", byte_values, format_name="keras", overwrite=True)
    assert open_predictor(tmp_path / "m.keras")(byte_values).shape == (3, 256)


def test_only_a_savedmodel_is_replaced_by_one(lookup, byte_values, tmp_path):
    path = tmp_path / "m"
    path.mkdir()
    write(lookup, path, byte_values, format_name="savedmodel")
    with pytest.raises(UsageError, match="m: is there already"):
        write(lookup, path, byte_values, format_name="savedmodel")
    write(lookup, path, byte_values, format_name="savedmodel", overwrite=True)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["m"]
    (path / "holiday.jpg").touch()
    with pytest.raises(UsageError, match=r"only a SavedModel's folder is replaced by one; it has holiday\.jpg"):
        write(lookup, path, byte_values, format_name="savedmodel", overwrite=True)
    assert (path / "holiday.jpg").exists()


@pytest.mark.parametrize(
    ("name", "path", "message"),
    [
        (None, "model", r"ending must be one of \.keras, \.weights\.h5, \.tflite, \.onnx, or name the format"),
        ("onyx", "model.onnx", r"--format must be one of .*received 'onyx'\. Did you mean 'onnx'"),
        ("onnx", "model.tflite", r"--format onnx writes a file that ends in \.onnx; received 'model\.tflite'"),
        ("savedmodel", "model.onnx", r"--format savedmodel writes a folder, without the ending \.onnx"),
    ],
)
def test_formats_and_endings_must_fit(name, path, message):
    with pytest.raises(UsageError, match=message):
        choose_format(name, Path(path))


def test_formats_by_ending():
    assert {choose_format(None, Path(NAMES[name])) for name in NAMES if name != "savedmodel"} == {
        name for name in NAMES if name != "savedmodel"
    }
    assert choose_format("savedmodel", Path("model.v2")) == "savedmodel"


def test_a_missing_converter_is_named_with_the_command(monkeypatch):
    monkeypatch.setitem(FORMATS, "onnx", dataclasses.replace(FORMATS["onnx"], needs=("no_such_module", "onnx")))
    with pytest.raises(UsageError, match=r"needs no_such_module, not installed here; .*pip install .*\[export\]"):
        choose_format(None, Path("m.onnx"))


def test_a_trial_or_a_model_file_is_named(study, tiny_plugin, tmp_path):
    done = workbench.export(f"{study.path}:1", tmp_path / "m.keras", plugin_files=[tiny_plugin])
    assert read_facts(done.path)["trial_id"] == "0001"
    with pytest.raises(StudyError, match="no trial '7'"):
        workbench.export(f"{study.path}:7", tmp_path / "n.keras")
    with pytest.raises(StudyError, match="nothing: no such study"):
        workbench.export("nothing", tmp_path / "n.keras", directory=tmp_path)
    with pytest.raises(UsageError, match=r"m\.keras: is an export already; give the study"):
        workbench.export(tmp_path / "m.keras", tmp_path / "n.keras")


def test_a_trial_without_weights(write_study, tmp_path):
    study = write_study(tmp_path / "study", [{"values": {"tiny/units": 4}, "scores": [[0.5]]}])
    with pytest.raises(StudyError, match=r"trial 0001 has no stored weights; the best \d+ keep theirs"):
        study.export(tmp_path / "m.keras", trial_id="1")
    with pytest.raises(StudyError, match="no completed trial has stored weights"):
        study.export(tmp_path / "m.keras")


def test_the_best_execution_is_taken(trained, tiny_registry, tmp_path):
    study = trained.study
    best = int(study.epochs().groupby("execution")["val_accuracy"].max().idxmax())
    assert read_facts(trained.output)["execution"] == best
    study.export(tmp_path / "study.keras", registry=tiny_registry)
    assert read_facts(tmp_path / "study.keras")["execution"] == best
    done = workbench.export(trained.output, tmp_path / "file.keras")
    assert (done.images, done.reason) == (100, "")
    images = np.random.default_rng(1).integers(0, 256, (5, 8, 8, 1), dtype=np.uint8)
    expected = open_predictor(trained.output)(images)
    for name in ("study.keras", "file.keras"):
        np.testing.assert_allclose(open_predictor(tmp_path / name)(images), expected, atol=1e-6)


def test_without_the_data_noise_is_taken_and_said(study, tmp_path, monkeypatch):
    facts = {**facts_of_study(study), "data_fingerprint": "0" * 64}
    sample = draw_sample(facts, Registry.load(environ={}), data_dir=None)
    assert (sample.images.shape, sample.images.dtype) == ((100, 8, 8, 1), np.uint8)
    assert sample.origin == "images of seeded noise"
    assert re.search(r"trained on \(fingerprint 000000000000\); received data with", sample.reason)
    again = draw_sample(facts, Registry.load(environ={}), data_dir=None)
    np.testing.assert_array_equal(again.images, sample.images)
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "empty"))
    assert "not in the cache here" in draw_sample(facts, Registry.load(environ={}), data_dir=None).reason
    with pytest.raises(UsageError, match="the check needs the data that the model was trained on"):
        draw_sample(facts, Registry.load(environ={}), data_dir=tmp_path)


def facts_of_study(study):
    from workbench.exports.facts import trial_facts

    return trial_facts(study.history, study.definition, study=study.name, trial=study.trial("1"), execution=1)


REAL = {
    "cifar_convnet": ("cifar10_convnet", {"dataset.limit": 2000, "training.batch_size_per_replica": 50}),
    "squeezenet": ("flowers_squeezenet", {"dataset.limit": 100, "training.batch_size_per_replica": 25}),
}


def tell_and_check(done, predict, images, name, capsys):
    with capsys.disabled():
        print(f"\n{name} {done.format}: {done.largest_difference:.2e} on {done.images} {done.origin}", end="")
    assert (done.images, done.reason) == (100, "")
    if predict is not None:
        assert np.ptp(predict(images), axis=0).max() > 1e-3, "the outputs differ from image to image"


@pytest.fixture
def data_folder():
    if "WORKBENCH_DATA" not in os.environ:
        pytest.skip("needs WORKBENCH_DATA with CIFAR-10, the flower photos and Xception's weights")
    return Path(os.environ["WORKBENCH_DATA"])


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("space", REAL)
def test_a_trained_built_in_space_in_every_format(space, data_folder, tmp_path, capsys):
    name, changes = REAL[space]
    trained = workbench.train(
        name,
        study=space,
        directory=tmp_path,
        sets=[f"{key}={value}" for key, value in {"training.epochs": 1, **changes}.items()],
        data_dir=data_folder,
        device="cpu",
        inline=True,
    )
    facts = facts_of_study(trained.study)
    images = draw_sample(facts, Registry.load(environ={}), data_dir=data_folder).images
    for format_name, file in NAMES.items():
        done = trained.study.export(tmp_path / "out" / file, format=format_name, data_dir=data_folder)
        # Once is enough: the others agree with it.
        predict = open_predictor(done.path) if format_name == "keras" else None
        tell_and_check(done, predict, images, space, capsys)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_xception_with_stored_weights_in_every_format(data_folder, tmp_path, capsys):
    from workbench.data import prepare

    registry = Registry.load(environ={})
    definition = load_definition("flowers_xception")
    table = definition.dataset
    data = prepare(
        registry.find("dataset", table.name), data_dir=data_folder, image_size=table.image_size, options=table.options
    )
    hypermodel = ClassifierHyperModel.of(
        definition, registry, image_shape=data.facts.image_shape, num_classes=5, steps_per_epoch=1
    )
    keras.utils.set_random_seed(0)
    network = hypermodel.build(SearchSpace(overrides_of(definition), {}))
    weights = data_folder / "xception" / "xception_notop_block14_random.h5"
    network.component.initialize(network.model, {"weights": str(weights)})
    # Block 14 is random in this file, so features, and with them probabilities, hardly differ: 3e-4 at most.
    head = network.model.layers[-1]
    head.kernel.assign(head.kernel * 1000)
    images = data.images[data.indices("validation")[:100]]
    facts = {**facts_of(network.model), "class_names": list(data.facts.class_names)}
    for format_name, file in NAMES.items():
        sample = Sample(images=images, origin="validation images of flowers")
        done = write_export(network.model, facts, sample, format_name=format_name, path=tmp_path / file)
        # Once is enough: the others agree with it.
        predict = open_predictor(done.path) if format_name == "keras" else None
        tell_and_check(done, predict, images, "xception", capsys)


def test_the_card_tells_of_a_confirmation(lookup, byte_values, tmp_path):
    facts = {**facts_of(lookup), "confirmed": {"validation": [0.5, 0.7], "test": [0.4]}}
    sample = Sample(images=byte_values, origin="images of a test")
    done = write_export(lookup, facts, sample, format_name="keras", path=tmp_path / "m.keras")
    card = done.card.read_text()
    assert "| validation score, retrained with new seeds | mean 0.6000, standard deviation 0.1414, n = 2 |" in card
    assert "| test score, retrained with new seeds | mean 0.4000, n = 1 |" in card
