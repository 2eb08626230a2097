"""Keras on JAX beside Keras on TensorFlow: the built-in components give equal results, and so does training."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parent / "support" / "run_components.py"
TESTS = Path(__file__).parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed"),
]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What each backend computes, in a process of its own: {backend: {component: array}}."""
    folder = tmp_path_factory.mktemp("backends")
    found = {}
    for backend in ("tensorflow", "jax"):
        command = [sys.executable, str(SCRIPT), str(folder / "weights"), str(folder / f"{backend}.npz")]
        subprocess.run(command, env=_environment(backend), check=True, timeout=900)
        with np.load(folder / f"{backend}.npz") as file:
            found[backend] = dict(file)
    return found


def _environment(backend):
    import os

    return {**os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}


def test_equal_weights_give_equal_outputs(results):
    """To 1e-5 of probabilities, in float32."""
    models = {name for name in results["jax"] if name.startswith("model/")}
    assert models == {"model/cifar_convnet", "model/squeezenet", "model/xception"}
    for name in models:
        np.testing.assert_allclose(results["jax"][name], results["tensorflow"][name], atol=1e-5, err_msg=name)
        assert 0.01 < results["jax"][name].max() < 0.99, "a softmax at its end would hide differences"


def test_schedules_are_equal(results):
    schedules = {name for name in results["jax"] if name.startswith("schedule/")}
    assert len(schedules) == 5
    for name in schedules:
        np.testing.assert_allclose(results["jax"][name], results["tensorflow"][name], rtol=1e-5, err_msg=name)


def test_outputs_and_weights_are_float32_in_bfloat16(results):
    for backend in ("tensorflow", "jax"):
        outputs = {name: value for name, value in results[backend].items() if name.startswith("mixed/")}
        assert len(outputs) == 3
        for name, dtypes in outputs.items():
            assert set(dtypes) == {"float32"}, name
            assert results[backend][name.replace("mixed/", "inner/")] == "bfloat16"


def test_training_and_rehearsal_keep_their_promises_on_jax():
    """Exact resume, best weights, failures, files: the tests of the default backend, on the other one."""
    files = ["test_training.py", "test_rehearsal.py", "test_checkpoint.py", "test_modelfile.py", "test_costs.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(str(TESTS / name) for name in files)]
    done = subprocess.run(command, env=_environment("jax"), check=False, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stdout[-3000:]
