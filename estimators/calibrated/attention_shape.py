"""The shape of a fused attention call."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hespas.dialects.mlir import get_call_target, ir
from hespas.dialects.op_kinds import SPLASH_KERNEL
from hespas.estimators.rules.base import to_buffer_size
from hespas.estimators.rules.custom_calls import (
    find_kernel_name,
    read_backend_config,
    read_kernel_metadata,
)
from hespas.estimators.rules.library_calls import read_score_shape
from hespas.estimators.rules.pallas_attention import read_splash_shape
from hespas.estimators.work import OpWork


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """The shape of one call.

    Attributes:
        heads: Batch size x heads.
        dtype: The key of the peak rate of the products.
        flops: The operations of the products.
        streams: Batch size x key-value heads: each is a stream of keys and one of values. 0 if
            they are not known, as of splash attention.
        keys: The keys of a stream.
    """

    heads: int
    queries: int
    head_size: int
    dtype: str
    flops: int
    backward: bool
    streams: int = 0
    keys: int = 0


def read_attention_shape(op: ir.Operation, work: OpWork) -> AttentionShape:
    """Read the shape of a call of cuDNN or splash attention, which its cost rule has checked."""
    kernel = find_kernel_name(op)
    if re.fullmatch(SPLASH_KERNEL, kernel):
        splash = read_splash_shape(op, kernel, read_kernel_metadata(op))
        return AttentionShape(
            splash.heads, splash.queries, splash.head_size, splash.dtype, splash.flops,
            splash.kernel != "fwd",
        )  # fmt: skip
    batch, heads, queries, keys = read_score_shape(op, read_backend_config(op))
    part = next(part for part in work.parts if part.unit == "matrix")
    size = to_buffer_size(op.operands[0].type).elements // max(batch * heads * queries, 1)
    backward = "Backward" in get_call_target(op)
    streams = to_buffer_size(op.operands[1].type).elements // max(keys * size, 1)
    return AttentionShape(
        batch * heads, queries, size, part.dtype, part.flops, backward, streams, keys
    )
