"""The compiler's estimate of cycles, from a program's text."""

from __future__ import annotations

from workbench.tpu.hlo import matrix_cycles

PROGRAM = """HloModule jit_step

%fused_computation.4 (param_0: bf16[8,8]) -> bf16[8,8] {
  ROOT %convolution.1 = bf16[8,8]{1,0} convolution(%a, %b), dim_labels=bf_io->bf
}

%fused_computation.5 (param_0: bf16[8,8]) -> bf16[8,8] {
  ROOT %add.1 = bf16[8,8]{1,0} add(%a, %b)
}

ENTRY %main (p: bf16[8,8]) -> bf16[8,8] {
  %one = bf16[8,8]{1,0} fusion(%p), kind=kOutput, calls=%fused_computation.4, backend_config={"estimated_cycles":"70"}
  %two = bf16[8,8]{1,0} fusion(%one), kind=kLoop, calls=%fused_computation.5, backend_config={"estimated_cycles":"9"}
  ROOT %three = bf16[8,8]{1,0} convolution(%two, %p), backend_config={"estimated_cycles":"30"}
}
"""


def test_fusions_with_matrix_products_are_summed():
    assert matrix_cycles(PROGRAM) == 100


def test_a_program_without_estimates_has_none():
    assert matrix_cycles(PROGRAM.replace("estimated_cycles", "other")) is None
