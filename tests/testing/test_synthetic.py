"""Synthetic studies: as real ones are, the same from the same arguments, and of realistic shape."""

from __future__ import annotations

import numpy as np
import pytest

import workbench
from workbench.definition import definition_from_dict
from workbench.errors import StudyError, UsageError
from workbench.journal import encode_event, read_journal
from workbench.testing import synthetic_study

DEFAULT_PARAMETERS, DEFAULT_FLOPS, DEFAULT_MXU_FILL = 120_613, 1.265e9, 0.1486


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return synthetic_study(tmp_path_factory.mktemp("synthetic") / "study", trials=300, epochs=8, seed=3)


@pytest.fixture(scope="module")
def brackets(tmp_path_factory):
    return synthetic_study(tmp_path_factory.mktemp("brackets") / "study", trials=40, epochs=9, hyperband=True)


def shapes(study):
    """Each kind of event that both may have, with its keys in order."""
    found = {}
    for event in read_journal(study.path / "journal.jsonl"):
        found.setdefault(event["event"], []).append(list(event))
    return {name: keys[0] for name, keys in found.items()}


def test_it_is_what_a_search_would_have_written(study, tiny_tables, tiny_plugin, tmp_path):
    real = workbench.search(
        tiny_tables(budget={"max_trials": 1}), study="real", directory=tmp_path, plugin_files=[tiny_plugin], inline=True
    )
    assert shapes(study) == shapes(real)
    for table in ("trials", "epochs", "leaderboard"):
        left, right = getattr(study, table)(), getattr(real, table)()
        common = [name for name in right.columns if not name.startswith("hp.")]
        assert [name for name in left.columns if not name.startswith("hp.")] == common
        different = {name for name in common if left[name].dtype != right[name].dtype}
        # Nothing failed in the real one: all of `error` is missing there, which pandas has no text for.
        assert different <= {"error", "bracket", "rung"}, table


def test_its_bytes_are_those_of_a_journal(study):
    path = study.path / "journal.jsonl"
    assert b"".join(encode_event(event) for event in read_journal(path)) == path.read_bytes()


def test_its_definition_is_a_definition(study):
    assert definition_from_dict(study.definition).resolved() == study.definition


def test_equal_arguments_give_equal_files(study, tmp_path):
    again = synthetic_study(tmp_path / "again", trials=300, epochs=8, seed=3)
    other = synthetic_study(tmp_path / "other", trials=300, epochs=8, seed=4)
    for name in ("journal.jsonl", "definition.json"):
        assert (again.path / name).read_bytes() == (study.path / name).read_bytes()
        assert (other.path / name).read_bytes() != (study.path / name).read_bytes()


def test_it_has_every_end_that_trials_come_to(study):
    trials = study.trials()
    shares = trials["status"].value_counts(normalize=True)
    assert shares["completed"] == pytest.approx(0.85, abs=0.06)
    assert shares["stopped"] == pytest.approx(0.10, abs=0.04)
    assert shares["failed"] == pytest.approx(0.05, abs=0.04)
    assert trials.loc[trials["status"] == "stopped", "error"].str.startswith("median_rule: ").all()
    failures = trials.loc[trials["status"] == "failed", "error"].str.partition(":")[0]
    assert failures.nunique() >= 3
    assert trials.loc[trials["status"] == "completed", "epochs"].eq(8).all()
    assert study.history.finished["reason"] == "max_trials"


def test_the_first_trial_is_the_published_network(study):
    first = study.trials().iloc[0]
    assert (first["trial_id"], first["status"]) == ("0001", "completed")
    assert first["parameters"] == DEFAULT_PARAMETERS
    assert first["flops"] == pytest.approx(DEFAULT_FLOPS, rel=1e-3)
    assert first["mxu_fill"] == pytest.approx(DEFAULT_MXU_FILL, rel=1e-3)


def test_hyperparameters_are_conditional_and_matter(study):
    trials = study.trials()
    ramped = trials["hp.schedule"] == "ramp_exponential"
    assert trials["hp.ramp_exponential/learning_rate"].notna().equals(ramped)
    assert trials["hp.constant/learning_rate"].isna().equals(ramped)
    assert trials["hp.squeezenet/stage_5/expand"].notna().equals(trials["hp.squeezenet/pools"] == 4)
    done = trials[trials["status"] == "completed"]
    rate = done["hp.constant/learning_rate"].fillna(done["hp.ramp_exponential/learning_rate"])
    distance = np.abs(np.log(rate / 1.5e-3))
    assert np.corrcoef(distance, done["score"])[0, 1] < -0.5
    assert np.corrcoef(done["flops"], done["step_ms"])[0, 1] > 0.99


def test_values_are_inside_the_space_that_it_declares(study):
    from workbench.space import space_from_config

    space = space_from_config(study.history.space["space"])
    known = {item.name: item for item in space.space}
    for trial in study.history.trials.values():
        for name, value in trial.values.items():
            item = known[name].get_config()
            assert value in item.get("values", [value])
            assert item.get("min_value", value) <= value <= item.get("max_value", value)


def test_brackets_promote_the_best_third(brackets):
    trials = brackets.trials()
    assert trials["rung"].value_counts().to_dict() == {0: 27, 1: 9, 2: 4}, "four brackets of nine, and one of four"
    assert trials.groupby("rung")["epochs"].max().to_dict() == {0: 1, 1: 3, 2: 9}
    board = brackets.leaderboard()
    assert board["rung"].head(4).eq(2).all()
    first = trials.iloc[:9]
    survivors = first[first["rung"] > 0]["trial_id"]
    assert brackets.leaderboard(at_epoch=1).merge(first[["trial_id"]])["trial_id"].head(3).isin(survivors).all()


@pytest.mark.parametrize("count", [1, 2, 12])
def test_small_ones_work(count, tmp_path):
    for name, options in {"full": {"epochs": 1}, "brackets": {"epochs": 9, "hyperband": True}}.items():
        study = synthetic_study(tmp_path / name, trials=count, **options)
        assert len(study.trials()) == count
        assert study.trials()["status"].iloc[0] == "completed"


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "mine").mkdir()
    with pytest.raises(StudyError, match="mine: a synthetic study is written to a new path; there is something"):
        synthetic_study(tmp_path / "mine")
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"trials": 0}, "trials must be 1 or greater; received 0"),
        ({"epochs": 0}, "epochs must be 1 or greater; received 0"),
        ({"epochs": 8, "hyperband": True}, "epochs must be 9 or greater; received 8"),
        ({"seed": -1}, "seed must be 0 or greater; received -1"),
    ],
)
def test_numbers_outside_their_range_are_refused(arguments, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        synthetic_study(tmp_path / "study", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_it_imports_no_deep_learning_library(run_python, tmp_path):
    code = (
        "import sys; from workbench.testing import synthetic_study; synthetic_study(sys.argv[1], trials=3); "
        "print([name for name in ('tensorflow', 'keras', 'keras_tuner') if name in sys.modules])"
    )
    result = run_python(code, str(tmp_path / "study"))
    assert result.stdout.strip() == "[]", result.stderr
