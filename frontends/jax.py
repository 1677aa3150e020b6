"""Modules that a framework holds in memory: ``jax.stages.Lowered`` and ``ir.Module``."""

from __future__ import annotations

from typing import Any

from hespas.dialects.mlir import ir
from hespas.support.errors import HespasError


def from_jax(lowered: Any) -> ir.Module:
    """Return the module of a ``jax.stages.Lowered``, or the given ``ir.Module`` itself.

    Nothing is copied, and jax is not imported: a ``Lowered`` is recognised by its method
    ``compiler_ir``. Passes change the module in place. To keep the original, lower the function
    again, which is cheap because JAX caches the trace.

    Raises:
        HespasError: If the object is neither of the two.
    """
    if isinstance(lowered, ir.Module):
        return lowered
    if hasattr(lowered, "compiler_ir"):
        module = lowered.compiler_ir("stablehlo")
        if isinstance(module, ir.Module):
            return module
    raise HespasError(
        f"cannot get a module from an object of type {type(lowered).__name__}",
        remedy="pass jax.jit(f).lower(...) or an ir.Module of jaxlib.mlir",
    )
