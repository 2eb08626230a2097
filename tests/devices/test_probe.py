"""A TPU that hangs, aborts, crashes or works, asked in a child process: stubs stand in for the runtimes."""

from __future__ import annotations

import os
import time

import pytest

from workbench.devices import DeviceWish, TpuAddress, choose_device
from workbench.devices.probe import probe_tpu
from workbench.errors import DeviceError

EIGHT = "return [types.SimpleNamespace(device_kind='TPU v2')] * 8"
ENVIRON = {"TPU_NAME": "local"}


def look(**wish):
    """The decision where a variable speaks of a TPU."""
    return choose_device(DeviceWish(**wish), environ={**os.environ, **ENVIRON})


def test_a_resolver_that_finds_a_v2_8(install):
    install(tensorflow="pass")
    choice = look()
    assert (choice.kind, choice.backend, choice.replicas, choice.route) == ("tpu", "tensorflow", 8, "tpu_strategy")
    assert "TPU_NAME=local; tensorflow started TPU system with 8 cores in" in choice.reasons[0]
    assert choice.reasons[-2:] == (
        "chosen: tpu (the first that is there)",
        "route: Keras on tensorflow, TPUStrategy, 8 replicas",
    )
    assert choice.environment["KERAS_BACKEND"] == "tensorflow"


def test_the_resolver_is_given_name_zone_and_project(install):
    install(tensorflow="os.abort()")
    address = TpuAddress(name="node-7", zone="us-central1-b", project="mine")
    probe = probe_tpu("tensorflow", address, os.environ, 30)
    assert "resolving node-7 us-central1-b mine" in probe.reason


def test_a_resolver_that_waits_for_a_metadata_server_is_given_up(install):
    install(tensorflow="time.sleep(600)")
    started = time.monotonic()
    choice = look(probe_seconds=2)
    assert time.monotonic() - started < 60
    assert choice.kind == "cpu"
    assert "tensorflow gave no answer within 2 s" in choice.reasons[0]


def test_children_of_a_probe_that_hangs_are_ended_too(install, tmp_path):
    mark = tmp_path / "alive"
    script = f"import time; time.sleep(3); open({str(mark)!r}, 'w')"
    install(tensorflow=f"import subprocess; subprocess.Popen([sys.executable, '-c', {script!r}]); time.sleep(600)")
    assert look(probe_seconds=1.5).kind == "cpu"
    time.sleep(3)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ("os.abort()", "jax was aborted by SIGABRT"),
        ("os.kill(os.getpid(), 11)", "jax was aborted by SIGSEGV"),
        ("os._exit(7)", "jax ended with exit code 7"),
        ("raise RuntimeError('no\\n  chips')", "jax could not start it: RuntimeError: no chips"),
    ],
)
def test_what_ends_the_child_is_the_reason(install, trouble, reason):
    install(jax=trouble)
    choice = look()
    assert choice.kind == "cpu"
    assert reason in choice.reasons[0]
    with pytest.raises(DeviceError, match=r"--device tpu needs a TPU that works.*Use --device auto or --device cpu"):
        look(kind="tpu")


def test_initialisation_that_fails_where_resolving_did_not(install, monkeypatch):
    install(tensorflow="pass")
    monkeypatch.setenv("STUB_STARTS", "no")
    assert "could not start it: RuntimeError: Tensorflow TPU driver is not there" in look().reasons[0]


def test_a_package_that_aborts_on_import(install, tmp_path):
    install(tensorflow="pass")
    (tmp_path / "site" / "tensorflow.py").write_text("import os\nos.abort()")
    assert "tensorflow was aborted by SIGABRT" in look().reasons[0]


def test_jax_goes_before_tensorflow_and_takes_all_cores_or_fewer(install):
    install(jax=EIGHT, tensorflow="os.abort()")
    choice = look()
    assert (choice.kind, choice.backend, choice.replicas, choice.route) == ("tpu", "jax", 8, "data_parallel")
    assert "jax started TPU v2 with 8 cores" in choice.reasons[0]
    assert "tensorflow" not in choice.reasons[0].replace("(jax", "")
    assert choice.environment["JAX_PLATFORMS"] == "tpu,cpu"
    assert (look(replicas=1).replicas, look(replicas=1).route) == (1, "single")
    with pytest.raises(DeviceError, match="at most the TPU's 8 cores; received 9"):
        look(replicas=9)


def test_tensorflow_where_jax_does_not_start(install):
    install(jax="os.abort()", tensorflow="pass")
    choice = look()
    assert (choice.kind, choice.backend) == ("tpu", "tensorflow")
    assert choice.reasons[0].index("jax was aborted") < choice.reasons[0].index("tensorflow started")
    with pytest.raises(DeviceError, match="TPUStrategy takes the whole TPU, 8 cores; received --replicas 4"):
        look(replicas=4)


def test_jax_is_not_asked_for_a_tpu_elsewhere(install):
    install(jax=EIGHT)
    choice = look(address=TpuAddress(name="node-7"))
    assert choice.kind == "cpu"
    assert "jax not probed: it knows the chips of its own host only, not 'node-7'" in choice.reasons[0]
    assert look(address=TpuAddress(name="local")).kind == "tpu"


def test_without_a_sign_only_who_asks_for_a_tpu_waits_for_a_probe(install, tmp_path, monkeypatch):
    monkeypatch.setattr("workbench.devices.choice.tpu_signs", lambda environ: [])
    asked = tmp_path / "asked"
    install(jax=f"open({str(asked)!r}, 'w'); {EIGHT}")
    choice = choose_device()
    assert choice.reasons[0] == (
        "TPU: no sign of one (no variable, device file or PCI chip), so not probed (jax 0.10.2, libtpu 0.0.42)"
    )
    assert not asked.exists()
    assert choose_device("tpu").kind == "tpu"
    assert asked.exists()


def test_a_sign_without_a_package_names_the_command_that_installs_it(install):
    choice = look()
    assert choice.kind == "cpu"
    assert "not probed, as nothing that drives one is installed" in choice.reasons[0]
    assert choice.reasons[0].endswith("pip install 'convnet-search-workbench[tpu]'")
