"""Batch sizes, learning rates' factors and advice for so many replicas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.batches import plan_batches
from workbench.definition import load_definition
from workbench.errors import DefinitionError, UsageError


@pytest.fixture(scope="module")
def training(tiny_definition):
    """`training(**keys)`: a definition with these keys of `[training]`."""
    return lambda **keys: tiny_definition(training=keys)


@pytest.mark.parametrize(("scaling", "factor"), [("none", 1.0), ("linear", 8.0), ("sqrt", 8.0**0.5)])
def test_the_batch_grows_with_the_replicas(training, scaling, factor):
    batches = plan_batches(training(batch_size_per_replica=128, learning_rate_scaling=scaling), 8, "tpu")
    assert (batches.global_batch_size, batches.batch_size_per_replica) == (1024, 128)
    assert batches.learning_rate_factor == factor
    assert batches.advice == ()


@given(share=st.integers(1, 500), replicas=st.integers(1, 64), rest=st.integers(0, 63))
def test_a_global_batch_is_shared_equally_or_refused(training, share, replicas, rest):
    total = share * replicas + rest % replicas
    definition = training(batch_size_per_replica=None, global_batch_size=total)
    if rest % replicas == 0:
        assert plan_batches(definition, replicas, "cpu").batch_size_per_replica == share
    else:
        with pytest.raises(UsageError, match=rf"multiple of the {replicas} replicas.*received {total}\."):
            plan_batches(definition, replicas, "cpu")


@pytest.mark.parametrize(
    ("share", "advice"),
    [
        (100, "advice: 100 images a step and core are not a multiple of 8: a TPU pads it to 104; 128 may"),
        (136, "advice: 136 images a step and core are not a multiple of 128, .*; 256 may"),
    ],
)
def test_advice_for_a_tpu_only(training, share, advice):
    definition = training(batch_size_per_replica=share)
    (line,) = plan_batches(definition, 8, "tpu").advice
    assert line.startswith(advice.split(", .*")[0])
    assert line.endswith("may cost no more time")
    assert plan_batches(definition, 8, "cpu").advice == ()


def test_contradictions_in_a_definition(training):
    with pytest.raises(DefinitionError, match=r"global_batch_size: excludes batch_size_per_replica; received 64 and 8"):
        training(batch_size_per_replica=8, global_batch_size=64)
    with pytest.raises(DefinitionError, match=r"learning_rate_scaling: needs batch_size_per_replica.*'linear'"):
        training(batch_size_per_replica=None, global_batch_size=64, learning_rate_scaling="linear")


def test_one_size_replaces_the_other_on_the_command_line():
    assert load_definition("quickstart").training.batch_size_per_replica is not None
    training = load_definition("quickstart", ["training.global_batch_size=64"]).training
    assert (training.batch_size_per_replica, training.global_batch_size) == (None, 64)
    training = load_definition("quickstart", ["training.batch_size_per_replica=8"]).training
    assert (training.batch_size_per_replica, training.global_batch_size) == (8, None)
