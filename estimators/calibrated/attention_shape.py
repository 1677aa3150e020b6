"""The shape of a fused attention call, read off the op."""

from __future__ import annotations

from dataclasses import dataclass

from hespas.dialects.mlir import get_call_target, ir
from hespas.estimators.rules.base import to_buffer_size
from hespas.estimators.rules.custom_calls import read_backend_config
from hespas.estimators.rules.library_calls import find_config_value
from hespas.estimators.work import OpWork


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """One call: ``heads`` is batch x heads, ``flops`` the operations of its products.

    ``dtype`` is the key of the peak rate that they run at.
    """

    heads: int
    queries: int
    head_size: int
    dtype: str
    flops: int
    backward: bool


def read_attention_shape(op: ir.Operation, work: OpWork) -> AttentionShape:
    """The shape of cuDNN's call, whose scores are in its configuration, as its rule has checked."""
    shape = find_config_value(read_backend_config(op), "intermediate_tensor_shape")
    batch, heads, queries, _ = (int(d) for d in shape["dimensions"])
    part = next(part for part in work.parts if part.unit == "matrix")
    size = to_buffer_size(op.operands[0].type).elements // max(batch * heads * queries, 1)
    backward = "Backward" in get_call_target(op)
    return AttentionShape(batch * heads, queries, size, part.dtype, part.flops, backward)
