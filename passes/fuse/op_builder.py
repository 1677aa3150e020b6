"""Helpers for creating ops and for finding ops to rewrite."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hespas.dialects.attrs import KernelAttr
from hespas.dialects.mlir import (
    cache_ir_function,
    collect_functions,
    create_before,
    erase_unused,
    find_ops,
    get_defining_op,
    has_static_shape,
    ir,
    list_users,
    to_i64_attr,
)
from hespas.dialects.op_bodies import is_small_constant
from hespas.dialects.op_kinds import CONTROL, FUSION
from hespas.estimators.rules.base import to_buffer_size
from hespas.passes.prepare.communicators import get_groups_attr
from hespas.passes.prepare.device_grid import (
    DeviceGrid,
    Groups,
    get_group_mode,
    parse_group_rows,
    resolve_groups,
)


def get_element_type(value: ir.Value) -> ir.Type:
    """Return the element type of a tensor."""
    kind = value.type
    assert isinstance(kind, ir.ShapedType)
    return kind.element_type


def get_static_shape(value: ir.Value) -> tuple[int, ...]:
    """Return the sizes of the dimensions of a tensor with static shape."""
    return to_buffer_size(value.type).shape


def make_i64_array(numbers: Sequence[int], context: ir.Context) -> ir.Attribute:
    """Make an ``array<i64>`` attribute."""
    return ir.DenseI64ArrayAttr.get(list(numbers), context)


def make_padding(pairs: Sequence[Sequence[int]], context: ir.Context) -> ir.Attribute:
    """Make the padding of a window: the elements before and after, for each dimension."""
    rows = [list(pair) for pair in pairs]
    return ir.Attribute.parse(f"dense<{rows}> : tensor<{len(rows)}x2xi64>", context)


def has_static_values(op: ir.Operation) -> bool:
    """Return whether the operands and results of an op are ranked tensors with static shapes."""
    kinds = [*op.results.types, *[value.type for value in op.operands]]
    return all(map(has_static_shape, kinds))


def find_named_ops(block: ir.Block, names: Collection[str]) -> list[ir.Operation]:
    """Find the ops of a block with one of the names and static shapes, in program order."""
    ops = find_ops(block.owner.operation, names)
    return [op for op in ops if op.block == block and has_static_values(op)]


T = TypeVar("T")


def find_only_reader(op: ir.Operation) -> ir.Operation | None:
    """Return the op that reads the result of an op, if it is one and reads it once."""
    readers = list_users(op.results[0])
    return readers[0] if len(readers) == 1 else None


def read_device_groups(op: ir.Operation, grid: DeviceGrid) -> Groups:
    """Return the groups of devices among which a collective communicates."""
    attr = get_groups_attr(op)
    rows = parse_group_rows(attr) if attr is not None else ()
    return resolve_groups(rows, get_group_mode(op), grid)


def sort_in_block_order(items: Iterable[T], op_of: Callable[[T], ir.Operation]) -> list[T]:
    """Sort items by the positions of their ops, which must be in one block."""

    def compare_positions(a: T, b: T) -> int:
        return -1 if op_of(a).is_before_in_block(op_of(b)) else 1

    return sorted(items, key=functools.cmp_to_key(compare_positions))


def collect_blocks(module: ir.Module) -> list[ir.Block]:
    """Collect the blocks of a module's functions and of their control flow, inner blocks first."""
    return [
        block
        for function in collect_functions(module).values()
        for op in (*find_ops(function, CONTROL), function)
        if _is_control_flow_of(function, op)
        for region in op.regions
        for block in region.blocks
    ]


def _is_control_flow_of(function: ir.Operation, op: ir.Operation) -> bool:
    """Return whether only control flow contains an op of a function, or it is the function."""
    while op != function:
        if op.name not in CONTROL or op.parent is None:
            return False
        op = op.parent.operation
    return True


def invert_order(order: Sequence[int]) -> list[int]:
    """Return the order of dimensions that undoes a transpose to another one."""
    return [order.index(dim) for dim in range(len(order))]


@cache_ir_function(4096)
def _make_tensor_type(shape: tuple[int, ...], like: ir.Type) -> ir.Type:
    """Make a tensor type of this shape with an element type, or that of another tensor type."""
    element = like.element_type if isinstance(like, ir.ShapedType) else like
    location = ir.Location.unknown(like.context)
    return ir.RankedTensorType.get(list(shape), element, loc=location)


@dataclass(frozen=True, slots=True)
class OpBuilder:
    """Creates ops before ``place``, with its location."""

    place: ir.Operation

    def make_tensor_type(self, shape: Sequence[int], like: ir.Value | ir.Type) -> ir.Type:
        """Make a tensor type of this shape with an element type, or that of a value."""
        return _make_tensor_type(tuple(shape), like if isinstance(like, ir.Type) else like.type)

    def create_op(
        self,
        name: str,
        operands: Sequence[ir.Value],
        results: Sequence[ir.Type],
        attributes: Mapping[str, ir.Attribute],
        body: ir.Operation | None = None,
    ) -> ir.Operation:
        """Create an op. With ``body``, its region is a copy of the region of that op."""
        regions = 0 if body is None else 1
        created_op = create_before(self.place, name, operands, results, attributes, regions)
        if body is not None:
            copy = body.clone(ir.InsertionPoint(self.place)).operation
            copy.regions[0].blocks[0].append_to(created_op.regions[0])
            copy.erase()
        return created_op

    def create_reshape(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        kind = self.make_tensor_type(shape, value)
        if kind == value.type:
            return value
        return self.create_op("stablehlo.reshape", [value], [kind], {}).results[0]

    def create_applied(self, name: str, *operands: ir.Value) -> ir.Value:
        """Apply an elementwise op to values, of which the last has the type of the result."""
        return self.create_op(name, operands, [operands[-1].type], {}).results[0]

    def create_compare(self, direction: str, left: ir.Value, right: ir.Value) -> ir.Value:
        kind = self.make_tensor_type(
            get_static_shape(left), ir.IntegerType.get_signless(1, left.context)
        )
        text = f"#stablehlo<comparison_direction {direction}>"
        attributes = {"comparison_direction": ir.Attribute.parse(text, left.context)}
        return self.create_op("stablehlo.compare", [left, right], [kind], attributes).results[0]

    def create_iota(self, kind: ir.Type, dim: int) -> ir.Value:
        attributes = {"iota_dimension": to_i64_attr(dim, kind.context)}
        return self.create_op("stablehlo.iota", [], [kind], attributes).results[0]

    def create_broadcast(
        self, value: ir.Value, shape: Sequence[int], dims: Sequence[int]
    ) -> ir.Value:
        kind = self.make_tensor_type(shape, value)
        attributes = {"broadcast_dimensions": make_i64_array(dims, value.context)}
        return self.create_op("stablehlo.broadcast_in_dim", [value], [kind], attributes).results[0]

    def create_reduction(
        self, name: str, value: ir.Value, start: ir.Value, dims: Sequence[int]
    ) -> ir.Value:
        """Reduce dimensions of a value by an op, from a scalar."""
        shape = [size for dim, size in enumerate(get_static_shape(value)) if dim not in dims]
        created_op = ir.Operation.create(
            "stablehlo.reduce",
            results=[self.make_tensor_type(shape, value)],
            operands=[value, start],
            attributes={"dimensions": make_i64_array(dims, value.context)},
            regions=1,
            loc=self.place.location,
            ip=ir.InsertionPoint(self.place),
        )
        kinds, locations = [start.type] * 2, [self.place.location] * 2
        body = created_op.regions[0].blocks.append(*kinds, arg_locs=locations)
        end = ir.Operation.create(
            "stablehlo.return",
            operands=[body.arguments[0]],
            loc=self.place.location,
            ip=ir.InsertionPoint(body),
        )
        end.operands[0] = OpBuilder(end).create_applied(name, *body.arguments)
        return created_op.results[0]

    def create_convert(self, value: ir.Value, like: ir.Value | ir.Type) -> ir.Value:
        """Convert a value to an element type, or that of a value, if it has another one."""
        kind = self.make_tensor_type(get_static_shape(value), like)
        if kind == value.type:
            return value
        return self.create_op("stablehlo.convert", [value], [kind], {}).results[0]

    def create_transpose(self, value: ir.Value, order: Sequence[int]) -> ir.Value:
        shape = get_static_shape(value)
        kind = self.make_tensor_type([shape[d] for d in order], value)
        attributes = {"permutation": make_i64_array(order, value.context)}
        return self.create_op("stablehlo.transpose", [value], [kind], attributes).results[0]

    def create_reverse(self, value: ir.Value, dims: Sequence[int]) -> ir.Value:
        attributes = {"dimensions": make_i64_array(sorted(dims), value.context)}
        return self.create_op("stablehlo.reverse", [value], [value.type], attributes).results[0]

    def create_concatenate(self, values: Sequence[ir.Value], axis: int) -> ir.Value:
        shape = list(get_static_shape(values[0]))
        shape[axis] = sum(get_static_shape(value)[axis] for value in values)
        kind = self.make_tensor_type(shape, values[0])
        attributes = {"dimension": to_i64_attr(axis, kind.context)}
        return self.create_op("stablehlo.concatenate", values, [kind], attributes).results[0]

    def create_slice(self, value: ir.Value, axis: int, start: int, end: int) -> ir.Value:
        shape = list(get_static_shape(value))
        low, high = [0] * len(shape), list(shape)
        low[axis], high[axis] = start, end
        shape[axis] = end - start
        attributes = {
            "start_indices": make_i64_array(low, value.context),
            "limit_indices": make_i64_array(high, value.context),
            "strides": make_i64_array([1] * len(shape), value.context),
        }
        kind = self.make_tensor_type(shape, value)
        return self.create_op("stablehlo.slice", [value], [kind], attributes).results[0]

    def create_constant(self, kind: ir.Type, number: float) -> ir.Value:
        """Create a constant whose elements, of any numeric type, are all ``number``."""
        assert isinstance(kind, ir.ShapedType)
        element = kind.element_type
        if isinstance(element, ir.ComplexType):  # the bindings have no attribute for it
            text = f"%0 = stablehlo.constant dense<({number:.17e}, 0.0)> : {kind}"
            constant = ir.Operation.parse(text, context=kind.context).operation
            ir.InsertionPoint(self.place).insert(constant)
            constant.location = self.place.location
            return constant.results[0]
        attribute: ir.Attribute = (
            ir.IntegerAttr.get(element, int(number))
            if isinstance(element, ir.IntegerType)
            else ir.FloatAttr.get(element, float(number), loc=self.place.location)
        )
        value = ir.DenseElementsAttr.get_splat(kind, attribute)
        return self.create_op("stablehlo.constant", [], [kind], {"value": value}).results[0]

    def create_pad(
        self,
        value: ir.Value,
        filling: ir.Value,
        low: Sequence[int],
        high: Sequence[int],
        interior: Sequence[int] = (),
    ) -> ir.Value:
        sizes = get_static_shape(value)
        interior = interior or [0] * len(sizes)
        shape = [
            size + before + after + max(size - 1, 0) * between
            for size, before, after, between in zip(sizes, low, high, interior, strict=True)
        ]
        attributes = {
            "edge_padding_low": make_i64_array(low, value.context),
            "edge_padding_high": make_i64_array(high, value.context),
            "interior_padding": make_i64_array(interior, value.context),
        }
        kind = self.make_tensor_type(shape, value)
        return self.create_op("stablehlo.pad", [value, filling], [kind], attributes).results[0]


def copy_operand_ops(
    reader: ir.Operation, number: int, ops: Sequence[ir.Operation]
) -> list[ir.Operation]:
    """Copy the ops that make an operand before its reader, and drop those that nothing else reads.

    Args:
        ops: The ops, in order; the last makes the operand.
    """
    copies: list[ir.Operation] = []
    values: dict[ir.Value, ir.Value] = {}
    for op in ops:
        copy = op.clone(ir.InsertionPoint(reader)).operation
        for position, operand in enumerate(op.operands):
            copy.operands[position] = values.get(operand, operand)
        values[op.results[0]] = copy.results[0]
        copies.append(copy)
    if ops:
        reader.operands[number] = copies[-1].results[0]
    erase_unused(ops)
    return copies


def make_fusion_attributes(kind: str, kernel: str, context: ir.Context) -> dict[str, ir.Attribute]:
    """Make the attributes of a fusion of a kind that is a kernel of a class."""
    return {
        "fusion_kind": ir.Attribute.parse(f"#mhlo<fusion_kind {kind}>", context),
        KernelAttr.NAME: KernelAttr(kernel).to_dictionary_attr(context),
    }


def create_fusion(
    place: ir.Operation,
    attributes: dict[str, ir.Attribute],
    operands: Sequence[ir.Value],
    results: Sequence[ir.Type],
    location: ir.Location,
) -> tuple[ir.Operation, ir.Block]:
    """Create an ``mhlo.fusion`` before ``place``; return it and its empty body."""
    op = ir.Operation.create(
        FUSION,
        results=list(results),
        operands=list(operands),
        attributes=attributes,
        regions=1,
        loc=location,
        ip=ir.InsertionPoint(place),
    )
    kinds = [operand.type for operand in operands]
    block = op.regions[0].blocks.append(*kinds, arg_locs=[op.location] * len(kinds))
    return op, block


def fuse_ops(
    ops: Sequence[ir.Operation],
    kind: str,
    kernel: str,
    main: ir.Operation,
    kept: Collection[ir.Value] = (),
) -> ir.Operation:
    """Replace ops by a fusion, and return it.

    Only the results of the last op may be read by other ops. Small constants and broadcasts that
    the ops read are copied into the fusion; those that nothing else reads are erased.

    Args:
        main: The one of the ops that has the location, and so the layer, of the fusion.
        kept: The broadcasts that the fusion reads as they are.
    """
    inside = {result for op in ops for result in op.results}
    copied: dict[ir.Value, ir.Operation] = {}
    inputs: dict[ir.Value, None] = {}

    def add_input(value: ir.Value) -> None:
        source_op = get_defining_op(value)
        if value in inside or value in copied:
            return
        is_kept = value in kept
        if source_op is not None and not is_kept and source_op.name == "stablehlo.broadcast_in_dim":
            add_input(source_op.operands[0])
        elif (
            source_op is None
            or is_kept
            or source_op.name != "stablehlo.constant"
            or not is_small_constant(source_op)
        ):
            inputs[value] = None
            return
        copied[value] = source_op

    for op in ops:
        for value in op.operands:
            add_input(value)
    last = ops[-1]
    results = [result.type for result in last.results]
    attributes = make_fusion_attributes(kind, kernel, main.context)
    new, block = create_fusion(last, attributes, list(inputs), results, main.location)
    values: dict[ir.Value, ir.Value] = dict(zip(inputs, block.arguments, strict=True))
    point = ir.InsertionPoint(block)
    for op in [*copied.values(), *ops]:
        clone = op.clone(point).operation
        for k, value in enumerate(op.operands):
            clone.operands[k] = values[value]
        values.update(zip(op.results, clone.results, strict=True))
    ir.Operation.create(
        "mhlo.return", operands=[values[r] for r in last.results], loc=last.location, ip=point
    )
    for old, result in zip(last.results, new.results, strict=True):
        old.replace_all_uses_with(result)
    for op in reversed(ops):
        op.erase()
    erase_unused(copied.values())
    return new
