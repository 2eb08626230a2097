"""A trial's whole train step, Keras on the JAX backend, with static shapes: traced, lowered, compiled.

Only for a process whose Keras runs on JAX, see `workbench.tpu.child`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax
import keras
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from workbench.definition import definition_from_dict
from workbench.hypermodel import ClassifierHyperModel, Network, overrides_of
from workbench.registry import Registry
from workbench.space import SearchSpace
from workbench.tpu.hlo import matrix_cycles
from workbench.tpu.verdict import Compiled, Lowered, read_refusal

if TYPE_CHECKING:
    from workbench.tpu.verdict import Step

COMPILER_OPTIONS = {"exec_time_optimization_effort": -1.0}
"""Minutes become seconds, at somewhat more temporary memory than a full compilation would need."""

HOST_PRIMITIVES = ("callback", "infeed", "outfeed", "debug_print")
"""Parts of the names of JAX primitives that leave the device."""

_STEPS_PER_EPOCH = 100


class TrainStep:
    """The train step of one point: forward, loss, gradient, optimizer, metric.

    It is what the JAX trainer of Keras runs, written with Keras's stateless interfaces; weights and optimizer are
    donated, as there.

    Args:
        step: the point; its batch size and topology do not matter here.
    """

    def __init__(self, step: Step):
        # Layers get the names that they have in a process of their own.
        keras.backend.clear_session()
        keras.config.set_dtype_policy(step.precision)
        # Keras's own notes on errors lose those of JAX.
        keras.config.disable_traceback_filtering()
        definition = definition_from_dict(step.definition)
        hypermodel = ClassifierHyperModel.of(
            definition,
            Registry.load(step.plugin_files, step.plugins_dirs),
            image_shape=tuple(step.image_shape),  # type: ignore[arg-type]
            num_classes=step.num_classes,
            steps_per_epoch=_STEPS_PER_EPOCH,
        )
        self._network: Network = hypermodel.build(SearchSpace(overrides_of(definition), step.values))
        self._network.optimizer.build(self._network.model.trainable_variables)
        self._metric = keras.metrics.CategoricalAccuracy()
        self._image_shape, self._num_classes = tuple(step.image_shape), step.num_classes

    def trace(self, batch_size: int, devices: list[Any] | None = None) -> Any:
        """The step for a batch of this size on each device, batches sharded and everything else replicated.

        Raises:
            Exception: whatever JAX raises for values that decide shapes or Python branches.
        """
        count, whole, sharded = 1, None, None
        if devices is not None:
            mesh = Mesh(np.array(devices), ("batch",))
            count = len(devices)
            whole, sharded = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("batch"))
        model = self._network.model
        state = tuple(
            [jax.ShapeDtypeStruct(item.shape, item.dtype, sharding=whole) for item in variables]
            for variables in (
                model.trainable_variables,
                model.non_trainable_variables,
                self._network.optimizer.variables,
                self._metric.variables,
            )
        )
        size = batch_size * count
        images = jax.ShapeDtypeStruct((size, *self._image_shape), "float32", sharding=sharded)
        labels = jax.ShapeDtypeStruct((size, self._num_classes), "float32", sharding=sharded)
        return jax.jit(self._run, donate_argnums=0).trace(state, images, labels)

    def _run(self, state: tuple[Any, ...], images: Any, labels: Any) -> tuple[Any, tuple[Any, ...]]:
        trainable, others, slots, counts = state
        model, optimizer = self._network.model, self._network.optimizer

        def loss_of(weights: Any) -> tuple[Any, tuple[Any, Any]]:
            outputs, changed, penalties = model.stateless_call(
                weights, others, images, training=True, return_losses=True
            )
            loss = self._network.loss(labels, outputs)
            for penalty in penalties:
                loss = loss + penalty
            return loss, (changed, outputs)

        (loss, (others, outputs)), gradients = jax.value_and_grad(loss_of, has_aux=True)(trainable)
        trainable, slots = optimizer.stateless_apply(slots, gradients, trainable)
        counts = self._metric.stateless_update_state(counts, labels, outputs)
        return loss, (trainable, others, slots, counts)


def lower(step: TrainStep, batch_size: int) -> Lowered:
    """Traces and lowers for TPUs, on the CPU: finds dynamic shapes and operations of the host."""
    try:
        traced = step.trace(batch_size)
        host_ops = tuple(dict.fromkeys(_host_ops(traced.jaxpr.jaxpr)))
        if host_ops:
            # Lowered for a TPU they would be sends and receives; they are named already.
            return Lowered(host_ops=host_ops)
        text = traced.lower(lowering_platforms=("tpu",)).as_text()
    except Exception as error:
        return Lowered(dynamic=(f"{type(error).__name__}{_where(error)}: {_shortened(error)}",))
    return Lowered(dynamic=tuple(sorted(set(re.findall(r"tensor<[^>]*\?[^>]*>", text)))[:5]))


def compile_for(step: TrainStep, batch_size: int, topology: str) -> Compiled:
    """The verdict of the TPU compiler, for one core of a topology over all of whose cores the step is sharded."""
    devices = topologies.get_topology_desc(platform="tpu", topology_name=topology).devices
    lowered = step.trace(batch_size, list(devices)).lower(lowering_platforms=("tpu",))
    started = time.monotonic()
    try:
        program = lowered.compile(compiler_options=COMPILER_OPTIONS)
    except jax.errors.JaxRuntimeError as error:
        refused = read_refusal(str(error))
        if refused is None:
            raise
        return Compiled(
            fits=False, peak_bytes=refused[0], available_bytes=refused[1], seconds=time.monotonic() - started
        )
    seconds = time.monotonic() - started
    memory, cost = program.memory_analysis(), program.cost_analysis() or {}
    return Compiled(
        fits=True,
        peak_bytes=float(memory.peak_memory_in_bytes),
        temporary_bytes=float(memory.temp_size_in_bytes),
        argument_bytes=float(memory.argument_size_in_bytes),
        flops=float(cost["flops"]) if "flops" in cost else None,
        bytes_accessed=float(cost["bytes accessed"]) if "bytes accessed" in cost else None,
        matrix_cycles=matrix_cycles(program.as_text() or ""),
        seconds=seconds,
    )


def _host_ops(jaxpr: Any) -> Iterator[str]:
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if any(part in name for part in HOST_PRIMITIVES):
            scope = str(equation.source_info.name_stack)
            yield f"{name} in {scope}" if scope else name
        for part in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda item: hasattr(item, "eqns") or hasattr(item, "jaxpr")
        ):
            inner = getattr(part, "jaxpr", part)
            if hasattr(inner, "eqns"):
                yield from _host_ops(inner)


def _where(error: Exception) -> str:
    """The innermost layer that was being called."""
    name, trace = "", error.__traceback__
    while trace is not None:
        caller = trace.tb_frame.f_locals.get("self")
        if isinstance(caller, keras.layers.Layer) and not isinstance(caller, keras.Model):
            name = f" in {caller.name}"
        trace = trace.tb_next
    return name


def _shortened(error: Exception) -> str:
    text = " ".join(str(error).split()) or "no message"
    return text if len(text) <= 240 else f"{text[:240]}..."
