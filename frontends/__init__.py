"""Readers for every accepted form of a program.

These are StableHLO text and bytecode, portable artifacts, HLO text and protobufs, and the
modules that JAX holds in memory. The readers are imported when they are first used, because xDSL
loads `xdsl_universe` without the MLIR bindings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hespas.frontends.jax import from_jax
    from hespas.frontends.module_reader import (
        parse_module,
        read_module,
        read_unpacked_bytes,
        to_display_name,
    )

__all__ = [
    "from_jax",
    "parse_module",
    "read_module",
    "read_unpacked_bytes",
    "to_display_name",
]


def __getattr__(name: str) -> Any:
    """Import a reader when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from hespas.frontends import jax, module_reader

    value = jax.from_jax if name == "from_jax" else getattr(module_reader, name)
    globals()[name] = value
    return value
