"""A worker whose log is on a full disk still says what went wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.devices import choose_device
from workbench.engine import make_engine
from workbench.engine.protocol import Job
from workbench.errors import StorageError, StudyError, TrialError

FULL = Path("/dev/full")


@pytest.fixture
def job(tiny_definition, tiny_plugin):
    definition = tiny_definition(model={"names": ["tiny", "fragile"]})
    return Job(definition=definition.resolved(), device=choose_device("cpu"), plugin_files=(str(tiny_plugin),))


@pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_errors_reach_the_driver(job):
    engine = make_engine(job, FULL, inline=False)
    try:
        engine.prepare(lambda event: None)
        pid = engine.pid
        with pytest.raises(StudyError, match=r"nowhere\.npz: the checkpoint cannot be read"):
            engine.evaluate({"model": "tiny"}, "nowhere.npz", "test")
        with pytest.raises(TrialError, match="ValueError: this point never builds"):
            engine.cost({"model": "fragile", "fragile/trouble": "raise"})
        assert engine.pid == pid, "the worker lives"
    finally:
        engine.close()


def test_a_log_that_cannot_be_opened_is_an_error_of_the_storage(job, tmp_path):
    (tmp_path / "worker.log").mkdir()
    with pytest.raises(StorageError, match=r"worker\.log: cannot be written \(Is a directory\)"):
        make_engine(job, tmp_path / "worker.log", inline=False)
