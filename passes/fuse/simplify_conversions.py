"""Chains of conversions between floating-point types as one, as XLA's SimplifyFPConversions.

(xla/hlo/transforms/simplifiers/simplify_fp_conversions.cc.) XLA allows excess precision by default,
so a value in f32 that is rounded to bf16 and read in f32 again is read unrounded. A kernel then
writes it in f32, and also in bf16 if something reads that.
"""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.mlir import erase_unused, get_defining_op, ir
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.op_builder import OpBuilder, find_named_ops, get_element_type
from hespas.passes.fuse.simplify import CONVERT


class SimplifyConversionsPass(BlockPass):
    """Replace a conversion of a conversion between floating-point types by that of its operand.

    Values then have more digits than in the program, as XLA allows by default.
    """

    name: ClassVar[str] = "simplify-conversions"

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, (CONVERT,)):
            inner = get_defining_op(op.operands[0])
            if inner is None or inner.name != CONVERT:
                continue
            source, result = inner.operands[0], op.results[0]
            types = [get_element_type(value) for value in (source, op.operands[0], result)]
            if not all(isinstance(each, ir.FloatType) for each in types):
                continue
            result.replace_all_uses_with(OpBuilder(op).create_convert(source, result))
            op.erase()
            erase_unused([inner])
