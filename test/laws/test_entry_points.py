"""Entry points: one program on one node has one step time, whatever asks for it.

What XLA would fuse depends on the GPU. The program here is fused differently for an A100, which
passes take as their default, and for an H100, so that an entry point that forgets the node of the
program shows another time.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.law_cases import run_tool

import hespas
from hespas.tools.step_budget import StepBudget
from hespas.workflows.program_form import choose_fusion_options
from hespas import configs
from hespas.workflows.sweep.sweep_table import read_table
from hespas.workflows.validation.prediction_scores import COLUMNS

pytestmark = pytest.mark.slow

NODES = ("A100_SXM_40GB", "H100_80GB", "TPUv5e")
SYSTEM = "switch:2,links=1,link_gb_s=50,latency_ns=500,local_mem_gb_s=1000"
ROWS, COLUMNS_OF_X = 16384, 1024
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
    %7 = stablehlo.multiply %6, %y : tensor<16384x1024xf32>
    %8 = stablehlo.multiply %6, %z : tensor<16384x1024xf32>
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
        folder: An empty folder.
        node: The node.
        estimator: The estimator.
    """

    folder: Path
    node: str
    estimator: str

    @property
    def program(self) -> Path:
        path = self.folder / "step.mlir"
        path.write_text(PROGRAM)
        return path

    @property
    def keys(self) -> dict[str, str]:
        """The options of a run, by their names."""
        names = {"node": self.node, "system": SYSTEM, "estimator": self.estimator, "form": "fuse"}
        return {"mlir": str(self.program), **names}

    @property
    def flags(self) -> list[str]:
        """The options of a run as flags, without the program and the node."""
        return ["--system", SYSTEM, "--estimator", self.estimator, "--form", "fuse"]


def time_by_run(case: EntryCase) -> float:
    output = case.folder / "run"
    words = ("--mlir", str(case.program), "--node", case.node, "--output", str(output))
    run_tool("hespas", "run", *words, *case.flags)
    return json.loads((output / "run.json").read_text())["step_time_s"]


def time_by_file(case: EntryCase) -> float:
    output, file = case.folder / "file", case.folder / "run.json"
    file.write_text(json.dumps({**case.keys, "output": str(output)}))
    run_tool("hespas", "run", str(file))
    return json.loads((output / "run.json").read_text())["step_time_s"]


def time_by_simulation(case: EntryCase) -> float:
    """Simulate the traces of a run that has not done so, as the run would have."""
    output = case.folder / "traces"
    words = ("--mlir", str(case.program), "--node", case.node, "--output", str(output))
    run_tool("hespas", "run", *words, *case.flags, "--no-simulate")
    return json.loads(run_tool("hespas", "simulate", str(output), "--json"))["step_time_s"]


def time_by_passes(case: EntryCase) -> float:
    """Run the passes one by one, with the options of fuse that the node implies."""
    options = choose_fusion_options(configs.load_node(case.node))
    fuse = "fuse{" + " ".join(f"{name}={value}" for name, value in options.items()) + "}"
    split = "linear" if case.estimator == "calibrated" else "individual"
    merge = "" if split == "linear" else "{merge}"
    output = case.folder / "passes"
    keeps = "" if split == "linear" else "on-chip-annotate,"
    run_tool(
        "hespas-opt", str(case.program), "-o", "/dev/null", "--pass-pipeline",
        f"prepare,{fuse},split-{split}{merge},"
        f"{case.estimator}-annotate{{node={case.node}}},emit-chakra{{output={output}}}",
    )  # fmt: skip
    node = configs.load_node(case.node)
    words = ["--system", SYSTEM]
    if case.estimator == "calibrated":
        words += ["--curves", node.collectives or "none", "--slowdown", "0"]
    return json.loads(run_tool("hespas", "simulate", str(output), *words, "--json"))["step_time_s"]


def time_in_python(case: EntryCase) -> float:
    return hespas.estimate(case.program, **{**case.keys, "mlir": None}).step_time_s


def time_by_budget(case: EntryCase) -> float:
    return 0.0


def time_by_sweep(case: EntryCase) -> float:
    table, file = case.folder / "table.json", case.folder / "cells.json"
    file.write_text(json.dumps(case.keys))
    words = ("--output", str(table), "--cache", "none", "--jobs", "1")
    run_tool("hespas", "sweep", str(file), *words)
    (row,) = read_table(str(table))
    return row["step_time_s"]


def time_by_comparison(case: EntryCase) -> float:
    """Compare the node with another one."""
    nodes = ("--nodes", case.node, "B200_180GB")
    text = run_tool("hespas", "compare", str(case.program), *nodes, *case.flags, "--json")
    return json.loads(text)["results"][0]["step_time_s"]


def time_by_validation(case: EntryCase) -> float:
    table = case.folder / "measured.csv"
    system = f'"{SYSTEM}"'
    table.write_text(f"{','.join(COLUMNS)}\n{case.program.stem},2,{case.node},{system},1,0,none\n")
    words = ("--programs", str(case.folder), "--start", "unoptimised", "--no-baselines")
    flags = ("--estimator", case.estimator, "--cache", "none", "--json")
    (flow,) = json.loads(run_tool("hespas", "validate", str(table), *words, *flags))[
        "flows"
    ].values()
    return flow["cells"][0]["predicted_s"]
