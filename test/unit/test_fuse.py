"""Fusing: the fused program computes the same, and is what XLA makes of the same module."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.budgets import draw_examples, thin_out
from support.execution import assert_same_results, execute, put_fusions_in_place
from support.paths import ROOT

from hespas import frontends, passes
from hespas.dialects.attrs import CommAttr
from hespas.dialects.mlir import ir, make_context
from hespas.dialects.op_kinds import find_entry_function
from hespas.estimators.work import compute_op_work, find_cost_rule
from hespas.passes.base import PassRun
from hespas.passes.fuse.dependency_order import DependencyOrder, order_topologically
from hespas.passes.fuse.split_reductions import choose_part_count

PROGRAMS = [
    "adamw_update", "collectives_all", "control_flow", "conv_variants_spatial", "elementwise_all",
    "gnn_message_passing", "lstm_scan", "mlp_fsdp_tp_grad", "moe_einsum_gspmd", "pooling_windows",
    "reshard_transpose", "rng_dropout", "shape_ops", "sort_topk", "zero_rs_ag",
]  # fmt: skip
COMPARED = [  # with what XLA makes of them
    ("llama3/llama3-100m", "opt-a100"),
    ("llama3/llama3-1b", "opt-a100"),
    ("resnet/resnet18_train_4_devices", "opt-cudnn-a100"),
    ("resnet/resnet18_inference_4_devices", "opt-cudnn-a100"),
    ("resnet/resnet50_inference_4_devices", "opt-cudnn-a100"),
    ("resnet/resnet50_train_4_devices", "opt-cudnn-a100"),
    ("llama3/llama3-500m", "opt-a100"),
]
PAGE = ROOT / "docs" / "reference" / "fusion.md"


def assert_same(module: ir.Module, plain: ir.Module, devices: int, tolerance: float) -> None:
    assert_same_results(
        execute(module, devices),
        execute(plain, devices),
        rtol=tolerance,
        atol_of_largest=tolerance / 10,
    )


def assert_rewrite_computes_the_same(program: str, pipeline: str, tolerance: float) -> None:
    context = make_context()
    module, plain = ir.Module.parse(program, context), ir.Module.parse(program, context)
    passes.run_pipeline(module, pipeline)
    assert_same(module, plain, 1, tolerance=tolerance)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("program", thin_out(PROGRAMS, 2))
def test_fused_programs_compute_the_same(program, workload, context):
    path = str(workload(f"zoo/{program}/spmd.mlir"))
    plain = frontends.read_module(path, context)
    passes.run_pipeline(plain, "prepare")
    module = frontends.read_module(path, context)
    passes.run_pipeline(module, "fuse")
    put_fusions_in_place(module)
    assert_same(module, plain, 8, tolerance=2e-2)


BLOCK = """
module @block attributes {mhlo.num_replicas = 4 : i32,
    mhlo.use_auto_spmd_partitioning = false} {
  func.func private @relu(%x: tensor<64x128xf32>) -> tensor<64x128xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<64x128xf32>
    %0 = stablehlo.maximum %x, %zero : tensor<64x128xf32>
    return %0 : tensor<64x128xf32>
  }
  func.func public @main(%x: tensor<64x128xf32>, %q: tensor<32x128xf32>, %k: tensor<128x32xf32>,
      %v: tensor<128x4x32xf32>, %g: tensor<128xf32>) -> (tensor<64x128xf32>, tensor<64x128xf32>,
      tensor<f32>, tensor<32x128xf32>, tensor<64x64xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %ninf = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %n = stablehlo.constant dense<0.0078125> : tensor<64xf32>
    %eps = stablehlo.constant dense<1.0e-3> : tensor<64xf32>
    %scale = stablehlo.constant dense<0.01> : tensor<64x128xf32>
    // layer norm
    %0 = stablehlo.multiply %x, %x : tensor<64x128xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<64x128xf32>, tensor<f32>) -> tensor<64xf32>
    %2 = stablehlo.multiply %1, %n : tensor<64xf32>
    %3 = stablehlo.add %2, %eps : tensor<64xf32>
    %4 = stablehlo.rsqrt %3 : tensor<64xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<64xf32>) -> tensor<64x128xf32>
    %6 = stablehlo.multiply %x, %5 : tensor<64x128xf32>
    %7 = stablehlo.broadcast_in_dim %g, dims = [1] : (tensor<128xf32>) -> tensor<64x128xf32>
    %8 = stablehlo.multiply %6, %7 : tensor<64x128xf32>
    // gathered weights along either dimension, three products of one operand
    %wq = "stablehlo.all_gather"(%q) <{all_gather_dim = 0 : i64,
      replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}>
      : (tensor<32x128xf32>) -> tensor<128x128xf32>
    %wk = "stablehlo.all_gather"(%k) <{all_gather_dim = 1 : i64,
      replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}>
      : (tensor<128x32xf32>) -> tensor<128x128xf32>
    %a = stablehlo.dot_general %8, %wq, contracting_dims = [1] x [0]
      : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
    %b = stablehlo.dot_general %8, %wk, contracting_dims = [1] x [0]
      : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
    %c4 = stablehlo.dot_general %8, %v, contracting_dims = [1] x [0]
      : (tensor<64x128xf32>, tensor<128x4x32xf32>) -> tensor<64x4x32xf32>
    %c = stablehlo.reshape %c4 : (tensor<64x4x32xf32>) -> tensor<64x128xf32>
    // softmax of scaled scores
    %s = stablehlo.dot_general %a, %b, contracting_dims = [1] x [1]
      : (tensor<64x128xf32>, tensor<64x128xf32>) -> tensor<64x64xf32>
    %t = stablehlo.constant dense<0.001> : tensor<64x64xf32>
    %10 = stablehlo.multiply %s, %t : tensor<64x64xf32>
    %11 = stablehlo.reduce(%10 init: %ninf) applies stablehlo.maximum across dimensions = [1]
      : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<64xf32>) -> tensor<64x64xf32>
    %13 = stablehlo.subtract %10, %12 : tensor<64x64xf32>
    %14 = stablehlo.exponential %13 : tensor<64x64xf32>
    %15 = stablehlo.reduce(%14 init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0] : (tensor<64xf32>) -> tensor<64x64xf32>
    %17 = stablehlo.divide %14, %16 : tensor<64x64xf32>
    %18 = stablehlo.dot_general %17, %c, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64x128xf32>) -> tensor<64x128xf32>
    %19 = stablehlo.add %x, %18 : tensor<64x128xf32>
    %20 = func.call @relu(%19) : (tensor<64x128xf32>) -> tensor<64x128xf32>
    %21 = func.call @relu(%8) : (tensor<64x128xf32>) -> tensor<64x128xf32>
    // reductions in two steps, of the program's devices, and of one each
    %22 = stablehlo.broadcast_in_dim %19, dims = [1, 2]
      : (tensor<64x128xf32>) -> tensor<5x64x128xf32>
    %23 = stablehlo.reduce(%22 init: %zero) applies stablehlo.add across dimensions = [0, 1, 2]
      : (tensor<5x64x128xf32>, tensor<f32>) -> tensor<f32>
    %24 = "stablehlo.all_reduce"(%23) <{
      replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %sum = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %sum : tensor<f32>
    }) : (tensor<f32>) -> tensor<f32>
    %w = stablehlo.dot_general %8, %20, contracting_dims = [0] x [0]
      : (tensor<64x128xf32>, tensor<64x128xf32>) -> tensor<128x128xf32>
    %25 = "stablehlo.all_reduce"(%w) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %sum = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %sum : tensor<f32>
    }) : (tensor<128x128xf32>) -> tensor<128x128xf32>
    %id = stablehlo.replica_id : tensor<ui32>
    %size = stablehlo.constant dense<32> : tensor<ui32>
    %start = stablehlo.multiply %id, %size : tensor<ui32>
    %from = stablehlo.convert %start : (tensor<ui32>) -> tensor<i32>
    %first = stablehlo.constant dense<0> : tensor<i32>
    %26 = stablehlo.dynamic_slice %25, %from, %first, sizes = [32, 128]
      : (tensor<128x128xf32>, tensor<i32>, tensor<i32>) -> tensor<32x128xf32>
    %27 = stablehlo.multiply %20, %scale : tensor<64x128xf32>
    return %27, %21, %24, %26, %17
      : tensor<64x128xf32>, tensor<64x128xf32>, tensor<f32>, tensor<32x128xf32>, tensor<64x64xf32>
  }
}
"""


def test_a_block_with_every_rewrite_computes_the_same(parse):
    plain = parse(BLOCK)
    module = parse(BLOCK)
    passes.run_pipeline(module, "fuse")
    text = str(module)
    assert "kCustom" in text and "reduce_scatter" in text and "call" not in text
    assert text.count("stablehlo.dot_general") == 4  # of six
    assert text.count('= "stablehlo.all_gather"') == 1
    put_fusions_in_place(module)
    assert_same(module, plain, 4, tolerance=1e-3)


ATTRIBUTES = "#chlo.ragged_dot<lhs_contracting_dimensions = [{}], rhs_contracting_dimensions = [{}]"


@pytest.mark.parametrize("kind", ["f32", "bf16", "i32"])
def test_ragged_products_compute_the_same(parse, kind):
    """The reference is numpy: rows 0 and 1 have group 0, row 2 group 2, the others none."""
    rows, weights, out = f"tensor<5x4x{kind}>", f"tensor<3x4x6x{kind}>", f"tensor<5x6x{kind}>"
    second, sums = f"tensor<5x6x{kind}>", f"tensor<3x4x6x{kind}>"
    sizes = "tensor<3xi32>"
    dims = "lhs_ragged_dimensions = [0]"
    module = parse(f"""
    func.func public @main(%x: {rows}, %w: {weights}, %g: {second})
        -> ({out}, {sums}, {rows}, {weights}, {second}) {{
      %s = stablehlo.constant dense<[2, 0, 1]> : {sizes}
      %0 = "chlo.ragged_dot"(%x, %w, %s) <{{ragged_dot_dimension_numbers =
        {ATTRIBUTES.format(1, 1)}, {dims}, rhs_group_dimensions = [0]>}}>
        : ({rows}, {weights}, {sizes}) -> {out}
      %1 = "chlo.ragged_dot"(%x, %g, %s) <{{ragged_dot_dimension_numbers =
        {ATTRIBUTES.format(0, 0)}, {dims}>}}> : ({rows}, {second}, {sizes}) -> {sums}
      return %0, %1, %x, %w, %g : {out}, {sums}, {rows}, {weights}, {second}
    }}""")
    passes.run_pipeline(module, "fuse")
    assert "ragged" not in str(module)
    put_fusions_in_place(module)
    y, z, x, w, g = (np.asarray(values[0], np.float64) for values in execute(module, 1))
    groups = [slice(0, 2), slice(2, 2), slice(2, 3)]
    assert_close = functools.partial(np.testing.assert_allclose, rtol=2e-2, atol=1e-6)
    for number, group in enumerate(groups):
        assert_close(y[group], x[group] @ w[number])
        assert_close(z[number], x[group].T @ g[group])
    assert_close(y[3:], 0)


@pytest.mark.parametrize("size", [17, 300])
def test_split_scans_compute_the_same(parse, size):
    """Running sums and maxima forwards, and logarithmic sums backwards; the reference is numpy."""
    kind, row = f"tensor<3x{size}xf32>", f"tensor<{size}x3xf32>"
    before, after = f"[[0, 0], [{size - 1}, 0]]", f"[[0, {size - 1}], [0, 0]]"
    module = parse(f"""
    func.func public @main(%x: {kind}, %y: {row}) -> ({kind}, {kind}, {row}, {kind}, {row}) {{
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %0 = "stablehlo.reduce_window"(%x, %zero) <{{padding = dense<{before}> : tensor<2x2xi64>,
        window_dimensions = array<i64: 1, {size}>}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }}) : ({kind}, tensor<f32>) -> {kind}
      %1 = "stablehlo.reduce_window"(%x, %low) <{{padding = dense<{before}> : tensor<2x2xi64>,
        window_dimensions = array<i64: 1, {size}>}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.maximum %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }}) : ({kind}, tensor<f32>) -> {kind}
      %2 = "stablehlo.reduce_window"(%y, %zero) <{{padding = dense<{after}> : tensor<2x2xi64>,
        window_dimensions = array<i64: {size}, 1>}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %half = stablehlo.constant dense<0.5> : tensor<f32>
        %c = stablehlo.multiply %a, %half : tensor<f32>
        %d = stablehlo.multiply %b, %half : tensor<f32>
        %e = stablehlo.add %c, %d : tensor<f32>
        %s = stablehlo.divide %e, %half : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }}) : ({row}, tensor<f32>) -> {row}
      return %0, %1, %2, %x, %y : {kind}, {kind}, {row}, {kind}, {row}
    }}""")
    passes.run_pipeline(module, "fuse")
    assert f"array<i64: 1, {size}>" not in str(module)
    put_fusions_in_place(module)
    sums, maxima, backwards, x, y = (np.asarray(values[0]) for values in execute(module, 1))
    np.testing.assert_allclose(sums, x.cumsum(1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(maxima, np.maximum.accumulate(x, 1))
    np.testing.assert_allclose(backwards, y[::-1].cumsum(0)[::-1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("place", [[3, 4], [4, 6], [-1, 0], [0, 7]])
def test_scatters_to_one_place_compute_the_same(place):
    """Inside, at the edge, and out of bounds on each side; known before, and at run time only."""
    scatter = """"stablehlo.scatter"(%x, %{index}, %u) <{{scatter_dimension_numbers =
        #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [1],
        scatter_dims_to_operand_dims = [1, 0]>}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        {body}
      }}) : (tensor<10x6xf32>, tensor<2xi32>, tensor<4xf32>) -> tensor<10x6xf32>"""
    bodies = [
        "stablehlo.return %b : tensor<f32>",
        "%c = stablehlo.subtract %b, %a : tensor<f32>\nstablehlo.return %c : tensor<f32>",
    ]
    lines = [
        f"%{index}{number} = {scatter.format(index=index, body=body)}"
        for index in ("known", "given")
        for number, body in enumerate(bodies)
    ]
    kinds = ", ".join(["tensor<10x6xf32>"] * 4)
    newline = "\n"
    program = f"""
    func.func public @main(%x: tensor<10x6xf32>, %u: tensor<4xf32>) -> ({kinds}) {{
      %known = stablehlo.constant dense<{place}> : tensor<2xi32>
      %given = stablehlo.optimization_barrier %known : tensor<2xi32>
      {newline.join(lines)}
      return %known0, %known1, %given0, %given1 : {kinds}
    }}"""
    assert_rewrite_computes_the_same(program, "expand-scatters,simplify", tolerance=1e-6)


@st.composite
def convolutions(draw):
    """Draw a convolution in one dimension, of any form that frameworks write."""
    kernel = draw(st.integers(1, 5))
    stride, holes, dilation = (draw(st.sampled_from((1, 1, 2, 3))) for _ in range(3))
    low, high = (draw(st.integers(-1, 4)) for _ in range(2))
    size = draw(st.integers(4, 12))
    if draw(st.booleans()):  # a gradient of a kernel, which convolves an image with an image
        size, kernel, stride = size + 4, size + draw(st.integers(0, 6)), 1
    extent = (size - 1) * holes + 1 + low + high - (kernel - 1) * dilation - 1
    assume(extent >= 0)
    image, weight = f"tensor<2x{size}x3xf32>", f"tensor<{kernel}x3x5xf32>"
    result = f"tensor<2x{extent // stride + 1}x5xf32>"
    turned = str(draw(st.booleans())).lower()
    turn = f"%r = stablehlo.reverse %w, dims = [0] : {weight}" if draw(st.booleans()) else ""
    return f"""
    func.func public @main(%x: {image}, %w: {weight}) -> {result} {{
      {turn}
      %y = stablehlo.convolution(%x, {"%r" if turn else "%w"})
        dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
        window = {{stride = [{stride}], pad = [[{low}, {high}]], lhs_dilate = [{holes}],
          rhs_dilate = [{dilation}], reverse = [{turned}]}}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
        : ({image}, {weight}) -> {result}
      return %y : {result}
    }}
    """


@pytest.mark.slow
@draw_examples(25)
@given(convolutions())
def test_padded_convolutions_compute_the_same(program):
    assert_rewrite_computes_the_same(program, "pad-convolutions", tolerance=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["A100_SXM_80GB", "H100_80GB"])  # channels first, and last
@draw_examples(12)
@given(program=convolutions())
def test_ordered_convolutions_compute_the_same(target, program):
    steps = f"pad-convolutions,order-convolutions{{target={target}}},sink-transposes"
    assert_rewrite_computes_the_same(program, steps, tolerance=1e-4)


@st.composite
def products(draw):
    """Draw a product whose dimensions have any order, and some of them size 1."""
    sizes = {dim: draw(st.sampled_from((1, size))) for size, dim in enumerate("bcijklm", 2)}
    lhs, rhs = ("".join(draw(st.permutations(dims))) for dims in ("bcijk", "bcklm"))
    batch = draw(st.permutations("bc"))
    shapes = ["x".join(str(sizes[dim]) for dim in dims) for dims in (lhs, rhs)]
    left, right = ([dims.index(dim) for dim in batch] for dims in (lhs, rhs))
    free = [dim for dim in lhs if dim in "ij"] + [dim for dim in rhs if dim in "lm"]
    out = "x".join(str(sizes[dim]) for dim in (*batch, *free))
    lhs_type, rhs_type, result = (f"tensor<{shape}xf32>" for shape in (*shapes, out))
    return f"""
    func.func public @main(%x: {lhs_type}, %y: {rhs_type}) -> {result} {{
      %0 = stablehlo.dot_general %x, %y, batching_dims = {left} x {right},
        contracting_dims = [{lhs.index("k")}] x [{rhs.index("k")}]
        : ({lhs_type}, {rhs_type}) -> {result}
      return %0 : {result}
    }}
    """


@pytest.mark.long
@draw_examples(30)
@given(products())
def test_expanded_and_transposed_products_compute_the_same(program):
    pipeline = "expand-vector-products,transpose-operands"
    assert_rewrite_computes_the_same(program, pipeline, tolerance=1e-5)


MATRIX, VECTOR, TWICE = "tensor<32x32xf32>", "tensor<32xf32>", "tensor<64x32xf32>"
STEPS = {  # what a random program is made of: matrices %a and %b, or a vector %v, to %r
    "add": f"%r = stablehlo.add %a, %b : {MATRIX}",
    "tanh": f"%r = stablehlo.tanh %a : {MATRIX}",
    "scale": f"%r = stablehlo.multiply %a, %half : {MATRIX}",
    "relu": f"%r = stablehlo.maximum %a, %zeros : {MATRIX}",
    "transpose": f"%r = stablehlo.transpose %a, dims = [1, 0] : ({MATRIX}) -> {MATRIX}",
    "product": f"%r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]"
    f" : ({MATRIX}, {MATRIX}) -> {MATRIX}",
    "left": f"%r = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0]"
    f" : ({MATRIX}, {MATRIX}) -> {MATRIX}",
    "slice": f"%w = stablehlo.concatenate %a, %b, dim = 0 : ({MATRIX}, {MATRIX}) -> {TWICE}\n"
    f"%r = stablehlo.slice %w [5:37, 0:32] : ({TWICE}) -> {MATRIX}",
    "update": f"%u = stablehlo.slice %b [0:8, 0:8] : ({MATRIX}) -> tensor<8x8xf32>\n"
    f"%r = stablehlo.dynamic_update_slice %a, %u, %at, %at"
    f" : ({MATRIX}, tensor<8x8xf32>, tensor<i32>, tensor<i32>) -> {MATRIX}",
    "rows": f"%r = stablehlo.reduce(%a init: %ninf) applies stablehlo.maximum"
    f" across dimensions = [1] : ({MATRIX}, tensor<f32>) -> {VECTOR}",
    "columns": f"%r = stablehlo.reduce(%a init: %ninf) applies stablehlo.maximum"
    f" across dimensions = [0] : ({MATRIX}, tensor<f32>) -> {VECTOR}",
    "along": f"%r = stablehlo.broadcast_in_dim %v, dims = [0] : ({VECTOR}) -> {MATRIX}",
    "across": f"%r = stablehlo.broadcast_in_dim %v, dims = [1] : ({VECTOR}) -> {MATRIX}",
}
GROWS = ("add", "left", "product")


@st.composite
def programs(draw, bounded: bool = False) -> str:
    """A program of random steps and softmaxes, of which values may be read again.

    ``bounded``: none is so large that rounding would show.
    """
    matrices, vectors, lines = ["%x", "%y"], ["%g"], []

    def step(text: str, is_vector: bool, **names: str) -> str:
        number = len(lines)
        for name in ("w", "u", "r"):
            text = re.sub(rf"%{name}\b", f"%{name}{number}", text)
        for name, value in names.items():
            text = re.sub(rf"%{name}\b", value, text)
        lines.append(text)
        (vectors if is_vector else matrices).append(f"%r{number}")
        return f"%r{number}"

    def softmax(start: str) -> None:
        most = step(STEPS["rows"], True, a=start)
        most = step(STEPS["along"], False, v=most)
        less = step(f"%r = stablehlo.subtract %a, %b : {MATRIX}", False, a=start, b=most)
        powers = step(f"%r = stablehlo.exponential %a : {MATRIX}", False, a=less)
        text = STEPS["rows"].replace("%ninf", "%zero").replace("maximum", "add")
        total = step(STEPS["along"], False, v=step(text, True, a=powers))
        matrices.pop(), vectors.pop()
        step(f"%r = stablehlo.divide %a, %b : {MATRIX}", False, a=powers, b=total)

    for kind in draw(st.lists(st.sampled_from([*STEPS, "softmax"]), min_size=2, max_size=24)):
        a, b = draw(st.sampled_from(matrices[-6:])), draw(st.sampled_from(matrices[-6:]))
        if kind == "softmax":
            softmax(a)
        else:
            v = draw(st.sampled_from(vectors))
            step(STEPS[kind], kind in ("rows", "columns"), a=a, b=b, v=v)
            if bounded and kind in GROWS:
                step(STEPS["tanh"], False, a=matrices.pop())
    results = draw(st.lists(st.sampled_from(matrices), min_size=1, max_size=3))
    kinds = ", ".join([MATRIX] * len(results))
    return f"""
    func.func public @main(%x: {MATRIX}, %y: {MATRIX}, %g: {VECTOR}) -> ({kinds}) {{
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %ninf = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %at = stablehlo.constant dense<3> : tensor<i32>
      %half = stablehlo.constant dense<0.5> : {MATRIX}
      %zeros = stablehlo.constant dense<0.0> : {MATRIX}
      {chr(10).join(lines)}
      return {", ".join(results)} : {kinds}
    }}
    """


@pytest.mark.slow
@draw_examples(150)
@given(programs())
def test_random_programs_stay_valid(program):
    passes.run_pipeline(ir.Module.parse(program, make_context()), "fuse")  # verifies


@pytest.mark.slow
@draw_examples(10)
@given(programs(bounded=True))
def test_random_programs_compute_the_same(program):
    context = make_context()
    module, plain = ir.Module.parse(program, context), ir.Module.parse(program, context)
    passes.run_pipeline(module, "fuse")
    passes.run_pipeline(plain, "prepare")
    put_fusions_in_place(module)
    assert_same(module, plain, 1, tolerance=1e-3)


APART = "fuse{combine-reduce-scatter=0}"  # as in the published files


def kernels_and_bytes(module: ir.Module) -> tuple[int, int]:
    """Launches in one run of the entry, and the bytes that they move; no collectives."""
    kernels, moved = 0, 0
    for view in find_entry_function(module).regions[0].blocks[0].operations:
        op = view.operation
        rule = find_cost_rule(op.name)
        if rule is None or rule.group != "leaf":
            continue
        work = compute_op_work(op)
        if not work.is_free:
            kernels += 1
            moved += work.read_bytes + work.write_bytes
    return kernels, moved


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "stage"),
    [pytest.param(name, stage, id=Path(name).name) for name, stage in thin_out(COMPARED, 2)],
)
def test_kernels_and_bytes_are_those_of_xla(module, stage, workload, context):
    fused = frontends.read_module(str(workload(f"{module}.mlir")), context)
    passes.run_pipeline(fused, APART)
    kernels, moved = kernels_and_bytes(fused)
    compiled = frontends.read_module(str(workload(f"{module}-{stage}.mlir")), context)
    xla_kernels, xla_moved = kernels_and_bytes(compiled)
    assert kernels == pytest.approx(xla_kernels, rel=0.15)
    assert moved == pytest.approx(xla_moved, rel=0.15)
    row = (
        f"| {Path(module).name} | {kernels} | {xla_kernels} | {kernels / xla_kernels - 1:+.1%} "
        f"| {moved / 1e9:.2f} | {xla_moved / 1e9:.2f} | {moved / xla_moved - 1:+.1%} |"
    )
    assert row in PAGE.read_text(), row


@pytest.mark.slow
def test_collectives_of_llama_are_those_of_xla(workload, context):
    counts = []
    for name, pipeline in (("llama3-100m", APART), ("llama3-100m-opt-a100", "prepare")):
        module = frontends.read_module(str(workload(f"llama3/{name}.mlir")), context)
        passes.run_pipeline(module, pipeline)
        collectives: dict[str, list[int]] = {}
        for view in find_entry_function(module).regions[0].blocks[0].operations:
            comm = CommAttr.read_from_op(view.operation)
            if comm is not None:
                count = collectives.setdefault(comm.kind, [0, 0])
                count[0] += 1
                count[1] += comm.operand_bytes
        counts.append(collectives)
    assert counts[0] == counts[1]


def test_equal_modules_fuse_equally(parse):
    texts = []
    for _ in range(2):
        module = parse(BLOCK)
        passes.run_pipeline(module, "fuse")
        texts.append(str(module))
    assert texts[0] == texts[1]


@given(st.integers(1, 1 << 40))
def test_parts_of_a_reduction_are_near_the_root(size):
    parts = choose_part_count(size)
    root = size**0.5
    assert root / 2 - 1 <= parts <= root + 1
    if size & (size - 1) == 0:
        assert size % parts == 0


@given(st.data())
def test_reach_and_order_of_random_graphs(data):
    size = data.draw(st.integers(2, 12))
    needs = {
        unit: set(data.draw(st.lists(st.integers(0, unit - 1), max_size=3))) if unit else set()
        for unit in range(size)
    }
    reach = DependencyOrder.from_dependencies(needs)
    for _ in range(data.draw(st.integers(0, 6))):
        kept = data.draw(st.sampled_from(sorted(needs)))
        gone = data.draw(st.sampled_from(sorted(needs)))
        between = {other for other in all_needs(needs, kept) if gone in all_needs(needs, other)}
        between |= {other for other in all_needs(needs, gone) if kept in all_needs(needs, other)}
        if kept != gone and not between:
            reach.merge_units(kept, gone)
            before = (needs.pop(gone) | needs[kept]) - {kept, gone}
            needs = {u: {kept if o == gone else o for o in n} for u, n in needs.items()}
            needs[kept] = before
    assert len(set(reach.rank.values())) == len(needs)
    assert all(reach.rank[o] < reach.rank[u] for u, before in needs.items() for o in before)
    for unit in needs:
        dependencies = all_needs(needs, unit)
        assert dependencies == {other for other in needs if reach.depends_on(unit, other)}
    some = data.draw(st.lists(st.sampled_from(sorted(needs)), min_size=1, unique=True))
    for unit, related in reach.find_related_units(some).items():
        found = {other for number, other in enumerate(some) if related >> number & 1}
        assert found == {other for other in some if reach.has_path_between(unit, other)}
    order = order_topologically(
        needs, {unit: unit for unit in needs}
    )  # raises where there is a circle
    place = {unit: i for i, unit in enumerate(order)}
    assert all(place[other] < place[unit] for unit, before in needs.items() for other in before)


def all_needs(needs: dict[int, set[int]], unit: int) -> set[int]:
    reached: set[int] = set()
    waiting = [unit]
    while waiting:
        new = needs[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def test_products_of_interleaved_recurrences_are_merged_step_by_step(parse):
    """The products of one step are independent, and each step depends on the one before."""
    kind, weight = "tensor<8x16xf32>", "tensor<16x16xf32>"
    lines = []
    for step in range(5):
        for chain in "ab":
            lines += [
                f"%d{chain}{step} = stablehlo.dot_general %{chain}{step}, %w, contracting_dims = "
                f"[1] x [0] : ({kind}, {weight}) -> {kind}",
                f"%{chain}{step + 1} = stablehlo.tanh %d{chain}{step} : {kind}",
            ]
    module = parse(
        f"func.func @main(%a0: {kind}, %b0: {kind}, %w: {weight}) -> ({kind}, {kind}) {{\n"
        + "\n".join(lines)
        + f"\nreturn %a5, %b5 : {kind}, {kind} }}"
    )
    passes.run_pipeline(module, "fuse", PassRun(note=lambda text: None))
    products = re.findall(r"stablehlo\.dot_general.* -> (tensor<\S+>)", str(module))
    assert products == ["tensor<16x16xf32>"] * 5


SCANS = """
func.func @main(%a: tensor<6x4xf32>, %x: tensor<6x4xf32>, %start: tensor<4xf32>)
    -> (tensor<6x4xf32>, tensor<4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<4xf32>) {
  %0:2 = mhlo.scan(%a, %x) inits (%start) dimension=0
    attributes {is_associative = false, is_reverse = REVERSED} {
  ^bb0(%decay: tensor<4xf32>, %input: tensor<4xf32>, %carry: tensor<4xf32>):
    %1 = stablehlo.multiply %decay, %carry : tensor<4xf32>
    %2 = stablehlo.add %input, %1 : tensor<4xf32>
    mhlo.return %1, %2 : tensor<4xf32>, tensor<4xf32>
  } : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<4xf32>) -> (tensor<6x4xf32>, tensor<4xf32>)
  return %0#0, %0#1, %a, %x, %start
    : tensor<6x4xf32>, tensor<4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<4xf32>
}
"""


@pytest.mark.parametrize("is_reverse", [False, True])
def test_loops_of_scans_compute_recurrences(is_reverse):
    """XLA:CPU of older versions has no scan that could be run before the pass."""
    text = SCANS.replace("REVERSED", str(is_reverse).lower())
    module = ir.Module.parse(text, make_context())
    passes.run_pipeline(module, "expand-scans")
    rows, last, decays, inputs, carry = (np.asarray(values[0]) for values in execute(module, 1))
    order = range(6)[::-1] if is_reverse else range(6)
    for row in order:
        np.testing.assert_allclose(rows[row], decays[row] * carry, rtol=1e-6)
        carry = inputs[row] + decays[row] * carry
    np.testing.assert_allclose(last, carry, rtol=1e-6)
