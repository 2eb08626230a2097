"""The real TPU compiler for real topologies, on a machine without a TPU. Needs the extra tpu-aot."""

from __future__ import annotations

import contextlib
import importlib.util
from pathlib import Path

import pytest

from workbench.check.subjects import Subject
from workbench.check.tpu import SENTENCE, TpuOptions, check_tpu
from workbench.tpu.chips import GIB
from workbench.tpu.compiler import CompilerError, TpuCompiler
from workbench.tpu.verdict import Step

HOST_PLUGIN = Path(__file__).parents[1] / "support" / "host_plugin.py"

pytestmark = [
    pytest.mark.tpu_aot,
    pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="the extra tpu-aot is not installed"),
]


@pytest.fixture(scope="module")
def compiler():
    with TpuCompiler(170.0) as child:
        yield child


@pytest.fixture
def step(tiny_definition, tiny_plugin):
    def make(model="tiny", **changes):
        fields = {
            "definition": tiny_definition(model={"name": model}).resolved(),
            "values": {},
            "image_shape": (8, 8, 3),
            "num_classes": 4,
            "precision": "mixed_bfloat16",
            "batch_size": 128,
            "topology": "v2:2x2",
            "plugin_files": (str(tiny_plugin), str(HOST_PLUGIN)),
        }
        return Step(**fields | changes)

    return make


def test_a_step_without_faults_is_lowered(compiler, step):
    lowered = compiler.lower(step())
    assert (lowered.host_ops, lowered.dynamic) == ((), ())


def test_calls_of_the_host_are_named_with_their_layer(compiler, step):
    (found,) = compiler.lower(step("calls_host")).host_ops
    assert found.startswith("debug_callback in ")
    assert "halve" in found


def test_open_shapes_are_named(compiler, step):
    (found,) = compiler.lower(step("picks_pixels")).dynamic
    assert found.startswith("ConcretizationTypeError in pick: ")


def test_an_unknown_topology_is_an_error_of_one_request(compiler, step):
    with pytest.raises(CompilerError, match="could not be built and compiled"):
        compiler.compile(step(topology="v2:9x9"))
    assert compiler.lower(step()).dynamic == ()


def test_a_batch_that_does_not_fit_is_refused_with_sizes(compiler, step):
    answer = compiler.compile(step(batch_size=2**24))
    assert not answer.fits
    assert 7 * GIB < answer.available_bytes < 8 * GIB
    assert answer.peak_bytes > answer.available_bytes


def test_figures_of_a_step_that_fits(compiler, tiny_definition, tiny_plugin, monkeypatch):
    # Starting another child takes longer than the compilation.
    monkeypatch.setattr("workbench.check.tpu.TpuCompiler", lambda seconds: contextlib.nullcontext(compiler))
    subject = Subject(
        name="tiny",
        definition=tiny_definition(),
        values={},
        image_shape=(8, 8, 3),
        num_classes=4,
    )
    options = TpuOptions(topology="v2-8", max_seconds=170.0, plugin_files=(tiny_plugin,))
    checked = check_tpu([subject], options)
    (row,) = checked.rows
    assert row["static"]
    assert row["fits"]
    assert 0 < row["peak_gib"] < 0.1
    assert row["gflop"] > 0
    assert row["intensity"] == pytest.approx(row["gflop"] / row["gbytes"])
    assert any(note.startswith(SENTENCE) for note in checked.notes)
