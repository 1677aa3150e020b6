"""Expansion of scans into loops, as in XLA.

XLA has no kernel for a scan. ``prepare`` has written running sums as windows, like XLA. What is
left starts from a value that is not neutral, such as the sum of the devices before where the
partitioner has divided the scanned dimension, or applies more than one op. XLA makes a loop of it,
with a trip for each element of the dimension (xla/hlo/transforms/expanders/scan_expander.cc).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from hespas.dialects.attrs import TRIPS, TRIPS_FOUND
from hespas.dialects.mlir import find_attribute, find_ops, has_users, ir
from hespas.dialects.op_bodies import format_tensor_type, format_zero, replace_op_by_block
from hespas.dialects.op_kinds import SCANS
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.op_builder import find_named_ops, get_element_type, get_static_shape

STEP = "step"  # the placeholder for the ops of a scan's body


class ExpandScansPass(BlockPass):
    """Expand scans into loops with a trip for each element of the scanned dimension."""

    name: ClassVar[str] = "expand-scans"

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, SCANS):
            _expand_scan(op)


def _expand_scan(scan: ir.Operation) -> None:
    module = ir.Module.parse(_format_loop(scan), scan.context)
    function = module.body.operations[0].operation
    (step,) = find_ops(function, ("stablehlo.custom_call",))
    body = scan.regions[0].blocks[0]
    location = scan.location
    replace_op_by_block(step, step.operands, body)
    for op in replace_op_by_block(scan, scan.operands, function.regions[0].blocks[0]):
        _set_locations(op, location)


def _set_locations(op: ir.Operation, location: ir.Location) -> None:
    """Give ops that were parsed from text the location of what they replace."""

    def set_location(inner: ir.Operation) -> ir.WalkResult:
        inner.location = location
        return ir.WalkResult.ADVANCE

    op.walk(set_location)


def _format_loop(scan: ir.Operation) -> str:
    """Format a function with the loop of a scan; results that nothing reads are not carried."""
    arguments = scan.regions[0].blocks[0].arguments
    dim = ir.IntegerAttr(scan.attributes["dimension"]).value
    is_reverse = find_attribute(scan, "is_reverse")
    *_, end = scan.regions[0].blocks[0].operations
    carry_count = _count_carries(scan)
    inputs = list(scan.operands)[: len(arguments) - carry_count]
    carries = list(scan.operands)[len(inputs) :]
    outputs = list(scan.results)[: len(scan.results) - carry_count]
    read = [number for number, value in enumerate(outputs) if has_users(value)]
    size = get_static_shape(inputs[0])[dim]

    header = ", ".join(f"%{name}: {value.type}" for name, value in _name(x=inputs, c=carries))
    state = [("i", "zero", "tensor<i64>")]
    state += [(f"a{n}", f"c{n}", str(value.type)) for n, value in enumerate(carries)]
    state += [(f"b{n}", f"o{n}", str(outputs[n].type)) for n in read]
    kinds = ", ".join(kind for *_, kind in state)
    lines = ["%zero = stablehlo.constant dense<0> : tensor<i64>"]
    for name, value in _name(o=outputs):
        zero = format_zero(str(get_element_type(value)))
        lines.append(f"%{name} = stablehlo.constant dense<{zero}> : {value.type}")
    values = ", ".join(f"%{name} = %{start}" for name, start, _ in state)
    lines += [
        f"%w:{len(state)} = stablehlo.while({values}) : {kinds} "
        f"attributes {{{TRIPS} = {size} : i64, {TRIPS_FOUND} = {size} : i64}}",
        "cond {",
        f"%n = stablehlo.constant dense<{size}> : tensor<i64>",
        "%lt = stablehlo.compare LT, %i, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>",
        "stablehlo.return %lt : tensor<i1>",
        "} do {",
        "%start = stablehlo.constant dense<0> : tensor<i64>",
    ]
    place = "%i"
    if is_reverse is not None and ir.BoolAttr(is_reverse).value:
        place = "%mirror"
        lines += [
            f"%last = stablehlo.constant dense<{size - 1}> : tensor<i64>",
            "%mirror = stablehlo.subtract %last, %i : tensor<i64>",
        ]
    for n, value in enumerate(inputs):
        part, starts = _describe_slice(value, dim, place)
        sizes = list(get_static_shape(value))
        sizes[dim] = 1
        indices = ", ".join(["tensor<i64>"] * len(sizes))
        lines += [
            f"%p{n} = stablehlo.dynamic_slice %x{n}, {starts}, sizes = {sizes} : "
            f"({value.type}, {indices}) -> {part}",
            f"%r{n} = stablehlo.reshape %p{n} : ({part}) -> {arguments[n].type}",
        ]
    operands = [*(f"%r{n}" for n in range(len(inputs))), *(f"%a{n}" for n in range(carry_count))]
    lines.append(
        f"%y:{len(end.operands)} = stablehlo.custom_call @{STEP}({', '.join(operands)}) : "
        f"({', '.join(str(value.type) for value in arguments)}) -> "
        f"({', '.join(str(value.type) for value in end.operands)})"
    )
    for n in read:
        part, starts = _describe_slice(outputs[n], dim, place)
        indices = ", ".join(["tensor<i64>"] * len(get_static_shape(outputs[n])))
        lines += [
            f"%u{n} = stablehlo.reshape %y#{n} : ({end.operands[n].type}) -> {part}",
            f"%v{n} = stablehlo.dynamic_update_slice %b{n}, %u{n}, {starts} : "
            f"({outputs[n].type}, {part}, {indices}) -> {outputs[n].type}",
        ]
    next_state = ["%next", *(f"%y#{len(outputs) + n}" for n in range(carry_count))]
    next_state += [f"%v{n}" for n in read]
    place_of = {n: 1 + carry_count + position for position, n in enumerate(read)}
    results = [f"%w#{place_of[n]}" if n in place_of else f"%o{n}" for n in range(len(outputs))]
    results += [f"%w#{1 + n}" for n in range(carry_count)]
    lines += [
        "%one = stablehlo.constant dense<1> : tensor<i64>",
        "%next = stablehlo.add %i, %one : tensor<i64>",
        f"stablehlo.return {', '.join(next_state)} : {kinds}",
        "}",
        f"return {', '.join(results)} : {', '.join(map(str, scan.results.types))}",
    ]
    out = ", ".join(map(str, scan.results.types))
    return "\n".join((f"func.func @loop({header}) -> ({out}) {{", *lines, "}"))


def _count_carries(scan: ir.Operation) -> int:
    """Count the values that a scan hands on, which are its last operands and results."""
    segments = ir.DenseI32ArrayAttr(scan.attributes["operandSegmentSizes"])
    return segments[len(segments) - 1]


def _name(**groups: Sequence[ir.Value]) -> list[tuple[str, ir.Value]]:
    """Number the values of each group after its letter."""
    return [
        (f"{key}{n}", value) for key, values in groups.items() for n, value in enumerate(values)
    ]


def _describe_slice(value: ir.Value, dim: int, place: str) -> tuple[str, str]:
    """Format the type of one element of a dimension, and the indices where it starts."""
    shape = list(get_static_shape(value))
    starts = ", ".join(place if d == dim else "%start" for d in range(len(shape)))
    shape[dim] = 1
    return format_tensor_type(shape, str(get_element_type(value))), starts
