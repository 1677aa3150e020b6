"""What products move between device memory and the SRAM, against other simulators' counts."""

from __future__ import annotations

import statistics
from itertools import product as combine

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulator_programs import read_recorded_rows

from hespas.estimators.accelerators import dataflow as flow
from hespas.estimators.accelerators.dataflow import SystolicArray, count_product_cycles
from hespas.estimators.accelerators.off_chip_traffic import count_best_order_bits
from hespas.estimators.accelerators.scalesim_memory import (
    count_fold_order_elements,
    count_memory_cycles,
)

SIZES = st.tuples(*[st.integers(1, 700)] * 3)
ARRAYS = st.tuples(st.sampled_from([4, 8, 128]), st.sampled_from([4, 16, 128]))


def read_sizes(row: dict[str, str]) -> tuple[int, int, int]:
    return int(row["m"]), int(row["k"]), int(row["n"])


def test_fold_order_is_that_of_scalesim():
    """SCALE-Sim counts up to seven empty places of its last lines as written results."""
    rows = read_recorded_rows("scalesim_traffic.csv")
    assert len(rows) == 500
    for row in rows:
        dataflow = flow.DATAFLOWS[flow.DATAFLOWS.index(row["dataflow"])]
        buffer = int(row["buffer_kb"]) << 10
        moved = count_fold_order_elements(dataflow, read_sizes(row), 8, 8, buffer)
        assert (moved.inputs, moved.weights) == (int(row["inputs"]), int(row["weights"])), row
        assert 0 <= int(row["results"]) - moved.results <= 7, row


@pytest.mark.parametrize(("dataflow", "median"), [("ws", 0.015), ("is", 0.01), ("os", 0.001)])
def test_cycles_with_small_buffers_are_those_of_scalesim(dataflow, median):
    errors = []
    for row in read_recorded_rows("scalesim_cycles.csv"):
        if row["dataflow"] == dataflow:
            sizes, buffer = read_sizes(row), int(row["buffer_kb"]) << 10
            compute = count_product_cycles(SystolicArray("scalesim", dataflow, 8, 8), sizes)
            words = float(row["words_per_cycle"])
            memory = count_memory_cycles(dataflow, sizes, 8, 8, words, buffer, compute)
            errors.append(abs((compute + memory) / int(row["cycles"]) - 1))
    errors.sort()
    assert len(errors) >= 66
    assert statistics.median(errors) < median
    assert errors[len(errors) * 9 // 10] < 0.12
    assert errors[-1] < 0.22


@pytest.mark.parametrize("even_blocks", [True, False])
def test_best_order_is_that_of_zigzag(even_blocks):
    """ZigZag's loops divide their dimensions; a smaller last block at times moves fewer bytes."""
    errors = []
    for row in read_recorded_rows("zigzag_traffic.csv"):
        recorded = sum(int(row[key]) for key in ("inputs", "weights", "sums", "results"))
        sram_bits = 8 * int(row["sram_bytes"])
        bits = count_best_order_bits(
            "ws", read_sizes(row), 16, 16, 8, 8, sram_bits, even_blocks=even_blocks
        )
        errors.append(1 - bits.moved / 8 / recorded)
    errors.sort()
    assert len(errors) == 458
    assert statistics.median(errors) == errors[0] == 0
    if even_blocks:
        assert errors[len(errors) * 9 // 10] == 0
        assert errors[-1] < 0.17


# (M, K, N), SRAM in bytes, and how often 1-byte inputs, weights and results (of 4 bytes) are moved
# on an array of 32 x 32.
MOVED_AGAIN = [
    ("ws", (1024, 256, 256), 1 << 20, (1, 1, 1)),
    # all 256 x 256 weights stay, with two rows of inputs and of sums
    ("ws", (1024, 256, 256), 68_096, (1, 1, 1)),
    # 2 x 256 x 96 weights, 2 x 256 inputs and 2 x 96 sums of 4 bytes; 128 columns do not fit
    ("ws", (1024, 256, 256), 66_000, (3, 1, 1)),
    # no block of more than one fold fits: sums stay, in a block of one row and one column of folds
    ("os", (1024, 256, 256), 0, (8, 32, 1)),
    # 2 x 64 x 256 inputs stay, with one fold of weights, 2 x 256 x 32, and of 2 x 64 x 32 sums
    ("os", (512, 256, 512), 65_536, (1, 8, 1)),
    ("os", (512, 256, 512), 2 << 20, (1, 1, 1)),
]


@pytest.mark.parametrize(("dataflow", "sizes", "sram_bytes", "times"), MOVED_AGAIN)
def test_blocks_by_hand(dataflow, sizes, sram_bytes, times):
    m, k, n = sizes
    moved = count_best_order_bits(dataflow, sizes, 32, 32, 8, 32, 8 * sram_bytes)
    inputs, weights, results = times
    assert moved.moved == 8 * (inputs * m * k + weights * k * n) + 32 * results * m * n


@given(SIZES, st.sampled_from(flow.DATAFLOWS), st.integers(0, 10**8), st.integers(0, 10**8), ARRAYS)
def test_a_larger_sram_moves_no_more(sizes, dataflow, sram_bits, more_bits, array):
    m, k, n = sizes
    once = 16 * (m * k + k * n) + 16 * m * n
    small, large, infinite = (
        count_best_order_bits(dataflow, sizes, array[0], array[1], 16, 16, bits).moved
        for bits in (sram_bits, sram_bits + more_bits, 10**12)
    )
    assert small >= large >= infinite == once


@given(
    st.tuples(*[st.integers(1, 40)] * 3),
    st.sampled_from(flow.DATAFLOWS),
    st.integers(100, 60_000),
    st.sampled_from([(8, 8), (8, 32), (16, 16)]),
    st.booleans(),
)
def test_best_order_is_the_minimum_over_all_blocks(sizes, dataflow, sram_bits, bits, even):
    """Each matrix stays, in each block, with each of the others held along the whole block."""
    in_bits, out_bits = bits
    units = {"ws": (1, 4, 8), "is": (8, 4, 1), "os": (4, 1, 8)}[dataflow]
    widths = (in_bits, out_bits if sizes[1] <= units[1] else 32, in_bits)
    folds = [-(-size // unit) for size, unit in zip(sizes, units, strict=True)]
    moved = []
    for lacked in range(3):
        first, second = (each for each in range(3) if each != lacked)
        for counts in combine(range(1, folds[first] + 1), range(1, folds[second] + 1)):
            if even and (folds[first] % counts[0] or folds[second] % counts[1]):
                continue
            least = [min(pair) for pair in zip(sizes, units, strict=True)]
            block = list(least)
            for each, count in zip((first, second), counts, strict=True):
                block[each] = min(count * units[each], sizes[each])
            held = min(
                sum(
                    hold_block(matrix, least if matrix == narrow else block, sizes) * widths[matrix]
                    for matrix in range(3)
                )
                for narrow in (first, second)
            )
            if held <= sram_bits or counts == (1, 1):
                times = [-(-sizes[d] // block[d]) if d != lacked else 1 for d in range(3)]
                m, k, n = sizes
                operands = in_bits * (m * k * times[2] + k * n * times[0])
                moved.append(operands + m * n * (out_bits + 2 * (times[1] - 1) * widths[1]))
    counted = count_best_order_bits(dataflow, sizes, 4, 8, in_bits, out_bits, sram_bits, even)
    assert counted.moved == min(moved)


def hold_block(lacked: int, block: list[int], sizes: tuple[int, int, int]) -> int:
    """Count the elements of a block of a matrix: two blocks, or the whole matrix once."""
    dimensions = [each for each in range(3) if each != lacked]
    copies = 1 if all(block[each] == sizes[each] for each in dimensions) else 2
    return copies * block[dimensions[0]] * block[dimensions[1]]
