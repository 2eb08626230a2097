"""`workbench compare`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from workbench.cli.main import cli
from workbench.errors import UsageError
from workbench.testing import synthetic_study


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("compared")
    synthetic_study(path / "one", trials=30, epochs=9, seed=1)
    synthetic_study(path / "two", trials=30, epochs=9, seed=2, hyperband=True)
    return path


@pytest.fixture
def run(folder):
    def invoke(*arguments):
        result = CliRunner().invoke(cli, ["compare", *arguments, "--directory", str(folder)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.output

    return invoke


def test_a_table_with_what_is_the_same_above_and_what_differs_below(run):
    text = run("one", "two")
    assert text.startswith("metric val_accuracy, direction max, target 0.8, fingerprint ")
    assert "target_reached" in text
    assert "interrupted" not in text
    below = text.partition("The definitions differ in:")[2]
    assert [line.split() for line in below.splitlines() if line.startswith("tuner.name")] == [
        ["tuner.name", "random", "hyperband"]
    ]


def test_other_formats_have_all_of_it(run, folder, tmp_path):
    rows = json.loads(run("one", "two", "--format", "json"))
    assert [row["study"] for row in rows] == ["one", "two"]
    assert [row["definition.tuner.factor"] for row in rows] == [None, 3]
    assert [row["trials"] for row in rows] == [30, 30]
    run("one", "two", "-o", str(tmp_path / "out.csv"), "--sort", "-best", "--columns", "study,best")
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "study,best"


def test_trials_of_both(run):
    text = run("one", "two", "--trials")
    assert text.splitlines()[0].split()[:3] == ["rank", "study", "trial_id"]
    assert "20 of " in text.splitlines()[-1]
    rows = json.loads(run("one", "two", "--trials", "--format", "json", "--where", "parameters < 80000"))
    assert {row["study"] for row in rows} == {"one", "two"}
    assert all(row["parameters"] < 80_000 for row in rows)


def test_curves(run):
    rows = json.loads(run("one", "two", "--curves", "epochs", "--format", "json"))
    assert len(rows) > 200
    lines = run("one", "two", "--curves", "epochs").splitlines()
    assert 4 < len(lines) < 60, "a table shows where the best changed"
    assert len(json.loads(run("one", "--curves", "trials", "--format", "json"))) == 30


def test_one_study_alone(run):
    text = run("one")
    assert "definitions" not in text
    assert "one" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--trials", "--curves", "epochs"], "--trials and --curves are two tables; give one of them"),
        (["--anyway"], "--anyway goes with --trials"),
        (["--target", "0.9", "--trials"], "--target goes with the table of studies"),
        (["three"], "three: no such study"),
    ],
)
def test_wrong_use(run, options, message):
    with pytest.raises(UsageError, match=message):
        run("one", *options)
