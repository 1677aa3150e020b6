"""Orders of what is computed of products before other products read it, as by XLA's layouts.

XLA assigns layouts by constraints (xla/service/layout_assignment.cc). A product with a batch reads
each operand in one order. That order is passed on: at once to all that is computed element by
element, in slices or by concatenation, and to what else these read or is computed of them; later
through reshapes and reductions. The constraints of the first product are passed on first. So keys
that are normalised and rotated have the order in which the first product reads them up to what
rotates them, and queries that are rotated by the same values have it too. A copy into another order
moves behind ops that read nothing else (move_copy_to_users.cc).

Here an order in memory is an order of dimensions, and a copy a transpose. What is computed of the
results of products with a batch has the order that sink-transposes gives it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from hespas.dialects.mlir import get_defining_op, ir, list_users
from hespas.estimators.rules.base import read_integer, read_integer_list
from hespas.estimators.rules.movement import is_unit_broadcast
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dimension_orders import (
    CONCATENATE,
    PAD,
    REDUCE,
    RESHAPE,
    SLICE,
    TRANSPOSE,
    Order,
    has_any_order,
    is_uniform,
    make_plain_order,
    order_reduction,
    resize_order,
    transpose_order,
)
from hespas.passes.fuse.dots import DOT, Dims, DotGeneral, drop_unit_dims
from hespas.passes.fuse.fold_transposes import read_plain_permutation, sort_contracted_dims
from hespas.passes.fuse.fusion_graph import is_elementwise_op
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    get_static_shape,
    has_static_values,
    sort_in_block_order,
)
from hespas.passes.fuse.order_rewriter import OrderRewriter
from hespas.passes.fuse.simplify import BROADCAST
from hespas.passes.fuse.transpose_operands import list_read_dims

ALIGNED = "aligned"  # the kind of ops whose operands and result have one layout
LEAST_REDUCED = 32  # elements whose reduction gives its operand an order, so that these are rows
MAX_UPDATES = 8  # of one constraint, so that the propagation ends


class AssignOrdersPass(BlockPass):
    """Compute what is made of products in the order in which other products read it."""

    name: ClassVar[str] = "assign-orders"

    def rewrite_block(self, block: ir.Block) -> None:
        dots = map(DotGeneral.from_op, find_named_ops(block, (DOT,)))
        products = [dot for dot in dots if dot.sides[0].has_batch]
        region = _Region()
        region.collect_nodes(block, [value for dot in products for value in dot.op.operands])
        if not region.has_meetings():
            return
        propagation = _Propagation(region)
        propagation.propagate_constraints(products)
        orders = _find_computed_orders(region, propagation)
        ops = [node.op for node in region.nodes if node.result in orders]
        _CopyingRewriter(orders, region.list_copied()).rewrite_ops(ops)


class _CopyingRewriter(OrderRewriter):
    """Rewrites ops that read copies of what has another order."""

    def is_copied(self, value: ir.Value, order: Order) -> bool:
        return value in self.computed or not has_any_order(value, order, self.orders)

    def read_reshaped(self, op: ir.Operation, order: Order) -> ir.Value:
        source = op.operands[0]
        before = order.reshape(get_static_shape(source))
        assert before is not None
        return self.reorder(op, source, before)

    def order_source(
        self, op: ir.Operation, source: ir.Value, dims: Sequence[int]
    ) -> tuple[ir.Value, Sequence[int]]:
        order = sorted(range(len(dims)), key=dims.__getitem__)
        if order == sorted(order):
            return source, dims
        return OpBuilder(op).create_transpose(source, order), sorted(dims)


class _Node(NamedTuple):
    """An op that lets constraints pass.

    Attributes:
        op: The op.
        kind: Its name, or ALIGNED; RESHAPE for broadcasts that only add dimensions of size 1.
        operands: Its operands.
        result: Its only result.
        is_computed: Whether it is computed of the result of a product.
    """

    op: ir.Operation
    kind: str
    operands: Sequence[ir.Value]
    result: ir.Value
    is_computed: bool


@dataclass(slots=True)
class _Region:
    """The ops before products with a batch, and what else is computed of their operands.

    Attributes:
        nodes: The ops in program order.
        makers: The op of each value that one of them makes.
        readers: The ops that read a value, with the numbers of their operands.
    """

    nodes: list[_Node] = field(default_factory=list)
    makers: dict[ir.Value, _Node] = field(default_factory=dict)
    readers: dict[ir.Value, list[tuple[_Node, int]]] = field(default_factory=dict)
    # Whether each source is the result of a product, and whether of one with a batch.
    _sources: dict[ir.Value, tuple[bool, bool]] = field(default_factory=dict)

    def collect_nodes(self, block: ir.Block, values: Sequence[ir.Value]) -> None:
        """Collect the ops that make values, and those that read what products make before."""
        found: dict[ir.Value, tuple[ir.Operation, str]] = {}
        pending = list(values)
        while pending:
            self._collect_makers(block, pending, found)
            self._sort_nodes(list(found.values()))
            computed = [node.result for node in self.nodes if node.is_computed]
            computed += [value for value, (is_product, _) in self._sources.items() if is_product]
            pending = []
            for value in computed:
                for reader in list_users(value):
                    made = [result for result in reader.results if result not in found]
                    if made and reader.block == block and _find_kind(reader):
                        pending += made

    def _collect_makers(
        self,
        block: ir.Block,
        pending: list[ir.Value],
        found: dict[ir.Value, tuple[ir.Operation, str]],
    ) -> None:
        while pending:
            value = pending.pop()
            if value in found or value in self._sources:
                continue
            op = get_defining_op(value)
            if op is None or op.block != block or not (kind := _find_kind(op)):
                dot = op if op is not None and op.name == DOT else None
                has_batch = dot is not None and DotGeneral.from_op(dot).sides[0].has_batch
                self._sources[value] = (dot is not None, has_batch)
                continue
            found[value] = (op, kind)
            pending += op.operands

    def _sort_nodes(self, found: list[tuple[ir.Operation, str]]) -> None:
        """Sort the ops, without those that are computed of products with a batch."""
        self.nodes.clear()
        self.makers.clear()
        self.readers.clear()
        excluded = {value for value, (_, has_batch) in self._sources.items() if has_batch}
        for op, kind in sort_in_block_order(found, lambda pair: pair[0]):
            operands = list(op.operands)
            result = op.results[0]
            if not excluded.isdisjoint(operands):
                excluded.add(result)
                continue
            is_computed = any(
                self.makers[value].is_computed if value in self.makers else self.is_product(value)
                for value in operands
            )
            node = _Node(op, kind, operands, result, is_computed)
            self.nodes.append(node)
            self.makers[result] = node
            for number, value in enumerate(operands):
                self.readers.setdefault(value, []).append((node, number))

    def is_product(self, value: ir.Value) -> bool:
        """Return whether a value is the result of a product, which XLA computes as one matrix."""
        return self._sources.get(value, (False, False))[0]

    def is_copied(self, value: ir.Value) -> bool:
        """Return whether a value is computed of products, and so copied for another order."""
        node = self.makers.get(value)
        if node is None:
            return self.is_product(value)
        return node.is_computed and node.kind != BROADCAST

    def list_copied(self) -> set[ir.Value]:
        """List what is computed of products."""
        return {value for value in (*self.makers, *self._sources) if self.is_copied(value)}

    def has_meetings(self) -> bool:
        """Return whether an op computes something of a product and of other values."""
        return any(
            node.is_computed and not all(map(is_uniform, node.operands[1:])) for node in self.nodes
        )


def _find_kind(op: ir.Operation) -> str:
    """Return the kind of an op that lets constraints pass; an empty string for others."""
    name = op.name
    if len(op.results) != 1 or not has_static_values(op):
        return ""
    if name == BROADCAST:
        return RESHAPE if is_unit_broadcast(op) else BROADCAST
    if name == TRANSPOSE:
        return name if read_plain_permutation(op) is not None else ""
    if name in (RESHAPE, REDUCE):
        return name
    is_aligned = name in (SLICE, PAD, CONCATENATE) or is_elementwise_op(name)
    return ALIGNED if is_aligned and len(op.operands) else ""


class _Constraint(NamedTuple):
    """The order of a value or of an operand.

    Attributes:
        dims: Its dimensions wider than 1, from major to minor.
        updates: How often another order has replaced the first one.
    """

    dims: Dims
    updates: int = 0


_Place = tuple[ir.Value, int]
"""What has a constraint: a value and -1, or an op's result and the number of the op's operand."""
WHOLE = -1


@dataclass(slots=True)
class _Propagation:
    """Passes on constraints as XLA does.

    Attributes:
        region: The ops that let constraints pass.
        constraints: The constraints of values and operands.
    """

    region: _Region
    constraints: dict[_Place, _Constraint] = field(default_factory=dict)
    _added: list[tuple[_Place, bool]] = field(default_factory=list)  # and whether it is urgent

    def get_order(self, value: ir.Value, place: _Place | None = None) -> Order:
        """Return the order of a value, or the one in which an operand is read."""
        known = self.constraints.get(place or (value, WHOLE))
        shape = get_static_shape(value)
        return _to_order(known.dims, shape) if known else make_plain_order(shape)

    def propagate_constraints(self, products: Sequence[DotGeneral]) -> None:
        """Pass on the orders in which products read their operands, those of the first first."""
        pending: deque[_Place] = deque()
        read: dict[_Place, ir.Value] = {}
        for dot in products:
            for position in (1, 0):
                value = dot.op.operands[position]
                if value not in self.region.makers:
                    continue
                place = (dot.op.results[0], position)
                side = sort_contracted_dims(dot.sides)[position]
                read_dims = list_read_dims(dot.op, position, side)
                self.constraints[place] = _Constraint(drop_unit_dims(read_dims, side.shape))
                read[place] = value
                pending.append(place)
        while pending:
            place = pending.popleft()
            dims = self.constraints[place].dims
            if place in read:
                self._constrain((read[place], WHOLE), dims)
            elif place[1] == WHOLE:
                self._propagate_value(place[0], dims)
            else:
                self._propagate_operand(self.region.makers[place[0]], place[1], dims)
            for new, is_urgent in self._added:
                if is_urgent:
                    pending.appendleft(new)
                else:
                    pending.append(new)
            self._added.clear()

    def _constrain(
        self, place: _Place, dims: Dims, *, is_mandatory: bool = False, is_urgent: bool = True
    ) -> None:
        """Constrain what has no constraint yet, or any other one if this is mandatory."""
        known = self.constraints.get(place)
        if len(dims) < 2 or (known and (known.dims == dims or not is_mandatory)):
            return
        updates = known.updates + 1 if known else 0
        if updates <= MAX_UPDATES:
            self.constraints[place] = _Constraint(dims, updates)
            self._added.append((place, is_urgent))

    def _propagate_operand(self, node: _Node, number: int, dims: Dims) -> None:
        """Pass on the order of an operand to the value and to the result, which passes it on."""
        value, whole = node.operands[number], (node.result, WHOLE)
        self._constrain((value, WHOLE), dims)
        shape, after = get_static_shape(value), get_static_shape(node.result)
        if node.kind == ALIGNED:
            if node.op.name == CONCATENATE and not _is_largest(node, number):
                return
            self._constrain(whole, _align_dims(dims, shape, after), is_mandatory=True)
        elif node.kind == TRANSPOSE:
            permutation = read_plain_permutation(node.op) or ()
            made = tuple(permutation.index(dim) for dim in dims)
            self._constrain(whole, made, is_mandatory=True)
        elif node.kind == RESHAPE and not self.region.is_product(value):
            made = _reshape_dims(dims, shape, after)
            if made is not None:
                self._constrain(whole, made, is_urgent=_adds_unit_dims(shape, after))

    def _propagate_value(self, value: ir.Value, dims: Dims) -> None:
        """Pass on the order of a value to the operands of its op, and to what reads it."""
        node = self.region.makers.get(value)
        if node is not None:
            self._propagate_to_operands(node, dims)
        for reader, number in self.region.readers.get(value, ()):
            self._constrain((reader.result, number), dims)

    def _propagate_to_operands(self, node: _Node, dims: Dims) -> None:
        after = get_static_shape(node.result)
        before, first = get_static_shape(node.operands[0]), (node.result, 0)
        if node.kind == ALIGNED:
            for number, operand in enumerate(node.operands):
                shape = get_static_shape(operand)
                if len(shape) == len(after):
                    aligned = _align_dims(dims, after, shape)
                    self._constrain((node.result, number), aligned, is_mandatory=True)
        elif node.kind == BROADCAST:
            kept = read_integer_list(node.op, "broadcast_dimensions", ())
            read = [kept.index(dim) for dim in dims if dim in kept]
            wide = drop_unit_dims(read, before)
            self._constrain(first, wide, is_mandatory=True, is_urgent=False)
        elif node.kind == TRANSPOSE:
            permutation = read_plain_permutation(node.op) or ()
            read = tuple(permutation[dim] for dim in dims)
            self._constrain(first, read)
        elif node.kind == RESHAPE and not self.region.is_product(node.operands[0]):
            aligned = _reshape_dims(dims, after, before)
            if aligned is not None:
                self._constrain(first, aligned, is_urgent=_adds_unit_dims(before, after))
        elif node.kind == REDUCE:
            reduced = read_integer_list(node.op, "dimensions", ())
            if math.prod(before[dim] for dim in reduced) >= LEAST_REDUCED:
                kept = [dim for dim in range(len(before)) if dim not in reduced]
                rows = drop_unit_dims([*(kept[dim] for dim in dims), *reduced], before)
                self._constrain(first, rows, is_urgent=False)


def _to_order(dims: Dims, shape: Dims) -> Order:
    wide = [dim for dim, size in enumerate(shape) if size != 1]
    sizes = tuple(shape[dim] for dim in wide)
    return Order(sizes, tuple(dims.index(dim) for dim in wide))


def _align_dims(dims: Dims, shape: Dims, other: Dims) -> Dims:
    """Return the order of a value of another shape, with what it alone has in its own place."""
    aligned = [dim for dim in dims if other[dim] != 1]
    for dim, size in enumerate(other):
        if size != 1 and shape[dim] == 1:
            aligned.insert(next((n for n, d in enumerate(aligned) if d > dim), len(aligned)), dim)
    return tuple(aligned)


def _reshape_dims(dims: Dims, shape: Dims, after: Dims) -> Dims | None:
    """Return the order that a reshape need not change; None if there is none."""
    order = _to_order(dims, shape).reshape(after)
    wide = [dim for dim, size in enumerate(after) if size != 1]
    if order is None or order.sizes != tuple(after[dim] for dim in wide):
        return None
    return tuple(order.sort_by_place(wide))


def _adds_unit_dims(shape: Dims, after: Dims) -> bool:
    return [size for size in shape if size != 1] == [size for size in after if size != 1]


def _is_largest(node: _Node, number: int) -> bool:
    axis = read_integer(node.op, "dimension", 0)
    sizes = [get_static_shape(value)[axis] for value in node.operands]
    return sizes[number] == max(sizes)


def _find_computed_orders(region: _Region, propagation: _Propagation) -> dict[ir.Value, Order]:
    """Find the orders in which ops are computed, when copies have moved behind those they can.

    Returns:
        The orders of what is computed of products in another order than that of its dimensions, or
        reads such a value.
    """
    orders: dict[ir.Value, Order] = {}

    def get_base(value: ir.Value) -> Order:
        return orders.get(value) or make_plain_order(get_static_shape(value))

    for node in region.nodes:
        if not node.is_computed or node.kind == BROADCAST:
            continue
        source = node.operands[0]
        read = [value for value in node.operands if get_static_shape(value)]  # without padding
        base = get_base(source)
        wanted = propagation.get_order(node.result)
        order: Order | None = None
        if node.kind == TRANSPOSE:
            order = transpose_order(node.op, base)
        elif node.kind == REDUCE:
            order = order_reduction(node.op, base)
        elif node.kind == RESHAPE:
            order = _reshape_base(node, base, region, propagation)
        elif node.op.name in (SLICE, PAD):
            order = resize_order(node.op, base)
        elif node.op.name == CONCATENATE:
            bases = [get_base(value) for value in node.operands]
            places = {known.places for known in bases}
            # An order says no place of what is 1 wide, such as the pairs that are stacked.
            is_late = len(places) == 1 and len(base.sizes) == len(wanted.sizes)
            order = Order(wanted.sizes, base.places) if is_late else wanted
        else:
            is_late = all(region.is_copied(value) and get_base(value) == base for value in read)
            order = base if is_late else wanted
        if order and (not order.is_plain or not orders.keys().isdisjoint(read)):
            orders[node.result] = order
    return orders


def _reshape_base(
    node: _Node, base: Order, region: _Region, propagation: _Propagation
) -> Order | None:
    """Return the order of a reshape's result; copies stay before those that divide or merge."""
    source, after = node.operands[0], get_static_shape(node.result)
    sizes = make_plain_order(after).sizes
    if base.sizes == sizes:
        return base
    if region.is_product(source):
        return None
    order = propagation.get_order(source, (node.result, 0)).reshape(after)
    return order if order and order.sizes == sizes else None
