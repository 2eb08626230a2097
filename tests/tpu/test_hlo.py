"""The compiler's estimate of cycles, from a program's text."""

from __future__ import annotations

from workbench.tpu.hlo import OTHERS, matrix_cycles

PROGRAM = """HloModule jit_step

%fused_computation.4 (param_0: bf16[8,8]) -> bf16[8,8] {
  ROOT %convolution.1 = bf16[8,8]{1,0} convolution(%a, %b), metadata={op_name="jit(_run)/jvp(conv2d_1)/conv"}
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


def test_fusions_with_matrix_products_are_summed_by_layer():
    assert matrix_cycles(PROGRAM) == {"conv2d_1": 70, OTHERS: 30}


def test_gradients_are_no_layers():
    assert matrix_cycles(PROGRAM.replace("jvp(conv2d_1)", "transpose(jvp(conv2d_1))")) == {OTHERS: 100}


def test_a_program_without_estimates_has_none():
    assert matrix_cycles(PROGRAM.replace("estimated_cycles", "other")) == {}
