"""Orders of dimensions in memory, and the orders that ops give to what they compute.

An order is that of the parts into which reshapes divide dimensions, as those of grouped heads;
dimensions of size 1 are left out.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hespas.dialects.mlir import get_defining_op, ir, list_users
from hespas.estimators.rules.base import read_integer, read_integer_list
from hespas.estimators.rules.movement import is_unit_broadcast
from hespas.passes.fuse.dots import Dims, DotGeneral, DotOperand, find_roles
from hespas.passes.fuse.fold_transposes import read_plain_permutation
from hespas.passes.fuse.fusion_graph import is_elementwise_op
from hespas.passes.fuse.op_builder import (
    get_static_shape,
    has_static_values,
)
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


class Order(NamedTuple):
    """The order of a value's dimensions in memory, in parts of them that are wider than 1.

    Attributes:
        sizes: The sizes of the parts, in the order of the value's dimensions.
        places: The place of each part in memory.
    """

    sizes: Dims
    places: Dims

    @classmethod
    def from_keys(cls, sizes: Sequence[int], keys: Sequence[Any]) -> Order:
        """Make the order of parts that memory has in the order of their keys."""
        ranked = sorted(keys)
        return cls(tuple(sizes), tuple(ranked.index(key) for key in keys))

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
        starts = [below in bounds[1] for below in every[:-1]]
        return Order.from_keys(sizes, makers)._merge_parts(starts)

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
        return Order.from_keys(sizes, places)

    def select_parts(self, parts: Sequence[int]) -> Order:
        """Return the order of what has only these parts, in this order."""
        sizes = [self.sizes[part] for part in parts]
        return Order.from_keys(sizes, [self.places[part] for part in parts])


def _find_bounds(sizes: Dims) -> list[int]:
    """Return where each part starts, and the last ends, in products."""
    return [1, *itertools.accumulate(sizes, operator.mul)]


@functools.lru_cache(maxsize=4096)
def _divide_dims(sizes: Dims, shape: Dims) -> tuple[Dims, ...]:
    roles = find_roles(sizes, shape)
    if len(roles) != len(sizes):
        return ()
    return tuple(
        tuple(part for part, role in enumerate(roles) if role == dim) for dim in range(len(shape))
    )


def make_plain_order(shape: Sequence[int]) -> Order:
    sizes = tuple(size for size in shape if size != 1)
    return Order(sizes, tuple(range(len(sizes))))


def has_any_order(value: ir.Value, order: Order, orders: Mapping[ir.Value, Order]) -> bool:
    """Return whether a value can be made in an order of dimensions without a transpose."""
    if is_uniform(value):
        return True
    op = get_defining_op(value)
    if op is None or not has_static_values(op):
        return False
    if op.name == BROADCAST:
        return bool(find_broadcast_parts(op, order, orders))
    if op.name == IOTA:
        return find_iota_part(op, order) is not None
    is_applied = len(op.results) == 1 and is_elementwise_op(op.name)
    return is_applied and all(has_any_order(operand, order, orders) for operand in op.operands)


def is_uniform(value: ir.Value) -> bool:
    """Return whether a value is one number, or all of its elements are one constant."""
    return not get_static_shape(value) or read_uniform_constant(value) is not None


def is_repetition(broadcast: ir.Operation) -> bool:
    """Return whether a broadcast repeats elements of neighbours, as to enlarge an image."""
    dims = read_integer_list(broadcast, "broadcast_dimensions", ())
    readers = [reader.name for reader in list_users(broadcast.results[0])]
    is_merged = bool(readers) and set(readers) == {RESHAPE}
    return not is_unit_broadcast(broadcast) and is_merged and list(dims) == sorted(dims)


def order_repetition(broadcast: ir.Operation, order: Order) -> Order:
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
    return Order.from_keys(sizes, keys[1:])


def find_broadcast_parts(
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


def find_iota_part(iota: ir.Operation, order: Order) -> int | None:
    """Find the part of an iota's result that it counts along; None if it counts along several."""
    dim = read_integer(iota, "iota_dimension", 0)
    parts = order.divide_dims(get_static_shape(iota.results[0]))
    return parts[dim][0] if len(parts[dim]) == 1 else None


def transpose_order(op: ir.Operation, order: Order) -> Order | None:
    """Return the order of the result of a transpose; None if it is one of layouts only."""
    permutation = read_plain_permutation(op)
    if permutation is None:
        return None
    parts = order.divide_dims(get_static_shape(op.operands[0]))
    return order.select_parts([part for dim in permutation for part in parts[dim]])


def order_reduction(op: ir.Operation, order: Order) -> Order:
    """Return the order of the result of a reduction."""
    reduced = read_integer_list(op, "dimensions", ())
    parts = order.divide_dims(get_static_shape(op.operands[0]))
    return order.select_parts([p for dim, ps in enumerate(parts) if dim not in reduced for p in ps])


def resize_order(op: ir.Operation, order: Order) -> Order | None:
    """Return the order of the result of an op that treats each dimension by itself.

    The dimensions that it treats are single parts.
    """
    sizes = list(order.sizes)
    treated = find_treated_dims(op)
    after = get_static_shape(op.results[0])
    for dim, parts in enumerate(order.divide_dims(get_static_shape(op.operands[0]))):
        if dim in treated:
            if len(parts) != 1:
                return None
            sizes[parts[0]] = after[dim]
    kept = [part for part, size in enumerate(sizes) if size != 1]
    return Order(tuple(sizes), order.places).select_parts(kept)


def find_treated_dims(op: ir.Operation) -> set[int]:
    shape = get_static_shape(op.operands[0])
    treated: set[int] = set()
    for name, default in PARAMETERS[op.name].items():
        for dim, numbers in enumerate(read_parameter(op, name)):
            unchanged = shape[dim] if default is None else default
            if any(number != unchanged for number in numbers):
                treated.add(dim)
    return treated


def read_parameter(op: ir.Operation, name: str) -> list[Dims]:
    """Return the numbers of each dimension in an attribute; an empty list without the attribute."""
    numbers = read_integer_list(op, name, ())
    count = 2 if name == "padding" else 1
    return [tuple(numbers[at : at + count]) for at in range(0, len(numbers), count)]


class ProductParts(NamedTuple):
    """A product in the parts of its dimensions.

    Attributes:
        sides: The operands as they are in memory.
        order: The order of the result.
    """

    sides: tuple[DotOperand, DotOperand]
    order: Order


def order_product(op: ir.Operation, orders: Sequence[Order | None]) -> Order | None:
    """Return the order of the result of a product; None if its operands are divided differently."""
    product = divide_product(op, orders)
    return product.order if product else None


def divide_product(op: ir.Operation, orders: Sequence[Order | None]) -> ProductParts | None:
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
    return ProductParts((sides[0], sides[1]), order)
