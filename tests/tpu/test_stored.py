"""A study's file of verdicts."""

from __future__ import annotations

import pytest

from workbench.errors import StorageError
from workbench.tpu.stored import FILE, append_verdict, read_verdicts

ROW = {"topology": "v2-8", "batch_size_per_replica": 128, "precision": "float32", "peak_gib": 1.0, "gflop": 2.0}


def test_the_last_verdict_of_a_trial_counts(tmp_path):
    append_verdict(tmp_path, {"trial_id": "0001", **ROW})
    append_verdict(tmp_path, {"trial_id": "0001", **ROW, "peak_gib": 3.0})
    assert read_verdicts(tmp_path) == {
        "0001": {"tpu.topology": "v2-8", "tpu.peak_gib": 3.0, "tpu.gflop": 2.0, "tpu.mxu_fill": None}
    }


@pytest.mark.parametrize(
    "change", [{"topology": "v5e-8"}, {"batch_size_per_replica": 64}, {"precision": "mixed_bfloat16"}]
)
def test_only_what_compares_with_the_last_check_is_shown(tmp_path, change):
    append_verdict(tmp_path, {"trial_id": "0001", **ROW})
    append_verdict(tmp_path, {"trial_id": "0002", **ROW, **change})
    assert list(read_verdicts(tmp_path)) == ["0002"]


def test_half_a_line_is_passed_over_and_kept_apart(tmp_path):
    append_verdict(tmp_path, {"trial_id": "0001", **ROW})
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"trial_id":"0002","topol')
    assert list(read_verdicts(tmp_path)) == ["0001"]
    append_verdict(tmp_path, {"trial_id": "0003", **ROW})
    assert list(read_verdicts(tmp_path)) == ["0001", "0003"]


def test_no_file_and_no_verdict(tmp_path):
    assert read_verdicts(tmp_path) == {}
    (tmp_path / FILE).write_text('[1]\n{"trial_id": "0001"}\n')
    assert read_verdicts(tmp_path) == {}


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"gone/tpu\.jsonl"):
        append_verdict(tmp_path / "gone", {"trial_id": "0001"})
