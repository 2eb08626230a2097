"""One execution: epochs, checkpoints, resuming."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest

from workbench.checkpoint import load_arrays, read_variables
from workbench.data import evaluation_dataset, prepare
from workbench.definition import definition_from_dict
from workbench.errors import DataError, TrialError
from workbench.hypermodel import ClassifierHyperModel, overrides_of
from workbench.space import SearchSpace
from workbench.training import Settings, Task, compile_network, steps_per_execution, train

SETTINGS = Settings(global_batch_size=50, direction="max")
STEPS = 4


@pytest.fixture(scope="module")
def data(tiny_registry):
    return prepare(tiny_registry.find("dataset", "digits"), data_dir=None, image_size=None, options={}, limit=200)


@pytest.fixture(scope="module")
def build(data, tiny_registry, tiny_tables):
    """A network with dropout, a schedule and augmentation, as a session builds it."""
    definition = definition_from_dict(
        tiny_tables(
            model={"names": ["tiny", "fragile"]},
            schedule={"name": "warmup_cosine"},
            augmentation={"name": "mixup"},
            training={"epochs": 6},
        )
    )
    hypermodel = ClassifierHyperModel.of(
        definition,
        tiny_registry,
        image_shape=data.facts.image_shape,
        num_classes=10,
        steps_per_epoch=STEPS,
    )

    def make(**values):
        keras.utils.set_random_seed(3)
        return hypermodel.build(SearchSpace(overrides_of(definition), values))

    return make


@pytest.fixture
def run(build, data, monkeypatch):
    """`run(task) -> events`: each call builds the network anew, as another process would.

    Checkpoints are written at the last epoch only, however slow the machine is.
    """
    monkeypatch.setattr("workbench.training.CHECKPOINT_SECONDS", math.inf)

    def execute(task=None, values=None, settings=SETTINGS, **changes):
        events = []
        task = replace(
            task or Task(trial_id="0001", execution=1, seed=9, values={}, first_epoch=1, last_epoch=6), **changes
        )
        network = build(**(values or {}))
        model = train(network, data, task, settings, lambda event: events.append(dict(event)))
        return events, model

    return execute


def of_kind(events, kind):
    return [event for event in events if event["event"] == kind]


def test_training_in_parts_equals_training_in_one_go(run, tmp_path):
    whole, final = run(checkpoint_dir=str(tmp_path / "whole"))
    folder = tmp_path / "parts"
    parts, checkpoint = [], None
    for first, last in [(1, 1), (2, 3), (4, 6)]:
        resume = {}
        if checkpoint is not None:
            resume = {
                "resume_from": str(folder / checkpoint["file"]),
                "best_from": str(folder / checkpoint["best_file"]),
                "best_score": checkpoint["best_score"],
            }
        events, model = run(first_epoch=first, last_epoch=last, checkpoint_dir=str(folder), **resume)
        parts += of_kind(events, "epoch")
        checkpoint = of_kind(events, "checkpoint")[-1]
    assert [event["epoch"] for event in parts] == [1, 2, 3, 4, 5, 6]
    for one, other in zip(of_kind(whole, "epoch"), parts, strict=True):
        assert one["learning_rate"] == other["learning_rate"]
        for name, value in one["metrics"].items():
            assert other["metrics"][name] == pytest.approx(value, abs=1e-6), (one["epoch"], name)
    for left, right in zip(read_variables(final.variables), read_variables(model.variables), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-6)
    (last,) = of_kind(whole, "checkpoint")
    assert checkpoint["best_score"] == pytest.approx(last["best_score"], abs=1e-6)


def test_epoch_events(run):
    events, _ = run(last_epoch=2)
    first, second = of_kind(events, "epoch")
    assert set(first["metrics"]) == {"accuracy", "loss", "val_accuracy", "val_loss"}
    assert (first["trial_id"], first["execution"], first["epoch"], first["first"]) == ("0001", 1, 1, True)
    assert (second["epoch"], second["first"]) == (2, False)
    assert first["images_per_s"] == pytest.approx(1000 * 50 / first["step_ms"], rel=1e-3)
    assert 0 < second["step_ms"] * STEPS <= 1000 * second["seconds"]
    assert not of_kind(events, "checkpoint"), "there is nowhere to write one to"


def test_the_best_epochs_weights_are_kept(run, build, data, tmp_path):
    events, _ = run(checkpoint_dir=str(tmp_path), values={"warmup_cosine/learning_rate": 1e-2})
    (checkpoint,) = of_kind(events, "checkpoint")
    scores = [event["metrics"]["val_accuracy"] for event in of_kind(events, "epoch")]
    assert checkpoint["best_score"] == max(scores)
    assert {path.name for path in tmp_path.iterdir()} == {checkpoint["file"], checkpoint["best_file"]}
    network = build(**{"warmup_cosine/learning_rate": 1e-2})
    best = compile_network(network, 1)
    for variable, value in zip(best.variables, load_arrays(tmp_path / checkpoint["best_file"]), strict=True):
        variable.assign(value)
    metrics = best.evaluate(evaluation_dataset(data, split="validation", batch_size=50), verbose=0, return_dict=True)
    assert metrics["accuracy"] == pytest.approx(max(scores), abs=1e-6)


def test_smaller_is_better_where_the_objective_says_so(run, tmp_path):
    settings = Settings(global_batch_size=50, direction="min")
    events, _ = run(checkpoint_dir=str(tmp_path), metric="val_loss", settings=settings)
    losses = [event["metrics"]["val_loss"] for event in of_kind(events, "epoch")]
    assert of_kind(events, "checkpoint")[0]["best_score"] == min(losses)


def test_the_best_of_an_earlier_part_stays(run, tmp_path):
    events, _ = run(
        last_epoch=1, checkpoint_dir=str(tmp_path), best_from=str(tmp_path / "earlier.best.npz"), best_score=1.0
    )
    (checkpoint,) = of_kind(events, "checkpoint")
    assert (checkpoint["best_file"], checkpoint["best_score"]) == ("earlier.best.npz", 1.0)


def test_training_on_both_splits_validates_nothing_and_keeps_the_last_weights(run, data, tmp_path):
    events, model = run(last_epoch=2, split="train+validation", metric="accuracy", checkpoint_dir=str(tmp_path))
    assert set(of_kind(events, "epoch")[0]["metrics"]) == {"accuracy", "loss"}
    (checkpoint,) = of_kind(events, "checkpoint")
    assert Path(checkpoint["best_file"]).name.startswith("execution-1.epoch-0002")
    kept = load_arrays(tmp_path / checkpoint["best_file"])
    for left, right in zip(read_variables(model.variables), kept, strict=True):
        np.testing.assert_array_equal(left, right)
    assert int(model.optimizer.iterations) == 2 * (len(data.indices("train+validation")) // 50)


def test_a_loss_that_is_not_finite_fails_the_trial(run, tmp_path):
    values = {"model": "fragile", "fragile/trouble": "nan"}
    with pytest.raises(TrialError, match=r"the training loss must be finite; it was nan in epoch 1") as caught:
        run(values=values, checkpoint_dir=str(tmp_path))
    assert caught.value.kind == "non_finite_loss"
    assert list(tmp_path.iterdir()) == [], "weights that are not finite are not kept"


def test_a_batch_larger_than_the_split_is_refused(run):
    with pytest.raises(DataError, match="a training batch needs 1 to 200 images"):
        run(settings=Settings(global_batch_size=201, direction="max"))


@pytest.mark.parametrize(
    ("steps", "expected"), [(1, 1), (16, 16), (17, 1), (32, 16), (45, 15), (351, 13), (34, 2), (60, 15)]
)
def test_steps_per_execution_divide_an_epoch(steps, expected):
    assert steps_per_execution(steps) == expected
    assert math.gcd(steps, expected) == expected


def test_the_optimizer_follows_the_schedule(run, build):
    events, model = run(last_epoch=2)
    schedule = build().schedule
    assert [event["learning_rate"] for event in of_kind(events, "epoch")] == [
        pytest.approx(float(schedule(0))),
        pytest.approx(float(schedule(STEPS))),
    ]
    assert int(model.optimizer.iterations) == 2 * STEPS
    assert float(model.optimizer.learning_rate) == pytest.approx(float(schedule(2 * STEPS)))


@pytest.mark.parametrize("batch_size", [48, 200])
def test_metrics_of_a_padded_evaluation_are_exact(run, build, data, batch_size):
    settings = Settings(global_batch_size=50, direction="max", pad_evaluation=True)
    _, model = run(last_epoch=1)
    plain = model.evaluate(
        evaluation_dataset(data, split="validation", batch_size=batch_size), verbose=0, return_dict=True
    )
    padded = compile_network(build(), 1, settings)
    padded.set_weights(model.get_weights())
    dataset = evaluation_dataset(data, split="validation", batch_size=batch_size, padded=True)
    assert len(data.indices("validation")) % batch_size
    assert padded.evaluate(dataset, verbose=0, return_dict=True) == pytest.approx(plain, abs=1e-6)
