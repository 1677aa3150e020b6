"""The platform that a program is lowered for, and JAX's kernels of attention on it."""

import importlib
from typing import Any

import jax


def get_platform() -> str:
    """Return the platform of the devices that the program is lowered for: gpu, tpu or cpu.

    An NVIDIA GPU is meant, because the devices of others are not known.
    """
    device: Any = jax.sharding.get_abstract_mesh().abstract_device
    return "cpu" if device is None else device.platform


def import_cudnn_attention() -> Any:
    """Import JAX's calls of cuDNN's attention, which can do more than those of ``jax.nn``."""
    return importlib.import_module("jax._src.cudnn.fused_attention_stablehlo")


def get_mask_type(kernel: Any, is_causal: bool) -> Any:
    """Return the mask of a call of the module that ``import_cudnn_attention`` returns."""
    return kernel.MaskType.CAUSAL if is_causal else kernel.MaskType.NO_MASK
