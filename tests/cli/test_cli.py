"""The command line: help, exit codes, light commands, tables."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pandas as pd
import pytest

from workbench.cli import cli, main

README = Path(__file__).parents[2] / "README.md"


def commands(group=cli, path=()):
    for name, command in group.commands.items():
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


COMMANDS = list(commands())


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


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_and_is_in_the_readme(run, command):
    for flag in ("--help", "-h"):
        code, out, err = run(*command, flag)
        assert (code, err) == (0, "")
        assert out.startswith(f"Usage: workbench {' '.join(command)} ")
        assert len(out.splitlines()[2].strip()) > 10, "says what it does"
    assert re.search(rf"(workbench |`){' '.join(command)}\b", README.read_text(encoding="utf-8"))


def test_help_names_every_command(run):
    code, out, _ = run("--help")
    assert code == 0
    assert {command[0] for command in COMMANDS} <= set(out.split())
    assert run("--version")[1].startswith("workbench, version ")


def test_every_command_takes_plugin_files():
    for path in COMMANDS:
        command = cli
        for name in path:
            command = command.commands[name]
        if not isinstance(command, click.Group):
            assert {"--plugin", "--debug"} <= {option for param in command.params for option in param.opts}, path


SEARCH = ("search", "quickstart", "--directory", "studies", "--quiet")
WRONG_USE = {
    "unknown plugin": (
        (*SEARCH, "--set", "model.name=cifar_convnett"),
        "--set model.name=.*Did you mean 'cifar_convnet'|model.name.*Did you mean 'cifar_convnet'",
    ),
    "typo in a key": ((*SEARCH, "--set", "trainin.epochs=2"), "trainin.*Did you mean 'training'"),
    "typo in a value": ((*SEARCH, "--set", "training.epochs=two"), "training.epochs.*two"),
    "reversed range": (
        (*SEARCH, "--set", "model.space.filters={min=9,max=3}"),
        r"model\.space\.filters.*min 9 is larger than max 3",
    ),
    "option out of range": ((*SEARCH, "--epochs", "0"), "--epochs.*received 0"),
    "unknown search": (("search", "quikstart"), "'quikstart': is neither a file.*Did you mean 'quickstart'"),
    "missing file": (("search", "no.toml"), r"no\.toml: no such file"),
    "no data folder": (
        ("search", "flowers_squeezenet", "--inline", "-q"),
        "pass --data-dir FOLDER or set WORKBENCH_DATA",
    ),
    "missing data folder": (
        ("search", "flowers_squeezenet", "--inline", "-q", "--data-dir", "nowhere"),
        r"the data folder .*nowhere does not exist",
    ),
    "missing plugin": (("plugins", "list", "--plugin", "no.py"), r"plugin no \(.*no\.py\): no such file"),
    "broken plugin": (("devices", "--plugin", "broken.py"), r"ZeroDivisionError: division by zero, broken\.py line 1"),
    "unknown component": (
        ("plugins", "show", "squeezent"),
        "no plugin is named 'squeezent'.*Did you mean 'squeezenet'",
    ),
    "image size of a schedule": (("plugins", "show", "constant", "--image-size", "8"), "are for models; constant is a"),
    "too small images": (("plugins", "show", "cifar_convnet", "--image-size", "1"), "must build for 1x1 images"),
    "unknown study": (("leaderboard", "none"), "studies/none: no such study .*`workbench search` makes one"),
    "unknown trained study": (("train", "quickstart", "--point", "none:1", "-q"), "no such study"),
    "unknown point": (("train", "quickstart", "--point", "best", "-q"), "--point must be default.*received 'best'"),
    "missing model": (("predict", "no.keras", "a.png"), r"no\.keras: no such model file"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG_USE.values(), ids=WRONG_USE.keys())
def test_wrong_use_is_one_message_and_exit_code_2(run, arguments, message):
    Path("broken.py").write_text("1 / 0\n")
    code, out, err = run(*arguments)
    assert code == 2, err
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("error: ") == 1
    assert re.search(message, err), err
    assert "Traceback" not in err
    assert not list(Path().glob("studies/*")), "nothing is left behind"


@pytest.mark.parametrize(
    "arguments", [("serach",), ("search",), ("search", "quickstart", "--unknown"), ("leaderboard", "s", "--top", "0")]
)
def test_clicks_own_errors_have_exit_code_2(run, arguments):
    code, _, err = run(*arguments)
    assert code == 2
    assert "Traceback" not in err


def test_debug_shows_the_traceback(run):
    code, _, err = run("leaderboard", "none", "--debug")
    assert code == 2
    assert "Traceback (most recent call last)" in err
    assert err.splitlines()[-1].startswith("error: studies/none: no such study")


def test_a_discovered_plugin_that_does_not_load_is_a_warning(run):
    Path("plugins").mkdir()
    Path("plugins/broken.py").write_text("1 / 0\n")
    code, out, err = run("studies", "--plugins-dir", "plugins")
    assert (code, err.count("\n")) == (0, 1)
    assert err.startswith("warning: plugin broken (")
    assert "no studies in studies" in out
    code, out, _ = run("plugins", "list", "--plugins-dir", "plugins")
    assert code == 0
    assert "not loaded: plugin broken" in out


def test_a_reader_that_has_seen_enough_is_no_error():
    code = f"from workbench.cli import main; main({['plugins', 'list', '--format', 'json']!r})"
    command = f'{sys.executable} -c "{code}" | head -c 1'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout == "{"
    assert done.stderr == ""


LIGHT = [
    ["--help"],
    ["plugins", "list"],
    ["searches", "list"],
    ["searches", "show", "quickstart"],
    ["studies"],
    ["leaderboard", "study"],
    ["report", "study"],
    ["compare", "study"],
    ["devices"],
]


@pytest.mark.parametrize("arguments", LIGHT, ids=" ".join)
def test_light_commands_import_no_deep_learning_library(write_study, run_python, arguments, tmp_path):
    write_study(tmp_path / "studies" / "study", TRIALS)
    code = (
        "import sys\nfrom workbench.cli import main\ntry:\n    main(sys.argv[1:])\nfinally:\n"
        "    print({'tensorflow', 'keras', 'keras_tuner', 'sklearn'} & set(sys.modules), file=sys.stderr)"
    )
    done = run_python(code, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "set()\n"
    assert done.stdout


def test_lists_of_plugins_and_searches(run):
    _, out, _ = run("plugins", "list", "--kind", "model", "--format", "json")
    listed = json.loads(out)
    assert [item["name"] for item in listed["components"]] == ["cifar_convnet", "squeezenet", "xception"]
    assert listed["problems"] == listed["disabled"] == []
    _, out, _ = run("searches", "list")
    assert all(name in out for name in ("quickstart", "cifar10_convnet", "flowers_squeezenet", "flowers_xception"))
    _, out, _ = run("searches", "show", "quickstart")
    assert out.startswith("#")
    assert 'name = "digits"' in out


def test_show_tells_the_published_size(run):
    _, out, _ = run("plugins", "show", "cifar_convnet", "--format", "json")
    facts = json.loads(out)
    assert (facts["parameters"], facts["image_shape"], facts["classes"]) == (1_676_982, [32, 32, 3], 10)
    assert {row["name"] for row in facts["hyperparameters"]} >= {"cifar_convnet/blocks", "cifar_convnet/filters"}


TRIALS = [
    {"values": {"net/units": 4, "net/kind": "a"}, "scores": [[0.5, 0.6]], "parameters": 1234},
    {"values": {"net/units": 8, "net/kind": "b"}, "scores": [[0.7, 0.1]], "parameters": 5678},
    {"values": {"net/units": 16, "net/kind": "a"}, "scores": [[0.4, 0.9]]},
    {"values": {"net/units": 2}, "scores": [[]], "status": "failed", "error": "ValueError: no"},
]


@pytest.fixture
def study(write_study, tmp_path):
    return write_study(tmp_path / "studies" / "study", TRIALS)


@pytest.fixture
def rows(run, study):
    """`rows(*options)`: the leaderboard's rows as JSON has them."""

    def call(*options):
        code, out, err = run("leaderboard", "study", "--format", "json", *options)
        assert code == 0, err
        return json.loads(out)

    return call


def ids(rows):
    return [row["trial_id"] for row in rows]


def test_json_is_a_list_of_rows_with_nulls(rows):
    found = rows()
    assert ids(found) == ["0003", "0002", "0001"]
    assert found[0]["rank"] == 1
    assert (found[0]["score"], found[0]["score_std"], found[0]["error"]) == (0.9, None, None)
    assert found[1]["hp.net/units"] == 8
    assert found[0]["started_at"].startswith("2026-01-02T03:04:06")
    failed = rows("--all")[-1]
    assert (failed["trial_id"], failed["score"], failed["hp.net/kind"]) == ("0004", None, None)
    assert failed["error"] == "ValueError: no"


def test_rows_and_columns_are_chosen(rows):
    assert ids(rows("--top", "1")) == ["0003"]
    assert ids(rows("--where", "parameters > 1000")) == ["0002", "0001"]
    assert ids(rows("--where", "`hp.net/units` > 4 and `hp.net/kind` == 'a'")) == ["0003"]
    assert ids(rows("--sort", "parameters")) == ["0003", "0001", "0002"]
    assert ids(rows("--sort", "-hp.net/units")) == ["0003", "0002", "0001"]
    assert ids(rows("--at-epoch", "1")) == ["0002", "0001", "0003"]
    assert list(rows("--columns", "rank,hp.*,score*")[0]) == [
        "rank",
        "hp.net/units",
        "hp.net/kind",
        "score",
        "score_std",
    ]
    assert rows("--where", "score > 1") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--where", "parameter > 3"), "--where must be a pandas expression .*received 'parameter > 3'"),
        (("--where", "score >"), "--where must be a pandas expression"),
        (("--sort", "scores"), "--sort must name columns; received 'scores'.*Did you mean 'score'"),
        (("--columns", "hp.net/unit"), "--columns must name columns; .*Did you mean 'hp.net/units'"),
        (("--format", "parquet"), "--format parquet needs a file"),
        (("--columns", ","), "--columns must name a column or more; received ','"),
        (
            ("--output", "studies/study/journal.jsonl/out.csv"),
            "--output must not be a file of a study",
        ),
    ],
)
def test_options_that_do_not_fit(run, study, options, message):
    code, out, err = run("leaderboard", "study", *options)
    assert (code, out) == (2, "")
    assert re.search(message, err), err


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_files_of_a_programs_formats_hold_the_whole_table(run, study, ending):
    code, out, _ = run("leaderboard", study.path, "-o", f"out.{ending}")
    assert (code, out) == (0, "")
    read = {"csv": pd.read_csv, "json": pd.read_json, "parquet": pd.read_parquet}[ending]
    frame = read(f"out.{ending}")
    assert list(frame.columns) == list(study.leaderboard().columns)
    assert frame["score"].to_list() == pytest.approx([0.9, 0.7, 0.6])
    assert frame["hp.net/units"].to_list() == [16, 8, 4]


def test_formats_for_people(run, study):
    _, out, _ = run("leaderboard", "study", "--format", "markdown", "--columns", "rank,score,parameters")
    assert out.splitlines() == [
        "| rank   | score   | parameters   |",
        "|:-------|:--------|:-------------|",
        "| 1      | 0.9000  | 100          |",
        "| 2      | 0.7000  | 5,678        |",
        "| 3      | 0.6000  | 1,234        |",
    ]
    _, out, _ = run("leaderboard", "study", "--format", "html", "--columns", "rank,score")
    assert out.startswith("<table")
    assert "<td>0.9</td>" in out
    _, out, _ = run("leaderboard", "study")
    lines = out.splitlines()
    assert lines[0].split() == [
        "rank",
        "trial_id",
        "score",
        "best_epoch",
        "epochs",
        "parameters",
        "seconds",
        "units",
        "kind",
    ]
    assert [line.split()[:3] for line in lines[2:5]] == [
        ["1", "0003", "0.9000"],
        ["2", "0002", "0.7000"],
        ["3", "0001", "0.6000"],
    ]
    _, out, _ = run("leaderboard", "study", "--top", "2")
    assert out.splitlines()[-1] == "2 of 3 trials; --top N shows more"


def test_studies_are_listed(run, study):
    code, out, err = run("studies", "--format", "json")
    assert (code, err) == (0, "")
    (row,) = json.loads(out)
    assert (row["study"], row["status"], row["trials"], row["completed"], row["best"]) == (
        "study",
        "interrupted",
        4,
        3,
        0.9,
    )
    assert row["target"] is None
    (study.path / "journal.jsonl").write_text("broken\n")
    code, out, err = run("studies")
    assert code == 0
    assert err.startswith("warning: studies/study/journal.jsonl, line 1: every line must be one JSON object")


def test_a_study_in_which_nothing_completed_has_no_leaderboard_yet(run, write_study, tmp_path):
    write_study(tmp_path / "studies" / "study", [{"values": {"a": 1}, "scores": [[0.5]], "status": "failed"}])
    code, out, err = run("leaderboard", "study")
    assert (code, err) == (0, "")
    assert out == "studies/study: no trial to rank (1 failed); --all lists them all\n"
    assert run("leaderboard", "study", "--format", "csv")[1].startswith("rank,trial_id,status")
    assert "1 failed" not in run("leaderboard", "study", "--all")[1]
    assert run("leaderboard", "study", "--at-epoch", "9")[1].startswith(
        "studies/study: no completed trial with 9 epochs"
    )


@pytest.mark.parametrize("command", ["leaderboard", "compare"])
def test_a_table_without_rows_or_columns_is_no_fault(run, study, command):
    code, out, err = run(command, "study", "--where", "score > 5" if command == "leaderboard" else "best > 5")
    assert (code, err) == (0, "")
    assert "nothing to show" in out


@pytest.mark.parametrize("text", ["0", "index[0]", "score"])
def test_a_condition_must_give_rows(run, study, text):
    code, _, err = run("leaderboard", "study", "--where", text)
    assert code == 2
    assert err.startswith("error: --where must be a pandas expression over the columns")
    assert len(err.splitlines()) == 1


def test_a_study_is_not_written_over(run, study, tmp_path):
    journal = tmp_path / "studies" / "study" / "journal.jsonl"
    before = journal.read_bytes()
    code, _, err = run("leaderboard", "study", "--format", "csv", "-o", journal)
    assert code == 2
    assert "--output must not be a file of a study" in err
    assert journal.read_bytes() == before


def test_one_damaged_study_hides_no_other(run, study, tmp_path):
    broken = tmp_path / "studies" / "broken"
    broken.mkdir()
    (broken / "journal.jsonl").write_text('{"event":"study","format":1,"definition":[]}\n')
    code, out, err = run("studies")
    assert code == 0
    assert "study" in out
    assert re.search(r"^warning: .*broken/journal\.jsonl, line 1: .*definition must be an object; received \[\]", err)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("options", [[], ["--format", "csv"]])
def test_a_full_standard_output_is_one_message(study, options):
    command = [sys.executable, "-c", "from workbench.cli import main; main()", "leaderboard", "study", *options]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "error: standard output cannot be read or written (No space left on device)\n"


def test_a_name_too_long_for_a_file_is_no_study(run):
    code, _, err = run("leaderboard", "a" * 5000)
    assert code == 2
    assert "no such study" in err
