"""Ops that a compiler removes before it fuses, as XLA's algebraic simplifier does.

Only rewrites that keep every bit of the result. Each takes an op and returns the value to use in
its place, or None.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hespas.dialects.mlir import PassManager, ir, producer, register_passes
from hespas.estimators.rules.base import buffer, integer, ints
from hespas.passes.fuse.ops import Maker, blocks_of, element, i64s, named

Rewrite = Callable[[ir.Operation], "ir.Value | None"]
LAYOUT = "result_layout"  # where it is written, a transpose may be one in name only


def simplify(module: ir.Module) -> list[ir.Block]:
    """Simplify ops in program order, join equal ones, and drop what nothing needs.

    Returns the blocks that are left: loops and branches may be among what goes.
    """
    for block in blocks_of(module):
        for op in named(block, REWRITES):
            new = REWRITES[op.name](op)
            if new is not None:
                op.results[0].replace_all_uses_with(new)
    register_passes()
    PassManager.parse("builtin.module(cse)", module.context).run(module.operation)
    return blocks_of(module)


def _forward(op: ir.Operation) -> ir.Value | None:
    source = op.operands[0]
    return source if source.type == op.results[0].type else None


def _source(op: ir.Operation, name: str) -> ir.Operation | None:
    """The op that makes the first operand, if it has that name."""
    made = producer(op.operands[0])
    return made if made is not None and made.name == name else None


def _create(op: ir.Operation, name: str, operand: ir.Value, **attributes: ir.Attribute) -> ir.Value:
    """What an op of one operand makes in the place of ``op``, of the same type."""
    return Maker(op).op(name, [operand], [op.results[0].type], attributes).results[0]


def _reshape(op: ir.Operation) -> ir.Value | None:
    source = op.operands[0]
    inner = _source(op, "stablehlo.reshape")
    if source.type == op.results[0].type:
        return source
    if inner is None:
        return None
    base = inner.operands[0]
    return base if base.type == op.results[0].type else _create(op, "stablehlo.reshape", base)


def _transpose(op: ir.Operation) -> ir.Value | None:
    if LAYOUT in op.attributes:
        return None
    order = ints(op, "permutation", ())
    inner = _source(op, "stablehlo.transpose")
    if inner is not None and LAYOUT not in inner.attributes:
        before = ints(inner, "permutation", ())
        order = tuple(before[d] for d in order)
        if order == tuple(range(len(order))):
            return inner.operands[0]
        permutation = i64s(order, op.context)
        return _create(op, "stablehlo.transpose", inner.operands[0], permutation=permutation)
    if order == tuple(range(len(order))):
        return op.operands[0]
    shape = buffer(op.operands[0].type).shape
    wide = [d for d in order if shape[d] > 1]
    if wide == sorted(wide):
        return _create(op, "stablehlo.reshape", op.operands[0])
    return None


def _broadcast(op: ir.Operation) -> ir.Value | None:
    dims = ints(op, "broadcast_dimensions", ())
    if list(dims) == sorted(dims) and op.operands[0].type == op.results[0].type:
        return op.operands[0]
    inner = _source(op, "stablehlo.broadcast_in_dim")
    if inner is None:
        return None
    before = ints(inner, "broadcast_dimensions", ())
    joined = i64s([dims[d] for d in before], op.context)
    return _create(op, "stablehlo.broadcast_in_dim", inner.operands[0], broadcast_dimensions=joined)


FLOATS = {"f64": (11, 52), "f32": (8, 23), "bf16": (8, 7), "f16": (5, 10)}  # exponent, mantissa


def _holds(wide: ir.Type, narrow: ir.Type) -> bool:
    """Whether every number of one element type is one of the other."""
    a, b = str(wide), str(narrow)
    if a in FLOATS and b in FLOATS:
        return all(x >= y for x, y in zip(FLOATS[a], FLOATS[b], strict=True))
    if isinstance(wide, ir.IntegerType) and isinstance(narrow, ir.IntegerType):
        return wide.is_signless == narrow.is_signless and 1 < narrow.width <= wide.width
    return False


def _convert(op: ir.Operation) -> ir.Value | None:
    if op.operands[0].type == op.results[0].type:
        return op.operands[0]
    inner = _source(op, "stablehlo.convert")
    if inner is None or not _holds(element(op.operands[0]), element(inner.operands[0])):
        return None
    base = inner.operands[0]
    return base if base.type == op.results[0].type else _create(op, "stablehlo.convert", base)


def _reduce_precision(op: ir.Operation) -> ir.Value | None:
    held = FLOATS.get(str(element(op.operands[0])))
    kept = integer(op, "exponent_bits", 0), integer(op, "mantissa_bits", 0)
    if held is None or kept[0] < held[0] or kept[1] < held[1]:
        return None
    return op.operands[0]


def _slice(op: ir.Operation) -> ir.Value | None:
    steps = ints(op, "strides", ())
    return op.operands[0] if all(s == 1 for s in steps) and _forward(op) is not None else None


def _single(op: ir.Operation) -> ir.Value | None:
    return op.operands[0] if len(op.operands) == 1 else None


def _pad(op: ir.Operation) -> ir.Value | None:
    edges = [*ints(op, "edge_padding_low", ()), *ints(op, "edge_padding_high", ())]
    return None if any(edges) else _forward(op)


def _times(op: ir.Operation) -> ir.Value | None:
    """x * 1, and 1 * x."""
    for one, other in ((0, 1), (1, 0)):
        if number(op.operands[one]) == 1:
            return op.operands[other]
    return None


def _over(op: ir.Operation) -> ir.Value | None:
    """x / 1."""
    return op.operands[0] if number(op.operands[1]) == 1 else None


def _minus(op: ir.Operation) -> ir.Value | None:
    """x - 0, where the zero has no sign to lose."""
    zero = number(op.operands[1])
    return op.operands[0] if zero == 0 and str(zero) != "-0.0" else None


def number(value: ir.Value) -> float | int | None:
    """What all elements of a constant are, or None."""
    made = producer(value)
    if made is not None and made.name == "stablehlo.broadcast_in_dim":
        made = producer(made.operands[0])
    return splat(made) if made is not None and made.name == "stablehlo.constant" else None


def splat(constant: ir.Operation) -> float | int | None:
    """The number that a constant of one repeats, or None."""
    try:
        attr = constant.attributes["value"]
    except TypeError:  # complex elements: the bindings cannot hold them
        return None
    if not isinstance(attr, ir.DenseElementsAttr) or not attr.is_splat:
        return None
    one = attr.get_splat_value()
    return one.value if isinstance(one, ir.FloatAttr | ir.IntegerAttr) else None


def _reduce(op: ir.Operation) -> ir.Value | None:
    """A reduction along dimensions of size 1 from the value that changes nothing."""
    if len(op.operands) != 2:
        return None
    shape = buffer(op.operands[0].type).shape
    body = [view.operation.name for view in op.regions[0].blocks[0].operations]
    neutral = NEUTRAL.get(body[0].partition(".")[2]) if len(body) == 2 else None
    if neutral is None or any(shape[d] != 1 for d in ints(op, "dimensions", ())):
        return None
    if number(op.operands[1]) != neutral:
        return None
    return _create(op, "stablehlo.reshape", op.operands[0])


NEUTRAL = {"add": 0, "multiply": 1, "maximum": -math.inf, "minimum": math.inf}


def _dot(op: ir.Operation) -> ir.Value | None:
    """A product of matrices or vectors in the general form."""
    last = len(buffer(op.operands[0].type).shape) - 1
    dimensions = f"lhs_contracting_dimensions = [{last}], rhs_contracting_dimensions = [0]"
    attributes = {name: op.attributes[name] for name in op.attributes}
    attributes["dot_dimension_numbers"] = ir.Attribute.parse(
        f"#stablehlo.dot<{dimensions}>", op.context
    )
    kinds = [op.results[0].type]
    return Maker(op).op("stablehlo.dot_general", op.operands, kinds, attributes).results[0]


REWRITES: dict[str, Rewrite] = {
    "mhlo.copy": _forward,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.concatenate": _single,
    "stablehlo.convert": _convert,
    "stablehlo.divide": _over,
    "stablehlo.dot": _dot,
    "stablehlo.multiply": _times,
    "stablehlo.pad": _pad,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_precision": _reduce_precision,
    "stablehlo.reshape": _reshape,
    "stablehlo.slice": _slice,
    "stablehlo.subtract": _minus,
    "stablehlo.transpose": _transpose,
}
