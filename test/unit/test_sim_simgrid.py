"""SimGrid as an oracle of the flow-level model, and as a simulator of its own."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from support.flow_cases import FlowProgram, load_network
from support.simgrid_cases import CASES, SimgridCase, read_times_ns

from hespas.simulators import simulator_choice
from hespas.simulators.simgrid_backend import simgrid_program
from hespas.simulators.simulation_options import SimulationOptions, SimulatorChoice
from hespas.support.errors import HespasError
from hespas.tools import hespas
from hespas.tools.console_scripts import run_tool_main
from support import traces as t

RECORDED = read_times_ns()
needs_simgrid = pytest.mark.skipif(
    not simgrid_program.find_version(simgrid_program.name_python()),
    reason=f"SimGrid is not installed: {simgrid_program.PACKAGE}",
)


def test_every_case_is_recorded() -> None:
    assert list(RECORDED) == [case.name for case in CASES] and len(CASES) >= 20


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_flows_agree_with_simgrid(case: SimgridCase) -> None:
    time_ns = case.make_program().simulate(load_network(case.network)).step_time_ns
    assert time_ns == pytest.approx(RECORDED[case.name], rel=0.05)


@needs_simgrid
@pytest.mark.parametrize("case", CASES[::5], ids=lambda case: case.name)
def test_simgrid_gives_what_was_recorded(case: SimgridCase) -> None:
    assert case.simulate_with_simgrid() == pytest.approx(RECORDED[case.name], rel=1e-6)


@needs_simgrid
def test_a_step_has_the_report_of_other_simulators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """Seven messages of 1 GiB into a port of 50 GB/s take seven times one: 150.3 ms."""
    monkeypatch.chdir(tmp_path)
    size = 1 << 30
    ranks = [[t.recv(i, i, size=size, tag=i) for i in range(1, 8)]]
    ranks += [[t.comp(1, micros=5), t.send(2, 0, [1], size=size, tag=i)] for i in range(1, 8)]
    t.save(Path("traces"), ranks)
    system = "switch:8,links=1,link_gb_s=50,latency_ns=0,local_mem_gb_s=3350"
    argv = ["simulate", "traces", "--system", system, "--simulator", "simgrid", "--json"]
    assert run_tool_main(hespas.main, argv) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["simulator"] == "simgrid"
    assert data["settings"]["program"].startswith("SimGrid ")
    assert data["step_time_s"] == pytest.approx(0.1503 + 5e-6, rel=1e-3)
    assert data["critical_path"]
    with_tcp = [*argv[:-1], "--simgrid-model", "LV08", "--json"]
    assert run_tool_main(hespas.main, with_tcp) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["settings"]["backend"] == "LV08" and data["step_time_s"] > 0.151


@needs_simgrid
def test_what_simgrid_lacks_is_an_error(tmp_path: Path) -> None:
    program = FlowProgram(8)
    program.add_collective("all_reduce", 1 << 20, range(8))
    inputs = program.place_on(load_network("switch:8,links=1,reduction=1"))
    with pytest.raises(HespasError, match="in a switch consists of no messages"):
        simulator_choice.simulate_inputs(inputs, SimulatorChoice("simgrid"))
    options = SimulationOptions(slowdown=0.1)
    with pytest.raises(HespasError, match="cannot model --slowdown"):
        simulator_choice.simulate_inputs(inputs, SimulatorChoice("simgrid", options))
    lonely = FlowProgram(2)
    lonely.add_message(0, 1, 100, 1)
    lonely.nodes[0].clear()
    inputs = lonely.place_on(load_network("switch:2,links=1"))
    with pytest.raises(HespasError, match="1 of 2 devices never finish"):
        simulator_choice.simulate_inputs(inputs, SimulatorChoice("simgrid"))


def test_without_simgrid_there_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv(simgrid_program.ENVIRONMENT, str(tmp_path / "python3"))
    t.save(tmp_path / "traces", [[t.coll(1)]] * 4)
    argv = ["simulate", str(tmp_path / "traces"), "--simulator", "simgrid", "--system",
            "ring:4,links=2,link_gb_s=50,latency_ns=500,local_mem_gb_s=3350"]  # fmt: skip
    assert run_tool_main(hespas.main, argv) == 1
    err = capsys.readouterr().err
    assert "has no SimGrid; install the Debian package python3-simgrid" in err
    assert math.isfinite(len(err.splitlines())) and len(err.splitlines()) == 1
