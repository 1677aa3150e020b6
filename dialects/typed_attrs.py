"""The typed form of the attributes, ``#hespas.cost<flops = 4 : i64, ...>``, in native modules.

The dictionary form is the default: every MLIR tool accepts it, and bytecode and VHLO preserve it.
The typed form is for flows that load the dialect (``xdsl_dialect``). MLIR without the dialect reads
it as an opaque attribute, and only if unregistered dialects are allowed.
"""

from __future__ import annotations

import re

from hespas.dialects.attr_schema import AttrRecord, list_attr_fields
from hespas.dialects.attrs import BY_NAME
from hespas.dialects.mlir import ir, walk_operations
from hespas.support.errors import HespasError

NAMED_FIELD = re.compile(r"\s*\w+\s*=")


def copy_with_typed_attributes(module: ir.Module) -> ir.Operation:
    """Return a copy of ``module`` with typed attributes.

    The verifier would require that the dialect is registered: print the copy with
    ``assume_verified``. Raises HespasError for an attribute that violates the schema.
    """
    copy = module.operation.clone().operation
    typed_by_dictionary: dict[tuple[str, ir.Attribute], ir.Attribute] = {}

    def visit_op(op: ir.Operation) -> ir.WalkResult:
        attributes = op.attributes
        for name in [name for name in attributes if name in BY_NAME]:
            attr = attributes[name]
            if isinstance(attr, ir.DictAttr):
                if (name, attr) not in typed_by_dictionary:
                    BY_NAME[name].from_dictionary_attr(attr, op)  # raises for another schema
                    typed_by_dictionary[name, attr] = _to_opaque_attr(BY_NAME[name], attr)
                attributes[name] = typed_by_dictionary[name, attr]
        return ir.WalkResult.ADVANCE

    walk_operations(copy, visit_op)
    return copy


def replace_typed_attributes(module: ir.Module) -> None:
    """Replace the typed attributes of ``module`` by dictionaries, in place.

    Raises:
        HespasError: An attribute violates the schema.
    """

    def visit_op(op: ir.Operation) -> ir.WalkResult:
        attributes = op.attributes
        for name in [name for name in attributes if name in BY_NAME]:
            attr = attributes[name]
            if isinstance(attr, ir.OpaqueAttr):
                attributes[name] = _to_dictionary_attr(name, attr, op)
        return ir.WalkResult.ADVANCE

    walk_operations(module.operation, visit_op)


def _to_opaque_attr(record: type[AttrRecord], attr: ir.DictAttr) -> ir.Attribute:
    names = [declared.name for declared in list_attr_fields(record) if declared.name in attr]
    entries = ", ".join(f"{name} = {attr[name]}" for name in names)
    text = f"{record.NAME.partition('.')[2]}<{entries}>"
    context = attr.context
    return ir.OpaqueAttr.get("hespas", text.encode(), ir.NoneType.get(context), context)


def _to_dictionary_attr(name: str, attr: ir.OpaqueAttr, op: ir.Operation) -> ir.Attribute:
    """Return the dictionary of a typed attribute, whose fields have names or are in order.

    Tools that know the dialect from ``hespas.irdl`` write all fields in the order of the schema,
    with ``unit`` for one that is unset.
    """
    text = bytes(attr.data).decode()
    short_name, _, rest = text.partition("<")
    if (
        attr.dialect_namespace != "hespas"
        or f"hespas.{short_name}" != name
        or not rest.endswith(">")
    ):
        raise HespasError(f"{name} must be #{name}<...>, not {attr}", op=op)
    record, fields = BY_NAME[name], rest[:-1]
    try:
        if not fields.strip() or NAMED_FIELD.match(fields):
            dictionary = ir.Attribute.parse(f"{{{fields}}}", op.context)
        else:
            values = ir.ArrayAttr(ir.Attribute.parse(f"[{fields}]", op.context))
            dictionary = _name_fields(record, values, attr, op)
    except ir.MLIRError:
        raise HespasError(f"cannot read the fields of {attr}", op=op) from None
    record.from_dictionary_attr(dictionary, op)  # raises for another schema
    return dictionary


def _name_fields(
    record: type[AttrRecord], values: ir.ArrayAttr, attr: ir.Attribute, op: ir.Operation
) -> ir.Attribute:
    names = [declared.name for declared in list_attr_fields(record)]
    if len(values) != len(names):
        raise HespasError(
            f"{attr} has {len(values)} fields, not {len(names)}",
            op=op,
            remedy=f"they are {', '.join(names)}; unit for one that is unset",
        )
    entries = {
        name: value
        for name, value in zip(names, values, strict=True)
        if not isinstance(value, ir.UnitAttr)
    }
    return ir.DictAttr.get(entries, op.context)
