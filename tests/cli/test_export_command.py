"""`workbench export`: what it prints, and its exit codes."""

from __future__ import annotations

import re

import pytest

import workbench
from workbench.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_tables, tiny_plugin):
    """A folder with a trained study and its model."""
    place = tmp_path_factory.mktemp("export")
    workbench.train(
        tiny_tables(),
        study="tiny",
        directory=place / "studies",
        plugin_files=[tiny_plugin],
        inline=True,
        device="cpu",
        output=place / "trained.keras",
    )
    return place


@pytest.fixture
def run(capsys, folder, monkeypatch):
    monkeypatch.chdir(folder)

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(["export", *map(str, arguments)])
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return call


def test_it_says_what_was_compared(run, folder, tiny_plugin):
    code, out, err = run("tiny", "-o", "tiny.keras", "-q", "--plugin", tiny_plugin)
    assert (code, err) == (0, "")
    first, card = out.splitlines()
    assert re.fullmatch(
        r"tiny\.keras agrees with Keras on 100 validation images of digits: largest difference of a probability "
        r"\S+ \(up to 1e-06 is let pass\)",
        first,
    )
    assert card == "model card: tiny.keras.md"
    assert (folder / "tiny.keras.md").read_text().startswith("# tiny.keras\n")


def test_it_says_why_noise_was_taken(run, monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "none"))
    code, out, _ = run("trained.keras", "-o", "noise.keras", "-q")
    assert code == 0
    assert "on 100 images of seeded noise" in out
    assert "no validation images were used: the data are not in the cache here" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none", "-o", "m.keras"), r"studies/none: no such study.*'?tiny'?"),
        (("tiny:9", "-o", "m.keras"), "no trial '9'"),
        ((":1", "-o", "m.keras"), "must be STUDY, STUDY:TRIAL or MODEL.keras; received ':1'"),
        (("none.keras", "-o", "m.keras"), r"none\.keras: no such model file"),
        (("tiny", "-o", "m.pb"), r"the ending must be one of \.keras, .*received 'm\.pb'"),
        (("tiny", "-o", ".", "--format", "savedmodel"), r"must name a file or folder; received '\.'"),
        (("tiny", "-o", "trained.keras"), r"trained\.keras: is there already"),
    ],
)
def test_wrong_use_is_one_message_and_exit_code_2(run, folder, arguments, message):
    before = sorted(folder.iterdir())
    code, out, err = run(*arguments, "-q")
    assert (code, out) == (2, ""), err
    assert err.startswith("error: ")
    assert re.search(message, err), err
    assert sorted(folder.iterdir()) == before
