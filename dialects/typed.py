"""The typed form of the attributes, ``#hespas.cost<flops = 4 : i64, ...>``, on the native IR.

The dictionary form is the default: every MLIR tool accepts it, and it survives bytecode and VHLO.
The typed form is for flows that load the dialect (``xdsl_dialect``). MLIR without the dialect reads
it as an opaque attribute, and only where unregistered dialects are allowed.
"""

from __future__ import annotations

from hespas.dialects.attrs import BY_NAME, Record
from hespas.dialects.errors import HespasError
from hespas.dialects.mlir import ir, walk


def to_typed(module: ir.Module, *, generic: bool = False, debug_info: bool = False) -> str:
    """The text of ``module`` with typed attributes; ``module`` itself stays as it is.

    Raises HespasError where an attribute breaks the schema.
    """
    copy = module.operation.clone().operation
    known: dict[ir.Attribute, ir.Attribute] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        attributes = op.attributes
        for name in [name for name in attributes if name in BY_NAME]:
            attr = attributes[name]
            if isinstance(attr, ir.DictAttr):
                if attr not in known:
                    known[attr] = _typed(BY_NAME[name].from_attr(attr, op), op.context)
                attributes[name] = known[attr]
        return ir.WalkResult.ADVANCE

    walk(copy, visit)
    # The verifier would ask for the dialect to be registered.
    text = copy.get_asm(
        enable_debug_info=debug_info, print_generic_op_form=generic, assume_verified=True
    )
    return f"{str(text).rstrip()}\n"


def from_typed(module: ir.Module) -> None:
    """Turn typed attributes of ``module`` into dictionaries, in place; raises HespasError."""

    def visit(op: ir.Operation) -> ir.WalkResult:
        attributes = op.attributes
        for name in [name for name in attributes if name in BY_NAME]:
            attr = attributes[name]
            if isinstance(attr, ir.OpaqueAttr):
                attributes[name] = _dictionary(name, attr, op)
        return ir.WalkResult.ADVANCE

    walk(module.operation, visit)


def _typed(record: Record, context: ir.Context) -> ir.Attribute:
    attr = record.to_attr(context)
    fields = type(record).__dataclass_fields__  # type: ignore[attr-defined]
    words = ", ".join(f"{name} = {attr[name]}" for name in fields if name in attr)
    text = f"{record.NAME.partition('.')[2]}<{words}>"
    return ir.OpaqueAttr.get("hespas", text.encode(), ir.NoneType.get(context), context)


def _dictionary(name: str, attr: ir.OpaqueAttr, op: ir.Operation) -> ir.Attribute:
    text = bytes(attr.data).decode()
    short, _, rest = text.partition("<")
    if attr.dialect_namespace != "hespas" or f"hespas.{short}" != name or not rest.endswith(">"):
        raise HespasError(f"{name} must be #{name}<...>, not {attr}", op=op)
    try:
        found = ir.Attribute.parse(f"{{{rest[:-1]}}}", op.context)
    except ir.MLIRError:
        raise HespasError(f"cannot read the fields of {attr}", op=op) from None
    return BY_NAME[name].from_attr(found, op).to_attr(op.context)
