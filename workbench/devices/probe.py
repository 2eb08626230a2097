"""Asks a TPU's runtime whether it works, in a child process that may hang, abort or crash without harm."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import IO, Any

ANSWER = "workbench-probe:"
"""What the child's answer, one line of JSON on standard output, begins with."""

_LAST_WORDS = 300


@dataclass(frozen=True, kw_only=True)
class TpuAddress:
    """Which TPU: for TensorFlow's resolver; JAX knows the chips of its own host only.

    Attributes:
        name: as Google Cloud knows it, "local" for this host's chips, or None for what the environment says.
        zone, project: of Google Cloud; None for this machine's.
    """

    name: str | None = None
    zone: str | None = None
    project: str | None = None


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What a probe found.

    Attributes:
        cores: that the runtime offers; 0 where it does not work.
        reason: for people: what was found, or why nothing was.
    """

    cores: int
    reason: str


def probe_tpu(backend: str, address: TpuAddress, environ: Mapping[str, str], seconds: float) -> Probe:
    """Starts the TPU in a child process and counts its cores.

    Args:
        backend: "jax" or "tensorflow": who is to start it.
        address: which one.
        environ: of the child.
        seconds: after so long without an answer the child is killed.
    """
    command = [sys.executable, "-m", "workbench.devices.probe_child", backend, json.dumps(asdict(address))]
    started = time.monotonic()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            code = child.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            _kill(child)
            return Probe(cores=0, reason=f"{backend} gave no answer within {seconds:g} s{_last_words(errors)}")
        except BaseException:
            _kill(child)
            raise
        answer = _answer(output)
        if code == 0 and answer is not None:
            took = f"in {time.monotonic() - started:.1f} s"
            return Probe(cores=answer["cores"], reason=f"{backend} started {answer['label']} {took}")
        if answer is not None:
            return Probe(cores=0, reason=f"{backend} could not start it: {answer['error']}")
        how = f"was aborted by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return Probe(cores=0, reason=f"{backend} {how}{_last_words(errors)}")


def _kill(child: subprocess.Popen[bytes]) -> None:
    # The whole group, as a runtime may have children.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _answer(output: IO[bytes]) -> dict[str, Any] | None:
    output.seek(0)
    for line in reversed(output.read().decode(errors="replace").splitlines()):
        if line.startswith(ANSWER):
            return dict(json.loads(line.removeprefix(ANSWER)))
    return None


def _last_words(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = [line.strip() for line in errors.read().decode(errors="replace").splitlines() if line.strip()]
    return f"; its last words: {lines[-1][:_LAST_WORDS]}" if lines else ""
