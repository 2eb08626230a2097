"""Runs the built-in models and schedules on the backend of KERAS_BACKEND: `run_components.py WEIGHTS_DIR RESULTS.npz`.

The first process to run writes the weights, the next ones read them.
"""

import sys
from pathlib import Path

import keras
import keras_tuner
import numpy as np

from workbench.hypermodel import build_component
from workbench.registry import Registry

CLASSES = 5
SIZES = {"cifar_convnet": 16, "squeezenet": 32, "xception": 71}


def build(component):
    size = SIZES[component.name]
    return build_component(component, keras_tuner.HyperParameters(), (size, size, 3), CLASSES)


def share_weights(model, path):
    """Random weights, all of them: fresh statistics of a normalisation would be 0 and 1."""
    if not path.exists():
        rng = np.random.default_rng(7)
        weights = [_varied(weight, rng) for weight in model.get_weights()]
        path.parent.mkdir(exist_ok=True)
        np.savez(path, *weights)
    with np.load(path) as file:
        model.set_weights([file[name].astype("float32") for name in file.files])


def _varied(weight, rng):
    # Vectors are biases and statistics: moved off 0 and 1, above 0 as variances are.
    offset = rng.uniform(0, 0.1, weight.shape) if weight.ndim == 1 else 0.0
    return weight * rng.uniform(0.5, 1.5, weight.shape) + offset


def main(weights, output):
    registry = Registry.load(environ={})
    found = {}
    for item in registry.registered("model"):
        component = item.component
        size = SIZES[component.name]
        images = np.random.default_rng(3).uniform(size=(2, size, size, 3)).astype("float32")
        model = build(component)
        share_weights(model, weights / f"{component.name}.npz")
        # In one piece: operation by operation, JAX compiles each of them.
        model.compile(jit_compile=keras.backend.backend() == "jax")
        found[f"model/{component.name}"] = model.predict_on_batch(images)
        keras.config.set_dtype_policy("mixed_bfloat16")
        mixed = build(component)
        dtypes = [mixed.output.dtype, mixed.layers[-1].compute_dtype, *(weight.dtype for weight in mixed.weights)]
        found[f"mixed/{component.name}"] = np.array([str(dtype) for dtype in dtypes])
        found[f"inner/{component.name}"] = np.array(mixed.layers[-2].compute_dtype)
        keras.config.set_dtype_policy("float32")
    for item in registry.registered("schedule"):
        schedule = build_component(item.component, keras_tuner.HyperParameters(), 7, 6)
        rates = [float(schedule(keras.ops.convert_to_tensor(step, dtype="int32"))) for step in range(42)]
        found[f"schedule/{item.component.name}"] = np.array(rates)
    np.savez(output, **found)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
