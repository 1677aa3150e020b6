"""The census: what counts, and how it is written."""

import csv
import io
import json

import pytest

from hespas.dialects.mlir import make_context
from hespas.passes import run_pipeline
from hespas.passes.base import PassRun
from hespas.passes.emit.op_stats import (
    OpCensus,
    count_program_ops,
    render_census_csv,
    render_census_json,
    render_census_table,
)
from hespas.support.errors import HespasError

TEXT = """
func.func private @twice(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @unused(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func public @main(%a: tensor<4xf32>, %n: tensor<i32>) -> tensor<f32> {
  %0 = call @twice(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @twice(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "mhlo.fusion"(%1) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
  ^bb0(%b: tensor<4xf32>):
    %m = stablehlo.multiply %b, %b : tensor<4xf32>
    mhlo.return %m : tensor<4xf32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  %3:2 = stablehlo.while(%i = %n, %x = %2) : tensor<i32>, tensor<4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %y = stablehlo.add %x, %x : tensor<4xf32>
    stablehlo.return %i, %y : tensor<i32>, tensor<4xf32>
  }
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %4 = stablehlo.reduce(%3#1 init: %z) applies stablehlo.add across dimensions = [0]
    : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  return %4 : tensor<f32>
}
"""


def names(census):
    return {name: count for (name, _), count in census.counts.items()}


def test_top_level_counts_what_stands_in_the_entry_function(parse):
    census = count_program_ops(parse(TEXT))
    assert names(census) == {
        "func.call": 2, "mhlo.fusion": 1, "stablehlo.while": 1, "stablehlo.constant": 1,
        "stablehlo.reduce": 1, "func.return": 1,
    }  # fmt: skip
    assert (census.total_op_count, census.unique_op_count, census.function) == (7, 6, "main")


def test_expanded_replaces_calls_and_fusions_and_enters_loops_but_no_reducers(parse):
    census = count_program_ops(parse(TEXT), expand=True)
    assert names(census) == {
        "stablehlo.add": 3, "func.return": 3, "stablehlo.multiply": 1, "mhlo.return": 1,
        "stablehlo.while": 1, "stablehlo.compare": 1, "stablehlo.return": 2,
        "stablehlo.constant": 1, "stablehlo.reduce": 1,
    }  # fmt: skip


def test_operand_types_tell_ops_apart(parse):
    text = """func.func @main(%a: tensor<4xf32>, %b: tensor<2xf32>) {
      %0 = stablehlo.add %a, %a : tensor<4xf32>
      %1 = stablehlo.add %b, %b : tensor<2xf32>
      %2 = stablehlo.add %b, %1 : tensor<2xf32>
      return
    }"""
    census = count_program_ops(parse(text), by_operands=True)
    assert list(census.iterate_rows()) == [
        ("stablehlo.add(tensor<2xf32>, tensor<2xf32>)", 2),
        ("func.return", 1),
        ("stablehlo.add(tensor<4xf32>, tensor<4xf32>)", 1),
    ]
    assert list(csv.reader(io.StringIO(render_census_csv(census))))[1] == [
        "stablehlo.add(tensor<2xf32>, tensor<2xf32>)", "2",
    ]  # fmt: skip
    assert json.loads(render_census_json(census))["ops"][0]["operands"] == ["tensor<2xf32>"] * 2


def test_table_has_the_published_lines(parse):
    lines = render_census_table(count_program_ops(parse(TEXT))).splitlines()
    assert lines[0] == lines[-2] == "-" * 35
    assert lines[3] == "  func.call.....................:     2"
    assert lines[-1] == "  Total Operators...............:     7"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func.func private @a() { return }", "no public function"),
        ("func.func @a() { return }\nfunc.func @b() { return }", "several public"),
        ("func.func @main() { call @main() : () -> ()\n return }", "calls itself"),
    ],
)
def test_what_cannot_be_counted_is_said(parse, text, message):
    with pytest.raises(HespasError, match=message):
        count_program_ops(parse(text), expand=True)


def test_pass_writes_where_it_is_told(parse, tmp_path, capsys):
    notes = []
    census = run_pipeline(parse(TEXT), "op-stats", PassRun(note=notes.append)).get_artefact(
        OpCensus
    )
    assert notes == [render_census_table(census).rstrip("\n")]
    run_pipeline(parse(TEXT), f"op-stats{{format=json output={tmp_path / 'census.json'}}}")
    assert json.loads((tmp_path / "census.json").read_text())["total"] == 7
    run_pipeline(parse(TEXT), "op-stats{expand format=csv output=-}")
    out = capsys.readouterr()
    assert out.out.startswith("op,count\nfunc.return,3\n") and not out.err
    with pytest.raises(HespasError, match="did you mean 'json'"):
        run_pipeline(parse(TEXT), "op-stats{format=jason}")


# Source: the published tool's census of the same training step (its tutorial).
# In our export `convert` differs by 14; the optimised module by its compiler's version.
def test_agrees_with_the_published_census(workload):
    from hespas import frontends

    plain = frontends.read_module(workload("llama3/llama3-100m.mlir"), make_context())
    counts = names(count_program_ops(plain))
    assert sum(counts.values()) - counts["stablehlo.convert"] == 5124 - 607
    assert len(counts) == 35
    assert counts["stablehlo.multiply"] == 1120 and counts["stablehlo.all_reduce"] == 272

    fused = frontends.read_module(workload("llama3/llama3-100m-opt-a100.mlir"), make_context())
    top = count_program_ops(fused)
    assert (top.total_op_count, names(top)["mhlo.fusion"], top.unique_op_count) == (1989, 835, 12)
    expanded = count_program_ops(fused, expand=True)
    assert (expanded.total_op_count, expanded.unique_op_count) == (
        12015,
        34,
    )  # published: 12022 of its own export
    published = {
        "multiply": 1299, "constant": 1041, "add": 895, "reduce": 467, "dot": 88,
        "dot_general": 78, "reduce_scatter": 51, "all_gather": 12, "all_reduce": 4,
    }  # fmt: skip
    assert {name: names(expanded)[f"stablehlo.{name}"] for name in published} == published
