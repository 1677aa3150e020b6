"""The forms in which XLA:GPU divides and computes the selection of the largest elements.

XLA makes a sort and slices of it (TopkDecomposer), which pack a number of bfloat16 and its position
into one integer if the position has 16 bits (TopK in xla/hlo/builder/lib/sorting.cc). A sort of
floats with positions then becomes a call of ``TopK`` (TopkRewriter), which the partitioner
computes on each part of the rows first (HandleCustomCallTopK).
"""

from __future__ import annotations

import itertools
import math

from hespas.dialects.mlir import (
    collect_functions,
    create_before,
    find_ops,
    get_attribute,
    get_call_target,
    has_static_shape,
    ir,
    replace_tuple,
)
from hespas.dialects.op_bodies import format_tensor_type, replace_op_by_function
from hespas.dialects.op_kinds import CUSTOM_CALLS

TOP_K_OPS = ("chlo.top_k", "mhlo.topk")
CALL = "TopK"
COMPARATOR = "is_greater"
SHORT_ROW = 1 << 16  # elements, whose positions have 16 bits
FLOATS = ("f32", "bf16")


def write_top_k_calls(module: ir.Module, ops: list[ir.Operation]) -> None:
    """Write selections of the largest as XLA:GPU divides them: as calls of ``TopK``, or as sorts.

    Args:
        module: Receives the comparators of the calls.
        ops: The selections.
    """
    for op in filter(is_of_largest, ops):
        if is_call_in_xla(op):
            element = str(ir.RankedTensorType(op.operands[0].type).element_type)
            replace_op_by_function(op, _format_call(op, _add_comparator(module, element)))
        else:
            expand_top_k(op)


def read_top_k_calls(module: ir.Module) -> None:
    """Replace calls of ``TopK`` by the selection of the largest, and remove their comparators.

    A call for parts of rows that are short now stays, because XLA:GPU sorts only what is no call.
    """
    functions = collect_functions(module)
    names = set()
    for call in find_ops(module.operation, CUSTOM_CALLS):
        name = _find_comparator(call, functions)
        if name and is_call_in_xla(call):
            names.add(name)
            _replace_call(call)
    for name in names:
        functions[name].erase()


def is_of_largest(op: ir.Operation) -> bool:
    """Return whether an op selects the largest elements of rows of a known length."""
    is_static = has_static_shape(op.operands[0].type)
    return is_static and ("largest" not in op.attributes or get_attribute(op, "largest").value)


def is_call_in_xla(op: ir.Operation) -> bool:
    """Return whether a selection of the largest is a call of ``TopK`` for XLA:GPU."""
    kind = ir.RankedTensorType(op.operands[0].type)
    return str(kind.element_type) in FLOATS and not _is_packed(kind)


def expand_top_k(op: ir.Operation) -> None:
    """Replace a selection of the largest by a sort, and slices of its results."""
    is_packed = _is_packed(ir.RankedTensorType(op.operands[0].type))
    replace_op_by_function(op, _format_packed_sort(op) if is_packed else _format_sort(op))


def _is_packed(kind: ir.RankedTensorType) -> bool:
    return str(kind.element_type) == "bf16" and kind.shape[-1] < SHORT_ROW


def _format_call(op: ir.Operation, comparator: str) -> str:
    """Format a function with the call of a selection, whose rows have one dimension."""
    kind = ir.RankedTensorType(op.operands[0].type)
    element, length = str(kind.element_type), kind.shape[-1]
    results = [str(result.type) for result in op.results]
    flat, selected = kind, list(results)
    if kind.rank > 2:
        rows, k = math.prod(kind.shape[:-1]), get_attribute(op, "k").value
        flat = format_tensor_type((rows, length), element)
        selected = [format_tensor_type((rows, k), name) for name in (element, "i32")]
    return f"""func.func @call(%x: {kind}) -> ({", ".join(results)}) {{
      %flat = stablehlo.reshape %x : ({kind}) -> {flat}
      %best:2 = stablehlo.custom_call @{CALL}(%flat) {{called_computations = [@{comparator}]}}
        : ({flat}) -> ({", ".join(selected)})
      %values = stablehlo.reshape %best#0 : ({selected[0]}) -> {results[0]}
      %places = stablehlo.reshape %best#1 : ({selected[1]}) -> {results[1]}
      return %values, %places : {", ".join(results)}
    }}
    func.func private @{comparator}() -> ()"""


def _add_comparator(module: ir.Module, element: str) -> str:
    """Add the comparator of elements of a type to a module, and return its name."""
    scalar, place = f"tensor<{element}>", "tensor<i32>"
    functions = collect_functions(module)
    name = next(
        f"{COMPARATOR}_{n}" for n in itertools.count() if f"{COMPARATOR}_{n}" not in functions
    )
    text = f"""func.func private @{name}(
          %a: {scalar}, %b: {scalar}, %i: {place}, %j: {place}) -> tensor<i1> {{
        %0 = stablehlo.compare GT, %a, %b : ({scalar}, {scalar}) -> tensor<i1>
        return %0 : tensor<i1>
      }}"""
    parsed = ir.Module.parse(text, module.context)
    parsed.body.operations[0].operation.clone(ip=ir.InsertionPoint.at_block_begin(module.body))
    return name


def _find_comparator(call: ir.Operation, functions: dict[str, ir.Operation]) -> str:
    """Find the function by which a call selects the largest elements; "" for other calls."""
    if get_call_target(call) != CALL or not isinstance(call.results[0].type, ir.TupleType):
        return ""
    (name,) = (symbol.value for symbol in get_attribute(call, "called_computations"))
    block = functions[name].regions[0].blocks[0]
    compare, *others = (view.operation for view in block.operations)
    is_greater = (
        compare.name == "stablehlo.compare"
        and list(compare.operands) == list(block.arguments)[:2]
        and "GT" in str(compare.attributes["comparison_direction"])
    )
    return name if is_greater and len(others) == 1 else ""


def _replace_call(call: ir.Operation) -> None:
    kind = ir.TupleType(call.results[0].type)
    types = [kind.get_type(number) for number in range(2)]
    count = ir.IntegerAttr.get(
        ir.IntegerType.get_signless(64, call.context), ir.RankedTensorType(types[0]).shape[-1]
    )
    top_k = create_before(call, "mhlo.topk", call.operands, types, {"k": count})
    replace_tuple(call, top_k.results)


def _format_sort(op: ir.Operation) -> str:
    """Format a function with a sort of elements and their positions."""
    kind = ir.RankedTensorType(op.operands[0].type)
    shape, element = list(kind.shape), str(kind.element_type)
    scalar, place = f"tensor<{element}>", "tensor<i32>"
    places = format_tensor_type(shape, "i32")
    results = [str(result.type) for result in op.results]
    order = {"i": "SIGNED", "u": "UNSIGNED"}.get(element[0], "TOTALORDER")
    part = _format_part(op)
    return f"""func.func @sorted(%x: {kind}) -> ({", ".join(results)}) {{
      %at = stablehlo.iota dim = {len(shape) - 1} : {places}
      %all:2 = "stablehlo.sort"(%x, %at) <{{
        dimension = {len(shape) - 1} : i64, is_stable = true}}> ({{
      ^bb0(%a: {scalar}, %b: {scalar}, %i: {place}, %j: {place}):
        %0 = stablehlo.compare GT, %a, %b, {order} : ({scalar}, {scalar}) -> tensor<i1>
        stablehlo.return %0 : tensor<i1>
      }}) : ({kind}, {places}) -> ({kind}, {places})
      %values = stablehlo.slice %all#0 [{part}] : ({kind}) -> {results[0]}
      %places = stablehlo.slice %all#1 [{part}] : ({places}) -> {results[1]}
      return %values, %places : {", ".join(results)}
    }}"""


def _format_packed_sort(op: ir.Operation) -> str:
    """Format a function with a sort of integers whose upper half orders numbers of bfloat16.

    The lower half has the position, which is less for later elements. A negative number is
    ordered by the complement of its other bits.
    """
    kind = ir.RankedTensorType(op.operands[0].type)
    shape = list(kind.shape)
    whole = [format_tensor_type(shape, name) for name in ("f32", "i32", "i1")]
    out = list(ir.RankedTensorType(op.results[0].type).shape)
    wide, found, signs = (format_tensor_type(out, name) for name in ("f32", "i32", "i1"))
    results = [str(result.type) for result in op.results]
    high = -SHORT_ROW  # the mask of the upper half
    return f"""func.func @packed(%x: {kind}) -> ({", ".join(results)}) {{
      %flip = stablehlo.constant dense<2147483647> : {whole[1]}
      %none = stablehlo.constant dense<0> : {whole[1]}
      %high = stablehlo.constant dense<{high}> : {whole[1]}
      %last = stablehlo.constant dense<{SHORT_ROW - 1}> : {whole[1]}
      %wide = stablehlo.convert %x : ({kind}) -> {whole[0]}
      %bits = stablehlo.bitcast_convert %wide : ({whole[0]}) -> {whole[1]}
      %sign = stablehlo.compare LT, %bits, %none : ({whole[1]}, {whole[1]}) -> {whole[2]}
      %turned = stablehlo.xor %bits, %flip : {whole[1]}
      %key = stablehlo.select %sign, %turned, %bits : {whole[2]}, {whole[1]}
      %upper = stablehlo.and %key, %high : {whole[1]}
      %at = stablehlo.iota dim = {len(shape) - 1} : {whole[1]}
      %lower = stablehlo.subtract %last, %at : {whole[1]}
      %both = stablehlo.or %upper, %lower : {whole[1]}
      %all = "stablehlo.sort"(%both) <{{
        dimension = {len(shape) - 1} : i64, is_stable = false}}> ({{
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %0 = stablehlo.compare GT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %0 : tensor<i1>
      }}) : ({whole[1]}) -> {whole[1]}
      %best = stablehlo.slice %all [{_format_part(op)}] : ({whole[1]}) -> {found}
      %out_flip = stablehlo.constant dense<2147483647> : {found}
      %out_none = stablehlo.constant dense<0> : {found}
      %out_high = stablehlo.constant dense<{high}> : {found}
      %out_last = stablehlo.constant dense<{SHORT_ROW - 1}> : {found}
      %was = stablehlo.compare LT, %best, %out_none : ({found}, {found}) -> {signs}
      %back = stablehlo.xor %best, %out_flip : {found}
      %number = stablehlo.select %was, %back, %best : {signs}, {found}
      %cut = stablehlo.and %number, %out_high : {found}
      %float = stablehlo.bitcast_convert %cut : ({found}) -> {wide}
      %values = stablehlo.convert %float : ({wide}) -> {results[0]}
      %rest = stablehlo.and %best, %out_last : {found}
      %places = stablehlo.subtract %out_last, %rest : {found}
      return %values, %places : {", ".join(results)}
    }}"""


def _format_part(op: ir.Operation) -> str:
    """Format the slice of the elements that an op selects of sorted rows."""
    shape = ir.RankedTensorType(op.results[0].type).shape
    return ", ".join(f"0:{size}" for size in shape)
