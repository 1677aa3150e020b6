"""Conversion of modules between MLIR's bindings and xDSL, in memory.

``to_xdsl_module`` copies a native module into xDSL objects, and ``to_native_module`` copies it
back, without loss, locations included. Types and attributes become those of xDSL's builtin dialect
if these are exact. Others stay native objects, wrapped in an xDSL attribute that prints as native
text.

An op becomes an instance of its xDSL class if the xDSL context has one and the attributes of its
definition and its result types are xDSL's. Otherwise it becomes an unregistered op.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects import builtin as x
from xdsl.ir import (
    Attribute,
    Block,
    Operation,
    OpTrait,
    Region,
    SSAValue,
)
from xdsl.irdl import IRDLOperation
from xdsl.traits import SymbolTable

from hespas.dialects.mlir import ir, make_context
from hespas.dialects.xdsl_export import ModuleExporter, Warn
from hespas.dialects.xdsl_native import (
    FORWARD,
    NATIVE,
    NativeAttr,
    NativeLoc,
    NativeText,
    NativeType,
)
from hespas.support.errors import HespasError, extract_first_diagnostic

SCALARS: dict[str, Attribute] = {
    "index": x.IndexType(),
    "bf16": x.bf16,
    "f16": x.f16,
    "f32": x.f32,
    "f64": x.f64,
}


def to_xdsl_module(module: ir.Module, context: Context | None = None) -> x.ModuleOp:
    """Return a copy of ``module`` in xDSL.

    Args:
        context: The xDSL context, which defines the op classes (default: builtin).

    Raises:
        HespasError: An operand is defined after its use, in a graph region.
    """
    if context is None:
        context = Context(allow_unregistered=True)
        context.load_dialect(x.Builtin)
    copy = _ModuleImporter(context).import_operation(module.operation, [])
    assert isinstance(copy, x.ModuleOp)
    return copy


def to_native_module(
    module: x.ModuleOp, context: ir.Context | None = None, *, warn: Warn = warnings.warn
) -> ir.Module:
    """Return a copy of ``module`` in MLIR, with ``hespas`` attributes in dictionary form.

    Args:
        context: The MLIR context. The default is the one of the module that was converted to
            ``module``, or a new one that accepts unregistered ops.
        warn: Receives warnings about float constants that xDSL's parser has misread (see
            ``docs/how-to/xdsl.md``).

    Raises:
        HespasError: MLIR does not accept the module.
    """
    context = context or _find_native_context(module) or make_context(allow_unregistered=True)
    with context:
        native = ModuleExporter(context, warn).export_module(module)
    try:
        native.operation.verify()
    except ir.MLIRError as error:
        raise HespasError(f"MLIR does not accept it: {extract_first_diagnostic(error)}") from None
    return native


def replace_contents(module: x.ModuleOp, by: x.ModuleOp) -> None:
    """Replace the contents of ``module`` by those of ``by``, which becomes empty."""
    module.detach_region(module.body)
    module.add_region(by.detach_region(by.body))
    module.attributes = by.attributes
    module.properties = by.properties
    module.location = by.location


def _find_native_context(module: x.ModuleOp) -> ir.Context | None:
    location: Attribute = module.location
    return location.data.context if isinstance(location, NativeLoc) else None


# Native to xDSL

Pairs = Sequence[tuple[ir.Block, Block]]


@dataclass
class _ModuleImporter:
    context: Context
    values: dict[ir.Value, SSAValue] = field(default_factory=dict)
    attributes: dict[ir.Attribute, Attribute] = field(default_factory=dict)
    types: dict[ir.Type, Attribute] = field(default_factory=dict)
    registered: dict[str, type[IRDLOperation] | None] = field(
        default_factory=lambda: {x.ModuleOp.name: x.ModuleOp}
    )
    unregistered: dict[str, type[Operation]] = field(default_factory=dict)
    inherent: dict[tuple[str, str], bool] = field(default_factory=dict)

    def import_operation(self, op: ir.Operation, siblings: Pairs) -> Operation:
        """Return a copy of an op with its bodies; ``siblings`` are the blocks of its region."""
        name = op.name
        native = op.attributes
        entries: dict[str, Attribute] = {}
        for index, key in enumerate(native):
            try:
                entries[key] = self.import_attribute(native[key])
            except TypeError:
                # Asking the NamedAttribute for its value would end the process; its text is safe.
                entries[key] = NativeText(repr(native[index])[len(f"NamedAttribute({key}=") : -1])
        result_types = [self.import_type(result.type) for result in op.results]
        cls = self.find_registered_class(name)
        declared = cls.get_irdl_definition().properties if cls else ()
        typed = [*result_types, *(entries[key] for key in entries if key in declared)]
        if cls is not None and not any(isinstance(value, NATIVE) for value in typed):
            properties = {key for key in entries if key in declared}
        else:
            cls = self.get_unregistered_class(name)
            properties = {key for key in entries if self.is_inherent_attribute(op, key)}
        new = cls.create(
            operands=[self.look_up_value(operand, op) for operand in op.operands],
            result_types=result_types,
            properties={key: entries[key] for key in entries if key in properties},
            attributes={key: entries[key] for key in entries if key not in properties},
            location=NativeLoc(op.location),  # type: ignore[arg-type]
            successors=[
                next(copy for block, copy in siblings if block == successor)
                for successor in op.successors
            ],
            regions=[self.import_region(region) for region in op.regions],
        )
        for result, copy in zip(op.results, new.results, strict=True):
            self.values[result] = copy
        return new

    def look_up_value(self, value: ir.Value, user: ir.Operation) -> SSAValue:
        try:
            return self.values[value]
        except KeyError:
            raise HespasError(FORWARD, op=user) from None

    def import_region(self, region: ir.Region) -> Region:
        pairs: list[tuple[ir.Block, Block]] = []
        for block in region.blocks:
            copy = Block(
                arg_types=[self.import_type(argument.type) for argument in block.arguments]
            )
            for argument, new in zip(block.arguments, copy.args, strict=True):
                self.values[argument] = new
                new.location = NativeLoc(argument.location)  # type: ignore[assignment]
            pairs.append((block, copy))
        for block, copy in pairs:
            copy.add_ops([self.import_operation(op.operation, pairs) for op in block.operations])
        return Region([copy for _, copy in pairs])

    def find_registered_class(self, name: str) -> type[IRDLOperation] | None:
        """Return the xDSL class of an op, or None if the context has none."""
        if name not in self.registered:
            cls = self.context.get_optional_op(name)
            known = cls if cls is not None and issubclass(cls, IRDLOperation) else None
            self.registered[name] = known
        return self.registered[name]

    def get_unregistered_class(self, name: str) -> type[Operation]:
        if name not in self.unregistered:
            self.unregistered[name] = _make_unregistered_class(name)
        return self.unregistered[name]

    def is_inherent_attribute(self, op: ir.Operation, key: str) -> bool:
        """Return whether an attribute is part of the op's definition: its view has a property."""
        known = self.inherent.get((op.name, key))
        if known is None:
            classes = type(op.opview).__mro__
            views = classes[: classes.index(ir.OpView)] if ir.OpView in classes else ()
            known = any(isinstance(vars(view).get(key), property) for view in views)
            self.inherent[op.name, key] = known
        return known

    def import_attribute(self, attr: ir.Attribute) -> Attribute:
        imported = self.attributes.get(attr)
        if imported is None:
            imported = self.attributes[attr] = self.convert_attribute(attr)
        return imported

    def convert_attribute(self, attr: ir.Attribute) -> Attribute:
        """Return the attribute in xDSL's form if that is exact, or wrapped."""
        match attr:
            case ir.StringAttr():
                try:
                    return x.StringAttr(attr.value_bytes.decode())
                except UnicodeDecodeError:
                    return NativeAttr(attr)
            case ir.BoolAttr():
                return x.IntegerAttr.from_bool(attr.value)
            case ir.IntegerAttr():
                kind = self.import_type(attr.type)
                if isinstance(kind, x.IndexType | x.IntegerType):
                    return x.IntegerAttr(attr.value, kind)
            case ir.FloatAttr():
                kind = self.import_type(attr.type)
                if isinstance(kind, x.Float32Type | x.Float64Type) and math.isfinite(attr.value):
                    return x.FloatAttr(attr.value, kind)
            case ir.UnitAttr():
                return x.UnitAttr()
            case ir.TypeAttr():
                return self.import_type(attr.value)
            case ir.FlatSymbolRefAttr():
                return x.SymbolRefAttr(attr.value)
            case ir.DenseI64ArrayAttr():
                return x.DenseArrayBase.from_list(x.i64, list(attr))
            case ir.DenseI32ArrayAttr():
                return x.DenseArrayBase.from_list(x.i32, list(attr))
            case ir.ArrayAttr() | ir.DictAttr():
                try:
                    if isinstance(attr, ir.ArrayAttr):
                        return x.ArrayAttr([self.import_attribute(item) for item in attr])
                    names = [entry.name for entry in attr]
                    return x.DictionaryAttr(
                        {name: self.import_attribute(attr[name]) for name in names}
                    )
                except TypeError:  # it holds a complex dense constant
                    return NativeAttr(attr)
        return NativeAttr(attr)

    def import_type(self, kind: ir.Type) -> Attribute:
        imported = self.types.get(kind)
        if imported is None:
            imported = self.types[kind] = self.convert_type(kind)
        return imported

    def convert_type(self, kind: ir.Type) -> Attribute:
        if str(kind) in SCALARS:
            return SCALARS[str(kind)]
        match kind:
            case ir.IntegerType():
                sign = x.Signedness.SIGNLESS
                if not kind.is_signless:
                    sign = x.Signedness.SIGNED if kind.is_signed else x.Signedness.UNSIGNED
                return x.IntegerType(kind.width, sign)
            case ir.RankedTensorType():
                element = self.import_type(kind.element_type)
                if kind.encoding is None:
                    shape = [
                        x.DYNAMIC_INDEX if kind.is_dynamic_dim(i) else kind.get_dim_size(i)
                        for i in range(kind.rank)
                    ]
                    return x.TensorType(element, shape)
            case ir.FunctionType():
                inputs = [self.import_type(part) for part in kind.inputs]
                return x.FunctionType.from_lists(
                    inputs, [self.import_type(r) for r in kind.results]
                )
        return NativeType(kind)


def _make_unregistered_class(name: str) -> type[Operation]:
    class NativeOp(x.UnregisteredOp.with_name(name)):
        @classmethod
        def has_trait(
            cls, trait: type[OpTrait] | OpTrait, *, value_if_unregistered: bool = True
        ) -> bool:
            # With a symbol table, xDSL would look for the callee of a call in a loop in that loop.
            if trait is SymbolTable or isinstance(trait, SymbolTable):
                return False
            return value_if_unregistered

    return NativeOp
