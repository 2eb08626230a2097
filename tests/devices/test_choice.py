"""What to train on, and why."""

from __future__ import annotations

import os

import pytest

from workbench.devices import DeviceChoice, DeviceWish, choose_device, share_processor
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
    assert [reason.partition(":")[0] for reason in choice.reasons] == ["TPU", "GPU", "chosen", "route"]
    assert choice.reasons[2:] == (
        "chosen: cpu (the first that is there)",
        "route: Keras on tensorflow, one device, 1 replica",
    )


def test_a_gpu_where_nvidia_smi_lists_one(machine):
    machine([GPU, "GPU 1: NVIDIA L4 (UUID: GPU-2)"])
    choice = choose_device(environ={})
    assert choice.kind == "gpu"
    assert "GPU-2" in choice.reasons[1]
    assert choice.environment["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert "CUDA_VISIBLE_DEVICES" not in choice.environment
    assert choice.reasons[-1] == "route: Keras on tensorflow, MirroredStrategy, all GPUs"


@pytest.mark.parametrize("lines", [[], ["No devices were found"], ["NVIDIA-SMI has failed"]])
def test_a_driver_without_a_gpu_is_no_gpu(machine, lines):
    machine(lines, code=9)
    assert choose_device(environ={}).kind == "cpu"


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_hidden_gpus_are_not_used(machine, hidden):
    machine([GPU])
    assert choose_device(environ={"CUDA_VISIBLE_DEVICES": hidden}).kind == "cpu"


def test_a_wish_goes_before_what_is_there(machine, install):
    machine([GPU])
    install(jax="return [1]")
    choice = choose_device("cpu", environ={"TPU_NAME": "local"})
    assert choice.kind == "cpu"
    assert choice.reasons[:3] == (
        "TPU: not looked for (--device cpu)",
        "GPU: not looked for (--device cpu)",
        "chosen: cpu (asked for)",
    )
    assert choose_device("gpu", environ={"TPU_NAME": "local"}).kind == "gpu"


@pytest.mark.parametrize(
    ("wanted", "pattern"),
    [
        ("tpu", "TPU that works; .*TPU: .*nothing that drives one is installed"),
        ("gpu", r"GPU that works; .*GPU: none \(nvidia-smi lists none\)"),
    ],
)
def test_a_wish_that_cannot_be_met_is_an_error(machine, install, wanted, pattern):
    machine()
    with pytest.raises(DeviceError, match=rf"--device {wanted} needs a {pattern}.*Use --device auto or --device cpu"):
        choose_device(wanted, environ={})


def test_what_the_user_set_stays(machine, install):
    machine()
    install(jax="pass")
    environ = {"TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "3", "KERAS_BACKEND": "jax"}
    choice = choose_device(environ=environ)
    assert choice.environment == {**environ, "TF_CPP_MIN_LOG_LEVEL": "2", "JAX_PLATFORMS": "cpu"}
    assert (choice.backend, choice.route) == ("jax", "single")
    assert choose_device(DeviceWish(backend="tensorflow"), environ=environ).backend == "tensorflow"


def test_logical_devices_of_jax_are_asked_for_beside_the_users_flags(machine, install):
    machine()
    install(jax="pass")
    choice = choose_device(DeviceWish(backend="jax", replicas=8), environ={"XLA_FLAGS": "--xla_dump_to=x"})
    assert choice.environment["XLA_FLAGS"] == "--xla_dump_to=x --xla_force_host_platform_device_count=8"
    assert (choice.route, choice.replicas) == ("data_parallel", 8)
    assert "8 replicas (logical devices that share the processor)" in choice.reasons[-1]


@pytest.mark.parametrize(
    ("lines", "replicas", "route"),
    [([], None, "single"), ([], 2, "mirrored"), ([GPU, GPU], None, "mirrored"), ([GPU, GPU], 1, "single")],
)
def test_routes_of_tensorflow(machine, lines, replicas, route):
    machine(lines or None)
    assert choose_device(DeviceWish(replicas=replicas), environ={}).route == route


@pytest.mark.parametrize(
    ("wish", "environ", "pattern"),
    [
        ({"replicas": 0}, {}, "--replicas must be 1 or more; received 0"),
        ({"kind": "gpu", "replicas": 2}, {}, "--replicas must be at most the 1 GPUs; received 2"),
        ({"backend": "jax"}, {}, "trains on a TPU or on the CPU here, not on GPUs"),
        ({"kind": "cpu", "backend": "jax"}, {}, r"needs the package jax, which is not installed: pip install"),
        ({}, {"KERAS_BACKEND": "torch"}, "must be tensorflow or jax here; KERAS_BACKEND is 'torch'"),
    ],
)
def test_wishes_that_contradict_the_machine(machine, install, wish, environ, pattern):
    machine([GPU])
    with pytest.raises(DeviceError, match=pattern):
        choose_device(DeviceWish(**wish), environ=environ)


@pytest.mark.parametrize(("processors", "workers", "threads"), [(8, 2, "4"), (8, 3, "2"), (2, 2, "1"), (2, 5, "1")])
def test_workers_share_the_processor_equally(monkeypatch, processors, workers, threads):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)), raising=False)
    shared = share_processor(DeviceChoice(kind="cpu", environment={"TF_ENABLE_ONEDNN_OPTS": "1"}), workers, {})
    assert shared.environment == {
        "TF_ENABLE_ONEDNN_OPTS": "1",
        "TF_NUM_INTRAOP_THREADS": threads,
        "TF_NUM_INTEROP_THREADS": threads,
        "OMP_NUM_THREADS": threads,
    }


def test_a_single_worker_has_the_whole_processor_and_gpus_are_not_shared_out():
    for choice, workers in ((DeviceChoice(kind="cpu"), 1), (DeviceChoice(kind="gpu", replicas=None), 2)):
        assert share_processor(choice, workers, {}) == choice


def test_threads_that_the_user_set_stay():
    shared = share_processor(DeviceChoice(kind="cpu"), 2, {"OMP_NUM_THREADS": "7"})
    assert shared.environment["OMP_NUM_THREADS"] == "7"
