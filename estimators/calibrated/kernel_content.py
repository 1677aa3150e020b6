"""What the time of a kernel depends on besides the device: read from its op once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hespas.dialects.attrs import CompilerEstimateAttr
from hespas.dialects.mlir import get_call_target, ir
from hespas.dialects.op_kinds import CUSTOM_CALLS, FUSION
from hespas.estimators.base import CostItem
from hespas.estimators.calibrated.attention_shape import AttentionShape, read_attention_shape
from hespas.estimators.calibrated.data_passes import DataPasses, count_data_passes
from hespas.estimators.calibrated.kernel_traits import KernelTraits, collect_traits
from hespas.estimators.product_shapes import count_other_flops


@dataclass(frozen=True, slots=True)
class KernelContent:
    """What a kernel does, on all devices with sectors of one size.

    Attributes:
        traits: Its traits.
        attention: The shape of an attention call; None for other kernels.
        vector_flops: The operations on the vector unit, by type.
        shapeless_flops: The operations on the matrix unit that are in no product, by type.
        passes: The bytes that all its passes over the data move, and their launches.
        refetched_bytes: The bytes that a product reads again; None if they are not known.
        compiled: Whether XLA chose the kernel of a product.
    """

    traits: KernelTraits
    attention: AttentionShape | None
    vector_flops: Mapping[str, int]
    shapeless_flops: Mapping[str, int]
    passes: DataPasses
    refetched_bytes: int | None
    compiled: bool


def read_kernel(item: CostItem, sector_bytes: int) -> KernelContent:
    """Read a leaf op or fusion for devices with sectors of ``sector_bytes``; raises HespasError."""
    op, work = item.op, item.work
    traits = collect_traits(op, work, sector_bytes)
    products = [*traits.products, *traits.loop_products]
    compiled = CompilerEstimateAttr.read_from_op(op)
    return KernelContent(
        traits,
        read_attention_shape(op, work) if work.kind == "attention" else None,
        count_other_flops(work, products, "vector"),
        count_other_flops(work, products),
        count_data_passes(op, work, is_gpu=sector_bytes > 0),
        compiled.refetched_bytes if compiled is not None else None,
        bool(traits.products) and _is_kernel_of_xla(op),
    )


def _is_kernel_of_xla(op: ir.Operation) -> bool:
    """Return whether a product is one of XLA's kernels: a fusion of Triton, or a call of cuBLAS.

    ``--fuse`` makes the fusions that XLA would.
    """
    if op.name == FUSION:
        return "kCustom" in str(op.attributes["fusion_kind"])
    return op.name in CUSTOM_CALLS and get_call_target(op).startswith("__cublas")
