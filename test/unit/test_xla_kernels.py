"""Kernels of XLA that were measured on an H200, and what hespas makes of them without one."""

from __future__ import annotations

import math
import statistics

import pytest

import hespas
from benchmarks.calibration.xla_kernels import (
    MEASURED,
    compare_programs,
    fit_streams,
    list_programs,
    read_compiled_programs,
    read_measured_programs,
)
from hespas import configs
from hespas.estimators.calibrated.device_constants import DeviceConstants
from hespas.estimators.calibrated.kernel_times import estimate_row_time, estimate_stream_time

NODE = "H200_141GB"
# The median error of each kind; gathers and reductions of few bytes are the least certain.
MEDIAN_ERRORS = {
    "fill": 0.08, "function": 0.06, "gather": 0.25, "loop": 0.05, "masked softmax": 0.15,
    "move": 0.05, "reduce": 0.15, "scatter": 0.15, "softmax": 0.05, "sort": 0.2,
}  # fmt: skip


def test_each_measured_program_is_defined():
    names = [program.name for program in list_programs()]
    assert len(set(names)) == len(names)
    assert set(names) == set(read_measured_programs())


@pytest.mark.long
def test_estimates_agree_with_what_the_device_takes():
    ratios = compare_programs(MEASURED, NODE)
    assert set(ratios) == set(MEDIAN_ERRORS)
    for kind, rows in ratios.items():
        error = statistics.median(abs(math.log(ratio)) for _, ratio in rows)
        assert error <= MEDIAN_ERRORS[kind], (kind, rows)


def test_sums_of_kernels_agree_with_those_of_programs_that_the_device_ran(tmp_path):
    """In attention, norms, optimisers and mixtures of experts, as XLA compiled them there."""
    errors = {}
    for name, (text, measured_ns) in read_compiled_programs().items():
        path = tmp_path / f"{name}.hlo.txt"
        path.write_text(text)
        estimated_ns = 1e9 * hespas.estimate(path, target=NODE).compute_s
        errors[name] = abs(math.log(estimated_ns / measured_ns))
    assert len(errors) == 48
    assert statistics.median(errors.values()) < 0.11
    assert statistics.mean(errors.values()) < 0.17
    far = {name for name, error in errors.items() if error > math.log(1.6)}
    assert far == {"int8_dyn"}  # a product of bytes by a kernel of Triton


@pytest.mark.parametrize(
    ("kind", "error"), [("stream.loop", 0.03), ("stream.reduce", 0.2), ("stream.softmax", 0.04)]
)
def test_constants_of_streams_are_those_of_the_table(kind, error):
    constants = DeviceConstants.from_node(configs.load_node(NODE))
    errors = []
    for class_, sizes, _, moved, time_s in fit_streams():
        if class_ != kind or time_s < 5e-6:
            continue
        columns, rows = map(int, sizes.split("x"))
        if kind == "stream.softmax":
            timed = estimate_row_time(constants, "softmax", columns, rows, moved)
        else:
            timed = estimate_stream_time(constants, constants.fits[kind], moved)
        errors.append(abs(math.log(timed.time_s / time_s)))
    assert len(errors) > 10
    assert statistics.median(errors) < error


def test_a_kernel_hides_the_launch_of_the_next_one():
    """100 kernels of 2**22 numbers run without gaps; the smallest ones take a launch each."""
    constants = DeviceConstants.from_node(configs.load_node(NODE))
    fit = constants.fits["stream.loop"]
    assert estimate_stream_time(constants, fit, 8).time_s == constants.launch_s
    large = estimate_stream_time(constants, fit, 2**25)
    busy_s = 2**25 / (fit.bandwidth * constants.node.memory_bandwidth_bytes_per_s)
    assert large.time_s == pytest.approx(fit.fixed_s + busy_s)
    assert large.bound == "memory"
