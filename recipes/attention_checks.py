"""Which fused attention fits which model and division."""

from __future__ import annotations

from hespas.recipes.language_models import DecoderModel
from hespas.recipes.parallel import MeshParallelism
from hespas.support.errors import UsageError


def check_attention(attention: str, m: DecoderModel, p: MeshParallelism) -> None:
    """Check that a kernel of attention can compute that of a model; raises UsageError."""
    has_bias = m.positions == "alibi"
    is_divided = bool(p.get_split_axes("context"))
    if attention != "dot_product" and is_divided and not p.manual:
        raise UsageError(
            f"attention '{attention}' needs explicit collectives over mesh axis 'context'",
            remedy="use partitioning=manual or attention=dot_product",
        )
    if attention == "cudnn" and is_divided and (m.window or has_bias):
        raise UsageError(
            "attention 'cudnn' has no window and no bias of scores where mesh axis 'context' "
            "divides sequences",
            remedy="use attention=dot_product or a mesh without 'context'",
        )
    if attention == "splash" and (has_bias or not p.manual):
        raise UsageError(
            "attention 'splash' has no bias of scores, and XLA cannot divide its kernels",
            remedy="use attention=dot_product, or partitioning=manual without ALiBi",
        )
    if attention != "dot_product" and m.positions == "relative":
        raise UsageError(
            f"attention '{attention}' has no biases of relative positions, which the model has",
            remedy="use attention=dot_product",
        )
    if attention == "splash" and not m.causal:
        raise UsageError(
            "attention 'splash' is causal, and the model is not",
            remedy="use attention=dot_product",
        )
    if attention == "cudnn" and m.sinks:
        raise UsageError(
            "attention 'cudnn' has no sinks, which the model has",
            remedy="use attention=dot_product",
        )
    if attention == "cudnn" and m.score_cap:
        raise UsageError(
            "attention 'cudnn' has no limit of scores, which the model has",
            remedy="use attention=dot_product",
        )
