"""Arithmetic on bf16 in f32, as in XLA's FloatNormalization for GPUs.

(xla/service/gpu/gpu_float_support.cc.) GPUs compute few functions of bf16: from Hopper on they add
and multiply it, and all of them compare it and compute exponentials and logarithms. XLA converts
what the others read, and their results back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from hespas.dialects.mlir import get_defining_op, ir
from hespas.passes.base import option
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.kernel_cost_model import DEFAULT_TARGET, HOPPER, FusionDevice
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    copy_attributes,
    find_named_ops,
    get_element_type,
    get_static_shape,
)
from hespas.passes.fuse.simplify import BROADCAST, CONVERT, read_uniform_constant

DIVIDE = "stablehlo.divide"
_ARITHMETIC = frozenset(f"stablehlo.{name}" for name in ("add", "multiply", "subtract"))
_FUNCTIONS = frozenset(
    f"stablehlo.{name}"
    for name in (
        "atan2", "cbrt", "ceil", "cosine", "divide", "exponential_minus_one", "floor",
        "log_plus_one", "logistic", "power", "remainder", "round_nearest_afz",
        "round_nearest_even", "rsqrt", "sine", "sqrt", "tan", "tanh",
    )
) | {"chlo.erf"}  # fmt: skip


@dataclass(frozen=True)
class WidenFloatsPass(BlockPass):
    """Compute in f32 what a GPU cannot compute in bf16."""

    name: ClassVar[str] = "widen-floats"

    target: str = option(
        DEFAULT_TARGET,
        "GPU that the program is compiled for: a name of `hespas presets targets`, or a .json file",
    )

    def rewrite_block(self, block: ir.Block) -> None:
        capability = FusionDevice.from_target(self.target).capability
        names = _FUNCTIONS if capability >= HOPPER else _FUNCTIONS | _ARITHMETIC
        widener = _Widener()
        for op in find_named_ops(block, names | {CONVERT}):
            if op.name == CONVERT:
                widener.record_conversion(op)
            elif str(get_element_type(op.results[0])) == "bf16":
                is_product = op.name == DIVIDE and read_uniform_constant(op.operands[1]) is not None
                if capability < HOPPER or not is_product:  # with the inverse, in XLA
                    widener.widen_op(op)
        widener.erase_replaced_ops()


@dataclass(slots=True)
class _Widener:
    """Rewrites ops in the order of their block.

    Attributes:
        converted: The values that are in f32 too.
        replaced: The ops that have been rewritten.
    """

    converted: dict[ir.Value, ir.Value] = field(default_factory=dict)
    replaced: list[ir.Operation] = field(default_factory=list)

    def record_conversion(self, op: ir.Operation) -> None:
        if str(get_element_type(op.results[0])) == "f32":
            self.converted.setdefault(op.operands[0], op.results[0])

    def widen_op(self, op: ir.Operation) -> None:
        builder = OpBuilder(op)
        operands = [self._convert_value(builder, value) for value in op.operands]
        new = builder.create_op(op.name, operands, [operands[0].type], copy_attributes(op))
        narrow = builder.create_convert(new.results[0], op.results[0])
        op.results[0].replace_all_uses_with(narrow)
        self.replaced.append(op)

    def erase_replaced_ops(self) -> None:
        """Erase the rewritten ops, and the broadcasts and conversions that only they read.

        Before, an op that is created could take the place of an erased one in ``converted``.
        """
        for op in reversed(self.replaced):
            makers = {get_defining_op(value) for value in op.operands}
            op.erase()
            for maker in makers:
                _erase_unused(maker)

    def _convert_value(self, builder: OpBuilder, value: ir.Value) -> ir.Value:
        """Convert a value to f32; of a broadcast, XLA's simplifier converts the operand."""
        if value not in self.converted:
            name, source, attributes = CONVERT, value, {}
            maker, element = get_defining_op(value), ir.F32Type.get(value.context)
            if maker is not None and maker.name == BROADCAST:
                source = self._convert_value(builder, maker.operands[0])
                name, attributes = BROADCAST, copy_attributes(maker)
            wide = ir.RankedTensorType.get(get_static_shape(value), element, loc=value.location)
            new = builder.create_op(name, [source], [wide], attributes)
            self.converted[value] = new.results[0]
        return self.converted[value]


def _erase_unused(op: ir.Operation | None) -> None:
    while op is not None and op.name in (BROADCAST, CONVERT) and not any(op.results[0].uses):
        maker = get_defining_op(op.operands[0])
        op.erase()
        op = maker
