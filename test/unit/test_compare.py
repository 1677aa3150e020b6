"""``hespas compare``: results side by side."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from support.result_programs import layered, result, run

import hespas
from hespas.estimators.calibrated.calibrated_estimator import CalibratedEstimator
from hespas.plugin import run_pipeline
from hespas.workflows import run_results
from hespas.workflows.run_comparison import compare_results
from hespas.workflows.run_results import RunResult
from hespas.workflows.sweep.sweep_table import is_table_file


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("step.mlir").write_text(layered())
    Path("wide.mlir").write_text(layered(devices=8))
    return tmp_path


def compared(capsys, *argv):
    capsys.readouterr()
    code = run("compare", *argv)
    out, err = capsys.readouterr()
    return code, out, err


def test_one_program_across_nodes_is_normalised_to_the_first(place, capsys):
    nodes = ("--nodes", "A100_SXM_40GB,H100_80GB", "--systems", "{node}_4GPU")
    code, out, _ = compared(capsys, "step.mlir", *nodes, "--json")
    data = json.loads(out)
    first, second = data["results"]
    assert code == 0 and data["measure"] == "step_time_s"
    assert first["speed_up"] == first["relative_time"] == 1
    assert second["speed_up"] == pytest.approx(first["time_s"] / second["time_s"])
    assert second["speed_up"] > 1 and second["efficiency"] is None
    assert [row["label"] for row in data["results"]] == ["A100_SXM_40GB", "H100_80GB"]
    assert second["run"]["system"] == "H100_80GB_4GPU"
    flags = ("--node", "H100_80GB", "--system", "H100_80GB_4GPU", "--output", "out")
    assert run("run", "--mlir", "step.mlir", *flags) == 0
    assert run_results.read_run_figures("out")["step_time_s"] == second["time_s"]
    out = compared(capsys, "step.mlir", *nodes)[1]
    head, *rows = out.splitlines()
    version = CalibratedEstimator.version
    assert head == f"program step.mlir; split linear; estimator calibrated {version}; devices 4"
    assert rows[0].split()[:3] == ["node", "system", "step"] and "speed-up" in rows[0]
    assert rows[1].split()[0] == "A100_SXM_40GB" and "1.00 x" in rows[1]


def test_several_programs_have_an_efficiency(place, capsys):
    argv = ("step.mlir", "wide.mlir", "--nodes", "A100_SXM_40GB")
    systems = ("--systems", "A100_SXM_40GB_4GPU,A100_SXM_40GB_8GPU")
    efficiencies = {}
    for work in ("flops", "weak", "strong"):
        out = compared(capsys, *argv, *systems, "--work", work, "--json")[1]
        first, second = json.loads(out)["results"]
        assert first["efficiency"] == 1 and second["run"]["devices"] == 8
        efficiencies[work] = second["efficiency"]
    assert efficiencies["weak"] == pytest.approx(second["speed_up"])
    assert efficiencies["strong"] == pytest.approx(second["speed_up"] / 2)
    # Each device of either program has the same operations.
    assert efficiencies["flops"] == pytest.approx(efficiencies["weak"])
    out = compared(capsys, *argv, *systems)[1]
    assert "efficiency" in out and "100.0 %" in out


def test_an_option_of_the_split_is_not_ignored_where_the_program_is_split(place, capsys):
    """As --split, --block-limit divides a program, which has been divided already."""
    module = hespas.read("step.mlir")
    run_pipeline(module, "split-linear,roofline-annotate{node=A100_SXM_40GB}")
    Path("split.mlir").write_text(str(module))
    assert compared(capsys, "step.mlir", "split.mlir")[0] == 0
    for flag in (("--split", "individual"), ("--block-limit", "2")):
        code, _, err = compared(capsys, "step.mlir", "split.mlir", *flag)
        assert code == 1 and "the module is already split by split-linear" in err


def test_without_systems_compute_is_compared(place, capsys):
    out = compared(capsys, "step.mlir", "--nodes", "A100_SXM_40GB,H100_80GB")[1]
    assert "compute" in out and "exposed" not in out and "step " not in out


@pytest.mark.slow
def test_results_and_tables_of_sweeps_are_taken_as_they_are(place, capsys):
    folder = result(place, name="one.mlir")
    sweep = ("--mlir", "step.mlir", "--node", "A100_SXM_40GB", "H100_80GB")
    for table in ("cells.csv", "cells.json"):
        assert run("sweep", *sweep, "--cache", "none", "--output", table) == 0
        assert is_table_file(table)
        out = compared(capsys, table, "--json")[1]
        assert [row["run"]["node"] for row in json.loads(out)["results"]] == [
            "A100_SXM_40GB", "H100_80GB",
        ]  # fmt: skip
    out = compared(capsys, folder, "cells.csv", "--json")[1]
    data = json.loads(out)
    assert data["measure"] == "compute_s" and len(data["results"]) == 3
    assert data["results"][0]["speed_up"] == 1
    assert not is_table_file("step.mlir") and not is_table_file(str(Path(folder, "run.json")))


@pytest.mark.long
def test_plots(place, capsys):
    nodes = ("--nodes", "A100_SXM_40GB,H100_80GB", "--systems", "{node}_4GPU")
    assert compared(capsys, "step.mlir", *nodes, "--plot", "nodes.svg")[0] == 0
    texts = {e.text for e in ET.parse("nodes.svg").iter() if e.tag.endswith("text")}
    assert {"A100_SXM_40GB", "H100_80GB", "compute", "exposed communication"} <= texts
    before = Path("nodes.svg").read_bytes()
    assert compared(capsys, "step.mlir", *nodes, "--plot", "nodes.svg")[0] == 0
    assert Path("nodes.svg").read_bytes() == before
    assert compared(capsys, "step.mlir", *nodes, "--plot", "nodes.png")[0] == 0
    assert Path("nodes.png").read_bytes().startswith(b"\x89PNG")


def test_a_table_without_results_is_an_error(place, capsys):
    argv = ("--system", "A100_SXM_40GB_8GPU", "--cache", "none", "--jobs", "1")
    assert run("sweep", "--mlir", "step.mlir", *argv, "--output", "cells.csv") == 1
    code, out, err = compared(capsys, "cells.csv")
    assert code == 1 and not out and err.count("\n") == 1
    assert run("compare", "--changes", "cells.csv", "step.mlir") == 1
    stderr = capsys.readouterr().err
    assert "cells.csv: error: it is a table of many results, not one result" in stderr
    no_result = "cells.csv: error: no cell has a result; the first error: step.mlir"
    assert run("show", "cells.csv") == 1 and no_result in capsys.readouterr().err
    assert no_result in err


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (("step.mlir",), 2, "there is one result only; name several, or several --nodes"),
        (("step.mlir", "--nodes", "A100_SXM_40GB,H100_80G"), 2, "did you mean 'H100_80GB'"),
        (("step.mlir", "--nodes", "A100_SXM_40GB,H100_80GB,B200_180GB", "--systems",
          "A100_SXM_40GB_4GPU,H100_80GB_4GPU"), 2, "there are 3 nodes and 2 systems"),
        (("step.mlir", "--nodes", "A100_SXM_40GB,H100_80GB", "--systems", "{node}_3GPU"), 2,
         "no system preset is named 'A100_SXM_40GB_3GPU'"),
        (("step.mlir", "wide.mlir", "--systems", "A100_SXM_40GB_4GPU"), 1,
         "the program runs on 8 devices"),
        ((".", "step.mlir", "--nodes", "H100_80GB,A100_SXM_40GB"), 2, "it is a result already"),
        ((".", ".", "--nodes", "H100_80GB"), 2, "it is a result already"),
        ((".", "step.mlir", "--nodes", "H100_80GB"), 1, "there is no run.json"),
        (("step.mlir", "wide.mlir", "--plot", "x.gif"), 1, "a plot is a file .png, .svg, .pdf"),
        (("step.mlir", "wide.mlir", "--plot", "none/x.png"), 1, "its folder does not exist"),
    ],
)  # fmt: skip
def test_wrong_lines_are_one_line(place, capsys, argv, code, text):
    data, out, err = compared(capsys, *argv)
    assert data == code and text in err and not out
    assert "Traceback" not in err and not list(place.glob("*.png"))


def test_no_time_and_no_operations_are_no_division():
    figures = {"compute_s": 0.0, "devices": 2, "flops": 0}
    results = compare_results([RunResult("", figures), RunResult("", {**figures, "devices": 4})])
    assert [result.speed_up for result in results] == [None, None]
    assert [result.efficiency for result in results] == [None, None]


def test_network_models_have_a_column_if_they_differ(place, capsys):
    described = "ring:4,links=2,link_gb_s=300,latency_ns=1000,local_mem_gb_s=1555"
    for name, system in (("a", "A100_SXM_40GB_4GPU"), ("b", described)):
        bound = ("--mlir", "step.mlir", "--estimator", "roofline", "--node", "A100_SXM_40GB")
        assert run("run", *bound, "--system", system, "--output", name) == 0
    code, out, _ = compared(capsys, "a", "b")
    head, *rows = (line.split() for line in out.splitlines()[1:])
    assert code == 0 and "network model" in " ".join(head)
    assert "astra" in rows[0] and "flows" in rows[1]
    assert "network model" not in compared(capsys, "b", "b")[1]


def test_a_slower_result_fails(place, capsys):
    nodes = ("--nodes", "H100_80GB,A100_SXM_40GB,B200_180GB", "--fail-above")
    code, out, err = compared(capsys, "step.mlir", *nodes, "10")
    assert code == 1 and "speed-up" in out
    assert err.splitlines()[-1].startswith("error: A100_SXM_40GB: the compute takes ")
    assert err.count("more than the 10 % allowed") == 1
    assert compared(capsys, "step.mlir", *nodes, "1000000")[0] == 0


def test_changes_of_one_program_between_two_nodes(place, capsys):
    nodes = ("--nodes", "H100_80GB,A100_SXM_40GB")
    code, out, _ = compared(capsys, "step.mlir", *nodes, "--changes")
    assert code == 0 and "A  H100_80GB" in out and "By kernel" in out
