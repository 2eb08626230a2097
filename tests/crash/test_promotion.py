"""A trial promoted 1 -> 3 -> 9 epochs is the trial that trains for 9 epochs in one go."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from workbench.study import open_study

# In a process of its own: TensorFlow's threads are counted when it starts.
CODE = """
import json, sys
import workbench

tables, plugin, directory = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
how = {"directory": directory, "plugin_files": [plugin], "inline": True, "device": "cpu"}
study = workbench.search(tables, study="promoted", **how)
trial_id = study.leaderboard()["trial_id"].iloc[0]
workbench.train(tables, study="whole", point=f"promoted:{trial_id}", **how)
print(trial_id)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_promoted_trial_equals_one_that_trains_in_one_go(one_thread, tiny_tables, tiny_plugin, tmp_path):
    tables = tiny_tables(
        schedule={"name": "warmup_cosine", "space": {"*": "default"}},
        training={"epochs": 9},
        tuner={"name": "hyperband", "factor": 3},
        budget={"max_trials": 3},
    )
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(tables), str(tiny_plugin), str(tmp_path)],
        **{"capture_output": True, "text": True, "check": False, "timeout": 600, "env": {**os.environ, **one_thread}},
    )
    assert done.returncode == 0, done.stderr
    trial_id = done.stdout.split()[-1]
    promoted, whole = open_study(tmp_path / "promoted"), open_study(tmp_path / "whole")
    steps = [record.epochs for record in promoted.history.records if record.trial_id == trial_id]
    assert steps == [1, 3, 9]
    ours = promoted.epochs().query("trial_id == @trial_id").reset_index(drop=True)
    theirs = whole.epochs()
    assert ours["epoch"].to_list() == theirs["epoch"].to_list() == list(range(1, 10))
    assert ours["learning_rate"].to_list() == theirs["learning_rate"].to_list()
    assert ours["learning_rate"].nunique() > 5, "a schedule that moves"
    for metric in ("loss", "val_loss", "accuracy", "val_accuracy"):
        assert (ours[metric] - theirs[metric]).abs().max() <= 1e-6
    assert promoted.trial(trial_id).executions[1].seed == whole.trial("0001").executions[1].seed
