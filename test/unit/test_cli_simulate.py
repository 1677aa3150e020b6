"""``hespas simulate``, and the last stage of ``hespas run``: totals, tables, JSON, errors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.published_inputs import PROGRAM, write_config
from support.traces import ALL_GATHER, coll, comp, recv, save, send, system

import hespas as hespas_api
from hespas.simulators.report_rows import build_report
from hespas.simulators.simulation_result import CommRecord, DeviceResult, SimulationResult
from hespas.support import text_tables
from hespas.tools import hespas
from hespas.tools.console_scripts import run_tool_main
from hespas.workflows import simulation_report

MIB = 1 << 20
A100 = ("--node", "A100_SXM_40GB", "--system", "A100_SXM_40GB_4GPU")
NANOS = ("step_time_s", "comm_s", "exposed_comm_s", "overlap_s")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Traces of 4 devices, the last one late, a system, and a program; no ASTRA-sim."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.delenv("HESPAS_ASTRA_SIM", raising=False)
    ranks = []
    for rank in range(4):
        first = 40 if rank == 3 else 10
        ranks.append([
            comp(1, micros=first),
            coll(2, [1], size=4 * MIB),
            comp(3, [1], micros=5),
            comp(4, [2, 3], micros=20),
            coll(5, [4], ALL_GATHER, MIB),
        ])  # fmt: skip
    save(tmp_path / "traces", ranks)
    system(tmp_path / "ring", [4])
    Path("step.mlir").write_text(PROGRAM)
    return tmp_path


def simulate(*argv):
    return run_tool_main(hespas.main, ["simulate", *argv, "--simulator", "embedded"])


def as_json(capsys, *argv):
    assert simulate(*argv, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_tables_have_units_and_say_what_to_fix(place, capsys):
    assert simulate("traces", "--system", "ring") == 0
    out, err = capsys.readouterr()
    assert "\x1b" not in out and not err
    for text in (
        "device 0 of 4 finishes last", "% of the step", "Critical path: ",
        "all_reduce      4  4.194 MB      1", "What to fix first: communication that device 0",
        "n2    n4", "n5    the end", "GB/s",
    ):  # fmt: skip
        assert text in out, text


def test_json_adds_up(place, capsys):
    data = as_json(capsys, "traces", "--system", "ring", "--per-device")
    step = data["step_time_s"]
    assert sum(row["time_s"] for row in data["critical_path"]) == pytest.approx(step, rel=1e-12)
    assert data["compute_s"] + data["exposed_comm_s"] == pytest.approx(step, rel=1e-12)
    exposed = sum(row["exposed_s"] for row in data["exposed"])
    assert exposed == pytest.approx(data["exposed_comm_s"], rel=1e-12)
    assert data["exposed_share"] == pytest.approx(data["exposed_comm_s"] / step)
    assert data["exposed"][0]["waiting_s"] == pytest.approx(25e-6)  # 30 us late, 5 us of it hidden
    assert len(data["per_device"]) == 4
    assert max(row["finish_s"] for row in data["per_device"]) == step
    reduce = next(row for row in data["collectives"] if row["kind"] == "all_reduce")
    assert reduce["algorithm_bandwidth_bytes_per_s"] * reduce["time_s"] == pytest.approx(4 * MIB)
    assert reduce["bus_factor"] == 1.5 and "nccl-tests" in data["bus_factor_source"]
    gather = next(row for row in data["collectives"] if row["kind"] == "all_gather")
    assert gather["algorithm_bandwidth_bytes_per_s"] * gather["time_s"] == pytest.approx(4 * MIB)
    assert [row["devices"] for row in data["communicators"]] == [[0, 1, 2, 3]]
    assert data["devices"] == 4 and data["simulator"] and data["system"] == "ring"


def test_messages_and_communicators(place, capsys):
    one, two = [comp(1, micros=9), send(2, 1, [1]), coll(3, [2])], [recv(2, 0), coll(3, [2])]
    others = [[coll(3, group=2)], [coll(3, group=2)]]
    save(Path("p2p"), [one, two, *others], {1: [0, 1], 2: [2, 3]})
    data = as_json(capsys, "p2p", "--system", "ring")
    rows = {row["id"]: row for row in data["communicators"]}
    assert sorted(rows) == [-1, 1] and rows[1]["alike"] == 2 and rows[-1]["devices"] == [0, 1]
    assert sum(row["time_s"] for row in data["critical_path"]) == data["step_time_s"]
    assert {row["kind"] for row in data["critical_path"]} == {"n1", "send", "all_reduce"}
    assert simulate("p2p", "--system", "ring") == 0
    assert "Communicators" in capsys.readouterr().out


def mesh(rank):
    """A program on a 2 x 2 mesh: collectives along rows and columns, and messages in a ring."""
    row, column = 1 + rank // 2, 3 + rank % 2
    return [
        comp(1, micros=10),
        coll(2, [1], size=MIB, group=row),
        comp(3, [1], micros=3),
        coll(4, [2, 3], size=MIB, group=column),
        send(5, (rank + 1) % 4, [4]),
        recv(6, (rank - 1) % 4, [4]),
        comp(7, [5, 6], micros=1),
    ]


@pytest.mark.parametrize("case", ["skewed", "mesh"])
def test_symmetry_changes_nothing(place, capsys, case):
    if case == "mesh":
        groups = {1: [0, 1], 2: [2, 3], 3: [0, 2], 4: [1, 3]}
        save(Path("traces"), [mesh(rank) for rank in range(4)], groups)
    with_it = as_json(capsys, "traces", "--system", "ring", "--per-device")
    without = as_json(capsys, "traces", "--system", "ring", "--per-device", "--no-symmetry")
    del with_it["settings"], without["settings"]
    assert with_it == without


@pytest.fixture
def finished_run(place, capsys):
    """The figures of a run in the folder ``out``."""
    argv = ["run", "--mlir", "step.mlir", *A100, "--simulator", "embedded", "--output", "out"]
    assert run_tool_main(hespas.main, [*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_settings_of_a_run_are_the_defaults_in_its_folder(finished_run, capsys):
    network = finished_run["network"]
    assert network["curves"] == "A100_SXM" and network["slowdown"]
    assert network["network_model"] == "flows"
    assert run_tool_main(hespas.main, ["simulate", "out", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["step_time_s"] == finished_run["step_time_s"]
    assert network["slowdown"] == {"all_reduce": 0.227, "other": 0.189}
    flags = "--curves A100_SXM --between-hosts nccl --slowdown all_reduce=0.227,other=0.189"
    system = "--system A100_SXM_40GB_4GPU --simulator embedded --network-model flows"
    assert err == f"note: as in the run, out/run.json: {system} {flags}\n"
    assert hespas_api.simulate("out").result.step_time_ns * 1e-9 == finished_run["step_time_s"]


def test_flags_override_the_settings_of_a_run(finished_run, capsys):
    without = ("--curves", "none", "--slowdown", "0", "--no-by-dimension", "--system", "ring")
    data = as_json(capsys, "out", *without)
    assert not {"curves", "slowdown", "communicators"} & set(data["settings"])
    assert data["settings"]["network model"] == "ASTRA-sim's"
    assert data["system"] == "ring"
    options = {"curves": "none", "slowdown": 0.0, "network_model": "astra"}
    report = hespas_api.simulate("out", "ring", simulator="embedded", **options)
    assert report.result.step_time_ns * 1e-9 == data["step_time_s"]


def test_traces_without_a_simulation_keep_the_settings_of_their_run(place, capsys):
    argv = ["run", "--mlir", "step.mlir", "--node", "A100_SXM_40GB", "--system", "ring"]
    assert run_tool_main(hespas.main, [*argv, "--no-simulate", "--output", "out"]) == 0
    capsys.readouterr()
    data = as_json(capsys, "out")
    assert data["system"] == "ring" and data["settings"]["curves"].startswith("A100_SXM")
    Path("ring").rename("moved")
    assert simulate("out") == 2
    assert "the run used this system: name where it is now" in capsys.readouterr().err
    Path("out/run.json").write_text('{"network": {"slowdown": -1}}')
    assert simulate("out") == 1
    assert capsys.readouterr().err.startswith("out/run.json: error: 'slowdown' is -1")


def test_a_timeline_is_written(place, capsys):
    assert simulate("traces", "--system", "ring", "--timeline", "step.pftrace") == 0
    assert Path("step.pftrace").stat().st_size > 100
    assert simulate("traces", "--system", "ring", "--timeline", "no/step.pftrace") == 1
    assert capsys.readouterr().err.startswith("no/step.pftrace: error: cannot write it")


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        ([], 2, "the following arguments are required: TRACES"),
        (["traces"], 2, "no system is given; name it with --system NAME"),
        (["traces", "--system", "ringg"], 2, "no system preset is named 'ringg'"),
        (["no", "--system", "ring"], 1, "no: error: the folder does not exist"),
        (["traces", "--system", "V100_32GB_8GPU"], 1,
         "there are traces of 4 devices, but system V100_32GB_8GPU has 8; "
         "use a system of that size: hespas presets systems lists the presets, "
         "and hespas presets new"),
        (["traces", "--system", "ring", "--slowdown", "-1"], 2, "'-1' is negative"),
        (["traces", "--system", "ring", "--slowdown", "x"], 2, "'x' is not a number"),
        (["traces", "--system", "ring", "--queues-per-dim", "0"], 2, "whole number of at least 1"),
        (["traces", "--system", "ring", "--injection-scale", "0"], 2, "'0' is not greater than 0"),
        (["traces", "--sistem", "ring"], 2, "--sistem"),
    ],
)  # fmt: skip
def test_errors_are_one_line(place, capsys, argv, code, message):
    assert simulate(*argv) == code
    out, err = capsys.readouterr()
    assert message in err and err.count("\n") == 1 and not out


def test_a_deadlock_names_device_and_node(place, capsys):
    save(Path("stuck"), [[recv(1, 1)], [recv(1, 0)], [comp(1)], [comp(1)]])
    assert simulate("stuck", "--system", "ring") == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "1" in err


def test_run_ends_with_the_step_time(place, capsys):
    argv = (
        "--mlir", "step.mlir", *A100, "--estimator", "roofline", "--output", "out",
        "--simulator", "embedded",
    )  # fmt: skip
    assert run_tool_main(hespas.main, ["run", *argv, "--timeline", "out/t.pftrace"]) == 0
    out = capsys.readouterr().out
    end = out[out.index("\nResult\n") :].splitlines()
    assert [line.split("  ")[1] for line in end[-4:]] == [
        "step time", "compute", "communication", "exposed",
    ]  # fmt: skip
    assert Path("out/t.pftrace").exists() and "out/t.pftrace" in out
    assert run_tool_main(hespas.main, ["run", *argv, "--split", "linear", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["simulator"] == "embedded" and data["timeline"] is None
    assert data["step_time_s"] == pytest.approx(
        data["compute_s"] + data["exposed_comm_s"], abs=2e-9
    )
    alone = as_json(capsys, "out", "--system", "A100_SXM_40GB_4GPU")
    assert {key: alone[key] for key in NANOS} == {key: data[key] for key in NANOS}


def test_run_without_simulation(place, capsys):
    argv = ("--mlir", "step.mlir", *A100, "--output", "out", "--no-simulate")
    assert run_tool_main(hespas.main, ["run", *argv, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [data[key] for key in (*NANOS, "exposed_share", "simulator")] == [None] * 6
    assert run_tool_main(hespas.main, ["run", *argv]) == 0
    assert "step time  not simulated: as asked" in capsys.readouterr().out
    assert run_tool_main(hespas.main, ["run", *argv, "--timeline", "t"]) == 2
    assert "no timeline without a simulation" in capsys.readouterr().err


def test_a_published_configuration_is_simulated_too(place, capsys):
    argv = (write_config(), "--system", "A100_SXM_40GB_4GPU", "--simulator", "embedded", "--json")
    assert run_tool_main(hespas.main, ["run", *argv]) == 0
    assert json.loads(capsys.readouterr().out)["step_time_s"] > 0


def test_long_tables_are_cut_and_counted():
    devices = [DeviceResult(100 + d, 50, 50, 60, 10) for d in range(14)]
    comms = [CommRecord("r", "all_reduce", 8 + k, 1 + k, (k, k + 1), 0, 0, 9) for k in range(13)]
    report = build_report(SimulationResult("by hand", devices, comms), None)
    text = "\n".join(
        map(
            text_tables.format_plain_table,
            simulation_report.build_simulation_tables(report, system="ring"),
        )
    )
    assert "(4 more: --per-device)" in text and text.count("(3 more)") == 2
    assert "unknown  the simulator reports no times of single nodes" in text
    tables = simulation_report.build_simulation_tables(report, system="ring", per_device=True)
    assert sum(len(table.rows) == 14 for table in tables) == 1
    assert (
        simulation_report.to_simulation_json(report, traces="t", system="s")["critical_path"]
        is None
    )


@pytest.mark.parametrize(
    ("ids", "text"),
    [((0,), "0"), ((0, 1, 2, 5), "0-2,5"), (range(0, 20, 2), "0,2,4,6 and 6 more")],
)
def test_devices_are_shown_as_ranges(ids, text):
    assert simulation_report.format_id_ranges(ids) == text
