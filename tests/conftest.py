"""What tests of several parts share: a tiny plugin, tiny definitions, journals written as searches write them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from workbench.definition import Definition, definition_from_dict
from workbench.directory import StudyDirectory
from workbench.registry import Registry
from workbench.study import Study, open_study

# How fast examples are made and run depends on what else the machine does: no reason to fail.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")

TINY_PLUGIN = Path(__file__).parent / "support" / "tiny_plugin.py"


@pytest.fixture(scope="session", autouse=True)
def _environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A data cache of the tests' own, and none of the user's settings."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("WORKBENCH_") and name != "WORKBENCH_DATA"]:
            patch.delenv(name)
        patch.setenv("WORKBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
        yield


@pytest.fixture(scope="session")
def tiny_plugin() -> Path:
    """A plugin file with the models `tiny` and `fragile`."""
    return TINY_PLUGIN


@pytest.fixture(scope="session")
def tiny_registry() -> Registry:
    """The built-in plugins and the tiny one."""
    return Registry.load([TINY_PLUGIN], environ={})


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    result = {key: value for key, value in base.items() if not (key == "name" and "names" in changes)}
    for key, value in changes.items():
        old = result.get(key)
        result[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
    return result


@pytest.fixture(scope="session")
def tiny_tables() -> Callable[..., dict[str, Any]]:
    """`tiny_tables(**changes)`: the tables of a search that takes a second a trial; tables are merged."""

    def make(**changes: Any) -> dict[str, Any]:
        base = {
            "seed": 5,
            "dataset": {"name": "digits", "limit": 200},
            "model": {"name": "tiny"},
            "schedule": {"name": "constant", "space": {"*": "default"}},
            "training": {"epochs": 1, "batch_size_per_replica": 50, "space": {"*": "default"}},
            "budget": {"max_trials": 2},
        }
        return _merged(base, changes)

    return make


@pytest.fixture(scope="session")
def tiny_definition(tiny_tables: Callable[..., dict[str, Any]]) -> Callable[..., Definition]:
    """As `tiny_tables`, as a definition."""
    return lambda **changes: definition_from_dict(tiny_tables(**changes))


@pytest.fixture(scope="session")
def write_study(tiny_definition: Callable[..., Definition]) -> Callable[..., Study]:
    """`write_study(path, trials, ...)`: a study whose journal says what a search would have written.

    A trial is a mapping with `values`, `scores` (a list of the objective by epoch for each execution) and, where
    they differ from the defaults, `status` (None: no result was written), `rung`, `parameters`, `error`.
    """

    def write(
        path: Path,
        trials: Sequence[Mapping[str, Any]],
        *,
        metric: str = "val_accuracy",
        direction: str = "max",
        extra: Sequence[tuple[str, Mapping[str, Any]]] = (),
        **changes: Any,
    ) -> Study:
        place = StudyDirectory(path)
        changes = _merged({"objective": {"metric": metric, "direction": direction}}, changes)
        with place.lock(), place.begin(tiny_definition(**changes)) as journal:
            journal.append("session", at="2026-01-02T03:04:05+00:00", pid=1, host="here")
            journal.append("space", metric=metric, direction=direction, facts={}, space={}, enqueued=[], split="train")
            for number, trial in enumerate(trials, start=1):
                _write_trial(journal.append, f"{number:04d}", trial, metric)
            for event, fields in extra:
                journal.append(event, **fields)
        return open_study(path)

    return write


def _write_trial(append: Callable[..., Any], trial_id: str, trial: Mapping[str, Any], metric: str) -> None:
    scores = trial["scores"]
    append(
        "proposal",
        trial_id=trial_id,
        values=trial["values"],
        epochs=max(map(len, scores), default=1),
        bracket=None,
        rung=trial.get("rung"),
        at="2026-01-02T03:04:06+00:00",
    )
    for execution, values in enumerate(scores, start=1):
        append(
            "attempt", trial_id=trial_id, execution=execution, seed=execution, from_epoch=0, device="cpu", replicas=1
        )
        append("model", trial_id=trial_id, parameters=trial.get("parameters", 100), flops=2000)
        for epoch, value in enumerate(values, start=1):
            append(
                "epoch",
                trial_id=trial_id,
                execution=execution,
                epoch=epoch,
                metrics={"loss": 1.0 / epoch, metric: value},
                learning_rate=0.001,
                seconds=2.0,
                step_ms=100.0 if epoch == 1 else 10.0,
                images_per_s=50.0 if epoch == 1 else 500.0,
                first=epoch == 1,
            )
    status = trial.get("status", "completed")
    if status is not None:
        best = [max(values) for values in scores if values]
        score = sum(best) / len(best) if best and status != "failed" else None
        append("result", trial_id=trial_id, status=status, score=score, error=trial.get("error"))


@pytest.fixture(scope="session")
def write_confirmation(write_study: Callable[..., Study]) -> Callable[..., Study]:
    """`write_confirmation(study, runs, ...)`: a study's confirmation as its journal would say it.

    `runs` maps candidates to (validation score, test accuracy or None) for each retraining; None for one that failed.
    A test is of 100 images of the classes "a" and "b", half each, with every error on "b".
    """

    def write(
        study: Study,
        runs: Mapping[str, Sequence[tuple[float, float | None] | None]],
        *,
        splits: Sequence[str] = ("train", "validation", "test"),
        seeds: int | None = None,
        **arguments: Any,
    ) -> Study:
        trials, tests = [], []
        for trial_id, own in runs.items():
            for run in own:
                failed = {"status": "failed", "error": "ValueError: no"} if run is None else {}
                scores = [[run[0]]] if run is not None else [[]]
                trials.append({"values": study.history.trials[trial_id].values, "scores": scores, **failed})
                if run is not None and run[1] is not None:
                    errors = round(100 * (1 - run[1]))
                    metrics = {"loss": 0.1, "accuracy": run[1], "macro_f1": run[1] - 0.01}
                    confusion = [[50, 0], [errors, 50 - errors]]
                    tests.append({"trial_id": f"{len(trials):04d}", "metrics": metrics, "confusion": confusion})
        facts = {"dataset": "digits", "class_names": ["a", "b"], "counts": dict.fromkeys(splits, 100)}
        space = {"metric": study.metric, "direction": study.direction, "facts": facts, "split": "train"}
        asked = [{"trial_id": name, "values": study.history.trials[name].values} for name in runs]
        longest = max(map(len, runs.values()))
        write_study(
            study.path / "confirm",
            trials,
            extra=[
                ("space", space),
                ("candidates", {"candidates": asked, "seeds": longest if seeds is None else seeds}),
                *(("test", test) for test in tests),
            ],
            **{"metric": study.metric, "direction": study.direction, **arguments},
        )
        return open_study(study.path)

    return write


@pytest.fixture(scope="session")
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """`run_python(code, *arguments, **environment)`: a fresh interpreter, ended after two minutes."""

    def run(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, **environment},
            check=False,
        )

    return run


@pytest.fixture
def start_python() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`start_python(code, *arguments)`: a fresh interpreter with pipes, killed at the test's end."""
    with contextlib.ExitStack() as stack:

        def start(code: str, *arguments: str) -> subprocess.Popen[str]:
            child = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", code, *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(child.kill)
            return child

        yield start
