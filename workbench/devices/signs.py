"""Cheap signs of accelerators: environment variables, device files, installed packages, nvidia-smi."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

TPU_VARIABLES = (
    "TPU_NAME",
    "COLAB_TPU_ADDR",
    "TPU_WORKER_ID",
    "TPU_WORKER_HOSTNAMES",
    "TPU_ACCELERATOR_TYPE",
)
"""Set by Colab, Kaggle, TPU VMs and Kubernetes nodes with TPUs."""

_GOOGLE_VENDOR = "0x1ae0"
# v2 and v3, v4, v5p, v5e, v6e, 7x; from jax/_src/hardware_utils.py of jax 0.10.2.
_TPU_DEVICES = ("0x0027", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076")


def tpu_signs(environ: Mapping[str, str], root: Path = Path("/")) -> list[str]:
    """What speaks of a TPU at this machine; none of it proves that one can be used.

    Args:
        environ: the environment.
        root: the file system's.
    """
    signs = [f"{name}={environ[name]}" for name in TPU_VARIABLES if environ.get(name)]
    dev = root / "dev"
    for folder, pattern in ((dev, "accel[0-9]*"), (dev / "accel", "accel[0-9]*"), (dev / "vfio", "[0-9]*")):
        files = sorted(folder.glob(pattern))
        if files:
            signs.append(f"{len(files)} of /{folder.relative_to(root)}/{pattern}")
    chips = sum(_is_tpu(device) for device in (root / "sys/bus/pci/devices").glob("*"))
    if chips:
        signs.append(f"{chips} TPU chips on the PCI bus")
    return signs


def _is_tpu(device: Path) -> bool:
    try:
        vendor, kind = ((device / name).read_text().strip() for name in ("vendor", "device"))
    except OSError:
        return False
    return vendor == _GOOGLE_VENDOR and kind in _TPU_DEVICES


def tpu_packages() -> dict[str, str]:
    """Backends that could drive a TPU with what is installed: backend -> its packages and their versions."""
    candidates = {"jax": ("jax", "libtpu"), "tensorflow": ("tensorflow-tpu", "libtpu")}
    found = {}
    for backend, names in candidates.items():
        versions = [installed_version(name) for name in names]
        if all(versions):
            found[backend] = ", ".join(f"{name} {version}" for name, version in zip(names, versions, strict=True))
    return found


def installed_version(distribution: str) -> str | None:
    """The version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def gpu_names(environ: Mapping[str, str]) -> list[str]:
    """What `nvidia-smi -L` lists; nothing where CUDA_VISIBLE_DEVICES hides them all."""
    if environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return []
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    try:
        answer = subprocess.run([command, "-L"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in answer.stdout.splitlines() if line.startswith("GPU ")]
