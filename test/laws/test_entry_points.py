"""Entry points: one program on one node has one step time, whatever asks for it.

What XLA would fuse depends on the GPU. The program here is fused differently for an A100, which
passes take as their default, and for an H100, so that an entry point that forgets the node of the
program shows another time.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.law_cases import format_flags, run_tool

import hespas
from hespas import configs
from hespas.configs.overlap_slowdown import format_slowdown_shares
from hespas.tools.step_budget import StepBudget
from hespas.workflows import program_form
from hespas.workflows.program_form import choose_fusion_options
from hespas.workflows.sweep.sweep_table import read_table
from hespas.workflows.validation.prediction_scores import COLUMNS

pytestmark = pytest.mark.slow

ESTIMATORS = ("calibrated", "roofline")
NODES = ("A100_SXM_40GB", "H100_80GB", "TPUv5e")
SYSTEM = "switch:2,links=1,link_gb_s=50,latency_ns=500,local_mem_gb_s=1000"

# A softmax with two readers: an A100 computes it for each, an H100 writes it once.
PROGRAM = """
module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<16384x1024xf32>, %y: tensor<16384x1024xf32>,
      %z: tensor<16384x1024xf32>) -> (tensor<16384x1024xf32>, tensor<128x1024xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1]
        : (tensor<16384x1024xf32>, tensor<f32>) -> tensor<16384xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0]
        : (tensor<16384xf32>) -> tensor<16384x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<16384x1024xf32>
    %3 = stablehlo.exponential %2 : tensor<16384x1024xf32>
    %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1]
        : (tensor<16384x1024xf32>, tensor<f32>) -> tensor<16384xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0]
        : (tensor<16384xf32>) -> tensor<16384x1024xf32>
    %6 = stablehlo.divide %3, %5 : tensor<16384x1024xf32>
    %wave = stablehlo.sine %y : tensor<16384x1024xf32>
    %7 = stablehlo.multiply %6, %wave : tensor<16384x1024xf32>
    %8 = stablehlo.multiply %wave, %z : tensor<16384x1024xf32>
    %9 = stablehlo.reshape %8 : (tensor<16384x1024xf32>) -> tensor<128x128x1024xf32>
    %10 = stablehlo.reduce(%9 init: %zero) applies stablehlo.add across dimensions = [1]
        : (tensor<128x128x1024xf32>, tensor<f32>) -> tensor<128x1024xf32>
    %11 = "stablehlo.all_reduce"(%10) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        use_global_device_ids} : (tensor<128x1024xf32>) -> tensor<128x1024xf32>
    return %7, %11 : tensor<16384x1024xf32>, tensor<128x1024xf32>
  }
}
"""


@dataclass(frozen=True)
class EntryCase:
    """A program on a node, with an estimator, in the form that hespas fuses it to.

    Attributes:
        folder: A folder with the program.
        node: The node.
        estimator: The estimator.
    """

    folder: Path
    node: str
    estimator: str

    @property
    def program(self) -> Path:
        return self.folder / "step.mlir"

    @property
    def options(self) -> dict[str, str]:
        """The options of a run, without the program."""
        names = {"node": self.node, "system": SYSTEM}
        return {**names, "estimator": self.estimator, "form": "fuse"}

    def run(self, command: str, *words: str) -> str:
        """Run a command with the options of a run, and return what it prints."""
        return run_tool("hespas", command, *words, *format_flags(self.options))


def time_by_run(case: EntryCase) -> float:
    output = case.folder / "run"
    case.run("run", "--mlir", str(case.program), "--output", str(output))
    return json.loads((output / "run.json").read_text())["step_time_s"]


def time_by_file(case: EntryCase) -> float:
    output, file = case.folder / "file", case.folder / "run.json"
    inputs = {"mlir": str(case.program), "output": str(output)}
    file.write_text(json.dumps({**case.options, **inputs}))
    run_tool("hespas", "run", str(file))
    return json.loads((output / "run.json").read_text())["step_time_s"]


def time_by_simulation(case: EntryCase) -> float:
    """Simulate the traces of a run that has not done so."""
    output = case.folder / "traces"
    case.run("run", "--mlir", str(case.program), "--output", str(output), "--no-simulate")
    return json.loads(run_tool("hespas", "simulate", str(output), "--json"))["step_time_s"]


def time_by_passes(case: EntryCase) -> float:
    """Run the passes one by one, with what the node and the estimator imply for them."""
    node, output = configs.load_node(case.node), case.folder / "passes"
    options = [f"{name}={value}" for name, value in choose_fusion_options(node).items()]
    split = "split-linear" if case.estimator == "calibrated" else "split-individual{merge}"
    pipeline = (
        f"prepare,fuse{{{' '.join(options)}}},{split},"
        f"{case.estimator}-annotate{{node={case.node}}},emit-chakra{{output={output}}}"
    )
    run_tool("hespas-opt", str(case.program), "-o", "/dev/null", "--pass-pipeline", pipeline)
    words = ["simulate", str(output), "--system", SYSTEM, "--json"]
    if case.estimator == "calibrated":
        words += ["--curves", node.collectives or "none"]
        words += ["--slowdown", format_slowdown_shares(node.overlap_slowdown) or "0"]
    return json.loads(run_tool("hespas", *words))["step_time_s"]


def time_in_python(case: EntryCase) -> float:
    step_time_s = hespas.estimate(case.program, **case.options).step_time_s
    assert step_time_s is not None
    return step_time_s


def time_by_budget(case: EntryCase) -> float:
    budget = StepBudget(case.folder / "test.py", "test", is_update=True, options=case.options)
    return budget(case.program).step_time_s


def time_by_sweep(case: EntryCase) -> float:
    table, file = case.folder / "table.json", case.folder / "cells.json"
    file.write_text(json.dumps({**case.options, "mlir": str(case.program)}))
    words = ("--output", str(table), "--cache", "none", "--jobs", "1")
    run_tool("hespas", "sweep", str(file), *words)
    (row,) = read_table(str(table))
    return row["step_time_s"]


def time_by_comparison(case: EntryCase) -> float:
    """Compare the program on the node with itself on another one."""
    files = []
    for node in ("B200_180GB", case.node):
        files.append(case.folder / f"compared-{node}.json")
        inputs = {"mlir": str(case.program), "node": node}
        files[-1].write_text(json.dumps({**case.options, **inputs}))
    text = run_tool("hespas", "compare", *map(str, files), "--json")
    return json.loads(text)["results"][1]["time_s"]


def time_by_validation(case: EntryCase) -> float:
    table = case.folder / "measured.csv"
    row = f'{case.program.stem},2,{case.node},"{SYSTEM}",1,0,none'
    table.write_text(f"{','.join(COLUMNS)}\n{row}\n")
    words = ["validate", str(table), "--programs", str(case.folder), "--start", "unoptimised"]
    words += ["--no-baselines", "--estimator", case.estimator, "--cache", "none", "--json"]
    (flow,) = json.loads(run_tool("hespas", *words))["flows"].values()
    return flow["cells"][0]["predicted_s"]


ENTRY_POINTS: tuple[Callable[[EntryCase], float], ...] = (
    time_by_file, time_by_simulation, time_by_passes, time_in_python, time_by_budget,
    time_by_sweep, time_by_comparison, time_by_validation,
)  # fmt: skip


def place_program(folder: Path, node: str, estimator: str) -> EntryCase:
    """Write the program into a new folder."""
    case = EntryCase(folder / f"{node}-{estimator}", node, estimator)
    case.folder.mkdir()
    case.program.write_text(PROGRAM)
    return case


@pytest.fixture(params=list(itertools.product(NODES, ESTIMATORS)), ids="-".join)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> EntryCase:
    return place_program(tmp_path, *request.param)


def test_entry_points_agree(case: EntryCase) -> None:
    step_time_s = time_by_run(case)
    times_s = {find_time.__name__: find_time(case) for find_time in ENTRY_POINTS}
    assert times_s == {name: pytest.approx(step_time_s, rel=1e-12) for name in times_s}


def test_the_program_depends_on_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another node's fusion its time differs, so that a forgotten node is noticed.

    By XLA's tables a sine takes 958 clock cycles on H100, and three on A100, where each reader
    computes it again.
    """
    case = place_program(tmp_path, "H100_80GB", "calibrated")
    times_s = []
    for name in ("H100_80GB", "A100_SXM_40GB"):
        options = {**choose_fusion_options(configs.load_node(name)), "overlap": "none"}
        monkeypatch.setattr(program_form, "choose_fusion_options", lambda node, own=options: own)
        times_s.append(time_by_run(case))
    assert times_s[1] < 0.9 * times_s[0]


# What makes its programs itself is compared with a run of the program that it has made.


def test_a_stage_takes_the_time_of_its_programs(case: EntryCase) -> None:
    """Each rank runs the program three times: forward, backward and as its update."""
    for part in ("forward", "backward", "update"):
        (case.folder / f"stage.{part}.mlir").write_text(PROGRAM)
    time_by_run(case)
    step = json.loads((case.folder / "run" / "run.json").read_text())
    words = ["--ranks", "2", "--schedules", "gpipe", "--microbatches", "1", "--json"]
    # Messages between ranks slow down compute alongside, which a run of one program has not.
    words += ["--node", case.node, "--estimator", case.estimator, "--slowdown", "0"]
    words += ["--system", SYSTEM.replace("switch:2", "switch:4")]
    text = run_tool("hespas", "study", "pipeline", str(case.folder), *words)
    compute_s = json.loads(text)["rows"][0]["compute_s"]
    assert compute_s == pytest.approx(3 * step["compute_s"], abs=3e-9)  # of whole nanoseconds


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    ("node", "system", "devices"),
    [("H100_80GB", "HGX_H100_8", "8"), ("A100_SXM_40GB", "A100_SXM_40GB_4GPU", "4")],
)
def test_a_study_takes_the_time_of_its_program(
    node: str, system: str, devices: str, estimator: str, tmp_path: Path
) -> None:
    """The network model of a folder of ASTRA-sim's files is that of a run, too."""
    pytest.importorskip("jax")
    flags = ["--node", node, "--system", system, "--estimator", estimator]
    words = ["--devices", devices, "--kinds", "all-reduce", "--sizes", "1024", "--form", "fused"]
    words += ["--cache", "none", "--work-dir", str(tmp_path), "--json"]
    (row,) = json.loads(run_tool("hespas", "study", "gemm", *words, *flags))["rows"]
    program, output = tmp_path / row["program"], tmp_path / "run"
    flags += ["--mlir", str(program), "--form", "fuse", "--output", str(output)]
    run_tool("hespas", "run", *flags)
    assert json.loads((output / "run.json").read_text())["step_time_s"] == row["step_time_s"]
