"""Bodies of ops: the values that they capture, their small constants, and moving them elsewhere."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from hespas.dialects.mlir import find_attribute, get_defining_op, ir, replace_results
from hespas.dialects.op_kinds import BARRIERS, CONSTANTS, FUSION

FLOATS = ("f", "bf")  # prefixes of the names of floating-point types
_SMALL_CONSTANT_ELEMENTS = 64
_SEALED = CONSTANTS | {FUSION}  # their regions capture nothing
# Whether ops of a name may have bodies. Their definitions say so, for less than ``op.regions``; an
# op of an unregistered dialect has no definition.
_may_have_body: dict[str, bool] = {}


def has_body(op: ir.Operation, name: str) -> bool:
    """Return whether an op of this name has regions."""
    may_have_body = _may_have_body.get(name)
    if may_have_body is None:
        cls = type(op.opview)
        is_bodiless = cls is not ir.OpView and getattr(cls, "_ODS_REGIONS", None) == (0, True)
        may_have_body = _may_have_body[name] = not is_bodiless
    return may_have_body and len(op.regions) > 0


def is_small_constant(constant: ir.Operation) -> bool:
    """Return whether a constant is cheap to repeat in text: a splat, or at most 64 elements."""
    type_ = constant.results[0].type
    if (
        isinstance(type_, ir.ShapedType)
        and type_.has_static_shape
        and math.prod(type_.shape) <= _SMALL_CONSTANT_ELEMENTS
    ):
        return True
    value = find_attribute(constant, "value")
    return isinstance(value, ir.DenseElementsAttr) and value.is_splat


def get_terminator(block: ir.Block) -> ir.Operation:
    """Return the last op of a block."""
    try:  # in constant time, unlike the length of a block
        end = ir.InsertionPoint.at_block_terminator(block).ref_operation
    except ValueError:  # the last op is none that MLIR knows as the end of a block
        end = block.operations[len(block.operations) - 1]
    assert end is not None
    return end.operation


def update_function_type(function: ir.Operation) -> None:
    """Make the type of a function that of the arguments and the results of its block."""
    block = function.regions[0].blocks[0]
    inputs, results = block.arguments, get_terminator(block).operands
    kind = ir.FunctionType.get(
        [value.type for value in inputs], [value.type for value in results], function.context
    )
    function.attributes["function_type"] = ir.TypeAttr.get(kind, function.context)


def trace_through_ops(value: ir.Value, names: Collection[str]) -> ir.Value:
    """Follow a value back through ops that have one of the names.

    Each result of a barrier is its operand; what else these ops do, they do to the first operand.
    """
    while (op := get_defining_op(value)) is not None and (name := op.name) in names:
        value = op.operands[ir.OpResult(value).result_number if name in BARRIERS else 0]
    return value


def list_captured_operands(op: ir.Operation) -> list[tuple[ir.Operation, int, ir.Value]]:
    """List the uses in the regions of ``op`` of values that are defined outside it.

    Returns:
        (nested op, operand number, value) of each use, in the order of a pre-order walk.
    """
    inside: set[ir.Value] = set()
    reads: list[tuple[ir.Operation, int, ir.Value]] = []

    def collect_reads(inner: ir.Operation) -> ir.WalkResult:
        if inner != op:
            reads.extend((inner, k, value) for k, value in enumerate(inner.operands))
            inside.update(inner.results)
        for region in inner.regions:
            for block in region.blocks:
                inside.update(block.arguments)
        return ir.WalkResult.ADVANCE

    op.walk(collect_reads, ir.WalkOrder.PRE_ORDER)
    # A block may read values of one that is listed after it.
    return [read for read in reads if read[2] not in inside]


def list_read_values(op: ir.Operation, name: str = "") -> list[ir.Value]:
    """List the values that an op reads from outside, once per occurrence, in a fixed order.

    Args:
        op: The op.
        name: Its name, if it is known.
    """
    return [*op.operands, *list_captured_values(op, name)]


def list_captured_values(op: ir.Operation, name: str = "") -> list[ir.Value]:
    """List the values from outside that the regions of an op read, once per occurrence."""
    has_regions = has_body(op, name) if name else len(op.regions) > 0
    if not has_regions or (name or op.name) in _SEALED:
        return []
    return [value for _, _, value in list_captured_operands(op)]


def splice_block_before(
    place: ir.Operation, operands: Sequence[ir.Value], block: ir.Block
) -> tuple[list[ir.Operation], list[ir.Value]]:
    """Move the ops of ``block`` except its terminator before ``place``.

    The arguments of the block are replaced by ``operands``.

    Returns:
        The moved ops, and the operands of the terminator.
    """
    for argument, operand in zip(block.arguments, operands, strict=True):
        argument.replace_all_uses_with(operand)
    *ops, terminator = [op.operation for op in block.operations]
    values = list(terminator.operands)
    for op in ops:
        op.move_before(place)
    return ops, values


def replace_op_by_block(
    op: ir.Operation, operands: Sequence[ir.Value], block: ir.Block
) -> list[ir.Operation]:
    """Replace an op by the ops of ``block``, whose arguments are replaced by ``operands``.

    Returns:
        The moved ops: those of the block except its terminator.
    """
    ops, values = splice_block_before(op, operands, block)
    replace_results(op, values)
    return ops


def replace_op_by_function(op: ir.Operation, text: str) -> list[ir.Operation]:
    """Replace an op by the ops of a function of its operands, which have its location.

    Args:
        op: The op, which is erased.
        text: The function in textual form.

    Returns:
        The ops of the function except its terminator.
    """
    module = ir.Module.parse(text, op.context)
    body = module.body.operations[0].operation.regions[0].blocks[0]
    location = op.location
    ops = replace_op_by_block(op, op.operands, body)
    for new in ops:
        new.location = location
    return ops


def format_tensor_type(shape: Sequence[int], kind: str) -> str:
    """Format the type of a tensor of a shape and an element type."""
    return f"tensor<{''.join(f'{size}x' for size in shape)}{kind}>"


def format_zero(element: str) -> str:
    """Return zero as MLIR writes it in a ``dense`` attribute of this element type."""
    if element.startswith("complex"):
        return "(0.0, 0.0)"
    if element == "i1":
        return "false"
    return "0.0" if element.startswith(FLOATS) else "0"
