"""Transposes of products' results behind the ops that work in any order of dimensions.

XLA assigns layouts: what follows a product keeps the order that its result has in memory, up to an
op that needs another one (xla/service/layout_assignment.cc). Here an order in memory is an order of
dimensions. So the ops after a transpose are computed without it, and what needs the old order is
transposed.

A product reads its operands in the order of its dimensions, unless a transpose of its result would
undo that; then its result has the order of its operands. A product of matrices gives nothing an
order: it reads the order of its dimensions, and the transpose of its result stays if it meets
something with an order of its own.
Reshapes that split or merge dimensions, as those of grouped heads, are computed in the parts, and
dimensions of size 1 are left out. A convolution has the order that order-convolutions gives it.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from hespas.dialects.mlir import get_defining_op, ir, to_i64_attr
from hespas.dialects.op_bodies import get_terminator
from hespas.dialects.op_kinds import MAYBE_COLLECTIVE
from hespas.estimators.rules.base import read_integer, read_integer_list
from hespas.estimators.rules.movement import is_unit_broadcast
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dots import DOT, Dims, DotGeneral, DotOperand
from hespas.passes.fuse.fold_transposes import create_product, read_plain_permutation
from hespas.passes.fuse.fusion_graph import is_elementwise_op
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    copy_attributes,
    find_only_reader,
    get_static_shape,
    has_static_values,
    make_i64_array,
)
from hespas.passes.fuse.pad_convolutions import CONVOLUTION
from hespas.passes.fuse.simplify import BROADCAST, read_uniform_constant

TRANSPOSE, RESHAPE = "stablehlo.transpose", "stablehlo.reshape"
REDUCE, SLICE = "stablehlo.reduce", "stablehlo.slice"
PAD, WINDOWED_REDUCE = "stablehlo.pad", "stablehlo.reduce_window"
CONCATENATE = "stablehlo.concatenate"
IOTA = "stablehlo.iota"
PARAMETERS: dict[str, dict[str, int | None]] = {
    SLICE: {"start_indices": 0, "limit_indices": None, "strides": 1},
    PAD: {"edge_padding_low": 0, "edge_padding_high": 0, "interior_padding": 0},
    WINDOWED_REDUCE: {
        "window_dimensions": 1,
        "window_strides": 1,
        "base_dilations": 1,
        "window_dilations": 1,
        "padding": 0,
    },
}
"""The attributes of ops that treat each dimension by itself, with what leaves a dimension alone.

None is the size of the dimension. Padding of windows has two numbers for each dimension.
"""
KEEPS_ORDER = frozenset((TRANSPOSE, RESHAPE, REDUCE, CONCATENATE, *PARAMETERS))


class SinkTransposesPass(BlockPass):
    """Move transposes of results of products and convolutions behind what has any order.

    Sums are like products, unless something that is computed of them is returned in another order:
    their kernels write any order. Transposes of other values move behind ops of one operand,
    reshapes and sums.
    """

    name: ClassVar[str] = "sink-transposes"

    def rewrite_block(self, block: ir.Block) -> None:
        terminator = get_terminator(block)
        plain: set[ir.Value] = set()
        claims: dict[ir.Value, _Claim] = {}
        while True:
            analysis = _OrderAnalysis(plain, claims)
            for position, view in enumerate(block.operations):
                analysis.add_op(view.operation, position)
            unmoved = analysis.find_returned_sums(terminator) | analysis.find_plain_products()
            if not unmoved and (claims or not (claims := analysis.find_claims())):
                break
            plain |= unmoved
        analysis.drop_unmoved()
        known = analysis.computed.keys() | analysis.moved
        Rewriter(analysis.orders, known).rewrite_ops(analysis.ops)


class Order(NamedTuple):
    """The order of a value's dimensions in memory, in parts of them that are wider than 1.

    Attributes:
        sizes: The sizes of the parts, in the order of the value's dimensions.
        places: The place of each part in memory.
    """

    sizes: Dims
    places: Dims

    @property
    def is_plain(self) -> bool:
        return self.places == tuple(range(len(self.places)))

    @property
    def memory_sizes(self) -> list[int]:
        """The sizes in the order of memory."""
        return self.sort_by_place(self.sizes)

    def sort_by_place(self, values: Sequence[int]) -> list[int]:
        """Sort values, one of each part, by the places of the parts in memory."""
        return [values[self.places.index(place)] for place in range(len(self.places))]

    def divide_dims(self, shape: Dims) -> tuple[Dims, ...]:
        """Return the numbers of the parts of each dimension; an empty tuple if they do not fit."""
        return _divide_dims(self.sizes, shape)

    def reshape(self, shape: Dims) -> Order | None:
        """Return the order after a reshape, which splits parts, and merges neighbours in memory.

        Returns None if a part would be in several dimensions.
        """
        bounds = [_find_bounds(sizes) for sizes in (self.sizes, shape)]
        every = sorted(set(bounds[0]) | set(bounds[1]))
        sizes: list[int] = []
        makers: list[tuple[int, int]] = []  # the place of the part, and the start of its piece
        for below, above in itertools.pairwise(every):
            if above % below:
                return None
            part = bisect.bisect_right(bounds[0], below) - 1
            sizes.append(above // below)
            makers.append((self.places[part], below))
        ranked = sorted(makers)
        return Order(tuple(sizes), tuple(ranked.index(place) for place in makers))._merge_parts(
            [below in bounds[1] for below in every[:-1]]
        )

    def _merge_parts(self, starts: Sequence[bool]) -> Order:
        """Merge each part that starts no dimension with the one before it, if it follows it."""
        sizes: list[int] = []
        places: list[int] = []
        for part, (size, place) in enumerate(zip(self.sizes, self.places, strict=True)):
            if part and not starts[part] and self.places[part - 1] == place - 1:
                sizes[-1] *= size
            else:
                sizes.append(size)
                places.append(place)
        ranked = sorted(places)
        return Order(tuple(sizes), tuple(ranked.index(place) for place in places))

    def select_parts(self, parts: Sequence[int]) -> Order:
        """Return the order of what has only these parts, in this order."""
        places = [self.places[part] for part in parts]
        ranked = sorted(places)
        return Order(
            tuple(self.sizes[part] for part in parts),
            tuple(ranked.index(place) for place in places),
        )


def _find_bounds(sizes: Dims) -> list[int]:
    """Return where each part that is wider than 1 starts, and the last ends, in products."""
    wide = [size for size in sizes if size != 1]
    return [1, *itertools.accumulate(wide, operator.mul)]


@functools.lru_cache(maxsize=4096)
def _divide_dims(sizes: Dims, shape: Dims) -> tuple[Dims, ...]:
    divided: list[Dims] = []
    part = 0
    for size in shape:
        parts: list[int] = []
        while math.prod(sizes[p] for p in parts) < size and part < len(sizes):
            parts.append(part)
            part += 1
        divided.append(tuple(parts))
    products = tuple(math.prod(sizes[part] for part in parts) for parts in divided)
    return tuple(divided) if products == shape and part == len(sizes) else ()


def make_plain_order(shape: Sequence[int]) -> Order:
    sizes = tuple(size for size in shape if size != 1)
    return Order(sizes, tuple(range(len(sizes))))


class _Claim(NamedTuple):
    """The order that the readers of a value give it.

    Attributes:
        number: The number of the product whose order it is.
        order: The order; None for that of the dimensions.
    """

    number: int
    order: Order | None


@dataclass(slots=True)
class _OrderAnalysis:
    """Finds the values of a block whose dimensions have another order in memory.

    Products and sums have the numbers of their positions.

    Attributes:
        plain: Results of sums and products of matrices whose order is not followed.
        claims: Results of elementwise ops that have the order of what reads them.
        orders: The order of the result of each op that is rewritten.
        ops: These ops, in program order.
        computed: The results of products and sums, and what is computed of them element by element
            or row by row, by the number of the first product: XLA chooses the order of their
            dimensions, and where two orders meet, that of the first product.
        moved: Transposes of other values, and what ops of one operand, reshapes and sums make of
            them.
    """

    plain: Collection[ir.Value] = ()
    claims: Mapping[ir.Value, _Claim] = field(default_factory=dict)
    orders: dict[ir.Value, Order] = field(default_factory=dict)
    ops: list[ir.Operation] = field(default_factory=list)
    computed: dict[ir.Value, int] = field(default_factory=dict)
    moved: set[ir.Value] = field(default_factory=set)
    # The results of products without a batch, by the numbers in ``computed``, and the numbers of
    # those that meet something with an order of its own.
    _matrix_products: dict[int, ir.Value] = field(default_factory=dict)
    _refused: set[int] = field(default_factory=set)
    _sums: dict[int, ir.Value] = field(default_factory=dict)  # by the numbers in ``computed``
    _elementwise_names: dict[str, bool] = field(default_factory=dict)
    _meetings: list[ir.Operation] = field(default_factory=list)  # of different products

    def add_op(self, op: ir.Operation, position: int) -> None:
        name = op.name
        if name in (DOT, CONVOLUTION):
            result = op.results[0]
            if result in self.plain:
                return
            self.computed[result] = position
            if name == CONVOLUTION:  # has been given the order of its result
                return
            if not DotGeneral.from_op(op).sides[0].has_batch:
                self._matrix_products[position] = result
        elif self._is_moved(op, name):
            self.moved.add(op.results[0])
        elif name == REDUCE and self.computed.keys().isdisjoint(op.operands):
            result = op.results[0]
            if len(op.results) > 1 or result in self.plain:
                return
            self._sums[position] = result
            self.computed[result] = position
        elif name in KEEPS_ORDER or self._is_elementwise(name) or self._keeps_broadcast(op):
            numbers = [self.computed[value] for value in op.operands if value in self.computed]
            if not numbers:
                return
            claim = self.claims.get(op.results[0])
            if claim is not None:
                self._add_claimed_op(op, claim)
                return
            self.computed.update(dict.fromkeys(op.results, min(numbers)))
            if len(set(numbers)) > 1 and self._is_elementwise(name):
                self._meetings.append(op)
        else:
            return
        is_known = name == TRANSPOSE or any(map(self._get_order, op.operands))
        if is_known and len(op.results) == 1 and has_static_values(op):
            order = self._find_result_order(op)
            if order is not None:
                self.orders[op.results[0]] = order
                self.ops.append(op)

    def _is_moved(self, op: ir.Operation, name: str) -> bool:
        """Return whether an op is a transpose, or lets one pass, of what no product computes."""
        operands = op.operands
        if name == TRANSPOSE:
            source = operands[0]
            is_free = source not in self.computed and source not in self.plain
            return is_free and not self._is_communicated(source)
        if not operands or operands[0] not in self.moved or len(op.results) > 1:
            return False
        if name == REDUCE:
            return True
        return len(operands) == 1 and (name == RESHAPE or self._is_elementwise(name))

    def _is_communicated(self, value: ir.Value) -> bool:
        """Return whether ops of one operand make a value of what a collective yields.

        ``transpose-collectives`` undoes such a transpose.
        """
        op = get_defining_op(value)
        while op is not None and len(op.operands) == 1 and self._is_elementwise(op.name):
            op = get_defining_op(op.operands[0])
        return op is not None and op.name in MAYBE_COLLECTIVE

    def drop_unmoved(self) -> None:
        """Drop the transposes of other values that no op lets pass."""
        for op in reversed(self.ops):
            result = op.results[0]
            is_view = result in self.moved and op.name in (TRANSPOSE, RESHAPE)
            readers = [use.owner.operation for use in result.uses] if is_view else []
            made = {value for reader in readers for value in reader.results}
            if is_view and made.isdisjoint(self.orders):
                del self.orders[result]
        self.ops = [op for op in self.ops if op.results[0] in self.orders]

    def _add_claimed_op(self, op: ir.Operation, claim: _Claim) -> None:
        result = op.results[0]
        self.computed[result] = claim.number
        if claim.order is not None:
            self.orders[result] = claim.order
            self.ops.append(op)

    def find_claims(self) -> dict[ir.Value, _Claim]:
        """Find the values that what reads them computes in the order of an earlier product.

        XLA gives the order of the first product to all that it is computed with, element by
        element, up to the results of the later products; its copies of these move behind ops of
        one operand (layout_assignment.cc, move_copy_to_users.cc).
        """
        claims: dict[ir.Value, _Claim] = {}
        pending = [
            (op, _Claim(self.computed[op.results[0]], self._get_order(op.results[0])))
            for op in self._meetings
        ]
        while pending:
            op, claim = pending.pop()
            for value in op.operands:
                if self.computed.get(value, -1) <= claim.number or value in claims:
                    continue
                claimed = self._find_claimable_values(value, claim.order)
                claims.update(dict.fromkeys(claimed, claim))
                if claimed and (maker := get_defining_op(claimed[-1])) is not None:
                    pending.append((maker, claim))
        return claims

    def _find_claimable_values(self, value: ir.Value, order: Order | None) -> list[ir.Value]:
        """Find the values that can be computed in another order for what reads a value.

        Returns:
            The value, and what ops of one operand make it of, up to the result of an op of several,
            which can be computed in that order; an empty list if there is no such op.
        """
        values = [value]
        plain = make_plain_order(get_static_shape(value))
        wanted = order or plain
        while self._get_order(value) != order:
            maker = get_defining_op(value)
            if (
                maker is None
                or not self._is_elementwise(maker.name)
                or not has_static_values(maker)
            ):
                break
            if (self._get_order(value) or plain).sizes != wanted.sizes:
                break
            if len(maker.operands) > 1:
                is_possible = all(self._can_read_in(each, wanted) for each in maker.operands)
                return values if is_possible else []
            (value,) = maker.operands
            values.append(value)
        return []

    def _can_read_in(self, value: ir.Value, order: Order) -> bool:
        """Return whether an elementwise op can read a value in an order of the same parts."""
        if value not in self.computed:
            return self._has_any_order(value, order)
        known = self._get_order(value) or make_plain_order(get_static_shape(value))
        return not get_static_shape(value) or known.sizes == order.sizes

    def find_returned_sums(self, terminator: ir.Operation) -> set[ir.Value]:
        """Find the sums of which values are computed that are returned in another order."""
        returned = [self.computed.get(v) for v in terminator.operands if self._get_order(v)]
        return {self._sums[number] for number in returned if number in self._sums}

    def find_plain_products(self) -> set[ir.Value]:
        """Find the products of matrices whose transposes stay with them.

        They meet something with an order of its own, or each other in what has one, and their
        kernel can write the transpose.
        """
        refused = set(self._refused)
        for op in (*self._meetings, *reversed(self._meetings)) if refused else ():
            met = {self.computed[value] for value in op.operands if value in self.computed}
            if not refused.isdisjoint(met):
                refused |= met
        return {self._matrix_products[n] for n in refused if n in self._matrix_products}

    def _is_elementwise(self, name: str) -> bool:
        known = self._elementwise_names.get(name)
        if known is None:  # A rule of a package may be registered between two passes.
            known = self._elementwise_names[name] = is_elementwise_op(name)
        return known

    def _keeps_broadcast(self, op: ir.Operation) -> bool:
        """Return whether a broadcast has the order of its operand."""
        if op.name != BROADCAST or not has_static_values(op):
            return False
        return is_unit_broadcast(op) or (
            self._get_order(op.operands[0]) is not None and _is_repetition(op)
        )

    def _get_order(self, value: ir.Value) -> Order | None:
        """Return the order of a value if it is not that of its dimensions."""
        order = self.orders.get(value)
        return None if order is None or order.is_plain else order

    def _find_result_order(self, op: ir.Operation) -> Order | None:
        """Return the order of the result of an op that is computed in the order of its operands."""
        if op.name == DOT:
            if self.computed[op.results[0]] in self._matrix_products:
                return None
            orders = [self._get_order(value) for value in op.operands]
            if any(order and order.places[-1] != len(order.places) - 1 for order in orders):
                return None  # XLA moves the innermost dimension before the product
            order = _order_product(op, orders)
            return order if order is not None and _is_undone(op, order) else None
        if op.name == TRANSPOSE:
            return self._find_transposed_order(op)
        if op.name == CONCATENATE:
            return self._find_concatenated_order(op)
        if op.name in KEEPS_ORDER or op.name == BROADCAST:
            order = self._get_order(op.operands[0])
            assert order is not None  # since other operands are single numbers
            if op.name == RESHAPE:
                return order.reshape(get_static_shape(op.results[0]))
            if op.name == BROADCAST and _is_repetition(op):
                return _order_repetition(op, order)
            if op.name == BROADCAST:
                return order if order.divide_dims(get_static_shape(op.results[0])) else None
            return order_reduction(op, order) if op.name == REDUCE else resize_order(op, order)
        return self._find_elementwise_order(op)

    def _find_transposed_order(self, op: ir.Operation) -> Order | None:
        order = self._get_order(op.operands[0])
        return transpose_order(op, order or make_plain_order(get_static_shape(op.operands[0])))

    def _find_elementwise_order(self, op: ir.Operation) -> Order | None:
        """Return the order of the first product of the operands, if the others can have it too."""
        if len(op.operands) == 1:
            return self._get_order(op.operands[0])
        computed = [value for value in op.operands if value in self.computed]
        first = min(computed, key=lambda value: self.computed[value])
        order = self._get_order(first)
        if order is None:
            return None
        number = self.computed[first]
        is_matrix_product = number in self._matrix_products
        is_free = self._is_transposed_freely if is_matrix_product else self._has_any_order
        for value in op.operands:
            known = self._get_order(value)
            if known is not None and known.sizes != order.sizes:
                return None
            if value not in self.computed and not is_free(value, order):
                if is_matrix_product and _keeps_roles(self._matrix_products[number], order):
                    self._refused.add(number)
                return None
        return order

    def _find_concatenated_order(self, op: ir.Operation) -> Order | None:
        """Return the order of the first operand, if all are computed in parts of one dimension."""
        order = self._get_order(op.operands[0])
        if order is None or not all(value in self.computed for value in op.operands):
            return None
        axis = read_integer(op, "dimension", 0)
        parts = order.divide_dims(get_static_shape(op.operands[0]))[axis]
        if len(parts) != 1:
            return None
        for value in op.operands:
            sizes = list(order.sizes)
            sizes[parts[0]] = get_static_shape(value)[axis]
            known = self._get_order(value) or make_plain_order(get_static_shape(value))
            if known.sizes != tuple(sizes):
                return None
        sizes = list(order.sizes)
        sizes[parts[0]] = get_static_shape(op.results[0])[axis]
        return Order(tuple(sizes), order.places)

    def _has_any_order(self, value: ir.Value, order: Order) -> bool:
        return has_any_order(value, order, self.orders)

    def _is_transposed_freely(self, value: ir.Value, order: Order) -> bool:
        """Return whether the transpose of a value is the value, an iota or a broadcast of a vector.

        XLA moves the transpose of a matrix product behind an op of which this is true of all other
        operands (reshape_mover.cc). Behind others it stays, since only products with a batch need
        the order of their own dimensions (gpu_layout_assignment.cc).
        """
        op = get_defining_op(value)
        if op is not None and op.name == BROADCAST and has_static_values(op):
            divided = _find_broadcast_parts(op, order, self.orders)
            parts = [part for dim_parts in divided for part in dim_parts]
            known = self._get_order(op.operands[0])
            if known is not None:
                parts = known.sort_by_place(parts)
            places = [order.places[part] for part in parts]
            return bool(divided) and places == sorted(places)
        is_iota = op is not None and op.name == IOTA
        return (is_iota or is_uniform(value)) and self._has_any_order(value, order)


def has_any_order(value: ir.Value, order: Order, orders: Mapping[ir.Value, Order]) -> bool:
    """Return whether a value can be made in an order of dimensions without a transpose."""
    if is_uniform(value):
        return True
    op = get_defining_op(value)
    if op is None or not has_static_values(op):
        return False
    if op.name == BROADCAST:
        return bool(_find_broadcast_parts(op, order, orders))
    if op.name == IOTA:
        return _find_iota_part(op, order) is not None
    is_applied = len(op.results) == 1 and is_elementwise_op(op.name)
    return is_applied and all(has_any_order(operand, order, orders) for operand in op.operands)


def is_uniform(value: ir.Value) -> bool:
    return not get_static_shape(value) or read_uniform_constant(value) is not None


def _keeps_roles(result: ir.Value, order: Order) -> bool:
    """Return whether the rows and the columns of a product of matrices are one piece each.

    Args:
        order: That of the result, or of what is computed of it.
    """
    product = get_defining_op(result)
    assert product is not None
    rows = math.prod(DotGeneral.from_op(product).sides[0].free_sizes)
    sizes = order.memory_sizes
    count = next((n for n in range(len(sizes)) if math.prod(sizes[:n]) == rows), 0)
    pieces = [key for key, _ in itertools.groupby(place < count for place in order.places)]
    return len(pieces) == 2


def _is_repetition(broadcast: ir.Operation) -> bool:
    """Return whether a broadcast repeats elements of neighbours, as to enlarge an image."""
    dims = read_integer_list(broadcast, "broadcast_dimensions", ())
    readers = [use.owner.operation.name for use in broadcast.results[0].uses]
    is_merged = bool(readers) and set(readers) == {RESHAPE}
    return not is_unit_broadcast(broadcast) and is_merged and list(dims) == sorted(dims)


def _order_repetition(broadcast: ir.Operation, order: Order) -> Order:
    """Return the order in which repeated elements follow the part before their dimension."""
    parts = iter(range(len(order.sizes)))
    divided = dict(
        zip(
            read_integer_list(broadcast, "broadcast_dimensions", ()),
            order.divide_dims(get_static_shape(broadcast.operands[0])),
            strict=True,
        )
    )
    sizes: list[int] = []
    keys = [(-1, 0)]  # the place of the part of the source, and the number of the dimension after
    for dim, size in enumerate(get_static_shape(broadcast.results[0])):
        own = divided.get(dim, ())
        for _ in own:
            part = next(parts)
            sizes.append(order.sizes[part])
            keys.append((order.places[part], 0))
        if not own and size != 1:
            sizes.append(size)
            keys.append((keys[-1][0], dim + 1))
    ranked = sorted(keys[1:])
    return Order(tuple(sizes), tuple(ranked.index(key) for key in keys[1:]))


def _find_broadcast_parts(
    broadcast: ir.Operation, order: Order, orders: Mapping[ir.Value, Order]
) -> list[Dims]:
    """Find the parts of a broadcast's result, whose order is given, that each source dim makes.

    Returns:
        The numbers of the parts of each dimension of the source; an empty list if the source has
        another order, and other parts.
    """
    source = broadcast.operands[0]
    shape = get_static_shape(source)
    divided = order.divide_dims(get_static_shape(broadcast.results[0]))
    dims = read_integer_list(broadcast, "broadcast_dimensions", ())
    parts = [divided[dim] if size != 1 else () for dim, size in zip(dims, shape, strict=True)]
    known = orders.get(source)
    sizes = tuple(order.sizes[part] for dim_parts in parts for part in dim_parts)
    if not dims or (known is not None and known.sizes != sizes):
        return [] if dims else [()]
    return parts


def _find_iota_part(iota: ir.Operation, order: Order) -> int | None:
    """Find the part of an iota's result that it counts along; None if it counts along several."""
    dim = read_integer(iota, "iota_dimension", 0)
    parts = order.divide_dims(get_static_shape(iota.results[0]))
    return parts[dim][0] if parts and len(parts[dim]) == 1 else None


def transpose_order(op: ir.Operation, order: Order) -> Order | None:
    """Return the order of the result of a transpose; None if it is one of layouts only."""
    permutation = read_plain_permutation(op)
    if permutation is None:
        return None
    parts = order.divide_dims(get_static_shape(op.operands[0]))
    return order.select_parts([part for dim in permutation for part in parts[dim]])


def _is_undone(product: ir.Operation, order: Order) -> bool:
    """Return whether a transpose is all that reads a product, and gives it its plain order.

    Otherwise the product reads its operand in the order of its dimensions, as XLA's do.
    """
    reader = product
    while reader == product or reader.name == RESHAPE:
        following = find_only_reader(reader)
        if following is None or not order.divide_dims(get_static_shape(reader.results[0])):
            return False
        reader = following
    after = transpose_order(reader, order) if reader.name == TRANSPOSE else None
    if after is None:
        return False
    batch, free = (
        sum(1 for dim in dims if side.shape[dim] != 1)
        for side in DotGeneral.from_op(product).sides[:1]
        for dims in (side.batch, side.free)
    )
    every = tuple(range(len(after.places)))
    swapped = (*every[:batch], *every[batch + free :], *every[batch : batch + free])
    return after.is_plain or after.places == swapped  # by a product of swapped sides


def order_reduction(op: ir.Operation, order: Order) -> Order:
    reduced = read_integer_list(op, "dimensions", ())
    parts = order.divide_dims(get_static_shape(op.operands[0]))
    return order.select_parts([p for dim, ps in enumerate(parts) if dim not in reduced for p in ps])


def resize_order(op: ir.Operation, order: Order) -> Order | None:
    """Return the order of the result of an op that treats each dimension by itself.

    The dimensions that it treats are single parts.
    """
    sizes = list(order.sizes)
    treated = _find_treated_dims(op)
    after = get_static_shape(op.results[0])
    for dim, parts in enumerate(order.divide_dims(get_static_shape(op.operands[0]))):
        if dim in treated:
            if len(parts) != 1:
                return None
            sizes[parts[0]] = after[dim]
    kept = [part for part, size in enumerate(sizes) if size != 1]
    return Order(tuple(sizes), order.places).select_parts(kept)


def _find_treated_dims(op: ir.Operation) -> set[int]:
    shape = get_static_shape(op.operands[0])
    treated: set[int] = set()
    for name, default in PARAMETERS[op.name].items():
        for dim, numbers in enumerate(_read_parameter(op, name)):
            unchanged = shape[dim] if default is None else default
            if any(number != unchanged for number in numbers):
                treated.add(dim)
    return treated


def _read_parameter(op: ir.Operation, name: str) -> list[Dims]:
    """Return the numbers of each dimension in an attribute; an empty list without the attribute."""
    numbers = read_integer_list(op, name, ())
    count = 2 if name == "padding" else 1
    return [tuple(numbers[at : at + count]) for at in range(0, len(numbers), count)]


def _make_parameter(name: str, numbers: Sequence[Dims], context: ir.Context) -> ir.Attribute:
    if name != "padding":
        return make_i64_array([number for (number,) in numbers], context)
    rows = ", ".join(str(list(row)) for row in numbers)
    return ir.Attribute.parse(f"dense<[{rows}]> : tensor<{len(numbers)}x2xi64>", context)


class _ProductParts(NamedTuple):
    """A product in the parts of its dimensions.

    Attributes:
        sides: The operands as they are in memory.
        order: The order of the result.
    """

    sides: tuple[DotOperand, DotOperand]
    order: Order


def _order_product(op: ir.Operation, orders: Sequence[Order | None]) -> Order | None:
    product = _divide_product(op, orders)
    return product.order if product else None


def _divide_product(op: ir.Operation, orders: Sequence[Order | None]) -> _ProductParts | None:
    """Divide the dimensions of a product into the parts that the orders of its operands have."""
    old = DotGeneral.from_op(op).sides
    known = [order or make_plain_order(side.shape) for order, side in zip(orders, old, strict=True)]
    divided = [order.divide_dims(side.shape) for order, side in zip(known, old, strict=True)]
    if orders[0] is None or orders[1] is None:  # A plain operand is divided as the other one.
        given, plain = (1, 0) if orders[0] is None else (0, 1)
        sizes = {
            dim: [known[given].sizes[part] for part in divided[given][other]]
            for others, dims in (
                (old[given].batch, old[plain].batch),
                (old[given].contracting, old[plain].contracting),
            )
            for other, dim in zip(others, dims, strict=True)
        }
        shape = [n for dim, size in enumerate(old[plain].shape) for n in sizes.get(dim, [size])]
        known[plain] = make_plain_order(shape)
        divided[plain] = known[plain].divide_dims(old[plain].shape)
    roles = [
        [[part for dim in dims for part in parts[dim]] for dims in (s.batch, s.contracting, s.free)]
        for s, parts in zip(old, divided, strict=True)
    ]
    paired = [
        [known[number].sizes[part] for part in (*roles[number][0], *roles[number][1])]
        for number in (0, 1)
    ]
    if paired[0] != paired[1]:
        return None
    sides, free_orders = [], []
    for order, (batch, contracting, free) in zip(known, roles, strict=True):
        places = order.places
        sides.append(
            DotOperand(
                tuple(order.memory_sizes),
                tuple(places[part] for part in batch),
                tuple(places[part] for part in contracting),
                tuple(sorted(places[part] for part in free)),
            )
        )
        free_orders.append(order.select_parts(free))
    batch_sizes = [known[0].sizes[part] for part in roles[0][0]]
    left = len(batch_sizes) + len(free_orders[0].sizes)
    order = Order(
        (*batch_sizes, *free_orders[0].sizes, *free_orders[1].sizes),
        (
            *range(len(batch_sizes)),
            *(len(batch_sizes) + place for place in free_orders[0].places),
            *(left + place for place in free_orders[1].places),
        ),
    )
    return _ProductParts((sides[0], sides[1]), order)


@dataclass(slots=True)
class Rewriter:
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
            if any(True for _ in result.uses):
                value = self.values[result]
                if not self.orders[result].is_plain:
                    value = builder.create_transpose(value, self.orders[result].places)
                whole = builder.create_reshape(value, get_static_shape(result))
                result.replace_all_uses_with(whole)
            makers = {get_defining_op(value) for value in op.operands}
            op.erase()
            for maker in makers:  # has been made in the other order
                if maker is None or maker.name != BROADCAST or maker.results[0] in self.values:
                    continue
                if not any(True for _ in maker.results[0].uses):
                    maker.erase()

    def _rewrite_op(self, op: ir.Operation) -> ir.Value:
        builder, result = OpBuilder(op), op.results[0]
        order, source = self.orders[result], op.operands[0]
        if op.name == DOT:
            return self._rewrite_product(op)
        if op.name == BROADCAST and _is_repetition(op):
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
        treated = _find_treated_dims(op)
        places = {dim: order.places[parts[dim][0]] for dim in treated}
        sizes = order.memory_sizes
        for name, default in PARAMETERS[op.name].items():
            given = _read_parameter(op, name)
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
        values = []
        for value in op.operands:
            sizes = list(order.sizes)
            sizes[part] = get_static_shape(value)[axis]
            values.append(self.reorder(op, value, Order(tuple(sizes), order.places)))
        return OpBuilder(op).create_concatenate(values, order.places[part])

    def reorder(self, op: ir.Operation, value: ir.Value, order: Order) -> ir.Value:
        """Return an operand in the order of an elementwise op."""
        if not get_static_shape(value):
            return value
        if value not in self.computed:
            return self._remake(op, value, order)
        builder = OpBuilder(op)
        known = self.orders.get(value) or Order(order.sizes, tuple(range(len(order.sizes))))
        part = self.values.get(value) or builder.create_reshape(value, known.sizes)
        if known == order:
            return part
        return builder.create_transpose(part, order.sort_by_place(known.places))

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
            part = _find_iota_part(maker, order)
            assert part is not None
            attributes["iota_dimension"] = to_i64_attr(order.places[part], op.context)
            return builder.create_op(IOTA, [], [kind], attributes).results[0]
        if maker.name != BROADCAST:
            operands = [self.reorder(op, operand, order) for operand in maker.operands]
            return builder.create_op(maker.name, operands, [kind], attributes).results[0]
        source = maker.operands[0]
        parts = [p for ps in _find_broadcast_parts(maker, order, self.orders) for p in ps]
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
        product = _divide_product(op, [self._get_order(value) for value in op.operands])
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
