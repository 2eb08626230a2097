"""Resident memory of a long search: driver plus worker at every 50th trial, and what replacing the worker costs.

    python benchmarks/memory.py [--trials 500] [--quick]

Runs `workbench search` on the embedded digits with a model of one hidden layer, one epoch a trial, and watches its
processes and its journal from outside. A figure is the peak over the ten trials up to the one named, so that it does
not depend on where in a trial the watcher looked. The last line of output is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

EVERY = 50
WINDOW = 10
LOOK_SECONDS = 0.05

DEFINITION = """
seed = 3
[dataset]
name = "digits"
limit = 200
[model]
name = "one_layer"
[schedule]
name = "constant"
[training]
epochs = 1
batch_size_per_replica = 50
[budget]
max_trials = {trials}
[tuner]
name = "random"
"""

PLUGIN = """
import workbench


@workbench.hookimpl
def workbench_models():
    return [workbench.Model(name="one_layer", summary="One hidden layer", build=build)]


def build(hp, image_shape, num_classes):
    import keras

    images = keras.Input(image_shape)
    x = keras.layers.Flatten()(images)
    x = keras.layers.Dense(hp.Int("units", 8, 4096), activation="relu")(x)
    return keras.Model(images, keras.layers.Dense(num_classes, activation="softmax")(x))
"""


@dataclass
class Watch:
    """What was seen of a running search.

    Attributes:
        peaks: trial number -> (driver, worker) peak resident memory in MiB between its result and the one before.
        pauses: trial number -> seconds from the result before it to its first trained epoch.
        workers: process IDs of the workers, in order.
    """

    peaks: dict[int, tuple[float, float]] = field(default_factory=dict)
    pauses: dict[int, float] = field(default_factory=dict)
    workers: list[int] = field(default_factory=list)
    replaced_before: set[int] = field(default_factory=set)


def resident_mib(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        return float(process.memory_info().rss) / 2**20
    return 0.0


def new_events(journal: Path) -> Iterator[list[str]]:
    """Names of the events appended since the last look, for ever."""
    position, rest = 0, b""
    while True:
        names: list[str] = []
        if journal.exists():
            with journal.open("rb") as file:
                file.seek(position)
                data = file.read()
            position += len(data)
            *lines, rest = (rest + data).split(b"\n")
            names = [json.loads(line)["event"] for line in lines]
        yield names


def watch(search: subprocess.Popen[bytes], journal: Path) -> Watch:
    """Looks at the search until it ends."""
    seen, driver = Watch(), psutil.Process(search.pid)
    done, ended_at, peak = 0, time.monotonic(), (0.0, 0.0)
    for names in new_events(journal):
        workers: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            workers = driver.children(recursive=True)
        for worker in workers:
            if worker.pid not in seen.workers:
                seen.workers.append(worker.pid)
                seen.replaced_before.add(done + 1)
        total = sum(resident_mib(worker) for worker in workers)
        now = (resident_mib(driver), total)
        if sum(now) > sum(peak):
            peak = now
        for name in names:
            if name == "epoch":
                seen.pauses[done + 1] = time.monotonic() - ended_at
            if name == "result":
                done, ended_at = done + 1, time.monotonic()
                seen.peaks[done] = peak
                if done % EVERY == 0:
                    driver_mib, worker_mib = highest(seen, done)
                    print(f"trial {done}: driver {driver_mib:.0f} MiB, worker {worker_mib:.0f} MiB", flush=True)
                peak = (0.0, 0.0)
        if search.poll() is not None:
            return seen
        time.sleep(LOOK_SECONDS)
    raise AssertionError("the events never end")


def highest(seen: Watch, trial: int) -> tuple[float, float]:
    """(driver, worker) where their sum was highest in the ten trials up to this one, in MiB."""
    window = [seen.peaks[number] for number in range(trial - WINDOW + 1, trial + 1) if number in seen.peaks]
    return max(window, key=sum)


def report(seen: Watch, trials: int, seconds: float) -> dict[str, object]:
    memory = {number: highest(seen, number) for number in range(EVERY, trials + 1, EVERY)}
    totals = {number: sum(pair) for number, pair in memory.items()}
    last, first = max(totals), min(totals)
    again = sorted(number for number in seen.replaced_before if 1 < number <= trials)
    usual = statistics.median(pause for number, pause in seen.pauses.items() if number not in again)
    costs = [seen.pauses[number] - usual for number in again if number in seen.pauses]
    return {
        "trials": trials,
        "seconds": round(seconds, 1),
        "resident_mib": {str(number): round(total, 1) for number, total in totals.items()},
        "driver_mib": {str(number): round(pair[0], 1) for number, pair in memory.items()},
        "worker_mib": {str(number): round(pair[1], 1) for number, pair in memory.items()},
        "ratio_last_to_50": round(totals[last] / totals[first], 4),
        "workers_recycled": len(again),
        "seconds_per_recycling": round(statistics.fmean(costs), 2) if costs else None,
        "seconds_before_first_epoch": round(usual, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Resident memory of driver plus worker over a long search.")
    parser.add_argument("--trials", type=int, default=500, help="a multiple of 50 (default 500)")
    parser.add_argument("--quick", action="store_true", help="100 trials")
    arguments = parser.parse_args()
    trials = 100 if arguments.quick else arguments.trials
    if trials < EVERY:
        parser.error(f"--trials must be {EVERY} or more; received {trials}")
    # Otherwise the search would outlive a benchmark that is ended.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        definition, plugin = folder / "memory.toml", folder / "one_layer.py"
        definition.write_text(DEFINITION.format(trials=trials))
        plugin.write_text(PLUGIN)
        code = "from workbench.cli import main; main()"
        options = ["--plugin", str(plugin), "--directory", str(folder), "--device", "cpu", "--quiet"]
        started = time.monotonic()
        search = subprocess.Popen(
            [sys.executable, "-c", code, "search", str(definition), *options], stdout=subprocess.DEVNULL
        )
        try:
            seen = watch(search, folder / "memory" / "journal.jsonl")
        finally:
            search.terminate()
            search.wait()
        if search.returncode != 0:
            raise SystemExit(f"the search ended with exit code {search.returncode}")
        result = report(seen, trials, time.monotonic() - started)
    print(
        f"memory at the last of {trials} trials is {result['ratio_last_to_50']} of that at trial 50; the worker was "
        f"replaced {result['workers_recycled']} times, {result['seconds_per_recycling']} s each"
    )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
