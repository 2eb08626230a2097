"""Tier 1 of `workbench check --tpu` against its tier 3, over random points of the SqueezeNet space.

    python benchmarks/tpu_check.py [--points 20] [--tpu v2-8] [--image-size 96] [--output tpu_check.csv] [--quick]

For each point: the floating-point operations of a train step by the static count (three times the forward pass, times
the batch) against the compiler's `cost_analysis`, and the matrix-unit fill by static rules (with kernel places folded
into the contraction, as `workbench check` has it, and by features alone) against what the compiler's own estimate
of its matrix products' cycles implies. That estimate is not documented and nothing was executed: it tells which rule
is nearer to the compiler's view, not how fast anything is. Needs the extra tpu-aot; one compilation at a time, and
answers are cached, so that a second run goes on where the first was ended. `--quick`: 3 points at 32 pixels.

After each point it writes the CSV and a second one, with a row for each convolution's forward pass; the last line of
output is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import pandas as pd

from workbench.check.subjects import Subject, build_network
from workbench.costs import count_flops, graph_hash, matrix_products
from workbench.definition import definition_from_dict, load_definition
from workbench.hypermodel import ClassifierHyperModel, overrides_of
from workbench.oracles.sampling import random_values
from workbench.registry import Registry
from workbench.space import explore
from workbench.tpu.chips import find_topology
from workbench.tpu.compiler import TpuCompiler, highest_tier, versions
from workbench.tpu.fill import issued, model_fill
from workbench.tpu.verdict import Step, VerdictCache, cache_key

PRECISION = "mixed_bfloat16"
CLASSES = 5


def points(definition: Any, registry: Registry, shape: Any, count: int, seed: int) -> list[dict[str, Any]]:
    """Random points of the search's space, the same for the same seed."""
    hypermodel = ClassifierHyperModel.of(
        definition, registry, image_shape=shape, num_classes=CLASSES, steps_per_epoch=100
    )
    space = explore(hypermodel.build, overrides_of(definition))
    rng = np.random.default_rng(seed)
    return [random_values(space, rng) for _ in range(count)]


def fill_by_features(model: keras.Model, unit: int) -> float:
    """The other rule: each kernel place takes squares of its own, so that few input features leave them empty."""
    products = [item for item in matrix_products(model) if item.kind != "depthwise"]
    carried_out = sum(item.taps * issued(replace(item, taps=1), unit) for item in products)
    return sum(item.multiply_adds for item in products) / carried_out


def measure(
    subject: Subject, registry: Registry, compiler: TpuCompiler, arguments: argparse.Namespace
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """One row, and one for each convolution's forward pass."""
    topology = find_topology(arguments.tpu)
    keras.backend.clear_session()
    keras.config.set_dtype_policy(PRECISION)
    model = build_network(subject, registry).model
    flops, _ = count_flops(model)
    step = Step(
        definition=subject.definition.resolved(),
        values=dict(subject.values),
        image_shape=subject.image_shape,
        num_classes=CLASSES,
        precision=PRECISION,
        batch_size=arguments.batch_size,
        topology=topology.compiler_name,
    )
    key = cache_key(step, graph=graph_hash(model), training={"benchmark": 1}, versions=versions())
    cache = VerdictCache()
    answer = cache.get(key)
    if answer is None:
        answer = compiler.compile(step)
        cache.put(key, answer)
    peak = topology.unit**2 * topology.units
    cycles = answer.matrix_cycles or {}
    row = {
        "point": subject.name,
        "parameters": model.count_params(),
        "fits": answer.fits,
        "gflop_rules": 3 * flops * arguments.batch_size / 1e9,
        "gflop_compiler": answer.flops / 1e9 if answer.flops else None,
        "fill_rules": model_fill(model, topology.unit),
        "fill_by_features": fill_by_features(model, topology.unit),
        "fill_cycles": answer.flops / 2 / (sum(cycles.values()) * peak) if answer.flops and cycles else None,
        "peak_gib": answer.peak_bytes / 2**30 if answer.peak_bytes else None,
        "compile_seconds": answer.seconds,
    }
    layers = [
        {
            "point": subject.name,
            "layer": item.layer,
            "contraction": item.taps * item.inputs,
            "features": item.features,
            "fill_rules": item.multiply_adds / issued(item, topology.unit),
            "fill_by_features": item.inputs * item.features / issued(replace(item, places=1, taps=1), topology.unit),
            "fill_cycles": item.multiply_adds * arguments.batch_size / (cycles[item.layer] * peak),
        }
        for item in matrix_products(model)
        if item.layer in cycles and item.kind == "conv"
    ]
    return row, layers


def summary(frame: pd.DataFrame, layers: pd.DataFrame, arguments: argparse.Namespace) -> dict[str, Any]:
    """What the last line says."""
    known = frame[frame["fits"]]
    ratio = known["gflop_compiler"] / known["gflop_rules"]
    return {
        "topology": arguments.tpu,
        "image_size": arguments.image_size,
        "batch_size_per_replica": arguments.batch_size,
        "points": len(frame),
        "fitting": len(known),
        "gflop_correlation": known["gflop_compiler"].corr(known["gflop_rules"]),
        "gflop_ratio_median": ratio.median(),
        "gflop_ratio_worst": ratio.iloc[(ratio - 1).abs().argmax()] if len(ratio) else None,
        "fill_correlation": known["fill_cycles"].corr(known["fill_rules"]),
        "fill_rank_correlation": known["fill_cycles"].corr(known["fill_rules"], method="spearman"),
        "fill_by_features_correlation": known["fill_cycles"].corr(known["fill_by_features"]),
        "fill_worst_difference": (known["fill_cycles"] - known["fill_rules"]).abs().max(),
        "layers": len(layers),
        "layer_correlation": layers["fill_cycles"].corr(layers["fill_rules"]),
        "layer_rank_correlation": layers["fill_cycles"].corr(layers["fill_rules"], method="spearman"),
        "layer_by_features_correlation": layers["fill_cycles"].corr(layers["fill_by_features"]),
        "layer_worst_difference": (layers["fill_cycles"] - layers["fill_rules"]).abs().max(),
        "compile_seconds_median": known["compile_seconds"].median(),
        "versions": versions(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--tpu", default="v2-8")
    parser.add_argument("--image-size", type=int, default=96)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--max-seconds", type=float, default=1800.0)
    parser.add_argument("--output", default="tpu_check.csv")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.points, arguments.image_size = 3, 32
    if highest_tier() < 3:
        parser.error("needs the extra tpu-aot: pip install 'convnet-search-workbench[tpu-aot]'")
    registry = Registry.load()
    tables = load_definition("flowers_squeezenet").resolved()
    tables["dataset"]["image_size"] = arguments.image_size
    definition = definition_from_dict(tables)
    shape = (arguments.image_size, arguments.image_size, 3)
    rows: list[dict[str, Any]] = []
    layers: list[dict[str, Any]] = []
    output = Path(arguments.output)
    with TpuCompiler(arguments.max_seconds) as compiler:
        for number, values in enumerate(points(definition, registry, shape, arguments.points, arguments.seed), 1):
            subject = Subject(
                name=f"{number:02d}", definition=definition, values=values, image_shape=shape, num_classes=CLASSES
            )
            row, parts = measure(subject, registry, compiler, arguments)
            rows.append(row)
            layers += parts
            pd.DataFrame(rows).to_csv(output, index=False)
            pd.DataFrame(layers).to_csv(output.with_stem(f"{output.stem}_layers"), index=False)
            print(f"{number} of {arguments.points}: {row}", flush=True)
    print(json.dumps(summary(pd.DataFrame(rows), pd.DataFrame(layers), arguments)))


if __name__ == "__main__":
    main()
