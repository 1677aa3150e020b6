"""Replays of an annotated program at other nodes, against annotating it again."""

from __future__ import annotations

import gc
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from support.budgets import count_cases
from support.published_inputs import PROGRAM

from hespas.workflows import cell_worker
from hespas.workflows.program_replay import ProgramReplay
from hespas.workflows.sweep import sweep_grid, sweep_runner, sweep_worker

# A loop with a product and a collective, a loop that only computes, and a function.
LOOPS = """
module @loops attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<256x256xbf16>) -> tensor<256x256xbf16> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %five = stablehlo.constant dense<5> : tensor<i32>
    %a:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<256x256xbf16> cond {
      %more = stablehlo.compare LT, %i, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %w = stablehlo.dot_general %v, %x, contracting_dims = [1] x [0]
        : (tensor<256x256xbf16>, tensor<256x256xbf16>) -> tensor<256x256xbf16>
      %sum = "stablehlo.all_reduce"(%w) <{
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids
      }> ({
      ^bb0(%l: tensor<bf16>, %r: tensor<bf16>):
        %s = stablehlo.add %l, %r : tensor<bf16>
        stablehlo.return %s : tensor<bf16>
      }) : (tensor<256x256xbf16>) -> tensor<256x256xbf16>
      %t = func.call @activate(%sum) : (tensor<256x256xbf16>) -> tensor<256x256xbf16>
      stablehlo.return %next, %t : tensor<i32>, tensor<256x256xbf16>
    }
    %b:2 = stablehlo.while(%i = %zero, %v = %a#1) : tensor<i32>, tensor<256x256xbf16> cond {
      %more = stablehlo.compare LT, %i, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %t = func.call @activate(%v) : (tensor<256x256xbf16>) -> tensor<256x256xbf16>
      stablehlo.return %next, %t : tensor<i32>, tensor<256x256xbf16>
    }
    return %b#1 : tensor<256x256xbf16>
  }
  func.func private @activate(%x: tensor<256x256xbf16>) -> tensor<256x256xbf16> {
    %y = stablehlo.tanh %x : tensor<256x256xbf16>
    %z = stablehlo.multiply %y, %x : tensor<256x256xbf16>
    return %z : tensor<256x256xbf16>
  }
}
"""
ACCELERATOR = {
    "name": "drawn",
    "memory_bandwidth_bytes_per_s": 1e12,
    "memory_bytes": 1e9,
    "tdp_w": 300,
    "accelerator": {
        "rows": 32, "columns": 32, "arrays": 2, "clock_hz": 1e9, "lanes": 256, "alus": 2,
        "sram_bytes": 2**20,
    },
    "silicon": {"process": "5nm"},
}  # fmt: skip


@pytest.fixture
def programs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("loops.mlir").write_text(LOOPS)
    Path("step.mlir").write_text(PROGRAM)
    Path("chip.json").write_text(json.dumps(ACCELERATOR))


def draw_cells(keys: dict[str, Any], count: int) -> list[dict[str, Any]]:
    cells = sweep_grid.expand_cells({**keys, "sample": min(count, 1000), "seed": 3})
    return random.Random(3).sample(cells, min(count, len(cells)))


def compute_answers(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    factory = sweep_runner.SweepCellFactory()
    payload = {
        "function": sweep_runner.FUNCTION, "folder": ".", "limit_s": math.inf,
        "cells": [factory.make_cell(cell).payload for cell in cells],
    }  # fmt: skip
    gc.freeze()  # the worker collects garbage, which is not to search what other tests have left
    return cell_worker.run_cells(payload)["cells"]


def print_figures(answer: dict[str, Any]) -> str:
    """Print an answer without the node, which is a temporary file of the worker."""
    figures = answer.get("figures", {})
    return json.dumps({**answer, "figures": {**figures, "node": None}})


def check_replays(cells: list[dict[str, Any]], monkeypatch, least: int) -> None:
    """Compare each cell with one that is annotated; at least so many are replayed."""
    replays = []
    estimate = ProgramReplay.estimate_costs

    def estimate_costs(self, estimator):
        costs = estimate(self, estimator)
        replays.append(costs)
        return costs

    monkeypatch.setattr(ProgramReplay, "estimate_costs", estimate_costs)
    answers = compute_answers(cells)
    assert sum(costs is not None for costs in replays) >= least
    monkeypatch.setattr(sweep_worker, "can_replay", lambda *arguments: False)
    sweep_worker.memo.forget()
    for cell, answer, annotated in zip(cells, answers, compute_answers(cells), strict=True):
        assert print_figures(answer) == print_figures(annotated), cell


@pytest.mark.parametrize("program", ["loops.mlir", "step.mlir"])
@pytest.mark.parametrize("split", ["linear", "individual-merge"])
def test_drawn_accelerators_are_those_of_the_annotation(programs, monkeypatch, program, split):
    keys = {
        "mlir": program, "split": split, "node": "chip.json", "estimator": "systolic",
        "setting.dataflow": ["ws", "os", "best"],
        "node.accelerator.arrays": [1, 2, 12],
        "node.accelerator.sram_bytes": [2**14, 2**20],
        "node.memory_bandwidth_bytes_per_s": [1e10, 1e12],
        "node.memory_bytes": [1e5, 1e9],
        "node.tdp_w": [2, 300],
        "system": ["ring:4,links=2,link_gb_s=5,latency_ns=50,local_mem_gb_s=100",
                   "torus:2x2,links=4,link_gb_s=5,latency_ns=50,local_mem_gb_s=100"],
    }  # fmt: skip
    cells = draw_cells(keys, count_cases(12))
    check_replays(cells, monkeypatch, least=len(cells) - 3)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["roofline", "calibrated"])
def test_presets_are_those_of_the_annotation(programs, monkeypatch, estimator):
    keys = {
        "mlir": "loops.mlir", "estimator": estimator, "form": "as-is",
        "node": ["A100_SXM_40GB", "H100_80GB", "TPUv4", "MI300X"],
        "system": ["A100_SXM_40GB_4GPU", "MI300X_4"],
    }  # fmt: skip
    check_replays(draw_cells(keys, 8), monkeypatch, least=1)


def test_nodes_without_a_rate_are_annotated(programs, monkeypatch):
    rates = {"mlir": "loops.mlir", "estimator": "roofline", "keep_going": True}
    cells = [
        {**rates, "node": "A100_SXM_40GB"},
        {**rates, "node": "chip.json", "node.peaks_flops": {"matrix": {"i8": 1e12}}},
    ]
    check_replays(cells, monkeypatch, least=0)


def test_branches_are_annotated(programs, monkeypatch):
    branch = """
      %p = stablehlo.constant dense<true> : tensor<i1>
      %c = "stablehlo.if"(%p) ({
        stablehlo.return %b#1 : tensor<256x256xbf16>
      }, {
        %y = stablehlo.tanh %x : tensor<256x256xbf16>
        stablehlo.return %y : tensor<256x256xbf16>
      }) : (tensor<i1>) -> tensor<256x256xbf16>
      return %c : tensor<256x256xbf16>"""
    Path("branch.mlir").write_text(LOOPS.replace("return %b#1 : tensor<256x256xbf16>", branch, 1))
    keys = {"mlir": "branch.mlir", "estimator": "roofline", "node": ["TPUv4", "H100_80GB"]}
    check_replays(sweep_grid.expand_cells(keys), monkeypatch, least=0)
