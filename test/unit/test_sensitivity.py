"""The sensitivity of a step, against full runs with other rates."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import thin_out
from support.paths import ROOT

import hespas
from hespas import configs
from hespas.tools import hespas as command_line
from hespas.tools.report.sensitivity_section import build_sensitivity_section
from hespas.workflows.sensitivity.node_rates import StepRate
from hespas.workflows.sensitivity.step_replay import ReplayedNetwork, StepReplay
from hespas.workflows.sensitivity.step_sensitivity import (
    FACTOR,
    LEAST_GAIN,
    StepSensitivity,
    find_break_even,
)

PROGRAM = ROOT / "docs" / "examples" / "llama3-100m-opt-a100.mlir.xz"
NODE, SYSTEM = "A100_SXM_80GB", "A100_SXM_40GB_4GPU"
# Measured curves are scaled to other bandwidths, and know no latency: the network model does.
OPTIONS: dict[str, Any] = {"curves": "none"}
NODES = Path(configs.__file__).parent / "nodes"


@pytest.fixture(scope="module")
def estimate() -> hespas.ProgramEstimate:
    return hespas.estimate(PROGRAM, node=NODE, system=SYSTEM, **OPTIONS)


@pytest.fixture(scope="module")
def sensitivity(estimate: hespas.ProgramEstimate) -> hespas.StepSensitivity:
    return estimate.sensitivity()


def replay_step(estimate: hespas.ProgramEstimate) -> StepReplay:
    system = estimate.summary.system
    assert system is not None
    choice = estimate.summary.network_settings.build_simulator_choice()
    return StepReplay(estimate.module, ReplayedNetwork(system, choice))


def change_node(folder: Path, name: str, change: Callable[[dict[str, Any]], None]) -> str:
    """Write the files of a node and of the nodes that it is like, changed, and return its file."""
    path = folder / f"{name}.json"
    path.touch()  # nodes may be like each other
    data = json.loads((NODES / path.name).read_text())
    change(data)
    calibration = data.get("calibration", {})
    if like := calibration.get("like"):
        donor = folder / f"{like}.json"
        calibration["like"] = str(donor) if donor.exists() else change_node(folder, like, change)
    path.write_text(json.dumps(data))
    return str(path)


def run_with_node(folder: Path, change: Callable[[dict[str, Any]], None]) -> float:
    folder = Path(tempfile.mkdtemp(dir=folder))
    node = change_node(folder, NODE, change)
    step_s = hespas.estimate(PROGRAM, node=node, system=SYSTEM, **OPTIONS).step_time_s
    assert step_s is not None
    return step_s


def run_with_network(folder: Path, key: str, factor: float) -> float:
    """Return the step time on the system with a factor on a number of network.yml."""
    system = folder / f"{key}-{factor}"
    shutil.copytree(Path(configs.__file__).parent / "systems" / SYSTEM, system)
    file = system / "network.yml"
    lines = []
    for line in file.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == key:
            number = float(value.split("#")[0].strip(" []"))
            line = f"{name}: [ {number * factor} ]"
        lines.append(line)
    file.write_text("\n".join(lines) + "\n")
    step_s = hespas.estimate(PROGRAM, node=NODE, system=str(system), **OPTIONS).step_time_s
    assert step_s is not None
    return step_s


def scale_memory(data: dict[str, Any], factor: float) -> None:
    data["memory_bandwidth_bytes_per_s"] *= factor


def scale_products(data: dict[str, Any], factor: float) -> None:
    data["peaks_flops"]["matrix"]["bf16"] *= factor


def scale_vector(data: dict[str, Any], factor: float) -> None:
    rates = data["peaks_flops"]["vector"]
    data["peaks_flops"]["vector"] = {name: factor * rate for name, rate in rates.items()}


def scale_launches(data: dict[str, Any], factor: float) -> None:
    calibration = data.get("calibration", {})
    for holder, name in [
        (calibration, "launch_s"),
        *((fit, "fixed_s") for fit in calibration.get("fits", {}).values()),
    ]:
        if name in holder:
            holder[name] /= factor


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "scale"),
    thin_out([
        ("memory bandwidth", scale_memory),
        ("vector operations", scale_vector),
        ("bf16 products", scale_products),
        ("kernel launches", scale_launches),
    ], 2),
)  # fmt: skip
def test_rates_of_the_node_agree_with_full_runs(sensitivity, tmp_path, name, scale):
    row = sensitivity[name]
    slower_s, faster_s = (
        run_with_node(tmp_path, lambda data, factor=factor: scale(data, factor))
        for factor in (1 / FACTOR, FACTOR)
    )
    assert row.slower_s == pytest.approx(slower_s, rel=1e-6)
    assert row.faster_s == pytest.approx(faster_s, rel=1e-6)
    measured = math.log(faster_s / slower_s) / math.log(FACTOR**2)
    assert row.elasticity == pytest.approx(measured, rel=0.01)
    assert row.elasticity < 0


@pytest.mark.parametrize(
    ("name", "key", "sign"),
    [("bandwidth, links", "bandwidth", 1), ("latency, links", "latency", -1)],
)
def test_rates_of_the_network_agree_with_full_runs(sensitivity, tmp_path, name, key, sign):
    row = sensitivity[name]
    factors = (FACTOR**-sign, FACTOR**sign)
    slower_s, faster_s = (run_with_network(tmp_path, key, factor) for factor in factors)
    assert (row.slower_s, row.faster_s) == pytest.approx((slower_s, faster_s), rel=1e-6)
    assert row.slower_s > row.faster_s > row.limit_s


def test_the_replay_is_the_step_that_was_estimated(estimate, sensitivity):
    assert sensitivity.step_time_s == pytest.approx(estimate.step_time_s, abs=2e-9)
    swings = [abs(row.swing_s) for row in sensitivity.rows]
    assert swings == sorted(swings, reverse=True)


def test_replays_estimate_what_may_change(estimate):
    """Times without costs, and of the kernels with products alone, are those of all costs."""
    replay = replay_step(estimate)
    slower = replay.node.replace_peak_rates({"matrix.bf16": 1e14}, label="bf16")
    estimator = replay.build_estimator(slower)
    costs_ns = [estimator.estimate(item).latency_ns for item in replay.items]
    assert replay.estimate_kernels(slower) == costs_ns
    assert replay.estimate_products(slower) == costs_ns != replay.base_kernels_ns


def test_a_chain_of_nodes_is_not_simulated_again(estimate):
    """The shortcut gives what a simulation gives."""
    replay = replay_step(estimate)
    assert replay._is_chain and replay.network is not None
    faster = [time_ns / 3 for time_ns in replay.base_kernels_ns]
    simulated_s = replay._simulate_step_s(faster, replay.network.system)
    assert replay.compute_step_s(faster) == pytest.approx(simulated_s, rel=1e-6)


def test_steps_with_overlap_are_simulated(estimate):
    options = {**OPTIONS, "split": "individual-merge", "estimator": "roofline"}
    overlapped = hespas.estimate(PROGRAM, node=NODE, system=SYSTEM, **options)
    replay = replay_step(overlapped)
    assert not replay._is_chain
    assert replay.base_step_s == pytest.approx(overlapped.step_time_s, abs=2e-9)


def test_without_a_network_the_rates_explain_all_of_the_compute_time():
    """The roofline is inversely proportional to all of its rates together."""
    result = hespas.estimate(PROGRAM, node=NODE, estimator="roofline").sensitivity()
    assert not result.is_step and "compute_s" in result.to_json()
    assert sum(row.elasticity for row in result.rows) == pytest.approx(-1, abs=0.03)
    assert {row.kind for row in result.rows} == {"products", "vector", "memory"}


def test_a_break_even_leaves_one_per_cent(sensitivity, tmp_path):
    row = sensitivity["memory bandwidth"]
    assert row.break_even > 1
    at_break_even_s = run_with_node(tmp_path, lambda data: scale_memory(data, row.break_even))
    left = (at_break_even_s - row.limit_s) / sensitivity.step_time_s
    assert left == pytest.approx(LEAST_GAIN, rel=0.2)


@given(st.floats(0.001, 10), st.floats(0.001, 10), st.floats(0, 1), st.sampled_from([0.5, 1, 2]))
def test_break_evens_of_known_times(fixed, limited, hidden, power):
    """A time of which one part is limited by the rate, until something else is."""

    def compute_step_s(factor: float) -> float:
        return fixed + max(limited * factor**-power, hidden * limited)

    rate = StepRate("rate", "memory", 1.0, "B/s", compute_step_s)
    step_s, limit_s = compute_step_s(1), compute_step_s(1e6)
    known = [(factor, compute_step_s(factor)) for factor in (1.0, FACTOR)]
    factor = find_break_even(rate, step_s, limit_s, known)
    if step_s - limit_s <= LEAST_GAIN * step_s:
        assert factor == 1
    else:
        assert compute_step_s(factor * 1.3) - limit_s <= LEAST_GAIN * step_s * 1.1
        assert compute_step_s(factor / 1.3) - limit_s >= LEAST_GAIN * step_s * 0.9


def test_the_command_the_folder_and_the_estimate_agree(sensitivity, tmp_path, capsys):
    out = tmp_path / "out"
    command = [
        "run",
        "--mlir",
        str(PROGRAM),
        "--node",
        NODE,
        "--system",
        SYSTEM,
        "--curves",
        "none",
    ]
    assert command_line.main([*command, "--sensitivity", "--json", "--output", str(out)]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["sensitivity"] == sensitivity.to_json()
    assert hespas.sensitivity(out).to_json() == sensitivity.to_json()
    with pytest.raises(hespas.HespasError, match="arguments and options do not change it"):
        hespas.sensitivity(out, node=NODE)


def test_the_report_names_rates_and_break_evens(sensitivity, tmp_path):
    text = str(sensitivity)
    assert text == repr(sensitivity) and text.startswith("Step time ")
    assert "memory bandwidth stops to matter above" in text
    assert "<table>" in sensitivity._repr_html_()
    path = tmp_path / "tornado.svg"
    sensitivity.plot(str(path))
    assert "memory bandwidth" in path.read_text()
    with pytest.raises(KeyError):
        sensitivity["memory"]


def test_the_page_of_a_run_has_a_bar_for_each_change(sensitivity):
    section = build_sensitivity_section({"sensitivity": sensitivity.to_json()})
    assert section is not None
    text = str(section.content)
    changes = [
        abs(time_s - sensitivity.step_time_s)
        for row in sensitivity.rows
        for time_s in (row.slower_s, row.faster_s)
    ]
    assert 2 <= text.count("<rect") <= sum(change > 0 for change in changes)
    assert all(line in text for line in sensitivity.list_findings())
    assert StepSensitivity.from_json(sensitivity.to_json()) == sensitivity
    assert build_sensitivity_section({}) is None


def test_estimators_without_rates_are_refused(tmp_path):
    text = "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> { return %x : tensor<8xf32> }\n"
    module = hespas.read(text)
    with pytest.raises(hespas.HespasError, match="run prepare first"):
        StepReplay(module, None)
