"""What must not be run is refused; what is asked to stop stops, and goes on later."""

from __future__ import annotations

import signal

import pytest

from workbench.cli import main


def stop(commands, study, number, *options):
    """Starts a search, waits until it trains, sends it a signal: exit code and standard error."""
    search = commands.start(study, *options)
    assert commands.wait_for_growth(search, study, 5), search.stderr.read()
    search.send_signal(number)
    _, errors = search.communicate(timeout=30)
    return search.returncode, errors


@pytest.mark.timeout(900)
def test_a_second_search_is_refused_and_sigterm_stops_the_first(command_line):
    commands = command_line(epochs=200, trials=2)
    first = commands.start("study")
    assert commands.wait_for_growth(first, "study", 5), first.stderr.read()
    code, errors = commands.run("study")
    assert code == 2
    assert f"one process runs a study; process {first.pid} on " in errors
    assert "--study NAME" in errors
    assert first.poll() is None, "the first one goes on"
    first.send_signal(signal.SIGTERM)
    _, errors = first.communicate(timeout=30)
    assert first.returncode == 130
    assert errors.strip() == "Stopped. The same command continues where it was."
    assert commands.events("study")[-1]["event"] == "interrupted"
    commands.assert_no_process_is_left()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_signals_end_with_130_and_the_search_goes_on_later(command_line, assert_same_study, tmp_path):
    commands = command_line(epochs=12, trials=3)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
        code, errors = stop(commands, "study", number)
        assert (code, errors.strip()) == (130, "Stopped. The same command continues where it was.")
        commands.assert_no_process_is_left()
    for study in ("study", "undisturbed"):
        code, errors = commands.run(study)
        assert code == 0, errors
    assert_same_study(tmp_path / "study", tmp_path / "undisturbed")


def arguments(commands, plugin):
    names = ["--directory", str(commands.folder), "--study", "study", "--plugin", str(plugin)]
    return ["search", str(commands.definition), *names]


def test_a_changed_definition_is_refused_and_shows_the_change(write_study, command_line, tiny_plugin, capsys):
    commands = command_line(epochs=1, trials=2)
    journal = write_study(commands.folder / "study", []).path / "journal.jsonl"
    before = journal.read_bytes()
    with pytest.raises(SystemExit) as ended:
        main([*arguments(commands, tiny_plugin), "--seed", "6", "--set", "dataset.limit=300"])
    assert ended.value.code == 2
    errors = capsys.readouterr().err
    assert "seed: 5 -> 6" in errors
    assert "dataset.limit: 200 -> 300" in errors
    assert "--study NAME" in errors
    assert journal.read_bytes() == before


def test_an_unreadable_line_in_the_middle_is_refused_and_stays(write_study, command_line, tiny_plugin, capsys):
    commands = command_line(epochs=1, trials=2)
    trial = {"values": {"tiny/units": 8, "tiny/activation": "relu"}, "scores": [[0.5]]}
    journal = write_study(commands.folder / "study", [trial]).path / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4][: len(lines[4]) // 2] + b"\n"
    # The last line is torn as well: not even that is cut off.
    damaged = b"".join(lines)[:-5]
    journal.write_bytes(damaged)
    with pytest.raises(SystemExit) as ended:
        main(arguments(commands, tiny_plugin))
    assert ended.value.code == 2
    assert "journal.jsonl, line 5: every line must be one JSON object" in capsys.readouterr().err
    assert journal.read_bytes() == damaged
    assert not journal.with_name("journal.torn").exists()
