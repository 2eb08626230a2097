"""What follows from the number of replicas: batch sizes, the learning rates' factor, advice."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import UsageError

if TYPE_CHECKING:
    from workbench.definition import Definition

_LEAST, _BEST = 8, 128
"""A TPU pads each core's part of a batch to a multiple of 8, and of 128 where the layout puts it in the lanes."""


@dataclass(frozen=True, kw_only=True)
class Batches:
    """The batches of a study on so many replicas.

    Attributes:
        global_batch_size: images a step, over all replicas.
        batch_size_per_replica: images a step and replica.
        learning_rate_factor: what the schedule's rates are multiplied by.
        advice: what a person might do better, one line each.
    """

    global_batch_size: int
    batch_size_per_replica: int
    learning_rate_factor: float = 1.0
    advice: tuple[str, ...] = ()


def plan_batches(definition: Definition, replicas: int, device: str) -> Batches:
    """The batches of a definition on so many replicas of a device ("tpu", "gpu", "cpu").

    The factor is 1, the number of replicas (linear: Goyal et al. 2017, arXiv:1706.02677) or its square root
    (Krizhevsky 2014, arXiv:1404.5997), as `training.learning_rate_scaling` says. Their warm-up is the schedule's.

    Raises:
        UsageError: the replicas do not divide `training.global_batch_size`.
    """
    training = definition.training
    total = training.global_batch_size
    if total is None:
        total = (training.batch_size_per_replica or 1) * replicas
    share, rest = divmod(total, replicas)
    if rest or not share:
        near = max(replicas, round(total / replicas) * replicas)
        raise UsageError(
            f"training.global_batch_size must be a multiple of the {replicas} replicas, so that each gets as many "
            f"images; received {total}. The nearest is {near}: --set training.global_batch_size={near}"
        )
    factors = {"none": 1.0, "linear": float(replicas), "sqrt": math.sqrt(replicas)}
    return Batches(
        global_batch_size=total,
        batch_size_per_replica=share,
        learning_rate_factor=factors[training.learning_rate_scaling],
        advice=_advice(share) if device == "tpu" else (),
    )


def _advice(share: int) -> tuple[str, ...]:
    if share % _LEAST:
        wrong = f"not a multiple of {_LEAST}: a TPU pads it to {-(-share // _LEAST) * _LEAST}"
    elif share % _BEST:
        wrong = f"not a multiple of {_BEST}, with which a TPU's lanes are full in every layout"
    else:
        return ()
    return (f"advice: {share} images a step and core are {wrong}; {-(-share // _BEST) * _BEST} may cost no more time",)
