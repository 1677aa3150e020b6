"""Constants whose values are resources of the module, as PyTorch's exporters write them.

The bindings have no class for them: their values are in the text of an op only.
"""

from __future__ import annotations

import math
import re

from hespas.dialects.mlir import ir

RESOURCE = "dense_resource<"
BLOB = r'^ *(\S+): "0x[0-9A-F]{8}([0-9A-F]+)",?$'  # name, alignment, bytes
SMALL_RESOURCE_ELEMENTS = 4096  # of a constant that may count the trips of a loop


def find_resource_name(value: ir.Attribute | None) -> str:
    """Return the name of the resource that holds the elements of a constant; "" if none does."""
    # Other constants, which may be large, have classes of their own.
    if type(value) is not ir.Attribute or not str(value).startswith(RESOURCE):
        return ""
    return str(value).removeprefix(RESOURCE).split(">", 1)[0]


def read_small_resource(op: ir.Operation, value: ir.Attribute | None) -> ir.Attribute | None:
    """Return the elements of a constant in a resource as plain ones, if they are few.

    None if the constant is no resource, is large or damaged, or if a printer left its value out.

    Args:
        op: The constant.
        value: Its value.
    """
    name = find_resource_name(value)
    kind = op.results[0].type if name else None
    if not isinstance(kind, ir.ShapedType) or not kind.has_static_shape:
        return None
    if math.prod(kind.shape) > SMALL_RESOURCE_ELEMENTS:
        return None
    # A copy prints its own resources only, and no other op.
    blobs = dict(re.findall(BLOB, str(op.clone()), re.MULTILINE))
    try:
        return ir.Attribute.parse(f'dense<"0x{blobs.get(name, "")}"> : {kind}', op.context)
    except (ir.MLIRError, TypeError):  # TypeError: complex elements
        return None
