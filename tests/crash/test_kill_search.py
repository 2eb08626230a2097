"""A search that is killed again and again ends as one that was left alone."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import psutil
import pytest

HYPERBAND = 'name = "hyperband"\nfactor = 3'


def worker_of(search):
    """The driver's worker process, or None at a moment without one."""
    children = psutil.Process(search.pid).children(recursive=True)
    workers = [child for child in children if "workbench.engine.worker" in child.cmdline()]
    return workers[0] if workers else None


def kill_at_random_moments(commands, *, kills, most_lines, seed):
    """Starts the search again whenever it was killed, until it was killed so often; the driver, sometimes a worker.

    Returns:
        How often it was the driver, and whether the search has ended since the last kill.
    """
    rng = np.random.default_rng(seed)
    search, of_the_driver, spares_driver = None, 0, False
    for _ in range(kills):
        search = search or commands.start("killed")
        assert commands.wait_for_growth(search, "killed", int(rng.integers(1, most_lines + 1))), (
            "the search ended before it was killed often enough: " + search.stderr.read()
        )
        time.sleep(float(rng.uniform(0, 0.15)))
        worker = worker_of(search) if rng.random() < 0.25 and not spares_driver else None
        # Three deaths of a worker in a row fail a trial, as they should.
        spares_driver = worker is not None
        if worker is not None:
            worker.kill()
            continue
        os.kill(search.pid, signal.SIGKILL)
        search.communicate()
        search, of_the_driver = None, of_the_driver + 1
    if search is not None:
        _, errors = search.communicate(timeout=1800)
        assert search.returncode == 0, errors
    return of_the_driver, search is not None


@pytest.mark.parametrize(
    ("setting", "kills", "most_lines", "seed"),
    [
        pytest.param({"epochs": 3, "trials": 2, "inline": True}, 2, 9, 13, id="quick", marks=pytest.mark.timeout(900)),
        pytest.param(
            {"epochs": 9, "trials": 8, "tuner": HYPERBAND},
            20,
            8,
            20,
            id="hyperband",
            marks=[pytest.mark.slow, pytest.mark.timeout(7200)],
        ),
        pytest.param(
            # No checkpoint is due before a trial's end: a trial that was killed begins again.
            {"epochs": 3, "trials": 6, "each_epoch": False},
            6,
            14,
            6,
            id="no-checkpoints",
            marks=[pytest.mark.slow, pytest.mark.timeout(3600)],
        ),
    ],
)
def test_a_search_that_is_killed_ends_as_one_that_is_not(
    command_line, assert_same_study, tmp_path, setting, kills, most_lines, seed
):
    commands = command_line(**setting)
    undisturbed = commands.start("undisturbed")
    drivers, has_ended = kill_at_random_moments(commands, kills=kills, most_lines=most_lines, seed=seed)
    assert drivers >= kills // 2
    if not has_ended:
        code, errors = commands.run("killed", seconds=1800)
        assert code == 0, errors
    _, errors = undisturbed.communicate(timeout=1800)
    assert undisturbed.returncode == 0, errors
    assert_same_study(tmp_path / "killed", tmp_path / "undisturbed")
    commands.assert_no_process_is_left()
