"""The append-only journal."""

from __future__ import annotations

import gc
import json
import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.errors import JournalError
from workbench.journal import (
    Journal,
    encode_event,
    iterate_journal,
    paused_collector,
    read_journal,
    write_atomically,
)

VALUES = st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False), st.text())
EVENTS = st.lists(st.tuples(st.text(min_size=1), st.dictionaries(st.sampled_from("abc"), VALUES)), max_size=5)


def write(path, events):
    with Journal(path) as journal:
        return [journal.append(event, **fields) for event, fields in events]


@settings(max_examples=50, deadline=None)
@given(events=EVENTS)
def test_what_was_appended_is_read_back(tmp_path_factory, events):
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    written = write(path, events)
    assert read_journal(path) == written
    with Journal(path) as journal:
        assert journal.events == written


@settings(max_examples=20, deadline=None)
@given(events=EVENTS.filter(len), data=st.data())
def test_a_cut_anywhere_leaves_a_prefix_and_keeps_the_torn_bytes(tmp_path_factory, events, data):
    folder = tmp_path_factory.mktemp("journal")
    path, torn = folder / "journal.jsonl", folder / "journal.torn"
    written = write(path, events)
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    complete = whole[:cut].count(b"\n")
    assert read_journal(path) == written[:complete]
    assert path.read_bytes() == whole[:cut], "a reader changes nothing"
    with Journal(path) as journal:
        journal.append("next")
    assert read_journal(path) == [*written[:complete], {"event": "next"}]
    rest = whole[:cut].rpartition(b"\n")[2]
    assert (torn.read_bytes() if torn.exists() else b"") == (rest + b"\n" if rest else b"")


def test_every_byte_of_a_last_line_can_be_the_last_one(tmp_path):
    path = tmp_path / "journal.jsonl"
    written = write(path, [("first", {}), ("second", {"name": "é"})])
    whole = path.read_bytes()
    for cut in range(whole.index(b"\n") + 1, len(whole)):
        path.write_bytes(whole[:cut])
        assert read_journal(path) == written[:1]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"event": "half', "EOF while parsing"),
        (b"", "EOF while parsing"),
        (b"[1]", 'not an object with a key "event"'),
        (b'{"event": 3}', 'not an object with a key "event"'),
        (b"\x00\x00\x00", "expected value"),
        (b'{"event": "\xff"}', "invalid unicode"),
    ],
)
def test_an_unreadable_middle_line_is_an_error_that_names_it(tmp_path, line, reason):
    path = tmp_path / "journal.jsonl"
    write(path, [("first", {}), ("third", {})])
    first, third, _ = path.read_bytes().split(b"\n")
    damaged = b"\n".join([first, line, third, b""])
    path.write_bytes(damaged)
    for read in (read_journal, Journal):
        with pytest.raises(JournalError, match=rf"journal\.jsonl, line 2: every line must be one JSON.*{reason}"):
            read(path)
    assert path.read_bytes() == damaged


def test_a_missing_journal(tmp_path):
    with pytest.raises(JournalError, match="no such journal; the folder is not a study"):
        read_journal(tmp_path / "journal.jsonl")
    (tmp_path / "journal.jsonl").mkdir()
    with pytest.raises(JournalError, match="the journal cannot be read"):
        read_journal(tmp_path / "journal.jsonl")


def test_numpy_values_and_numbers_that_json_has_not(tmp_path):
    path = tmp_path / "journal.jsonl"
    write(path, [("e", {"a": np.float32(0.5), "b": np.arange(2), "c": float("nan"), "d": (1, 2), "p": tmp_path})])
    (event,) = read_journal(path)
    assert (event["a"], event["b"], event["d"], event["p"]) == (0.5, [0, 1], [1, 2], str(tmp_path))
    assert np.isnan(event["c"])


def test_threads_append_whole_lines(tmp_path):
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        threads = [
            threading.Thread(target=lambda n=n: [journal.append("e", n=n, i=i) for i in range(20)]) for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert read_journal(path) == journal.events
    assert len(journal.events) == 80


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from workbench.errors import StorageError
from workbench.journal import Journal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
with Journal(path) as journal:
    journal.append("first")
    room = path.stat().st_size + 10
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    try:
        journal.append("second", text="longer than the room that is left")
    except StorageError as error:
        assert "cannot be written (File too large)" in str(error), error
    else:
        sys.exit("no error")
    assert [event["event"] for event in journal.events] == ["first"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    journal.append("third")
"""


def test_an_append_that_did_not_fit_leaves_no_half_line(tmp_path, run_python):
    path = tmp_path / "journal.jsonl"
    run = run_python(FULL_DISK, str(path))
    assert run.returncode == 0, run.stderr
    assert [event["event"] for event in read_journal(path)] == ["first", "third"]


def test_each_event_is_one_line_of_json(tmp_path):
    path = tmp_path / "journal.jsonl"
    write(path, [("e", {"text": "two\nlines\u2028"})])
    (line,) = path.read_text().splitlines()
    assert json.loads(line) == {"event": "e", "text": "two\nlines\u2028"}


def test_closing_twice_is_fine(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    journal.close()
    journal.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        journal.append("late")


def test_write_atomically_replaces_the_whole_file(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"a longer first text")
    write_atomically(path, memoryview(b"second"))
    assert path.read_bytes() == b"second"
    assert os.listdir(tmp_path) == ["file"]  # noqa: PTH208


def test_a_failed_write_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with pytest.raises(TypeError):
        write_atomically(path, "text")
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["file"]


def test_a_large_journal_is_read_in_parts_and_its_damage_is_named(tmp_path):
    path = tmp_path / "journal.jsonl"
    lines = [encode_event({"event": "epoch", "number": number, "text": "x" * 300}) for number in range(1, 9001)]
    path.write_bytes(b"".join(lines) + b'{"event":"to')
    assert [event["number"] for event in iterate_journal(path)] == list(range(1, 9001))
    lines[7999] = b'{"event":3}\n'
    path.write_bytes(b"".join(lines))
    with pytest.raises(JournalError, match=r"line 8000: every line must be one JSON object; received '.{11}' "):
        list(iterate_journal(path))


def test_the_collector_is_as_it_was_after_reading(tmp_path):
    write(tmp_path / "journal.jsonl", [("first", {})])
    assert gc.isenabled()
    read_journal(tmp_path / "journal.jsonl")
    assert gc.isenabled()
    with paused_collector(), paused_collector():
        assert not gc.isenabled()
    with pytest.raises(JournalError):
        read_journal(tmp_path / "other.jsonl")
    assert gc.isenabled()
