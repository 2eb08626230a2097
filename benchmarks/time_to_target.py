"""CPU time from nothing to a network that meets a target, the search included.

    python benchmarks/time_to_target.py --data-dir DATA --case flowers [--output f.csv]    # up to 3 CPU hours a run
    python benchmarks/time_to_target.py --data-dir DATA --case cifar10
    python benchmarks/time_to_target.py --quick                                             # embedded data, minutes

Cases: `flowers`, the SqueezeNet space on 96-pixel flowers to 80 % of the published split's validation images;
`cifar10`, the convnet space to 80.79 % of the test images (measured once validation says as much); `digits`
(`--quick`), small convnets on digits to 99 % validation.

Contenders: `workbench`, a search of that space as its definition in this file has it, with `stop_at_target`;
`workbench_inline`, the same in one process (`--inline`), which imports TensorFlow once instead of twice (`--quick` has
this one only); Keras Tuner's `Hyperband` and `RandomSearch` over the same hyperparameters and ranges, with their
defaults, the same TensorFlow flags, data, batches and augmentation, which end at the epoch that meets the target. They
take turns, a seed at a time, each in a process of its own; CPU seconds are the process's and its children's, imports
included. What did not get there within --cap-seconds of CPU time is censored: it is counted with the cap, and said so.
The last line is JSON; `cpu_time_vs_best_peer` is a ratio of medians, the workbench's best way to the best peer's, below
1 where the workbench needs less.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from common import FLAGS, announce, spread, write_csv

PACKAGES = ("tensorflow", "keras", "keras-tuner", "numpy")
CONTENDERS = ("workbench", "workbench_inline", "keras_tuner_hyperband", "keras_tuner_random")
POLL_SECONDS = 0.2

CASES: dict[str, dict[str, Any]] = {
    "digits": {
        "dataset": {"name": "digits"},
        "model": {
            "name": "cifar_convnet",
            "space": {
                "blocks": [1, 2],
                "filters": {"min": 16, "max": 48, "step": 8},
                "growth": [1.0, 2.0],
                "convs": [1, 2],
                "block_*/kernel": 3,
                "padding": "same",
                "head": "flatten",
                "dense_layers": [0, 1],
                "dense_units": {"min": 64, "max": 256, "step": 64},
                "block_dropout": {"min": 0.0, "max": 0.25, "step": 0.125},
                "head_dropout": {"min": 0.0, "max": 0.5, "step": 0.25},
            },
        },
        "schedule": {"name": "constant", "space": {"learning_rate": {"min": 1e-4, "max": 5e-3, "sampling": "log"}}},
        "training": {"epochs": 15, "batch_size_per_replica": 32, "space": {"*": "default"}},
        "objective": {"metric": "val_accuracy", "target": 0.99},
    },
    "flowers": {
        "dataset": {"name": "flowers", "image_size": 96, "split": "published"},
        "model": {
            "name": "squeezenet",
            "space": {
                "pools": [2, 3, 4],
                "stage_*/expand": {"min": 16, "max": 128, "step": 16},
                "stage_*/squeeze_ratio": [0.25, 0.5, 0.75],
                "batch_norm": True,
                "batch_norm_momentum": [0.9, 0.99],
            },
        },
        "augmentation": {"name": "flip_saturation", "space": {"*": "default"}},
        "schedule": {
            "name": "warmup_cosine",
            "space": {
                "*": "default",
                "learning_rate": {"min": 5e-4, "max": 8e-3, "sampling": "log"},
                "warmup_epochs": [1, 2],
            },
        },
        "training": {"epochs": 12, "batch_size_per_replica": 64, "space": {"*": "default"}},
        "objective": {"metric": "val_accuracy", "target": 0.80},
    },
    "cifar10": {
        "dataset": {"name": "cifar10"},
        "model": {
            "name": "cifar_convnet",
            "space": {
                "blocks": [2, 3, 4],
                "filters": {"min": 32, "max": 96, "step": 16},
                "block_*/kernel": [3, 5],
                "padding": ["same", "valid_last"],
            },
        },
        "augmentation": {"name": "crop_flip", "space": {"*": "default", "padding_fraction": 0.0625}},
        "schedule": {
            "name": "warmup_cosine",
            "space": {
                "*": "default",
                "learning_rate": {"min": 3e-4, "max": 3e-3, "sampling": "log"},
                "warmup_epochs": [1, 2],
            },
        },
        "training": {"epochs": 16, "batch_size_per_replica": 64, "space": {"*": "default"}},
        "objective": {"metric": "val_accuracy", "target": 0.8079},
    },
}


def definition(case: str, seed: int) -> dict[str, Any]:
    """The search; the published point is its first trial."""
    tables = {"augmentation": {"name": "none"}, **CASES[case]}
    return {
        **tables,
        "seed": seed,
        "objective": {**tables["objective"], "stop_at_target": True},
        "budget": {"max_trials": 1000},
        "tuner": {"name": "bayesian"},
    }


def run_workbench(case: str, seed: int, data_dir: str | None, *, inline: bool) -> float:
    """Searches until the target is met; the score that met it."""
    import workbench

    with tempfile.TemporaryDirectory() as folder:
        study = workbench.search(
            definition(case, seed), study="race", directory=folder, data_dir=data_dir, inline=inline
        )
        best = float(study.trials()["score"].max())
        if case != "cifar10":
            return best
        model = study.best_model()
        return test_accuracy(model, case, data_dir)


def test_accuracy(model: Any, case: str, data_dir: str | None) -> float:
    """Of the test images."""
    from workbench.data import evaluation_dataset

    data = prepared(case, data_dir)
    found = model.evaluate(evaluation_dataset(data, split="test", batch_size=256), verbose=0, return_dict=True)
    return float(found["accuracy"])


def prepared(case: str, data_dir: str | None) -> Any:
    """The case's data."""
    from workbench.data import prepare
    from workbench.definition import definition_from_dict
    from workbench.registry import Registry

    table = definition_from_dict(definition(case, 0)).dataset
    options = {**table.options}
    return prepare(
        Registry.load((), ()).find("dataset", table.name),
        data_dir=Path(data_dir) if data_dir else None,
        image_size=table.image_size,
        options=options,
        limit=table.limit,
    )


def run_keras_tuner(name: str, case: str, seed: int, data_dir: str | None) -> None:
    """Searches until the target is met, prints the score and ends the process there."""
    import keras
    import keras_tuner

    from workbench.data import evaluation_dataset, steps_per_epoch, training_dataset
    from workbench.definition import definition_from_dict
    from workbench.hypermodel import ClassifierHyperModel, overrides_of
    from workbench.registry import Registry
    from workbench.space import SearchSpace, explore

    wanted = definition_from_dict(definition(case, seed))
    data = prepared(case, data_dir)
    batch_size = wanted.training.batch_size_per_replica
    steps = steps_per_epoch(data, batch_size)
    hypermodel = ClassifierHyperModel.of(
        wanted,
        Registry.load((), ()),
        image_shape=data.facts.image_shape,
        num_classes=len(data.facts.class_names),
        steps_per_epoch=steps,
    )
    overrides = overrides_of(wanted)
    space = explore(hypermodel.build, overrides)
    target = float(wanted.objective.target or 1.0)

    def build(hp: Any) -> Any:
        network = hypermodel.build(SearchSpace(overrides, {key: hp.values[key] for key in hp.values if "/" in key}))
        network.model.compile(network.optimizer, network.loss, metrics=["accuracy"])
        return network.model

    class Race(keras.callbacks.Callback):
        def __deepcopy__(self, memo: Any) -> Race:
            return Race()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if (logs or {}).get("val_accuracy", 0.0) < target:
                return
            score = logs["val_accuracy"] if case != "cifar10" else test_accuracy(self.model, case, data_dir)
            if score >= target:
                print("\n" + json.dumps({"score": score}), flush=True)
                os._exit(0)

    settings = {
        "objective": keras_tuner.Objective("val_accuracy", "max"),
        "hyperparameters": keras_tuner.HyperParameters.from_config(space.get_config()),
        "seed": seed + 1,
        "project_name": "race",
        "directory": tempfile.mkdtemp(),
    }
    augment = hypermodel.build(SearchSpace(overrides, {})).augment
    # Epochs without end: Keras's fit asks for as many as it is told.
    training = training_dataset(
        data, batch_size=batch_size, augment=augment, seed=seed, first_epoch=1, last_epoch=100_000
    )
    if name == "keras_tuner_hyperband":
        tuner = keras_tuner.Hyperband(
            build, max_epochs=wanted.training.epochs, hyperband_iterations=100, tune_new_entries=False, **settings
        )
    else:
        tuner = keras_tuner.RandomSearch(build, max_trials=1000, tune_new_entries=False, **settings)
    tuner.search(
        training,
        steps_per_epoch=steps,
        epochs=wanted.training.epochs,
        validation_data=evaluation_dataset(data, split="validation", batch_size=batch_size),
        callbacks=[Race()],
    )


def follow(child: subprocess.Popen[str], cap_seconds: float) -> tuple[float, bool]:
    """Waits for a contender's end, or ends it at the cap; its CPU seconds, and whether it was cut off.

    The cap is of CPU time, so that what else the machine does takes nothing from a contender.
    """
    before = os.times()
    while child.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):
            own = psutil.Process(child.pid)
            family = [own, *own.children(recursive=True)]
            if sum(sum(process.cpu_times()[:2]) for process in family) >= cap_seconds:
                for process in family:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()
                child.wait()
                return cap_seconds, True
        time.sleep(POLL_SECONDS)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system, False


def race(name: str, case: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """One contender's run; a row of the table."""
    command = [sys.executable, __file__, "--contender", name, "--case", case, "--seed", str(seed)]
    command += ["--data-dir", arguments.data_dir] if arguments.data_dir else []
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            command, stdout=output, stderr=errors, env=os.environ | FLAGS, text=True, start_new_session=True
        )
        cpu, is_censored = follow(child, arguments.cap_seconds)
        if not is_censored and child.returncode != 0:
            errors.seek(0)
            sys.exit(f"{name} failed: {errors.read()[-3000:]}")
        output.seek(0)
        score = None if is_censored else json.loads(output.read().strip().splitlines()[-1])["score"]
    took = time.perf_counter() - began
    row = {
        "case": case,
        "contender": name,
        "seed": seed,
        "seconds": round(took, 1),
        "cpu_seconds": round(cpu, 1),
        "reached": not is_censored,
        "score": score,
    }
    print(f"  {row}", file=sys.stderr, flush=True)
    return row


def main() -> None:
    """Lets the contenders run in turn, then prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", default=os.environ.get("WORKBENCH_DATA"), help="with cifar10/ and flowers/")
    parser.add_argument("--case", choices=list(CASES), default="flowers")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each contender")
    parser.add_argument("--cap-seconds", type=float, default=3 * 3600.0, help="of CPU time, of each run")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--quick", action="store_true", help="digits, 5 seeds, at most 25 s of CPU a run")
    parser.add_argument("--output", type=Path, help="CSV with one row a run")
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contender in ("workbench", "workbench_inline"):
        is_inline = arguments.contender == "workbench_inline"
        score = run_workbench(arguments.case, arguments.seed, arguments.data_dir, inline=is_inline)
        print("\n" + json.dumps({"score": score}), flush=True)
        # As the peers end: without TensorFlow's second of taking itself down.
        os._exit(0)
    if arguments.contender:
        run_keras_tuner(arguments.contender, arguments.case, arguments.seed, arguments.data_dir)
        sys.exit("the tuner ended before its target")
    if arguments.quick:
        arguments.case, arguments.seeds, arguments.cap_seconds = "digits", 5, 25.0
        arguments.only = [name for name in arguments.only if name != "workbench"]
    announce(*PACKAGES)
    rows = [race(name, arguments.case, seed, arguments) for seed in range(arguments.seeds) for name in arguments.only]
    write_csv(rows, arguments.output)
    print(json.dumps(summary(rows)))


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Prints the table; the ratio."""
    found: dict[str, dict[str, Any]] = {}
    print(f"{'contender':<24}{'n':>3}{'reached':>9}{'CPU seconds':>30}{'seconds':>30}")
    for name in dict.fromkeys(row["contender"] for row in rows):
        own = [row for row in rows if row["contender"] == name]
        cpu, seconds = [row["cpu_seconds"] for row in own], [row["seconds"] for row in own]
        reached = sum(row["reached"] for row in own)
        print(f"{name:<24}{len(own):>3}{reached:>9}{spread(cpu, 1):>30}{spread(seconds, 1):>30}")
        found[name] = {
            "cpu_seconds": statistics.median(cpu),
            "seconds": statistics.median(seconds),
            "reached": reached,
            "n": len(own),
        }
    result: dict[str, Any] = {"benchmark": "time_to_target", "case": rows[0]["case"], "contenders": found}
    own = [figures["cpu_seconds"] for name, figures in found.items() if name.startswith("workbench")]
    peers = [figures["cpu_seconds"] for name, figures in found.items() if not name.startswith("workbench")]
    if peers and own:
        result["cpu_time_vs_best_peer"] = round(min(own) / min(peers), 3)
        result["is_censored"] = any(figures["reached"] < figures["n"] for figures in found.values())
    return result


if __name__ == "__main__":
    main()
