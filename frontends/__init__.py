"""Reading modules: StableHLO text, bytecode, portable artifacts, HLO text and protobuf, JAX."""

from hespas.frontends.jax import from_jax
from hespas.frontends.reader import load, parse, read, shown

__all__ = ["from_jax", "load", "parse", "read", "shown"]
