"""The table of TPUs."""

from __future__ import annotations

import math

import pytest

from workbench.errors import UsageError
from workbench.tpu.chips import TOPOLOGIES, find_topology


@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_facts_agree_with_each_other(topology):
    version, _, grid = topology.compiler_name.partition(":")
    assert topology.name.startswith(f"{version}-")
    # These show both cores of each chip.
    per_chip = 2 if version in ("v2", "v3", "v4") else 1
    assert topology.cores == per_chip * math.prod(int(side) for side in grid.split("x"))
    # At a clock near 1 GHz, the units' multiply-adds give the rate.
    clock = topology.peak_tflops * 1e12 / (2 * topology.units * topology.unit**2)
    assert 0.6e9 < clock < 2e9 or version == "v6e"
    assert 60 < topology.ridge < 600


def test_unknown_topologies_are_refused_with_near_names():
    with pytest.raises(UsageError, match=r"must be one of v2-8, .*; received 'v5-8'.*'v5e-8'"):
        find_topology("v5-8")
