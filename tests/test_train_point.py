"""One point, trained in full."""

from __future__ import annotations

import numpy as np
import pytest

import workbench
from workbench.errors import DataError, UsageError, WorkError
from workbench.modelfile import load_model
from workbench.seeds import execution_seed


@pytest.fixture
def train(tmp_path, tiny_tables, tiny_plugin):
    def run(study="point", **arguments):
        changes = arguments.pop("changes", {})
        return workbench.train(
            tiny_tables(**changes),
            study=study,
            directory=tmp_path,
            plugin_files=[tiny_plugin],
            inline=True,
            device="cpu",
            **arguments,
        )

    return run


def test_the_default_point_is_trained_tested_and_written(train, tmp_path):
    output = tmp_path / "models" / "model.keras"
    changes = {"training": {"epochs": 2}, "constraints": {"max_parameters": 10}}
    trained = train(changes=changes, seeds=2, evaluate_test=True, output=output)
    assert trained.trial_id == "0001"
    (row,) = trained.study.trials().to_dict("records")
    assert (row["status"], row["hp.tiny/units"], row["epochs"]) == ("completed", 8, 2)
    executions = trained.study.history.trials["0001"].executions
    assert {number: item.seed for number, item in executions.items()} == {
        1: execution_seed(5, "0001", 1),
        2: execution_seed(5, "0001", 2),
    }
    assert set(trained.test) == {1, 2}
    model, facts = load_model(output)
    assert (facts["class_names"], facts["image_shape"]) == ([str(digit) for digit in range(10)], [8, 8, 1])
    assert facts["hyperparameters"]["tiny/units"] == 8
    best = trained.study.epochs().groupby("execution")["val_accuracy"].max().idxmax()
    assert facts["test"] == trained.test[best]
    assert model.predict_on_batch(np.zeros((1, 8, 8, 1), np.float32)).sum() == pytest.approx(1)
    # Again: nothing is trained, the model is written once more.
    output.unlink()
    again = train(changes=changes, seeds=2, output=output)
    assert len(again.study.epochs()) == 4
    assert output.exists()


def test_training_on_both_splits_keeps_the_last_epoch(train):
    trained = train(on="train+validation", changes={"training": {"epochs": 2}}, evaluate_test=True)
    study = trained.study
    assert study.metric == "accuracy"
    assert "val_accuracy" not in study.epochs().columns
    assert study.weights(study.trial("1"))[1].name.split(".")[1] == "epoch-0002"
    assert 0 <= trained.test[1]["accuracy"] <= 1


def test_a_stored_trial_runs_again_with_its_own_seeds(train, tmp_path, write_study):
    values = {"tiny/units": 12, "tiny/activation": "tanh"}
    write_study(tmp_path / "earlier", [{"values": {}, "scores": [[0.1]]}, {"values": values, "scores": [[0.5], [0.6]]}])
    trained = train(point="earlier:2", seeds=3)
    trial = trained.study.history.trials["0001"]
    assert {name: trial.values[name] for name in values} == values
    seeds = [execution.seed for execution in trial.executions.values()]
    assert seeds == [1, 2, execution_seed(5, "0001", 3)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seeds": 0}, "seeds must be 1 or more; received 0"),
        ({"on": "test"}, r"on must be one of train, train\+validation; received 'test'"),
        ({"output": "model.h5"}, r"a model's file must end in \.keras; received 'model\.h5'"),
    ],
)
def test_arguments_are_checked_before_anything_is_done(train, tmp_path, arguments, message):
    with pytest.raises(UsageError, match=message):
        train(**arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_point_of_another_space_is_refused(train, tmp_path):
    (tmp_path / "p.json").write_text('{"tiny/unitz": 4}')
    with pytest.raises(workbench.SpaceError, match=r"received 'tiny/unitz'\.* Did you mean 'tiny/units'"):
        train(point=str(tmp_path / "p.json"))


def test_a_training_that_fails_says_why(train, tmp_path):
    (tmp_path / "p.json").write_text('{"fragile/trouble": "nan"}')
    with pytest.raises(WorkError, match="point: the training failed: the training loss must be finite"):
        train(point=str(tmp_path / "p.json"), changes={"model": {"name": "fragile"}})


def test_a_missing_data_folder_is_an_error_of_the_data(train, tmp_path):
    with pytest.raises(DataError, match="pass --data-dir FOLDER or set WORKBENCH_DATA"):
        train(changes={"dataset": {"name": "flowers"}})
    assert list(tmp_path.iterdir()) == []
