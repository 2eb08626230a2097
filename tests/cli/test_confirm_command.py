"""`workbench confirm`: what is printed of a confirmation that is there."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest

from workbench.cli import main

TRIALS = [{"values": {"tiny/units": units}, "scores": [[score]]} for units, score in ((4, 0.99), (8, 0.9), (12, 0.7))]
RUNS = {
    "0001": [(0.90, 0.85), (0.92, 0.84), (0.91, 0.86)],
    "0002": [(0.95, 0.94), (0.96, 0.95), (0.94, 0.95)],
}
OPTIONS = ("--top", "2", "--seeds", "3")


@pytest.fixture
def run(capsys):
    """`run(*arguments) -> (exit code, stdout, stderr)`, in this process."""

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return call


@pytest.fixture(autouse=True)
def study(write_study, write_confirmation, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_confirmation(write_study(tmp_path / "studies" / "study", TRIALS), RUNS)


def test_a_finished_confirmation_is_printed_without_training(run, run_python, study, tmp_path):
    code = (
        "import sys\nfrom workbench.cli import main\ntry:\n    main(sys.argv[1:])\nfinally:\n"
        "    print({'tensorflow', 'keras', 'keras_tuner', 'sklearn'} & set(sys.modules), file=sys.stderr)"
    )
    done = run_python(code, "confirm", str(study.path), *OPTIONS)
    assert (done.returncode, done.stderr) == (0, "set()\n")
    lines = done.stdout.splitlines()
    header = "trial rank score validation std 95 % interval n test std 95 % interval n macro F1 parameters seconds"
    assert " ".join(lines[0].split()) == header
    assert [line.split()[:4] for line in lines[2:4]] == [
        ["0002", "2", "0.9000", "0.9500"],
        ["0001", "1", "0.9900", "0.9100"],
    ]
    assert "0.9252 to 0.9748" in lines[2]
    assert "test accuracy of the winner 0002 by class, over n = 3 seeds" in done.stdout
    assert "its predictions, summed over these seeds (100 test images each)" in done.stdout
    assert re.search(r"^b +16 +134$", done.stdout, re.MULTILINE)
    assert "Trial 0002 beats the runner-up 0001 on test accuracy by 9.67 points" in done.stdout
    assert lines[-1] == f"stored in {study.path}/confirm"


def test_json_is_one_object_with_every_table(run):
    code, out, err = run("confirm", "study", *OPTIONS, "--format", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["winner"], found["beats_runner_up"], found["metric"]) == ("0002", True, "val_accuracy")
    assert len(found["sentences"]) == 2
    assert [row["trial_id"] for row in found["candidates"]] == ["0002", "0001"]
    assert found["candidates"][0]["optimism"] == pytest.approx(-0.05)
    assert found["comparisons"][0]["other"] == "0001"
    assert [row["accuracy_mean"] for row in found["classes"]] == pytest.approx([1.0, 134 / 150])
    assert found["confusion"] == [{"true_class": "a", "a": 150, "b": 0}, {"true_class": "b", "a": 16, "b": 134}]


@pytest.mark.parametrize("table", ["candidates", "comparisons", "classes", "confusion"])
def test_one_table_in_any_format(run, table):
    code, out, _ = run("confirm", "study", *OPTIONS, "--table", table, "-o", "out.csv")
    assert (code, out) == (0, "")
    found = json.loads(run("confirm", "study", *OPTIONS, "--format", "json")[1])
    rows = json.loads(run("confirm", "study", *OPTIONS, "--format", "json", "--table", table)[1])
    assert rows == found[table]
    assert list(pd.read_csv("out.csv").columns) == list(rows[0])


def test_the_leaderboard_shows_what_was_confirmed(run):
    _, out, _ = run("leaderboard", "study")
    lines = out.splitlines()
    assert lines[0].split()[:5] == ["rank", "trial_id", "score", "confirmed_score", "confirmed_seeds"]
    assert lines[2].split()[:5] == ["1", "0001", "0.9900", "0.9100", "3"]
    assert lines[4].split()[:4] == ["3", "0003", "0.7000", "1"], "not confirmed"
    rows = json.loads(run("leaderboard", "study", "--format", "json")[1])
    assert [row["confirmed_seeds"] for row in rows] == [3, 3, None]
    assert not [name for name in rows[0] if "test" in name]


def test_nothing_but_failures_is_exit_code_1(run, study, write_study, write_confirmation, tmp_path):
    write_confirmation(write_study(tmp_path / "studies" / "bad", TRIALS), {"0001": [None], "0002": [None]})
    code, out, err = run("confirm", "bad", "--top", "2", "--seeds", "1")
    assert code == 1
    assert "No winner: no retraining has a result." in out
    assert err == (
        "error: studies/bad/confirm: every retraining failed. Trial 0002: 1 of 1 retrainings failed (ValueError: no).\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none",), "studies/none: no such study"),
        (("study", "--top", "4"), r"--top must be at most .*, 3; received 4"),
        (("study", "--seeds", "0"), "seeds must be 1 or more; received 0"),
        ((*("study", *OPTIONS), "--epochs", "7"), "--epochs was 1 and is now 7"),
    ],
)
def test_wrong_use_is_one_message_and_exit_code_2(run, arguments, message):
    code, out, err = run("confirm", *arguments, "--inline", "--quiet")
    assert (code, out) == (2, "")
    assert re.search(message, err), err
    assert err.count("error: ") == 1
