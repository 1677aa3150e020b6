"""Products of matrices by the roles of their dimensions: batch, contracted and free."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from hespas.dialects.mlir import cache_ir_function, get_defining_op, ir
from hespas.estimators.rules.base import parse_number_fields, to_buffer_size
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    get_element_type,
    get_static_shape,
)
from hespas.passes.fuse.simplify import BROADCAST

DOT, VIEW = "stablehlo.dot_general", "stablehlo.reshape"
DIMENSIONS = "dot_dimension_numbers"
MERGE_BYTES = 64 << 20  # products are merged if operands and result of one are not larger
LEAST_TILE = 16  # the least length of a tile of a product that XLA computes
PRECISION = "precision_config"
KEPT_ATTRIBUTES = (PRECISION, "algorithm")
SIDES = ("lhs", "rhs")
NO_ROLE = -1  # of a dimension of size 1

Dims = tuple[int, ...]


def list_products(body: ir.Block) -> list[ir.Operation]:
    """List the products in the body of a kernel, which has too few ops for a native search."""
    return [view.operation for view in body.operations if view.operation.name == DOT]


def drop_unit_dims(dims: Sequence[int], shape: Sequence[int]) -> Dims:
    """Drop the dimensions of size 1, whose order does not matter."""
    return tuple(d for d in dims if shape[d] != 1)


@dataclass(frozen=True, slots=True)
class DotOperand:
    """The shape of one operand, and its dimensions by role."""

    shape: Dims
    batch: Dims
    contracting: Dims
    free: Dims

    @property
    def flat_operand(self) -> DotOperand | None:
        """This operand with its free dimensions as one; None if they are not adjacent."""
        return _flatten_free_dims(self)

    @property
    def has_batch(self) -> bool:
        """Whether there are several matrices."""
        return any(self.shape[d] != 1 for d in self.batch)

    @property
    def free_sizes(self) -> Dims:
        return tuple(self.shape[d] for d in self.free)


@functools.lru_cache(maxsize=4096)
def _flatten_free_dims(side: DotOperand) -> DotOperand | None:
    if not side.free or side.free != tuple(range(side.free[0], side.free[-1] + 1)):
        return None
    less = len(side.free) - 1

    def shift_dims(dims: Dims) -> Dims:
        return tuple(d - less if d > side.free[0] else d for d in dims)

    shape = (
        *side.shape[: side.free[0]],
        math.prod(side.free_sizes),
        *side.shape[side.free[-1] + 1 :],
    )
    return DotOperand(shape, shift_dims(side.batch), shift_dims(side.contracting), side.free[:1])


@dataclass(frozen=True, slots=True)
class DotGeneral:
    """A ``dot_general`` op and its operands."""

    op: ir.Operation
    sides: tuple[DotOperand, DotOperand]

    @classmethod
    def from_op(cls, op: ir.Operation) -> DotGeneral:
        lhs, rhs = op.operands
        return cls(op, _divide_dims_by_role(op.attributes[DIMENSIONS], lhs.type, rhs.type))

    @property
    def total_bytes(self) -> int:
        return sum(to_buffer_size(v.type).bytes for v in (*self.op.operands, self.op.results[0]))

    def make_merge_key(self, shared: int) -> object:
        """Make a key that is equal for products that can be merged on their operand ``shared``.

        Returns None if this product cannot be merged.
        """
        shared_operand, flat_other = self.sides[shared], self.sides[1 - shared].flat_operand
        if flat_other is None:
            return None
        attributes = self.op.attributes
        attribute_values = tuple(attributes[name] for name in KEPT_ATTRIBUTES if name in attributes)
        return (
            self.op.operands[shared],
            shared_operand.batch,
            shared_operand.contracting,
            flat_other.batch,
            flat_other.contracting,
            get_element_type(self.op.operands[1 - shared]),
            get_element_type(self.op.results[0]),
            attribute_values,
        )

    def flatten_operand(self, side: int, builder: OpBuilder) -> ir.Value:
        """Reshape an operand so that its free dimensions are one."""
        flat = self.sides[side].flat_operand
        assert flat is not None
        return builder.create_reshape(self.op.operands[side], flat.shape)


@cache_ir_function(4096)
def _divide_dims_by_role(
    numbers: ir.Attribute, lhs: ir.Type, rhs: ir.Type
) -> tuple[DotOperand, DotOperand]:
    """Divide the dimensions of the operands of a product by its dimension numbers."""
    fields = parse_number_fields(numbers)
    sides = []
    for name, kind in zip(SIDES, (lhs, rhs), strict=True):
        batch = fields.get(f"{name}_batching_dimensions", ())
        contracting = fields.get(f"{name}_contracting_dimensions", ())
        shape = to_buffer_size(kind).shape
        free = tuple(d for d in range(len(shape)) if d not in batch and d not in contracting)
        sides.append(DotOperand(shape, batch, contracting, free))
    return sides[0], sides[1]


def make_dimension_numbers(
    sides: tuple[DotOperand, DotOperand], context: ir.Context
) -> ir.Attribute:
    """Make the attribute with the batch and contracting dimensions."""
    fields = [
        f"{name}_{role}_dimensions = {list(dims)}"
        for role in ("batching", "contracting")
        for name, side in zip(SIDES, sides, strict=True)
        if (dims := side.batch if role == "batching" else side.contracting)
    ]
    return ir.Attribute.parse(f"#stablehlo.dot<{', '.join(fields)}>", context)


def find_roles(shape: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Find the role of each dimension: an index of ``sizes``, whose elements it has a part of.

    Args:
        shape: The sizes of the dimensions, of which there are as many elements as of ``sizes``.

    Returns:
        The roles; empty if a dimension has parts of two of them.
    """
    roles = []
    role, left = 0, 1
    pending = [size for size in sizes if size > 1]
    numbers = [number for number, size in enumerate(sizes) if size > 1]
    for extent in shape:
        if extent == 1:
            roles.append(NO_ROLE)
            continue
        if left == 1:
            role, left = numbers.pop(0), pending.pop(0)
        if left % extent:
            return []
        left //= extent
        roles.append(role)
    return roles


def is_batch_of_matrices(side: DotOperand) -> bool:
    """Return whether batch, contracted and free dimensions are neighbours, the batch not last."""
    every_dim = tuple(range(len(side.shape)))
    wide, batch, contracting, free = (
        drop_unit_dims(dims, side.shape)
        for dims in (every_dim, side.batch, side.contracting, side.free)
    )
    are_neighbours = all(
        group == wide[wide.index(group[0]) :][: len(group)]
        for group in (batch, contracting, free)
        if group
    )
    return are_neighbours and wide[-1:] != batch[-1:]


def list_merged_parts(value: ir.Value) -> Sequence[int]:
    """List the sizes of a value, in the parts that a view has merged if one makes it."""
    shape, view = get_static_shape(value), get_defining_op(value)
    if view is not None and view.name == VIEW:
        parts = get_static_shape(view.operands[0])
        return parts if find_roles(parts, shape) else shape
    return shape


def find_repetition(value: ir.Value) -> ir.Operation | None:
    """Return the broadcast of which a value is a view, such as repeated keys, or None."""
    view = get_defining_op(value)
    op = get_defining_op(view.operands[0]) if view is not None and view.name == VIEW else None
    return op if op is not None and op.name == BROADCAST else None


def has_whole_tiles(side: DotOperand, parts: Sequence[int]) -> bool:
    """Return whether XLA's kernels read several dimensions as one, in tiles of 16 and more.

    Args:
        side: An operand.
        parts: The sizes of the dimensions that a view merges to those of the operand.
    """
    roles = find_roles(parts, side.shape)
    wide = [
        (role in side.contracting, size)
        for role, size in zip(roles, parts, strict=True)
        if role != NO_ROLE and role not in side.batch
    ]
    return all(
        size % LEAST_TILE == 0 or LEAST_TILE % size == 0
        for merged in (True, False)
        for size in [size for is_contracted, size in wide if is_contracted == merged][1:]
    )
