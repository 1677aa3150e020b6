"""Matrix products of ops: shapes by hand, and operations against the rules' own count."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples

from hespas.dialects.mlir import collect_functions, ir, make_context
from hespas.estimators.matrix_products import collect_matrix_products
from hespas.estimators.product_shapes import MatrixProduct, count_other_flops, derive_matrix_product
from hespas.estimators.work import UnknownCost, compute_op_work

CONTEXT = make_context()


def body(text):
    """The ops of a function's body, and the module, which must outlive them."""
    module = ir.Module.parse(f"func.func @main({text}\n  return\n}}", CONTEXT)
    block = collect_functions(module)["main"].regions[0].blocks[0]
    return [view.operation for view in block.operations], module


def one(text):
    ops, _module = body(text)
    products = collect_matrix_products(ops[0])
    left = count_other_flops(compute_op_work(ops[0]), products)
    return products, left


def whole(m, k, n, count, dtype, in_bits, out_bits):
    """A product in which every element is multiplied."""
    return MatrixProduct(m, k, n, count, dtype, 2 * m * k * n * count, in_bits, out_bits)


def test_dot_general_with_batch_and_free_dimensions():
    text = """%x: tensor<4x32x2x64xbf16>, %w: tensor<64x4x8x16xf32>) {
      %0 = stablehlo.dot_general %x, %w, batching_dims = [0] x [1], contracting_dims = [3] x [0]
        : (tensor<4x32x2x64xbf16>, tensor<64x4x8x16xf32>) -> tensor<4x32x2x8x16xbf16>"""
    products, left = one(text)
    assert products == [whole(64, 64, 128, 4, "tf32", 32, 16)]
    assert not left


@pytest.mark.parametrize(
    ("config", "lhs", "rhs", "result"),
    [
        ("bij,bjk->bik", "5x3x7", "5x7x11", "5x3x11"),
        ("...ij,...jk->...ik", "5x3x7", "5x7x11", "5x3x11"),
        ("ij...,jk...->ik...", "3x7x5", "7x11x5", "3x11x5"),
        ("i...j, ...jk -> i...k", "3x5x7", "5x7x11", "3x5x11"),
    ],
)
def test_einsum(config, lhs, rhs, result):
    types = f"(tensor<{lhs}xbf16>, tensor<{rhs}xbf16>) -> tensor<{result}xbf16>"
    text = f"""%x: tensor<{lhs}xbf16>, %w: tensor<{rhs}xbf16>) {{
      %0 = stablehlo.einsum %x, %w, config = "{config}" : {types}"""
    ops, _module = body(text)
    assert derive_matrix_product(ops[0], compute_op_work(ops[0])) == whole(
        3, 7, 11, 5, "bf16", 16, 16
    )


def test_passes_of_an_algorithm_and_complex_numbers():
    text = """%x: tensor<8x8xcomplex<f32>>) {
      %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0],
        precision = [HIGHEST, HIGHEST]
        : (tensor<8x8xcomplex<f32>>, tensor<8x8xcomplex<f32>>) -> tensor<8x8xcomplex<f32>>"""
    assert one(text)[0] == [whole(8, 8, 8, 4, "f32", 32, 32)]
    text = """%x: tensor<8x8xf32>) {
      %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0],
        algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32,
        lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 3,
        allow_imprecise_accumulation = false>
        : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>"""
    assert one(text)[0] == [whole(8, 8, 8, 3, "bf16", 32, 32)]


def test_integers_without_a_matrix_unit():
    text = """%x: tensor<8x8xi32>) {
      %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
        : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi32>"""
    assert one(text) == ([], {})


CONVOLUTION = """%x: tensor<{batch}x{height}x{height}x{features}xbf16>,
      %w: tensor<{window}x{window}x{in_group}x{out}xbf16>) {{
      %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
        window = {{stride = [{stride}, {stride}], pad = [[0, 0], [0, 0]]}}
        {{feature_group_count = {groups} : i64, batch_group_count = 1 : i64}}
        : (tensor<{batch}x{height}x{height}x{features}xbf16>,
           tensor<{window}x{window}x{in_group}x{out}xbf16>)
        -> tensor<{batch}x{result}x{result}x{out}xbf16>"""


@draw_examples(40)
@given(
    batch=st.integers(1, 3),
    in_group=st.integers(1, 5),
    groups=st.integers(1, 3),
    out_group=st.integers(1, 4),
    window=st.integers(1, 3),
    stride=st.integers(1, 2),
    extra=st.integers(0, 6),
)
def test_unpadded_convolution_multiplies_what_it_must(
    batch, in_group, groups, out_group, window, stride, extra
):
    height = window + extra
    text = CONVOLUTION.format(
        batch=batch, height=height, features=in_group * groups, window=window, in_group=in_group,
        out=out_group * groups, stride=stride, groups=groups, result=extra // stride + 1,
    )  # fmt: skip
    ops, _module = body(text)
    (products,) = collect_matrix_products(ops[0])
    assert products.count == groups
    assert (products.k, products.n) == (window * window * in_group, out_group)
    assert products.flops == compute_op_work(ops[0]).flops


def test_dilated_input_is_multiplied_without_its_holes():
    text = """%x: tensor<2x7x7x8xbf16>, %w: tensor<4x4x8x16xbf16>) {
      %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
        window = {stride = [1, 1], pad = [[2, 2], [2, 2]], lhs_dilate = [2, 2]}
        {feature_group_count = 1 : i64, batch_group_count = 1 : i64}
        : (tensor<2x7x7x8xbf16>, tensor<4x4x8x16xbf16>) -> tensor<2x14x14x16xbf16>"""
    ops, _module = body(text)
    flops = compute_op_work(ops[0]).flops
    assert collect_matrix_products(ops[0]) == [
        MatrixProduct(2 * 14 * 14, 2 * 2 * 8, 16, 1, "bf16", flops, 16, 16)
    ]
    assert flops < 2 * (2 * 14 * 14) * (2 * 2 * 8) * 16  # by the padding


def test_batch_groups_cut_the_batch():
    text = """%x: tensor<4x5x5x3xbf16>, %w: tensor<3x3x3x8xbf16>) {
      %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
        window = {} {feature_group_count = 1 : i64, batch_group_count = 2 : i64}
        : (tensor<4x5x5x3xbf16>, tensor<3x3x3x8xbf16>) -> tensor<2x3x3x8xbf16>"""
    ops, _module = body(text)
    (products,) = collect_matrix_products(ops[0])
    assert products == whole(18, 27, 4, 2, "bf16", 16, 16)
    assert products.flops == compute_op_work(ops[0]).flops


def test_fusion_holds_its_products_and_the_rest_is_left():
    text = """%x: tensor<8x8xbf16>, %y: tensor<8x8xbf16>) {
      %0 = "mhlo.fusion"(%x, %y) <{fusion_kind = #mhlo<fusion_kind kOutput>}> ({
      ^bb0(%a: tensor<8x8xbf16>, %b: tensor<8x8xbf16>):
        %d = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
          : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
        %t = stablehlo.tanh %d : tensor<8x8xbf16>
        mhlo.return %t : tensor<8x8xbf16>
      }) : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>"""
    products, left = one(text)
    assert products == [whole(8, 8, 8, 1, "bf16", 16, 16)]
    assert not left


@pytest.mark.parametrize("target", ["__cublas$gemm", "__cublas$lt$matmul"])
def test_cublas_call(target):
    text = f"""%x: tensor<4x16x32xbf16>, %w: tensor<4x32x64xbf16>) {{
      %0:2 = stablehlo.custom_call @{target}(%x, %w) {{backend_config = "{{}}"}}
        : (tensor<4x16x32xbf16>, tensor<4x32x64xbf16>) -> (tensor<4x16x64xbf16>, tensor<64xi8>)"""
    products, left = one(text)
    assert products == [whole(16, 32, 64, 4, "bf16", 16, 16)]
    assert not left


def test_what_has_no_shape_is_left_with_its_operations():
    text = """%x: tensor<64x32xbf16>, %w: tensor<4x32x16xbf16>, %g: tensor<4xi32>) {
      %0 = "chlo.ragged_dot"(%x, %w, %g) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<
        lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions =
        [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0],
        rhs_group_dimensions = [0]>}>
        : (tensor<64x32xbf16>, tensor<4x32x16xbf16>, tensor<4xi32>) -> tensor<64x16xbf16>"""
    assert one(text) == ([], {"bf16": 2 * 64 * 32 * 16})


@pytest.mark.parametrize(
    ("kinds", "dims", "product"),
    [  # 16 of 64 rows belong to 4 groups
        (("64x32", "4x32x16", "64x16"), ([1], [1], ", rhs_group_dimensions = [0]"), (4, 32, 16)),
        (("64x32", "64x16", "4x32x16"), ([0], [0], ""), (32, 4, 16)),
    ],
)
def test_stated_rows_of_unequal_groups_are_products_of_equal_ones(kinds, dims, product):
    x, w, y = (f"tensor<{kind}xbf16>" for kind in kinds)
    text = f"""%x: {x}, %w: {w}, %g: tensor<4xi32>) {{
      %0 = "chlo.ragged_dot"(%x, %w, %g) <{{ragged_dot_dimension_numbers = #chlo.ragged_dot<
        lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions =
        {dims[0]}, rhs_contracting_dimensions = {dims[1]}, lhs_ragged_dimensions = [0]{dims[2]}>}}>
        {{mhlo.frontend_attributes = {{hespas_rows = "16"}}}}
        : ({x}, {w}, tensor<4xi32>) -> {y}"""
    m, k, n = product
    ops, _module = body(text)
    work = compute_op_work(ops[0])
    assert derive_matrix_product(ops[0], work) == whole(m, k, n, 4, "bf16", 16, 16)
    moved = {"64x32": 16 * 32, "64x16": 16 * 16, "4x32x16": 4 * 32 * 16}
    assert work.read_bytes == 2 * (moved[kinds[0]] + moved[kinds[1]]) + 4 * 4
    assert work.write_bytes == 2 * moved[kinds[2]]


def test_cudnn_call_has_a_shape_too():
    text = """%x: tensor<8x14x14x64xf16>, %w: tensor<32x3x3x64xf16>) {
      %0:2 = stablehlo.custom_call @__cudnn$convForward(%x, %w) {backend_config = "{}"}
        : (tensor<8x14x14x64xf16>, tensor<32x3x3x64xf16>)
        -> (tensor<8x12x12x32xf16>, tensor<64xi8>)"""
    assert one(text) == ([whole(8 * 12 * 12, 9 * 64, 32, 1, "f16", 16, 16)], {})


@pytest.mark.parametrize(
    ("target", "image", "kernel", "result", "product"),
    [
        # A depthwise convolution of 64 channels, and one of 4 groups of 16, in NHWC and NCHW
        ("Forward", "8x14x14x64", "64x3x3x1", "8x14x14x64", (64, 8 * 196, 9, 1)),
        ("Forward", "8x14x14x64", "64x3x3x16", "8x14x14x64", (4, 8 * 196, 9 * 16, 16)),
        ("Forward", "8x64x14x14", "64x16x3x3", "8x64x14x14", (4, 8 * 196, 9 * 16, 16)),
        ("Forward", "8x512x64x64", "128x512x1x1", "8x128x64x64", (1, 8 * 4096, 512, 128)),
        ("BackwardInput", "8x14x14x64", "64x3x3x1", "8x14x14x64", (64, 8 * 196, 9, 1)),
        ("BackwardFilter", "8x14x14x64", "8x14x14x64", "64x3x3x1", (64, 9, 8 * 196, 1)),
    ],
)
def test_cudnn_call_has_groups(target, image, kernel, result, product):
    """The importer drops the number of groups. They are the features over those of a kernel."""
    count, m, k, n = product
    text = f"""%x: tensor<{image}xf16>, %w: tensor<{kernel}xf16>) {{
      %0:2 = stablehlo.custom_call @__cudnn$conv{target}(%x, %w) {{backend_config = "{{}}"}}
        : (tensor<{image}xf16>, tensor<{kernel}xf16>) -> (tensor<{result}xf16>, tensor<64xi8>)"""
    (call, *_), _module = body(text)
    shape = derive_matrix_product(call, compute_op_work(call))
    assert (shape.count, shape.m, shape.n) == (count, m, n)
    assert shape.k == pytest.approx(k, rel=0.3)  # the windows at the edges are smaller


def test_the_calls_configuration_tells_its_batch():
    """Rows in two dimensions are rows of one product, and not of several."""
    config = '{"dot_dimension_numbers": {"lhs_contracting_dimensions": ["2"], ' \
        '"rhs_contracting_dimensions": ["0"]}}'  # fmt: skip
    text = f"""%x: tensor<4x16x32xbf16>, %w: tensor<32x64xbf16>) {{
      %0 = stablehlo.custom_call @__cublas$gemm(%x, %w) {{backend_config = {json.dumps(config)}}}
        : (tensor<4x16x32xbf16>, tensor<32x64xbf16>) -> tensor<4x16x64xbf16>"""
    assert one(text) == ([whole(64, 32, 64, 1, "bf16", 16, 16)], {})


def test_complex_call_without_a_configuration():
    text = """%x: tensor<4x16x32xcomplex<f64>>, %w: tensor<4x32x64xcomplex<f64>>) {
      %0 = stablehlo.custom_call @__cublas$gemm(%x, %w) {backend_config = "{}"}
        : (tensor<4x16x32xcomplex<f64>>, tensor<4x32x64xcomplex<f64>>)
        -> tensor<4x16x64xcomplex<f64>>"""
    ops, _module = body(text)
    matrix_product = derive_matrix_product(ops[0], compute_op_work(ops[0]))
    assert (
        matrix_product.count,
        matrix_product.m,
        matrix_product.k,
        matrix_product.n,
        matrix_product.passes,
    ) == (4, 16, 32, 64, 4)


def loop_in_a_fusion(attributes: str) -> str:
    return f"""%x: tensor<8x8xbf16>, %n: tensor<i32>) {{
      %0 = "mhlo.fusion"(%x, %n) <{{fusion_kind = #mhlo<fusion_kind kLoop>}}> ({{
      ^bb0(%a: tensor<8x8xbf16>, %c: tensor<i32>):
        %r:2 = stablehlo.while(%i = %c, %b = %a) : tensor<i32>, tensor<8x8xbf16>
          {attributes}
         cond {{
          %z = stablehlo.constant dense<3> : tensor<i32>
          %lt = stablehlo.compare LT, %i, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %lt : tensor<i1>
        }} do {{
          %d = stablehlo.dot_general %b, %b, contracting_dims = [1] x [0]
            : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
          stablehlo.return %i, %d : tensor<i32>, tensor<8x8xbf16>
        }}
        mhlo.return %r#1 : tensor<8x8xbf16>
      }}) : (tensor<8x8xbf16>, tensor<i32>) -> tensor<8x8xbf16>"""


def test_loop_in_a_fusion_multiplies_its_products():
    text = loop_in_a_fusion("attributes {hespas.trips = 3 : i64}")
    assert one(text) == ([whole(8, 8, 8, 3, "bf16", 16, 16)], {})


def test_loop_of_unknown_trips_in_a_fusion():
    ops, _module = body(loop_in_a_fusion(""))
    with pytest.raises(UnknownCost, match="trip count"):
        collect_matrix_products(ops[0])
