"""The slowest device of a job: its expected time, the boards that were measured, and its band."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from benchmarks.calibration import board_comparisons
from hespas import configs
from hespas.configs import clock_spread
from hespas.configs.clock_spread import find_clock_spread, load_board_comparisons
from hespas.configs.node_spec import spell_changed_name
from hespas.estimators import registry
from hespas.estimators.calibrated.board_power import BoardPower
from hespas.estimators.calibrated.calibrated_estimator import (
    CalibratedEstimator,
    estimate_kernel_band,
)
from hespas.estimators.calibrated.device_constants import DeviceConstants
from hespas.estimators.calibrated.kernel_times import estimate_product_time
from hespas.estimators.calibrated.slowest_device import (
    SlowestDevice,
    compute_expected_maximum,
    compute_maximum_quantile,
)
from hespas.estimators.power_limit import KernelEnergy, compute_power_slowdown
from hespas.estimators.product_shapes import MatrixProduct
from hespas.workflows.pipelines.stage_estimates import add_job_devices
from hespas.workflows.run_config import RunConfig

POWER = BoardPower(100.0, 1e-12, 4e-11, 1.33, 700.0, 700.0)
B200 = DeviceConstants.from_node(configs.load_node("B200_180GB"))
H100 = DeviceConstants.from_node(configs.load_node("H100_80GB"))


def make_product(size: int) -> tuple[MatrixProduct, float]:
    """Return a square product, and the bytes that it moves."""
    return MatrixProduct(size, size, size, 1, "bf16", 2 * size**3), 6.0 * size**2


# Order statistics


@pytest.mark.parametrize("count", [1, 2, 3, 8, 64, 2048, 100_000])
def test_the_expected_maximum_is_that_of_scipy(count):
    def weigh_value(value):
        density = stats.norm.pdf(value) * stats.norm.cdf(value) ** (count - 1)
        return value * count * density

    expected = integrate.quad(weigh_value, -10, 10, limit=500)[0]
    assert compute_expected_maximum(count) == pytest.approx(expected, abs=1e-9)


@given(count=st.integers(1, 10**6), more=st.integers(1, 10**6))
def test_the_expected_maximum_grows_and_lies_between_quantiles(count, more):
    maximum = compute_expected_maximum(count)
    assert compute_expected_maximum(count + more) > maximum
    low, high = (compute_maximum_quantile(count, share) for share in (0.1, 0.9))
    assert low < maximum < high


def test_the_maximum_of_drawn_boards():
    """Monte Carlo: 4,000 jobs of 64 devices."""
    maxima = np.random.default_rng(0).standard_normal((4000, 64)).max(axis=1)
    assert compute_expected_maximum(64) == pytest.approx(maxima.mean(), abs=0.03)
    for share in (0.1, 0.9):
        drawn = np.quantile(maxima, share)
        assert compute_maximum_quantile(64, share) == pytest.approx(drawn, abs=0.05)


def test_the_largest_count_of_devices_has_quantiles():
    """The setting is a number of 64 bits."""
    low, high = (compute_maximum_quantile(2**63 - 1, share) for share in (0.1, 0.9))
    assert 8 < low < compute_expected_maximum(2**63 - 1) < high < 10


# The measured boards

SPY = """
import json, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from benchmarks.calibration import board_comparisons
rows = list(board_comparisons.compare_boards())
print(json.dumps([rows, sorted(name for name in opened if name.endswith((".csv", ".json")))]))
"""


def test_the_deviations_are_those_of_the_measured_boards():
    """The command opens the times of boards, and no step time of a program."""
    process = subprocess.run(
        [sys.executable, "-c", SPY], capture_output=True, text=True, check=True
    )
    rows, opened = json.loads(process.stdout)
    assert rows == [dataclasses.asdict(row) for row in load_board_comparisons()]
    assert json.loads(clock_spread.PATH.read_text())["sources"] == board_comparisons.SOURCES
    assert [name for name in opened if "device-spread.csv" in name]
    assert not [
        name for name in opened if re.search(r"training-(runs|cases)|measured|open_cases", name)
    ]


@pytest.mark.parametrize(
    ("source", "device", "chip"),
    [("aicr", "B200_180GB", "B200"), ("longhorn", "V100_16GB", "V100")],
)
def test_the_maximum_over_measured_boards_is_that_of_normal_draws(source, device, chip):
    """Jobs that are drawn from the boards of a cluster: the tails are not far from normal."""
    boards_s = np.array(
        [
            time.time_s
            for time in board_comparisons.read_board_times()
            if (time.source, time.device) == (source, device) and time.kernel.startswith("product")
        ]
    )
    generator = np.random.default_rng(0)
    jobs_s = [generator.choice(boards_s, 64, replace=False).max() for _ in range(1000)]
    spread = next(row for row in clock_spread.list_product_comparisons() if row.chip == chip)
    expected = compute_expected_maximum(64) * spread.deviation
    assert np.mean(jobs_s) / boards_s.mean() - 1 == pytest.approx(expected, rel=0.15)


def test_streams_differ_much_less_than_products():
    deviations = {(r.chip, r.kernel): r.deviation for r in load_board_comparisons()}
    assert deviations["B200", "stream.loop"] < 0.1 * deviations["B200", "product.bf16"]
    assert deviations["RTX PRO 6000", "stream.loop"] < 0.002


def test_a_chip_without_measured_boards_takes_the_mean_of_the_others():
    own = find_clock_spread(DeviceConstants.from_node(configs.load_node("GB200_186GB")).same_chip)
    assert (own.origin, own.is_transferred) == ("B200", False)
    changed = replace(B200.node, name=spell_changed_name("B200_180GB", {"tdp_w": 900}))
    assert find_clock_spread(DeviceConstants.from_node(changed).same_chip) == own
    other = find_clock_spread(H100.same_chip)
    deviations = [row.deviation for row in clock_spread.list_product_comparisons()]
    assert other.is_transferred and other.deviation == pytest.approx(np.mean(deviations))
    assert other.low < min(deviations) and max(deviations) < other.high


# Kernels


@given(
    flops=st.floats(1e6, 1e15),
    intensity=st.floats(1, 1e4),
    rate=st.floats(1e12, 2e15),
    factor=st.floats(1.001, 1.2),
)
def test_a_board_takes_longer_by_at_most_its_factor(flops, intensity, rate, factor):
    """The time is that of full clock or of the limit, whichever is longer."""
    moved, full_s = flops / intensity, flops / rate
    slowdown = POWER.compute_slowdown(flops, moved, full_s)
    result = POWER.compute_board_factor(flops, moved, full_s * slowdown, factor)
    assert 1 <= result <= factor
    if slowdown > 1.0001 and slowdown < 15:
        assert result == pytest.approx(factor)
    energy = KernelEnergy(flops * POWER.j_per_flop * factor**1.33, moved * POWER.j_per_byte)
    expected = compute_power_slowdown(energy, full_s / factor, 100.0, 700.0, 1.33)
    if slowdown == 1:
        assert result == pytest.approx(min(expected, factor))


@given(work=st.floats(0.8, 1.3), step=st.floats(1e-4, 1e-2))
def test_the_time_grows_steadily_across_the_limit(work, step):
    """A kernel with slightly more operations in the same time does not jump."""

    def delay(share):
        return POWER.compute_board_factor(600.0 * share / 1e-12, 0.0, 1.0, 1.03)

    assert 0 <= delay(work + step) - delay(work) <= 1.03 * step


@given(size=st.sampled_from([256, 1024, 4096, 8192]), devices=st.integers(2, 10**5))
def test_the_slowest_of_more_devices_takes_longer(size, devices):
    product, moved = make_product(size)
    alone = estimate_product_time(H100, product, moved)

    def delay(count):
        slowest = SlowestDevice.from_job(H100.same_chip, count)
        return slowest.delay_kernel(alone, POWER, product.flops, moved)

    delayed = delay(devices)
    assert alone.time_s <= delayed.time_s <= delay(2 * devices).time_s
    assert delayed.time_s == pytest.approx(alone.time_s * delayed.slowest_device)


def test_the_band_holds_the_spread_of_other_chips():
    """Products of B200 and H100, one of which has measured boards."""
    product, moved = make_product(8192)
    widths = []
    for constants in (B200, H100):
        assert constants.power is not None
        alone = estimate_product_time(constants, product, moved)
        slowest = SlowestDevice.from_job(constants.same_chip, 64)
        delayed = slowest.delay_kernel(alone, constants.power, product.flops, moved)
        low, high = delayed.slowest_ends
        assert low < 0 < high
        widths.append(high - low)
        own, band = (estimate_kernel_band(kernel, "product") for kernel in (alone, delayed))
        assert band.shared_low < own.shared_low and own.shared_high < band.shared_high
    assert widths[0] < 0.5 * widths[1]


def test_a_kernel_far_below_the_limit_is_not_delayed():
    product, moved = make_product(8192)
    alone = estimate_product_time(B200, product, moved)
    slowest = SlowestDevice.from_job(B200.same_chip, 64)
    unlimited = replace(POWER, limit_w=1e6)
    assert slowest.delay_kernel(alone, unlimited, product.flops, moved) is alone


# Jobs


def test_the_devices_are_those_of_the_program_unless_they_are_set():
    h100 = configs.load_node("H100_80GB")

    def count_devices(settings, devices, node=h100):
        estimator = registry.build_estimator("calibrated", node, settings, devices)
        assert isinstance(estimator, CalibratedEstimator)
        return estimator.slowest_device.devices if estimator.slowest_device else None

    assert count_devices({}, 1) is None
    assert count_devices({}, 16) == 16
    assert count_devices({"job-devices": "64"}, 16) == 64
    assert count_devices({"job_devices": 1}, 16) is None
    assert count_devices({}, 64, configs.load_node("TPUv5p")) is None


def test_the_ranks_of_a_pipeline_wait_for_each_other():
    config = RunConfig(node="H100_80GB")
    assert add_job_devices(config, 32).setting == {"job_devices": 32}
    for stated, devices in ((1, 1), ("64", 64), (0, 32)):
        stating = RunConfig(node="H100_80GB", setting={"job-devices": stated})
        assert add_job_devices(stating, 32).setting == {"job_devices": devices}
    roofline = RunConfig(node="H100_80GB", estimator="roofline")
    assert add_job_devices(roofline, 32).setting == {}


def test_the_factor_follows_from_the_deviation():
    slowest = SlowestDevice.from_job(B200.same_chip, 64)
    assert slowest.factor == pytest.approx(1 + 2.3437 * 0.0105, abs=1e-4)
    assert math.log(1 / slowest.factor) < slowest.log_ends[0] < 0 < slowest.log_ends[1]
