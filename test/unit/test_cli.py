"""``hespas``: the flow, its summary and its errors."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.paths import ROOT
from support.published_inputs import PROGRAM, write_config

from hespas.estimators.roofline import RooflineEstimator
from hespas.support import text_tables
from hespas.support.suggestions import suggest_nearest
from hespas.tools import hespas
from hespas.tools.console_scripts import run_tool_main
from hespas.workflows.figures import FIGURES

ALONE = PROGRAM.replace("mhlo.num_partitions = 4", "mhlo.num_partitions = 1").replace(
    "[[0, 1, 2, 3]]> : tensor<1x4xi64>", "[[0]]> : tensor<1x1xi64>"
)
UNKNOWN = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @mystery(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("step.mlir").write_text(PROGRAM)
    return tmp_path


def run(*argv):
    return run_tool_main(hespas.main, ["run", *argv])


def test_help_and_version(capsys):
    assert run_tool_main(hespas.main, ["--help"]) == 0
    assert "  run " in capsys.readouterr().out
    assert run_tool_main(hespas.main, []) == 2
    assert run_tool_main(hespas.main, ["--version"]) == 0
    assert run_tool_main(hespas.main, ["rum"]) == 2
    assert "did you mean 'run'?" in capsys.readouterr().err


def test_run_writes_traces_and_a_summary(place, capsys):
    argv = ("--mlir", "step.mlir", "--node", "A100_SXM_40GB", "--output", "out")
    assert run(*argv, "--system", "A100_SXM_40GB_4GPU", "--form", "as-is") == 0
    out = capsys.readouterr().out
    assert Path("out/dev.3.et").exists() and not Path("out/dev.4.et").exists()
    for text in (
        "4 (1 replica x 4 partitions)", "A100_SXM_40GB_4GPU (FullyConnected 4)",
        "stablehlo.dot_general", "Compute time by bound", "all_reduce", "32.768 kB",
        "80 % band", "2, 1 distinct", "not estimated   nothing",
    ):  # fmt: skip
        assert text in out
    assert "\x1b" not in out


def test_json_has_the_stable_keys(place, capsys):
    assert run("--mlir", "step.mlir", "--output", "out", "--json", "--split", "linear") == 0
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert data["step_time_s"] is data["comm_s"] is data["exposed_comm_s"] is None
    assert 0 < data["compute_s"] < 1e-3
    assert data["devices"] == 4 and data["estimator"].startswith("calibrated")
    assert data["warnings"] == [] and data["gaps"] == 0
    assert data["split"] == "linear" and data["system"] is None and data["output"] == "out"
    assert data["collectives"] == [
        {"kind": "all_reduce", "group_size": 4, "count": 1, "operand_bytes": 32768}
    ]
    assert data["nodes_per_device"] >= 3
    for shares in data["compute_s_by"].values():
        assert sum(shares.values()) == pytest.approx(data["compute_s"])
    assert data["node"] in err  # the default is said


def test_file_and_flags_make_one_configuration(place, capsys):
    config = {"mlir": "step.mlir", "node": "V100_32GB", "split": "linear", "output": "a"}
    Path("run.json").write_text(json.dumps(config))
    assert run("run.json", "--node", "H100_80GB", "--output", "b", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["node"], data["split"], data["output"]) == ("H100_80GB", "linear", "b")
    assert not Path("a").exists()


def test_published_configuration_runs_too(place, capsys):
    argv = (write_config(), "--split", "individual-merge", "--json")
    assert run(*argv) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["split"] == "individual-merge" and data["output"] == "out"
    assert "config" in data["constants"]
    assert run(write_config(), "--estimator", "xla") == 2
    assert "does not go with" in capsys.readouterr().err


def test_keep_going_counts_gaps(place, capsys):
    Path("odd.mlir").write_text(UNKNOWN)
    assert run("--mlir", "odd.mlir", "--output", "out") == 1
    assert "mystery" in capsys.readouterr().err and not Path("out").exists()
    assert run("--mlir", "odd.mlir", "--output", "out", "--json", "--keep-going") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["gaps"] == 1 and "mystery" in data["warnings"][0]


def test_a_program_for_one_device(place, capsys):
    Path("one.mlir").write_text(ALONE)
    assert run("--mlir", "one.mlir", "--output", "out", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["devices"] == 1 and data["collectives"] == []


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        ([], 2, "no program is given; name it with --mlir FILE"),
        (["--mlir", "no.mlir"], 1, "no.mlir: error: "),
        (["step.mlir"], 1, "a program goes with --mlir"),
        (["no.json"], 1, "no.json: error: cannot read it: No such file"),
        (["--mlir", "step.mlir", "--nodes", "x"], 2, "no option --nodes; did you mean '--node'?"),
        (["--mlir", "step.mlir", "--rendezvous"], 2, "no option --rendezvous; known: --allow-un"),
        (["--mlir", "step.mlir", "--node", "A100"], 2, "no node preset is named 'A100'"),
        (["--mlir", "step.mlir", "--system", "A100_4"], 2, "no system preset is named 'A100_4'"),
        (["--mlir", "step.mlir", "--system", "V100_32GB_8GPU"], 1,
         "runs on 4 devices, but system V100_32GB_8GPU has 8"),
        (["--mlir", "step.mlir", "--split", "lineal"], 2, '--split is "lineal"'),
        (["--mlir", "step.mlir", "--estimator", "rofline"], 2, "did you mean 'roofline'?"),
        (["--mlir", "step.mlir", "--node", ""], 2, '--node is "": string should have at least 1'),
        (["--mlir", ""], 2, '--mlir is "": string should have at least 1 character'),
        (["--mlir", "step.mlir", "--block-limit", "-1"], 2, "--block-limit is -1"),
        (["--mlir", "step.mlir", "--curves", "H300"], 2, "no measured collectives for the device"),
    ],
)  # fmt: skip
def test_errors_are_one_line_and_leave_nothing(place, capsys, argv, code, message):
    assert run(*argv) == code
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if "(the default" not in line]
    assert len(lines) == 1 and message in lines[0] and not out
    assert [p.name for p in place.iterdir()] == ["step.mlir"]


def test_estimators_of_other_packages_are_found(place, monkeypatch, capsys):
    class MyEstimator(RooflineEstimator):
        name = "mine"

    monkeypatch.setitem(sys.modules, "my_package", SimpleNamespace(MyEstimator=MyEstimator))
    there = {"mine": "my_package:MyEstimator"}
    monkeypatch.setattr("hespas.estimators.registry.collect_import_paths", lambda: there)
    assert run("--mlir", "step.mlir", "--estimator", "mine", "--output", "out", "--json") == 0
    assert json.loads(capsys.readouterr().out)["estimator"] == "mine 1"
    assert run("--mlir", "step.mlir", "--estimator", "min") == 2
    assert "no estimator is named 'min'; did you mean 'mine'?" in capsys.readouterr().err


def test_the_documented_keys_are_those_printed(place, capsys):
    assert run("--mlir", "step.mlir", "--output", "out", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    stats = json.loads(Path("out/module_stats.json").read_text())
    known = {figure.name for figure in FIGURES}
    facts = [key for key in printed if key not in known]  # figures have a page of their own
    for page, keys in (("run-json", facts), ("module-stats", list(stats))):
        text = (ROOT / "docs" / "reference" / f"{page}.md").read_text()
        table = re.search(r"^\|---.*\n((?:\|.*\n)+)", text, re.MULTILINE)
        assert table
        cells = [row.split("|")[1] for row in table[1].splitlines()]
        assert [key for cell in cells for key in re.findall(r"`(\w+)`", cell)] == keys


def test_wrong_keys_are_named(place, capsys):
    Path("c.json").write_text('{"mlir": "step.mlir", "nodde": "A100_SXM_40GB"}')
    assert run("c.json") == 1
    assert capsys.readouterr().err == ("c.json: error: unknown key 'nodde'; did you mean 'node'?\n")


@pytest.mark.parametrize(
    ("command", "name", "key"),
    [("nodes", "A100_SXM_40GB", "memory_bandwidth_bytes_per_s"),
     ("systems", "A100_SXM_40GB_4GPU", "npus_count")],
)  # fmt: skip
def test_presets_are_listed(capsys, command, name, key):
    assert run_tool_main(hespas.main, ["presets", command]) == 0
    assert any(line.split()[:1] == [name] for line in capsys.readouterr().out.splitlines())
    assert run_tool_main(hespas.main, ["presets", command, "--json"]) == 0
    assert name in [preset["name"] for preset in json.loads(capsys.readouterr().out)]
    assert run_tool_main(hespas.main, ["presets", command, name]) == 0
    data = json.loads(capsys.readouterr().out)
    assert key in data and data["sources"]
    assert run_tool_main(hespas.main, ["presets", command, name[:-2]]) == 2
    assert name in capsys.readouterr().err


def test_tables_are_the_same_text_on_a_terminal():
    """rich only lays out: each cell is there in both forms."""
    import io

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    table = text_tables.TextTable("Title [x]", [("a[1]", "2 s"), ("bb", "10 s")], ("op", "time"))
    plain, rich = io.StringIO(), Terminal()
    text_tables.print_tables([table], plain)
    text_tables.print_tables([table], rich)
    assert plain.getvalue() == "Title [x]\n  op    time\n  a[1]   2 s\n  bb    10 s\n"
    for cell in ("Title [x]", "a[1]", "10 s", "time"):
        assert cell in rich.getvalue()


def test_trace_commands_read_what_run_wrote(place, capsys):
    assert run("--mlir", "step.mlir", "--output", "out", "--form", "as-is") == 0
    assert run_tool_main(hespas.main, ["trace", "check", "out"]) == 0
    assert run_tool_main(hespas.main, ["trace", "print", "out/dev.0.et"]) == 0
    assert "dot_general" in capsys.readouterr().out


def test_real_processes(place):
    """Help without MLIR; stdin to JSON on stdout, log on stderr; a closed pipe is quiet."""
    tool = [sys.executable, "-m", "hespas.tools.hespas"]
    code = (
        "import sys, hespas.tools.hespas as h; h.main(['--help']); print('jaxlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")
    argv = [*tool, "run", "--mlir", "-", "--output", "out", "--json"]
    done = subprocess.run(argv, input=PROGRAM, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and json.loads(done.stdout)["devices"] == 4
    assert "default" in done.stderr
    pipe = " ".join([*tool, "presets", "nodes", "--json", "|", "head", "-c", "1"])
    done = subprocess.run(pipe, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("A100_SXM_40G", "did you mean 'A100_SXM_40GB'?"),
        ("A100_SXN_40GB", "did you mean 'A100_SXM_40GB'?"),
        ("H100_SXM", "did you mean 'H100_80GB', 'H100_PCIe_80GB'?"),
        ("H1O0_80GB", "did you mean 'H100_80GB'?"),
        ("TPU", "known: A100_SXM_40GB, H100_80GB, H100_PCIe_80GB"),
    ],
)
def test_a_wrong_name_suggests_its_family_or_the_closest(word, expected):
    assert suggest_nearest(word, ["A100_SXM_40GB", "H100_80GB", "H100_PCIe_80GB"]) == expected
