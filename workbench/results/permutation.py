"""Permutation importance by cross-validation, here or in a process beside this one.

scikit-learn takes longer to import than a study of ten thousand trials to read. The report starts
`python -m workbench.results.permutation` first, which imports it while the study is read and computes while figures
are drawn.
"""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType

import numpy as np

FOLDS = 5
PERMUTATIONS = 3


@dataclass(frozen=True)
class Problem:
    """What is to be explained, and by what.

    Attributes:
        groups: for each hyperparameter, float columns `(trials, columns)` and whether it is active, bool `(trials,)`.
        scores: float64 `(trials,)`.
        repeats: how many times the folds are drawn.
        trees: of each forest.
        seed: of folds, forests and permutations.
    """

    groups: Sequence[tuple[np.ndarray, np.ndarray]]
    scores: np.ndarray
    repeats: int
    trees: int
    seed: int

    def solve(self) -> tuple[np.ndarray, np.ndarray]:
        """R^2 `(folds,)` and falls of R^2 `(folds, hyperparameters)`, measured on held-out trials."""
        from sklearn.ensemble import RandomForestRegressor
        from sklearn.model_selection import RepeatedKFold

        inputs = np.concatenate([columns for columns, _ in self.groups], axis=1).astype(np.float32)
        ends = np.cumsum([columns.shape[1] for columns, _ in self.groups])
        places = [slice(end - columns.shape[1], end) for end, (columns, _) in zip(ends, self.groups, strict=True)]
        rng = np.random.default_rng(self.seed)
        splits = RepeatedKFold(n_splits=FOLDS, n_repeats=self.repeats, random_state=self.seed)
        all_scores, all_falls = [], []
        for train, test in splits.split(inputs):
            forest = RandomForestRegressor(
                n_estimators=self.trees, min_samples_leaf=2, max_features=0.5, random_state=self.seed
            )
            forest.fit(inputs[train], self.scores[train])
            variants = [inputs[test]]
            for place, (_, is_active) in zip(places, self.groups, strict=True):
                rows = np.flatnonzero(is_active[test])
                for _ in range(PERMUTATIONS):
                    shuffled = inputs[test].copy()
                    shuffled[rows, place] = shuffled[rng.permutation(rows), place]
                    variants.append(shuffled)
            # One call for all of them: a forest's prediction costs mostly per call.
            predicted = forest.predict(np.concatenate(variants)).reshape(len(variants), len(test))
            # Against the variance of all scores: that of a small fold may be next to nothing.
            r2 = 1 - ((predicted - self.scores[test]) ** 2).mean(axis=1) / self.scores.var()
            all_scores.append(r2[0])
            all_falls.append(r2[0] - r2[1:].reshape(len(self.groups), PERMUTATIONS).mean(axis=1))
        return np.array(all_scores), np.array(all_falls)


class Solver:
    """A process that solves problems, one after the other; a context manager that ends it."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "workbench.results.permutation"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        # A thread, as the pipe holds less than a problem until the child reads.
        self._thread = ThreadPoolExecutor(max_workers=1)

    def submit(self, problem: Problem) -> Future[tuple[np.ndarray, np.ndarray]]:
        """`problem.solve()`, later; by this process if the other one has died."""
        return self._thread.submit(self._solve, problem)

    def _solve(self, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        source, sink = self._child.stdout, self._child.stdin
        with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
            if source is not None and sink is not None:
                pickle.dump(problem, sink)
                sink.flush()
                solved: tuple[np.ndarray, np.ndarray] = pickle.load(source)  # written by our own child
                return solved
        return problem.solve()

    def __enter__(self) -> Solver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.kill()
        self._thread.shutdown(cancel_futures=True)
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._child.wait()


def serve() -> None:
    """Solves what comes on standard input until it ends."""
    import sklearn.ensemble
    import sklearn.model_selection  # noqa: F401  # imported now, while there is nothing to solve yet

    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            problem: Problem = pickle.load(sys.stdin.buffer)  # written by our own parent
            pickle.dump(problem.solve(), sys.stdout.buffer)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    # By its own name: what is pickled names the module, which is not `__main__` on the other side.
    from workbench.results import permutation

    permutation.serve()
