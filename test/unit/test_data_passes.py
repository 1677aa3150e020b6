"""Kernels that pass over their data several times: sorts and selections, whole or in a fusion."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hespas import configs
from hespas.dialects.mlir import collect_functions
from hespas.estimators.base import CostItem
from hespas.estimators.calibrated.calibrated_estimator import CalibratedConfig, CalibratedEstimator

A100 = configs.load_node("A100_SXM_80GB")
# The board of jax-ml/jax#34912, an A100-SXM of 64 GB: 1.64 TB/s (Leonardo, arXiv 2307.16885).
H200 = configs.load_node("H200_141GB")
A100_64GB = replace(A100, memory_bandwidth_bytes_per_s=1.64e12)

DIRECT = """^bb0(%x: tensor<KEY>, %y: tensor<KEY>, %i: tensor<POSITION>, %j: tensor<POSITION>):
  %lt = stablehlo.compare LT, %x, %y : (tensor<KEY>, tensor<KEY>) -> tensor<i1>
  stablehlo.return %lt : tensor<i1>"""
STABLE = """^bb0(%x: tensor<KEY>, %y: tensor<KEY>, %i: tensor<POSITION>, %j: tensor<POSITION>):
  %first = stablehlo.compare LT, %i, %j : (tensor<POSITION>, tensor<POSITION>) -> tensor<i1>
  %gt = stablehlo.compare LT, %y, %x : (tensor<KEY>, tensor<KEY>) -> tensor<i1>
  %lt = stablehlo.compare LT, %x, %y : (tensor<KEY>, tensor<KEY>) -> tensor<i1>
  %equal = stablehlo.compare EQ, %lt, %gt : (tensor<i1>, tensor<i1>) -> tensor<i1>
  %r = stablehlo.select %equal, %first, %lt : tensor<i1>, tensor<i1>
  stablehlo.return %r : tensor<i1>"""


def render_argsort(shape, key, position="i32", comparator=DIRECT):
    text = f"""%0:2 = "stablehlo.sort"(%a, %b) <{{dimension = {shape.count("x")} : i64}}> ({{
    {comparator.replace("KEY", key).replace("POSITION", position)}
    }}) : (tensor<{shape}x{key}>, tensor<{shape}x{position}>)
      -> (tensor<{shape}x{key}>, tensor<{shape}x{position}>)"""
    reader = (
        f"%read = stablehlo.custom_call @read(%0#1) : (tensor<{shape}x{position}>) -> tensor<i1>"
    )
    return f"%a: tensor<{shape}x{key}>, %b: tensor<{shape}x{position}>", f"{text}\n{reader}"


def render_fused_argsort(shape, key, read=1):
    """Render a stable argsort as XLA compiles it, and an op that reads one of its results."""
    _, sort = render_argsort(shape, key, comparator=STABLE)
    sort = sort.rpartition("\n")[0]
    kind = "i32" if read else key
    both = f"(tensor<{shape}x{key}>, tensor<{shape}xi32>)"
    text = f"""%1:2 = "mhlo.fusion"(%values) <{{fusion_kind = #mhlo<fusion_kind kCustom>}}> ({{
    ^bb0(%a: tensor<{shape}x{key}>):
      %b = stablehlo.iota dim = {shape.count("x")} : tensor<{shape}xi32>
      {sort}
      mhlo.return %0#0, %0#1 : tensor<{shape}x{key}>, tensor<{shape}xi32>
    }}) : (tensor<{shape}x{key}>) -> {both}
    %read = stablehlo.custom_call @read(%1#{read}) : (tensor<{shape}x{kind}>) -> tensor<i1>"""
    return f"%values: tensor<{shape}x{key}>", text


@pytest.fixture
def estimate(parse):
    def estimate_first_op(program, node=A100):
        signature, body = program
        module = parse(f"func.func @main({signature}) {{\n{body}\nreturn\n}}")
        op = collect_functions(module)["main"].regions[0].blocks[0].operations[0].operation
        return CalibratedEstimator(CalibratedConfig(node)).estimate(CostItem(op))

    return estimate_first_op


def count_passes(cost, moved_bytes, node=A100):
    """Return how often the bytes are moved at the bandwidth of streams."""
    return 1e-9 * cost.latency_ns * 0.87 * node.memory_bandwidth_bytes_per_s / moved_bytes


@pytest.mark.parametrize(
    ("shape", "key", "measured_us"),
    [(str(2**16), "f32", 44), (str(2**20), "f32", 81), (str(2**24), "f32", 617),
     (str(2**16), "bf16", 25), (str(2**20), "bf16", 43), (str(2**24), "bf16", 289),
     (str(2**12), "f32", 35), ("1024x1024", "f32", 51), ("8192x64", "f32", 24)],
)  # fmt: skip
def test_sorts_take_the_time_that_an_h200_takes(estimate, shape, key, measured_us):
    """Sorts by XLA 0.11.2 on a device (docs/data/xla-kernels-h200.csv), as it compiles without."""
    fused = estimate(render_fused_argsort(shape, key), H200)
    assert 1e-3 * fused.latency_ns == pytest.approx(measured_us, rel=0.25)
    assert fused.tag == "assumed"


def test_a_sort_that_xla_keeps_passes_over_memory_beyond_its_tile(estimate):
    """2**24 elements: 13 doublings beyond the tile of 2**11, 1 + 13 * 14 / 2 + 13 = 105 passes."""
    plain = estimate(render_argsort("16777216", "i64", "i64", comparator=DIRECT))
    assert count_passes(plain, 2 * 2**24 * 16) == pytest.approx(105, rel=0.1)


@pytest.mark.parametrize("program", [render_argsort, render_fused_argsort])
def test_integers_compared_directly_take_the_radix_sort(estimate, program):
    """Argsort of 2**30 integers of 32 bits takes 0.062 s, with the positions (jax-ml/jax#34912)."""
    cost = estimate(program(str(2**30), "i32"), A100_64GB)
    assert 1e-9 * cost.latency_ns == pytest.approx(0.062, rel=0.1)


def test_wide_integers_with_positions_take_the_bitonic_sort(estimate):
    """The same of 64 bits takes 5.304 s: XLA has no radix sort of such pairs."""
    cost = estimate(render_argsort(str(2**30), "i64", "i64"), A100_64GB)
    assert 1e-9 * cost.latency_ns == pytest.approx(5.304, rel=0.1)
    assert cost.low_ns > 1e9


@pytest.mark.parametrize("key", ["f32", "i32"])
def test_positions_that_xla_adds_to_a_stable_sort_do_not_count(estimate, key):
    """``jnp.sort`` is stable, and XLA that compiles without a device adds positions to its keys.

    On a device, it gives the keys alone to CUB; its own sort writes only what it swaps, so that the
    measured stable sort took the time of its operands without positions (jax-ml/jax#34912).
    """
    shape = str(2**24)
    plain = (
        f"%a: tensor<{shape}x{key}>",
        f"""%0 = "stablehlo.sort"(%a) <{{dimension = 0 : i64, is_stable = true}}> ({{
    ^bb0(%x: tensor<{key}>, %y: tensor<{key}>):
      %lt = stablehlo.compare LT, %x, %y : (tensor<{key}>, tensor<{key}>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    }}) : (tensor<{shape}x{key}>) -> tensor<{shape}x{key}>""",
    )
    compiled = estimate(render_fused_argsort(shape, key, read=0))
    assert compiled.latency_ns == pytest.approx(estimate(plain).latency_ns, rel=0.05)


@pytest.mark.parametrize("shape", ["4096", "8x65536", "1x8x32768"])
def test_short_sorts_are_not_given_to_the_radix_sort(estimate, shape):
    """XLA's measurements of both: rows of one array from 2**15 keys, many rows from 2**14."""
    keys = estimate(render_argsort(shape, "i32"))
    others = estimate(render_argsort(shape, "i32", comparator=STABLE.replace("LT, %y", "GE, %y")))
    assert keys.latency_ns == pytest.approx(others.latency_ns, rel=0.2)


def render_top_k(length, k):
    rows = str(length).rpartition("x")[0]
    shape = f"{rows}x{k}" if rows else str(k)
    results = f"tensor<{shape}xf32>, tensor<{shape}xi32>"
    return f"%x: tensor<{length}xf32>", (
        f"%v, %i = chlo.top_k(%x, k = {k}) : tensor<{length}xf32> -> ({results})"
    )


def test_a_selection_of_many_sorts_the_whole_row(estimate):
    """XLA sorts all 1e9 numbers with their positions (openxla/xla#25487)."""
    cost = estimate(render_top_k(10**9, 100))
    assert cost.latency_ns == estimate(render_top_k(10**9, 8)).latency_ns
    assert cost.latency_ns == pytest.approx(
        estimate(render_argsort(str(10**9), "i32")).latency_ns, rel=0.1
    )


@pytest.mark.parametrize(("k", "measured_us"), [(8, 54), (64, 236)])
def test_selections_take_the_time_that_an_h200_takes(estimate, k, measured_us):
    cost = estimate(render_top_k("64x32000", k), H200)
    assert 1e-3 * cost.latency_ns == pytest.approx(measured_us, rel=0.15)


def test_an_approximate_selection_is_an_exact_one_on_gpus(estimate):
    """Compiled by XLA:GPU of jaxlib 0.10.2, ApproxTopK is the kernel for 16, and a sort beyond."""
    times = []
    for k in (16, 64):
        results = f"tensor<64x{k}xf32>, tensor<64x{k}xi32>"
        signature = (
            "%x: tensor<64x131072xf32>, %n: tensor<64x131072xi32>, %a: tensor<f32>, %b: tensor<i32>"
        )
        body = (
            "%v:2 = stablehlo.custom_call @ApproxTopK(%x, %n, %a, %b) : (tensor<64x131072xf32>, "
            f"tensor<64x131072xi32>, tensor<f32>, tensor<i32>) -> ({results})"
        )
        times.append(estimate((signature, body)).latency_ns)
        exact = estimate(render_top_k("64x131072", k))
        assert times[-1] == pytest.approx(exact.latency_ns, rel=1.1)  # with positions
    assert times[1] > 3 * times[0]


@pytest.mark.parametrize(
    ("shape", "k", "is_sorted"),
    [("8192x256", 2, False), ("8192x256", 4, True), ("1024x1024", 8, False),
     ("1024x1024", 16, True), ("64x32768", 129, False), ("64x32768", 256, True),
     ("64x131072", 1024, True)],
)  # fmt: skip
def test_xla_tpu_sorts_where_it_selects_many(estimate, shape, k, is_sorted):
    """Compiled by libtpu 0.0.42 for v5e: the call TopK, or a sort of rows with positions."""
    tpu = configs.load_node("TPUv5e")
    cost = estimate(render_top_k(shape, k), tpu)
    rows, length = map(int, shape.split("x"))
    read_ns = 1e9 * 4 * rows * length / tpu.memory_bandwidth_bytes_per_s
    assert (cost.latency_ns > 2.5 * read_ns) == is_sorted
