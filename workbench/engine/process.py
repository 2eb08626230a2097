"""The driver's side of a worker process: starts it, asks it, notices its death, replaces it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.engine.protocol import QUESTIONS, Cost, Emit, Examination, Job, Preparation
from workbench.errors import StorageError, TimeLimitError, WorkerDiedError

if TYPE_CHECKING:
    from workbench.oracles.protocol import Value
    from workbench.training import Task

EXECUTIONS_PER_WORKER = 50
"""After so many executions a fresh process takes over: each traced train step leaks some 16 MB."""


def _ignore(event: dict[str, Any]) -> None:
    return None


class WorkerEngine:
    """Runs a job in a child process; implements `workbench.engine.protocol.Engine`.

    A child that died is noticed at the next answer, which raises WorkerDiedError; the call after that starts a
    new one. A separate process (not a fork, and not `multiprocessing`, which would import the user's script
    again) keeps memory growth, crashes and the deep-learning runtime out of the driver.

    Args:
        job: what to prepare for.
        log: file that the child's standard output and error are appended to.
    """

    def __init__(self, job: Job, log: Path):
        self._job = job
        self._log = log
        self._child: subprocess.Popen[bytes] | None = None
        self._connection: Connection[Any, Any] | None = None
        self._lifeline = -1
        self._prepared = False
        self._executions = 0
        self._is_opening = False

    @property
    def pid(self) -> int | None:
        """The child's process id, or None when there is none."""
        return self._child.pid if self._child is not None else None

    def start(self) -> None:
        """Starts the child, which imports its libraries while the driver goes on.

        Raises:
            StorageError: its log cannot be written.
        """
        if self._child is not None:
            return
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        try:
            with self._log.open("ab") as log:
                self._child = subprocess.Popen(
                    [sys.executable, "-m", "workbench.engine.worker", str(theirs.fileno()), str(reading)],
                    pass_fds=(theirs.fileno(), reading),
                    env={**os.environ, **self._job.device.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    # The terminal's Ctrl-C is for the driver; the worker ends with it.
                    start_new_session=True,
                )
        except BaseException as error:
            ours.close()
            os.close(writing)
            if isinstance(error, OSError):
                raise StorageError(self._log, error) from error
            raise
        finally:
            theirs.close()
            os.close(reading)
        self._lifeline = writing
        self._connection = Connection(ours.detach())
        self._executions = 0
        self._send("open", self._job)
        self._is_opening = True

    def prepare(self, emit: Emit) -> Preparation:
        """See `Engine.prepare`."""
        self._fresh(prepare=False)
        preparation: Preparation = self._call("prepare", emit=emit)
        self._prepared = True
        return preparation

    def cost(self, values: Mapping[str, Value], *, measure: bool = False) -> Cost:
        """See `Engine.cost`."""
        self._fresh()
        cost: Cost = self._call("cost", dict(values), measure)
        return cost

    def rehearse(self, values: Mapping[str, Value]) -> list[str]:
        """See `Engine.rehearse`."""
        self._fresh()
        metrics: list[str] = self._call("rehearse", dict(values))
        return metrics

    def execute(self, task: Task, emit: Emit, *, max_seconds: float | None = None) -> None:
        """See `Engine.execute`."""
        self._use()
        self._call("execute", task, emit=emit, max_seconds=max_seconds)

    def evaluate(self, values: Mapping[str, Value], weights: str, split: str) -> dict[str, float]:
        """See `Engine.evaluate`."""
        self._fresh()
        metrics: dict[str, float] = self._call("evaluate", dict(values), weights, split)
        return metrics

    def examine(self, values: Mapping[str, Value], weights: str, split: str) -> Examination:
        """See `Engine.examine`."""
        self._use()
        found: Examination = self._call("examine", dict(values), weights, split)
        return found

    def save(self, values: Mapping[str, Value], weights: str, path: str, facts: Mapping[str, Any]) -> None:
        """See `Engine.save`."""
        self._fresh()
        self._call("save", dict(values), weights, path, dict(facts))

    def close(self) -> None:
        """Ends the child, at once."""
        child, self._child = self._child, None
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            child.wait()

    def _use(self) -> None:
        """Makes sure that a child is there that may trace one more graph."""
        if self._executions >= EXECUTIONS_PER_WORKER:
            self.close()
        self._fresh()
        self._executions += 1

    def _fresh(self, *, prepare: bool = True) -> None:
        """Makes sure that a child is there, and prepared if an earlier one was."""
        if self._child is not None:
            return
        self.start()
        if prepare and self._prepared:
            self._call("prepare", emit=_ignore)

    def _send(self, method: str, *arguments: Any) -> None:
        if self._connection is None:
            raise WorkerDiedError("the worker process is gone")
        try:
            self._connection.send((method, arguments))
        except (BrokenPipeError, ConnectionError) as error:
            raise self._died() from error

    def _call(self, method: str, *arguments: Any, emit: Emit = _ignore, max_seconds: float | None = None) -> Any:
        if self._is_opening:
            self._is_opening = False
            self._answer(_ignore)
        self._send(method, *arguments)
        return self._answer(emit, max_seconds)

    def _answer(self, emit: Emit, max_seconds: float | None = None) -> Any:
        end = time.monotonic() + max_seconds if max_seconds is not None else None
        while True:
            connection = self._connection
            if connection is None:
                raise WorkerDiedError("the worker process is gone")
            try:
                if end is not None and not connection.poll(max(0.0, end - time.monotonic())):
                    self.close()
                    raise TimeLimitError(f"no end after {max_seconds:.0f} s")
                kind, content = connection.recv()
                if kind == "event":
                    is_question = content["event"] in QUESTIONS
                    answer = emit(content)
                    if is_question:
                        connection.send(answer)
            except (EOFError, ConnectionError) as error:
                raise self._died() from error
            if kind == "event":
                continue
            if kind == "error":
                raise content
            return content

    def _died(self) -> WorkerDiedError:
        code: int | None = None
        if self._child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._child.wait(timeout=5)
        self.close()
        how = f"exit code {code}"
        if code is not None and code < 0:
            how = f"signal {signal.Signals(-code).name}"
            if code == -signal.SIGKILL:
                how += ", as the kernel does when memory runs out"
        return WorkerDiedError(f"the worker process ended without an answer ({how}); its output is in {self._log}")
