"""The compiler's process from its parent's side, with stand-ins for the child; the search for the largest batch."""

from __future__ import annotations

import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.tpu.compiler import MAX_COMPILATIONS, CompilerError, TpuCompiler, largest_batch
from workbench.tpu.verdict import Compiled, Step

STEP = Step(
    definition={},
    values={},
    image_shape=(8, 8, 3),
    num_classes=2,
    precision="float32",
    batch_size=8,
    topology="v2:2x2",
)

ANSWER = "import json, os, sys\nanswers = os.fdopen(int(sys.argv[1]), 'w')\n"
ECHO = (
    ANSWER
    + "for line in sys.stdin:\n"
    + "    step = json.loads(line)['step']\n"
    + "    print(json.dumps({'compiled': {'fits': True, 'flops': step['batch_size']}}), file=answers, flush=True)\n"
)


def compiler(code, max_seconds=60.0):
    return TpuCompiler(max_seconds, (sys.executable, "-c", code))


def test_the_child_stays_for_the_next_request():
    code = ECHO.replace("step['batch_size']", "os.getpid()")
    with compiler(code) as child:
        first, second = child.compile(STEP), child.compile(STEP)
    assert first.fits
    assert first.flops == second.flops


def test_a_fault_of_the_step_is_told():
    code = ANSWER + "input(); print(json.dumps({'error': 'ValueError: odd'}), file=answers, flush=True)"
    with (
        compiler(code) as child,
        pytest.raises(CompilerError, match="could not be built and compiled for TPU: ValueError: odd"),
    ):
        child.compile(STEP)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os, sys; sys.stderr.write('F0000 bad chip\\n'); sys.stderr.flush(); os.abort()", "SIGABRT.*bad chip"),
        ("import sys; sys.exit(3)", r"exit code 3\)$"),
    ],
)
def test_a_crash_is_survived_and_told(code, words):
    with compiler(code) as child:
        for _ in range(2):
            with pytest.raises(CompilerError, match=f"ended without an answer.*{words}"):
                child.compile(STEP)


def test_a_compilation_that_takes_too_long_is_ended():
    started = time.monotonic()
    with compiler("import time; time.sleep(600)", 0.5) as child:
        with pytest.raises(CompilerError, match=r"within 0 s|within 1 s"):
            child.compile(STEP)
        assert child._child is None
    assert time.monotonic() - started < 30


def memory(slope, constant, available):
    """A compiler for which memory grows linearly with the padded batch."""
    asked = []

    def try_batch(batch):
        asked.append(batch)
        needed = constant + slope * (-(-batch // 8) * 8)
        return Compiled(fits=needed <= available, peak_bytes=needed, available_bytes=available)

    return try_batch, asked


@given(first=st.integers(1, 2048), slope=st.integers(1, 500), constant=st.integers(0, 5000), room=st.integers(0, 4000))
@settings(max_examples=100)
def test_the_largest_batch_is_bracketed(first, slope, constant, room):
    available = constant + slope * room
    try_batch, asked = memory(slope, constant, available)
    answer = try_batch(first)
    largest, refused = largest_batch(try_batch, first, answer, available)
    assert len(asked) <= MAX_COMPILATIONS + 1
    assert all(batch % 8 == 0 for batch in asked[1:])
    assert len(set(asked)) == len(asked)
    assert largest == 0 or try_batch(largest).fits
    assert refused is None or not try_batch(refused).fits
    if len(asked) <= MAX_COMPILATIONS and refused is not None:
        assert refused - largest <= max(8, largest / 64)


def test_linear_memory_takes_few_compilations():
    try_batch, asked = memory(slope=100, constant=1000, available=64_000)
    assert largest_batch(try_batch, 1024, try_batch(1024), 0) == (624, 632)
    assert len(asked) <= 6
