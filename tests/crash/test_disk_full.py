"""Every write of a search fails once, as on a full disk; after each the search ends right and nothing is lost."""

from __future__ import annotations

import builtins
import errno
import io
import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import workbench
from workbench.cli import main
from workbench.errors import StorageError


class _Raw(io.FileIO):
    """A file whose writes go through the faulty layer."""

    layer: FaultyFiles

    def write(self, data: Any) -> int:
        half = bytes(data[: len(data) // 2])
        self.layer.step(f"write {Path(str(self.name)).name}", lambda: super(_Raw, self).write(half))
        return super().write(data)


class FaultyFiles:
    """The operating system's calls that change files under a folder, counted; one of them fails with ENOSPC.

    A write that fails has written half of its bytes before.

    Attributes:
        fails_at: which call from now on fails, from 0; None for none.
        calls: what was called, in order.
        failed: what failed.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch):
        self._folder = folder
        self.fails_at: int | Callable[[str], bool] | None = None
        self.calls: list[str] = []
        self.failed: str | None = None
        write, fsync, opened = os.write, os.fsync, io.open

        def faulty_write(handle: int, data: bytes) -> int:
            if path := self._path_of(handle):
                event = bytes(data).partition(b'"event":"')[2].partition(b'"')[0].decode()
                self.step(f"write {path.name} {event}".strip(), lambda: write(handle, data[: len(data) // 2]))
            return write(handle, data)

        def faulty_fsync(handle: int) -> None:
            if (path := self._path_of(handle)) and path.is_file():
                self.step(f"fsync {path.name}")
            fsync(handle)

        def faulty_open(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if mode not in ("wb", "ab", "rb+") or not self._is_ours(file):
                return opened(file, mode, *arguments, **options)
            self.step(f"open {Path(file).name}")
            raw = _Raw(file, mode)
            raw.layer = self
            return io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)

        patch.setattr(os, "write", faulty_write)
        patch.setattr(os, "fsync", faulty_fsync)
        patch.setattr(io, "open", faulty_open)
        patch.setattr(builtins, "open", faulty_open)
        for name in ("mkdir", "replace", "rename"):
            self._patch_call(patch, name, getattr(os, name))

    def _patch_call(self, patch: pytest.MonkeyPatch, name: str, call: Callable[..., Any]) -> None:
        def faulty(path: Any, *arguments: Any, **options: Any) -> Any:
            if self._is_ours(path) and not (name == "mkdir" and Path(path).is_dir()):
                self.step(f"{name} {Path(path).name}")
            return call(path, *arguments, **options)

        patch.setattr(os, name, faulty)

    def step(self, call: str, before: Callable[[], Any] = lambda: None) -> None:
        """Counts one call, and fails it if it is the one."""
        number = len(self.calls)
        self.calls.append(call)
        wanted = self.fails_at(call) if callable(self.fails_at) else self.fails_at == number
        if wanted and self.failed is None:
            before()
            self.failed = call
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def arm(self, fails_at: int | Callable[[str], bool] | None) -> None:
        self.fails_at, self.calls, self.failed = fails_at, [], None

    def _is_ours(self, path: Any) -> bool:
        return isinstance(path, str | Path) and Path(path).is_relative_to(self._folder)

    def _path_of(self, handle: int) -> Path | None:
        status = os.fstat(handle)
        for path in [self._folder, *self._folder.rglob("*")]:
            if path.exists() and os.path.samestat(path.stat(), status):
                return path
        return None


@pytest.fixture
def files(tmp_path, monkeypatch):
    return FaultyFiles(tmp_path / "studies", monkeypatch)


@pytest.fixture
def search(tmp_path, tiny_tables, tiny_plugin):
    def run(study, trials):
        return workbench.search(
            tiny_tables(training={"epochs": 2}, budget={"max_trials": trials}),
            study=study,
            directory=tmp_path / "studies",
            plugin_files=[tiny_plugin],
            inline=True,
            device="cpu",
        )

    return run


@pytest.fixture
def expected(tmp_path, search):
    """The path of a study that had all the room it needed."""
    return lambda trials: search(f"undisturbed-{trials}", trials).path


MOMENTS = [
    "write journal.jsonl study",
    "write journal.jsonl space",
    "write .execution-1.epoch-0002.npz",
    "write journal.jsonl result",
]


@pytest.mark.timeout(900)
def test_a_disk_that_is_full_at_one_moment_after_another(files, search, expected, assert_same_study):
    """One search, ended by each of the moments in turn."""
    wanted = expected(1)
    for moment in MOMENTS:
        files.arm(lambda call, moment=moment: call.startswith(moment))
        with pytest.raises(StorageError, match=r"cannot be written \(No space left on device\).* make room"):
            search("full", 1)
        assert files.failed.startswith(moment)
    files.arm(None)
    assert_same_study(search("full", 1).path, wanted)
    names = {path.name for path in (wanted.parent / "full").rglob("*")}
    assert not [name for name in names if name.endswith(".tmp")], "what was half written is removed"


def test_the_command_line_says_what_to_do(files, tmp_path, tiny_plugin, tiny_tables, command_line, capsys):
    commands = command_line(epochs=1, trials=1)
    files.arm(lambda call: call == "write journal.jsonl epoch")
    arguments = ["search", str(commands.definition), "--plugin", str(tiny_plugin), "--inline", "--quiet"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--directory", str(tmp_path / "studies"), "--study", "full", "--device", "cpu"])
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        f"error: {tmp_path / 'studies' / 'full' / 'journal.jsonl'}: cannot be written (No space left on device). "
        "Nothing that was finished is lost: make room, then the same command continues\n"
    )


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("begun", [0, 1])
def test_every_write_fails_once(files, search, expected, assert_same_study, begun):
    """Of a search of one trial, and of one that goes on from one trial to a second."""
    first, wanted = expected(1), expected(begun + 1)
    failed = []
    for number in itertools.count():
        study = f"full-{number}"
        if begun:
            shutil.copytree(first, first.parent / study)
        files.arm(number)
        try:
            search(study, begun + 1)
        except StorageError:
            pass
        else:
            assert files.failed is None, f"{files.failed} failed, and nobody noticed"
            break
        failed.append(files.failed)
        files.arm(None)
        assert_same_study(search(study, begun + 1).path, wanted)
    events = ["session", "proposal", "attempt", "model", "epoch", "checkpoint", "result", "finished"]
    events += ["definition"] if begun else ["study", "space"]
    assert set(failed) >= {f"write journal.jsonl {event}" for event in events}
    kinds = {call.split()[0] for call in failed}
    assert kinds >= {"open", "write", "fsync", "replace", "mkdir"}
