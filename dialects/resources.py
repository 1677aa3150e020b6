"""Constants whose values are resources of the module, as PyTorch's exporters write them.

The bindings have no class for them: their values are in the text of an op only.
"""

from __future__ import annotations

import re

from hespas.dialects.mlir import cache_ir_function, ir

RESOURCE = r'dense_resource<("(?:[^"\\]|\\.)*"|[^>]*)>'
ALIGNMENT_DIGITS = 8  # before the bytes of a resource
FEW_DIGITS = 1 << 16  # of a constant whose text is that of a plain one with these elements


def find_resource_name(value: ir.Attribute | None) -> str:
    """Return the name of the resource that holds the elements of a constant; "" if none does."""
    # Other constants, which may be large, have classes of their own.
    found = re.match(RESOURCE, str(value)) if type(value) is ir.Attribute else None
    return found[1] if found else ""


def read_resource_digits(value: ir.Attribute) -> str:
    """Return the bytes of a resource as hexadecimal digits; "" if a printer has left them out."""
    # An op prints its own resources only, and no other op.
    with ir.Location.unknown(value.context):
        attributes = {"value": value}
        op = ir.Operation.create("stablehlo.constant", [value.type], attributes=attributes)
    blob = str(op).partition(f' {find_resource_name(value)}: "0x')[2]
    return blob[ALIGNMENT_DIGITS : blob.find('"')]


def format_elements(value: ir.Attribute) -> str:
    """Return the elements of a constant as text, those of a resource instead of its name."""
    digits = read_resource_digits(value) if find_resource_name(value) else ""
    few = read_resource(value) if 0 < len(digits) <= FEW_DIGITS else None
    return _format_dense(digits, value.type) if digits and few is None else str(few or value)


@cache_ir_function(64)
def read_resource(value: ir.Attribute) -> ir.Attribute | None:
    """Return the elements of a constant in a resource as plain ones.

    None if the constant is no resource, is damaged, or if a printer left its value out.
    """
    if not find_resource_name(value):
        return None
    digits = read_resource_digits(value)
    try:
        return ir.Attribute.parse(_format_dense(digits, value.type), value.context)
    except (ir.MLIRError, TypeError):  # TypeError: complex elements
        return None


def _format_dense(digits: str, kind: ir.Type) -> str:
    return f'dense<"0x{digits}"> : {kind}'
