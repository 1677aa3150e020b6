"""The XLA flags with which a framework compiles its programs for GPUs, by its name.

The one place that says them: ``xla-optimize``'s option ``framework``, and with it every command and
the Python interface, and the programs of training cases. TPUs have libtpu's flags, which no
framework sets by itself: the presets ``maxtext-v5e`` and others are those of scripts.
"""

from __future__ import annotations

from dataclasses import dataclass

from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest

LATENCY_HIDING = "--xla_gpu_enable_latency_hiding_scheduler=true"
# Programs of frameworks without XLA. XLA computes values again if a step does not fit in memory;
# other compilers run out of memory.
NO_REMATERIALISATION = "--xla_disable_hlo_passes=rematerialization"
# XLA's scheduler exposes collectives if a step nearly fills the memory: its limit is this share, in
# percent, of what arguments leave. PyTorch prefetches weights whatever is free.
NO_SCHEDULER_LIMIT = "--xla_gpu_memory_limit_slop_factor=1000"
# Megatron's products are cuBLAS calls. For decoders of 114 tokens, XLA without a GPU finds no tiles
# of its Triton products that fit and ends with an error.
CUBLAS_ONLY = "--xla_gpu_enable_triton_gemm=false"
# PyTorch adds the bias of a linear layer in the epilogue of cuBLASLt's product (addmm_out_cuda_impl
# of aten/src/ATen/native/cuda/Blas.cpp).
CUBLAS_EPILOGUES = "--xla_gpu_enable_cublaslt=true"
# T5X's script of pretraining on GPUs (t5x/contrib/gpu/scripts_gpu/multiprocess_pretrain_pile.sh)
T5X_THRESHOLD = "--xla_gpu_all_reduce_combine_threshold_bytes=136314880"


@dataclass(frozen=True, slots=True)
class FrameworkFlags:
    """The XLA flags of a framework.

    Attributes:
        preset: A named set of flags, which come first; "" for none.
        flags: The others.
        reason: Where they come from, or what they stand for.
    """

    preset: str = ""
    flags: tuple[str, ...] = (LATENCY_HIDING,)
    reason: str = "the framework sets none itself; the scheduler is XLA's default from Hopper on"


_PYTORCH = FrameworkFlags(
    "pytorch-fsdp", (LATENCY_HIDING, NO_REMATERIALISATION), "XLA in the place of PyTorch's FSDP"
)
FRAMEWORK_FLAGS: dict[str, FrameworkFlags] = {
    "axlearn": FrameworkFlags(),
    "easylm": FrameworkFlags(),
    "jax": FrameworkFlags(),
    "levanter": FrameworkFlags(),
    # MaxText's scripts for GPUs (MaxText/configs/a3/*/*.sh), without the thresholds of a script
    "maxtext": FrameworkFlags("maxtext-tutorial", reason="MaxText's scripts for GPUs"),
    "paxml": FrameworkFlags("paxml", reason="Paxml's scripts for GPUs"),
    "pytorch": _PYTORCH,
    "t5x": FrameworkFlags(
        flags=(LATENCY_HIDING, T5X_THRESHOLD, CUBLAS_ONLY), reason="T5X's script for GPUs"
    ),
    "torchtitan": _PYTORCH,
}


def find_framework_flags(name: str) -> FrameworkFlags:
    """Return the flags of a framework; raises UsageError if none has this name."""
    if name not in FRAMEWORK_FLAGS:
        known = list(FRAMEWORK_FLAGS)
        raise UsageError(
            f"the XLA flags of no framework '{name}' are known",
            remedy=suggest_nearest(name, known),
        )
    return FRAMEWORK_FLAGS[name]
