"""Real searches through the command line, started, killed and looked at from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest

import workbench
from workbench.journal import Event, read_journal

ONE_THREAD = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1", "TF_DETERMINISTIC_OPS": "1"}
TIMINGS = ["seconds", "step_ms", "images_per_s", "started_at"]
MARK = "CRASH_TEST"

# A shell's background job ignores SIGINT, and so do its children.
COMMAND = """
import signal
from workbench.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""

CHECKPOINT_EACH_EPOCH = """
import sys

import workbench

# Of use in the process that trains, which has imported it by the time it loads plugins.
training = sys.modules.get("workbench.training")
if training is not None:
    training.CHECKPOINT_SECONDS = 0.0


@workbench.hookimpl
def workbench_trial_finished(record):
    pass
"""

DEFINITION = """
seed = 5
[dataset]
name = "digits"
limit = 200
[model]
name = "tiny"
[schedule]
name = "warmup_cosine"
space = {{ "*" = "default" }}
[training]
epochs = {epochs}
batch_size_per_replica = 50
space = {{ "*" = "default" }}
[budget]
max_trials = {trials}
[tuner]
{tuner}
"""


class CommandLine:
    """`workbench search` on one definition file, in processes of its own.

    Attributes:
        folder: where studies are.
    """

    def __init__(self, folder: Path, plugins: Sequence[Path], *, inline: bool = False):
        self.folder = folder
        self.definition = folder / "tiny.toml"
        self._options = [argument for plugin in plugins for argument in ("--plugin", str(plugin))]
        self._options += ["--inline"] if inline else []
        self._environment = {**os.environ, **ONE_THREAD, MARK: str(folder)}
        self._started: list[subprocess.Popen[str]] = []

    def journal(self, study: str) -> Path:
        return self.folder / study / "journal.jsonl"

    def events(self, study: str) -> list[Event]:
        return read_journal(self.journal(study)) if self.journal(study).exists() else []

    def start(self, study: str, *options: str) -> subprocess.Popen[str]:
        return self._start("search", str(self.definition), "--study", study, *options)

    def start_confirmation(self, study: str, *options: str) -> subprocess.Popen[str]:
        return self._start("confirm", study, *options)

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        search = subprocess.Popen(
            [
                *(sys.executable, "-c", COMMAND),
                *(*arguments, "--directory", str(self.folder), "--device", "cpu", "--quiet", *self._options),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )
        self._started.append(search)
        return search

    def run(self, study: str, *options: str, seconds: float = 1800) -> tuple[int, str]:
        """Runs it to its end: exit code and standard error."""
        search = self.start(study, *options)
        _, errors = search.communicate(timeout=seconds)
        return search.returncode, errors

    def wait_for_growth(self, search: subprocess.Popen[str], study: str, lines: int, seconds: float = 900) -> bool:
        """Waits for so many more journal lines; False if the search ended first."""
        wanted = self._count_lines(study) + lines
        end = time.monotonic() + seconds
        while self._count_lines(study) < wanted:
            if search.poll() is not None:
                return False
            assert time.monotonic() < end, f"no {lines} more lines in the journal within {seconds} s"
            time.sleep(0.005)
        return True

    def _count_lines(self, study: str) -> int:
        path = self.journal(study)
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def processes(self) -> list[psutil.Process]:
        """Whatever lives of the searches that were started here, workers included."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == str(self.folder):
                    found.append(process)
        return found

    def assert_no_process_is_left(self, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while left := self.processes():
            assert time.monotonic() < end, f"left behind: {[process.cmdline() for process in left]}"
            time.sleep(0.1)

    def end(self) -> None:
        for search in self._started:
            if search.poll() is None:
                search.send_signal(signal.SIGKILL)
            search.communicate()


@pytest.fixture(scope="session")
def one_thread() -> dict[str, str]:
    """The environment in which TensorFlow's results do not depend on the moment."""
    return ONE_THREAD


@pytest.fixture
def command_line(tmp_path: Path, tiny_plugin: Path) -> Iterator[Callable[..., CommandLine]]:
    """`command_line(...)`: a CommandLine; `each_epoch` checkpoints that often, `inline` trains in the driver."""
    made = []

    def make(
        *, epochs: int, trials: int, tuner: str = 'name = "random"', each_epoch: bool = True, inline: bool = False
    ) -> CommandLine:
        often = tmp_path / "often.py"
        often.write_text(CHECKPOINT_EACH_EPOCH)
        commands = CommandLine(tmp_path, [tiny_plugin, often] if each_epoch else [tiny_plugin], inline=inline)
        commands.definition.write_text(DEFINITION.format(epochs=epochs, trials=trials, tuner=tuner))
        made.append(commands)
        return commands

    yield make
    for commands in made:
        commands.end()


def _assert_journal_is_whole(events: Sequence[dict[str, Any]]) -> None:
    """No proposal without one result, no result twice, nothing trained that was finished, no epoch left out."""
    unfinished: set[str] = set()
    reached: dict[tuple[str, int], int] = {}
    for event in events:
        name, trial_id = event["event"], event.get("trial_id")
        key = (trial_id, event.get("execution"))
        if name == "proposal":
            assert trial_id not in unfinished, f"{trial_id} was proposed again before it ended"
            unfinished.add(trial_id)
        elif name in ("attempt", "epoch", "checkpoint", "result"):
            assert trial_id in unfinished, f"{name} of {trial_id}, which had ended"
        if name == "attempt":
            assert event["from_epoch"] <= reached.get(key, 0), f"{trial_id} left epochs out: {event}"
            reached[key] = event["from_epoch"]
        elif name == "epoch":
            assert event["epoch"] == reached[key] + 1, f"{trial_id} left epochs out or did one twice: {event}"
            reached[key] = event["epoch"]
        elif name == "result":
            unfinished.remove(trial_id)
    assert not unfinished


@pytest.fixture(scope="session")
def assert_same_study() -> Callable[..., None]:
    """`assert_same_study(path, other)`: the same trials, epochs, metrics and scores; the first journal is whole."""

    def check(path: Path, other: Path, *, tolerance: float = 1e-6) -> None:
        _assert_journal_is_whole(read_journal(path / "journal.jsonl"))
        study, expected = workbench.open_study(path), workbench.open_study(other)
        epochs = study.epochs()
        assert not epochs.duplicated(["trial_id", "execution", "epoch"]).any()
        for table, wanted in ((study.trials(), expected.trials()), (epochs, expected.epochs())):
            columns = [name for name in wanted.columns if name not in TIMINGS]
            pd.testing.assert_frame_equal(table[columns], wanted[columns], rtol=0, atol=tolerance)
        assert study.leaderboard()["trial_id"].equals(expected.leaderboard()["trial_id"])
        assert study.history.finished["reason"] == expected.history.finished["reason"]
        kept = [
            json.dumps(sorted(str(file.relative_to(root)) for file in root.glob("checkpoints/*/*")))
            for root in (path, other)
        ]
        assert kept[0] == kept[1], "the files that are kept differ"

    return check
