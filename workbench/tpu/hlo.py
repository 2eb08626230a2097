"""What a compiled program for TPU says of its matrix products: the compiler's own estimate of their cycles.

Read from the text of the optimised program, whose `backend_config` is not documented: for studying the rules of tier 1
(see benchmarks/tpu_check.py), never shown and never ranked on.
"""

from __future__ import annotations

import re

_COMPUTATION = re.compile(r"^(?:ENTRY )?%(\S+) \(")
_CALLS = re.compile(r"calls=%([\w.\-]+)")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_PRODUCT = re.compile(r" (?:convolution|dot)\(")


def matrix_cycles(text: str) -> int | None:
    """Estimated cycles of one core in all fusions that hold a convolution or matrix product; None if it names none.

    Args:
        text: the optimised program, as `jax.stages.Compiled.as_text()` gives it.
    """
    lines = text.split("\n")
    holders, name = set(), ""
    for line in lines:
        begun = _COMPUTATION.match(line)
        if begun:
            name = begun[1]
        if _PRODUCT.search(line):
            holders.add(name)
    found = []
    for line in lines:
        cycles, calls = _CYCLES.search(line), _CALLS.search(line)
        if cycles and (_PRODUCT.search(line) or (calls and calls[1] in holders)):
            found.append(int(cycles[1]))
    return sum(found) if found else None
