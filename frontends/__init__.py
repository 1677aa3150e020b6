"""Reading modules: StableHLO text, bytecode, portable artifacts, HLO text and protobuf, JAX."""

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
