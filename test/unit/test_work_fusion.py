"""Work of fusions and of regions: what is used inside decides what is read and computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hespas.dialects.mlir import ir
from hespas.estimators.work import OpWork, WorkPart, compute_op_work

Parse = Callable[[str], ir.Module]


def fusion(arguments: list[tuple[str, str]], result: str, body: str) -> tuple[str, str]:
    """(function arguments, text) of a fusion; the body names its arguments as the function does."""
    names = ", ".join(f"%{name}_" for name, _ in arguments)
    inner = ", ".join(f"%{name}: {type_}" for name, type_ in arguments)
    types = ", ".join(type_ for _, type_ in arguments)
    text = (
        f'%out = "mhlo.fusion"({names}) <{{fusion_kind = #mhlo<fusion_kind kLoop>}}> '
        f"({{^bb0({inner}):\n{body}\n}}) : ({types}) -> {result}"
    )
    return ", ".join(f"%{name}_: {type_}" for name, type_ in arguments), text


BIG, PART = "tensor<1000xf32>", "tensor<10xf32>"


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param(  # a value used twice is read once
            fusion([("x", BIG)], BIG,
                   f"%0 = stablehlo.multiply %x, %x : {BIG}\n%1 = stablehlo.tanh %0 : {BIG}\n"
                   f"mhlo.return %1 : {BIG}"),
            OpWork("loop", 4000, 4000, (WorkPart("vector", "f32", 1000),), 1000), id="square"),
        pytest.param(  # only what the slice takes is read and computed
            fusion([("x", BIG)], PART,
                   f"%0 = stablehlo.negate %x : {BIG}\n"
                   f"%1 = stablehlo.slice %0 [5:15] : ({BIG}) -> {PART}\nmhlo.return %1 : {PART}"),
            OpWork("loop", 40, 40, (WorkPart("vector", "f32", 10),)), id="slice"),
        pytest.param(  # two slices: their sum
            fusion([("x", BIG)], PART,
                   f"%0 = stablehlo.slice %x [0:10] : ({BIG}) -> {PART}\n"
                   f"%1 = stablehlo.slice %x [10:20] : ({BIG}) -> {PART}\n"
                   f"%2 = stablehlo.add %0, %1 : {PART}\nmhlo.return %2 : {PART}"),
            OpWork("loop", 80, 40, (WorkPart("vector", "f32", 10),)), id="two-slices"),
        pytest.param(  # the small side of a broadcast
            fusion([("x", PART), ("y", "tensor<10x100xf32>")], "tensor<10x100xf32>",
                   f"%0 = stablehlo.broadcast_in_dim %x, dims = [0] : ({PART}) -> "
                   "tensor<10x100xf32>\n%1 = stablehlo.add %0, %y : tensor<10x100xf32>\n"
                   "mhlo.return %1 : tensor<10x100xf32>"),
            OpWork("loop", 4040, 4000, (WorkPart("vector", "f32", 1000),)), id="broadcast"),
        pytest.param(  # in place: the update alone is read and written
            fusion([("x", BIG), ("u", PART), ("i", "tensor<i32>")], BIG,
                   f"%0 = stablehlo.negate %u : {PART}\n"
                   f"%1 = stablehlo.dynamic_update_slice %x, %0, %i : ({BIG}, {PART}, tensor<i32>)"
                   f" -> {BIG}\nmhlo.return %1 : {BIG}"),
            OpWork("loop", 44, 40, (WorkPart("vector", "f32", 10),)), id="update-in-place"),
        pytest.param(  # not in place: the buffer is computed here
            fusion([("x", BIG), ("u", PART), ("i", "tensor<i32>")], BIG,
                   f"%0 = stablehlo.negate %x : {BIG}\n"
                   f"%1 = stablehlo.dynamic_update_slice %0, %u, %i : ({BIG}, {PART}, tensor<i32>)"
                   f" -> {BIG}\nmhlo.return %1 : {BIG}"),
            OpWork("loop", 4044, 4000, (WorkPart("vector", "f32", 1000),)), id="update-copy"),
        pytest.param(  # 5 rows of 50, through an op that only orders ops
            fusion([("x", "tensor<50x8xf32>"), ("i", "tensor<5xi32>")], "tensor<5x8xf32>",
                   '%0 = "stablehlo.torch_index_select"(%x, %i) <{dim = 0 : i64, batch_dims = '
                   "0 : i64}> : (tensor<50x8xf32>, tensor<5xi32>) -> tensor<5x8xf32>\n"
                   "%1 = stablehlo.after_all : !stablehlo.token\n"
                   '%2 = "mhlo.add_dependency"(%0, %1) : '
                   "(tensor<5x8xf32>, !stablehlo.token) -> tensor<5x8xf32>\n"
                   "%3 = stablehlo.slice %2 [0:1, 0:8] : (tensor<5x8xf32>) -> tensor<1x8xf32>\n"
                   "mhlo.return %2 : tensor<5x8xf32>"),
            OpWork("gather", 180, 160, ()), id="index-select"),
        pytest.param(  # read, combined and written: 5 rows of 50
            fusion([("x", "tensor<50x8xf32>"), ("i", "tensor<5x1xi32>"), ("u", "tensor<5x8xf32>")],
                   "tensor<50x8xf32>",
                   '%0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = '
                   "#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
                   "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({"
                   "^bb0(%a: tensor<f32>, %b: tensor<f32>): %s = stablehlo.add %a, %b : "
                   "tensor<f32>\nstablehlo.return %s : tensor<f32>}) : "
                   "(tensor<50x8xf32>, tensor<5x1xi32>, tensor<5x8xf32>) -> tensor<50x8xf32>\n"
                   "mhlo.return %0 : tensor<50x8xf32>"),
            OpWork("scatter", 340, 160, (WorkPart("vector", "f32", 40),)), id="scatter"),
        pytest.param(
            fusion([("x", "tensor<10x100xf32>"), ("z", "tensor<f32>")], PART,
                   "%0 = stablehlo.multiply %x, %x : tensor<10x100xf32>\n"
                   "%1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = "
                   f"[1] : (tensor<10x100xf32>, tensor<f32>) -> {PART}\nmhlo.return %1 : {PART}"),
            OpWork("reduction", 4004, 40, (WorkPart("vector", "f32", 1990),)), id="reduction"),
        pytest.param(  # nested fusions are taken in; the product is the hero
            fusion([("x", "tensor<4x8xi8>"), ("y", "tensor<8x16xbf16>")], "tensor<4x16xbf16>",
                   '%0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({'
                   "^bb0(%a: tensor<4x8xi8>): %c = stablehlo.convert %a : (tensor<4x8xi8>) -> "
                   "tensor<4x8xbf16>\nmhlo.return %c : tensor<4x8xbf16>}) : (tensor<4x8xi8>) -> "
                   "tensor<4x8xbf16>\n%1 = stablehlo.dot %0, %y : "
                   "(tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>\n"
                   "mhlo.return %1 : tensor<4x16xbf16>"),
            OpWork("gemm", 288, 128,
                   (WorkPart("matrix", "bf16", 1024), WorkPart("vector", "bf16", 32))),
            id="dot"),
        pytest.param(
            fusion([("x", BIG)], BIG,
                   f'%0 = "stablehlo.while"(%x) ({{^bb0(%a: {BIG}): %c = stablehlo.constant '
                   f"dense<true> : tensor<i1>\nstablehlo.return %c : tensor<i1>}}, {{"
                   f"^bb0(%a: {BIG}): %s = stablehlo.negate %a : {BIG}\n"
                   f"stablehlo.return %s : {BIG}}}) {{hespas.trips = 3 : i64}} : ({BIG}) -> {BIG}\n"
                   f"mhlo.return %0 : {BIG}"),
            OpWork("control", 4000, 4000, (WorkPart("vector", "f32", 3000),)), id="while"),
        *(
            pytest.param(  # the branches read what is around them: x is needed
                fusion([("x", BIG), ("y", BIG), ("p", "tensor<i1>")], BIG,
                       f"%0 = stablehlo.multiply %x, %x : {BIG}\n"
                       f'%1 = "stablehlo.if"(%p) ({{%2 = stablehlo.add %0, %y : {BIG}\n'
                       f"%3 = stablehlo.negate %2 : {BIG}\nstablehlo.return %3 : {BIG}}}, {{"
                       f"stablehlo.return %0 : {BIG}}}) {attribute} : (tensor<i1>) -> {BIG}\n"
                       f"mhlo.return %1 : {BIG}"),
                OpWork("control", 8001, 4000, (WorkPart("vector", "f32", flops),)), id=branch)
            for branch, attribute, flops in [
                ("heaviest branch", "", 3000), ("known branch", "{hespas.branch = 1 : i64}", 1000),
            ]
        ),
        pytest.param(
            fusion([("x", BIG)], BIG, f"mhlo.return %x : {BIG}"),
            OpWork("copy", 4000, 4000, ()), id="identity"),
    ],
)  # fmt: skip
def test_fusions(parse: Parse, case: tuple[str, str], expected: OpWork) -> None:
    arguments, text = case
    module = parse(f"func.func @main({arguments}) {{\n{text}\nreturn }}")
    op = module.body.operations[0].regions[0].blocks[0].operations[0].operation
    assert compute_op_work(op) == expected


def test_a_reducer_may_call_a_function(parse: Parse) -> None:
    module = parse("""
      func.func private @twice(%a: tensor<f32>) -> tensor<f32> {
        %0 = stablehlo.add %a, %a : tensor<f32>
        return %0 : tensor<f32>
      }
      func.func @main(%x: tensor<10xf32>, %z: tensor<f32>) -> tensor<f32> {
        %0 = stablehlo.reduce(%x init: %z) across dimensions = [0] :
          (tensor<10xf32>, tensor<f32>) -> tensor<f32>
          reducer(%a: tensor<f32>, %b: tensor<f32>) {
            %1 = func.call @twice(%a) : (tensor<f32>) -> tensor<f32>
            %2 = stablehlo.add %1, %b : tensor<f32>
            stablehlo.return %2 : tensor<f32>
          }
        return %0 : tensor<f32>
      }""")
    op = module.body.operations[1].regions[0].blocks[0].operations[0].operation
    assert compute_op_work(op).flops == 18
