"""The child of a probe: `python -m workbench.devices.probe_child BACKEND ADDRESS` starts the TPU and says what it is.

Exit code 0 and `{"cores": 8, "label": "TPU v2 with 8 cores"}` after `ANSWER`, or 1 and `{"error": ...}`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from workbench.devices.probe import ANSWER

_GENERATIONS = {"v5 lite": "v5e", "v5": "v5p", "v6 lite": "v6e"}
"""What JAX calls a kind of device after "TPU ", where the world calls it something else."""


def _start_jax(address: dict[str, Any]) -> tuple[int, str]:
    import jax

    devices = jax.devices("tpu")
    kind = devices[0].device_kind.removeprefix("TPU ")
    return len(devices), _GENERATIONS.get(kind, kind)


def _start_tensorflow(address: dict[str, Any]) -> tuple[int, str]:
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
        tpu=address["name"], zone=address["zone"], project=address["project"]
    )
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return len(tf.config.list_logical_devices("TPU")), os.environ.get("TPU_ACCELERATOR_TYPE", "system")


def main(backend: str, address: str) -> int:
    """Prints the answer and returns the exit code."""
    start = {"jax": _start_jax, "tensorflow": _start_tensorflow}[backend]
    try:
        cores, generation = start(json.loads(address))
    except Exception as error:
        answer: dict[str, Any] = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
    else:
        answer = {"cores": cores, "label": f"TPU {generation} with {cores} core{'s' * (cores != 1)}"}
    print(ANSWER + json.dumps(answer), flush=True)
    return 1 if "error" in answer else 0


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    # Not sys.exit: the runtimes' threads may hang at interpreter shutdown.
    sys.stderr.flush()
    os._exit(code)
