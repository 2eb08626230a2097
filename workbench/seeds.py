"""Independent random streams from one seed."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

CONFIRMATION = 1
"""Sets the streams of confirmations apart from those of searches."""


def execution_seed(seed: int, trial_id: str, execution: int) -> int:
    """The seed of one execution, 0 to 2**32 - 1: a stream of its own for each (study seed, trial, execution)."""
    return int(np.random.SeedSequence([seed, int(trial_id), execution]).generate_state(1)[0])


def confirmation_seed(seed: int, trial_id: str, execution: int, used: Collection[int] = ()) -> int:
    """As `execution_seed` for a retraining: from streams that no search draws from, and none of the seeds `used`."""
    # A spawn key, as entropy is padded with zeros: one more number in the list could meet another trial's stream.
    sequence = np.random.SeedSequence([seed, int(trial_id), execution], spawn_key=(CONFIRMATION,))
    drawn = sequence.generate_state(len(used) + 1)
    return next(int(word) for word in drawn if int(word) not in used)
