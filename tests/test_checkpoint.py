"""Checkpoints of every variable."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from workbench.checkpoint import assign_variables, load_arrays, read_variables, save_arrays, training_variables
from workbench.errors import StudyError


def make(units=3):
    images = keras.Input((4,))
    x = keras.layers.Dropout(0.5)(keras.layers.Dense(units)(images))
    model = keras.Model(images, keras.layers.BatchNormalization()(x))
    model.compile(keras.optimizers.Adam(0.1), "mse")
    model.optimizer.build(model.trainable_variables)
    return model


def test_optimizer_and_seed_states_are_among_the_variables():
    model = make()
    paths = [variable.path for variable in training_variables(model)]
    assert len(paths) == len({id(variable) for variable in training_variables(model)})
    for part in ("dense", "moving_mean", "seed_generator_state", "iteration", "momentum", "velocity"):
        assert any(part in path for path in paths), part
    # A shared seed generator or weight is written once.
    assert len(paths) == len(model.variables) + len(model.optimizer.variables)


def test_a_round_trip_restores_every_value(tmp_path):
    first, second = make(), make()
    rng = np.random.default_rng(0)
    first.fit(rng.random((16, 4)), rng.random((16, 3)), verbose=0)
    path = tmp_path / "folder" / "checkpoint.npz"
    save_arrays(path, read_variables(training_variables(first)))
    assign_variables(training_variables(second), load_arrays(path), str(path))
    values = [read_variables(training_variables(model)) for model in (first, second)]
    for left, right in zip(*values, strict=True):
        np.testing.assert_array_equal(left, right)
    assert int(second.optimizer.iterations) == 1
    assert [item.name for item in path.parent.iterdir()] == ["checkpoint.npz"]


def test_more_than_ten_arrays_keep_their_order(tmp_path):
    arrays = [np.full((n % 3, 2), n, np.int64) for n in range(25)]
    save_arrays(tmp_path / "a.npz", arrays)
    for left, right in zip(load_arrays(tmp_path / "a.npz"), arrays, strict=True):
        np.testing.assert_array_equal(left, right)
        assert left.dtype == right.dtype


def test_values_of_another_network_change_nothing():
    model = make()
    variables = training_variables(model)
    before = read_variables(variables)
    others = read_variables(training_variables(make(units=5)))
    with pytest.raises(StudyError, match=r"here: variable .*kernel.* has shape \(4, 3\) and the checkpoint \(4, 5\)"):
        assign_variables(variables, others, "here")
    with pytest.raises(StudyError, match=rf"here: the network has {len(variables)} variables and the checkpoint 2"):
        assign_variables(variables, others[:2], "here")
    for left, right in zip(read_variables(variables), before, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("damage", ["missing", "empty", "torn", "other"])
def test_a_damaged_file_is_an_error_that_names_it(tmp_path, damage):
    path = tmp_path / "checkpoint.npz"
    save_arrays(path, [np.zeros(100)])
    whole = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes({"empty": b"", "torn": whole[: len(whole) // 2], "other": b"no archive"}[damage])
    with pytest.raises(StudyError, match=r"checkpoint\.npz: the checkpoint cannot be read"):
        load_arrays(path)
