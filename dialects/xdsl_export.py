"""Conversion of an xDSL module to a native one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import builtin as x
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue, TypeAttribute

from hespas.dialects.mlir import ir
from hespas.dialects.xdsl_dialect import TypedRecordAttr
from hespas.dialects.xdsl_native import FORWARD, NativeAttr, NativeLoc, NativeText, NativeType
from hespas.support.errors import HespasError, format_source_position

Warn = Callable[[str], None]
# Values that xDSL 0.74 reads from the hexadecimal form of infinities and NaN in dense<...>.
CORRUPTED: dict[type[Attribute], dict[float, str]] = {
    x.Float16Type: {float(0x7C00): "inf", float(0xFC00): "-inf", float(0x7E00): "nan"},
    x.BFloat16Type: {float(0x7F80): "inf", 65536.0: "-inf", float(0x7FC0): "nan"},
    x.Float32Type: {
        float(0x7F800000): "inf",
        float(0xFF800000): "-inf",
        float(0x7FC00000): "nan",
        float(0xFFC00000): "nan",
    },
    x.Float64Type: {
        float(0x7FF << 52): "inf",
        float(0xFFF << 52): "-inf",
        float(0xFFF << 51): "nan",
    },
}


@dataclass
class ModuleExporter:
    """Copies an xDSL module into a native one; the native context must be entered."""

    context: ir.Context
    warn: Warn
    values: dict[SSAValue, ir.Value] = field(default_factory=dict)
    attributes: dict[Attribute, ir.Attribute] = field(default_factory=dict)
    types: dict[Attribute, ir.Type] = field(default_factory=dict)

    def export_module(self, module: x.ModuleOp) -> ir.Module:
        native = ir.Module.create(self.export_location(module.location))
        for key, attr in {**module.properties, **module.attributes}.items():
            native.operation.attributes[key] = self.export_attribute(attr)
        for block in module.body.blocks:  # one, or none in `"builtin.module"() ({})`
            self.export_block(block, native.body, [])
        return native

    def export_block(
        self, block: Block, native: ir.Block, siblings: Sequence[tuple[Block, ir.Block]]
    ) -> None:
        insertion = ir.InsertionPoint(native)
        for op in block.ops:
            self.export_operation(op, insertion, siblings)

    def export_operation(
        self,
        op: Operation,
        insertion: ir.InsertionPoint,
        siblings: Sequence[tuple[Block, ir.Block]],
    ) -> None:
        name = op.op_name.data if isinstance(op, x.UnregisteredOp) else op.name
        entries = {**op.properties, **op.attributes}
        entries.pop("op_name__", None)
        location = self.export_location(op.location)
        operands = [self.look_up_value(operand, name, location) for operand in op.operands]
        results = [self.export_type(result.type) for result in op.results]
        if any(isinstance(attr, NativeText) for attr in entries.values()):
            if op.regions or op.successors:
                raise HespasError(
                    f"'{name}' has a complex constant and a body",
                    where=format_source_position(location),
                )
            new = self.create_op_from_text(name, entries, operands, results, location)
            insertion.insert(new)
        else:
            new = ir.Operation.create(
                name,
                results,
                operands,
                {key: self.export_attribute(attr, name) for key, attr in entries.items()},
                [next(copy for block, copy in siblings if block is s) for s in op.successors],
                len(op.regions),
                location,
                insertion,
            )
        for result, copy in zip(op.results, new.results, strict=True):
            self.values[result] = copy
        for region, copy in zip(op.regions, new.regions, strict=True):
            self.export_region(region, copy)

    def export_region(self, region: Region, native: ir.Region) -> None:
        pairs: list[tuple[Block, ir.Block]] = []
        for block in region.blocks:
            types = [self.export_type(argument.type) for argument in block.args]
            locations = [self.export_location(argument.location) for argument in block.args]
            copy = (
                pairs[-1][1].create_after(*types, arg_locs=locations)
                if pairs
                else ir.Block.create_at_start(native, types, locations)
            )
            self.values.update(zip(block.args, copy.arguments, strict=True))
            pairs.append((block, copy))
        for block, copy in pairs:
            self.export_block(block, copy, pairs)

    def create_op_from_text(
        self,
        name: str,
        entries: dict[str, Attribute],
        operands: Sequence[ir.Value],
        results: Sequence[ir.Type],
        location: ir.Location,
    ) -> ir.Operation:
        """Create an op from its generic text, for attributes that the bindings cannot pass."""
        inputs = [str(operand.type) for operand in operands]
        cast = '"builtin.unrealized_conversion_cast"() : () ->'
        lines = [f"%{index} = {cast} {kind}" for index, kind in enumerate(inputs)]
        texts = {
            key: attr.data if isinstance(attr, NativeText) else self.export_attribute(attr, name)
            for key, attr in entries.items()
        }
        words = [f'"{key}" = {text}' for key, text in texts.items()]
        used = ", ".join(f"%{index}" for index in range(len(inputs)))
        kinds = f"({', '.join(inputs)}) -> ({', '.join(str(kind) for kind in results)})"
        bound = f"%r:{len(results)} = " if results else ""
        lines.append(f'{bound}"{name}"({used}) {{{", ".join(words)}}} : {kinds} {location}')
        holder = ir.Module.parse("\n".join(lines), self.context)
        new = list(holder.body.operations)[-1].operation
        for index, operand in enumerate(operands):
            new.operands[index] = operand
        new.detach_from_parent()
        return new

    def look_up_value(self, value: SSAValue, user: str, location: ir.Location) -> ir.Value:
        try:
            return self.values[value]
        except KeyError:
            raise HespasError(
                f"'{user}': {FORWARD}", where=format_source_position(location)
            ) from None

    def export_location(self, attr: Attribute) -> ir.Location:
        if isinstance(attr, NativeLoc) and attr.data.context is self.context:
            return attr.data
        if isinstance(attr, x.UnknownLoc):
            return ir.Location.unknown(self.context)
        # The bindings do not parse locations alone.
        return ir.Module.parse(f"module {{}} {attr}", self.context).operation.location

    def export_attribute(self, attr: Attribute, user: str = "builtin.module") -> ir.Attribute:
        exported = self.attributes.get(attr)
        if exported is None:
            exported = self.attributes[attr] = self.convert_attribute(attr, user)
        return exported

    def convert_attribute(self, attr: Attribute, user: str) -> ir.Attribute:
        match attr:
            case NativeAttr() if attr.data.context is self.context:
                return attr.data
            case TypedRecordAttr():
                return self.export_attribute(attr.to_dictionary(), user)
            case x.StringAttr():
                return ir.StringAttr.get(attr.data)
            case x.FloatAttr() if isinstance(attr.type, x.Float64Type):
                unknown = ir.Location.unknown(self.context)
                return ir.FloatAttr.get(ir.F64Type.get(), attr.value.data, unknown)
            case x.ArrayAttr():
                return ir.ArrayAttr.get([self.export_attribute(item, user) for item in attr.data])
            case x.DictionaryAttr():
                entries = {
                    key: self.export_attribute(item, user) for key, item in attr.data.items()
                }
                return ir.DictAttr.get(entries)
            case TypeAttribute():
                return ir.TypeAttr.get(self.export_type(attr))
            case x.DenseIntOrFPElementsAttr():
                self.warn_of_corrupted_constant(attr, user)
        try:
            return ir.Attribute.parse(str(attr), self.context)
        except ir.MLIRError:
            raise HespasError(f"'{user}': MLIR does not know the attribute {attr}") from None

    def warn_of_corrupted_constant(self, attr: x.DenseIntOrFPElementsAttr, user: str) -> None:
        """Warn of values that xDSL's parser misread from ``dense<0xFF800000>`` and the like."""
        element = attr.type.get_element_type()
        suspects = CORRUPTED.get(type(element))
        if suspects is None:
            return
        values = [next(iter(attr.iter_values()))] if attr.is_splat() else attr.iter_values()
        suspect = next((value for value in values if value in suspects), None)
        if suspect is not None:
            self.warn(
                f"'{user}': {suspect:g} in a constant is the bit pattern of {suspects[suspect]}, "
                "which xDSL's parser reads as a number; read the file with the pass hespas-read "
                "instead"
            )

    def export_type(self, kind: Attribute) -> ir.Type:
        exported = self.types.get(kind)
        if exported is None:
            if isinstance(kind, NativeType) and kind.data.context is self.context:
                exported = kind.data
            else:
                try:
                    exported = ir.Type.parse(str(kind), self.context)
                except ir.MLIRError:
                    raise HespasError(f"MLIR does not know the type {kind}") from None
            self.types[kind] = exported
        return exported
