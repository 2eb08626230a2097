"""Whole searches over several logical devices: shares of the batch, and the metrics of one device."""

from __future__ import annotations

import importlib.util

import pytest

import workbench
from workbench import DeviceWish
from workbench.errors import StudyChangedError, UsageError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

BATCH = 48
"""Not a divisor of the validation images, so that the last batch is padded."""

NEEDS_JAX = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")


@pytest.fixture
def search(tmp_path, tiny_tables, tiny_plugin):
    """`search(replicas, backend, **changes)`: two epochs of one trial in a worker process; its study."""

    def run(replicas, backend, **changes):
        training = {"epochs": 2, "batch_size_per_replica": None, "global_batch_size": BATCH}
        tables = tiny_tables(training=training, budget={"max_trials": 1}, **changes)
        return workbench.search(
            tables,
            study=f"{backend}-{replicas}",
            directory=tmp_path,
            plugin_files=[tiny_plugin],
            device=DeviceWish(kind="cpu", backend=backend, replicas=replicas),
        )

    return run


# Normalisation, dropout and mixup: JAX's compiler sees the whole batch.
SMALL = {"*": "default", "blocks": 1, "convs": 1, "filters": 16, "dense_units": 64}
CONVNET = {
    "model": {"name": "cifar_convnet", "space": SMALL},
    "augmentation": {"name": "mixup", "space": {"*": "default"}},
}
# MirroredStrategy normalises each share and draws dropout for each: a network without either.
PLAIN = {"model": {"name": "fragile", "space": {"trouble": "none", "number": 4}}}


@pytest.mark.parametrize(
    ("backend", "replicas", "route", "changes"),
    [
        pytest.param("jax", 8, "data_parallel", CONVNET, marks=NEEDS_JAX),
        pytest.param("tensorflow", 2, "mirrored", PLAIN),
    ],
)
def test_replicas_have_their_shares_and_the_metrics_of_one_device(search, backend, replicas, route, changes):
    one, many = search(1, backend, **changes), search(replicas, backend, **changes)
    (alone,), (session,) = one.history.sessions, many.history.sessions
    assert (alone["route"], alone["replicas"], alone["replica_shapes"]) == ("single", 1, [[BATCH, 8, 8, 1]])
    assert (session["route"], session["replicas"], session["backend"]) == (route, replicas, backend)
    assert session["replica_shapes"] == [[BATCH // replicas, 8, 8, 1]] * replicas
    assert (session["global_batch_size"], session["batch_size_per_replica"]) == (BATCH, BATCH // replicas)
    assert f"{replicas} replicas (logical devices that share the processor)" in session["reasons"][-1]
    assert many.trials()["replicas"].tolist() == [replicas]
    assert len(many.epochs()) == 2
    for name in ("loss", "accuracy", "val_loss", "val_accuracy"):
        for left, right in zip(one.epochs()[name], many.epochs()[name], strict=True):
            assert right == pytest.approx(left, abs=1e-4), name


def test_what_replicas_change_is_refused_or_said(search, tmp_path, tiny_tables, tiny_plugin):
    with pytest.raises(UsageError, match=r"must be a multiple of the 5 replicas.*received 48\. The nearest is 50"):
        search(5, "tensorflow", **PLAIN)
    tables = tiny_tables(
        training={"epochs": 1, "batch_size_per_replica": 16, "learning_rate_scaling": "linear"},
        budget={"max_trials": 1},
        **PLAIN,
    )

    def run(replicas):
        return workbench.search(
            tables,
            study="scaled",
            directory=tmp_path,
            plugin_files=[tiny_plugin],
            device=DeviceWish(kind="cpu", replicas=replicas),
        )

    study = run(2)
    (session,) = study.history.sessions
    assert (session["global_batch_size"], session["learning_rate_scaling"], session["learning_rate_factor"]) == (
        32,
        "linear",
        2.0,
    )
    assert study.epochs()["learning_rate"].tolist() == pytest.approx([2e-3])
    with pytest.raises(StudyChangedError, match=r"begun with 32 images a step .* make 16\. Continue it on as many"):
        run(1)
