"""Expansion of ops that select elements, as in XLA:GPU.

select_and_scatter, the gradient of max pooling, becomes a reduce_window that finds the indices of
the selected elements, and a scatter to them (xla/service/select_and_scatter_expander.cc). The
selection of the largest becomes a sort, unless there is a kernel for it: of few elements of long
rows (xla/backends/gpu/transforms/topk_specializer.cc). One of a very long row is divided before
(xla/service/topk_splitter.cc of openxla/xla; the limits are those seen in what XLA compiles).
"""

from __future__ import annotations

import math
from typing import ClassVar

from hespas.dialects.mlir import get_attribute, ir
from hespas.dialects.op_bodies import format_tensor_type, format_zero, replace_op_by_function
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.op_builder import (
    find_named_ops,
    get_element_type,
    get_static_shape,
)
from hespas.passes.prepare.scalars import get_op_kind
from hespas.passes.prepare.top_k_forms import (
    TOP_K_OPS,
    expand_top_k,
    is_call_in_xla,
    is_of_largest,
)

SELECT_AND_SCATTER = "stablehlo.select_and_scatter"
KERNEL_SELECTED, KERNEL_ROW = 16, 1024  # most elements that it selects, and least of which
PART, MOST_PARTS = 1 << 20, 1 << 10  # the least elements of a part of a row, and most parts
DIVISOR = 1 << 10  # the elements of a row that is divided are a multiple


class ExpandSelectionsPass(BlockPass):
    """Expand ops that select elements: the gradient of max pooling, and top_k without a kernel.

    select_and_scatter becomes a search and a scatter if it selects by one comparison and scatters
    by addition; top_k becomes a sort and slices, of a very long row after those of its parts.
    """

    name: ClassVar[str] = "expand-selections"

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, (SELECT_AND_SCATTER,)):
            bodies = [
                [inner.operation for inner in region.blocks[0].operations] for region in op.regions
            ]
            select, scatter = ([get_op_kind(inner) for inner in body] for body in bodies)
            if select == ["compare", "return"] and scatter == ["add", "return"]:
                _expand_selection(op, bodies[0][0])
        for op in find_named_ops(block, TOP_K_OPS):
            parts = _count_parts(op) if is_of_largest(op) and is_call_in_xla(op) else 1
            if parts > 1:
                replace_op_by_function(op, _format_parts(op, parts))
        for op in find_named_ops(block, TOP_K_OPS):
            if is_of_largest(op) and not _has_kernel(op):
                expand_top_k(op)


def _has_kernel(op: ir.Operation) -> bool:
    """Return whether XLA:GPU has a kernel for a selection of the largest elements."""
    row, selected = (get_static_shape(value)[-1] for value in (op.operands[0], op.results[0]))
    return is_call_in_xla(op) and selected <= KERNEL_SELECTED and row >= KERNEL_ROW


def _count_parts(op: ir.Operation) -> int:
    """Count the parts into which XLA:GPU divides the only row of a selection; 1 for other rows."""
    shape, selected = get_static_shape(op.operands[0]), get_static_shape(op.results[0])[-1]
    length = shape[-1]
    if math.prod(shape) > length or length % DIVISOR or selected**2 > length:
        return 1
    parts = max(length // PART, 1)
    return min(1 << parts.bit_length() - 1, MOST_PARTS)


def _format_parts(op: ir.Operation, parts: int) -> str:
    """Format a function that selects of each part of a row, and then of what they give."""
    kind, element = op.operands[0].type, str(get_element_type(op.operands[0]))
    length, k = get_static_shape(op.operands[0])[-1] // parts, get_static_shape(op.results[0])[-1]
    rows = format_tensor_type((parts, length), element)
    values, places = (format_tensor_type((parts, k), name) for name in (element, "i32"))
    flat, flat_places = (format_tensor_type((parts * k,), name) for name in (element, "i32"))
    best, best_places = (format_tensor_type((k,), name) for name in (element, "i32"))
    starts, results = format_tensor_type((parts,), "i32"), [str(one.type) for one in op.results]
    attributes = ", ".join(
        f"{name} = {get_attribute(op, name)}" for name in ("k", "largest") if name in op.attributes
    )
    return f"""func.func @parts(%x: {kind}) -> ({", ".join(results)}) {{
      %rows = stablehlo.reshape %x : ({kind}) -> {rows}
      %each:2 = "{op.name}"(%rows) <{{{attributes}}}> : ({rows}) -> ({values}, {places})
      %part = stablehlo.iota dim = 0 : {starts}
      %length = stablehlo.constant dense<{length}> : {starts}
      %start = stablehlo.multiply %part, %length : {starts}
      %starts = stablehlo.broadcast_in_dim %start, dims = [0] : ({starts}) -> {places}
      %at = stablehlo.add %each#1, %starts : {places}
      %values = stablehlo.reshape %each#0 : ({values}) -> {flat}
      %places = stablehlo.reshape %at : ({places}) -> {flat_places}
      %all:2 = "stablehlo.sort"(%values, %places) <{{dimension = 0 : i64, is_stable = true}}> ({{
      ^bb0(%a: tensor<{element}>, %b: tensor<{element}>, %i: tensor<i32>, %j: tensor<i32>):
        %0 = stablehlo.compare GT, %a, %b, TOTALORDER
          : (tensor<{element}>, tensor<{element}>) -> tensor<i1>
        stablehlo.return %0 : tensor<i1>
      }}) : ({flat}, {flat_places}) -> ({flat}, {flat_places})
      %best = stablehlo.slice %all#0 [0:{k}] : ({flat}) -> {best}
      %best_places = stablehlo.slice %all#1 [0:{k}] : ({flat_places}) -> {best_places}
      %0 = stablehlo.reshape %best : ({best}) -> {results[0]}
      %1 = stablehlo.reshape %best_places : ({best_places}) -> {results[1]}
      return %0, %1 : {", ".join(results)}
    }}"""


def _expand_selection(op: ir.Operation, compare: ir.Operation) -> None:
    arguments = list(op.regions[0].blocks[0].arguments)
    if list(compare.operands) != arguments:
        return
    replace_op_by_function(
        op, _format_expansion(op, str(compare.attributes["comparison_direction"]))
    )


def _format_expansion(op: ir.Operation, direction: str) -> str:
    """Format a function with the expansion, whose window carries the indices of its elements."""
    operand, source, init = (str(value.type) for value in op.operands)
    kind, shape = str(get_element_type(op.operands[0])), get_static_shape(op.operands[0])
    rank, out = len(shape), get_static_shape(op.operands[1])
    each = range(rank)
    indices = format_tensor_type(shape, "i32")
    window = ", ".join(
        f"{name} = {op.attributes[name]}"
        for name in ("window_dimensions", "window_strides", "padding")
        if name in op.attributes
    )
    scalar, place = f"tensor<{kind}>", "tensor<i32>"
    values = ["v", *(f"i{d}" for d in each)]
    scalars = [scalar, *[place] * rank]
    arguments = ", ".join(
        f"%{side}{name}: {type_}"
        for side in ("old_", "new_")
        for name, type_ in zip(values, scalars, strict=True)
    )
    select_lines = "\n".join(
        f"%{name} = stablehlo.select %keep, %old_{name}, %new_{name} : tensor<i1>, {type_}"
        for name, type_ in zip(values, scalars, strict=True)
    )
    places = format_tensor_type(out, "i32")
    results = [format_tensor_type(out, kind), *[places] * rank]
    column = format_tensor_type((*out, 1), "i32")
    all_dims = list(each)
    zero = format_zero(kind)
    lines = [
        *(f"%at{d} = stablehlo.iota dim = {d} : {indices}" for d in each),
        f"%zero = stablehlo.constant dense<{zero}> : {scalar}",
        f"%none = stablehlo.constant dense<-1> : {place}",
        f'%w:{rank + 1} = "stablehlo.reduce_window"(%x, {", ".join(f"%at{d}" for d in each)}, '
        f"%zero, {', '.join('%none' for _ in each)}) ({{",
        f"^bb0({arguments}):",
        f"%out = stablehlo.constant dense<-1> : {place}",
        f"%had = stablehlo.compare NE, %old_i0, %out : ({place}, {place}) -> tensor<i1>",
        f"%has = stablehlo.compare NE, %new_i0, %out : ({place}, {place}) -> tensor<i1>",
        f'%better = "stablehlo.compare"(%old_v, %new_v) <{{comparison_direction = {direction}}}> : '
        f"({scalar}, {scalar}) -> tensor<i1>",
        "%stays = stablehlo.and %had, %better : tensor<i1>",
        "%lacks = stablehlo.not %has : tensor<i1>",
        "%keep = stablehlo.or %lacks, %stays : tensor<i1>",
        select_lines,
        f"stablehlo.return {', '.join(f'%{name}' for name in values)} : {', '.join(scalars)}",
        f"}}) {{{window}}} : ({', '.join([operand, *[indices] * rank, *scalars])}) -> "
        f"({', '.join(results)})",
        *(f"%r{d} = stablehlo.reshape %w#{d + 1} : ({places}) -> {column}" for d in each),
        f'%places = "stablehlo.concatenate"({", ".join(f"%r{d}" for d in each)}) '
        f"{{dimension = {rank} : i64}} : ({', '.join([column] * rank)}) -> "
        f"{format_tensor_type((*out, rank), 'i32')}",
        f"%start = stablehlo.broadcast_in_dim %init, dims = [] : ({init}) -> {operand}",
        '%sum = "stablehlo.scatter"(%start, %places, %s) <{scatter_dimension_numbers = '
        f"#stablehlo.scatter<inserted_window_dims = {all_dims}, scatter_dims_to_operand_dims = "
        f"{all_dims}, index_vector_dim = {rank}>}}> ({{",
        f"^bb0(%a: {scalar}, %b: {scalar}):",
        f"%c = stablehlo.add %a, %b : {scalar}",
        f"stablehlo.return %c : {scalar}",
        f"}}) : ({operand}, {format_tensor_type((*out, rank), 'i32')}, {source}) -> {operand}",
        f"return %sum : {operand}",
    ]
    body = "\n".join(lines)
    return (
        f"func.func @expanded(%x: {operand}, %s: {source}, %init: {init}) -> {operand} "
        f"{{\n{body}\n}}"
    )
