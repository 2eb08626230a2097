"""`workbench report`."""

from __future__ import annotations

import re

import pytest

from workbench.cli import main
from workbench.testing import synthetic_study


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
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    synthetic_study("studies/one", trials=5, epochs=2)
    synthetic_study("studies/two", trials=5, epochs=2, seed=1)


def test_a_report_is_written_and_named(run, tmp_path):
    code, out, err = run("report", "one")
    assert (code, err) == (0, "")
    assert re.fullmatch(r"report\.html: 1 study, \d\.\d MB; open it in a browser\n", out)
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_several_studies_by_name_and_path_go_into_one_file(run, tmp_path):
    code, out, _ = run("report", "one", "studies/two", "one", "-o", "new/both.html")
    assert code == 0
    assert out.startswith("new/both.html: 2 studies, ")
    page = (tmp_path / "new" / "both.html").read_text(encoding="utf-8")
    assert "<title>Report: one, two</title>" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["oen"], "studies/oen: no such study .* Did you mean 'one'"),
        (["one", "-o", "studies"], r"--output must be a file; received studies, a folder\. .*studies/report\.html"),
        (
            ["one", "-o", "studies/one/journal.jsonl/report.html"],
            "--output must not be a file of a study",
        ),
        ([], "Missing argument 'STUDY...'"),
    ],
)
def test_wrong_use_is_one_message(run, tmp_path, arguments, message):
    before = sorted(tmp_path.rglob("*"))
    code, out, err = run("report", *arguments)
    assert (code, out) == (2, "")
    assert re.search(message, err)
    assert "Traceback" not in err
    assert sorted(tmp_path.rglob("*")) == before


def test_no_study_is_overwritten(run, tmp_path):
    journal = tmp_path / "studies" / "one" / "journal.jsonl"
    before = journal.read_bytes()
    code, _, err = run("report", "one", "-o", "studies/one/journal.jsonl")
    assert code == 2
    assert "--output must not be a file of a study" in err
    assert journal.read_bytes() == before
