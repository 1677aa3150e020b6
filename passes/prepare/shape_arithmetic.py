"""Conversion of the arithmetic of sizes that torch-mlir writes in arith and tensor to StableHLO.

XLA's propagation of sizes knows only StableHLO. A size is a scalar of ``tensor.dim`` or of arith,
and ``tensor.from_elements`` joins several to the shape operand of a StableHLO op. The scalars
become tensors without dimensions, and what only they used is removed.
"""

from __future__ import annotations

from hespas.dialects.mlir import erase_unused, get_attribute, get_defining_op, ir
from hespas.passes.prepare.census import ModuleCensus
from hespas.support.errors import HespasError

JOIN = "tensor.from_elements"
_BINARY = {
    "arith.addi": "add", "arith.subi": "subtract", "arith.muli": "multiply",
    "arith.divsi": "divide", "arith.divui": "divide", "arith.floordivsi": "divide",
    "arith.remsi": "remainder", "arith.remui": "remainder",
    "arith.maxsi": "maximum", "arith.maxui": "maximum",
    "arith.minsi": "minimum", "arith.minui": "minimum",
}  # fmt: skip
_CASTS = frozenset(("arith.index_cast", "arith.index_castui", "arith.extsi", "arith.trunci"))
_SIZES = frozenset(("tensor.dim", "arith.constant", *_BINARY, *_CASTS))


def convert_shape_arithmetic(census: ModuleCensus) -> bool:
    """Convert the joined sizes of a module. Returns whether there were any; raises HespasError."""
    joins = [op for op in census.select_ops_by_name(JOIN) if _joins_sizes(op)]
    if not joins:
        return False
    ops = census.select_ops_by_name(*_SIZES)
    scalars = [op for op in ops if not isinstance(op.results[0].type, ir.ShapedType)]
    converters: dict[ir.Block, _SizeConverter] = {}
    for join in joins:
        converters.setdefault(join.block, _SizeConverter()).convert_join(join)
    erase_unused(scalars)
    return True


def _joins_sizes(join: ir.Operation) -> bool:
    return isinstance(
        ir.ShapedType(join.results[0].type).element_type, (ir.IndexType, ir.IntegerType)
    )


class _SizeConverter:
    """Converts sizes of one block; a value that is used twice is converted once."""

    def __init__(self) -> None:
        self._converted: dict[ir.Value, ir.Value] = {}

    def convert_join(self, join: ir.Operation) -> None:
        with join.location, ir.InsertionPoint(join):
            i64 = ir.IntegerType.get_signless(64)
            one = ir.RankedTensorType.get([1], i64)
            sizes = [
                _create("reshape", [self._convert_size(value, join)], one)
                for value in join.operands
            ]
            kind = ir.RankedTensorType.get([len(sizes)], i64)
            dimension: dict[str, ir.Attribute] = {"dimension": ir.IntegerAttr.get(i64, 0)}
            join.results[0].replace_all_uses_with(_create("concatenate", sizes, kind, dimension))
        join.erase()

    def _convert_size(self, size: ir.Value, join: ir.Operation) -> ir.Value:
        if size not in self._converted:
            op = get_defining_op(size)
            if op is None or op.name not in _SIZES:
                raise HespasError(
                    "a size is not computed from sizes of tensors and constants",
                    op=op or join,
                    remedy="export the module with static shapes",
                )
            self._converted[size] = self._convert_op(op, join)
        return self._converted[size]

    def _convert_op(self, op: ir.Operation, join: ir.Operation) -> ir.Value:
        i32, i64 = (ir.IntegerType.get_signless(bits) for bits in (32, 64))
        scalar = ir.RankedTensorType.get([], i64)
        if op.name == "arith.constant":
            value = get_attribute(op, "value").value
            text = f"dense<{value}> : tensor<i64>"
            return _create("constant", [], scalar, {"value": ir.Attribute.parse(text)})
        if op.name == "tensor.dim":
            number = get_defining_op(op.operands[1])
            if number is None or number.name != "arith.constant":
                raise HespasError("the number of the dimension is not constant", op=op)
            dimension = ir.IntegerAttr.get(i64, get_attribute(number, "value").value)
            size = _create(
                "get_dimension_size",
                [op.operands[0]],
                ir.RankedTensorType.get([], i32),
                {"dimension": dimension},
            )
            return _create("convert", [size], scalar)
        operands = [self._convert_size(value, join) for value in op.operands]
        return operands[0] if op.name in _CASTS else _create(_BINARY[op.name], operands, scalar)


def _create(
    name: str,
    operands: list[ir.Value],
    kind: ir.Type,
    attributes: dict[str, ir.Attribute] | None = None,
) -> ir.Value:
    created = ir.Operation.create(f"stablehlo.{name}", [kind], operands, attributes or {})
    return created.results[0]
