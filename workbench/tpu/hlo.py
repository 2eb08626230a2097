"""What a compiled program for TPU says of its matrix products: the compiler's own estimate of their cycles.

Read from the text of the optimised program, whose `backend_config` is not documented: for studying the rules of tier 1
(see benchmarks/tpu_check.py), never shown and never ranked on.
"""

from __future__ import annotations

import re
from collections import defaultdict

_COMPUTATION = re.compile(r"^(?:ENTRY )?%(\S+) \(")
_CALLS = re.compile(r"calls=%([\w.\-]+)")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_PRODUCT = re.compile(r" (?:convolution|dot)\(")
_FORWARD = re.compile(r'op_name="[^"]*/jvp\(([^()"]+)\)/')

OTHERS = ""
"""The key of products that are not one layer's forward pass: gradients, mostly."""


def matrix_cycles(text: str) -> dict[str, int]:
    """Estimated cycles of one core in the fusions that hold a convolution or matrix product, by layer.

    Args:
        text: the optimised program, as `jax.stages.Compiled.as_text()` gives it.

    Returns:
        For each layer those of its forward pass, and everything else under `OTHERS`; empty if none are named.
    """
    lines = text.split("\n")
    holders: dict[str, str] = {}
    name = ""
    for line in lines:
        begun = _COMPUTATION.match(line)
        if begun:
            name = begun[1]
        if _PRODUCT.search(line):
            holders[name] = _layer_of(line)
    found: dict[str, int] = defaultdict(int)
    for line in lines:
        cycles, calls = _CYCLES.search(line), _CALLS.search(line)
        if cycles and _PRODUCT.search(line):
            found[_layer_of(line)] += int(cycles[1])
        elif cycles and calls and calls[1] in holders:
            found[holders[calls[1]]] += int(cycles[1])
    return dict(found)


def _layer_of(line: str) -> str:
    found = _FORWARD.search(line)
    return found[1] if found else OTHERS
