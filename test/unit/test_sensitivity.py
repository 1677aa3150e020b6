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
from hespas.simulators.simgrid_backend import simgrid_program
from hespas.support.errors import UsageError
from hespas.tools import hespas as command_line
from hespas.tools.report.run_page import build_sensitivity_section
from hespas.workflows import run_plan
from hespas.workflows.network_settings import SimulatedNetwork
from hespas.workflows.program_replay import StepReplay
from hespas.workflows.run_config import RunConfig
from hespas.workflows.sensitivity.step_sensitivity import (
    FACTOR,
    LEAST_GAIN,
    StepRate,
    StepSensitivity,
    _list_link_rates,
    analyse_step,
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
    return StepReplay(estimate.module, SimulatedNetwork(system, choice))


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
    file = system / "astra-sim" / "network.yml"
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


def scale_power(data: dict[str, Any], factor: float) -> None:
    if "tdp_w" in data:
        data["tdp_w"] *= factor


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
        ("power", scale_power),
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


def test_the_memory_capacity_is_what_the_program_needs(estimate, sensitivity):
    row, memory = sensitivity["memory capacity"], estimate.summary.memory
    assert row.least * row.value == memory.peak_bytes
    assert row.elasticity == 0 and row.slower_s == row.faster_s == row.limit_s
    needed = row.format_value(row.least)
    assert f"memory capacity: the device runs this step from {needed} on" in str(sensitivity)


# The rates of an accelerator, against runs with other settings.

CHIP = {
    "name": "chip", "memory_bandwidth_bytes_per_s": 2e12, "memory_bytes": 4e9, "tdp_w": 110,
    "accelerator": {
        "arrays": 4, "rows": 256, "columns": 256, "clock_hz": 1.2e9, "lanes": 4096, "alus": 2,
        "sram_bytes": 64 << 20,
    },
    "silicon": {"process": "5nm", "leakage_w": 100, "clock_exponent": 1.3},
}  # fmt: skip


@pytest.fixture(scope="module")
def chip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chip")
    (folder / "chip.json").write_text(json.dumps(CHIP))
    (folder / "product.mlir").write_text("""
        func.func @main(%x: tensor<2048x2048xbf16>, %w: tensor<2048x2048xbf16>)
            -> tensor<2048x2048xbf16> {
          %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
            : (tensor<2048x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<2048x2048xbf16>
          %1 = stablehlo.tanh %0 : tensor<2048x2048xbf16>
          %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0]
            : (tensor<2048x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<2048x2048xbf16>
          return %2 : tensor<2048x2048xbf16>
        }""")
    return folder


def estimate_on_chip(folder: Path, change: dict[str, Any], **settings: Any) -> Any:
    """Estimate the product on the chip with other values."""
    path = folder / "changed.json"
    path.write_text(json.dumps({**CHIP, **change}))
    return hespas.estimate(
        folder / "product.mlir", node=str(path), estimator="systolic", setting=settings
    )


@pytest.mark.parametrize(
    ("name", "setting"),
    [("vector operations", "lanes"), ("clock", "clock_hz"), ("SRAM capacity", "sram_bytes"),
     ("products", "cycles_per_row"), ("power", "tdp_w")],
)  # fmt: skip
def test_rates_of_an_accelerator_agree_with_full_runs(chip_folder, name, setting):
    free = {"tdp_w": None} if name == "clock" else {}  # energies of runs hold at their clock
    row = estimate_on_chip(chip_folder, free).sensitivity()[name]
    for factor, time_s in ((1 / FACTOR, row.slower_s), (FACTOR, row.faster_s)):
        if name == "power":
            if factor < 1:
                continue
            result = estimate_on_chip(chip_folder, {"tdp_w": factor * 110})
        else:
            value = CHIP["accelerator"].get(setting, 1.0)
            scaled = value / factor if setting == "cycles_per_row" else value * factor
            scaled = round(scaled) if isinstance(value, int) else scaled
            result = estimate_on_chip(chip_folder, free, **{setting: scaled})
        assert time_s == pytest.approx(result.compute_s, rel=1e-6)


def test_a_chip_that_leaks_its_limit_cannot_run(chip_folder):
    sensitivity = estimate_on_chip(chip_folder, {}).sensitivity()
    row = sensitivity["power"]
    assert row.least == pytest.approx(100 / 110) and row.slower_s is None
    assert row.swing_s == math.inf and sensitivity.rows[0].name == "power"
    text = str(sensitivity)
    assert "cannot run" in text and "power: the device runs this step from 100 W on" in text
    assert StepSensitivity.from_json(sensitivity.to_json()) == sensitivity
    json.dumps(sensitivity.to_json(), allow_nan=False)
    assert "cannot run" in str(build_sensitivity_section({"sensitivity": sensitivity.to_json()}))
    sensitivity.plot(str(chip_folder / "tornado.svg"))
    with pytest.raises(hespas.HespasError, match="the leakage of chip is 100 W"):
        estimate_on_chip(chip_folder, {"tdp_w": 90})


def test_a_program_that_does_not_fit_says_what_it_needs(chip_folder):
    row = estimate_on_chip(chip_folder, {"memory_bytes": 20e6}).sensitivity()["memory capacity"]
    assert row.slower_s is None and row.faster_s is None and row.least > 1.25
    assert row.limit_s > 0


def test_at_the_power_limit_a_higher_clock_is_worth_little(chip_folder):
    """And a lower one costs nothing until the power limit is no longer reached."""
    limited = estimate_on_chip(chip_folder, {}).sensitivity()
    free = estimate_on_chip(chip_folder, {"tdp_w": 1000}).sensitivity()
    assert free["clock"].elasticity < -0.7 < -0.1 < limited["clock"].elasticity < 0.01
    assert free["power"].elasticity == 0 > limited["power"].faster_s / limited.step_time_s - 1


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
    """Times without costs are those of all costs."""
    replay = replay_step(estimate)
    slower = replay.node.replace_peak_rates({"matrix.bf16": 1e14}, label="bf16")
    estimator = replay.build_estimator(slower)
    costs_ns = [estimator.estimate(item).time_ns for item in replay.items]
    assert replay.estimate_kernels(slower) == costs_ns != replay.base_kernels_ns


def test_a_chain_of_nodes_is_not_simulated_again(estimate):
    """The shortcut gives what a simulation gives."""
    replay = replay_step(estimate)
    assert replay._grows_by_compute and replay.network is not None
    faster = [time_ns / 3 for time_ns in replay.base_kernels_ns]
    simulated_s = replay._simulate_step_s(faster, replay.network.system)
    assert replay.compute_step_s(faster) == pytest.approx(simulated_s, rel=1e-6)


def test_a_step_that_waits_for_a_slow_device_is_simulated(tmp_path):
    """Its compute grows by more than that of the others, and so does its band."""
    even = "switch:4,links=4,link_gb_s=25,latency_ns=500,local_mem_gb_s=1555"
    system = tmp_path / "system"
    system.mkdir()
    for name, text in configs.read_system_files(even).items():
        (system / name).write_text(text)
    slow = {"slow_devices": [{"devices": [1], "speed": 0.5}]}
    (system / "fabric.json").write_text(json.dumps(slow))
    estimates = {
        name: hespas.estimate(PROGRAM, node=NODE, system=name, curves="none")
        for name in (even, str(system))
    }
    plain, slowed = estimates.values()
    assert slowed.step_time_s == pytest.approx(plain.step_time_s + plain.compute_s, rel=1e-6)
    low, high = slowed.summary.step_band_s
    plain_low, plain_high = plain.summary.step_band_s
    assert slowed.step_time_s - low == pytest.approx(2 * (plain.step_time_s - plain_low), rel=0.05)
    assert high - slowed.step_time_s == pytest.approx(
        2 * (plain_high - plain.step_time_s), rel=0.05
    )
    gains_s = [
        each.step_time_s - each.sensitivity()["memory bandwidth"].faster_s
        for each in (plain, slowed)
    ]
    assert gains_s[1] == pytest.approx(2 * gains_s[0], rel=1e-5)
    assert slowed.summary.simulation.result.settings.to_texts()["speeds"] == "device 1 at 0.5"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("switch:8x2,links=4", [0, 8]),
        ("fully-connected:4x4,links=6", [0, 4]),
        ("torus:4x4,links=4", [0, 0]),
        ("mesh:16,links=2", [0]),
        ("TPUv5e_16x16_DCN_2", [0, 0, 0]),
    ],
)
def test_only_hosts_have_one_more_network_card(name, expected):
    rates = ",link_gb_s=25,latency_ns=500,local_mem_gb_s=1555" if "links" in name else ""
    system = configs.load_system(name + rates)
    rows = [row for row in _list_link_rates(None, system) if row.kind == "link bandwidth"]
    assert [row.links for row in rows] == expected


def test_what_a_slow_device_hides_is_not_what_communication_costs(tmp_path):
    speeds = {"slow_devices": [{"devices": [0, 1, 2, 3], "speed": 0.5}]}
    name = "switch:4,links=4,link_gb_s=25,latency_ns=500,local_mem_gb_s=1555"
    for file, text in configs.read_system_files(name).items():
        (tmp_path / file).write_text(text)
    (tmp_path / "fabric.json").write_text(json.dumps(speeds))
    options = {"split": "individual-merge", "estimator": "roofline"}
    slowed = hespas.estimate(PROGRAM, node=NODE, system=str(tmp_path), **options)
    plain = hespas.estimate(PROGRAM, node=NODE, system=name, **options)
    hidden_s = [each.summary.hidden_s for each in (plain, slowed)]
    assert 0 < hidden_s[0] <= hidden_s[1]


def test_steps_with_overlap_are_simulated(estimate):
    options = {**OPTIONS, "split": "individual-merge", "estimator": "roofline"}
    overlapped = hespas.estimate(PROGRAM, node=NODE, system=SYSTEM, **options)
    replay = replay_step(overlapped)
    assert not replay._grows_by_compute
    assert replay.base_step_s == pytest.approx(overlapped.step_time_s, abs=2e-9)


def test_without_a_network_the_rates_explain_all_of_the_compute_time():
    """The roofline is inversely proportional to all of its rates together."""
    result = hespas.estimate(PROGRAM, node=NODE, estimator="roofline").sensitivity()
    assert not result.is_step and "compute_s" in result.to_json()
    elasticities = {row.kind: row.elasticity for row in result.rows}
    assert elasticities.keys() == {"products", "vector", "memory", "clock", "memory capacity"}
    units = elasticities["products"] + elasticities["vector"]
    assert units + elasticities["memory"] == pytest.approx(-1, abs=0.03)
    assert elasticities["clock"] == pytest.approx(units, abs=0.01)


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


def test_times_of_simgrid_are_not_mixed_with_the_embedded_simulators(estimate, monkeypatch):
    """Other rates are simulated by the embedded simulator."""
    monkeypatch.setattr(simgrid_program, "check_simgrid", lambda: "3.36")
    run = RunConfig(
        mlir=str(PROGRAM),
        node=NODE,
        system=SYSTEM,
        simulator="simgrid",
        curves="none",
        slowdown=0,
        between_hosts="network",
    )
    run_plan.build_run_plan(run)
    with pytest.raises(UsageError, match="not by simgrid"):
        run_plan.build_run_plan(run.model_copy(update={"sensitivity": True}))
    settings = estimate.summary.network_settings.model_copy(update={"simulator": "simgrid"})
    network = SimulatedNetwork(estimate.summary.system, settings.build_simulator_choice())
    with pytest.raises(UsageError, match="not by simgrid"):
        analyse_step(estimate.module, network)
