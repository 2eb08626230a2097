"""Rows of `workbench check --tpu`, with a stand-in for the compiler whose memory grows with the batch."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from workbench.check.subjects import Subject, subjects_of_search, subjects_of_study
from workbench.check.tpu import SENTENCE, TpuOptions, check_tpu
from workbench.errors import UsageError
from workbench.study import open_study
from workbench.tpu.compiler import CompilerError
from workbench.tpu.verdict import Compiled, Lowered

GIB = 2**30


class FakeCompiler:
    """Needs 1/64 GiB an image of 7.5 GiB."""

    asked: ClassVar[list[int]] = []
    lowered = Lowered()
    fault: Exception | None = None

    def __init__(self, max_seconds):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        pass

    def lower(self, step):
        if type(self).fault is not None:
            raise type(self).fault
        return type(self).lowered

    def compile(self, step):
        type(self).asked.append(step.batch_size)
        peak = step.batch_size / 64 * GIB
        if peak > 7.5 * GIB:
            return Compiled(fits=False, peak_bytes=peak, available_bytes=7.5 * GIB)
        return Compiled(fits=True, peak_bytes=peak, flops=4e9 * step.batch_size, bytes_accessed=2e9)


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("workbench.check.tpu.TpuCompiler", FakeCompiler)
    monkeypatch.setattr("workbench.check.tpu.highest_tier", lambda: 3)
    monkeypatch.setattr(FakeCompiler, "asked", [])
    return FakeCompiler


@pytest.fixture
def subject(tiny_definition):
    return Subject(name="tiny", definition=tiny_definition(), values={}, image_shape=(8, 8, 1), num_classes=10)


@pytest.fixture
def options(tiny_plugin):
    return lambda **changes: TpuOptions(**{"topology": "v2-8", "plugin_files": (tiny_plugin,)} | changes)


def test_a_step_that_fits_is_compiled_once_and_remembered(compiler, subject, options):
    for _ in range(2):
        checked = check_tpu([subject], options())
    (row,) = checked.rows
    assert (row["fits"], row["peak_gib"], row["hbm_gib"], row["gflop"], row["gbytes"]) == (True, 2.0, 8, 512.0, 2.0)
    assert row["intensity"] == 256.0
    assert row["largest_batch"] is None
    assert compiler.asked == [128]
    assert checked.notes[-1].startswith(SENTENCE)
    assert check_tpu([subject], options(topology="v3-8")).rows[0]["hbm_gib"] == 16
    assert compiler.asked == [128, 128]


def test_out_of_memory_names_the_largest_batch_that_fits(compiler, subject, options):
    (row,) = check_tpu([subject], options(batch_size=1024)).rows
    assert (row["fits"], row["peak_gib"], row["largest_batch"]) == (False, 16.0, 480)
    assert "needs 16.00 GiB or more of 7.50 GiB; batch 480 a core fits" in row["advice"]
    assert row["gflop"] is None
    assert check_tpu([subject], options(largest_batch=True)).rows[0]["largest_batch"] == 480


def test_faults_of_lowering_are_in_the_row_and_stop_the_compiler(compiler, subject, options, monkeypatch):
    monkeypatch.setattr(compiler, "lowered", Lowered(host_ops=("debug_callback in halve",)))
    (row,) = check_tpu([subject], options()).rows
    assert (row["static"], row["fits"]) == (False, None)
    assert row["advice"].startswith("host: debug_callback in halve")
    assert compiler.asked == []


def test_a_compiler_that_dies_leaves_the_other_rows(compiler, subject, options, monkeypatch):
    monkeypatch.setattr(compiler, "fault", CompilerError("ended without an answer (signal SIGABRT)"))
    checked = check_tpu([subject, subject], options())
    assert len(checked.rows) == 2
    assert "SIGABRT" in checked.rows[1]["advice"]
    assert checked.rows[0]["mxu_fill"] > 0


def test_a_study_keeps_the_verdicts_of_its_best_trials(compiler, options, write_study, tmp_path):
    facts = {"facts": {"image_shape": [8, 8, 1], "class_names": list("0123456789")}}
    values = [{"tiny/units": units, "tiny/activation": "relu"} for units in (4, 8, 12)]
    trials = [{"values": item, "scores": [[score]]} for item, score in zip(values, (0.5, 0.9, 0.7), strict=True)]
    space = {"metric": "val_accuracy", "direction": "max", "space": {}, "enqueued": [], "split": "train", **facts}
    study = write_study(tmp_path / "study", trials, extra=[("space", space)])
    journal = Path(study.path / "journal.jsonl").read_bytes()

    subjects = subjects_of_study(study, 2)
    assert [item.trial_id for item in subjects] == ["0002", "0003"]
    check_tpu(subjects, options(), study=study)

    board = open_study(study.path).leaderboard().set_index("trial_id")
    assert board["tpu.peak_gib"].to_list()[:2] == [2.0, 2.0]
    assert board["tpu.gflop"].isna().to_dict() == {"0002": False, "0003": False, "0001": True}
    assert board.loc["0002", "tpu.topology"] == "v2-8"
    assert (study.path / "journal.jsonl").read_bytes() == journal


def test_a_study_without_results_is_refused(write_study, tmp_path):
    study = write_study(tmp_path / "study", [{"values": {}, "scores": [[0.5]], "status": "failed", "error": "no"}])
    with pytest.raises(UsageError, match="the study has none yet"):
        subjects_of_study(study, 3)


def test_each_model_of_a_search_is_a_subject(tiny_tables, tiny_registry):
    source = tiny_tables(model={"names": ["tiny", "squeezenet"]})
    found, notes = subjects_of_search(source, tiny_registry)
    assert [(item.name, item.values, item.image_shape, item.num_classes) for item in found] == [
        ("tiny", {"model": "tiny"}, (8, 8, 1), 10),
        ("squeezenet", {"model": "squeezenet"}, (8, 8, 1), 10),
    ]
    assert notes == ["data set 'digits': 1,797 images 8x8x1 of 10 classes"]
