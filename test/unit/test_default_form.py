"""By default, a program is estimated as what XLA makes of it, whatever ops it has."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples

import hespas
from hespas.dialects.xla import find_gpu_library

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_gpu_library() is None, reason="pip install 'hespas[gpu-compiler]'"),
]

# XLA:GPU makes one dense product of a ragged one: 75 ms were measured on a B200
# (marin-community/marin#7012, jaxlib 0.10). A grouped kernel would take 1.3 ms.
RAGGED = """
func.func @main(%x: tensor<262144x2560xbf16>, %w: tensor<64x2560x1280xbf16>, %n: tensor<64xi32>)
    -> tensor<262144x1280xbf16> {
  %0 = "chlo.ragged_dot"(%x, %w, %n) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<
      lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1],
      lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}>
    : (tensor<262144x2560xbf16>, tensor<64x2560x1280xbf16>, tensor<64xi32>)
    -> tensor<262144x1280xbf16>
  return %0 : tensor<262144x1280xbf16>
}
"""
# XLA:GPU transposes NHWC to NCHW for convolutions in f32 (keras-team/keras#20471).
POINTWISE = """
func.func @main(%x: tensor<32x64x64x512xf32>, %k: tensor<1x1x512x128xf32>)
    -> tensor<32x64x64x128xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<32x64x64x512xf32>, tensor<1x1x512x128xf32>) -> tensor<32x64x64x128xf32>
  return %0 : tensor<32x64x64x128xf32>
}
"""
# XLA fills the gaps of a dilated kernel with zeros where the padding is not symmetric
# (jax-ml/jax#26266: the time grows with the dilation).
DILATED = """
func.func @main(%x: tensor<32x1024x256xf32>, %k: tensor<64x256x256xf32>)
    -> tensor<32x1024x256xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
    window = {pad = [[504, 0]], rhs_dilate = [8]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<32x1024x256xf32>, tensor<64x256x256xf32>) -> tensor<32x1024x256xf32>
  return %0 : tensor<32x1024x256xf32>
}
"""


@pytest.mark.parametrize(
    ("program", "node", "compiled_ms", "plain_ms"),
    [
        (RAGGED, "B200_180GB", 92.6, 1.31),
        (POINTWISE, "A100_PCIe_80GB", 0.699, 0.293),
        (DILATED, "A100_SXM_40GB", 16.5, 1.57),
    ],
    ids=["ragged", "pointwise", "dilated"],
)
def test_single_ops_that_xla_rewrites(program, node, compiled_ms, plain_ms):
    result = hespas.estimate(program, target=node)
    assert result.summary.form.startswith(f"compiled by XLA for {node}")
    assert 1e3 * result.compute_s == pytest.approx(compiled_ms, rel=0.01)
    plain = hespas.estimate(program, target=node, form="as-is")
    assert 1e3 * plain.compute_s == pytest.approx(plain_ms, rel=0.01)


def test_collectives_of_products_start_early():
    """A program of products and sums alone: XLA sums each gradient while it computes the next."""
    result, plain = (
        hespas.estimate(_write_gradients(4), target="H100_80GB", system="HGX_H100_8", form=form)
        for form in (None, "as-is")
    )
    assert result.step_time_s < plain.step_time_s - 0.5 * 2 * 4096 * 4096 / 450e9


def _write_gradients(count: int) -> str:
    """A program that computes gradients of weights and sums each over eight devices."""
    big, weight = "tensor<16384x4096xbf16>", "tensor<4096x4096xbf16>"
    lines = []
    for i in range(count):
        lines.append(
            f"%d{i} = stablehlo.dot_general %x{i}, %g, contracting_dims = [0] x [0] "
            f": ({big}, {big}) -> {weight}"
        )
        lines.append(
            f'%s{i} = "stablehlo.all_reduce"(%d{i}) <{{'
            f"channel_handle = #stablehlo.channel_handle<handle = {i + 1}, type = 1>, "
            "replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, "
            "use_global_device_ids}> ({\n"
            "^bb0(%a: tensor<bf16>, %b: tensor<bf16>):\n"
            "%c = stablehlo.add %a, %b : tensor<bf16>\n"
            f"stablehlo.return %c : tensor<bf16>\n}}) : ({weight}) -> {weight}"
        )
    arguments = ", ".join([*(f"%x{i}: {big}" for i in range(count)), f"%g: {big}"])
    results = ", ".join(f"%s{i}" for i in range(count))
    types = ", ".join([weight] * count)
    body = "\n".join(lines)
    return (
        "module attributes {mhlo.num_partitions = 8 : i32} {\n"
        f"func.func @main({arguments}) -> ({types}) {{\n{body}\nreturn {results} : {types}\n}}\n}}"
    )


SQUARE = "tensor<96x96xf32>"
STEPS = {
    "tanh": "stablehlo.tanh %a : T",
    "add": "stablehlo.add %a, %b : T",
    "transpose": "stablehlo.transpose %a, dims = [1, 0] : (T) -> T",
    "dot": "stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (T, T) -> T",
    "reverse": "stablehlo.reverse %a, dims = [0] : T",
    "slice": "stablehlo.dynamic_update_slice %a, %b, %zero, %zero : "
    "(T, T, tensor<i32>, tensor<i32>) -> T",
    "sort": '"stablehlo.sort"(%a) <{dimension = 1 : i64}> ({\n'
    "^bb0(%p: tensor<f32>, %q: tensor<f32>):\n"
    "%r = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
    "stablehlo.return %r : tensor<i1>\n}) : (T) -> T",
}


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A program of one to four ops, each of which reads two earlier values or one."""
    count = draw(st.integers(1, 4))
    lines = ["%zero = stablehlo.constant dense<0> : tensor<i32>"]
    values = ["%x", "%y"]
    for i in range(count):
        step = STEPS[draw(st.sampled_from(list(STEPS)))]
        for name in ("%a", "%b"):
            step = step.replace(name, draw(st.sampled_from(values)))
        step = re.sub(r"\bT\b", SQUARE, step)
        lines.append(f"%v{i} = {step}")
        values.append(f"%v{i}")
    body = "\n".join(lines)
    return (
        f"func.func @main(%x: {SQUARE}, %y: {SQUARE}) -> {SQUARE} {{\n{body}\n"
        f"return {values[-1]} : {SQUARE}\n}}"
    )


@draw_examples(24)
@given(programs())
def test_the_default_is_what_xla_makes(program):
    default, compiled = (
        hespas.estimate(program, target="A100_SXM_40GB", form=form) for form in (None, "xla")
    )
    assert default.summary.form == compiled.summary.form
    assert default.compute_s == compiled.compute_s
    assert default.memory == compiled.memory
    assert default.warnings == compiled.warnings
