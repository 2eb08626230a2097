"""Trials an hour of a search: the workbench, Keras Tuner and Optuna on the same proposals, data, epochs and cores.

    python benchmarks/throughput.py --data-dir DATA [--output throughput.csv]    # 30 proposals: some hours
    python benchmarks/throughput.py --quick                                       # embedded data, minutes

The proposals are random points of the shipped convnet space, the same for all, trained with Adam at their own constant
rate on 10,000 images of CIFAR-10 for two epochs, validated after each, in batches of 128. Contenders take turns, some
proposals at a time, each turn in a new process from start to end, imports included:

- `workbench` and `workbench_2_workers`: `workbench.search`, as installed.
- `keras_tuner`: `RandomSearch` as Keras Tuner's guide shows it: arrays in memory, `tuner.search(x, y, epochs=...,
  validation_data=...)`. Only the draw of the points is replaced.
- `keras_tuner_same_flags`, `optuna_same_flags`: with the TensorFlow flags that the workbench sets. Optuna's objective
  builds, compiles and fits as its Keras example does.

`bound` is the time in the training and validation steps alone (the workbench's journal): no search is faster with
the same work in one process. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import FLAGS, announce, write_csv

PACKAGES = ("tensorflow", "keras", "keras-tuner", "optuna", "numpy")
CONTENDERS = ("workbench", "workbench_2_workers", "keras_tuner", "keras_tuner_same_flags", "optuna_same_flags")
BATCH_SIZE = 128
SEED = 7


def definition(arguments: argparse.Namespace) -> dict[str, Any]:
    """The search; `--quick` has digits of 32x32 pixels for CIFAR-10, and small networks."""
    dataset: dict[str, Any] = {"name": "digits", "image_size": 32}
    space: dict[str, Any] = {"blocks": [2, 3], "filters": {"min": 8, "max": 24, "step": 8}, "block_*/kernel": 3}
    if arguments.data_dir:
        dataset = {"name": "cifar10"}
        space = {"blocks": [2, 3, 4], "filters": {"min": 32, "max": 96, "step": 16}, "block_*/kernel": [3, 5]}
    return {
        "seed": SEED,
        "dataset": {**dataset, "limit": arguments.images},
        "model": {
            "name": "cifar_convnet",
            "space": {**space, "padding": ["same", "valid_last"]},
        },
        "augmentation": {"name": "none"},
        "schedule": {"name": "constant", "space": {"learning_rate": {"min": 3e-4, "max": 3e-3, "sampling": "log"}}},
        "training": {"epochs": arguments.epochs, "batch_size_per_replica": BATCH_SIZE, "space": {"*": "default"}},
        "budget": {"max_trials": 1},
        "tuner": {"name": "random", "enqueue_default": False},
    }


class Work:
    """What all contenders share: arrays, the space, how a point is built. Imports TensorFlow."""

    def __init__(self, arguments: argparse.Namespace):
        from workbench.data import prepare, steps_per_epoch
        from workbench.definition import definition_from_dict
        from workbench.hypermodel import ClassifierHyperModel, overrides_of
        from workbench.registry import Registry
        from workbench.space import SearchSpace, explore

        wanted = definition_from_dict(definition(arguments))
        registry = Registry.load((), ())
        self.data = prepare(
            registry.find("dataset", wanted.dataset.name),
            data_dir=Path(arguments.data_dir) if arguments.data_dir else None,
            image_size=wanted.dataset.image_size,
            options={},
            limit=wanted.dataset.limit,
        )
        self._hypermodel = ClassifierHyperModel.of(
            wanted,
            registry,
            image_shape=self.data.facts.image_shape,
            num_classes=len(self.data.facts.class_names),
            steps_per_epoch=steps_per_epoch(self.data, BATCH_SIZE),
        )
        self._overrides = overrides_of(wanted)
        self._space = SearchSpace
        self.space = explore(self._hypermodel.build, self._overrides)

    def arrays(self, split: str) -> tuple[Any, Any]:
        """float32 images in [0, 1] and one-hot labels, in memory."""
        import keras
        import numpy as np

        chosen = self.data.indices(split)
        labels = keras.utils.to_categorical(self.data.labels[chosen], len(self.data.facts.class_names))
        return self.data.images[chosen].astype(np.float32) / 255, labels

    def compiled(self, values: dict[str, Any]) -> Any:
        """A point's network, compiled as Keras does by default."""
        network = self._hypermodel.build(self._space(self._overrides, values))
        network.model.compile(network.optimizer, network.loss, metrics=["accuracy"])
        return network.model


def draw_points(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """The proposals: random points with at most 3 million parameters, as the shipped search has them."""
    import numpy as np

    from workbench.costs import count_flops
    from workbench.oracles.sampling import random_values

    work, rng = Work(arguments), np.random.default_rng(SEED)
    found: list[dict[str, Any]] = []
    while len(found) < arguments.trials:
        values = random_values(work.space, rng)
        model = work.compiled(values)
        if model.count_params() <= 3_000_000 and count_flops(model)[0] <= 1e6 * arguments.max_mflop:
            found.append(values)
    return found


def run_workbench(arguments: argparse.Namespace, points: list[dict[str, Any]], workers: int) -> dict[str, Any]:
    """A search of these points and nothing else."""
    import workbench

    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, point in enumerate(points):
            files.append(f"{folder}/{number}.json")
            Path(files[-1]).write_text(json.dumps(point))
        search = definition(arguments) | {"budget": {"max_trials": len(points)}}
        study = workbench.search(
            search, study="turn", directory=folder, enqueue=files, workers=workers, data_dir=arguments.data_dir
        )
        trials = study.trials()
        return {"scores": trials["score"].round(4).tolist(), "bound": float(trials["seconds"].sum())}


def run_keras_tuner(arguments: argparse.Namespace, points: list[dict[str, Any]]) -> dict[str, Any]:
    """Keras Tuner's RandomSearch, told what to draw."""
    import keras_tuner

    work = Work(arguments)
    remaining = iter(points)

    class Given(keras_tuner.oracles.RandomSearchOracle):
        def populate_space(self, trial_id: str) -> dict[str, Any]:
            values = next(remaining, None)
            return {"status": "STOPPED"} if values is None else {"status": "RUNNING", "values": values}

    with tempfile.TemporaryDirectory() as folder:
        oracle = Given(objective=keras_tuner.Objective("val_accuracy", "max"), max_trials=len(points))
        tuner = keras_tuner.Tuner(
            oracle, lambda hp: work.compiled(dict(hp.values)), directory=folder, project_name="turn", overwrite=True
        )
        x, y = work.arrays("train")
        tuner.search(
            x,
            y,
            batch_size=BATCH_SIZE,
            epochs=arguments.epochs,
            validation_data=work.arrays("validation"),
        )
        scores = [round(trial.score, 4) for trial in oracle.trials.values() if trial.score is not None]
    return {"scores": scores}


def run_optuna(arguments: argparse.Namespace, points: list[dict[str, Any]]) -> dict[str, Any]:
    """Optuna with the points enqueued."""
    import keras
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    work = Work(arguments)
    (x, y), validation = work.arrays("train"), work.arrays("validation")

    names = {name for point in points for name in point}
    choices = {name: list(dict.fromkeys(point[name] for point in points if name in point)) for name in names}

    def objective(trial: Any) -> float:
        keras.backend.clear_session()
        values = {name: trial.suggest_categorical(name, choices[name]) for name in points[trial.number]}
        model = work.compiled(values)
        history = model.fit(x, y, batch_size=BATCH_SIZE, epochs=arguments.epochs, validation_data=validation, verbose=0)
        return float(max(history.history["val_accuracy"]))

    study = optuna.create_study(direction="maximize")
    for point in points:
        study.enqueue_trial(point)
    study.optimize(objective, n_trials=len(points))
    return {"scores": [round(trial.value, 4) for trial in study.trials]}


def serve(arguments: argparse.Namespace) -> None:
    """One turn, in a process of its own; prints JSON."""
    points = json.loads(Path(arguments.points).read_text())[arguments.first : arguments.first + arguments.turn]
    name = arguments.contender
    if name.startswith("workbench"):
        found = run_workbench(arguments, points, 2 if name == "workbench_2_workers" else 1)
    elif name.startswith("keras_tuner"):
        found = run_keras_tuner(arguments, points)
    else:
        found = run_optuna(arguments, points)
    print("\n" + json.dumps(found))


def take_turn(name: str, arguments: argparse.Namespace, points: Path, first: int) -> dict[str, Any]:
    """Runs a contender's turn; a row of the table."""
    command = [sys.executable, __file__, "--contender", name, "--points", str(points), "--first", str(first)]
    for option in ("turn", "images", "epochs", "data_dir"):
        if getattr(arguments, option) is not None:
            command += [f"--{option.replace('_', '-')}", str(getattr(arguments, option))]
    # Keras Tuner as documented gets no flags; the workbench sets its own.
    environment = {key: value for key, value in os.environ.items() if key not in FLAGS}
    environment |= FLAGS if name.endswith("same_flags") else {}
    began, before = time.perf_counter(), os.times()
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True, check=False)
        if child.returncode != 0:
            errors.seek(0)
            sys.exit(f"{name} failed: {errors.read()[-3000:]}")
    took, after = time.perf_counter() - began, os.times()
    found = json.loads(child.stdout.strip().splitlines()[-1])
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    count = len(found["scores"])
    row = {
        "contender": name,
        "first": first,
        "trials": count,
        "seconds": round(took, 2),
        "cpu_seconds": round(cpu, 2),
        "trials_per_hour": round(3600 * count / took, 2),
        "bound_seconds": round(found.get("bound", float("nan")), 2),
        "mean_score": round(statistics.fmean(found["scores"]), 4),
    }
    print(f"  {row}", file=sys.stderr, flush=True)
    return row


def main() -> None:
    """Lets the contenders take turns, then prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", default=os.environ.get("WORKBENCH_DATA"), help="with cifar10/")
    parser.add_argument("--trials", type=int, default=30, help="proposals")
    parser.add_argument("--turn", type=int, default=10, help="proposals a turn")
    parser.add_argument("--images", type=int, default=10_000, help="training images")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--max-mflop", type=float, default=float("inf"), help="of a proposal's forward pass, an image")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--quick", action="store_true", help="embedded data, 12 proposals of small networks, 1 epoch")
    parser.add_argument("--output", type=Path, help="CSV with one row a turn")
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    parser.add_argument("--points", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contender:
        serve(arguments)
        return
    if arguments.quick:
        arguments.trials, arguments.turn, arguments.images, arguments.epochs = 12, 6, 384, 1
        arguments.data_dir = None
    os.environ.update({name: os.environ.get(name, value) for name, value in FLAGS.items()})
    announce(*PACKAGES)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        points = Path(folder) / "points.json"
        points.write_text(json.dumps(draw_points(arguments)))
        for number, first in enumerate(range(0, arguments.trials, arguments.turn)):
            # Each turn begins with the next contender, so that a load that comes or goes hits none alone.
            start = number % len(arguments.only)
            order = [*arguments.only[start:], *arguments.only[:start]]
            rows += [take_turn(name, arguments, points, first) for name in order]
    write_csv(rows, arguments.output)
    print(json.dumps(summary(rows)))


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Prints the table; the ratios."""
    totals: dict[str, dict[str, float]] = {}
    print(f"{'contender':<26}{'trials':>7}{'seconds':>10}{'CPU s':>10}{'trials an hour':>16}{'mean score':>12}")
    for name in dict.fromkeys(row["contender"] for row in rows):
        own = [row for row in rows if row["contender"] == name]
        trials, seconds = sum(row["trials"] for row in own), sum(row["seconds"] for row in own)
        totals[name] = {
            "trials": trials,
            "seconds": round(seconds, 1),
            "cpu_seconds": round(sum(row["cpu_seconds"] for row in own), 1),
            "trials_per_hour": round(3600 * trials / seconds, 1),
            "mean_score": round(statistics.fmean(row["mean_score"] for row in own), 4),
        }
        figures = totals[name]
        print(
            f"{name:<26}{trials:>7}{seconds:>10.1f}{figures['cpu_seconds']:>10.1f}{figures['trials_per_hour']:>16.1f}"
            f"{figures['mean_score']:>12.4f}"
        )
    rate = {name: figures["trials_per_hour"] for name, figures in totals.items()}
    ours = max((rate[name] for name in rate if name.startswith("workbench")), default=float("nan"))
    bound = sum(row["bound_seconds"] for row in rows if row["contender"] == "workbench")
    result: dict[str, Any] = {"benchmark": "throughput", "contenders": totals, "bound_seconds": round(bound, 1)}
    for key, peer in (
        ("trials_per_hour_vs_keras_tuner", "keras_tuner"),
        ("trials_per_hour_vs_keras_tuner_same_flags", "keras_tuner_same_flags"),
        ("trials_per_hour_vs_optuna_same_flags", "optuna_same_flags"),
    ):
        if peer in rate:
            result[key] = round(ours / rate[peer], 3)
            if "workbench" in rate:
                result[f"{key}_one_worker"] = round(rate["workbench"] / rate[peer], 3)
    return result


if __name__ == "__main__":
    main()
