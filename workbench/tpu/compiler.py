"""The parent's side of the TPU compiler: a child process with a time limit, and the search for the largest batch."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from workbench.errors import WorkError
from workbench.tpu.child import ENVIRONMENT
from workbench.tpu.verdict import Compiled, Lowered, Step

INSTALL = "pip install 'convnet-search-workbench[tpu-aot]'"
"""What brings the compiler."""

MAX_COMPILATIONS = 8
"""How many batch sizes the search for the largest one tries at most."""

CLOSE = 1 / 64
"""So close to a refused batch, as a share of it, the largest one counts as found."""

MULTIPLE = 8
"""Batches a core are padded to multiples of it."""

_VERSIONED = ("jax", "jaxlib", "libtpu", "keras")

Compile = Callable[[int], Compiled]


class CompilerError(WorkError):
    """The compiler's process failed, was ended or took too long; the message says which."""


def highest_tier() -> int:
    """Which tiers can run here: 1 always, 2 with jax, 3 with libtpu beside it. Imports neither."""
    if importlib.util.find_spec("jax") is None:
        return 1
    return 3 if importlib.util.find_spec("libtpu") is not None else 2


def versions() -> dict[str, str]:
    """Of what decides the compiler's answers, as far as it is installed."""
    found = {}
    for name in _VERSIONED:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


class TpuCompiler:
    """Lowers and compiles in a child process; use as a context manager.

    A child that dies or is ended is replaced at the next request.

    Args:
        max_seconds: how long one request may take.
        command: what the child runs; it gets the descriptor for its answers as a further argument.
    """

    def __init__(self, max_seconds: float, command: tuple[str, ...] = (sys.executable, "-m", "workbench.tpu.child")):
        self._max_seconds = max_seconds
        self._command = command
        self._child: subprocess.Popen[str] | None = None
        self._answers = -1
        self._log = tempfile.TemporaryFile()  # noqa: SIM115

    def lower(self, step: Step) -> Lowered:
        """Tier 2.

        Raises:
            CompilerError: see the class.
        """
        answer = self._ask("lower", step)["lowered"]
        return Lowered(host_ops=tuple(answer["host_ops"]), dynamic=tuple(answer["dynamic"]))

    def compile(self, step: Step) -> Compiled:
        """Tier 3.

        Raises:
            CompilerError: see the class.
        """
        return Compiled(**self._ask("compile", step)["compiled"])

    def close(self) -> None:
        """Ends the child; a second call does nothing."""
        child, self._child = self._child, None
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            if child.stdin is not None:
                with contextlib.suppress(OSError):
                    child.stdin.close()
        if self._answers >= 0:
            os.close(self._answers)
            self._answers = -1

    def __enter__(self) -> TpuCompiler:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()
        self._log.close()

    def _ask(self, what: str, step: Step) -> dict[str, Any]:
        child = self._started()
        line = json.dumps({"do": what, "step": asdict(step)})
        try:
            assert child.stdin is not None
            print(line, file=child.stdin, flush=True)
            answer = self._read()
        except TimeoutError:
            self.close()
            raise CompilerError(
                f"the TPU compiler must answer within {self._max_seconds:.0f} s (--max-seconds); it was ended. "
                "Allow it more, or a smaller model"
            ) from None
        except (OSError, EOFError):
            raise self._died() from None
        except BaseException:
            self.close()
            raise
        if "error" in answer:
            raise CompilerError(f"the train step could not be built and compiled for TPU: {answer['error']}")
        return answer

    def _started(self) -> subprocess.Popen[str]:
        if self._child is None:
            reading, writing = os.pipe()
            try:
                self._child = subprocess.Popen(
                    [*self._command, str(writing)],
                    pass_fds=(writing,),
                    env={**os.environ, **ENVIRONMENT},
                    stdin=subprocess.PIPE,
                    stdout=self._log,
                    stderr=self._log,
                    text=True,
                    # A group of its own: libtpu's helpers end with it, and Ctrl-C is for the parent.
                    start_new_session=True,
                )
            except OSError as error:
                os.close(reading)
                raise CompilerError(f"the TPU compiler's process did not start ({error})") from error
            finally:
                os.close(writing)
            self._answers = reading
        return self._child

    def _read(self) -> dict[str, Any]:
        end = time.monotonic() + self._max_seconds
        received = b""
        while not received.endswith(b"\n"):
            ready, _, _ = select.select([self._answers], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError
            part = os.read(self._answers, 1 << 16)
            if not part:
                raise EOFError
            received += part
        answer: dict[str, Any] = json.loads(received)
        return answer

    def _died(self) -> CompilerError:
        code = None
        if self._child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._child.wait(timeout=5)
        self.close()
        how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        self._log.seek(0)
        lines = [line.strip() for line in self._log.read().decode(errors="replace").splitlines() if line.strip()]
        said = f"; its last words: {lines[-1][:300]}" if lines else ""
        return CompilerError(f"the TPU compiler's process ended without an answer ({how}){said}")


def largest_batch(
    try_batch: Compile, first: int, answer: Compiled, hbm_bytes: float, most: int = MAX_COMPILATIONS
) -> tuple[int, int | None]:
    """The largest batch a core that fits, a multiple of 8: bisection, with each step placed by the memory needed.

    It ends where the next multiple of 8, or a batch larger by `CLOSE`, is refused.

    Args:
        try_batch: compiles at a batch a core.
        first: the batch that was compiled already, and `answer` the compiler's answer.
        hbm_bytes: of a core, where the compiler does not say what is available.
        most: compilations at most; a refused one takes seconds, one that fits as long as the first.

    Returns:
        The largest batch that was seen to fit (0 if none was) and the smallest that was refused (None if none was).
    """
    fits: tuple[int, Compiled] | None = (first, answer) if answer.fits else None
    refused: tuple[int, Compiled] | None = None if answer.fits else (first, answer)
    for _ in range(most):
        low = fits[0] if fits is not None else 0
        if refused is not None and refused[0] - low <= max(MULTIPLE, low * CLOSE):
            break
        guess = _guess(fits, refused, hbm_bytes)
        found = try_batch(guess)
        if found.fits:
            fits = guess, found
        else:
            refused = guess, found
    return (fits[0] if fits is not None else 0), (refused[0] if refused is not None else None)


def _guess(fits: tuple[int, Compiled] | None, refused: tuple[int, Compiled] | None, hbm_bytes: float) -> int:
    """A batch strictly between what fits and what does not, where memory would just be full if it grew linearly."""
    available = (refused[1].available_bytes if refused is not None else None) or 0.93 * hbm_bytes
    batch, known = fits or refused or (MULTIPLE, Compiled(fits=True))
    growth = available / known.peak_bytes if known.peak_bytes else 0.5
    guess = int(batch * growth) // MULTIPLE * MULTIPLE
    low = fits[0] if fits is not None else 0
    least = (low // MULTIPLE + 1) * MULTIPLE
    if refused is None:
        return max(guess, least)
    high = refused[0]
    if not low < guess < high:
        guess = (low + high) // 2 // MULTIPLE * MULTIPLE
    return min(max(guess, least), max((high - 1) // MULTIPLE * MULTIPLE, MULTIPLE))
