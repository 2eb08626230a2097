"""Files that a person asks for: whole or not at all, and nothing of theirs is lost."""

from __future__ import annotations

import os
import threading

import pytest

from workbench.errors import OutputError, UsageError
from workbench.outputs import check_output, write_output


def test_a_file_is_replaced_as_a_whole_and_its_folder_made(tmp_path):
    path = tmp_path / "new" / "board.csv"
    for data in (b"first", b"second"):
        write_output(path, data)
        assert path.read_bytes() == data
    assert list(path.parent.iterdir()) == [path]


def test_a_link_is_followed(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_output(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_pipe_is_written_to(tmp_path):
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_output(pipe, b"table")
    reader.join(timeout=10)
    assert found == [b"table"]
    assert pipe.is_fifo()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")  # noqa: PTH110
def test_a_full_device_is_an_error_and_stays_a_device():
    with pytest.raises(OutputError, match=r"/dev/full: cannot be written \(No space left on device\)\. Make room or"):
        write_output_to_device()
    assert os.stat("/dev/full").st_rdev  # noqa: PTH116


def write_output_to_device():
    from pathlib import Path

    write_output(Path("/dev/full"), b"table")


def test_a_full_disk_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "board.csv"
    path.write_bytes(b"precious")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"board\.csv: cannot be written \(No space left on device\)"):
        write_output(path, b"new")
    assert path.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "name", ["journal.jsonl", "definition.json", "checkpoints/0001/last.npz", "confirm/journal.jsonl"]
)
def test_a_file_of_a_study_is_never_written_over(tmp_path, name):
    own = tmp_path / name
    own.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "journal.jsonl").write_text("{}\n")
    own.write_text("{}\n")
    with pytest.raises(UsageError, match=r"--output must not be a file of a study; received .*Name a file outside"):
        write_output(own, b"table")
    assert own.read_text() == "{}\n"


def test_a_page_beside_a_journal_can_be_made_anew(tmp_path):
    (tmp_path / "journal.jsonl").write_text("{}\n")
    for data in (b"first", b"second"):
        write_output(tmp_path / "report.html", data)
        assert (tmp_path / "report.html").read_bytes() == data


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(UsageError, match=r"--output must be a file; received .*, a folder"):
        check_output(tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"must be in a folder that is there or can be made; received .*board"):
        check_output(tmp_path / "file" / "board.csv")
