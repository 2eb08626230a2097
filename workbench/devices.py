"""What to train on, and why: decided from cheap signs, before any deep-learning library is imported."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from workbench.errors import DeviceError

Kind = Literal["auto", "tpu", "gpu", "cpu"]


@dataclass(frozen=True, kw_only=True)
class DeviceChoice:
    """The device that executions run on.

    Attributes:
        kind: "tpu", "gpu" or "cpu".
        reasons: the steps of the decision, in order, for people.
        environment: what to set before TensorFlow is imported.
    """

    kind: Literal["tpu", "gpu", "cpu"]
    reasons: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def choose_device(wanted: Kind = "auto", environ: Mapping[str, str] = os.environ) -> DeviceChoice:
    """Decides between TPU, GPU and CPU: "auto" takes a TPU if there is one, else GPUs, else the CPU.

    Raises:
        DeviceError: a TPU or GPU was asked for and there is no sign of one.
    """
    reasons = []
    tpu = _tpu_sign(environ)
    gpu = _gpu_sign(environ)
    reasons.append(f"TPU: {tpu or 'none (no TPU_NAME or COLAB_TPU_ADDR, no /dev/accel* with libtpu)'}")
    reasons.append(f"GPU: {gpu or 'none (nvidia-smi lists none)'}")
    signs = {"tpu": tpu, "gpu": gpu, "cpu": "always there"}
    if wanted != "auto" and not signs[wanted]:
        raise DeviceError(
            f"--device {wanted} needs a {wanted.upper()}; this machine has no sign of one. "
            f"{' '.join(reasons)}. Use --device auto or --device cpu"
        )
    kind: Literal["tpu", "gpu", "cpu"] = "cpu"
    if wanted == "tpu" or (wanted == "auto" and tpu):
        kind = "tpu"
    elif wanted == "gpu" or (wanted == "auto" and gpu):
        kind = "gpu"
    reasons.append(f"chosen: {kind} ({'asked for' if wanted != 'auto' else 'the first that is there'})")
    return DeviceChoice(kind=kind, reasons=tuple(reasons), environment=_environment(kind, environ))


def _environment(kind: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Settings that must stand before TensorFlow is imported; what the user set stays."""
    # oneDNN is off by default on processors without VNNI, where it is about twice as fast all the same.
    wished = {"KERAS_BACKEND": "tensorflow", "TF_ENABLE_ONEDNN_OPTS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    if kind == "cpu":
        wished["CUDA_VISIBLE_DEVICES"] = "-1"
    else:
        wished["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    return {name: value for name, value in wished.items() if name not in environ}


def _tpu_sign(environ: Mapping[str, str]) -> str:
    for name in ("TPU_NAME", "COLAB_TPU_ADDR"):
        if environ.get(name):
            return f"{name}={environ[name]}"
    has_chip = any(Path("/dev").glob("accel[0-9]*"))
    if has_chip and importlib.util.find_spec("libtpu") is not None:
        return "/dev/accel* and libtpu"
    return ""


def _gpu_sign(environ: Mapping[str, str]) -> str:
    if environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return ""
    command = shutil.which("nvidia-smi")
    if command is None:
        return ""
    try:
        answer = subprocess.run([command, "-L"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = [line.strip() for line in answer.stdout.splitlines() if line.startswith("GPU ")]
    return "; ".join(lines)
