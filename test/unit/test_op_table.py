"""The table of ops that is read from bytecode agrees with the ops that the bindings show."""

from __future__ import annotations

from collections import defaultdict

import pytest

from hespas.dialects.mlir import ir, make_context
from hespas.dialects.op_bodies import list_read_values
from hespas.dialects.op_kinds import CONTROL, find_entry_function
from hespas.dialects.op_table import TableBlock, read_op_table
from hespas.estimators.op_content import build_op_key
from hespas.passes import run_pipeline
from hespas.passes.split.region_digest import OpContentTable

LOOP = """\
func.func public @main(%x: tensor<4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<i32>) {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %y = stablehlo.abs %x : tensor<4xf32>
  %r:2 = stablehlo.while(%a = %y, %i = %one) : tensor<4xf32>, tensor<i32>
   cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %s = stablehlo.add %a, %x : tensor<4xf32>
    %p = "stablehlo.case"(%i) ({
      %t = stablehlo.multiply %s, %y : tensor<4xf32>
      stablehlo.return %t : tensor<4xf32>
    }, {
      stablehlo.return %a : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %p, %j : tensor<4xf32>, tensor<i32>
  }
  return %r#0, %r#1 : tensor<4xf32>, tensor<i32>
}
"""
REDUCES = """\
func.func public @main(%x: tensor<4x8xf32>, %z: tensor<f32>) -> tensor<4xf32> {
  %a = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]
    : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %b = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]
    : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %c = stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [1]
    : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %d = stablehlo.add %a, %b {hespas.kernel = "k"} : tensor<4xf32>
  %e = stablehlo.add %d, %c : tensor<4xf32>
  return %e : tensor<4xf32>
}
"""
UNREGISTERED = """\
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "foo.bar"(%x) <{p = 1 : i32}> ({
    "foo.jump"(%x)[^bb2] : (tensor<4xf32>) -> ()
  ^bb1:
    "foo.end"(%late) : (tensor<f32>) -> ()
  ^bb2:
    %late = "foo.make"() : () -> tensor<f32>
    "foo.jump"(%x)[^bb1] : (tensor<4xf32>) -> ()
  }, {}) : (tensor<4xf32>) -> tensor<4xf32>
  %b = "foo.bar"(%a) <{p = 2 : i32}> ({
    "foo.jump"(%x)[^bb2] : (tensor<4xf32>) -> ()
  ^bb1:
    "foo.end"(%late) : (tensor<f32>) -> ()
  ^bb2:
    %late = "foo.make"() : () -> tensor<f32>
    "foo.jump"(%x)[^bb1] : (tensor<4xf32>) -> ()
  }, {}) : (tensor<4xf32>) -> tensor<4xf32>
  %c = stablehlo.constant dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>
  return %b : tensor<4xf32>
}
"""
SIGNATURES = """\
func.func public @main(%x: tensor<4xf32>, %y: tensor<2xf32>) {
  %a = stablehlo.custom_call @f(%x, %y) : (tensor<4xf32>, tensor<2xf32>) -> tensor<f32>
  %b:2 = stablehlo.custom_call @f(%y) : (tensor<2xf32>) -> (tensor<f32>, tensor<4xf32>)
  %c:3 = stablehlo.custom_call @f() : () -> (tensor<f32>, tensor<4xf32>, tensor<2xf32>)
  return
}
"""


def check_block(
    table: TableBlock, names: list[str], block: ir.Block, values: list[ir.Value]
) -> None:
    """Check a block against its ops; ``values`` are those of the blocks around it."""
    assert table.first_result == len(values) + len(block.arguments)
    ops = [view.operation for view in block.operations]
    assert [names[kind] for kind in table.kinds] == [op.name for op in ops]
    assert [*table.result_counts] == [len(op.results) for op in ops]
    values = [*values, *block.arguments, *(result for op in ops for result in op.results)]
    for op, reads in zip(ops, table.reads, strict=True):
        assert [values[table.first_result + number] for number in reads] == list_read_values(op)
    keys = defaultdict(set)
    for op, kind in zip(ops, table.kinds, strict=True):
        keys[kind].add(build_op_key(op, op.name))
    assert all(len(equal) == 1 for equal in keys.values())
    for i, bodies in table.bodies.items():
        for body, region in zip(bodies, ops[i].regions, strict=True):
            check_block(body, names, region.blocks[0], values)


@pytest.mark.parametrize("text", [LOOP, REDUCES, UNREGISTERED, SIGNATURES])
def test_table_agrees_with_the_bindings(text: str) -> None:
    module = ir.Module.parse(text, make_context(allow_unregistered=True))
    function = find_entry_function(module)
    table = read_op_table(function, CONTROL)
    check_block(table.block, table.kind_names, function.regions[0].blocks[0], [])


def test_equal_ops_have_one_kind() -> None:
    module = ir.Module.parse(REDUCES, make_context())
    kinds = read_op_table(find_entry_function(module)).block.kinds
    assert kinds[0] == kinds[1] != kinds[2] and kinds[3] != kinds[4]


def test_bodies_that_were_not_asked_for_are_left_out() -> None:
    module = ir.Module.parse(LOOP, make_context())
    table = read_op_table(find_entry_function(module))
    assert not table.block.bodies and "stablehlo.compare" in table.kind_names


@pytest.mark.parametrize("size", [3, 130, 17_000])
def test_numbers_of_any_size(size: int) -> None:
    """Numbers of values, types and attributes take one byte below 128, and three above 16,383."""
    kind = f"tensor<{size}xi32>"
    lines = [f"%v0 = stablehlo.constant dense<0> : {kind}"]
    lines += [
        f'%v{k} = "stablehlo.abs"(%v{k * 7 // 9}) {{a = {k % 300}}} : ({kind}) -> {kind}'
        for k in range(1, size)
    ]
    read = range(0, size, max(1, size // 100))
    operands, types = ", ".join(f"%v{k}" for k in read), ", ".join(kind for _ in read)
    text = f"func.func public @main() -> ({types}) {{\n" + "\n".join(lines)
    module = ir.Module.parse(f"{text}\nreturn {operands} : {types}\n}}\n", make_context())
    function = find_entry_function(module)
    table = read_op_table(function)
    check_block(table.block, table.kind_names, function.regions[0].blocks[0], [])


def test_the_split_reads_an_op_of_each_kind_through_the_bindings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names: list[str] = []
    number_op = OpContentTable.number_op

    def count_op(table: OpContentTable, op: ir.Operation, name: str = "") -> int:
        names.append(op.name)
        return number_op(table, op, name)

    lines = "".join(f"%x{k + 1} = stablehlo.abs %x{k} : tensor<f32>\n" for k in range(1000))
    text = f"func.func @main(%x0: tensor<f32>) {{\n{lines}return\n}}\n"
    monkeypatch.setattr(OpContentTable, "number_op", count_op)
    run_pipeline(ir.Module.parse(text, make_context()), "split-individual{merge}")
    assert names == ["stablehlo.abs"]
