"""Keeps the native chatter of TensorFlow's import off the terminal."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


def use_cpu_quietly() -> None:
    """For commands that only look at models or predict: no accelerator is touched, and TensorFlow logs errors only.

    What the user set stays. Call it before TensorFlow is imported, in a process of one's own.
    """
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@contextlib.contextmanager
def quiet_stderr() -> Iterator[None]:
    """Sends what is written to file descriptor 2 nowhere, for imports that log before logging can be set.

    Python exceptions are not affected. Does nothing where standard error is not a real file.
    """
    try:
        sys.stderr.flush()
        saved = os.dup(2)
    except (OSError, ValueError, AttributeError):
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
