"""A study's directory: lock, definition, and what it refuses."""

from __future__ import annotations

import json

import pytest

from workbench.directory import StudyDirectory, list_studies
from workbench.errors import JournalError, StudyChangedError, StudyError, StudyLockedError
from workbench.journal import Journal, read_journal

HOLD = """
import sys
from pathlib import Path
from workbench.directory import StudyDirectory

with StudyDirectory(Path(sys.argv[1])).lock():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path):
    return StudyDirectory(tmp_path / "study")


def begin(place, definition):
    with place.lock(), place.begin(definition) as journal:
        return journal.events


def test_the_first_event_holds_the_definition(place, tiny_definition):
    events = begin(place, tiny_definition())
    assert [event["event"] for event in events] == ["study"]
    assert events[0]["format"] == 1
    assert events[0]["definition"] == tiny_definition().resolved()
    assert json.loads(place.definition.read_text()) == tiny_definition().resolved()


def test_an_unchanged_definition_resumes(place, tiny_definition):
    begin(place, tiny_definition())
    assert len(begin(place, tiny_definition())) == 1


def test_a_changed_definition_is_refused_and_the_change_named(place, tiny_definition):
    begin(place, tiny_definition())
    changed = tiny_definition(training={"epochs": 2}, dataset={"limit": 150})
    pattern = r"(?s)study: a study keeps its definition.*dataset\.limit: 200 -> 150.*training\.epochs: 1 -> 2.*--study"
    for attempt in (lambda: place.check(changed), lambda: begin(place, changed)):
        with pytest.raises(StudyChangedError, match=pattern):
            attempt()
    assert len(read_journal(place.journal)) == 1


def test_a_budget_may_change_and_is_journaled(place, tiny_definition):
    begin(place, tiny_definition())
    raised = tiny_definition(budget={"max_trials": 9})
    place.check(raised)
    assert [event["event"] for event in begin(place, raised)] == ["study", "definition"]
    assert json.loads(place.definition.read_text())["budget"]["max_trials"] == 9
    assert len(begin(place, raised)) == 2


def test_a_second_process_is_refused(place, tiny_definition, start_python):
    place.path.mkdir()
    with Journal(place.journal) as journal:
        journal.append("study", format=1, definition=tiny_definition().resolved())
        journal.append("session", pid=4711, host="there", at="2026-01-02T03:04:05+00:00")
    child = start_python(HOLD, str(place.path))
    assert child.stdout.readline() == "held\n"
    assert place.is_running()
    message = r"study: one process runs a study; process 4711 on there \(since 2026-01-02.*\) runs this one.*--study"
    with pytest.raises(StudyLockedError, match=message), place.lock():
        pass
    child.kill()
    child.wait()
    assert not place.is_running(), "a killed process leaves no lock behind"
    with place.lock():
        assert place.is_running()


@pytest.mark.parametrize("strangers", [["notes.txt"], ["b", "a", "c", "d"]])
def test_a_folder_with_other_files_is_refused(place, strangers):
    place.path.mkdir()
    for name in strangers:
        (place.path / name).touch()
    pattern = f"must be empty or a study; it has {', '.join(sorted(strangers)[:3])} and no journal.jsonl"
    with pytest.raises(StudyError, match=pattern), place.lock():
        pass
    assert sorted(path.name for path in place.path.iterdir()) == sorted(strangers)


def test_a_file_is_refused(place):
    place.path.write_text("")
    with pytest.raises(StudyError, match="a study is a folder; this is a file"), place.lock():
        pass


def test_a_parent_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StudyError, match="the study's folder cannot be written"),
        StudyDirectory(tmp_path / "file" / "study").lock(),
    ):
        pass


def test_what_a_process_that_was_killed_while_it_prepared_leaves_is_no_stranger(place, tiny_definition):
    place.path.mkdir()
    place.worker_log.write_text("import tensorflow")
    assert len(begin(place, tiny_definition())) == 1


def test_discard_leaves_nothing(tmp_path):
    place = StudyDirectory(tmp_path / "made" / "for it" / "study")
    with place.lock():
        place.worker_log.write_text("output")
        place.discard()
    assert list(tmp_path.iterdir()) == []


def test_discard_leaves_folders_that_were_there(tmp_path):
    (tmp_path / "studies").mkdir()
    place = StudyDirectory(tmp_path / "studies" / "study")
    with place.lock():
        place.discard()
    assert list(tmp_path.rglob("*")) == [tmp_path / "studies"]


@pytest.mark.parametrize(
    ("first", "pattern"),
    [
        (
            {"event": "study", "format": 2, "definition": {}},
            r"reads journals of format 1; received 2\. Use the version",
        ),
        ({"event": "study", "format": 1}, "line 1: a journal must begin with a study event that has a definition"),
        ({"event": "session"}, "line 1: a journal must begin with a study event that has a definition"),
    ],
)
def test_journals_of_other_formats_are_refused(place, tiny_definition, first, pattern):
    place.path.mkdir()
    place.journal.write_text(json.dumps(first) + "\n")
    before = place.journal.read_bytes()
    for attempt in (place.events, lambda: place.check(tiny_definition()), lambda: begin(place, tiny_definition())):
        with pytest.raises(JournalError, match=pattern):
            attempt()
    assert place.journal.read_bytes() == before


def test_an_unknown_study_names_the_near_ones(tmp_path, tiny_definition):
    for name in ("flowers", "digits"):
        begin(StudyDirectory(tmp_path / name), tiny_definition())
    with pytest.raises(StudyError, match=r"flower: no such study .*Did you mean 'flowers'\?"):
        StudyDirectory(tmp_path / "flower").events()
    with pytest.raises(StudyError, match=r"no such study .* There are: digits, flowers\."):
        StudyDirectory(tmp_path / "x").events()
    with pytest.raises(StudyError, match="`workbench search` makes one"):
        StudyDirectory(tmp_path / "empty" / "x").events()
    assert [place.path.name for place in list_studies(tmp_path)] == ["digits", "flowers"]
    assert list_studies(tmp_path / "nowhere") == []
