"""The typed form of the attributes, ``#hespas.cost<flops = 4 : i64, ...>``, on the native IR.

The dictionary form is the default: every MLIR tool accepts it, and it survives bytecode and VHLO.
The typed form is for flows that load the dialect (``xdsl_dialect``). MLIR without the dialect reads
it as an opaque attribute, and only where unregistered dialects are allowed.
"""

from __future__ import annotations

from hespas.dialects.attrs import BY_NAME, AttrRecord
from hespas.dialects.mlir import ir, walk_operations
from hespas.support.errors import HespasError


def to_typed_text(module: ir.Module, *, generic: bool = False, debug_info: bool = False) -> str:
    """The text of ``module`` with typed attributes; ``module`` itself stays as it is.

    Raises HespasError where an attribute breaks the schema.
    """
    copy = module.operation.clone().operation
    known: dict[ir.Attribute, ir.Attribute] = {}

    def visit_op(op: ir.Operation) -> ir.WalkResult:
        attributes = op.attributes
        for name in [name for name in attributes if name in BY_NAME]:
            attr = attributes[name]
            if isinstance(attr, ir.DictAttr):
                if attr not in known:
                    known[attr] = _to_opaque_attr(
                        BY_NAME[name].from_dictionary_attr(attr, op), op.context
                    )
                attributes[name] = known[attr]
        return ir.WalkResult.ADVANCE

    walk_operations(copy, visit_op)
    # The verifier would ask for the dialect to be registered.
    text = copy.get_asm(
        enable_debug_info=debug_info, print_generic_op_form=generic, assume_verified=True
    )
    return f"{str(text).rstrip()}\n"


def replace_typed_attributes(module: ir.Module) -> None:
    """Turn typed attributes of ``module`` into dictionaries, in place; raises HespasError."""

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
    fields = type(record).__dataclass_fields__  # type: ignore[attr-defined]
    words = ", ".join(f"{name} = {attr[name]}" for name in fields if name in attr)
    text = f"{record.NAME.partition('.')[2]}<{words}>"
    return ir.OpaqueAttr.get("hespas", text.encode(), ir.NoneType.get(context), context)


def _to_dictionary_attr(name: str, attr: ir.OpaqueAttr, op: ir.Operation) -> ir.Attribute:
    text = bytes(attr.data).decode()
    short, _, rest = text.partition("<")
    if attr.dialect_namespace != "hespas" or f"hespas.{short}" != name or not rest.endswith(">"):
        raise HespasError(f"{name} must be #{name}<...>, not {attr}", op=op)
    try:
        dictionary = ir.Attribute.parse(f"{{{rest[:-1]}}}", op.context)
    except ir.MLIRError:
        raise HespasError(f"cannot read the fields of {attr}", op=op) from None
    return BY_NAME[name].from_dictionary_attr(dictionary, op).to_dictionary_attr(op.context)
