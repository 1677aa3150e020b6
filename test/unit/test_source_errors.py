"""Errors that kernels share: comparisons with sources left out, and the bands that follow."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.paths import ROOT

from benchmarks.calibration import network_comparisons, source_comparisons
from hespas import configs
from hespas.configs import source_errors
from hespas.configs.kernel_families import find_kernel_family
from hespas.configs.source_errors import (
    SourceComparison,
    combine_independent,
    estimate_shared_error,
    find_shared_error,
    load_shared_errors,
    load_source_comparisons,
)
from hespas.dialects.attrs import Cost
from hespas.estimators.calibrated.calibrated_estimator import (
    estimate_kernel_band,
    list_error_causes,
)
from hespas.estimators.calibrated.device_constants import TRANSFERRED, DeviceConstants
from hespas.estimators.calibrated.kernel_times import estimate_product_time
from hespas.estimators.product_shapes import MatrixProduct
from hespas.passes.emit.module_stats import combine_bands
from hespas.simulators.simulation_result import CurveTag, ModelUse, SimulationSettings
from hespas.workflows.step_facts import find_network_cause


def compare(*ratios: float) -> list[SourceComparison]:
    return [
        SourceComparison(
            family="product", cause="source", held_out=str(number), predicted_from="others",
            kernels=9, log_ratio=ratio,
        )
        for number, ratio in enumerate(ratios)
    ]  # fmt: skip


def test_the_error_is_the_prediction_interval_of_one_more_source():
    """With Student's t of two degrees of freedom, 1.886, for three sources."""
    half = 1.886 * 0.1 * math.sqrt(4 / 3)
    assert estimate_shared_error(compare(-0.1, 0.0, 0.1)) == pytest.approx((-half, half))
    low, high = estimate_shared_error(compare(0.5, 0.5, 0.5))
    assert low == 0 and high == pytest.approx(0.5)
    assert estimate_shared_error(compare(-0.2)) == (-0.2, 0.2)


def test_comparisons_of_one_source_are_not_counted_twice():
    once = compare(-0.1, 0.1)
    low, high = estimate_shared_error(once * 5)
    assert (low, high) == pytest.approx(estimate_shared_error(once))


@pytest.mark.parametrize("name", configs.list_node_presets())
def test_every_class_of_every_node_has_a_shared_error(name):
    """An error that no comparison knows would be a KeyError in the estimate of a kernel."""
    constants = DeviceConstants.from_node(configs.load_node(name))
    for key, fit in constants.fits.items():
        family = find_kernel_family(key)
        low, high = find_shared_error(family, fit.causes | fit.tags | {"source", "extrapolated"})
        assert low < 0 < high


def product_width(name: str, size: int = 4096) -> float:
    shape = MatrixProduct(size, size, size, 1, "bf16", 2 * size**3)
    constants = DeviceConstants.from_node(configs.load_node(name))
    band = estimate_kernel_band(estimate_product_time(constants, shape, 6.0 * size**2), "product")
    assert band.low <= band.shared_low < 1 < band.shared_high <= band.high
    return band.shared_high / band.shared_low


def test_constants_of_other_boards_and_clocks_are_less_certain():
    h200, h100 = product_width("H200_141GB"), product_width("H100_80GB")
    assert h200 < h100 < product_width("H100_96GB_HBM2e")  # at 500 W, by a model of power
    a100 = product_width("A100_SXM_80GB")  # at its own limit, by its own energies
    assert h200 == a100 < product_width("A100_SXM_40GB")
    assert h200 < product_width("A40_48GB")


@pytest.mark.parametrize(
    ("name", "dtype", "causes"),
    [
        ("H100_96GB_HBM2e", "bf16", {"source", "same chip", "power limit"}),
        ("A100_SXM_80GB", "bf16", {"source"}),
        ("H100_80GB", "f8", {"source", "transferred", "power limit"}),
    ],
    ids=["another limit", "its own limit", "energy of another board"],
)
def test_energies_of_another_board_are_one_error(name, dtype, causes):
    """They are tagged as transferred, but the constants of a product are those of its chip."""
    shape = MatrixProduct(8192, 8192, 8192, 1, dtype, 2 * 8192**3)
    constants = DeviceConstants.from_node(configs.load_node(name))
    timed = estimate_product_time(constants, shape, 6.0 * 8192**2)
    assert list_error_causes(timed) == causes
    assert (TRANSFERRED in timed.tags) == ("power limit" in causes)


def cost(kernel_class: str | None, latency_ns: float, own: float, shared: float) -> Cost:
    low, high = combine_independent([(-own, own), (-shared, shared)])
    ends = [latency_ns * math.exp(end) for end in (low, high, -shared, shared)]
    if kernel_class is None:
        return Cost("e", 0, 0, 0, latency_ns, "none", "none", low_ns=ends[0], high_ns=ends[1])
    return Cost(
        "e", 0, 0, 0, latency_ns, "none", "none", low_ns=ends[0], high_ns=ends[1],
        kernel_class=kernel_class, shared_low_ns=ends[2], shared_high_ns=ends[3],
    )  # fmt: skip


def find_ends(costs: list[tuple[Cost, int]]) -> tuple[float, float]:
    band = combine_bands(costs)
    assert band is not None
    return band


def test_shared_errors_add_up_and_others_average_out():
    one = cost("product.bf16", 100.0, 0.0, 0.1)
    other = cost("product.f32", 300.0, 0.0, 0.1)
    low, high = find_ends([(one, 2), (other, 1)])
    assert (low, high) == pytest.approx((500 * math.exp(-0.1), 500 * math.exp(0.1)))
    stream = cost("stream.loop", 500.0, 0.0, 0.1)
    _, high = find_ends([(one, 2), (other, 1), (stream, 1)])
    assert high - 1000 == pytest.approx(math.sqrt(2) * 500 * math.expm1(0.1))
    kernels = [(cost("stream.loop", 100.0 + n, 0.1, 0.0), 1) for n in range(100)]
    total = sum(one.latency_ns for one, _ in kernels)
    _, high = find_ends(kernels)
    assert high / total - 1 == pytest.approx(math.expm1(0.1) / 10, rel=0.05)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, "product.bf16", "stream.loop", "stream.softmax"]),
            st.floats(0, 1e6), st.floats(0, 1), st.floats(0, 1), st.integers(0, 5),
        ),
        min_size=1,
    )
)  # fmt: skip
def test_a_sum_is_never_less_certain_than_with_correlated_errors(rows):
    costs = [(cost(name, *numbers), count) for name, *numbers, count in rows]
    band = combine_bands(costs)
    if band is None:
        assert not any(count for _, count in costs)
        return
    total = sum(c.latency_ns * n for c, n in costs)
    assert 0 <= band[0] <= total * (1 + 1e-9) and total <= band[1] * (1 + 1e-9)
    assert band[1] <= sum(c.high_ns * n for c, n in costs) * (1 + 1e-9) + 1e-6


def test_the_error_of_the_network_is_that_of_its_least_certain_times():
    def find(curves=None, nccl=None):
        return find_network_cause(SimulationSettings(curves=curves, between_hosts=nccl))

    curves = ModelUse("H100_SXM", {CurveTag.MEASURED: 3})
    assert find() == "modelled" and find(curves) == "curve"
    assert find(curves, ModelUse("NCCL's model of hopper", {"ring Simple": 1})) == "modelled"
    assert find(curves, ModelUse("NCCL's model of hopper", {})) == "curve"
    assert find(ModelUse("H100_SXM", {CurveTag.SCALED: 3})) == "scaled"


def test_the_shipped_comparisons_are_what_the_constants_give():
    """Of the sources that are shipped; the tables of kernels are not."""
    shipped = {
        (row.family, row.cause, row.held_out, row.predicted_from): row.log_ratio
        for row in load_source_comparisons()
    }
    rows = [
        *source_comparisons.compare_second_sources(),
        *source_comparisons.compare_compiler_estimates(),
        *network_comparisons.compare_networks(),
    ]
    assert len(rows) > 60
    for row in rows:
        key = tuple(row[name] for name in ("family", "cause", "held_out", "predicted_from"))
        assert row["log_ratio"] == pytest.approx(shipped[key], abs=0.02), key


def test_the_page_has_the_shared_errors():
    page = (ROOT / "docs" / "reference" / "calibrated.md").read_text()
    counts: dict[tuple[str, str], set[str]] = {}
    for row in load_source_comparisons():
        counts.setdefault((row.family, row.cause), set()).add(row.held_out)
    for (family, cause), held_out in counts.items():
        low, high = (100 * math.expm1(end) for end in load_shared_errors()[family, cause])
        line = f"| {family} | {cause} | {len(held_out)} | {low:+.0f} % to {high:+.0f} % |"
        assert line in page, line


SPY = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from benchmarks.calibration import network_comparisons, source_comparisons
rows = [*source_comparisons.compare_second_sources(), *network_comparisons.compare_networks()]
import json
ends = (".csv", ".xz", ".json", ".yml")
print(json.dumps([len(rows), sorted({name for name in opened if name.endswith(ends)})]))
"""
STEP_TIMES = re.compile(r"open_cases|measurements\.csv|validation/measured|/truth|\bt0\d{3}\b")


def test_no_step_of_a_whole_program_is_compared():
    """Neither what the comparisons open, nor their texts, hold a published step time."""
    process = subprocess.run(
        [sys.executable, "-c", SPY], capture_output=True, text=True, check=True
    )
    count, opened = json.loads(process.stdout)
    assert count > 60 and any("second-sources.csv" in name for name in opened)
    assert not [name for name in opened if STEP_TIMES.search(name)]
    files = [
        source_errors.PATH,
        *(ROOT / "configs").rglob("*.json"),
        *(ROOT / "estimators" / "calibrated").rglob("*.py"),
        *(ROOT / "workflows" / "calibration").rglob("*.py"),
    ]
    assert not [str(path) for path in files if STEP_TIMES.search(path.read_text())]
