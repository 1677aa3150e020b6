"""The verifier accepts a correct module, and names each single fault with its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hespas import frontends, passes
from hespas.dialects.attrs import CommAttr
from hespas.dialects.mlir import ir, walk_operations
from hespas.dialects.verify_attrs import collect_attribute_problems, verify_attributes
from hespas.support.errors import HespasError

COST = (
    '{estimator = "e", flops = 4 : i64, read_bytes = 32 : i64, write_bytes = 16 : i64, '
    'latency_ns = 0.5 : f64, bound = "memory", dtype = "f32"}'
)
RIGHT = f"""
module attributes {{
  hespas.target = {{devices = 4 : i64, replicas = 4 : i64, partitions = 1 : i64}},
  hespas.split = {{strategy = "linear"}},
  hespas.communicators = {{"1" = array<i64: 0, 1>, "2" = array<i64: 2, 3>}}
}} {{
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {{
    %0 = call @r(%a) {{hespas.region = {{id = 0 : i64, ops = 1 : i64, digest = "d"}}, hespas.cost = {COST}}} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "stablehlo.all_reduce"(%0) <{{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}}> ({{
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %s = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) {{hespas.comm = {{kind = "all_reduce", operand_bytes = 16 : i64, result_bytes = 16 : i64, groups = array<i64: 1, 2>, is_async = true}}}} : (tensor<4xf32>) -> tensor<4xf32>
    %p = "stablehlo.collective_permute"(%1) <{{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}}> {{hespas.comm = {{kind = "permute", operand_bytes = 16 : i64, result_bytes = 16 : i64, groups = array<i64>, pairs = array<i64: 0, 1>}}}} : (tensor<4xf32>) -> tensor<4xf32>
    %u = stablehlo.custom_call @exchange(%p) {{hespas.comm = {{kind = "permute", operand_bytes = 8 : i64, result_bytes = 8 : i64, groups = array<i64>, pairs = array<i64: 2, 3>}}}} : (tensor<4xf32>) -> tensor<4xf32>
    %v = stablehlo.custom_call @sum(%u) {{hespas.comm = {{kind = "all_reduce", operand_bytes = 8 : i64, result_bytes = 8 : i64, groups = array<i64: 1>}}}} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = stablehlo.optimization_barrier {{hespas.wait}} %1 : tensor<4xf32>
    %3 = call @r(%2) {{hespas.region = {{id = 1 : i64, ops = 1 : i64, digest = "d"}}}} : (tensor<4xf32>) -> tensor<4xf32>
    %4 = stablehlo.while(%i = %3) : tensor<4xf32> attributes {{hespas.trips = 3 : i64}}
    cond {{
      %c = stablehlo.constant dense<false> : tensor<i1>
      stablehlo.return %c : tensor<i1>
    }} do {{
      stablehlo.return %i : tensor<4xf32>
    }}
    return %4 : tensor<4xf32>
  }}
  func.func private @r(%a: tensor<4xf32>) -> tensor<4xf32> attributes {{hespas.region = {{id = 0 : i64, ops = 1 : i64, digest = "d"}}, hespas.cost = {COST}}} {{
    %0 = stablehlo.add %a, %a {{hespas.cost = {COST}}} : tensor<4xf32>
    return %0 : tensor<4xf32>
  }}
}}
"""  # noqa: E501


def test_a_right_module_passes(parse: Callable[[str], ir.Module]) -> None:
    verify_attributes(parse(RIGHT))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("hespas.wait", "hespas.weight", "'hespas.weight' is not a hespas attribute"),
        ("{hespas.wait}", "{hespas.wait = 1 : i64}", "hespas.wait must be true, not 1"),
        ("{hespas.wait}", '{hespas.split = {strategy = "linear"}}', "hespas.split is an attribute of: module"),  # noqa: E501
        ("{hespas.wait}", "{hespas.wait = false}", "hespas.wait must be true, not false"),
        ("hespas.trips = 3", "hespas.trips = -3", "hespas.trips must be an i64 of at least 0"),
        ("hespas.trips = 3 : i64", "hespas.trips_note = 3 : i64", "note must be a string"),
        ("hespas.split =", "hespas.on_chip_program = 3 : i64, hespas.split =", "must be a string"),
        ("devices = 4", "devices = 8", "8 devices are not 4 replicas x 1 partitions"),
        ("i64: 2, 3>}", "i64: 3, 2>}", "communicator 2 is not ascending: 3, 2"),
        ("i64: 2, 3>}", "i64: 2, 4>}", "communicator 2 names device 4 of 4"),
        ("i64: 2, 3>}", "i64: 0, 1>}", "communicator 2 has the members of 1"),
        ("i64: 2, 3>}", "i64: 2>}", "fewer than two members"),
        ('"2" = array', '"0" = array', "communicator 0 is not numbered from 1"),
        ("groups = array<i64: 1>", "groups = array<i64: 3>", "communicator 3 is not in"),
        ("pairs = array<i64: 2, 3>", "pairs = array<i64: 2, 9>", "names device 9 of 4"),
        ("pairs = array<i64: 0, 1>", "pairs = array<i64: 0>", "a permute has pairs"),
        ("operand_bytes = 16", "operand_bytes = -16", "operand_bytes is -16, less than 0"),
        ("is_async = true", "pairs = array<i64: 0, 1>", "pairs are for a permute or a broadcast"),
        ('{strategy = "linear"}', '{strategy = "linear", block_limit = -1 : i64}',
         "block_limit is -1, less than 0"),
        ("hespas.comm = {kind = \"permute\"", "hespas.comm = {kind = \"pass\"", "not one of"),
    ],
)  # fmt: skip
def test_each_fault_is_named(
    parse: Callable[[str], ir.Module], old: str, new: str, message: str
) -> None:
    assert old in RIGHT
    with pytest.raises(HespasError, match=message) as caught:
        verify_attributes(parse(RIGHT.replace(old, new, 1)))
    assert ":" in caught.value.where


def test_a_stated_collective_has_no_cost(parse: Callable[[str], ir.Module]) -> None:
    text = RIGHT.replace("@sum(%u) {", f"@sum(%u) {{hespas.cost = {COST}, ", 1)
    with pytest.raises(HespasError, match=r"custom_call.*the simulator computes"):
        verify_attributes(parse(text))


def rewrite_comm(op: ir.Operation) -> None:
    """Write ``hespas.comm`` of an op without what the op says."""
    comm = CommAttr.read_from_op(op)
    if comm is not None:
        comm.write_to_op(op)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{hespas.wait}", "{hespas.trips = 3 : i64}"),
        ("array<i64: 1, 2>", "array<i64: 1, 3>"),
        ("pairs = array<i64: 0, 1>", "pairs = array<i64: 0, 9>"),
        ("{hespas.comm", f"{{hespas.cost = {COST}, hespas.comm"),
    ],
)
def test_what_another_pass_makes_untrue_is_brought_up_to_date(
    parse: Callable[[str], ir.Module], old: str, new: str
) -> None:
    right, wrong = parse(RIGHT), parse(RIGHT.replace(old, new, 1))
    verify_attributes(wrong)
    for module in (right, wrong):
        passes.run_pipeline(module, "strip-costs,prepare")
        walk_operations(module.operation, rewrite_comm)
    assert str(wrong) == str(right).replace(
        "{hespas.wait} ", "" if "wait" in old else "{hespas.wait} "
    )


def test_an_attribute_of_loops_is_refused_elsewhere_in_what_a_user_writes(
    parse: Callable[[str], ir.Module],
) -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.add %x, %x {hespas.trips = 3 : i64} : tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    with pytest.raises(HespasError, match=r"hespas\.trips is an attribute of: stablehlo\.while"):
        verify_attributes(parse(text))


def test_the_first_is_raised_and_the_others_counted(parse: Callable[[str], ir.Module]) -> None:
    text = RIGHT.replace("hespas.trips = 3", "hespas.trips = -3").replace("hespas.wait", "hespas.w")
    with pytest.raises(HespasError, match="and 1 more problem") as caught:
        verify_attributes(parse(text))
    assert "hespas.w'" in caught.value.message


@pytest.mark.slow
@pytest.mark.parametrize(
    "pipeline",
    [
        "split-linear,roofline-annotate",
        "roofline-annotate,split-individual{merge}",
    ],
)
@pytest.mark.parametrize(
    "name",
    ["zoo/collectives_all/jax_sdy.mlir", "zoo/transformer_scan_train/jax_sdy.mlir",
     "llama3/llama3-100m-opt-a100.mlir"],
)  # fmt: skip
def test_what_passes_leave_is_right(
    workload: Callable[[str], Path], context: ir.Context, name: str, pipeline: str
) -> None:
    module = frontends.read_module(workload(name), context)
    passes.run_pipeline(module, pipeline)
    assert collect_attribute_problems(module) == []
