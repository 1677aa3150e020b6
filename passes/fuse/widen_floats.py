"""Arithmetic on bf16 in f32, as in XLA's FloatNormalization for GPUs.

(xla/service/gpu/gpu_float_support.cc.) GPUs compute few functions of bf16: from Hopper on they add
and multiply it, and all of them compare it and compute exponentials and logarithms. XLA converts
what the others read, and their results back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from hespas.dialects.mlir import copy_attributes, get_defining_op, ir
from hespas.passes.base import option
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.kernel_cost_model import DEFAULT_TARGET, HOPPER, FusionDevice
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    get_element_type,
    get_static_shape,
)
from hespas.passes.fuse.simplify import BROADCAST, CONVERT, read_uniform_constant
from hespas.passes.fuse.split_reductions import REDUCE
from hespas.passes.fuse.split_scans import REDUCE_WINDOW

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
# Logic on truth values, which XLA takes for arithmetic in bf16 where a reduction contains it.
_LOGIC = frozenset(("stablehlo.and", "stablehlo.not", "stablehlo.or"))


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
        widener = _Widener(names)
        for op in find_named_ops(block, names | {CONVERT, REDUCE, REDUCE_WINDOW}):
            if op.name == CONVERT:
                widener.record_conversion(op)
            elif op.name in (REDUCE, REDUCE_WINDOW):
                if op.name == REDUCE_WINDOW or not _list_body_ops(op).isdisjoint(names | _LOGIC):
                    widener.widen_reduction(op)
            elif _is_narrow(op.results[0]):
                is_product = op.name == DIVIDE and read_uniform_constant(op.operands[1]) is not None
                if capability < HOPPER or not is_product:  # with the inverse, in XLA
                    widener.widen_op(op)
        widener.erase_replaced_ops()


@dataclass(slots=True)
class _Widener:
    """Rewrites ops in the order of their block.

    Attributes:
        names: The ops that the GPU cannot compute in bf16.
        converted: The values that are in f32 too.
        replaced: The ops that have been rewritten.
    """

    names: frozenset[str]
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

    def widen_reduction(self, op: ir.Operation) -> None:
        """Reduce in f32 what a reduction reads in bf16."""
        if not any(_is_narrow(value) for value in op.results):
            return
        builder = OpBuilder(op)
        operands = [
            self._convert_value(builder, value) if _is_narrow(value) else value
            for value in op.operands
        ]
        kinds = [
            _make_wide_type(value) if _is_narrow(value) else value.type for value in op.results
        ]
        new = builder.create_op(op.name, operands, kinds, copy_attributes(op), body=op)
        _widen_body(new.regions[0].blocks[0], self.names)
        for old, result in zip(op.results, new.results, strict=True):
            old.replace_all_uses_with(builder.create_convert(result, old))
        self.replaced.append(op)

    def erase_replaced_ops(self) -> None:
        """Erase the rewritten ops.

        Before, an op that is created could take the place of an erased one in ``converted``.
        """
        for op in reversed(self.replaced):
            op.erase()

    def _convert_value(self, builder: OpBuilder, value: ir.Value) -> ir.Value:
        """Convert a value to f32; of a broadcast, XLA's simplifier converts the operand.

        It leaves the broadcast and its conversion, which nothing reads, to the model of fusions.
        """
        if value not in self.converted:
            name, source, attributes = CONVERT, value, {}
            maker = get_defining_op(value)
            if maker is not None and maker.name == BROADCAST:
                builder.create_op(CONVERT, [value], [_make_wide_type(value)], {})
                source = self._convert_value(builder, maker.operands[0])
                name, attributes = BROADCAST, copy_attributes(maker)
            new = builder.create_op(name, [source], [_make_wide_type(value)], attributes)
            self.converted[value] = new.results[0]
        return self.converted[value]


def _is_narrow(value: ir.Value) -> bool:
    return str(get_element_type(value)) == "bf16"


def _make_wide_type(value: ir.Value) -> ir.Type:
    element = ir.F32Type.get(value.context)
    return ir.RankedTensorType.get(get_static_shape(value), element, loc=value.location)


def _list_body_ops(op: ir.Operation) -> set[str]:
    return {view.operation.name for view in op.regions[0].blocks[0].operations}


def _widen_body(body: ir.Block, names: frozenset[str]) -> None:
    """Change the body of a reduction for operands in f32.

    A single op of ``names`` computes in f32. XLA narrows what others read, and widens the result.
    """
    narrow = [argument for argument in body.arguments if _is_narrow(argument)]
    first, *others = (view.operation for view in body.operations)
    if len(others) == 1 and first.name in names:
        for value in (*narrow, *first.results):
            value.set_type(_make_wide_type(value))
        return
    for argument in narrow:
        kind, wide = argument.type, _make_wide_type(argument)
        argument.set_type(wide)
        narrowed = ir.Operation.create(
            CONVERT, [kind], [argument], loc=first.location, ip=ir.InsertionPoint(first)
        )
        argument.replace_all_uses_except(narrowed.results[0], narrowed)
    end = OpBuilder(others[-1])
    for number, value in enumerate(others[-1].operands):
        if _is_narrow(value):
            kinds = [_make_wide_type(value)]
            others[-1].operands[number] = end.create_op(CONVERT, [value], kinds, {}).results[0]
