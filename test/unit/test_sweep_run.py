"""``hespas sweep``: cells equal those of ``hespas run``, are kept, and fail alone."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.astra_stub import finished, write_astra_stub
from support.budgets import count_cases
from support.paths import ROOT
from support.processes import environment_with_support, start_process
from support.published_inputs import EIGHT, HARDWARE, PROGRAM

from hespas import configs
from hespas.estimators.measure.measurement_cache import MeasurementCache
from hespas.simulators.simgrid_backend import simgrid_program
from hespas.support.errors import HespasError, UsageError
from hespas.tools import hespas
from hespas.tools.console_scripts import run_tool_main
from hespas.workflows import cell_keys, cells
from hespas.workflows.sweep import sweep_grid, sweep_runner, sweep_table
from support import sweep_work

pytestmark = pytest.mark.slow

LLAMA = str(ROOT / "docs" / "examples" / "llama3-100m-opt-a100.mlir.xz")
PLAIN = str(ROOT / "docs" / "examples" / "llama3-100m.mlir.xz")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HESPAS_ASTRA_SIM", raising=False)
    Path("step.mlir").write_text(PROGRAM)
    Path("step-8.mlir").write_text(EIGHT)
    return tmp_path


def sweep(keys, cache="none", **options) -> sweep_runner.SweepOutcome:
    notes = []
    outcome = sweep_runner.run_sweep(
        sweep_grid.expand_cells(keys),
        sweep_runner.PoolOptions(cache=str(cache), **options),
        notes.append,
    )
    assert [row.get("error") for row in outcome.rows if row.get("error")] == [] or outcome.failed
    return outcome


def alone(capsys, cell, **more) -> dict:
    """What ``hespas run --json`` prints of a cell."""
    config = {k: v for k, v in cell.items() if not k.startswith(("node.", "setting."))}
    config["setting"] = {k[8:]: v for k, v in cell.items() if k.startswith("setting.")}
    Path("one.json").write_text(json.dumps({**config, "output": "one", **more}))
    capsys.readouterr()
    assert run_tool_main(hespas.main, ["run", "one.json", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def figures(row) -> dict:
    return {
        **sweep_table.flatten_figures(sweep_table.unflatten_figures(row)),
        "output": None,
        "network": None,
    }


def flat(printed: dict) -> dict:
    printed = {**printed, "memory": {**printed["memory"], "timeline": None}}
    return {
        k: v
        for k, v in sweep_table.flatten_figures(
            {**printed, "output": None, "network": None}
        ).items()
        if v is not None
    }


def check(capsys, row, **more):
    cell = {k.removeprefix("cell."): v for k, v in row.items() if k.startswith("cell.")}
    row_figures = {k: v for k, v in figures(row).items() if v is not None}
    assert row_figures == flat(alone(capsys, cell, **more))


@pytest.mark.long
def test_cells_are_those_of_run_small(place, capsys):
    outcome = sweep(
        {
            "mlir": ["step.mlir", "step-8.mlir"],
            "node": ["A100_SXM_40GB", "TPUv4"],
            "system": "MI300X_[48]",
            "split": ["linear", "individual"],
            "estimator": ["roofline", "calibrated"],
        },
        jobs=2,
    )
    assert outcome.failed == 0 and {row["devices"] for row in outcome.rows} == {4, 8}
    for row in random.Random(1).sample(outcome.rows, 6):
        check(capsys, row)


@pytest.mark.long
def test_cells_are_those_of_run_real(place, capsys):
    cells = sweep_grid.expand_cells(
        {
            "mlir": [LLAMA, PLAIN],
            "node": ["A100_SXM_40GB", "H100_80GB", "TPUv5p", None],
            "system": ["A100_SXM_40GB_4GPU", "TPUv5p_2x2x1", None],
            "split": ["linear", "individual-merge", None],
            "estimator": ["roofline", "calibrated"],
            "block_limit": [0, 16],
            "cells": [{}, {"fuse": True}, {"curves": "H100_SXM", "slowdown": 0.1}],
        }
    )
    sample = random.Random(2).sample(cells, min(len(cells), count_cases(15)))
    outcome = sweep_runner.run_sweep(
        sample, sweep_runner.PoolOptions(jobs=2, cache="none"), lambda text: None
    )
    assert outcome.failed == 0
    for row in outcome.rows[: count_cases(4)]:
        check(capsys, row)


def test_a_changed_node_is_a_node_file_with_that_value(place, capsys):
    keys = {
        "mlir": "step.mlir", "node": "A100_SXM_40GB", "system": "A100_SXM_40GB_4GPU",
        "node.peaks_flops.matrix.bf16": [1e12, 312e12], "node.tdp_w": 100.5,
    }  # fmt: skip
    slow, fast = sweep(keys).rows
    assert slow["node"] == "A100_SXM_40GB[peaks_flops.matrix.bf16=1e+12,tdp_w=100.5]"
    assert slow["step_time_s"] > fast["step_time_s"]
    data = configs.read_node_json("A100_SXM_40GB")
    data["peaks_flops"]["matrix"]["bf16"] = 1e12
    data |= {"name": slow["node"], "tdp_w": 100.5}
    Path("my.json").write_text(json.dumps(data))
    printed = alone(capsys, {"mlir": "step.mlir", "system": slow["system"]}, node="my.json")
    assert {**flat(printed), "node": slow["node"]} == {
        k: v for k, v in figures(slow).items() if v is not None
    }


def test_node_files_keep_their_name(place, capsys):
    Path("own.json").write_text(json.dumps(HARDWARE))
    (row,) = sweep({"mlir": "step.mlir", "node": "own.json", "estimator": "roofline"}).rows
    assert row["node"] == "own.json" and row["constants"].startswith("own")
    check(capsys, row)
    (row,) = sweep(
        {"mlir": "step.mlir", "node": "own.json", "estimator": "roofline",
         "node.memory_bandwidth": 1e9}
    ).rows  # fmt: skip
    assert row["node"] == "own[memory_bandwidth=1e+09]"


@pytest.mark.long
def test_settings_and_gaps_are_those_of_run(place, capsys):
    Path("odd.mlir").write_text(
        PROGRAM.replace("stablehlo.tanh %0", "stablehlo.custom_call @f(%0)").replace(
            "%1 = stablehlo.custom_call @f(%0) : tensor",
            "%1 = stablehlo.custom_call @f(%0) : (tensor<64x256xbf16>) -> tensor",
        )
    )
    keys = {"mlir": "odd.mlir", "estimator": "calibrated", "setting.quantise": [True, False]}
    assert sweep(keys).failed == 2
    outcome = sweep({**keys, "keep_going": True})
    assert outcome.failed == 0 and outcome.rows[0]["gaps"] == 1
    assert "odd.mlir:" in outcome.rows[0]["warnings"]
    for row in outcome.rows:
        check(capsys, row)


def test_the_second_time_comes_from_the_cache(place):
    keys = {"mlir": "step.mlir", "node": ["A100_SXM_40GB", "TPUv4"], "estimator": "roofline"}
    first = sweep(keys, "c.sqlite")
    second_outcome = sweep({**keys, "split": ["linear", None]}, "c.sqlite")
    assert (first.cached, first.computed) == (0, 2)
    assert (second_outcome.cached, second_outcome.computed) == (2, 2)
    assert [r for r in second_outcome.rows if "cell.split" not in r or r["cell.split"] is None] == [
        {**row, "cell.split": None} for row in first.rows
    ]
    third = sweep({**keys, "split": ["linear", None]}, "c.sqlite")
    assert third.cached == 4 and third.rows == second_outcome.rows
    with MeasurementCache("c.sqlite") as cache:
        assert cache.count_grouped_outcomes() == [("sweep: roofline", "1", "", 4, 0)]


def test_content_is_the_key_and_not_the_name(place):
    Path("odd.mlir").write_text("// a name\n" + PROGRAM)
    keys = {"mlir": "odd.mlir", "node": "TPUv4", "estimator": "roofline"}
    first = sweep(keys, "c.sqlite")
    Path("odd.mlir").rename("other.mlir")
    moved = sweep({**keys, "mlir": "other.mlir"}, "c.sqlite")
    assert moved.cached == 1 and moved.rows[0]["program"] == "other.mlir"
    assert moved.rows[0]["step_time_s"] == first.rows[0]["step_time_s"]
    Path("other.mlir").write_text("// another\n" + PROGRAM)
    assert sweep({**keys, "mlir": "other.mlir"}, "c.sqlite").cached == 0


def test_system_and_node_files_are_of_the_key(place):
    Path("net").mkdir()
    for file, text in configs.read_system_files("A100_SXM_40GB_4GPU").items():
        Path("net", file).write_text(text)
    Path("own.json").write_text(json.dumps(HARDWARE))
    keys = {"mlir": "step.mlir", "node": "own.json", "system": "./net", "estimator": "roofline"}
    assert sweep(keys, "c.sqlite").cached == 0
    assert sweep(keys, "c.sqlite").cached == 1
    text = Path("net/network.yml").read_text()
    Path("net/network.yml").write_text(
        text.replace("latency: [", "latency: [ 7").replace("7 ", "7")
    )
    changed = sweep(keys, "c.sqlite")
    assert changed.cached == 0
    Path("own.json").write_text(json.dumps({**HARDWARE, "memory_bandwidth": 1e12}))
    assert sweep(keys, "c.sqlite").cached == 0


def test_a_changed_source_is_another_key(tmp_path):
    (tmp_path / "a.py").write_text("1")
    before = cell_keys.compute_source_digest(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("x")
    assert cell_keys.compute_source_digest(tmp_path) == before
    (tmp_path / "a.py").write_text("2")
    assert cell_keys.compute_source_digest(tmp_path) != before


def test_a_file_that_a_setting_names_is_of_the_key(place):
    cell = {
        "mlir": "step.mlir",
        "node": "TPUv4",
        "estimator": "systolic",
        "setting.array": "a.json",
    }
    Path("a.json").write_text("{}")
    before = sweep_runner.SweepCellFactory().make_cell(cell).key
    Path("a.json").write_text("{ }")
    assert sweep_runner.SweepCellFactory().make_cell(cell).key != before


def test_measured_cells_are_not_kept_here(place):
    pytest.importorskip("jax")
    cell = {"mlir": "step.mlir", "estimator": "xla"}
    assert sweep_runner.SweepCellFactory().make_cell(cell).key == ""
    assert sweep_runner.SweepCellFactory().make_cell({**cell, "estimator": "roofline"}).key


@pytest.mark.long
def test_an_error_is_a_row(place, capsys):
    keys = {
        "mlir": ["step.mlir", "step-8.mlir"], "node": "TPUv4",
        "system": ["A100_SXM_40GB_4GPU", "HGX_H100_8", "TPUv4_4*"],
    }  # fmt: skip
    outcome = sweep(keys)
    errors = [row["error"] or "" for row in outcome.rows]
    assert outcome.failed == 4 and [bool(text) for text in errors] == [0, 1, 1, 1, 0, 1]
    assert "runs on 4 devices, but system HGX_H100_8 has 8" in errors[1]
    assert errors[2] == "step.mlir: error: no system that matches 'TPUv4_4*' has 4 devices"
    assert set(outcome.rows[1]) == {"cell.mlir", "cell.node", "cell.system", "error"}
    argv = ["sweep", "--mlir", "step.mlir", "step-8.mlir", "--system", "HGX_H100_8",
            "--cache", "none", "--output", "t.csv"]  # fmt: skip
    assert run_tool_main(hespas.main, argv) == 1
    out, err = capsys.readouterr()
    assert "1 of 2 cells have an error" in err and "runs on 4 devices" in out
    assert len(sweep_table.read_table("t.csv")) == 2
    assert run_tool_main(hespas.main, [*argv, "--keep-going"]) == 0


def test_settings_that_do_not_go_together_cost_their_cells_only(place):
    keys = {
        "mlir": "step.mlir",
        "node": "TPUv4",
        "estimator": "systolic",
        "setting.variant": ["pipelined", "cocossim"],
        "setting.dataflow": ["ws", "os"],
    }
    outcome = sweep(keys)
    assert [bool(row["error"]) for row in outcome.rows] == [False, False, False, True]
    assert "cocossim is weight-stationary only" in outcome.rows[3]["error"]


def test_programs_that_cannot_be_read_are_rows(place):
    Path("bad.mlir").write_text("module {")
    outcome = sweep({"mlir": ["bad.mlir", "step.mlir"], "system": "A100_SXM_40GB_*"})
    assert outcome.failed == 1 and "bad.mlir:" in outcome.rows[0]["error"]
    assert outcome.rows[0]["cell.system"] == "A100_SXM_40GB_*"
    assert [row["system"] for row in outcome.rows[1:]] == ["A100_SXM_40GB_4GPU"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"node": "A100"}, "no node preset is named 'A100'"),
        ({"system": "A100"}, "no system preset is named 'A100'"),
        ({"system": "Z*"}, "no system preset matches 'Z"),
        ({"estimator": "roof"}, "no estimator is named 'roof'"),
        ({"split": "zigzag"}, "'split' is \"zigzag\""),
        ({"node.memory_bandwith": 1}, "unknown key 'memory_bandwith'"),
        ({"node": "TPUv4", "node.memory_bandwidth_bytes_per_s": -1}, "greater than 0"),
        ({"node": "TPUv4", "node.name.x": -1}, "'name' holds no other keys"),
        ({"mlir": "none.mlir"}, "cannot read it: No such file"),
        ({"mlir": None}, "no program is given"),
        ({"simulator": "astra-sim", "system": "HGX_H100_8"}, "is not on PATH"),
        ({"simulator": "simgrid", "system": "HGX_H100_8"}, "no-python has no SimGrid"),
        ({"estimator": "systolic", "setting.row": 8}, "no setting 'row'; did you mean 'rows'"),
        (
            {"estimator": "systolic", "setting.rows": [8, "wide"]},
            "'rows' takes a whole number, not 'wide'",
        ),
        ({"estimator": "systolic", "setting.rows": [8, 0]}, "rows must be more than 0, not 0"),
        ({"estimator": ["systolic", "roofline"], "setting.rows": 8}, "roofline has no setting"),
        ({"estimator": "roofline", "setting.memory_bandwidth": -1}, "must be more than 0"),
    ],
)
def test_what_is_wrong_is_said_before_any_work(place, keys, message, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv(simgrid_program.ENVIRONMENT, "no-python")
    monkeypatch.setattr(cells, "WORKER", "support.sweep_work:none")
    with pytest.raises(sweep_runner.HespasError, match=message):
        sweep({"mlir": "step.mlir", **keys})


@pytest.mark.long
def test_a_crash_a_hang_and_a_mistake_cost_their_cell_only(place, monkeypatch):
    monkeypatch.setattr(sweep_runner, "FUNCTION", "support.sweep_work:work")
    limits = [0, sweep_work.CRASH, 1, sweep_work.HANG, 2, sweep_work.BUG]
    outcome = sweep(
        {"mlir": "step.mlir", "estimator": "roofline", "block_limit": limits},
        "c.sqlite", timeout_s=10, jobs=2,
    )  # fmt: skip
    errors = [row["error"] or "" for row in outcome.rows]
    assert [bool(text) for text in errors] == [False, True, False, True, False, True]
    assert "the worker crashed (SIGABRT)" in errors[1]
    assert "it took more than 10 s" in errors[3]
    assert "RuntimeError: a mistake of ours" in errors[5]
    assert sweep(
        {"mlir": "step.mlir", "estimator": "roofline", "block_limit": limits[::2]}, "c.sqlite"
    ).cached == 3  # fmt: skip


def test_a_program_that_changes_meanwhile_is_an_error(place, monkeypatch):
    real = sweep_runner.SweepCellFactory.make_cell

    def job(self, cell):
        sweep_job = real(self, cell)
        Path("step.mlir").write_text(EIGHT)
        return sweep_job

    monkeypatch.setattr(sweep_runner.SweepCellFactory, "make_cell", job)
    (row,) = sweep({"mlir": "step.mlir"}).rows
    assert "the file has changed since the sweep began" in row["error"]


def write_command_of_chunks() -> list[str]:
    """Write a sweep of two chunks, of which the second waits, and return its command."""
    limits = [*range(1000, 1016), *range(sweep_work.WAIT, sweep_work.WAIT + 16)]  # sorted as text
    keys = {"mlir": "step.mlir", "estimator": "roofline", "node": "TPUv4", "block_limit": limits}
    Path("many.json").write_text(json.dumps(keys))
    Path(sweep_work.WAITING).touch()
    code = (
        "from hespas.workflows.sweep import sweep_runner\n"
        "sweep_runner.FUNCTION = 'support.sweep_work:work'\n"
        "from hespas.tools import hespas\n"
        "hespas.script()"
    )
    return [sys.executable, "-c", code, "sweep", "many.json", "--cache", "c.sqlite", "--jobs", "2",
            "--output", "t.json"]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_sweep_goes_on(place, how):
    """What is finished is kept; no table, no process and no file of ours is left."""
    (place / "tmp").mkdir()
    env = {**environment_with_support(), "TMPDIR": str(place / "tmp")}
    command = write_command_of_chunks()
    with start_process(command, cwd=place, env=env, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 120
        while count_cached_cells(place / "c.sqlite") < 16 and time.monotonic() < deadline:
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.05)
        process.send_signal(how)
        _, stderr = process.communicate(timeout=60)
    assert count_cached_cells(place / "c.sqlite") == 16 and not (place / "t.json").exists()
    if how == signal.SIGINT:
        assert process.returncode == 130 and "16 of 32 cells are kept" in stderr
        assert list((place / "tmp").iterdir()) == []
    Path(sweep_work.WAITING).unlink()
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = sweep_table.read_table(str(place / "t.json"))
    assert sorted(row["cell.block_limit"] for row in rows) == expand_block_limits(place)
    cached = int(done.stdout.partition("from the cache")[2].split()[0])
    assert cached == 16 or (cached == 0 and edited(rows))


def expand_block_limits(place: Path) -> list[int]:
    return json.loads((place / "many.json").read_text())["block_limit"]


def count_cached_cells(file: Path) -> int:
    if not file.exists():
        return 0
    with MeasurementCache(str(file)) as cache:
        return sum(results for *_, results, _ in cache.count_grouped_outcomes())


def edited(rows) -> bool:
    """Whether hespas' own files have changed since this process began, so that no key fits."""
    return rows[0]["provenance.source"] != cell_keys.collect_environment()["source"]


def test_astra_sim_gets_files_and_is_of_the_key(place, capsys):
    lines = "".join(finished(device, 14000, 4000, 10000, 11775, 8000) for device in range(4))
    stub = write_astra_stub(place / "astra", lines)
    keys = {
        "mlir": "step.mlir", "node": "TPUv4", "system": "A100_SXM_40GB_4GPU",
        "estimator": "roofline", "simulator": "astra-sim", "astra_sim": str(stub.path),
    }  # fmt: skip
    outcome = sweep(keys, "c.sqlite")
    assert outcome.rows[0]["step_time_s"] == pytest.approx(14e-6)
    check(capsys, outcome.rows[0])
    assert sweep(keys, "c.sqlite").cached == 1
    write_astra_stub(place / "astra", lines + "\n")
    assert sweep(keys, "c.sqlite").cached == 0


def test_simgrid_gets_its_cells_and_is_of_the_key(place, monkeypatch):
    def make_cell(simulator: str, version: str) -> cells.Cell:
        monkeypatch.setattr(simgrid_program, "check_simgrid", lambda: version)
        keys = {"mlir": "step.mlir", "system": "A100_SXM_40GB_4GPU", "simulator": simulator}
        return sweep_runner.SweepCellFactory().make_cell(keys)

    made = [make_cell("simgrid", "3.35"), make_cell("simgrid", "3.36"), make_cell("embedded", "")]
    simulators = [cell.payload["config"]["simulator"] for cell in made]
    assert simulators == ["simgrid", "simgrid", "embedded"]
    assert len({cell.key for cell in made}) == 3


def cli(*argv) -> int:
    return run_tool_main(hespas.main, ["sweep", "--cache", "none", "--jobs", "1", *argv])


def test_the_line_and_what_it_prints(place, capsys):
    argv = ("--mlir", "step.mlir", "--node", "TPUv4", "A100_SXM_40GB", "--estimator", "roofline",
            "--set", "block_limit=0,1", "keep_going=true")  # fmt: skip
    assert cli(*argv) == 0
    out = capsys.readouterr().out
    for text in ("cells           4", "from the cache  0", "step.mlir", "compute only", "longest"):
        assert text in out
    assert cli(*argv, "--columns", "node,cell.b*,compute_s_by.bound.*") == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].split()[:2] == ["node", "cell.block_limit"] and len(out) == 5
    assert cli(*argv, "--columns", "node", "--effects", "compute_s") == 0
    assert "Main effects on compute_s" in capsys.readouterr().out
    assert cli(*argv, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["cell.block_limit"] for row in rows] == [0, 1, 0, 1]
    assert all(row["cell.keep_going"] is True for row in rows)


@pytest.mark.parametrize("more", [(), ("--set", "curves=none")])
def test_a_faster_network_is_no_slower(place, more):
    """Also where one of the systems is that on which collectives were measured."""
    Path("large.mlir").write_text(PROGRAM.replace("tensor<64x", "tensor<65536x"))
    assert cli("--mlir", "large.mlir", "--node", "A100_SXM_40GB", "H100_80GB", "TPUv4",
               "--system", "A100_SXM_40GB_4GPU", "H100_80GB_4GPU", "B200_180GB_4GPU",
               *more, "--output", "t.csv") == 0  # fmt: skip
    times: dict[str, list[float]] = {}
    for row in sweep_table.read_table("t.csv"):
        times.setdefault(row["node"], []).append(row["step_time_s"])
    assert len(times) == 3
    assert all(a > b > c for a, b, c in times.values())


def test_a_family_scales(place, capsys):
    assert cli("--mlir", "step-{n}.mlir", "--estimator", "roofline", "--system", "HGX_H100_*") == 0
    assert "Scaling" not in capsys.readouterr().out  # one size alone
    Path("step-4.mlir").write_text(PROGRAM)
    argv = ("--mlir", "step-{n}.mlir", "--estimator", "roofline", "--node", "H100_80GB",
            "--system", "HGX_H100_*", "H100_80GB_*")  # fmt: skip
    assert cli(*argv, "--keep-going") == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.partition("Scaling")[2].splitlines()[2:4]]
    assert [row[:3] for row in rows] == [
        ["H100_80GB_4GPU", "astra", "4"],
        ["HGX_H100_8", "flows", "8"],
    ]
    assert rows[0][-3:] == ["1.00", "100.0", "%"]


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        ((), 2, "no program is given"),
        (("--mlir", "step.mlir", "--dask", "tcp://x:1"), 2, "--jobs does not go with --dask"),
        (("--mlir", "step.mlir", "--set", "split"), 2, "is not KEY=VALUE"),
        (("--mlir", "step.mlir", "--set", "spilt=a"), 2, "unknown key 'spilt'"),
        (("--mlir", "step.mlir", "--output", "t.xls"), 2, "ends in none of"),
        (("--mlir", "step.mlir", "--columns", "stepp"), 2, "there is no column 'stepp'"),
        (
            ("--mlir", "step.mlir", "--timeout", "0"),
            2,
            "--timeout is 0.0: input should be greater than 0",
        ),
        (("none.yml",), 1, "none.yml: error: cannot read it: No such file"),
        (("bad.yml",), 1, "bad.yml:2: error: expected 'key: [values]'"),
        (("odd.yml",), 1, "odd.yml: error: unknown key 'spilt'"),
        (("bare.yml",), 2, "no program is given"),
        (("number.yml",), 1, "'system' is 5"),
    ],
)
def test_wrong_lines(place, capsys, argv, code, message):
    Path("bad.yml").write_text("mlir: step.mlir\nsplit\n")
    Path("odd.yml").write_text("mlir: step.mlir\nspilt: linear\n")
    Path("bare.yml").write_text("node: TPUv4\nsystem: HGX_*\n")
    Path("number.yml").write_text("mlir: step.mlir\nsystem: [5, 6]\n")
    assert cli(*argv) == code
    out, err = capsys.readouterr()
    assert message in err and err.count("\n") == 1 and out == ""


def test_no_output_without_a_result(place, monkeypatch):
    monkeypatch.setattr(cells, "WORKER", "support.sweep_work:missing")
    assert cli("--mlir", "step.mlir", "--output", "t.csv") == 1
    assert not Path("t.csv").exists()


def test_usage_errors_are_usage_errors(place):
    with pytest.raises(UsageError):
        sweep({"mlir": "step.mlir", "node": "A100"})


def test_workers_return_what_they_have_finished_in_time(tmp_path, monkeypatch):
    """A chunk is not all or nothing: an interruption loses at most one cell of each worker."""
    (tmp_path / "step.mlir").write_text(
        "func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {\n"
        "  %0 = stablehlo.tanh %x : tensor<64x64xf32>\n  return %0 : tensor<64x64xf32>\n}"
    )
    axes = {
        "mlir": str(tmp_path / "step.mlir"), "node": ["A100_SXM_40GB", "H100_80GB"],
        "node.memory_bandwidth_bytes_per_s": [1e12, 2e12], "estimator": "roofline",
    }  # fmt: skip
    keys = sweep_grid.expand_cells(axes)
    options = sweep_runner.PoolOptions(jobs=1, cache="none")
    whole = sweep_runner.run_sweep(keys, options, print).rows
    sizes = []
    run_chunks = cells.CellPool._run_chunks

    def record_round(self, chunks, *others):
        sizes.append([len(chunk) for chunk in chunks])
        return run_chunks(self, chunks, *others)

    monkeypatch.setattr(cells.CellPool, "_run_chunks", record_round)
    monkeypatch.setattr(cells, "CHUNK_S", 0.0)
    single = sweep_runner.run_sweep(keys, options, print).rows
    assert sizes == [[4], [3], [2], [1]]
    assert [row["compute_s"] for row in single] == [row["compute_s"] for row in whole]


@pytest.mark.parametrize(
    ("cache", "output", "text"),
    [
        ("none", "", "1 of 3 cells were finished, and --cache none keeps none of them"),
        ("", "", "1 of 3 cells are kept: run the same command to continue"),
        ("none", "program.mlirbc", "1 of 3 cells are kept: run the same command to continue"),
    ],
)
def test_an_interruption_says_what_is_kept(cache, output, text):
    pool = cells.CellPool("m:f", cells.PoolOptions(cache=cache), print, "sweep")
    answers = {0: {}, 1: HespasError("no")}
    assert (
        pool._describe_interruption([cells.Cell("", {}, "", output)] * 3, answers, "cells") == text
    )
