"""The typed form of the attributes, ``#hespas.cost<flops = 4 : i64, ...>``, in native modules.

The dictionary form is the default: every MLIR tool accepts it, and bytecode and VHLO preserve it.
The typed form is for flows that load the dialect (``xdsl_dialect``). MLIR without the dialect reads
it as an opaque attribute, and only if unregistered dialects are allowed.
"""

from __future__ import annotations

from hespas.dialects.attr_schema import AttrRecord, list_attr_fields
from hespas.dialects.attrs import BY_NAME
from hespas.dialects.mlir import ir, walk_operations
from hespas.support.errors import HespasError


def to_typed_text(module: ir.Module, *, generic: bool = False, debug_info: bool = False) -> str:
    """Return the text of ``module`` with typed attributes, without changing ``module``.

    Args:
        generic: Print ops in generic form.
        debug_info: Print locations.

    Raises:
        HespasError: An attribute violates the schema.
    """
    copy = module.operation.clone().operation
    typed_by_dictionary: dict[tuple[str, ir.Attribute], ir.Attribute] = {}

    def visit_op(op: ir.Operation) -> ir.WalkResult:
        attributes = op.attributes
        for name in [name for name in attributes if name in BY_NAME]:
            attr = attributes[name]
            if isinstance(attr, ir.DictAttr):
                if (name, attr) not in typed_by_dictionary:
                    record = BY_NAME[name].from_dictionary_attr(attr, op)
                    typed_by_dictionary[name, attr] = _to_opaque_attr(record, op.context)
                attributes[name] = typed_by_dictionary[name, attr]
        return ir.WalkResult.ADVANCE

    walk_operations(copy, visit_op)
    # The verifier would require that the dialect is registered.
    text = copy.get_asm(
        enable_debug_info=debug_info, print_generic_op_form=generic, assume_verified=True
    )
    return f"{str(text).rstrip()}\n"


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


def _to_opaque_attr(record: AttrRecord, context: ir.Context) -> ir.Attribute:
    attr = record.to_dictionary_attr(context)
    names = [declared.name for declared in list_attr_fields(type(record)) if declared.name in attr]
    entries = ", ".join(f"{name} = {attr[name]}" for name in names)
    text = f"{record.NAME.partition('.')[2]}<{entries}>"
    return ir.OpaqueAttr.get("hespas", text.encode(), ir.NoneType.get(context), context)


def _to_dictionary_attr(name: str, attr: ir.OpaqueAttr, op: ir.Operation) -> ir.Attribute:
    text = bytes(attr.data).decode()
    short_name, _, rest = text.partition("<")
    if (
        attr.dialect_namespace != "hespas"
        or f"hespas.{short_name}" != name
        or not rest.endswith(">")
    ):
        raise HespasError(f"{name} must be #{name}<...>, not {attr}", op=op)
    try:
        dictionary = ir.Attribute.parse(f"{{{rest[:-1]}}}", op.context)
    except ir.MLIRError:
        raise HespasError(f"cannot read the fields of {attr}", op=op) from None
    return BY_NAME[name].from_dictionary_attr(dictionary, op).to_dictionary_attr(op.context)
