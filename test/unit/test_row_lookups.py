"""Gathers and scatters: rows of tables in memory and in the cache, and contention."""

from __future__ import annotations

import itertools

import pytest

from hespas import configs
from hespas.dialects.mlir import collect_functions
from hespas.estimators.base import CostItem
from hespas.estimators.calibrated.calibrated_estimator import CalibratedConfig, CalibratedEstimator


@pytest.fixture
def estimate(parse):
    def estimate_first_op(program, node="A100_SXM_80GB"):
        signature, body = program
        module = parse(f"func.func @main({signature}) {{\n{body}\nreturn\n}}")
        op = collect_functions(module)["main"].regions[0].blocks[0].operations[0].operation
        config = CalibratedConfig(configs.load_node(node))
        return CalibratedEstimator(config).estimate(CostItem(op))

    return estimate_first_op


def render_gather(rows, columns, count, dtype="f32", is_sorted="false"):
    table, out = f"tensor<{rows}x{columns}x{dtype}>", f"tensor<{count}x{columns}x{dtype}>"
    return f"%t: {table}, %i: tensor<{count}x1xi32>", (
        '%0 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<'
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
        f"index_vector_dim = 1>, indices_are_sorted = {is_sorted}, "
        f"slice_sizes = array<i64: 1, {columns}>}}> : ({table}, tensor<{count}x1xi32>) -> {out}"
    )


def render_scatter(rows, columns, count, dtype="f32", unique="false", combine="add"):
    table, updates = f"tensor<{rows}x{columns}x{dtype}>", f"tensor<{count}x{columns}x{dtype}>"
    combined = (
        f"%s = stablehlo.add %a, %b : tensor<{dtype}>\n stablehlo.return %s : tensor<{dtype}>"
        if combine
        else f"stablehlo.return %b : tensor<{dtype}>"
    )
    return f"%t: {table}, %i: tensor<{count}x1xi32>, %u: {updates}", (
        f'%0 = "stablehlo.scatter"(%t, %i, %u) <{{indices_are_sorted = false, unique_indices = '
        f"{unique}, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], "
        "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> "
        f"({{\n^bb0(%a: tensor<{dtype}>, %b: tensor<{dtype}>):\n{combined}\n}})"
        f" : ({table}, tensor<{count}x1xi32>, {updates}) -> {table}"
    )


def test_rows_of_a_large_table_come_from_memory_again(estimate):
    """1e7 random rows of 512 B from and to tables of 512 MB: the cache of A100 holds 40 MB.

    Read once each, and read and written once each, with their results and updates beside, they take
    at least 6.9 ms at the bandwidth of the data sheet, 2.039 TB/s.
    """
    gather = estimate(render_gather(10**6, 128, 10**7))
    scatter = estimate(render_scatter(10**6, 128, 10**7))
    assert gather.latency_ns > 1e9 * (2 * 5.12e9 * 0.92) / 2.039e12
    assert scatter.latency_ns > 1e9 * (3 * 5.12e9 * 0.92) / 2.039e12
    assert 6.9e6 < gather.latency_ns + scatter.latency_ns < 18e6


def test_rows_of_a_small_table_stay_in_the_cache(estimate):
    """The result and the indices are streamed; rows of 8 B waste nothing of memory's sectors."""
    small = estimate(render_gather(10**5, 2, 10**7))
    streamed_ns = 1e9 * (80e6 + 40e6 + 0.8e6) / (0.87 * 2.039e12)
    assert streamed_ns < small.latency_ns < 1.7 * streamed_ns
    large = estimate(render_gather(10**8, 2, 10**7))
    assert large.latency_ns > 4 * small.latency_ns  # a sector of 64 B for each row


def test_sorted_indices_read_each_row_once(estimate):
    shuffled, in_order = (
        estimate(render_gather(10**6, 128, 10**7, is_sorted=word)) for word in ("false", "true")
    )
    assert in_order.latency_ns < 0.7 * shuffled.latency_ns


@pytest.mark.parametrize("render", [render_gather, render_scatter])
def test_time_grows_with_the_table_and_the_rows(estimate, render):
    for sizes in (
        [(2**k, 32, 10**6) for k in range(4, 26)],
        [(2**18, 32, 2**k) for k in range(4, 26)],
        [(2**18, 2**k, 10**6) for k in range(10)],
    ):
        times = [estimate(render(*size)).latency_ns for size in sizes]
        assert all(b >= a * (1 - 1e-9) for a, b in itertools.pairwise(times)), sizes


def test_numbers_without_atomic_addition_take_a_loop(estimate):
    """jax-ml/jax#26227, A40: 1e8 numbers in f16 into 1e6 take 7.58 ms, and 1.15 s if sorted."""
    cost = estimate(render_scatter(10**6, 1, 10**8, "f16"), "A40_48GB")
    assert 1e-6 * cost.latency_ns == pytest.approx(7.58, rel=0.3)
    assert cost.low_ns < 7.58e6 and cost.high_ns > 1e9
    assert "contention" in cost.tag.split()


def test_few_updates_of_an_element_or_wide_rows_have_little_contention(estimate):
    """The gradient of a max pooling adds at most four numbers to each; rows spread over threads."""
    for rows, width, updates in ((10**7, 1, 10**7), (10**4, 256, 10**6)):
        added = estimate(render_scatter(rows, width, updates, "f16"), "A40_48GB")
        assert "contention" in added.tag.split() and added.high_ns < 8 * added.latency_ns


def test_contention_is_a_tag_with_its_range(estimate):
    """In f32, sorted indices take half as long again as random ones (jax-ml/jax#26227)."""
    added = estimate(render_scatter(10**6, 1, 10**7))
    assert "contention" in added.tag.split()
    unique = estimate(render_scatter(10**6, 1, 10**7, unique="true"))
    assert "contention" not in unique.tag.split()
    assert added.latency_ns == pytest.approx(unique.latency_ns, rel=0.02)
    assert added.high_ns > max(1.5 * added.latency_ns, 1.1 * unique.high_ns)
    replaced = estimate(render_scatter(10**6, 1, 10**7, combine=""))
    assert "contention" not in replaced.tag.split()
