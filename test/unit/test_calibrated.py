"""The calibrated estimator: shapes, kernels, bands and tags."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples

from hespas import configs, passes
from hespas.configs import node_files
from hespas.dialects.attrs import Cost
from hespas.dialects.mlir import collect_functions
from hespas.estimators.aggregate import aggregate_costs, repeat_cost
from hespas.estimators.base import CostItem
from hespas.estimators.calibrated.attention_shape import AttentionShape
from hespas.estimators.calibrated.board_power import BoardPower
from hespas.estimators.calibrated.calibrated_estimator import (
    CalibratedConfig,
    CalibratedEstimator,
    read_kernel,
)
from hespas.estimators.calibrated.correction_surface import CorrectionSurface
from hespas.estimators.calibrated.device_constants import DeviceConstants, ErrorBand
from hespas.estimators.calibrated.kernel_times import (
    estimate_attention_time,
    estimate_product_time,
    estimate_stream_time,
)
from hespas.estimators.calibrated.kernel_traits import collect_traits
from hespas.estimators.product_shapes import MatrixProduct
from hespas.estimators.roofline import RooflineConfig, RooflineEstimator
from hespas.estimators.work import compute_op_work
from hespas.support.errors import HespasError

A100 = configs.load_node("A100_SXM_80GB")
CONSTANTS = DeviceConstants.from_node(A100)


_ALIVE = []  # an op does not keep its module


@pytest.fixture(autouse=True)
def _forget():
    yield
    _ALIVE.clear()


def cost(op, node="A100_SXM_80GB", **settings):
    return CalibratedEstimator(CalibratedConfig(configs.load_node(node), **settings)).estimate(
        CostItem(op)
    )


def first_op(parse, signature, body):
    """The first op of a function that is no constant."""
    module = parse(f"func.func @main({signature}) {{\n{body}\nreturn\n}}")
    _ALIVE.append(module)
    block = collect_functions(module)["main"].regions[0].blocks[0]
    ops = [view.operation for view in block.operations]
    return next(op for op in ops if op.name != "stablehlo.constant")


def gemm(parse, m, n, k, dtype="bf16", out=None, precision=""):
    a, b, c = (
        f"tensor<{m}x{k}x{dtype}>",
        f"tensor<{n}x{k}x{dtype}>",
        f"tensor<{m}x{n}x{out or dtype}>",
    )
    return first_op(
        parse,
        f"%a: {a}, %b: {b}",
        f"%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [1]{precision}"
        f" : ({a}, {b}) -> {c}",
    )


# Surfaces


@draw_examples()
@given(
    st.lists(
        st.lists(st.integers(1, 99), min_size=1, max_size=4, unique=True), min_size=1, max_size=3
    ),
    st.randoms(use_true_random=False),
)
def test_a_surface_is_scipys_linear_interpolation(axes, random):
    interpolate = pytest.importorskip("scipy.interpolate")
    axes = [sorted(axis) for axis in axes]
    values = [random.randint(-900, 900) for _ in range(math.prod(map(len, axes)))]
    data = {f"axis{i}": axis for i, axis in enumerate(axes)} | {"permille": values}
    surface = CorrectionSurface.from_preset(data)
    point = [random.uniform(0.5, 120) for _ in axes]
    table = np.array(values).reshape([len(axis) for axis in axes]) / 1000
    wide = [i for i, axis in enumerate(axes) if len(axis) > 1]
    inside = [np.clip(math.log2(point[i]), *np.log2(axes[i])[[0, -1]]) for i in wide]
    expected = table.ravel()[0]
    if wide:
        knots = [np.log2(axes[i]) for i in wide]
        expected = interpolate.interpn(knots, table.reshape([len(axes[i]) for i in wide]), inside)
    assert surface.interpolate_at(*point) == pytest.approx(float(np.ravel(expected)[0]), abs=1e-9)
    beyond = [f"axis{i}" for i, axis in enumerate(axes) if not axis[0] <= point[i] <= axis[-1]]
    assert surface.list_axes_outside(*point) == beyond


# Shapes


def test_products_of_ops(parse):
    lhs, rhs, out = "tensor<4x128x64xbf16>", "tensor<4x64x32xbf16>", "tensor<4x128x32xbf16>"
    dot = first_op(
        parse,
        f"%a: {lhs}, %b: {rhs}",
        "%0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0],"
        f" contracting_dims = [2] x [1] : ({lhs}, {rhs}) -> {out}",
    )
    flops = 2 * 4 * 128 * 32 * 64
    assert collect_traits(dot, compute_op_work(dot)).products == [
        MatrixProduct(128, 64, 32, 4, "bf16", flops, 16, 16)
    ]

    image, kernel, result = (
        "tensor<8x16x16x64xf16>",
        "tensor<3x3x64x32xf16>",
        "tensor<8x14x14x32xf16>",
    )
    conv = first_op(
        parse,
        f"%a: {image}, %b: {kernel}",
        "%0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],"
        " window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
        f" : ({image}, {kernel}) -> {result}",
    )
    (matrix_product,) = collect_traits(conv, compute_op_work(conv)).products
    assert (matrix_product.m, matrix_product.n, matrix_product.k) == (8 * 14 * 14, 32, 3 * 3 * 64)
    assert (
        matrix_product.flops
        == 2 * matrix_product.m * matrix_product.n * matrix_product.k
        == compute_op_work(conv).flops
    )


def test_a_product_inside_a_fusion_is_timed_as_one(parse):
    a, c = "tensor<512x512xbf16>", "tensor<512x512xbf16>"
    fusion = first_op(
        parse,
        f"%a: {a}, %b: {a}",
        f"""
        %0 = "mhlo.fusion"(%a, %b) <{{fusion_kind = #mhlo<fusion_kind kCustom>}}> ({{
        ^bb0(%x: {a}, %y: {a}):
          %1 = stablehlo.dot %x, %y : ({a}, {a}) -> {c}
          %2 = stablehlo.tanh %1 : {c}
          mhlo.return %2 : {c}
        }}) : ({a}, {a}) -> {c}""",
    )
    alone = cost(gemm(parse, 512, 512, 512))
    fused = cost(fusion)
    assert alone.latency_ns < fused.latency_ns < 1.5 * alone.latency_ns
    assert (fused.dtype, fused.tag) == ("bf16", None)


# Times


def test_a_product_is_what_the_preset_says_at_a_knot(parse):
    data = A100.calibration["fits"]["product.bf16"]
    table = data["residual"]
    m, n, k = 1024, 1024, 8192  # below the power limit
    at = [table[name].index(size) for name, size in zip("mnk", (m, n, k), strict=True)]
    index = (at[0] * len(table["n"]) + at[1]) * len(table["k"]) + at[2]
    p = data["power"]
    compute_s = 2 * m * n * k / (data["efficiency"] * 312e12)
    memory_s = 2 * (m * k + n * k + m * n) / (data["bandwidth"] * 2.039e12)
    inner = (compute_s**p + memory_s**p + (k * data["s_per_k"]) ** p) ** (1 / p)
    expected_s = (data["fixed_s"] + inner) * math.exp(table["permille"][index] / 1000)
    assert cost(gemm(parse, m, n, k)).latency_ns == pytest.approx(1e9 * expected_s)


@given(
    st.sampled_from(["A100_SXM_80GB", "H100_80GB", "B200_180GB", "V100_32GB", "MI300X", "TPUv5p"]),
    st.integers(1, 64),
    *(st.integers(1, 1 << 17) for _ in range(3)),
    st.sampled_from(["bf16", "f16", "tf32", "f32", "f8", "i8"]),
)
def test_any_product_has_a_time_of_the_right_order(name, batch, m, n, k, key):
    node = configs.load_node(name)
    constants = DeviceConstants.from_node(node)
    flops = 2 * batch * m * n * k
    moved = 4.0 * batch * (m * k + k * n + m * n)
    estimate = estimate_product_time(constants, MatrixProduct(m, k, n, batch, key, flops), moved)
    roofline_s = max(
        flops / node.find_peak_rate("matrix", key).flops_per_s,
        moved / node.memory_bandwidth_bytes_per_s,
    )
    assert 0 <= estimate.fit.fixed_s * 0.3 < estimate.time_s < math.inf
    assert (
        roofline_s * 0.5 < estimate.time_s
    )  # what is in the cache may beat the memory's bandwidth
    low, high = estimate.fit.band.get_log_ends_at(estimate.time_s)
    assert low <= 0 <= high


# Heads, tokens, n, k to microseconds: mla_bmm of ai-dynamo/aiconfigurator (Apache-2.0), held out.
BATCHED_US = {
    ("A100_SXM_80GB", 32, 3072, 512, 128): 93.8,
    ("A100_SXM_80GB", 64, 4096, 512, 128): 239.3,
    ("A100_SXM_80GB", 64, 6144, 128, 512): 459.8,
}


def estimate_batch_s(node, count, m, n, k):
    constants = DeviceConstants.from_node(configs.load_node(node))
    shape = MatrixProduct(m, k, n, count, "bf16", 2 * count * m * n * k)
    moved = 2 * count * (m * k + k * n + m * n)
    return estimate_product_time(constants, shape, moved).time_s


@pytest.mark.parametrize("case", BATCHED_US, ids=str)
def test_batched_products_are_as_measured(case):
    node, count, m, k, n = case
    assert 1e6 * estimate_batch_s(node, count, m, n, k) == pytest.approx(BATCHED_US[case], rel=0.1)


@pytest.mark.parametrize("node", ["A100_SXM_80GB", "L40S_48GB", "RTX_PRO_6000_96GB"])
def test_large_batched_products_reach_the_rate_of_single_ones(node):
    single, batched = (estimate_batch_s(node, count, 8192, 8192, 8192) for count in (1, 8))
    assert batched == pytest.approx(8 * single, rel=0.2)


@pytest.mark.parametrize("node", ["H100_80GB", "A100_SXM_80GB", "B200_180GB"])
def test_products_narrower_than_a_tile_take_no_longer_than_the_tile(node):
    """Routers of experts have few columns: 31 took 15.3 us on H100 where 32 took 9.9."""
    wide = estimate_batch_s(node, 1, 32768, 32, 512)
    for columns in (1, 4, 8, 16, 31):
        assert 0.8 * wide < estimate_batch_s(node, 1, 32768, columns, 512) < 1.02 * wide


@pytest.mark.parametrize("node", ["H100_80GB", "A100_SXM_80GB", "B200_180GB"])
def test_rows_that_are_not_aligned_are_copied(node):
    """The vocabulary of GPT-2 has 50,257 words, which users pad to 50,304."""
    odd, padded = (estimate_batch_s(node, 1, 8192, columns, 4096) for columns in (50257, 50304))
    assert 1.05 < odd / padded < 1.3
    assert estimate_batch_s(node, 1, 4096, 4096, 4100) > estimate_batch_s(node, 1, 4096, 4096, 4104)


# Launches of single products, in microseconds, from the table in XLA (GemmPerfTable in the wheel
# jax_cuda12_pjrt 0.12.0.1): count, m, n, k. Narrow and deep ones, as of attention, are last. Those
# of f32 are tf32. On H100 they are as much as twice as fast in one shape as in the next.
XLA_TABLE_US = {
    ("H100_80GB", "bf16"): {
        (1, 1024, 4096, 4096): 45.696, (1, 2048, 2048, 4096): 45.68, (1, 4096, 4096, 1024): 50.144,
        (1, 4096, 4096, 4096): 176.16, (4, 4096, 4096, 256): 68.016, (4, 4096, 4096, 512): 110.768,
        (2, 4096, 256, 4096): 28.752, (4, 4096, 256, 4096): 56.208,
    },
    ("H100_80GB", "tf32"): {
        (1, 1024, 4096, 4096): 105.456, (1, 2048, 2048, 4096): 92.352,
        (1, 4096, 4096, 1024): 111.184, (1, 4096, 4096, 4096): 340.913,
        (4, 4096, 4096, 256): 142.144, (4, 4096, 4096, 512): 216.961,
        (2, 4096, 256, 4096): 100.432, (4, 4096, 256, 4096): 206.976,
    },
    ("B200_180GB", "tf32"): {
        (1, 1024, 4096, 4096): 52.331, (1, 2048, 2048, 4096): 52.252, (1, 4096, 4096, 1024): 53.952,
        (1, 4096, 4096, 4096): 181.332, (4, 4096, 4096, 256): 67.214,
        (4, 4096, 4096, 512): 102.789, (2, 4096, 256, 4096): 33.824, (4, 4096, 256, 4096): 57.264,
    },
    ("B200_180GB", "f8"): {
        (1, 1024, 4096, 4096): 17.733, (1, 2048, 2048, 4096): 17.568, (1, 4096, 4096, 1024): 18.128,
        (1, 4096, 4096, 4096): 49.707, (4, 4096, 4096, 256): 33.927, (4, 4096, 4096, 512): 40.135,
        (2, 4096, 256, 4096): 12.096, (4, 4096, 256, 4096): 19.04,
    },
    ("B200_180GB", "bf16"): {
        (1, 1024, 4096, 4096): 28.304, (1, 2048, 2048, 4096): 28.432, (1, 4096, 4096, 1024): 31.944,
        (1, 4096, 4096, 4096): 97.002, (4, 4096, 4096, 256): 43.393, (4, 4096, 4096, 512): 63.008,
        (2, 4096, 256, 4096): 17.441, (4, 4096, 256, 4096): 29.815,
    },
}  # fmt: skip


@pytest.mark.parametrize(("node", "dtype"), XLA_TABLE_US)
def test_products_that_xla_compiles_take_the_time_of_its_table(node, dtype):
    constants = DeviceConstants.from_node(configs.load_node(node))
    errors = []
    for (count, m, n, k), measured_us in XLA_TABLE_US[node, dtype].items():
        shape = MatrixProduct(m, k, n, count, dtype, 2 * count * m * n * k)
        size = {"f8": 1, "bf16": 2, "tf32": 4}[dtype]
        moved = count * (size * (m * k + k * n) + max(size, 2) * m * n)
        time = estimate_product_time(constants, shape, moved, sustained=False, compiled=True)
        errors.append(1e6 * (time.time_s + time.fit.eager_s) / measured_us - 1)
    most = 0.2 if (node, dtype) == ("H100_80GB", "tf32") else 0.13
    assert max(map(abs, errors)) < most and abs(sum(errors)) < 0.05 * len(errors)


def test_an_h200_takes_the_tf32_products_of_xla_from_the_h100():
    """An H200 took 30.7 us for 1024 x 4096 x 1024, which bf16's constants make 22.6."""
    shape = MatrixProduct(1024, 1024, 4096, 1, "tf32", 2 * 1024 * 1024 * 4096)
    constants = DeviceConstants.from_node(configs.load_node("H200_141GB"))
    time = estimate_product_time(constants, shape, 4 * 9 * 2**20, compiled=True)
    assert time.fit.name == "H100_80GB product.tf32_xla" and "same chip" in time.fit.causes
    assert 0.85 < 1e6 * time.time_s / 30.7 < 1.15


@pytest.mark.parametrize(("kind", "name"), [("kCustom", "_xla"), ("kOutput", "_sustained")])
def test_fusions_of_xla_have_constants_of_their_own(parse, kind, name):
    type_ = "tensor<2048x2048xbf16>"
    op = first_op(
        parse,
        f"%a: {type_}",
        f"""
        %0 = "mhlo.fusion"(%a) <{{fusion_kind = #mhlo<fusion_kind {kind}>}}> ({{
        ^bb0(%x: {type_}):
          %1 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
            : ({type_}, {type_}) -> {type_}
          mhlo.return %1 : {type_}
        }}) : ({type_}) -> {type_}""",
    )
    assert cost(op, "B200_180GB").kernel_class == f"product.bf16{name}"


def test_small_batched_products_fill_whole_tiles():
    """A tile of 32 inner elements and columns takes as long when only 16 of each are there."""
    small, whole = (estimate_batch_s("H100_80GB", 65536, *(size,) * 3) for size in (16, 32))
    assert 0.5 * whole < small < whole


def test_depthwise_convolutions_do_not_reach_the_bandwidth(parse):
    """32 channels of 512 x 512 take 1.02 ms on a board of 547 GB/s, 0.24 of it (see the source)."""
    image, kernel = "tensor<8x512x512x32xf32>", "tensor<3x3x1x32xf32>"
    op = first_op(
        parse,
        f"%a: {image}, %b: {kernel}",
        f"""%0 = stablehlo.convolution(%a, %b)
          dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
          window = {{pad = [[1, 1], [1, 1]]}}
          {{batch_group_count = 1 : i64, feature_group_count = 32 : i64}}
          : ({image}, {kernel}) -> {image}""",
    )
    stream_ns = 1e9 * 2 * 8 * 512 * 512 * 32 * 4 / A100.memory_bandwidth_bytes_per_s
    assert 3 < cost(op).latency_ns / stream_ns < 6


@pytest.mark.parametrize(("word", "unit"), [("arith.mulf", "vector"), ("tt.dot", "matrix")])
def test_a_kernel_without_products_runs_on_the_vector_unit(parse, word, unit):
    """What Pallas declares is a number of operations; the kernel says whether they are products."""
    type_ = "tensor<1024x1024xbf16>"
    op = first_op(
        parse,
        f"%a: {type_}",
        "%0 = stablehlo.custom_call @__gpu$xla.gpu.triton(%a) {mhlo.backend_config = {"
        f'ir = "{word}", name = "scan", cost_estimate = {{flops = 10000000000 : i64}}}}}}'
        f" : ({type_}) -> {type_}",
    )
    assert [part.unit for part in compute_op_work(op).parts] == [unit]


@pytest.mark.parametrize("node", ["A100_SXM_80GB", "TPUv5p"])
def test_a_product_that_adds_up_nothing_writes_zeros(parse, node):
    """One of empty operands has no operations, and therefore no type whose rate could count."""
    zeros = first_op(
        parse,
        "%s: tensor<f32>",
        "%0 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<4096x4096xf32>",
    )
    product = gemm(parse, 4096, 4096, 0, "f32")
    assert cost(product, node).latency_ns == pytest.approx(cost(zeros, node).latency_ns, rel=0.1)
    assert cost(gemm(parse, 0, 0, 64), node).flops == 0


def test_doubling_a_large_product_doubles_its_time(parse):
    once = cost(gemm(parse, 8192, 8192, 8192)).latency_ns
    twice = cost(gemm(parse, 8192, 16384, 8192)).latency_ns
    assert 1.8 < twice / once < 2.2


def test_updates_in_place_visit_the_elements_of_the_update(parse):
    stack, part = "tensor<80x4096x1024xbf16>", "tensor<1x4096x1024xbf16>"

    def write_part(target, first):
        return first_op(
            parse,
            f"%s: {stack}, %u: {part}, %i: tensor<i32>",
            f"""
            %0 = "mhlo.fusion"(%s, %u, %i) <{{fusion_kind = #mhlo<fusion_kind kLoop>}}> ({{
            ^bb0(%a: {stack}, %b: {part}, %j: tensor<i32>):
              {first}
              %d = stablehlo.dynamic_update_slice {target}, %b, %j, %j, %j
                : ({stack}, {part}, tensor<i32>, tensor<i32>, tensor<i32>) -> {stack}
              %v = mhlo.bitcast %d : ({stack}) -> {stack}
              mhlo.return %v : {stack}
            }}) : ({stack}, {part}, tensor<i32>) -> {stack}""",
        )

    in_place, copied = write_part("%a", ""), write_part("%n", f"%n = stablehlo.negate %a : {stack}")
    elements = 4096 * 1024
    assert collect_traits(in_place, compute_op_work(in_place)).elements == elements
    assert collect_traits(copied, compute_op_work(copied)).elements == 80 * elements
    timed = cost(in_place, "H100_80GB")
    assert timed.bound == "memory" and timed.read_bytes == timed.write_bytes + 4 == 2 * elements + 4


def test_streams(parse):
    big, launch_ns = "tensor<8192x8192xf32>", 1e9 * CONSTANTS.launch_s
    add = first_op(parse, f"%a: {big}", f"%0 = stablehlo.add %a, %a : {big}")
    op_cost = cost(add)
    share = 3 * 4 * 8192**2 / (op_cost.latency_ns - launch_ns) / 2.039e3
    assert share == pytest.approx(CONSTANTS.fits["stream.loop"].bandwidth, rel=0.02)
    assert (op_cost.bound, op_cost.tag) == ("memory", None)

    tiny = first_op(parse, "%a: tensor<8xf32>", "%0 = stablehlo.add %a, %a : tensor<8xf32>")
    op_cost = cost(tiny)
    assert op_cost.bound == "launch" and op_cost.latency_ns == pytest.approx(launch_ns, rel=0.01)

    free = first_op(
        parse, "%a: tensor<8xf32>", "%0 = stablehlo.reshape %a : (tensor<8xf32>) -> tensor<2x4xf32>"
    )
    op_cost = cost(free)
    assert (op_cost.latency_ns, op_cost.low_ns, op_cost.high_ns, op_cost.tag) == (
        0.0,
        0.0,
        0.0,
        None,
    )


def test_instructions_bind_where_they_are_many(parse):
    type_ = "tensor<8192x8192xbf16>"
    times = {
        name: cost(first_op(parse, f"%a: {type_}", f"%0 = stablehlo.{name} %a : {type_}"))
        for name in ("negate", "exponential", "sine")
    }
    assert times["negate"].bound == times["exponential"].bound == "memory"
    assert times["sine"].bound == "compute"
    assert times["negate"].latency_ns <= times["exponential"].latency_ns < times["sine"].latency_ns


# PyTorch's kernels in f32 on more than 2^25 elements, as multiples of relu: medians of 22 to 50
# sizes of sitar-lab/NeuSight (MIT). Instructions bind a power on the 80 GB board only.
@pytest.mark.parametrize(
    ("node", "name", "ratio"),
    [
        ("A100_PCIe_80GB", "power", 1.128),
        ("A100_PCIe_80GB", "tanh", 0.995),
        ("A100_PCIe_40GB", "power", 1.019),
        ("A100_PCIe_40GB", "tanh", 0.994),
        ("L4_24GB", "power", 1.002),
    ],
)
def test_instructions_overlap_with_memory_as_measured(parse, node, name, ratio):
    type_ = "tensor<16384x8192xf32>"
    operands = "%a, %c" if name == "power" else "%a"
    op = first_op(
        parse,
        f"%a: {type_}",
        f"""
        %c = stablehlo.constant dense<2.5> : {type_}
        %0 = stablehlo.{name} {operands} : {type_}""",
    )
    relu = first_op(parse, f"%a: {type_}", f"%0 = stablehlo.negate %a : {type_}")
    work = compute_op_work(relu)
    estimator = CalibratedEstimator(CalibratedConfig(configs.load_node(node)))
    content = read_kernel(CostItem(op), estimator.constants.sector_bytes)
    vector_s = estimator._compute_vector_s(content)
    fit, moved = estimator.constants.fits["stream.loop"], work.read_bytes + work.write_bytes
    times = [
        estimate_stream_time(estimator.constants, fit, moved, compute_s).time_s
        for compute_s in (vector_s, 0.0)
    ]
    assert times[0] / times[1] == pytest.approx(ratio, abs=0.06)


@pytest.mark.parametrize(
    ("shape", "order", "is_wasteful"),
    [
        ((4096, 4096), (1, 0), False),  # through shared memory
        ((64, 128, 512), (1, 0, 2), False),  # whole rows move
        ((1 << 22, 4), (1, 0), True),  # each result is 4 elements from the next
        ((4, 1 << 22), (1, 0), False),  # neighbours come from 4 rows, each read in order
    ],
)
def test_transposes_waste_what_they_read_in_part(parse, shape, order, is_wasteful):
    text = "x".join(map(str, shape))
    out = "x".join(str(shape[d]) for d in order)
    op = first_op(
        parse,
        f"%a: tensor<{text}xf32>",
        f"%0 = stablehlo.transpose %a, dims = {list(order)}"
        f" : (tensor<{text}xf32>) -> tensor<{out}xf32>",
    )
    assert bool(collect_traits(op, compute_op_work(op)).wasted_bytes) == is_wasteful


def test_a_reduction_to_few_columns_runs_on_few_cores(parse):
    def reduce(rows, columns, dim):
        type_ = f"tensor<{rows}x{columns}xf32>"
        out = f"tensor<{(rows, columns)[1 - dim]}xf32>"
        return first_op(
            parse,
            f"%a: {type_}",
            "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
            f"%0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [{dim}]"
            f" : ({type_}, tensor<f32>) -> {out}",
        )

    assert collect_traits(reduce(4096, 64, 0), compute_op_work(reduce(4096, 64, 0))).blocks == 2
    assert cost(reduce(4096, 64, 0)).latency_ns > 1.5 * cost(reduce(64, 4096, 1)).latency_ns
    whole = collect_traits(reduce(1 << 20, 64, 0), compute_op_work(reduce(1 << 20, 64, 0)))
    assert whole.launches == 2 and whole.blocks > 100


def test_one_kernel_over_rows_takes_the_softmax_fit(parse):
    type_, sums = "tensor<16384x2048xf32>", "tensor<16384xf32>"
    times = []
    for kind in ("kCustom", "kInput"):
        op = first_op(
            parse,
            f"%a: {type_}",
            f"""
            %0 = "mhlo.fusion"(%a) <{{fusion_kind = #mhlo<fusion_kind {kind}>}}> ({{
            ^bb0(%x: {type_}):
              %z = stablehlo.constant dense<0.0> : tensor<f32>
              %1 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]
                : ({type_}, tensor<f32>) -> {sums}
              %2 = stablehlo.broadcast_in_dim %1, dims = [0] : ({sums}) -> {type_}
              %3 = stablehlo.subtract %x, %2 : {type_}
              mhlo.return %3 : {type_}
            }}) : ({type_}) -> {type_}""",
        )
        rows = collect_traits(op, compute_op_work(op)).rows
        assert rows == (("softmax", 2048, 16384) if kind == "kCustom" else None)
        times.append(cost(op).latency_ns)
    assert times[0] > 1.1 * times[1]


def test_operations_without_a_shape_take_time(parse):
    """A Pallas kernel that says what it costs: 1e15 operations are seconds, whatever its bytes."""
    type_ = "tensor<1024x1024xbf16>"
    op = first_op(
        parse,
        f"%a: {type_}",
        r"%0 = stablehlo.custom_call @tpu_custom_call(%a) {backend_config = "
        r'"{\22cost_estimate\22: {\22flops\22: 1000000000000000}}"}'
        f" : ({type_}) -> {type_}",
    )
    op_cost = cost(op)
    efficiency = CONSTANTS.fits["product.bf16"].efficiency
    assert op_cost.latency_ns == pytest.approx(1e9 * 1e15 / (efficiency * 312e12), rel=0.01)
    assert (op_cost.bound, op_cost.tag) == ("compute", "assumed")
    estimator = CalibratedEstimator(CalibratedConfig(A100))
    estimator.estimate(CostItem(op))
    (warning,) = estimator.list_warnings()
    assert "tpu_custom_call" in warning and "lower bound" in warning


@pytest.mark.parametrize(
    ("left", "right", "dims", "types", "teraops"),
    [
        ("131072x256", "256x512", "[1] x [0]", ("i16", "i16", "i16"), (4.58, 5.12)),
        ("131072x256", "256x512", "[1] x [0]", ("i8", "i8", "i8"), (4.58, 5.12)),
        ("16x1024x1024", "16x1024x1024", "[2] x [2]", ("i8", "i8", "i8"), (2.83, 2.83)),
    ],
)
def test_integers_without_a_library_are_multiplied_in_loops(
    parse, left, right, dims, types, teraops
):
    """Measured on an A100: jax-ml/jax#17688 (both types of rows) and openxla/xla#7117 (batches)."""
    shapes = [tuple(map(int, text.split("x"))) for text in (left, right)]
    batch = "" if len(shapes[0]) == 2 else "batching_dims = [0] x [0], "
    rows, columns = shapes[0][-2], shapes[1][-2 if batch else -1]
    out = f"{'16x' if batch else ''}{rows}x{columns}x{types[2]}"
    lhs, rhs = f"tensor<{left}x{types[0]}>", f"tensor<{right}x{types[1]}>"
    op = first_op(
        parse,
        f"%a: {lhs}, %b: {rhs}",
        f"%0 = stablehlo.dot_general %a, %b, {batch}contracting_dims = {dims} "
        f": ({lhs}, {rhs}) -> tensor<{out}>",
    )
    operations = 2 * math.prod(shapes[0]) * columns
    low, high = teraops
    assert 0.95 * low < operations / cost(op).latency_ns / 1e3 < 1.05 * high
    assert cost(op).tag == "assumed"
    traits = collect_traits(op, compute_op_work(op))
    assert not traits.products and traits.loop_products


@pytest.mark.parametrize(
    ("types", "in_loops"),
    [("i8 i8 i32", False), ("i8 i8 f32", False), ("ui8 ui8 i32", True), ("ui8 i8 i32", True),
     ("i4 i4 i32", True), ("i8 i4 i32", True), ("i32 i32 i32", True), ("i1 i1 i1", True),
     ("bf16 bf16 f32", False), ("f8E5M2 f8E4M3FN f32", False)],
)  # fmt: skip
def test_products_of_which_cublas_has_none(parse, types, in_loops):
    """XLA leaves them as a dot in a loop fusion, seen in what jaxlib 0.10 and 0.12 compile."""
    lhs, rhs, out = (f"tensor<64x64x{kind}>" for kind in types.split())
    op = first_op(
        parse,
        f"%a: {lhs}, %b: {rhs}",
        "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] "
        f": ({lhs}, {rhs}) -> {out}",
    )
    assert bool(collect_traits(op, compute_op_work(op)).loop_products) == in_loops
    chip = collect_traits(op, compute_op_work(op), 0)  # of a chip that is no GPU
    assert not chip.loop_products


def test_a_default_rate_is_at_the_types_own_share(parse):
    node = node_files.parse_node_file({"peak_flops": 1e14, "memory_bandwidth": 1e12}, "mine.json")
    shape = MatrixProduct(1024, 1024, 1024, 1, "f32", 2 << 30)
    assert estimate_product_time(DeviceConstants.from_node(node), shape, 0.0).fit.name.endswith(
        "product.f32"
    )


def test_four_bits_without_a_table_take_bf16s_constants_by_bytes(parse):
    node = configs.load_node("B200_180GB")
    assert "f4" in node.peaks_flops["matrix"]
    constants = DeviceConstants.from_node(node)
    fit = replace(constants.fits["product.bf16_sustained"], residual=None)
    fits = {**constants.fits, "product.bf16_sustained": fit}
    del fits["product.f4"]
    constants = replace(constants, fits=fits)
    few, many = (
        estimate_product_time(constants, MatrixProduct(64, k, 64, 1, "f4", 0), 0.0)
        for k in (1024, 8192)
    )
    assert many.time_s - few.time_s == pytest.approx((8192 - 1024) / 4 * fit.s_per_k)


# Bands and tags


def test_tags_say_what_is_unsure_and_widen_the_band(parse):
    def width(op_cost):
        return op_cost.high_ns / op_cost.low_ns

    own = cost(gemm(parse, 2048, 2048, 2048))
    assert own.tag is None and own.low_ns < own.latency_ns < own.high_ns
    beyond = cost(gemm(parse, 2048, 1 << 18, 2048))
    shared, own_shared = (c.shared_high_ns / c.shared_low_ns for c in (beyond, own))
    assert beyond.tag == "extrapolated" and shared > own_shared
    assert cost(gemm(parse, 2048, 2048, 2048, "f16")).tag is None
    assert cost(gemm(parse, 2048, 2048, 2048, "f32")).tag == "transferred"  # as tf32
    assert cost(gemm(parse, 2048, 2048, 2048), "A100_SXM_40GB").tag is None  # the same chip
    sustained = cost(gemm(parse, 2048, 2048, 2048), "H200_141GB")  # measured at its power limit
    assert sustained.tag is None
    tags = {"A40_48GB": "transferred", "V100_32GB": "transferred", "Gaudi3": "assumed"}
    for name, tag in tags.items():
        other = cost(gemm(parse, 2048, 2048, 2048, "f16"), name)
        assert other.tag == tag and width(other) > width(sustained)
    sort = first_op(
        parse,
        "%a: tensor<64x4096xf32>",
        """%0 = "stablehlo.sort"(%a) <{dimension = 1 : i64}> ({
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %1 = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %1 : tensor<i1>
        }) : (tensor<64x4096xf32>) -> tensor<64x4096xf32>""",
    )
    assert cost(sort).tag == "assumed"


def test_quantising_linear_layers_take_longer(parse):
    op = gemm(parse, 2048, 4096, 4096, "f8E4M3FN", "bf16")
    bare, layer = cost(op, "H100_80GB"), cost(op, "H100_80GB", quantise=True)
    assert bare.tag == "transferred" and layer.tag is None
    assert bare.latency_ns < layer.latency_ns
    assert cost(gemm(parse, 2048, 4096, 4096), "H100_80GB").latency_ns > bare.latency_ns


@given(st.lists(st.tuples(st.floats(0, 1e9), st.none() | st.floats(0, 1), st.sampled_from(
    [None, "assumed", "assumed transferred"])), max_size=6))  # fmt: skip
def test_bands_add_up(rows):
    costs = [
        Cost("e", 0, 0, 0, t, "memory", "none", tag=tag)
        if half is None
        else Cost(
            "e",
            0,
            0,
            0,
            t,
            "memory",
            "none",
            low_ns=t * (1 - half),
            high_ns=t * (1 + half),
            tag=tag,
        )
        for t, half, tag in rows
    ]
    total = aggregate_costs(costs, "e")
    if all(half is None for _, half, _ in rows):
        assert total.low_ns is None and total.high_ns is None
    else:
        assert total.low_ns <= total.time_ns * (1 + 1e-12)
        assert total.high_ns >= total.time_ns * (1 - 1e-12)
        spread = math.fsum(2 * t * half for t, half, _ in rows if half is not None)
        assert total.high_ns - total.low_ns == pytest.approx(spread, rel=1e-9, abs=1e-3)
        assert repeat_cost(total, 3).high_ns == 3 * total.high_ns
    words = {word for _, _, tag in rows for word in (tag or "").split()}
    assert set((total.tag or "").split()) == words


@pytest.mark.parametrize("node", ["H100_80GB", "TPUv5e", "MI300X"])
def test_a_band_contains_the_time(parse, node):
    """Whatever the time consists of: kernels, small ones, and those of nodes without constants."""
    estimator = CalibratedEstimator(CalibratedConfig(configs.load_node(node)))
    kernels = [gemm(parse, m, m, m) for m in (8, 4096)]
    for n in (4, 1 << 20):
        add = f"%0 = stablehlo.add %a, %a : tensor<{n}xf32>"
        kernels.append(first_op(parse, f"%a: tensor<{n}xf32>", add))
    for op in kernels:
        cost = estimator.estimate(CostItem(op))
        assert cost.low_ns <= cost.time_ns <= cost.high_ns
        if cost.shared_low_ns is not None:
            assert cost.shared_low_ns <= cost.time_ns <= cost.shared_high_ns


def test_a_band_is_chosen_by_time():
    band = ErrorBand.from_preset_rows([[1e-6, -0.1, 0.2], [1e3, -0.05, 0.05]])
    assert band.get_log_ends_at(1e-6) == pytest.approx((math.log(0.9), math.log(1.2)))
    assert band.get_log_ends_at(2e-6) == pytest.approx((math.log(0.95), math.log(1.05)))


# Fused attention

# Queries to milliseconds: cuDNN 9.27, backward, causal, bf16. The keys are a node, heads (batch x
# heads), those of keys, and their size. NVIDIA/cudnn-frontend (MIT) 816ea4573, 73af113db and
# d6d35d692, benchmark/attention_training/results/llama3.1 and qwen35.
BACKWARD_MS = {
    ("H200_141GB", 128, 16, 128): {2048: 0.856, 8192: 10.448, 32768: 166.714},
    ("A100_PCIe_80GB", 128, 16, 128): {2048: 3.168, 8192: 40.532, 32768: 617.228},
    ("RTX_PRO_6000_96GB", 128, 16, 128): {2048: 1.912, 8192: 22.188, 32768: 337.489},
    ("H200_141GB", 32, 2, 256): {2048: 0.621, 8192: 6.998, 32768: 122.924},
}


def attention(queries, *, backward, dtype="bf16", heads=128, head_size=128):
    products = 5 if backward else 2
    flops = products * 2 * heads * head_size * queries * (queries + 1) // 2
    return AttentionShape(heads, queries, head_size, dtype, flops, backward)


@pytest.mark.parametrize(("node", "heads", "key_heads", "head_size"), BACKWARD_MS)
def test_backward_attention_is_as_measured(node, heads, key_heads, head_size):
    constants = DeviceConstants.from_node(configs.load_node(node))
    for queries, time_ms in BACKWARD_MS[node, heads, key_heads, head_size].items():
        moved = 4 * queries * head_size * (heads + key_heads) * 2 + heads * queries * 4
        shape = attention(queries, backward=True, heads=heads, head_size=head_size)
        kernel = estimate_attention_time(constants, shape, moved)
        assert 1e3 * kernel.time_s == pytest.approx(time_ms, rel=0.01)
        assert "transferred" not in kernel.tags


def test_backward_attention_of_other_head_sizes_is_extrapolated():
    constants = DeviceConstants.from_node(configs.load_node("A100_SXM_80GB"))
    for head_size, tags in ((128, set()), (64, {"extrapolated"})):
        shape = attention(4096, backward=True, head_size=head_size)
        assert estimate_attention_time(constants, shape, 0.0).tags == tags


# (batch, keys) to microseconds: one query for each of 32 heads of 128, 8 of keys, vLLM's kernels.
# aiconfigurator (Apache-2.0) 095f58a51, generation_attention_perf of vLLM 0.24.0 and 0.14.0.
DECODING_US = {
    "H100_80GB": {(1, 4096): 16.87, (16, 1024): 36.1, (16, 4096): 113.4, (64, 4096): 353.6},
    "A100_SXM_80GB": {(1, 4096): 29.49, (16, 1024): 69.4, (16, 4096): 191.0, (64, 4096): 681.6},
}


def estimate_decoding_attention(node, batch, keys):
    flops, moved = 4 * batch * 32 * keys * 128, 4 * batch * 128 * (8 * keys + 32)
    shape = AttentionShape(batch * 32, 1, 128, "bf16", flops, False, batch * 8, keys)
    return estimate_attention_time(DeviceConstants.from_node(configs.load_node(node)), shape, moved)


@pytest.mark.parametrize("node", DECODING_US)
def test_decoding_attention_is_as_measured(node):
    for (batch, keys), time_us in DECODING_US[node].items():
        kernel = estimate_decoding_attention(node, batch, keys)
        assert 1e6 * kernel.time_s == pytest.approx(time_us, rel=0.2)
        assert not kernel.tags


def test_decoding_attention_of_other_nodes_is_tagged():
    moved = 4 * 16 * 128 * (8 * 4096 + 32)
    for node, tag in (("L4_24GB", "transferred"), ("TPUv5p", "assumed")):
        kernel = estimate_decoding_attention(node, 16, 4096)
        assert tag in kernel.tags
        bandwidth = configs.load_node(node).memory_bandwidth_bytes_per_s
        assert 0.9 < kernel.time_s / (moved / bandwidth) < 1.5


@pytest.mark.parametrize("node", ["H100_80GB", "H200_141GB", "A100_SXM_80GB", "B200_180GB"])
def test_backward_attention_runs_at_a_lower_rate_than_forward(node):
    constants = DeviceConstants.from_node(configs.load_node(node))
    backward = estimate_attention_time(constants, attention(8192, backward=True), 0.0)
    forward = estimate_attention_time(constants, attention(8192, backward=False), 0.0)
    assert 0.7 < 2.5 * forward.time_s / backward.time_s < 0.95
    other = estimate_attention_time(constants, attention(8192, backward=True, dtype="f8"), 0.0)
    assert "transferred" in other.tags


# Nodes


@pytest.mark.parametrize("name", configs.list_node_presets())
def test_every_node_has_every_class(name):
    constants = DeviceConstants.from_node(configs.load_node(name))
    assert {"product.bf16", "product.f32", "attention", "stream.loop", "stream.reduce"} <= set(
        constants.fits
    )
    assert constants.provenance


@pytest.mark.parametrize("name", configs.list_node_presets())
def test_no_node_takes_constants_of_another_vendor(name):
    node = configs.load_node(name)
    constants = DeviceConstants.from_node(node)
    donors = {fit.name.rpartition(" ")[0] for fit in constants.fits.values()} - {"data sheet"}
    assert {configs.load_node(donor).vendor for donor in donors} <= {node.vendor}
    assert bool(constants.issue_per_flop) == (node.vendor == "NVIDIA")
    if node.vendor == "NVIDIA":
        assert constants.launch_s > 1e-6 and constants.core_bandwidth_bytes_per_s > 1e9
        assert constants.sector_bytes == 64


# In TFLOP/s: AMD's largest figure for a shape, and that over ten shapes (m, n, k) of a language
# model, weighted by their operations (rocm.blogs.amd.com, see the sources of the nodes).
AMD_LARGEST = {
    "MI325X": {"bf16": 831.40, "f16": 787.25, "f8": 1408.06},
    "MI300X": {"bf16": 708, "f16": 654, "f8": 1273},
}
AMD_TYPICAL = {"bf16": 616, "f16": 606, "f8": 1143}  # of MI325X
AMD_SHAPES = [
    (m, n, k)
    for m in (32, 32768)
    for n, k in ((2112, 7168), (3072, 1536), (7168, 2048), (4608, 7168), (7168, 256))
]


def rate_products(name, dtype, shapes):
    """Return the estimated TFLOP/s of products, and the largest relative ends of their bands."""
    constants = DeviceConstants.from_node(configs.load_node(name))
    size = {"f8": 1}.get(dtype, 2)
    times = [
        estimate_product_time(
            constants,
            MatrixProduct(m, k, n, 1, dtype, 2 * m * n * k),
            size * (m * k + k * n) + 2 * m * n,
        )
        for m, n, k in shapes
    ]
    _, low, high = times[0].fit.band.steps[0]
    flops = sum(2 * m * n * k for m, n, k in shapes)
    return flops / sum(time.time_s for time in times) / 1e12, math.exp(-high), math.exp(-low)


@pytest.mark.parametrize("name", AMD_LARGEST)
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f8"])
def test_products_of_amd_are_between_the_best_shape_and_typical_ones(name, dtype):
    best_shape = (4096, 3648 if dtype == "f8" else 4864, 32896)
    rate, _, above = rate_products(name, dtype, [best_shape])
    assert rate < AMD_LARGEST[name][dtype] < rate * above * 1.01
    if name == "MI325X":
        rate, below, _ = rate_products(name, dtype, AMD_SHAPES)
        assert rate * below * 0.99 < AMD_TYPICAL[dtype] < rate


# Products in the fastest kernel of a search on MI355X (ROCm/aiter e4048607a5,
# aiter/configs/model_configs: llama70B and llama405B; bf16 in TFLOP/s).
TUNED_MI355X = [(4096, 8192, 28672, 1543), (16384, 14336, 8192, 1546), (4096, 16384, 26624, 1543)]


@pytest.mark.parametrize(("m", "n", "k", "measured"), TUNED_MI355X)
def test_large_products_of_mi355x_have_the_rates_of_tuned_kernels(m, n, k, measured):
    rate, _, _ = rate_products("MI355X", "bf16", [(m, n, k)])
    assert rate == pytest.approx(measured, rel=0.1)
    slower, _, _ = rate_products("MI350X", "bf16", [(m, n, k)])
    assert slower == pytest.approx(rate * 2.2 / 2.4, rel=0.03)


@pytest.mark.parametrize("name", ["Gaudi3", "Trainium2"])
def test_a_node_without_constants_has_the_times_of_the_roofline(parse, name):
    estimator = CalibratedEstimator(CalibratedConfig(configs.load_node(name)))
    lower_bound = RooflineEstimator(RooflineConfig(estimator.node))
    wide = "tensor<8192x8192xf32>"
    reduce_body = f"""
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0]
        : ({wide}, tensor<f32>) -> tensor<8192xf32>"""
    ops = [
        gemm(parse, 512, 512, 512),
        gemm(parse, 4096, 4096, 4096),
        first_op(parse, f"%a: {wide}", f"%0 = stablehlo.exponential %a : {wide}"),
        first_op(parse, f"%a: {wide}", reduce_body),
    ]
    for op in ops:
        estimate, bound = estimator.estimate(CostItem(op)), lower_bound.estimate(CostItem(op))
        assert (estimate.latency_ns, estimate.bound) == (bound.latency_ns, bound.bound)
        assert estimate.tag == "assumed" and estimate.high_ns == pytest.approx(
            2 * estimate.latency_ns
        )
    assert estimator.describe_provenance() == (
        f"{name}, no constants: rates of the data sheet, as the roofline; "
        "distinct kernels: 4 assumed"
    )


def test_missing_classes_take_constants_of_related_ones(parse):
    fit = {"fixed_s": 1e-6, "bandwidth": 0.5, "efficiency": 0.25, "band": [[1, -0.1, 0.1]]}
    node = replace(A100, name="mine", calibration={"fits": {"product.bf16": fit}})
    constants = DeviceConstants.from_node(node)
    own, attention_fit = constants.fits["product.bf16"], constants.fits["attention"]
    assert not own.tags
    assert (attention_fit.efficiency, attention_fit.tags) == (0.25, {"assumed"})
    assert constants.fits["stream.loop"].bandwidth == 1.0
    op_cost = CalibratedEstimator(CalibratedConfig(node)).estimate(
        CostItem(gemm(parse, 8192, 8192, 8192))
    )
    assert op_cost.tag is None
    assert op_cost.latency_ns > 4 * 1e9 * 2 * 8192**3 / 312e12


def test_a_node_without_calibration_says_so(parse):
    bare = replace(A100, name="mine", calibration=None)
    estimator = CalibratedEstimator(CalibratedConfig(bare))
    assert estimator.estimate(CostItem(gemm(parse, 512, 512, 512))).tag == "assumed"
    alike = replace(A100, name="mine", calibration={"like": "A100_SXM_80GB"})
    estimator = CalibratedEstimator(CalibratedConfig(alike))
    assert estimator.estimate(CostItem(gemm(parse, 512, 512, 512))).tag == "transferred"
    assert estimator.describe_provenance() == (
        "mine, constants of A100_SXM_80GB and A100_PCIe_80GB and A100_PCIe_40GB; "
        "distinct kernels: 1 transferred"
    )


def test_a_device_without_backward_kernels_takes_the_factor_of_another():
    constants = DeviceConstants.from_node(configs.load_node("L40S_48GB"))
    forward, backward = (
        estimate_attention_time(constants, attention(8192, backward=flag), 0.0)
        for flag in (False, True)
    )
    assert "transferred" in backward.tags and "transferred" not in forward.tags
    assert backward.time_s > 2.5 * forward.time_s


def test_bursts_of_a_device_precede_another_device_at_its_power_limit():
    fits = DeviceConstants.from_node(configs.load_node("B300_288GB")).fits
    assert fits["product.bf16"].name == "B300_288GB product.bf16"
    assert "product.bf16_sustained" not in fits


# The power of a board

POWER = BoardPower(100.0, 1e-12, 5e-11, 1.5, 500.0)


def test_a_kernel_below_the_limit_runs_at_full_clock():
    assert POWER.compute_slowdown(399e12, 0.0, 1.0) == 1.0
    assert POWER.compute_slowdown(0.0, 3e12, 1.0) == 1.0


@draw_examples()
@given(st.floats(1e12, 1e15), st.floats(1e9, 1e13), st.floats(0.1, 10))
def test_a_slow_kernel_draws_the_limit(flops, moved, time_s):
    slowdown = POWER.compute_slowdown(flops, moved, time_s)
    compute_j = flops * POWER.j_per_flop / slowdown**POWER.clock_exponent
    power_w = POWER.idle_w + (compute_j + moved * POWER.j_per_byte) / (time_s * slowdown)
    assert power_w <= 500.001 and (slowdown == 1.0 or power_w > 499.999)


def test_a_lower_power_limit_slows_products_and_attention():
    constants = [
        DeviceConstants.from_node(configs.load_node(node))
        for node in ("H100_80GB", "H100_96GB_HBM2e")
    ]
    shape = MatrixProduct(8192, 4096, 8192, 1, "bf16", 2 * 8192 * 8192 * 4096)
    fast, slow = (estimate_product_time(each, shape, 4e8) for each in constants)
    assert 1.2 < slow.time_s / fast.time_s < 1.35
    assert "transferred" in slow.tags and "transferred" not in fast.tags
    fast, slow = (
        estimate_attention_time(each, attention(8192, backward=False), 0.0) for each in constants
    )
    assert 1.1 < slow.time_s / fast.time_s < 1.35
    # Memory does not reach the limit.
    thin = MatrixProduct(1, 8192, 8192, 1, "bf16", 2 * 8192**2)
    times = [estimate_product_time(each, thin, 2.0 * 8192**2) for each in constants]
    assert times[1].time_s / times[0].time_s == pytest.approx(3.35 / 2.4, rel=0.1)


# Products (m, n, k) of pytorch/FBGEMM pull request 2546 on an H100 with a limit of 500 W, with
# milliseconds in bf16 and in 8-bit floats. Only the latter determine a constant.
PRODUCTS_AT_500_W = (
    ((8192, 8192, 8192), 1.879, 0.977),
    ((65536, 8192, 7168), 13.383, 7.108),
    ((65536, 3584, 8192), 7.044, 3.372),
)


@pytest.mark.parametrize(("sizes", "bf16_ms", "f8_ms"), PRODUCTS_AT_500_W)
def test_products_of_a_board_with_another_limit_take_their_measured_time(sizes, bf16_ms, f8_ms):
    m, n, k = sizes
    constants = DeviceConstants.from_node(configs.load_node("H100_96GB_HBM2e"))
    for dtype, size, measured_ms, tolerance in (("bf16", 2, bf16_ms, 0.1), ("f8", 1, f8_ms, 0.04)):
        shape = MatrixProduct(m, k, n, 1, dtype, 2 * m * n * k)
        moved = float(size * k * (m + n) + 2 * m * n)
        estimate = estimate_product_time(constants, shape, moved)
        assert 1e3 * estimate.time_s == pytest.approx(measured_ms, rel=tolerance)
        if dtype == "f8":
            assert "transferred" in estimate.tags and "power limit" in estimate.fit.causes


def test_the_energy_of_operations_in_8_bits_is_solved_from_products():
    node = configs.load_node("H100_96GB_HBM2e")
    constants = DeviceConstants.from_node(node)
    power = constants.power
    assert power is not None and power.j_per_8bit_flop is not None
    energies = []
    for (m, n, k), _, f8_ms in PRODUCTS_AT_500_W:
        flops, moved = 2 * m * n * k, float(k * (m + n) + 2 * m * n)
        unlimited = replace(constants, power=None)
        shape = MatrixProduct(m, k, n, 1, "f8", flops)
        time_s = estimate_product_time(unlimited, shape, moved).time_s
        slowdown = 1e-3 * f8_ms / time_s
        compute_j = (power.limit_w - power.idle_w) * time_s * slowdown - moved * power.j_per_byte
        energies.append(compute_j * slowdown**power.clock_exponent / flops)
    assert sum(energies) / 3 == pytest.approx(power.j_per_8bit_flop, rel=0.02)


def test_long_bursts_contain_the_slowdown_of_their_limit():
    """A kernel of 3 ms was measured at the limit, one of 1 ms at full clock."""
    power = replace(POWER, burst_s=(1e-3, 3e-3))
    for time_s, share in ((1e-3, 0.0), (math.sqrt(3) * 1e-3, 0.5), (3e-3, 1.0), (1.0, 1.0)):
        flops = 9e14 * time_s
        slowdown = power.compute_slowdown(flops, 0.0, time_s)
        contained = power.compute_burst_slowdown(flops, 0.0, time_s)
        assert slowdown > 1.2 and contained == pytest.approx(slowdown**share)
        assert POWER.compute_burst_slowdown(flops, 0.0, time_s) == 1.0


def test_the_energies_of_a_chip_hold_at_each_of_its_limits():
    """TensorRT-LLM's product of 8192 took 4.18 ms with random weights, vLLM's 3.74 ms without."""
    nodes = {
        name: DeviceConstants.from_node(configs.load_node(name)).power
        for name in ("A100_SXM_80GB", "A100_SXM_40GB", "A100_PCIe_80GB", "L4_24GB", "L40S_48GB")
    }
    assert nodes["L4_24GB"] is None and nodes["L40S_48GB"] is None  # other processes
    assert nodes["A100_PCIe_80GB"].limit_w == 300 and nodes["A100_PCIe_80GB"].tags
    for name in ("A100_SXM_80GB", "A100_SXM_40GB"):
        slowdown = nodes[name].compute_slowdown(2 * 8192**3, 3 * 2 * 8192**2, 3.743e-3)
        assert slowdown == pytest.approx(4.18 / 3.743, rel=0.01) and not nodes[name].tags


def test_a_class_at_another_power_limit_is_shifted_to_the_own_one():
    """Its time over that of the energies is as on the board that was measured."""
    h200, shape = configs.load_node("H200_141GB"), MatrixProduct(8192, 8192, 8192, 1, "bf16", 2**40)
    measured, limited, free = (
        estimate_product_time(DeviceConstants.from_node(replace(h200, tdp_w=w)), shape, 4e8)
        for w in (700.0, 600.0, 2000.0)
    )
    assert measured.fit.name.endswith("_sustained") and "power limit" not in measured.fit.causes
    assert "power limit" in limited.fit.causes and "transferred" in limited.tags
    assert limited.time_s / measured.time_s == pytest.approx(
        limited.power_slowdown / measured.power_slowdown
    )
    assert (measured.bound, limited.bound, free.bound) == ("power", "power", "compute")


def test_a_board_whose_idle_power_is_its_limit_is_an_error():
    node = replace(configs.load_node("H200_141GB"), tdp_w=130.0)
    with pytest.raises(HespasError, match="idle power of H200_141GB is 130 W, and the power limit"):
        DeviceConstants.from_node(node)


def test_files_that_are_like_each_other(parse, tmp_path):
    data = configs.read_json(configs._FOLDER / "nodes" / "A10_24GB.json")
    for name, other in (("a", "b"), ("b", "a")):
        like = {"like": str(tmp_path / f"{other}.json")}
        text = json.dumps({**data, "name": name, "calibration": like})
        (tmp_path / f"{name}.json").write_text(text)
    op_cost = cost(gemm(parse, 512, 512, 512), str(tmp_path / "a.json"))
    assert op_cost.tag == "assumed"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fits": {"product.bf16": {"fixed_s": 1e-6, "bandwidth": 0.9, "band": [[1, 0.1, 0.2]]}}},
         "low must be above -1 and at most 0"),
        ({"fits": {"stream.what": {}}}, "String should match|string should match"),
        ({"fits": {"product.bf16": {"fixed_s": 1e-6, "bandwidth": 0.9, "band": [[1, -0.1, 0.2]],
          "residual": {"m": [1, 2], "n": [1], "k": [1], "permille": [1]}}}}, "needs 2 values"),
        ({"fits": {"attention": {"fixed_s": 1e-6, "bandwidth": 0.9, "band": [[1, -0.1, 0.2]],
          "residual": {"m": [1], "n": [1], "k": [1], "permille": [1]}}}},
         "keys of residual must be heads"),
        ({"fits": {"attention": {"fixed_s": 1e-6, "bandwidth": 0.9, "band": [[1, -0.1, 0.2]],
          "backward": {"queries": [1, 2], "head_size": [64], "permille": [1]}}}},
         "backward: permille needs 2 values"),
        ({"power": {"idle_w": 1, "j_per_flop": 1, "j_per_byte": 1, "clock_exponent": 1,
          "limit_w": 1, "burst_s": [2, 1]}}, "burst_s: the two durations must ascend"),
        ({"speed": 3}, "unknown key"),
    ],
)  # fmt: skip
def test_a_wrong_calibration_is_refused(change, message):
    data = configs.read_json(configs._FOLDER / "nodes" / "A10_24GB.json") | {"calibration": change}
    with pytest.raises(HespasError, match=message):
        node_files.parse_node_file(data, "mine.json")


# Programs


MODULE = """
func.func public @main(%a: tensor<512x512xbf16>, %n: tensor<4096x64xf32>)
    -> (tensor<512x512xbf16>, tensor<64xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.dot %a, %a
    : (tensor<512x512xbf16>, tensor<512x512xbf16>) -> tensor<512x512xbf16>
  %1 = "stablehlo.all_reduce"(%0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<bf16>, %y: tensor<bf16>):
    %3 = stablehlo.add %x, %y : tensor<bf16>
    stablehlo.return %3 : tensor<bf16>
  }) : (tensor<512x512xbf16>) -> tensor<512x512xbf16>
  %2 = stablehlo.tanh %1 : tensor<512x512xbf16>
  %4 = stablehlo.reduce(%n init: %z) applies stablehlo.add across dimensions = [0]
    : (tensor<4096x64xf32>, tensor<f32>) -> tensor<64xf32>
  return %2, %4 : tensor<512x512xbf16>, tensor<64xf32>
}
"""


def test_annotating_and_splitting_commute(parse):
    ops = []
    for order in (("split-linear", "calibrated-annotate"), ("calibrated-annotate", "split-linear")):
        module = parse(f"module attributes {{mhlo.num_replicas = 2 : i32}} {{{MODULE}}}")
        for name in order:
            passes.run_pipeline(module, name + ("{node=H100_80GB}" if "annotate" in name else ""))
        block = collect_functions(module)["main"].regions[0].blocks[0]
        costs = [Cost.read_from_op(view.operation) for view in block.operations]
        ops.append([cost for cost in costs if cost is not None and cost.latency_ns])
    assert ops[0] == ops[1] and len(ops[0]) == 2
    assert all(cost.low_ns < cost.latency_ns < cost.high_ns for cost in ops[0])


def test_it_is_slower_than_the_roofline(parse):
    module = parse(f"module attributes {{mhlo.num_replicas = 2 : i32}} {{{MODULE}}}")
    block = collect_functions(module)["main"].regions[0].blocks[0]
    roofline = RooflineEstimator(RooflineConfig(A100))
    calibrated = CalibratedEstimator(CalibratedConfig(A100))
    names = ("stablehlo.dot", "stablehlo.tanh", "stablehlo.reduce")
    ops = [view.operation for view in block.operations if view.operation.name in names]
    assert len(ops) == len(names)
    for op in ops:
        fast, real = roofline.estimate(CostItem(op)), calibrated.estimate(CostItem(op))
        assert real.latency_ns > fast.latency_ns
        same = ("flops", "read_bytes", "write_bytes", "dtype")
        assert [getattr(real, name) for name in same] == [getattr(fast, name) for name in same]


@pytest.mark.parametrize("kind", ["kLoop", "kCustom"])
@pytest.mark.parametrize(
    ("shape", "tag"),
    [((4, 16, 512, 512), "assumed"), ((16, 512, 512), "assumed"), ((8, 512, 1024), None),
     ((8192, 1024), None)],
)  # fmt: skip
def test_attention_that_is_not_fused_was_never_measured(parse, shape, tag, kind):
    """A row of scores less its maximum; of activations, this is a part of a normalisation."""
    text = "x".join(map(str, shape))
    rows = "x".join(map(str, shape[:-1]))
    last = len(shape) - 1
    op = first_op(
        parse,
        f"%a: tensor<{text}xf32>",
        f"""
        %0 = "mhlo.fusion"(%a) <{{fusion_kind = #mhlo<fusion_kind {kind}>}}> ({{
        ^bb0(%x: tensor<{text}xf32>):
          %z = stablehlo.constant dense<0.0> : tensor<f32>
          %1 = stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [{last}]
            : (tensor<{text}xf32>, tensor<f32>) -> tensor<{rows}xf32>
          %2 = stablehlo.broadcast_in_dim %1, dims = {list(range(last))}
            : (tensor<{rows}xf32>) -> tensor<{text}xf32>
          %3 = stablehlo.subtract %x, %2 : tensor<{text}xf32>
          mhlo.return %3 : tensor<{text}xf32>
        }}) : (tensor<{text}xf32>) -> tensor<{text}xf32>""",
    )
    estimated = cost(op, "A100_PCIe_40GB")
    assert (tag in (estimated.tag or "")) if tag else "assumed" not in (estimated.tag or "")
    if tag:
        assert estimated.high_ns > 1.3 * estimated.latency_ns
