"""Machines as the choice of devices sees them: GPUs, and runtimes that would start a TPU."""

from __future__ import annotations

import os

import pytest

from workbench.devices.signs import TPU_VARIABLES

JAX = """
import {imports}
def devices(platform):
    {body}
"""

TENSORFLOW = """
import os, sys, time
class _Namespace:
    def __init__(self, **parts):
        self.__dict__.update(parts)
class TPUClusterResolver:
    def __init__(self, tpu=None, zone=None, project=None):
        print(f"resolving {{tpu}} {{zone}} {{project}}", file=sys.stderr, flush=True)
        self.tpu = tpu
        {body}
def _start(resolver):
    if os.environ.get("STUB_STARTS") == "no":
        raise RuntimeError("Tensorflow TPU driver is not there")
distribute = _Namespace(cluster_resolver=_Namespace(TPUClusterResolver=TPUClusterResolver))
tpu = _Namespace(experimental=_Namespace(initialize_tpu_system=_start))
config = _Namespace(
    experimental_connect_to_cluster=lambda resolver: None,
    list_logical_devices=lambda kind: ["core"] * 8,
)
"""


@pytest.fixture(autouse=True)
def _nothing_here(monkeypatch):
    """No accelerator that this machine may have, nor a backend that was asked for."""
    for name in (*TPU_VARIABLES, "KERAS_BACKEND", "CUDA_VISIBLE_DEVICES", "XLA_FLAGS", "JAX_PLATFORMS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def install(tmp_path, monkeypatch):
    """`install(tensorflow=CODE, jax=CODE)`: stubs of runtimes that could drive a TPU; the rest is not installed."""
    import workbench.devices.signs as signs

    site = tmp_path / "site"
    site.mkdir()
    versions: dict[str, str] = {}
    monkeypatch.setattr(signs, "installed_version", versions.get)
    monkeypatch.setattr("workbench.devices.choice.installed_version", versions.get)
    monkeypatch.setenv("PYTHONPATH", f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")

    def make(*, tensorflow=None, jax=None):
        if tensorflow is not None:
            versions.update({"tensorflow-tpu": "2.20.0", "libtpu": "0.0.23"})
            (site / "tensorflow.py").write_text(TENSORFLOW.format(body=tensorflow))
        if jax is not None:
            versions.update({"jax": "0.10.2", "libtpu": "0.0.42"})
            (site / "jax.py").write_text(JAX.format(imports="os, time, types", body=jax))

    return make
