"""Whole programs on one device: what stands for collectives, and the comparison with the parts."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.execution import call
from support.paths import ROOT

from hespas import passes
from hespas.dialects.mlir import ir, make_context
from hespas.dialects.op_kinds import find_entry_function
from hespas.estimators.lower.plain_stablehlo import lower_to_plain_stablehlo
from hespas.estimators.measure.standalone_region import build_standalone_module
from hespas.passes.base import PassRun
from hespas.support.errors import HespasError, UsageError
from hespas.tools.commands import measure
from hespas.workflows.reference.program_comparison import (
    build_stand_in_module,
    compare_with_regions,
    count_collectives,
    replace_collectives,
)

DATA = sorted((ROOT / "docs" / "data").glob("reference-*.json"))
SUM = """({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      })"""
GROUPS = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
PROGRAM = f"""
module attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 2 : i32}} {{
  func.func public @main(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<128x64xf32>) {{
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %c = %x) : tensor<i32>, tensor<64x64xf32>
     cond {{
      %n = stablehlo.constant dense<3> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    }} do {{
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %half = "stablehlo.reduce_scatter"(%c) <{{{GROUPS}, scatter_dimension = 0 : i64}}> {SUM}
        : (tensor<64x64xf32>) -> tensor<32x64xf32>
      %tanh = stablehlo.tanh %half : tensor<32x64xf32>
      %whole = "stablehlo.all_gather"(%tanh) <{{all_gather_dim = 0 : i64, {GROUPS}}}>
        : (tensor<32x64xf32>) -> tensor<64x64xf32>
      stablehlo.return %next, %whole : tensor<i32>, tensor<64x64xf32>
    }}
    %1 = stablehlo.add %0#1, %0#1 : tensor<64x64xf32>
    %2 = "stablehlo.all_reduce"(%1) <{{{GROUPS}}}> {SUM} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %3 = "stablehlo.all_to_all"(%2) <{{concat_dimension = 0 : i64, split_count = 2 : i64,
      split_dimension = 1 : i64, {GROUPS}}}> : (tensor<64x64xf32>) -> tensor<128x32xf32>
    %4 = "stablehlo.all_gather"(%3) <{{all_gather_dim = 1 : i64, {GROUPS}}}>
      : (tensor<128x32xf32>) -> tensor<128x64xf32>
    return %2, %4 : tensor<64x64xf32>, tensor<128x64xf32>
  }}
}}
"""


def prepared() -> ir.Module:
    module = ir.Module.parse(PROGRAM, make_context())
    passes.run_pipeline(module, "prepare", PassRun(note=lambda text: None))
    return module


def test_collectives_are_counted_by_what_they_take_and_give():
    module = prepared()
    op_counts = count_collectives(find_entry_function(module))
    counts = sorted(count for _, count in op_counts)
    assert counts == [1, 1, 1, 3, 3]


def test_a_program_runs_without_its_collectives():
    program = prepared()
    module = build_standalone_module(find_entry_function(program))
    replace_collectives(module)
    lower_to_plain_stablehlo(module)
    module.operation.verify()
    assert "replica_groups" not in str(module)
    x = np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32)
    first, second = call(module, [x, np.zeros((), np.int32)])
    expected = x
    for _ in range(3):
        expected = np.tile(np.tanh(expected[:32]), (2, 1))
    np.testing.assert_allclose(first, 2 * expected, rtol=1e-5)
    cut = np.tile(2 * expected[:, :32], (2, 1))
    np.testing.assert_allclose(second, np.tile(cut, (1, 2)), rtol=1e-5)


@pytest.mark.slow
def test_what_stands_for_a_collective_runs_alone():
    module = prepared()
    for collective, _ in count_collectives(find_entry_function(module)):
        alone = build_stand_in_module(collective)
        alone.operation.verify()
        x = np.ones(ir.RankedTensorType(collective.operands[0].type).shape, np.float32)
        (result,) = call(alone, [x, np.zeros((), np.int32)])
        assert list(result.shape) == list(ir.RankedTensorType(collective.results[0].type).shape)
        assert (result == 1).all()


@pytest.mark.slow
def test_whole_and_parts():
    module = ir.Module.parse(PROGRAM, make_context())
    notes: list[str] = []
    comparison = compare_with_regions(
        module, "xla", {"device": "cpu", "repetitions": 3}, "split-linear",
        PassRun(note=notes.append), rounds=2,
    )  # fmt: skip
    assert (comparison.regions, comparison.collectives, comparison.devices) == (4, 9, 2)
    assert len(comparison.rounds) == 2
    data = json.loads(json.dumps(comparison.to_json()))
    assert data["whole_s"] > 0
    assert data["stand_ins_s"] > 0
    for round_ in comparison.rounds:
        assert round_.ratio == pytest.approx(
            (round_.regions_s + round_.stand_ins_s) / round_.whole_s
        )
        assert round_.whole["clock"] == "host"
    low, high = data["ratio_range"]
    assert low <= data["ratio"] <= high


@pytest.mark.slow
def test_the_command(tmp_path, capsys):
    path = tmp_path / "step.mlir"
    path.write_text(PROGRAM)
    argv = [str(path), "--rounds", "1", "--setting", "device=cpu", "--setting", "repetitions=3"]
    assert measure.main(["reference", *argv]) == 0
    out = capsys.readouterr().out
    for word in ("whole", "sum of the parts", "9, each replaced by a local operation", "ratio"):
        assert word in out
    kind = "tensor<4xf32>"
    path.write_text(f"func.func @main(%x: {kind}) -> {kind} {{ return %x : {kind} }}")
    with pytest.raises(HespasError, match="the program computes nothing"):
        measure.main(["reference", str(path)])
    with pytest.raises(UsageError, match="invalid choice: 'lines'; did you mean 'linear'"):
        measure.main(["reference", str(path), "--split", "lines"])
    with pytest.raises(UsageError, match="roofline does not measure"):
        measure.main(["reference", str(path), "--estimator", "roofline"])


@pytest.mark.parametrize("file", DATA, ids=lambda f: f.name)
def test_sums_are_near_wholes_in_the_data(file):
    """What docs/reference/whole-programs.md claims of five programs and more."""
    data = json.loads(file.read_text())
    assert len(data["workloads"]) >= 5
    for row in data["workloads"]:
        assert row["ratio"] == pytest.approx(
            np.median([round_["ratio"] for round_ in row["rounds"]])
        )
        parts = min(round_["quick_parts_s"] for round_ in row["rounds"])
        whole = min(round_["whole_low_s"] for round_ in row["rounds"])
        assert row["least_ratio"] == pytest.approx(parts / whole)
        assert 0.5 < row["least_ratio"] < 2
