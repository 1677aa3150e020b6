"""The shape of a fused attention call, read off the op."""

from __future__ import annotations

from dataclasses import dataclass

from hespas.dialects.mlir import call_target, ir
from hespas.estimators.rules.base import buffer
from hespas.estimators.rules.custom import backend_config
from hespas.estimators.rules.libraries import find
from hespas.estimators.work import Work


@dataclass(frozen=True, slots=True)
class Attention:
    """One call: ``heads`` is batch x heads, ``flops`` the operations of its products.

    ``dtype`` is the key of the peak rate that they run at.
    """

    heads: int
    queries: int
    head_size: int
    dtype: str
    flops: int
    backward: bool


def attention_shape(op: ir.Operation, work: Work) -> Attention:
    """The shape of cuDNN's call, whose scores are in its configuration, as its rule has checked."""
    shape = find(backend_config(op), "intermediate_tensor_shape")
    batch, heads, queries, _ = (int(d) for d in shape["dimensions"])
    part = next(part for part in work.parts if part.unit == "matrix")
    size = buffer(op.operands[0].type).elements // max(batch * heads * queries, 1)
    backward = "Backward" in call_target(op)
    return Attention(batch * heads, queries, size, part.dtype, part.flops, backward)
