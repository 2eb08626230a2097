"""`python -m workbench.tpu.child FD`: lowers and compiles train steps for a parent that must outlive the compiler.

Reads one JSON request a line on standard input, writes one JSON answer a line to the file descriptor FD, ends when its
input does. The libtpu that it loads aborts its process on some faults: that is why it has one of its own.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from dataclasses import asdict
from typing import Any

ENVIRONMENT = {
    "KERAS_BACKEND": "jax",
    "JAX_PLATFORMS": "cpu",
    # Without these libtpu asks a metadata server for minutes, and one process's lock keeps the next one out.
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "-1",
}
"""What must stand before JAX and Keras are imported."""


def main() -> None:
    """Answers requests until the parent closes standard input."""
    answers = os.fdopen(int(sys.argv[1]), "w", encoding="utf-8")
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests,), daemon=True).start()
    answer = _Answerer()
    while True:
        print(json.dumps(answer(json.loads(requests.get()))), file=answers, flush=True)


def _receive(requests: queue.SimpleQueue[str]) -> None:
    """Passes requests on; ends the process, in the middle of a compilation too, when the parent is gone."""
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


class _Answerer:
    """Keeps the last point's step: a bisection asks for the same one at other batch sizes."""

    def __init__(self) -> None:
        self._built: tuple[str, Any] | None = None

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        from workbench.tpu.lowering import TrainStep, compile_for, lower
        from workbench.tpu.verdict import Step

        step = Step(**request["step"])
        try:
            same = json.dumps({**request["step"], "batch_size": 0, "topology": ""}, sort_keys=True)
            if self._built is None or self._built[0] != same:
                self._built = same, TrainStep(step)
            built = self._built[1]
            if request["do"] == "lower":
                return {"lowered": asdict(lower(built, step.batch_size))}
            return {"compiled": asdict(compile_for(built, step.batch_size, step.topology))}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"}


if __name__ == "__main__":
    main()
