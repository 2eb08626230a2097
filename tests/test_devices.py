"""What to train on, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.devices import choose_device
from workbench.errors import DeviceError


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with an `nvidia-smi` that prints these lines, or with none."""

    def make(lines=None, code=0):
        monkeypatch.setenv("PATH", str(tmp_path))
        if lines is not None:
            command = tmp_path / "nvidia-smi"
            text = "".join(f"echo '{line}'\n" for line in lines)
            command.write_text(f"#!/bin/sh\n{text}exit {code}\n")
            command.chmod(0o755)

    return make


GPU = "GPU 0: NVIDIA L4 (UUID: GPU-1)"


def test_the_cpu_where_nothing_else_is(machine):
    machine()
    choice = choose_device(environ={})
    assert choice.kind == "cpu"
    assert choice.environment == {
        "KERAS_BACKEND": "tensorflow",
        "TF_ENABLE_ONEDNN_OPTS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "CUDA_VISIBLE_DEVICES": "-1",
    }
    assert [reason.partition(":")[0] for reason in choice.reasons] == ["TPU", "GPU", "chosen"]
    assert choice.reasons[-1] == "chosen: cpu (the first that is there)"


def test_a_gpu_where_nvidia_smi_lists_one(machine):
    machine([GPU, "GPU 1: NVIDIA L4 (UUID: GPU-2)"])
    choice = choose_device(environ={})
    assert choice.kind == "gpu"
    assert "GPU-2" in choice.reasons[1]
    assert choice.environment["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert "CUDA_VISIBLE_DEVICES" not in choice.environment


@pytest.mark.parametrize("lines", [[], ["No devices were found"], ["NVIDIA-SMI has failed"]])
def test_a_driver_without_a_gpu_is_no_gpu(machine, lines):
    machine(lines, code=9)
    assert choose_device(environ={}).kind == "cpu"


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_hidden_gpus_are_not_used(machine, hidden):
    machine([GPU])
    assert choose_device(environ={"CUDA_VISIBLE_DEVICES": hidden}).kind == "cpu"


@pytest.mark.parametrize("name", ["TPU_NAME", "COLAB_TPU_ADDR"])
def test_a_tpu_goes_before_a_gpu(machine, name):
    machine([GPU])
    choice = choose_device(environ={name: "node-1"})
    assert choice.kind == "tpu"
    assert f"{name}=node-1" in choice.reasons[0]


def test_a_wish_goes_before_what_is_there(machine):
    machine([GPU])
    choice = choose_device("cpu", environ={"TPU_NAME": "node-1"})
    assert choice.kind == "cpu"
    assert choice.reasons[-1] == "chosen: cpu (asked for)"
    assert choose_device("gpu", environ={"TPU_NAME": "node-1"}).kind == "gpu"


@pytest.mark.skipif(any(Path("/dev").glob("accel[0-9]*")), reason="this machine may have a TPU")
@pytest.mark.parametrize("wanted", ["tpu", "gpu"])
def test_a_wish_that_cannot_be_met_is_an_error(machine, wanted):
    machine()
    pattern = rf"--device {wanted} needs a {wanted.upper()}; .*TPU: none.*GPU: none.*Use --device auto or --device cpu"
    with pytest.raises(DeviceError, match=pattern):
        choose_device(wanted, environ={})


def test_what_the_user_set_stays(machine):
    machine()
    environ = {"TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "3", "KERAS_BACKEND": "jax"}
    assert choose_device(environ=environ).environment == {"TF_CPP_MIN_LOG_LEVEL": "2"}
