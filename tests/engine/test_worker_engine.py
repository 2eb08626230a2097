"""Executions in a worker process."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import numpy as np
import psutil
import pytest

from workbench.devices import choose_device
from workbench.engine import make_engine
from workbench.engine.protocol import Job
from workbench.errors import StudyError, TrialError, WorkerDiedError
from workbench.training import Task


@pytest.fixture(scope="module")
def job(tiny_definition, tiny_plugin):
    definition = tiny_definition(model={"names": ["tiny", "fragile"]})
    return Job(definition=definition.resolved(), device=choose_device("cpu"), plugin_files=(str(tiny_plugin),))


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("worker") / "worker.log"


@pytest.fixture(scope="module")
def engine(job, log):
    engine = make_engine(job, log, inline=False)
    events = []
    preparation = engine.prepare(events.append)
    assert "explore" in [event["event"] for event in events]
    assert preparation.facts["counts"]["train"] == 200
    yield engine
    engine.close()


def task(**values):
    return Task(trial_id="0001", execution=1, seed=3, values={"model": "tiny", **values}, first_epoch=1, last_epoch=1)


def children():
    return [child for child in psutil.Process().children() if "workbench.engine.worker" in child.cmdline()]


def test_it_prepares_costs_and_trains_in_another_process(engine, tmp_path):
    preparation = engine.prepare(lambda event: None)
    assert preparation.precision == "float32"
    assert preparation.batches.global_batch_size == 50
    names = [part["config"]["name"] for part in preparation.space["space"]]
    assert {"model", "tiny/units", "fragile/trouble"} <= set(names)
    # 64 pixels to 8 units to 10 classes.
    cost = engine.cost({"model": "tiny", "tiny/units": 8})
    assert (cost.parameters, cost.flops) == (610, 8 * 129 + 10 * 17)
    events = []
    engine.execute(task(), events.append)
    assert [event["event"] for event in events if event["event"] != "step"] == ["model", "epoch"]
    assert engine.pid != os.getpid()
    assert psutil.Process(engine.pid).parent().pid == os.getpid()


def test_stored_weights_are_evaluated_and_examined(engine, tmp_path):
    engine.execute(replace(task(), checkpoint_dir=str(tmp_path)), lambda event: None)
    (weights,) = map(str, tmp_path.glob("*.best.npz"))
    found = engine.examine({"model": "tiny"}, weights, "test")
    metrics = dict(found.metrics)
    confusion = np.array(found.confusion)
    f1 = 2 * np.diag(confusion) / np.maximum(confusion.sum(axis=0) + confusion.sum(axis=1), 1)
    assert metrics.pop("macro_f1") == pytest.approx(f1.mean())
    assert metrics == pytest.approx(engine.evaluate({"model": "tiny"}, weights, "test"))
    assert np.trace(confusion) / confusion.sum() == pytest.approx(metrics["accuracy"])
    # A row a true class: 270 images, stratified.
    assert confusion.sum() == 270
    assert set(confusion.sum(axis=1)) <= {26, 27, 28}


def test_a_trial_that_fails_is_a_trial_error_and_the_worker_lives(engine):
    pid = engine.pid
    with pytest.raises(TrialError, match="ValueError: this point never builds") as caught:
        engine.execute(task(**{"model": "fragile", "fragile/trouble": "raise"}), lambda event: None)
    assert caught.value.kind == "ValueError"
    with pytest.raises(TrialError, match="SystemExit: 3"):
        engine.cost({"model": "fragile", "fragile/trouble": "exit"})
    with pytest.raises(StudyError, match=r"nowhere\.npz: the checkpoint cannot be read"):
        engine.evaluate({"model": "tiny"}, "nowhere.npz", "test")
    assert engine.pid == pid


def test_an_unknown_value_is_an_error_of_the_point(engine):
    with pytest.raises(TrialError, match=r"model must be one of \['tiny', 'fragile'\]; received 'none'") as caught:
        engine.cost({"model": "none"})
    assert caught.value.kind == "SpaceError"


def test_a_worker_that_kills_itself_is_noticed_and_replaced(engine, log):
    pid = engine.pid
    with pytest.raises(WorkerDiedError, match=rf"signal SIGKILL, as the kernel does when memory.*{log.name}"):
        engine.execute(task(**{"model": "fragile", "fragile/trouble": "kill"}), lambda event: None)
    assert engine.pid is None
    assert not psutil.pid_exists(pid)
    # The next call starts another one, which prepares by itself.
    assert engine.cost({"model": "tiny", "tiny/units": 4}).parameters == 310
    assert engine.pid not in (None, pid)


def test_a_worker_killed_from_outside_is_noticed(engine):
    engine.cost({"model": "tiny"})
    os.kill(engine.pid, signal.SIGTERM)
    with pytest.raises(WorkerDiedError, match="signal SIGTERM"):
        engine.execute(task(), lambda event: None)


def test_closing_leaves_no_process(job, log):
    before = {child.pid for child in children()}
    engine = make_engine(job, log, inline=False)
    (pid,) = {child.pid for child in children()} - before
    assert engine.pid == pid
    engine.close()
    assert not psutil.pid_exists(pid)
    engine.close()
    assert engine.pid is None


DRIVER = """
import pickle, sys, time
from pathlib import Path
from workbench.engine import make_engine

job = pickle.loads(Path(sys.argv[1]).read_bytes())
engine = make_engine(job, Path(sys.argv[2]), inline=False)
print(engine.pid, flush=True)
if sys.argv[3] == "prepared":
    engine.prepare(lambda event: None)
    print("prepared", flush=True)
time.sleep(100)
"""


@pytest.mark.parametrize("moment", ["starting", "prepared"])
def test_a_driver_killed_with_sigkill_leaves_no_worker(job, start_python, tmp_path, moment):
    import pickle

    (tmp_path / "job").write_bytes(pickle.dumps(job))
    driver = start_python(DRIVER, str(tmp_path / "job"), str(tmp_path / "log"), moment)
    worker = psutil.Process(int(driver.stdout.readline()))
    if moment == "prepared":
        assert driver.stdout.readline() == "prepared\n", (tmp_path / "log").read_text()
    assert worker.is_running()
    driver.kill()
    # The orphan belongs to the init process, which may be slow to reap it.
    _, alive = psutil.wait_procs([worker], timeout=20)
    assert all(process.status() == psutil.STATUS_ZOMBIE for process in alive)


def test_an_error_before_the_first_answer_is_the_drivers(job, log, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0\n")
    engine = make_engine(
        Job(definition=job.definition, device=job.device, plugin_files=(str(broken),)), log, inline=False
    )
    try:
        with pytest.raises(Exception, match=r"broken\.py.*ZeroDivisionError: division by zero"):
            engine.prepare(lambda event: None)
    finally:
        engine.close()
