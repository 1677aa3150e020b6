"""Modules that a framework holds in process: ``jax.stages.Lowered`` and ``ir.Module``."""

from __future__ import annotations

from typing import Any

from hespas.dialects.mlir import ir
from hespas.support.errors import HespasError


def from_jax(lowered: Any) -> ir.Module:
    """The module of a ``jax.stages.Lowered``, or an ``ir.Module`` itself; nothing is copied.

    jax is not imported: a ``Lowered`` is known by its method ``compiler_ir``. The passes of hespas
    change the module in place, so lower again (cheap: JAX caches the trace) to keep the original.
    """
    if isinstance(lowered, ir.Module):
        return lowered
    if hasattr(lowered, "compiler_ir"):
        module = lowered.compiler_ir("stablehlo")
        if isinstance(module, ir.Module):
            return module
    raise HespasError(
        f"cannot take a module from a {type(lowered).__name__}",
        remedy="give jax.jit(f).lower(...) or an ir.Module of jaxlib.mlir",
    )
