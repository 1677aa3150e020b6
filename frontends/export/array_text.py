"""Text notation of arrays and shardings: ``bf16[1024,4096]@fsdp,tensor``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest

# Type names of HLO and of NumPy; ``key`` is a JAX random key.
DTYPES = {
    "bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64",
    "s8": "int8", "s16": "int16", "s32": "int32", "s64": "int64",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "i1": "bool", "pred": "bool",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "c64": "complex64", "c128": "complex128", "s4": "int4", "u4": "uint4", "i4": "int4",
    "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "f8e4m3": "float8_e4m3",
    "f4e2m1fn": "float4_e2m1fn", "f8e8m0fnu": "float8_e8m0fnu", "key": "key",
}  # fmt: skip
NAMES = {**DTYPES, **{name: name for name in DTYPES.values()}}
ARRAY = re.compile(r"\s*(\w+)\s*(?:\[([^\]]*)\])?\s*(@.*)?")
FORM = "write it as bf16[1024,4096]@fsdp,tensor"

Axes = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class ArraySpec:
    """An array: its NumPy type name, its shape, and its mesh axes by dimension if specified."""

    dtype: str
    shape: tuple[int, ...]
    axes: Axes | None = None


def parse_array_spec(text: str) -> ArraySpec:
    """Parse ``bf16[1024,4096]@fsdp,tensor``; a type without ``[]`` is a scalar.

    Raises:
        UsageError: If the text does not follow the notation.
    """
    match = ARRAY.fullmatch(text)
    if not match:
        raise UsageError(f"'{text}' is not an array", remedy=FORM)
    name, extents, spec = match.groups()
    if name not in NAMES:
        raise UsageError(f"'{text}': unknown type '{name}'", remedy=suggest_nearest(name, [*NAMES]))
    shape = [part.strip() for part in extents.split(",")] if extents and extents.strip() else []
    wrong = next((part for part in shape if not part.isdecimal()), None)
    if wrong is not None:
        raise UsageError(f"'{text}': '{wrong}' is not a dimension size", remedy=FORM)
    axes = parse_sharding_axes(spec) if spec else None
    if axes is not None and len(axes) > len(shape):
        raise UsageError(f"'{text}': {len(axes)} shardings for {len(shape)} dimensions")
    return ArraySpec(NAMES[name], tuple(map(int, shape)), axes)


def parse_sharding_axes(text: str) -> Axes:
    """Parse ``@fsdp,-,a+b``: mesh axes by dimension, ``-`` for none; ``@`` alone is replicated.

    Raises:
        UsageError: If the text does not follow the notation.
    """
    text = text.strip()
    if not text.startswith("@"):
        raise UsageError(f"'{text}' is not a sharding", remedy="write it as @fsdp,- or @")
    parts = text[1:].split(",") if text[1:].strip() else []
    axes = [tuple(name.strip() for name in part.split("+")) for part in parts]
    if any("" in names for names in axes):
        raise UsageError(
            f"'{text}': a dimension is empty", remedy="write - for a dimension that is not sharded"
        )
    return tuple(() if names == ("-",) else names for names in axes)


def to_shape_struct(value: ArraySpec) -> Any:
    """Convert an array specification to a ``jax.ShapeDtypeStruct``."""
    import jax

    if value.dtype == "key":
        return jax.ShapeDtypeStruct(value.shape, jax.eval_shape(jax.random.key, 0).dtype)
    return jax.ShapeDtypeStruct(value.shape, jax.numpy.dtype(value.dtype))


def to_partition_spec(axes: Axes | None) -> Any:
    """Convert mesh axes to a ``PartitionSpec``; None stays None."""
    from jax.sharding import PartitionSpec

    if axes is None:
        return None
    return PartitionSpec(*((part[0] if len(part) == 1 else part) or None for part in axes))
