"""Constants of TPUs: from XLA:TPU's cycles, held against published measurements."""

from __future__ import annotations

import csv
import itertools
import math
import statistics
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.calibration.cycle_fits import fit_cycle_products
from hespas import configs, passes
from hespas.dialects.attrs import Cost
from hespas.dialects.mlir import collect_functions
from hespas.dialects.xla import find_tpu_library
from hespas.estimators.calibrated.attention_shape import AttentionShape
from hespas.estimators.calibrated.device_constants import DeviceConstants
from hespas.estimators.calibrated.kernel_times import (
    KernelTime,
    estimate_attention_time,
    estimate_product_time,
    estimate_stream_time,
)
from hespas.estimators.product_shapes import MatrixProduct
from hespas.support.errors import UsageError
from hespas.tools.commands import measure
from hespas.workflows.calibration import micro_benchmarks
from hespas.workflows.calibration.measurement_tables import KernelMeasurement, read_measurements
from hespas.workflows.calibration.micro_benchmarks import (
    estimate_cycles,
    is_bound_by_matrix_units,
    list_cycle_benchmarks,
)

DATA = Path(__file__).parents[2] / "docs" / "data"
TABLE = DATA / "tpu-cycles.csv.xz"
TARGETS = ("TPUv3_core", "TPUv4", "TPUv5e", "TPUv5p", "TPUv6e")
# AI-Hypercomputer/tpu-recipes, microbenchmarks (Apache-2.0).
SQUARES_TFLOP_S = {  # of one core of TPU7x, by the size of square products in bf16
    128: 2.589961271, 256: 18.28645367, 512: 105.0783466, 1024: 349.7270639, 2048: 679.284728,
    4096: 892.9445127, 16384: 950.1286983, 32768: 956.3824592,
}  # fmt: skip
COPIES_GB_S = {  # of both cores of TPU7x, by the bytes that each copies
    1 << 21: 2758.67, 1 << 24: 5514.62, 1 << 27: 6353.01, 1 << 30: 6396.83, 1 << 33: 6420.96,
}  # fmt: skip
V6E_SQUARE_TFLOP_S = (754.22, 827.47)  # 8192 x 8192 x 8192 in bf16, by the host and by the device
# apple/axlearn@c40b39a tpu_attention_benchmark.py (Apache-2.0): milliseconds of splash attention on
# v5p by heads: the forward call, and the gradient with a forward call. See the sources of the node.
SPLASH_MS = {16: (1.4, 5.8), 40: (3.2, 15.2), 56: (4.3, 20.4), 72: (5.5, 26.2), 88: (6.7, 31.3)}
SPLASH_BLOCKS = 2 * (1 + 2 + 14 * 3)  # of a head: two sequences of 16 blocks, a window of two
SPLASH_HOST_MS = 0.22  # of each call, which the benchmark times on the host
# marin-community/marin#6330 (Apache-2.0): a layer of 8 heads with one causal sequence
SPLASH_LAYER_MS, SPLASH_LAYER_BLOCKS = 0.778, 8 * 136
SPLASH_TENSOR_BYTES = 8192 * 128 * 2  # queries, keys, values or output of a head and a sequence
V6E_COPY = (1 << 25, 0.049359414e-3)  # bytes copied, seconds


def read_rows(target: str) -> list[KernelMeasurement]:
    return read_measurements(str(TABLE), target).measurements


def load_constants(name: str) -> DeviceConstants:
    return DeviceConstants.from_node(configs.load_node(name))


def estimate_square(name: str, size: int) -> KernelTime:
    """Return the estimate of a product of square matrices in bf16."""
    shape = MatrixProduct(size, size, size, 1, "bf16", 2 * size**3)
    return estimate_product_time(load_constants(name), shape, 6.0 * size**2)


def estimate_copy_s(name: str, size: float) -> float:
    """Return the estimated seconds to copy ``size`` bytes."""
    constants = load_constants(name)
    return estimate_stream_time(constants, constants.fits["stream.loop"], 2 * size).time_s


@pytest.mark.parametrize("target", TARGETS)
def test_the_shipped_constants_are_the_fits(target):
    node = configs.load_node(target)
    assert node.calibration is not None
    fits = {kind: fit for kind, fit in node.calibration["fits"].items() if "fit" in fit}
    assert "product.bf16" in fits
    rows = read_rows(target)
    for kind, fit in fits.items():
        of_kind = [row for row in rows if row.kind == kind]
        refit = fit_cycle_products(
            of_kind, node, fit["fixed_s"], fit["bandwidth"], fit["fit"]["source"]
        )
        assert refit == {key: fit[key] for key in fit if key != "windows"}


@pytest.mark.parametrize("target", TARGETS)
def test_held_out_products_of_the_compiler(target):
    node = configs.load_node(target)
    assert node.calibration is not None
    for kind, fit in node.calibration["fits"].items():
        if "fit" in fit:
            assert fit["fit"]["median"] < 0.08, kind
            assert fit["fit"]["points"] >= 8 and fit["fit"]["held_out"] >= 2


def test_products_of_tpu7x_are_as_measured():
    for size, rate in SQUARES_TFLOP_S.items():
        estimate = estimate_square("TPU7x_core", size)
        measured_s = 2 * size**3 / rate / 1e12
        assert estimate.time_s == pytest.approx(measured_s, rel=0.11)
        low, high = estimate.fit.band.get_log_ends_at(estimate.time_s)
        assert low - 0.02 < math.log(measured_s / estimate.time_s) < high + 0.02
        assert not estimate.tags


def test_the_compiler_agrees_with_measurements_of_tpu7x():
    """The efficiency of the measured products is that of the compiler's cycles, within 2 %."""
    node = configs.load_node("TPU7x_core")
    rows = [row for row in read_rows("TPU7x_core") if row.kind == "product.bf16"]
    own = load_constants("TPU7x_core").fits["product.bf16"]
    compiled = fit_cycle_products(rows, node, own.fixed_s, own.bandwidth, "")
    assert compiled["efficiency"] == pytest.approx(own.efficiency, rel=0.02)


def collect_product_growth(node: str, element_type: str) -> list[tuple[float, float]]:
    """Return what 1,024 and more rows add to products: measured and estimated, in microseconds.

    Each pair is the growth from one number of rows to the next, from which the time that the host
    takes for a call is absent.
    """
    pairs = []
    for first, second in itertools.pairwise(read_product_rows(node, element_type)):
        if (first["n"], first["k"]) != (second["n"], second["k"]) or int(first["m"]) < 1024:
            continue
        pairs.append(
            (
                float(second["time_us"]) - float(first["time_us"]),
                estimate_product_us(second) - estimate_product_us(first),
            )
        )
    return pairs


def read_product_rows(node: str, element_type: str) -> list[dict[str, str]]:
    """Return the rows of a node and type in the table of products."""
    with (DATA / "tpu-products.csv").open(newline="") as file:
        return [r for r in csv.DictReader(file) if (r["node"], r["type"]) == (node, element_type)]


def estimate_product_us(row: Mapping[str, str]) -> float:
    """Return the estimated microseconds of a row of the table of products."""
    m, n, k = (int(row[name]) for name in "mnk")
    shape = MatrixProduct(m, n, k, 1, row["type"], 2 * m * n * k)
    operand, result = (1, 4) if row["type"] == "i8" else (2, 2)
    moved = operand * (m * k + k * n) + result * m * n
    return 1e6 * estimate_product_time(load_constants(row["node"]), shape, moved).time_s


@pytest.mark.parametrize(
    ("node", "element_type", "ratio"),
    [
        ("TPUv6e", "bf16", 1.04),
        ("TPUv6e", "i8", 1.0),
        # Newer than the table of the constants, whose products took 17 % longer.
        ("TPU7x_core", "bf16", 1.17),
    ],
)
def test_growth_of_products_is_as_measured(node, element_type, ratio):
    growth = collect_product_growth(node, element_type)
    assert len(growth) >= 8
    ratios = [estimated / measured for measured, estimated in growth]
    assert statistics.median(ratios) == pytest.approx(ratio, abs=0.015)


def test_products_of_v5e_are_as_measured():
    """The host's part of a call is what the smallest product takes more than its estimate."""
    smallest, *rows = read_product_rows("TPUv5e", "bf16")
    host_us = float(smallest["time_us"]) - estimate_product_us(smallest)
    for row in rows:
        measured_us = float(row["time_us"]) - host_us
        assert estimate_product_us(row) == pytest.approx(measured_us, rel=0.03)


def test_products_of_v6e_are_between_both_measurements():
    rate = 2 * 8192**3 / estimate_square("TPUv6e", 8192).time_s / 1e12
    least, most = V6E_SQUARE_TFLOP_S
    assert 0.98 * least < rate < most


def test_copies_are_as_measured():
    for size, rate in COPIES_GB_S.items():
        assert estimate_copy_s("TPU7x_core", size) == pytest.approx(4 * size / rate / 1e9, rel=0.02)
    size, seconds = V6E_COPY
    assert estimate_copy_s("TPUv6e", size) == pytest.approx(seconds, rel=0.01)


def estimate_splash_ms(blocks: int, products: int, passes: int) -> float:
    """Return the milliseconds of a call on v5p, with the kernels around it.

    Args:
        blocks: The blocks of scores of all heads and sequences.
        products: The products of each block.
        passes: How often tensors are read or written by transposes and sums, in bytes of one.
    """
    constants = load_constants("TPUv5p")
    flops = 2 * 128 * products * blocks * 512**2
    shape = AttentionShape(1, 8192, 128, "bf16", flops, products > 2)
    around_s = passes * SPLASH_TENSOR_BYTES / (0.86 * constants.node.memory_bandwidth_bytes_per_s)
    return 1e3 * (estimate_attention_time(constants, shape, 0.0).time_s + around_s)


def test_splash_attention_is_as_measured():
    """Queries, keys, values and the output are transposed, and their gradients are too.

    The fused backward kernel does five products of a block, and writes partial sums in f32 of the
    gradients of the queries, one for each of 16 blocks of keys.
    """
    for heads, (forward_ms, gradient_ms) in SPLASH_MS.items():
        blocks, tensors = heads * SPLASH_BLOCKS, heads * 2
        forward = estimate_splash_ms(blocks, 2, 8 * tensors)
        assert forward + SPLASH_HOST_MS == pytest.approx(forward_ms, rel=0.04)
        sums = 2 * 16 * 2  # written and read, of twice the bytes
        backward = estimate_splash_ms(blocks, 5, (9 + sums) * tensors)
        assert forward + backward + SPLASH_HOST_MS == pytest.approx(gradient_ms, rel=0.07)
    layer = estimate_splash_ms(SPLASH_LAYER_BLOCKS, 2, 7 * 8)
    assert layer == pytest.approx(SPLASH_LAYER_MS, rel=0.04)


@pytest.mark.parametrize("name", ["TPUv5e", "TPUv5p", "TPUv4", "TPUv3"])
def test_tpus_take_missing_constants_of_other_tpus(name):
    constants = load_constants(name)
    stream, attention = constants.fits["stream.loop"], constants.fits["attention"]
    assert stream.bandwidth == 0.86 and stream.tags == {"transferred"}
    assert attention.efficiency == 0.44
    assert ("transferred" in attention.tags) == (name != "TPUv5p")


def test_benchmarks_are_bound_by_the_matrix_units():
    node = configs.load_node("TPUv5e")
    benchmarks = list_cycle_benchmarks(node)
    assert {"product.bf16", "product.i8", "product.f32"} == {one.kernel for one in benchmarks}
    for one in benchmarks:
        assert is_bound_by_matrix_units(node, one.kernel, one.flops, one.bytes)
    listed = {(one.kernel, one.sizes) for one in benchmarks}
    assert {(row.kind, row.sizes) for row in read_rows("TPUv5e")} >= listed - {
        pair for pair in listed if pair[0] == "product.f32"
    }


@pytest.mark.skipif(find_tpu_library() is None, reason="libtpu is not installed")
def test_the_table_is_what_the_compiler_says():
    first = list_cycle_benchmarks(configs.load_node("TPUv5e"))[0]
    cycles, time_ns = estimate_cycles(first, "TPUv5e")
    row = next(r for r in read_rows("TPUv5e") if (r.kind, r.sizes) == (first.kernel, first.sizes))
    assert 1e-9 * time_ns == pytest.approx(row.time_s, rel=1e-4) and cycles > 0


def test_the_command_prints_a_row_for_each_product(monkeypatch, capsys):
    monkeypatch.setattr(micro_benchmarks, "estimate_cycles", lambda benchmark, target: (1500, 1e3))
    assert measure.main(["cycles", "TPUv5e"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header == ",".join(micro_benchmarks.CYCLE_COLUMNS)
    assert len(rows) == len(list_cycle_benchmarks(configs.load_node("TPUv5e")))
    assert rows[0].startswith("TPUv5e,product.bf16,") and rows[0].endswith(",1500,1e-06")


def test_the_command_refuses_other_devices_before_it_prints(capsys):
    with pytest.raises(UsageError, match="H100_80GB is no TPU"):
        measure.main(["cycles", "H100_80GB"])
    assert capsys.readouterr().out == ""


def test_kernels_can_take_the_estimate_of_the_compiler(parse):
    """Equal products with different estimates are not merged; an op without one has constants."""
    matrix = "tensor<512x512xbf16>"
    product = f"stablehlo.dot %a, %a {{}} : ({matrix}, {matrix}) -> {matrix}"
    attribute = "{{hespas.compiler_estimate = {{cycles = {0} : i64, latency_ns = {0}.0 : f64}}}}"
    bodies = [product.format(text) for text in ("", attribute.format(3000), attribute.format(7000))]
    lines = "\n".join(f"%{number} = {body}" for number, body in enumerate(bodies))
    text = f"func.func @main(%a: {matrix}) {{\n{lines}\nreturn\n}}"
    times_ns, tags = [], []
    for option in ("", " compiler-estimates"):
        module = parse(text)
        passes.run_pipeline(module, f"calibrated-annotate{{node=TPUv5e{option}}}")
        costs = [
            Cost.read_from_op(view.operation)
            for view in collect_functions(module)["main"].regions[0].blocks[0].operations
        ]
        times_ns.append([cost.latency_ns for cost in costs if cost])
        tags.append([cost.tag for cost in costs if cost])
    own_ns = times_ns[0][0]
    assert times_ns[0] == [own_ns] * 3 and times_ns[1] == [own_ns, 3000, 7000]
    assert tags == [[None] * 3, [None, "assumed", "assumed"]]
