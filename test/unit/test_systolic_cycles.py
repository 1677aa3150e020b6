"""Closed forms of systolic arrays against SCALE-Sim v3's and other simulators' recorded cycles."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulator_programs import onnxim_cycles

from hespas.estimators.accelerators import dataflow as flow
from hespas.estimators.accelerators.dataflow import SystolicArray, count_product_cycles
from hespas.estimators.accelerators.scalesim_memory import count_memory_cycles

VARIANTS = get_args(flow.Variant)

# SCALE-Sim 3.0.0, 128 x 128, stall-free: (M, N, K), cycles of ws, os, is.
SCALESIM = [
    ((128, 128, 128), 509, 381, 509),
    ((1024, 128, 128), 1405, 3055, 4079),
    ((256, 256, 256), 2551, 2039, 2551),
    ((32, 1000, 512), 13247, 6127, 5527),
    ((512, 256, 128), 1787, 3055, 2551),
    ((48, 96, 1024), 3439, 1277, 3823),
    ((1, 1024, 1024), 24511, 10223, 11247),
    ((300, 300, 300), 6137, 4985, 6137),
    ((100, 200, 300), 2891, 1107, 1745),
    ((8, 8, 8), 389, 261, 389),
    ((64, 512, 512), 7135, 3063, 3575),
    ((640, 320, 160), 6131, 6209, 7019),
    ((197, 384, 384), 5210, 3827, 4595),
    ((3136, 64, 64), 3517, 7949, 11149),
    ((784, 64, 576), 5829, 5809, 15609),
    ((255, 511, 127), 2547, 3047, 1785),
    ((512, 512, 512), 14303, 12255, 14303),
    ((16, 2048, 256), 12735, 8159, 4859),
    ((130, 129, 257), 3071, 2043, 3065),
    ((512, 768, 512), 21455, 18383, 18399),
]
# With the memory: dataflow, (M, K, N), array, elements a cycle, cycles in all.
SCALESIM_TOTAL = [
    ("ws", (300, 260, 140), 128, 512, 4562),
    ("os", (300, 260, 140), 128, 512, 3360),
    ("is", (300, 260, 140), 128, 512, 5138),
    ("ws", (512, 96, 64), 32, 16, 12850),
    ("ws", (200, 200, 200), 32, 64, 19479),
    ("ws", (64, 64, 512), 32, 64, 6590),
    ("os", (512, 96, 64), 32, 16, 10174),
    ("os", (200, 200, 200), 32, 64, 14161),
    ("os", (64, 64, 512), 32, 16, 8126),
]
# (M, K, N), and the elements that SCALE-Sim 3.0.0 reads of inputs and weights and writes of sums on
# a weight-stationary array of 16 x 16; equal for buffers of 1 to 64 kB.
SCALESIM_SRAM = [
    ((48, 32, 96), (9216, 3072, 9216)),
    ((32, 200, 200), (83200, 40000, 83200)),
    ((200, 160, 64), (128000, 10240, 128000)),
    ((32, 200, 16), (6400, 3200, 6656)),
    ((160, 160, 16), (25600, 2560, 25600)),
    ((200, 96, 64), (76800, 6144, 76800)),
    ((32, 128, 16), (4096, 2048, 4096)),
    ((16, 16, 256), (4096, 4096, 4096)),
    ((16, 160, 64), (10240, 10240, 10240)),
]
LARGE_BUFFER = 1 << 20  # which holds the matrices
FIRST_ACCESS = 272  # 400 with the load of the first weights


@pytest.mark.parametrize("dataflow", flow.DATAFLOWS)
@pytest.mark.parametrize("row", SCALESIM, ids=lambda row: "x".join(map(str, row[0])))
def test_scalesim_to_the_cycle(row, dataflow):
    (m, n, k), *cycles = row
    expected = dict(zip(("ws", "os", "is"), cycles, strict=True))[dataflow]
    assert (
        count_product_cycles(SystolicArray("scalesim", dataflow, 128, 128), (m, k, n)) == expected
    )


@pytest.mark.parametrize(("dataflow", "sizes", "array", "words", "total"), SCALESIM_TOTAL)
def test_scalesim_with_its_memory_to_the_cycle(dataflow, sizes, array, words, total):
    compute = count_product_cycles(SystolicArray("scalesim", dataflow, array, array), sizes)
    memory = count_memory_cycles(dataflow, sizes, array, array, words, LARGE_BUFFER, compute)
    assert compute + memory == total


@pytest.mark.parametrize(("sizes", "recorded"), onnxim_cycles(cores=1))
def test_first_access_explains_onnxim(sizes, recorded):
    """One core of 128 x 128 with HBM2, which loads its weights anew for every 128 rows."""
    m, k, n = sizes
    pipelined = count_product_cycles(
        SystolicArray("pipelined", "ws", 128, 128), (-(-m // 128) * 128, k, n)
    )
    assert pipelined + FIRST_ACCESS == pytest.approx(recorded, rel=0.105)
    assert pipelined < recorded


@pytest.mark.parametrize(("sizes", "accesses"), SCALESIM_SRAM)
def test_accesses_of_the_sram_are_those_of_scalesim(sizes, accesses):
    """SCALE-Sim writes each partial sum as one element, and does not count reading it again."""
    m, k, n = sizes
    partial_sums = m * n * (-(-k // 16) - 1)
    read_bits, write_bits = flow.count_array_accesses("ws", sizes, 16, 16, 8, 8)
    assert read_bits - 32 * partial_sums == 8 * (accesses[0] + accesses[1])
    assert write_bits - (32 - 8) * partial_sums == 8 * accesses[2]


def test_other_simulators_of_one_product():
    sizes = (1024, 1024, 1024)
    assert count_product_cycles(SystolicArray("pipelined", "ws", 128, 128), sizes) == 65_918
    assert count_product_cycles(SystolicArray("scalesim", "ws", 128, 128), sizes) == 89_983
    cocossim = count_product_cycles(SystolicArray("cocossim", "ws", 128, 128), sizes)
    assert 1.07 < 165_492 / cocossim < 1.22  # the rest are stalls of its memory


def test_cocossim_is_weight_stationary():
    with pytest.raises(ValueError, match="weight-stationary"):
        count_product_cycles(SystolicArray("cocossim", "os", 4, 4), (8, 8, 8))


SIZES = st.tuples(*[st.integers(1, 700)] * 3)
ARRAYS = st.tuples(st.sampled_from([4, 8, 128]), st.sampled_from([4, 16, 128]))


@pytest.mark.slow
@given(SIZES, ARRAYS, st.sampled_from(flow.DATAFLOWS), st.sampled_from(VARIANTS))
def test_no_faster_than_every_cell_busy(sizes, array, dataflow, variant):
    if variant == "cocossim":
        dataflow = "ws"
    m, k, n = sizes
    rows, columns = array
    assert count_product_cycles(
        SystolicArray(variant, dataflow, rows, columns), sizes
    ) >= m * k * n / (rows * columns)


@given(SIZES, ARRAYS, st.sampled_from(["pipelined", "scalesim"]))
def test_input_stationary_is_the_transposed_product(sizes, array, variant):
    m, k, n = sizes
    stationary = count_product_cycles(SystolicArray(variant, "is", *array), (m, k, n))
    assert stationary == count_product_cycles(SystolicArray(variant, "ws", *array), (n, k, m))


@given(SIZES, st.integers(1, 9), st.sampled_from([1, 2, 3, 4, 8]), st.sampled_from(VARIANTS))
def test_more_arrays_are_not_slower_and_not_faster_than_their_number(sizes, count, arrays, variant):
    one, *_ = flow.share_products(SystolicArray(variant, "ws", 16, 16), sizes, count, 1)
    many, *_ = flow.share_products(SystolicArray(variant, "ws", 16, 16), sizes, count, arrays)
    cells = arrays * 16 * 16
    assert count * sizes[0] * sizes[1] * sizes[2] / cells <= many <= one


@given(SIZES, st.sampled_from(flow.DATAFLOWS))
def test_one_fold_takes_as_long_in_every_variant(sizes, dataflow):
    """SCALE-Sim counts one cycle less; with several folds, ``pipelined`` hides the loads."""
    one_fold = count_product_cycles(SystolicArray("scalesim", dataflow, 700, 700), sizes)
    assert (
        count_product_cycles(SystolicArray("pipelined", dataflow, 700, 700), sizes) == one_fold + 1
    )
    several = count_product_cycles(SystolicArray("scalesim", dataflow, 64, 64), sizes)
    assert count_product_cycles(SystolicArray("pipelined", dataflow, 64, 64), sizes) <= several + 1


@pytest.mark.slow
@given(SIZES, st.integers(2, 9), st.sampled_from(flow.DATAFLOWS))
def test_products_follow_each_other_without_a_gap(sizes, count, dataflow):
    cycles = [
        count_product_cycles(SystolicArray("pipelined", dataflow, 32, 32), sizes, count=times)
        for times in (1, count, count + 1)
    ]
    assert (cycles[2] - cycles[1]) * (count - 1) == pytest.approx(cycles[1] - cycles[0])
    assert cycles[1] <= count * cycles[0]
