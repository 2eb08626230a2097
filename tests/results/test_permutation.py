"""Importances in another process."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.results.permutation import Problem, Solver


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    first, second = rng.random((40, 1)), rng.random((40, 1))
    everywhere = np.ones(40, dtype=bool)
    return Problem([(first, everywhere), (second, everywhere)], first[:, 0] ** 2, repeats=1, trees=8, seed=3)


def test_what_decides_the_score_is_important(problem):
    r2, falls = problem.solve()
    assert r2.shape == (5,)
    assert falls.shape == (5, 2)
    assert falls.mean(axis=0)[0] > 0.5 > abs(falls.mean(axis=0)[1])


def test_the_other_process_says_the_same(problem):
    with Solver() as solver:
        results = [solver.submit(problem) for _ in range(2)]
        for result in results:
            for found, expected in zip(result.result(timeout=120), problem.solve(), strict=True):
                np.testing.assert_array_equal(found, expected)


def test_a_process_that_died_leaves_the_work_to_this_one(problem):
    with Solver() as solver:
        solver._child.kill()
        solver._child.wait()
        found, _ = solver.submit(problem).result(timeout=120)
    np.testing.assert_array_equal(found, problem.solve()[0])
