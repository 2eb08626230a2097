"""What is found out before anything is trained."""

from __future__ import annotations

import pytest

import workbench
from workbench.errors import DataError, DefinitionError, PluginError

PLUGIN = """
import numpy as np
import workbench


@workbench.hookimpl
def workbench_models():
    return [
        workbench.Model(name="wide", summary="One class too many", build=build_wide),
        workbench.Model(name="linear", summary="Logits that it does not declare", build=build_linear),
        workbench.Model(name="declared", summary="Logits that it declares", build=build_linear, output="logits"),
        workbench.Model(name="map", summary="Forgets to pool", build=build_map),
    ]


@workbench.hookimpl
def workbench_datasets():
    return [workbench.Dataset(name="no_validation", summary="Training images only", open=open_source)]


def dense(image_shape, units, activation):
    import keras

    images = keras.Input(image_shape)
    return keras.Model(images, keras.layers.Dense(units, activation=activation)(keras.layers.Flatten()(images)))


def build_wide(hp, image_shape, num_classes):
    return dense(image_shape, num_classes + 1, "softmax")


def build_linear(hp, image_shape, num_classes):
    return dense(image_shape, num_classes, None)


def build_map(hp, image_shape, num_classes):
    import keras

    images = keras.Input(image_shape)
    return keras.Model(images, keras.layers.Conv2D(num_classes, 1, activation="softmax")(images))


def open_source(*arguments, **options):
    def read():
        rng = np.random.default_rng(0)
        images = rng.integers(0, 256, (200, 8, 8, 1), dtype=np.uint8)
        yield workbench.ExampleBatch(part="all", images=images, labels=(np.arange(200) % 10).astype(np.int32))

    return workbench.DatasetSource(
        class_names=tuple("0123456789"),
        image_shape=(8, 8, 1),
        parts={"train": ("all",)},
        signature="no validation",
        read=read,
    )
"""


@pytest.fixture
def refused(tmp_path, tiny_tables, tiny_plugin):
    """Runs a search that must end before a trial is begun; nothing of it may stay."""
    plugin = tmp_path / "troubles.py"
    plugin.write_text(PLUGIN)

    def run(error, message, **changes):
        with pytest.raises(error, match=message):
            workbench.search(
                tiny_tables(**changes),
                study="study",
                directory=tmp_path / "studies",
                plugin_files=[tiny_plugin, plugin],
                inline=True,
                device="cpu",
            )
        assert not (tmp_path / "studies" / "study").exists()

    return run


def test_a_metric_that_training_does_not_report_is_named_with_those_that_it_does(refused):
    refused(
        DefinitionError,
        r"objective\.metric: must be one of accuracy, loss, val_accuracy, val_loss; received 'val_acuracy'\. Did you "
        "mean 'val_accuracy'",
        objective={"metric": "val_acuracy", "direction": "max"},
    )


def test_an_unknown_metric_needs_a_direction(refused):
    refused(DefinitionError, r"objective\.direction", objective={"metric": "val_f1_score"})


def test_outputs_of_the_wrong_shape(refused):
    shape = r"must return \(batch, classes\), here \(8, 10\); "
    refused(PluginError, shape + r"wide returned \(8, 11\)", model={"name": "wide"})
    refused(PluginError, shape + r"map returned \(8, 8, 8, 10\)", model={"name": "map"})


def test_outputs_that_are_no_probabilities(refused):
    refused(
        PluginError,
        r'rows that sum to 1; linear returned sums from .* Declare output="logits", or end it with softmax',
        model={"name": "linear"},
    )


def test_declared_logits_are_fine(refused):
    refused(
        DefinitionError,
        r"objective\.metric: must be one of accuracy, loss, val_accuracy, val_loss; received 'val_top'",
        model={"name": "declared"},
        objective={"metric": "val_top", "direction": "max"},
    )


def test_data_without_validation_examples(refused):
    refused(DataError, "validation", dataset={"name": "no_validation"})


@pytest.mark.slow
def test_a_default_point_whose_first_batch_fails_is_no_reason_not_to_begin(tmp_path, tiny_tables, tiny_plugin):
    """Its trial fails with the reason, and the other points are trained."""
    study = workbench.search(
        tiny_tables(
            model={"name": "fragile", "space": {"trouble": ["nan", "none"], "number": 1}},
            tuner={"name": "grid"},
        ),
        **{"study": "study", "directory": tmp_path, "plugin_files": [tiny_plugin], "inline": True, "device": "cpu"},
    )
    assert sorted(study.trials()["status"]) == ["completed", "failed"]
