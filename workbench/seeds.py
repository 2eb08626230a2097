"""Independent random streams from one seed."""

from __future__ import annotations

import numpy as np


def execution_seed(seed: int, trial_id: str, execution: int) -> int:
    """The seed of one execution, 0 to 2**32 - 1: a stream of its own for each (study seed, trial, execution)."""
    return int(np.random.SeedSequence([seed, int(trial_id), execution]).generate_state(1)[0])
