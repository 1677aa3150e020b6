"""Modules that a framework holds in memory: ``jax.stages.Lowered`` and ``ir.Module``."""

from __future__ import annotations

from typing import Any

from hespas.dialects.mlir import clone_module, ir, register_inliner
from hespas.support.errors import HespasError


def from_jax(lowered: Any) -> ir.Module:
    """Return a copy of the module of a ``jax.stages.Lowered``, or the given ``ir.Module`` itself.

    JAX keeps the module of a ``Lowered``: it returns it when the function is lowered again, and
    compiles it when the function is called. Passes change a module in place.

    ``inline`` of MLIR, also in a pass manager of somebody else, inlines its calls of func.

    jax is not imported: a ``Lowered`` is recognised by its method ``compiler_ir``.

    Raises:
        HespasError: If the object is neither of the two.
    """
    if isinstance(lowered, ir.Module):
        register_inliner(lowered.context)
        return lowered
    if hasattr(lowered, "compiler_ir"):
        module = lowered.compiler_ir("stablehlo")
        if isinstance(module, ir.Module):
            register_inliner(module.context)
            return clone_module(module)
    raise HespasError(
        f"cannot get a module from an object of type {type(lowered).__name__}",
        remedy="pass the path or the contents of a file, an ir.Module of jaxlib.mlir, or what "
        "jax.jit(f).lower(...) returns",
    )
