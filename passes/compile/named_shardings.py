"""Shardings of HLO that name the axes of a mesh, in the form with numbers that XLA imports.

XLA of jax 0.12 writes ``{mesh['x'=2,'y'=4], [{'y'}, {}]}``, and its own importer of StableHLO
refuses it. In numbers, it is ``{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}``.
"""

from __future__ import annotations

import math
import re

from hespas.dialects.mlir import decode_string_attr, get_attribute, ir, list_dictionary_entries

SHARDING = "mhlo.sharding"
MARK = "mesh["
PROTO_START = (
    "\x08"  # the tag of the first field of an OpSharding, which early versions of JAX write
)
_LEAF = re.compile(
    r"\{mesh\[(?P<axes>[^\]]*)\](, \[(?P<dims>[^\]]*)\])?(, replicated=\{[^}]*\})?\}"
)
_AXIS = re.compile(r"'([^']*)'=(\d+)")
_DIMENSION = re.compile(r"\{([^}]*)\}")
_NAME = re.compile(r"'([^']*)'(:\(\d+\)\d+)?")


def replace_named_shardings(module: ir.Module) -> None:
    """Replace the named and serialised shardings of a module.

    Raises:
        ValueError: A named sharding has a form that is not known.
    """

    def replace_on_op(op: ir.Operation) -> ir.WalkResult:
        _replace_in_attributes(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(replace_on_op)


def number_sharding(text: str) -> str:
    """Return an HLO sharding, or a tuple of them, without names; raises ValueError."""
    numbered = _LEAF.sub(_number_leaf, text)
    if MARK in numbered:
        raise ValueError(f"the sharding {text} has a form that is not known")
    return numbered


def _number_leaf(match: re.Match[str]) -> str:
    axes = {name: int(size) for name, size in _AXIS.findall(match["axes"])}
    used: list[str] = []
    tiles: list[int] = []
    for dimension in _DIMENSION.findall(match["dims"] or ""):
        names = _NAME.findall(dimension)
        if any(part or name not in axes for name, part in names):
            return match[0]  # a part of an axis
        used += [name for name, _ in names]
        tiles.append(math.prod(axes[name] for name, _ in names))
    if not used:
        return "{replicated}"
    order = [*used, *(name for name in axes if name not in used)]
    numbers = [list(axes).index(name) for name in order]
    count = math.prod(axes.values())
    copies = count // math.prod(tiles)
    devices = f"[{count}]"  # XLA reads more dimensions only with an order of them
    if numbers != sorted(numbers):
        devices = f"[{','.join(map(str, axes.values()))}]T({','.join(map(str, numbers))})"
    tile = ",".join(map(str, [*tiles, *([copies] if copies > 1 else [])]))
    suffix = " last_tile_dim_replicate" if copies > 1 else ""
    return f"{{devices=[{tile}]<={devices}{suffix}}}"


def _replace_in_attributes(op: ir.Operation) -> None:
    """Replace the shardings of an op, or of a function's arguments and results."""
    if SHARDING in op.attributes:
        op.attributes[SHARDING] = _number_attribute(op.attributes[SHARDING])
    for where in ("arg_attrs", "res_attrs"):
        if where not in op.attributes:
            continue
        dictionaries = [
            {key: value for key, value in list_dictionary_entries(attr) if value is not None}
            for attr in get_attribute(op, where)
        ]
        if any(SHARDING in dictionary for dictionary in dictionaries):
            for dictionary in dictionaries:
                if SHARDING in dictionary:
                    dictionary[SHARDING] = _number_attribute(dictionary[SHARDING])
            op.attributes[where] = ir.ArrayAttr.get(
                [ir.DictAttr.get(one, op.context) for one in dictionaries], op.context
            )


def is_numbered(text: str) -> bool:
    """Return whether an HLO sharding has the form with numbers."""
    return MARK not in text and not text.startswith(PROTO_START)


def _number_attribute(attribute: ir.Attribute) -> ir.Attribute:
    string = ir.StringAttr(attribute)
    if string.value_bytes.startswith(PROTO_START.encode()):
        return ir.StringAttr.get(_proto_to_text(string.value_bytes), attribute.context)
    text = decode_string_attr(string)
    return (
        ir.StringAttr.get(number_sharding(text), attribute.context) if MARK in text else attribute
    )


def _proto_to_text(proto: bytes) -> str:
    """Convert a serialised OpSharding to text."""
    from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]

    sharding = _hlo.OpSharding()
    sharding.ParseFromString(proto)
    return str(_hlo.HloSharding.from_proto(sharding))
