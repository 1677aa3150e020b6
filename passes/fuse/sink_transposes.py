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

import itertools
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from hespas.dialects.mlir import get_defining_op, ir, list_users
from hespas.dialects.op_bodies import get_terminator
from hespas.dialects.op_kinds import MAYBE_COLLECTIVE
from hespas.estimators.rules.base import read_integer, read_integer_list
from hespas.estimators.rules.movement import is_unit_broadcast
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dimension_orders import (
    CONCATENATE,
    IOTA,
    PARAMETERS,
    REDUCE,
    RESHAPE,
    SLICE,
    TRANSPOSE,
    Order,
    find_broadcast_parts,
    has_any_order,
    is_repetition,
    is_uniform,
    make_plain_order,
    order_product,
    order_reduction,
    order_repetition,
    resize_order,
    transpose_order,
)
from hespas.passes.fuse.dots import DOT, DotGeneral
from hespas.passes.fuse.fold_transposes import read_plain_permutation
from hespas.passes.fuse.fusion_graph import is_elementwise_op
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    find_only_reader,
    get_static_shape,
    has_static_values,
    make_i64_array,
)
from hespas.passes.fuse.order_rewriter import OrderRewriter
from hespas.passes.fuse.pad_convolutions import CONVOLUTION
from hespas.passes.fuse.simplify import BROADCAST

KEEPS_ORDER = frozenset((TRANSPOSE, RESHAPE, REDUCE, CONCATENATE, *PARAMETERS))


class SinkTransposesPass(BlockPass):
    """Move transposes of results of products and convolutions behind what has any order.

    Sums are like products, unless something that is computed of them is returned in another order:
    their kernels write any order. Transposes of other values move behind ops of one operand,
    reshapes and sums.
    """

    name: ClassVar[str] = "sink-transposes"

    def rewrite_block(self, block: ir.Block) -> None:
        for product in find_named_ops(block, (DOT,)):
            _transpose_before_slices(block, product)
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
        OrderRewriter(analysis.orders, known).rewrite_ops(analysis.ops)


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
            number = min(numbers)
            for value in op.results:
                self.computed[value] = number
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
            readers = list_users(result) if is_view else []
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
            self._get_order(op.operands[0]) is not None and is_repetition(op)
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
            order = order_product(op, orders)
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
            if op.name == BROADCAST:
                return order_repetition(op, order) if is_repetition(op) else order
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
        number = self.computed[first]
        if order is None:
            if number not in self._sums:
                self._refuse_transposed(computed)
            return None
        is_matrix_product = number in self._matrix_products
        is_free = self._is_transposed_freely if is_matrix_product else self._has_any_order
        for value in op.operands:
            known = self._get_order(value)
            if known is not None and known.sizes != order.sizes:
                return None
            if known == order:
                continue
            if value not in self.computed and not is_free(value, order):
                if is_matrix_product and _keeps_roles(self._matrix_products[number], order):
                    self._refused.add(number)
                return None
        return order

    def _refuse_transposed(self, values: Iterable[ir.Value]) -> None:
        """Let the transposes of products of matrices stay that meet a product that has none."""
        for value in values:
            number, order = self.computed[value], self._get_order(value)
            product = self._matrix_products.get(number)
            if order is not None and product is not None and _keeps_roles(product, order):
                self._refused.add(number)

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
            divided = find_broadcast_parts(op, order, self.orders)
            parts = [part for dim_parts in divided for part in dim_parts]
            known = self._get_order(op.operands[0])
            if known is not None:
                parts = known.sort_by_place(parts)
            places = [order.places[part] for part in parts]
            return bool(divided) and places == sorted(places)
        is_iota = op is not None and op.name == IOTA
        return (is_iota or is_uniform(value)) and self._has_any_order(value, order)


def _transpose_before_slices(block: ir.Block, product: ir.Operation) -> None:
    """Transpose a product before its slices, if all that reads them are equal transposes.

    XLA gives the product their order, as it does where the transpose comes first.
    """
    slices = list_users(product.results[0])
    parts = [value for op in slices for value in op.results]
    readers = [reader for part in parts for reader in list_users(part)]
    names = {op.name for op in slices}, {op.name for op in readers}
    if names != ({SLICE}, {TRANSPOSE}) or not has_static_values(product):
        return
    order, *others = {read_plain_permutation(reader) for reader in readers}
    if order is None or others:
        return
    first = next(view.operation for view in block.operations if view.operation in slices)
    whole = OpBuilder(first).create_transpose(product.results[0], order)
    for reader in readers:
        part = get_defining_op(reader.operands[0])
        assert part is not None
        bounds = {
            name: make_i64_array(
                [read_integer_list(part, name, ())[d] for d in order], part.context
            )
            for name in ("start_indices", "limit_indices", "strides")
        }
        kinds = [reader.results[0].type]
        sliced = OpBuilder(reader).create_op(SLICE, [whole], kinds, bounds).results[0]
        reader.results[0].replace_all_uses_with(sliced)
        reader.erase()
    for part in slices:
        part.erase()


def _keeps_roles(result: ir.Value, order: Order) -> bool:
    """Return whether the rows and the columns of a product of matrices are one piece each.

    Args:
        order: That of the result, or of what is computed of it, or of its rows or columns in part.
    """
    product = get_defining_op(result)
    assert product is not None
    rows, columns = (math.prod(side.free_sizes) for side in DotGeneral.from_op(product).sides)
    sizes = order.memory_sizes
    counts = range(len(sizes))
    is_split = [math.prod(sizes[:n]) == rows or math.prod(sizes[n:]) == columns for n in counts]
    count = is_split.index(True) if True in is_split else 0
    pieces = [key for key, _ in itertools.groupby(place < count for place in order.places)]
    return len(pieces) == 2


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
