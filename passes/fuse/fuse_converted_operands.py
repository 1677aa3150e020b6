"""Products that widen an operand while they read it, like those of XLA's GemmFusion.

(xla/backends/gpu/transforms/gemm_fusion.cc.) A weight in four or eight bits is read as it is
stored: its conversion becomes part of the kernel, with the transposes, signs and broadcast scales
between it and the product, and with elementwise ops that alone read the result. So does one to a
type of the same size, such as bf16 to f16. An op that reads more than it makes, such as a
conversion to a narrower type, stays outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.mlir import get_defining_op, ir
from hespas.estimators.rules.base import to_buffer_size
from hespas.passes.base import check_choice, option
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dots import DOT
from hespas.passes.fuse.fuse_epilogues import FUNCTIONS, TYPES, VIEW
from hespas.passes.fuse.op_builder import find_named_ops, fuse_ops, get_element_type

CONVERSIONS = {
    "none": "no type",
    "no-f8E4M3": "all but f8E4M3, for GPUs before Ada",
    "all": "every type",
}
"""Which types products can widen, by name. XLA has no such kernels for GPUs before Ampere, and on
none for integers without a sign."""

_CONVERT, _BROADCAST = "stablehlo.convert", "stablehlo.broadcast_in_dim"
_SCALINGS = frozenset(f"stablehlo.{name}" for name in ("add", "divide", "multiply", "subtract"))
_OF_ONE_SIZE = frozenset(("stablehlo.negate", "stablehlo.transpose"))
_OUTPUTS = frozenset(FUNCTIONS) - {VIEW} | frozenset(
    f"stablehlo.{name}"
    for name in ("abs", "exponential", "logistic", "maximum", "minimum", "rsqrt", "sqrt")
)


@dataclass(frozen=True)
class FuseConvertedOperandsPass(BlockPass):
    """Fuse products with the conversions of their operands to wider types."""

    name: ClassVar[str] = "fuse-converted-operands"

    conversions: str = option(
        "all",
        "types that products convert to wider ones while they read them: "
        + "; ".join(f"{name}: {text}" for name, text in CONVERSIONS.items()),
    )

    def check_options(self, owner: str) -> None:
        check_choice(owner, "conversions are", self.conversions, CONVERSIONS)

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, (DOT,)):
            if to_buffer_size(op.results[0].type).key not in TYPES:
                continue
            inner = [
                new for number in (0, 1) for new in _copy_operand_ops(op, number, self.conversions)
            ]
            if inner:
                fuse_ops([*inner, op, *_collect_output_ops(op)], "kCustom", "gemm", op)


def is_widened(value: ir.Value, conversions: str) -> bool:
    """Return whether a product can read a value before it is converted to a wider type."""
    return bool(_collect_operand_ops(value, conversions))


def _collect_operand_ops(value: ir.Value, conversions: str) -> list[ir.Operation]:
    """Collect the ops between what a product reads and its operand, in order.

    Returns:
        The ops, of which one converts to a wider type; [] if none does.
    """
    op = get_defining_op(value)
    if op is None:
        return []
    if op.name == _CONVERT:
        narrow, wide = (to_buffer_size(v.type) for v in (op.operands[0], op.results[0]))
        if wide.bits < narrow.bits:
            return []
        inner = _collect_operand_ops(op.operands[0], conversions)
        if not inner and _can_widen(op.operands[0], conversions):
            return [*_collect_rearrangements(op.operands[0]), op]
        return [*inner, op] if inner else []
    if op.name in _OF_ONE_SIZE:
        inner = _collect_operand_ops(op.operands[0], conversions)
    elif op.name in _SCALINGS and sum(1 for _ in op.results[0].uses) == 1:
        whole = [operand for operand in op.operands if not _is_broadcast(operand)]
        inner = _collect_operand_ops(whole[0], conversions) if len(whole) == 1 else []
    else:
        return []
    return [*inner, op] if inner else []


def _can_widen(value: ir.Value, conversions: str) -> bool:
    kind = str(get_element_type(value))
    if conversions == "none" or kind.startswith("ui"):
        return False
    return conversions == "all" or not kind.startswith("f8E4M3")


def _collect_rearrangements(value: ir.Value) -> list[ir.Operation]:
    """Collect the transposes and signs that make a value, in order."""
    op = get_defining_op(value)
    if op is None or op.name not in _OF_ONE_SIZE:
        return []
    return [*_collect_rearrangements(op.operands[0]), op]


def _is_broadcast(value: ir.Value) -> bool:
    op = get_defining_op(value)
    return op is not None and (op.name == _BROADCAST or op.name == "stablehlo.constant")


def _copy_operand_ops(product: ir.Operation, number: int, conversions: str) -> list[ir.Operation]:
    """Copy the ops of an operand before a product, and drop those that nothing else reads."""
    ops = _collect_operand_ops(product.operands[number], conversions)
    copies: list[ir.Operation] = []
    values: dict[ir.Value, ir.Value] = {}
    for op in ops:
        copy = op.clone(ir.InsertionPoint(product)).operation
        for position, operand in enumerate(op.operands):
            copy.operands[position] = values.get(operand, operand)
        values[op.results[0]] = copy.results[0]
        copies.append(copy)
    if ops:
        product.operands[number] = copies[-1].results[0]
    for op in reversed(ops):
        if not any(True for _ in op.results[0].uses):
            op.erase()
    return copies


def _collect_output_ops(product: ir.Operation) -> list[ir.Operation]:
    """Collect the elementwise ops that alone read what a product makes, in order."""
    ops: list[ir.Operation] = []
    last, block = product, product.block
    while True:
        users = {use.owner.operation for use in last.results[0].uses}
        user = users.pop() if len(users) == 1 else None
        if user is None or user.block != block or user.name not in _OUTPUTS:
            return ops
        narrow, wide = (to_buffer_size(v.type) for v in (last.results[0], user.results[0]))
        if wide.bits > narrow.bits:
            return ops
        ops.append(user)
        last = user
