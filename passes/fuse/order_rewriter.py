"""Rewriting of ops to compute their results in other orders of dimensions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from hespas.dialects.mlir import (
    copy_attributes,
    erase_unused,
    get_defining_op,
    has_users,
    ir,
    to_i64_attr,
)
from hespas.estimators.rules.base import read_integer, read_integer_list
from hespas.passes.fuse.dimension_orders import (
    CONCATENATE,
    IOTA,
    PARAMETERS,
    REDUCE,
    RESHAPE,
    TRANSPOSE,
    Order,
    divide_product,
    find_broadcast_parts,
    find_iota_part,
    find_treated_dims,
    is_repetition,
    read_parameter,
)
from hespas.passes.fuse.dots import DOT, Dims
from hespas.passes.fuse.fold_transposes import create_product
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    get_static_shape,
    make_i64_array,
    make_padding,
)
from hespas.passes.fuse.simplify import BROADCAST, read_uniform_constant


def _make_parameter(name: str, numbers: Sequence[Dims], context: ir.Context) -> ir.Attribute:
    if name != "padding":
        return make_i64_array([number for (number,) in numbers], context)
    return make_padding(numbers, context)


@dataclass(slots=True)
class OrderRewriter:
    """Rewrites the ops of a cluster.

    Attributes:
        orders: The order of the result of each op.
        computed: What has an order that XLA chooses.
        values: What is computed instead of each of these: its parts in the order of memory.
    """

    orders: Mapping[ir.Value, Order]
    computed: Collection[ir.Value]
    values: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def rewrite_ops(self, ops: Sequence[ir.Operation]) -> None:
        for op in ops:
            self.values[op.results[0]] = self._rewrite_op(op)
        for op in reversed(ops):
            result, builder = op.results[0], OpBuilder(op)
            if has_users(result):
                value = self.values[result]
                if not self.orders[result].is_plain:
                    value = builder.create_transpose(value, self.orders[result].places)
                whole = builder.create_reshape(value, get_static_shape(result))
                result.replace_all_uses_with(whole)
            makers = {get_defining_op(value) for value in op.operands}
            op.erase()
            broadcasts = [
                maker for maker in makers if maker is not None and maker.name == BROADCAST
            ]
            for each in broadcasts:  # has been made in the other order
                if each.results[0] not in self.values:
                    erase_unused([each])

    def _rewrite_op(self, op: ir.Operation) -> ir.Value:
        builder, result = OpBuilder(op), op.results[0]
        order, source = self.orders[result], op.operands[0]
        if op.name == DOT:
            return self._rewrite_product(op)
        if op.name == BROADCAST and is_repetition(op):
            return self._rewrite_repetition(op)
        if op.name in (RESHAPE, BROADCAST):
            return builder.create_reshape(self.read_reshaped(op, order), order.memory_sizes)
        if op.name == TRANSPOSE:
            if source in self.values:
                return self.values[source]
            shape = get_static_shape(source)
            return builder.create_reshape(source, [size for size in shape if size != 1])
        if op.name in PARAMETERS:
            return self._rewrite_by_dim(op)
        if op.name == CONCATENATE:
            return self._rewrite_concatenation(op)
        attributes = copy_attributes(op)
        if op.name == REDUCE:
            before = self.orders[source]
            parts = before.divide_dims(get_static_shape(source))
            dims = read_integer_list(op, "dimensions", ())
            reduced = sorted(before.places[part] for dim in dims for part in parts[dim])
            attributes["dimensions"] = make_i64_array(reduced, op.context)
            operands = [self.values[source], op.operands[1]]
        else:
            operands = [self.reorder(op, value, order) for value in op.operands]
        kinds = [builder.make_tensor_type(order.memory_sizes, result)]
        body = op if len(op.regions) else None
        return builder.create_op(op.name, operands, kinds, attributes, body=body).results[0]

    def read_reshaped(self, op: ir.Operation, order: Order) -> ir.Value:
        """Return the operand of a reshape in the order that gives the result the one given."""
        return self.values[op.operands[0]]

    def _rewrite_repetition(self, op: ir.Operation) -> ir.Value:
        builder, order, before = OpBuilder(op), self.orders[op.results[0]], op.operands[0]
        divided = order.divide_dims(get_static_shape(op.results[0]))
        shape = get_static_shape(before)
        dims = read_integer_list(op, "broadcast_dimensions", ())
        own = [p for dim, size in zip(dims, shape, strict=True) if size != 1 for p in divided[dim]]
        places = sorted(order.places[part] for part in own)
        attributes = copy_attributes(op)
        attributes["broadcast_dimensions"] = make_i64_array(places, op.context)
        kinds = [builder.make_tensor_type(order.memory_sizes, before)]
        return builder.create_op(BROADCAST, [self.values[before]], kinds, attributes).results[0]

    def _rewrite_by_dim(self, op: ir.Operation) -> ir.Value:
        """Rewrite an op that treats each dimension by itself."""
        builder, source = OpBuilder(op), op.operands[0]
        order = self.orders[source]
        parts = order.divide_dims(get_static_shape(source))
        attributes = copy_attributes(op)
        treated = find_treated_dims(op)
        places = {dim: order.places[parts[dim][0]] for dim in treated}
        sizes = order.memory_sizes
        for name, default in PARAMETERS[op.name].items():
            given = read_parameter(op, name)
            if not given:
                continue
            count = len(given[0])
            numbers = [(size if default is None else default,) * count for size in sizes]
            for dim in treated:
                numbers[places[dim]] = given[dim]
            attributes[name] = _make_parameter(name, numbers, op.context)
        for dim in treated:
            sizes[places[dim]] = get_static_shape(op.results[0])[dim]
        kinds = [builder.make_tensor_type(sizes, op.results[0])]
        operands = [self.values[source], *list(op.operands)[1:]]
        body = op if len(op.regions) else None
        new = builder.create_op(op.name, operands, kinds, attributes, body=body).results[0]
        return builder.create_reshape(new, self.orders[op.results[0]].memory_sizes)

    def _rewrite_concatenation(self, op: ir.Operation) -> ir.Value:
        order = self.orders[op.results[0]]
        axis = read_integer(op, "dimension", 0)
        (part,) = order.divide_dims(get_static_shape(op.results[0]))[axis]
        builder, values = OpBuilder(op), []
        for value in op.operands:
            sizes = list(order.sizes)
            sizes[part] = get_static_shape(value)[axis]
            own = Order(tuple(sizes), order.places)
            wide = own.select_parts([part for part, size in enumerate(sizes) if size != 1])
            values.append(builder.create_reshape(self.reorder(op, value, wide), own.memory_sizes))
        return builder.create_concatenate(values, order.places[part])

    def reorder(self, op: ir.Operation, value: ir.Value, order: Order) -> ir.Value:
        """Return an operand in the order of an elementwise op."""
        if not get_static_shape(value):
            return value
        if not self.is_copied(value, order):
            return self._remake(op, value, order)
        builder = OpBuilder(op)
        known = self.orders.get(value) or Order(order.sizes, tuple(range(len(order.sizes))))
        part = self.values.get(value) or builder.create_reshape(value, known.sizes)
        if known == order:
            return part
        return builder.create_transpose(part, order.sort_by_place(known.places))

    def is_copied(self, value: ir.Value, order: Order) -> bool:
        """Return whether a transpose of a value is read, instead of it being made in the order."""
        return value in self.computed

    def _remake(self, op: ir.Operation, value: ir.Value, order: Order) -> ir.Value:
        """Make a value in another order of dimensions before an op."""
        maker, builder = get_defining_op(value), OpBuilder(op)
        assert maker is not None
        kind = builder.make_tensor_type(order.memory_sizes, value)
        number = read_uniform_constant(value)
        if number is not None:
            return builder.create_constant(kind, number)
        attributes = copy_attributes(maker)
        if maker.name == IOTA:
            part = find_iota_part(maker, order)
            assert part is not None
            attributes["iota_dimension"] = to_i64_attr(order.places[part], op.context)
            return builder.create_op(IOTA, [], [kind], attributes).results[0]
        if maker.name != BROADCAST:
            operands = [self.reorder(op, operand, order) for operand in maker.operands]
            return builder.create_op(maker.name, operands, [kind], attributes).results[0]
        source = maker.operands[0]
        parts = [p for ps in find_broadcast_parts(maker, order, self.orders) for p in ps]
        if source in self.values:
            known = self.orders[source]
            parts = known.sort_by_place(parts)
            source = self.values[source]
        else:
            source = builder.create_reshape(source, [order.sizes[part] for part in parts])
        dims = [order.places[part] for part in parts]
        source, dims = self.order_source(op, source, dims)
        attributes["broadcast_dimensions"] = make_i64_array(dims, op.context)
        return builder.create_op(BROADCAST, [source], [kind], attributes).results[0]

    def order_source(
        self, op: ir.Operation, source: ir.Value, dims: Sequence[int]
    ) -> tuple[ir.Value, Sequence[int]]:
        """Return what is broadcast for an op to these dimensions, perhaps as a copy, with these."""
        return source, dims

    def _rewrite_product(self, op: ir.Operation) -> ir.Value:
        product = divide_product(op, [self._get_order(value) for value in op.operands])
        assert product is not None
        builder = OpBuilder(op)
        operands = [
            self.values[value]
            if self._get_order(value)
            else builder.create_reshape(value, side.shape)
            for value, side in zip(op.operands, product.sides, strict=True)
        ]
        return create_product(op, operands, product.sides).results[0]

    def _get_order(self, value: ir.Value) -> Order | None:
        order = self.orders.get(value)
        return None if order is None or order.is_plain else order
