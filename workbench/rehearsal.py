"""Looked at before trained: one small batch through the whole path, and a few steps for the clock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import keras
import numpy as np

from workbench.data.pipeline import evaluation_dataset, steps_per_epoch, training_dataset
from workbench.errors import DataError, PluginError
from workbench.training import Settings, compile_network

if TYPE_CHECKING:
    from workbench.data import PreparedData
    from workbench.hypermodel import Network

BATCH_SIZE = 8
MEASURED_CALLS = 3


def rehearse(network: Network, data: PreparedData) -> list[str]:
    """Runs one batch of up to 8 images through pipeline, augmentation, network, loss and optimizer, untraced.

    Args:
        network: built, not compiled; it is changed and of no more use.
        data: as prepared.

    Returns:
        The metrics that `fit` will report, `val_` ones included where something validates.

    Raises:
        DataError: no validation examples.
        PluginError: the network's output has not the shape `(batch, classes)`, or is declared as probabilities and
            its rows do not sum to 1.
    """
    classes = len(data.facts.class_names)
    size = min(BATCH_SIZE, len(data.indices("train")))
    batches = training_dataset(
        data, batch_size=size, augment=network.augment, seed=0, first_epoch=1, last_epoch=1, split="train"
    )
    # As arrays, which every backend takes.
    images, labels = (part.numpy() for part in next(iter(batches)))
    outputs = network.model(images, training=False)
    if tuple(outputs.shape) != (size, classes):
        raise PluginError(
            f"a model must return (batch, classes), here {(size, classes)}; {network.component.name} returned "
            f"{tuple(outputs.shape)}"
        )
    values = keras.ops.convert_to_numpy(outputs)
    sums = values.sum(axis=-1)
    if network.component.output == "probabilities" and not np.allclose(sums, 1.0, atol=1e-2):
        raise PluginError(
            f"a model whose output is declared as probabilities must return rows that sum to 1; "
            f"{network.component.name} returned sums from {sums.min():.3g} to {sums.max():.3g}. Declare "
            'output="logits", or end it with softmax'
        )
    # Compiling costs more than it saves on one batch, but for JAX, which compiles each operation on its own.
    on_jax = keras.backend.backend() == "jax"
    network.model.compile(
        optimizer=network.optimizer,
        loss=network.loss,
        metrics=["accuracy"],
        run_eagerly=not on_jax,
        jit_compile=on_jax,
    )
    logs = network.model.train_on_batch(images, labels, return_dict=True)
    if not len(data.indices("validation")):
        raise DataError(f"data set {data.facts.dataset!r} must have validation examples; it has none")
    return [*logs, *(f"val_{name}" for name in logs)]


def measure_epoch(network: Network, data: PreparedData, settings: Settings) -> float:
    """Seconds of an epoch, validation included, from a few measured calls of the compiled steps."""
    steps = steps_per_epoch(data, settings.global_batch_size)
    model = compile_network(network, steps, settings)
    together: int = model.steps_per_execution
    batches = training_dataset(
        data,
        batch_size=settings.global_batch_size,
        augment=network.augment,
        seed=0,
        first_epoch=1,
        last_epoch=1 + together * (MEASURED_CALLS + 1) // steps,
    )
    # The first call traces the graph.
    model.fit(batches, steps_per_epoch=together, epochs=1, verbose=0, shuffle=False)
    started = time.perf_counter()
    calls = min(MEASURED_CALLS, max(1, steps // together))
    model.fit(batches, steps_per_epoch=together * calls, epochs=1, verbose=0, shuffle=False)
    step_seconds = (time.perf_counter() - started) / (together * calls)
    validation = evaluation_dataset(
        data, split="validation", batch_size=settings.global_batch_size, padded=settings.pad_evaluation
    )
    model.evaluate(validation.take(1), verbose=0)
    started = time.perf_counter()
    model.evaluate(validation.take(1), verbose=0)
    validation_steps = -(-len(data.indices("validation")) // settings.global_batch_size)
    return steps * step_seconds + validation_steps * (time.perf_counter() - started)
