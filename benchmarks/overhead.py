"""What a trial costs under the workbench beyond the plain Keras loop.

    python benchmarks/overhead.py --data-dir DATA [--output overhead.csv]     # 8 pairs a model, about half an hour
    python benchmarks/overhead.py --quick                                      # minutes, embedded data

A pair is a trial of `workbench.search` (worker process, journal, checkpoints, constraints, the next proposal: from the
end of the trial before to its own end) and the same network, data, epochs and batches by `model.fit` in another
process that lives as long, with what a user needs there: `ModelCheckpoint` for the best weights, `BackupAndRestore` to
go on after a loss, `CSVLogger`. Both have the same TensorFlow flags. The two alternate; what one does while the other
runs is a wait. The first pair is not counted: it holds imports and first-time work of both.

`cpu_ratio` and `wall_ratio` are medians over pairs of workbench / loop, `fixed_ms` is the median difference of
seconds for trials of the least network and one epoch, `fixed_cpu_ms` that of CPU seconds. The last line is JSON.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common import FLAGS, announce, spread, write_csv

PACKAGES = ("tensorflow", "keras", "keras-tuner", "numpy")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kind of trial.

    Attributes:
        space: of the model; `default` where it is not named.
        limit: training images, None for all.
    """

    name: str
    dataset: str
    model: str
    space: dict[str, Any] = field(default_factory=dict)
    image_size: int | None = None
    limit: int | None = None
    epochs: int
    batch_size: int

    def definition(self, trials: int) -> dict[str, Any]:
        """The search: one network, and learning rates that tell the trials apart."""
        image_size = {} if self.image_size is None else {"image_size": self.image_size}
        limit = {} if self.limit is None else {"limit": self.limit}
        return {
            "seed": 5,
            "dataset": {"name": self.dataset, **image_size, **limit},
            "model": {"name": self.model, "space": {"*": "default", **self.space}},
            "augmentation": {"name": "none"},
            "schedule": {"name": "constant", "space": {"learning_rate": {"min": 1e-4, "max": 1e-3, "sampling": "log"}}},
            "training": {
                "epochs": self.epochs,
                "batch_size_per_replica": self.batch_size,
                "space": {"*": "default"},
            },
            "constraints": {"max_parameters": 50_000_000},
            "budget": {"max_trials": trials},
            "tuner": {"name": "random"},
        }


TINY = {"blocks": 1, "filters": 16, "convs": 1, "head": "global_average", "dense_layers": 0}


def cases(quick: bool) -> list[Case]:
    """The fixed cost's case first."""
    least = Case(name="fixed", dataset="digits", model="cifar_convnet", space=TINY, epochs=1, batch_size=128)
    if quick:
        return [
            least,
            Case(name="tiny", dataset="digits", model="cifar_convnet", space=TINY, epochs=10, batch_size=128),
            Case(
                name="convnet",
                dataset="digits",
                image_size=32,
                model="cifar_convnet",
                limit=512,
                epochs=1,
                batch_size=128,
            ),
        ]
    return [
        least,
        Case(name="tiny", dataset="digits", model="cifar_convnet", space=TINY, epochs=250, batch_size=128),
        Case(name="convnet", dataset="cifar10", model="cifar_convnet", limit=6_000, epochs=3, batch_size=128),
        Case(
            name="squeezenet", dataset="flowers", model="squeezenet", image_size=96, limit=700, epochs=2, batch_size=64
        ),
    ]


class BareLoop:
    """The other process, from this side."""

    def __init__(self, case: Case, data_dir: str | None):
        arguments = [sys.executable, __file__, "--loop", json.dumps(vars(case)), *([data_dir] if data_dir else [])]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._child = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | FLAGS,
            text=True,
        )

    def run(self, learning_rate: float, seed: int) -> dict[str, float]:
        """Trains once; wall and CPU seconds."""
        if self._child.stdin is None or self._child.stdout is None:
            raise AssertionError("made with pipes")
        self._child.stdin.write(json.dumps([learning_rate, seed]) + "\n")
        self._child.stdin.flush()
        answer = self._child.stdout.readline()
        if not answer:
            code = self._child.wait()
            self._errors.seek(0)
            sys.exit(f"the plain loop ended with exit code {code}: {self._errors.read()[-3000:]}")
        found: dict[str, float] = json.loads(answer)
        return found

    def close(self) -> None:
        """Ends it."""
        self._child.kill()
        self._child.wait()
        self._errors.close()

    @property
    def pid(self) -> int:
        """Its process ID."""
        return self._child.pid


def serve_loop(case: Case, data_dir: str | None) -> None:
    """The plain loop's process: trains once for every line of standard input."""
    import keras
    import keras_tuner
    import numpy as np

    from workbench.data import prepare
    from workbench.hypermodel import build_component
    from workbench.registry import Registry
    from workbench.space import Overrides, SearchSpace

    registry = Registry.load((), ())
    data = prepare(
        registry.find("dataset", case.dataset),
        data_dir=Path(data_dir) if data_dir else None,
        image_size=case.image_size,
        options={},
        limit=case.limit,
    )
    classes = len(data.facts.class_names)
    arrays = {
        split: (data.images[chosen].astype(np.float32) / 255, keras.utils.to_categorical(data.labels[chosen], classes))
        for split in ("train", "validation")
        for chosen in [data.indices(split)]
    }
    component = registry.find("model", case.model)
    overrides = Overrides([("model.space", [case.model], {"*": "default", **case.space})])
    for line in sys.stdin:
        learning_rate, seed = json.loads(line)
        start = time.perf_counter(), time.process_time()
        keras.backend.clear_session()
        keras.utils.set_random_seed(seed)
        hp = SearchSpace(overrides, {})
        assert isinstance(hp, keras_tuner.HyperParameters)
        model = build_component(component, hp, data.facts.image_shape, classes)
        model.compile(keras.optimizers.Adam(learning_rate), "categorical_crossentropy", metrics=["accuracy"])
        with tempfile.TemporaryDirectory() as folder:
            model.fit(
                *arrays["train"],
                batch_size=case.batch_size,
                epochs=case.epochs,
                validation_data=arrays["validation"],
                callbacks=[
                    keras.callbacks.ModelCheckpoint(
                        f"{folder}/best.weights.h5",
                        monitor="val_accuracy",
                        save_best_only=True,
                        save_weights_only=True,
                    ),
                    keras.callbacks.BackupAndRestore(f"{folder}/backup"),
                    keras.callbacks.CSVLogger(f"{folder}/log.csv"),
                ],
                verbose=0,
            )
        took = {"seconds": time.perf_counter() - start[0], "cpu_seconds": time.process_time() - start[1]}
        print(json.dumps(took), flush=True)


class Pairing:
    """A display that runs the plain loop whenever a trial has ended, and keeps both figures."""

    def __init__(self, case: Case, loop: BareLoop):
        self._case, self._loop = case, loop
        self._at: tuple[float, float] | None = None
        self.rows: list[dict[str, Any]] = []

    def _now(self) -> tuple[float, float]:
        import psutil

        own = psutil.Process()
        # The driver's own share and its worker's; the plain loop is a child as well.
        processes = [own, *(child for child in own.children() if child.pid != self._loop.pid)]
        cpu = sum(sum(process.cpu_times()[:2]) for process in processes)
        return time.perf_counter(), cpu

    def trial_finished(self, row: dict[str, Any]) -> None:
        """One half of a pair; see `workbench.display.Display`."""
        now = self._now()
        loop = self._loop.run(row["hp.constant/learning_rate"], row["seed"])
        if self._at is not None:
            wall, cpu = (after - before for after, before in zip(now, self._at, strict=True))
            self.rows.append(
                {
                    "case": self._case.name,
                    "pair": len(self.rows) + 1,
                    "workbench_seconds": round(wall, 4),
                    "loop_seconds": round(loop["seconds"], 4),
                    "workbench_cpu_seconds": round(cpu, 4),
                    "loop_cpu_seconds": round(loop["cpu_seconds"], 4),
                }
            )
            print(f"  {self.rows[-1]}", file=sys.stderr, flush=True)
        self._at = self._now()

    def __getattr__(self, name: str) -> Any:
        return lambda *_args, **_keywords: None


def measure(case: Case, pairs: int, data_dir: str | None) -> list[dict[str, Any]]:
    """A row a pair."""
    import workbench

    loop = BareLoop(case, data_dir)
    pairing = Pairing(case, loop)
    try:
        with tempfile.TemporaryDirectory() as folder:
            workbench.search(
                case.definition(pairs + 1), study=case.name, directory=folder, data_dir=data_dir, display=pairing
            )
    finally:
        loop.close()
    return pairing.rows


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Prints a case's line; its ratios."""
    wall = [row["workbench_seconds"] / row["loop_seconds"] for row in rows]
    cpu = [row["workbench_cpu_seconds"] / row["loop_cpu_seconds"] for row in rows]
    extra = [1000 * (row["workbench_seconds"] - row["loop_seconds"]) for row in rows]
    extra_cpu = [1000 * (row["workbench_cpu_seconds"] - row["loop_cpu_seconds"]) for row in rows]
    print(
        f"{rows[0]['case']:<12}{len(rows):>3}{spread([row['loop_seconds'] for row in rows]):>26}"
        f"{spread(wall, 3):>26}{spread(cpu, 3):>26}{spread(extra, 0):>26}{spread(extra_cpu, 0):>26}",
        flush=True,
    )
    return {
        "wall_ratio": round(statistics.median(wall), 4),
        "cpu_ratio": round(statistics.median(cpu), 4),
        "difference_ms": round(statistics.median(extra), 1),
        "cpu_difference_ms": round(statistics.median(extra_cpu), 1),
        "n": len(rows),
    }


def main() -> None:
    """Measures every case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", default=os.environ.get("WORKBENCH_DATA"), help="with cifar10/ and flowers/")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--only", nargs="+", help="these cases")
    parser.add_argument("--quick", action="store_true", help="embedded data, 5 pairs, short trials")
    parser.add_argument("--output", type=Path, help="CSV with one row a pair")
    parser.add_argument("--loop", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.loop:
        case, *where = arguments.loop
        serve_loop(Case(**json.loads(case)), where[0] if where else None)
        return
    announce(*PACKAGES)
    print(
        f"{'case':<12}{'n':>3}{'loop, seconds':>26}{'wall, workbench / loop':>26}{'CPU, workbench / loop':>26}"
        f"{'difference, ms':>26}{'difference, CPU ms':>26}"
    )
    rows: list[dict[str, Any]] = []
    found: dict[str, dict[str, float]] = {}
    for case in cases(arguments.quick):
        if arguments.only and case.name not in arguments.only:
            continue
        measured = measure(case, 5 if arguments.quick else arguments.pairs, arguments.data_dir)
        rows += measured
        found[case.name] = summary(measured)
    write_csv(rows, arguments.output)
    long = [figures for name, figures in found.items() if name != "fixed"]
    result: dict[str, Any] = {"benchmark": "overhead", "cases": found}
    if long:
        result["wall_ratio"] = max(figures["wall_ratio"] for figures in long)
        result["cpu_ratio"] = max(figures["cpu_ratio"] for figures in long)
    if "fixed" in found:
        result["fixed_ms"] = found["fixed"]["difference_ms"]
        result["fixed_cpu_ms"] = found["fixed"]["cpu_difference_ms"]
    print(json.dumps(result))


if __name__ == "__main__":
    main()
