"""Answers of the TPU compiler: its words, and their cache."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.tpu.verdict import Compiled, Step, VerdictCache, cache_key, read_refusal

GIB = 2**30

STEP = Step(
    definition={"seed": 1},
    values={"tiny/units": 8},
    image_shape=(8, 8, 3),
    num_classes=2,
    precision="float32",
    batch_size=8,
    topology="v2:2x2",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries (42.01G) "
            "exceeds available HBM (7.48G).",
            (42.01 * GIB, 7.48 * GIB),
        ),
        (
            "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 17.21G of 15.75G hbm. Exceeded hbm "
            "capacity by 1.46G.",
            (17.21 * GIB, 15.75 * GIB),
        ),
        ("RESOURCE_EXHAUSTED: something else", (None, None)),
        ("INVALID_ARGUMENT: odd shape", None),
    ],
)
def test_refusals_are_told_from_faults(text, expected):
    assert read_refusal(text) == (pytest.approx(expected) if expected and expected[0] else expected)


def test_stored_answers_come_back(tmp_path):
    cache = VerdictCache(tmp_path / "tpu")
    answer = Compiled(fits=True, peak_bytes=1.5, flops=2.0, seconds=3.0)
    assert cache.get("a") is None
    cache.put("a", answer)
    assert cache.get("a") == answer
    assert [path.name for path in cache.folder.iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": 0, "compiled": {"fits": true}}', '{"format": 1, "compiled": {}}']
)
def test_what_cannot_be_read_is_no_answer(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    assert VerdictCache(tmp_path).get("a") is None


def key(step=STEP, graph="g", training=(("optimizer", "Adam"),), versions=(("jax", "1"),)):
    return cache_key(step, graph=graph, training=dict(training), versions=dict(versions))


def test_the_key_is_of_the_program_and_not_of_the_point():
    assert key(replace(STEP, values={"tiny/units": 8, "schedule": "b"}, definition={"seed": 2})) == key()


@pytest.mark.parametrize(
    "change",
    [
        {"graph": "h"},
        {"training": {"optimizer": "SGD"}},
        {"versions": {"jax": "2"}},
        {"step": replace(STEP, topology="v5e:2x4")},
        {"step": replace(STEP, batch_size=16)},
        {"step": replace(STEP, precision="mixed_bfloat16")},
    ],
    ids=str,
)
def test_the_key_changes_with_all_that_decides_the_answer(change):
    assert key(**change) != key()
