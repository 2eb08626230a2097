"""A confirmation that is killed ends as one that was left alone, and tests no model twice."""

from __future__ import annotations

import os
import shutil
import signal

import pandas as pd
import pytest

import workbench

OPTIONS = ("--top", "2", "--seeds", "2")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_confirmation_that_is_killed_ends_as_one_that_is_not(command_line, assert_same_study, tmp_path):
    commands = command_line(epochs=3, trials=2)
    code, errors = commands.run("undisturbed")
    assert code == 0, errors
    shutil.copytree(tmp_path / "undisturbed", tmp_path / "killed")
    undisturbed = commands.start_confirmation("undisturbed", *OPTIONS)
    # Within the first retraining; between two; in the middle of the tests.
    for lines in (7, 8, 17):
        confirmation = commands.start_confirmation("killed", *OPTIONS)
        assert commands.wait_for_growth(confirmation, "killed/confirm", lines), confirmation.stderr.read()
        os.kill(confirmation.pid, signal.SIGKILL)
        confirmation.communicate()
    last = commands.start_confirmation("killed", *OPTIONS)
    for confirmation in (last, undisturbed):
        _, errors = confirmation.communicate(timeout=1800)
        assert confirmation.returncode == 0, errors
    commands.assert_no_process_is_left()

    assert_same_study(tmp_path / "killed" / "confirm", tmp_path / "undisturbed" / "confirm")
    found, expected = (workbench.open_study(tmp_path / name).confirmation() for name in ("killed", "undisturbed"))
    assert found.is_complete
    pd.testing.assert_frame_equal(found.table().drop(columns="seconds"), expected.table().drop(columns="seconds"))
    pd.testing.assert_frame_equal(found.confusion(), expected.confusion())
    events = commands.events("killed/confirm")
    tested = [event["trial_id"] for event in events if event["event"] == "test"]
    assert sorted(tested) == ["0001", "0002", "0003", "0004"]
    assert len([event for event in events if event["event"] == "session"]) >= 3, "it was killed in time"
