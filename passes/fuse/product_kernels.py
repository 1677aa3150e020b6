"""The ops that XLA's kernels of products compute too, by the rules of its GemmFusion.

(xla/backends/gpu/transforms/gemm_fusion.cc; what is worth it is decided in
xla/service/gpu/triton_tiling_propagation.cc.)

The kernel grows from the product to the only user of its result, and on to the only user of that
one: over elementwise ops whose other operands are arguments, or results of kernels and of ops that
no such kernel computes, or broadcasts of one or of a scalar; and over transposes that keep the
batch, the rows and the columns of the product each in one piece, in any order of its dimensions.

It grows from the product to what makes an operand, over ops that read no more bytes than they make:
elementwise ones of one operand, and of another that is a broadcast; slices and conversions to a
narrower type only of arguments that nothing else reads, and concatenations of whole tiles.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise

from hespas.dialects.mlir import get_attribute, get_defining_op, ir, list_users
from hespas.dialects.op_bodies import trace_through_ops
from hespas.estimators.rules.base import read_integer_list, to_buffer_size
from hespas.passes.fuse.dots import (
    DOT,
    NO_ROLE,
    VIEW,
    DotGeneral,
    find_repetition,
    find_roles,
    has_whole_tiles,
    list_merged_parts,
)
from hespas.passes.fuse.kernel_cost_model import group_permutation
from hespas.passes.fuse.op_builder import find_only_reader, get_element_type, get_static_shape
from hespas.passes.fuse.simplify import BROADCAST, CONVERT, read_uniform_constant

TRANSPOSE = "stablehlo.transpose"
SLICE, CONCATENATE = "stablehlo.slice", "stablehlo.concatenate"
# The elementwise ops that Triton has, and those that XLA expands into a chain of them.
APPLIED = frozenset(
    f"stablehlo.{name}"
    for name in (
        "abs", "add", "and", "atan2", "cbrt", "ceil", "clamp", "compare", "convert", "cosine",
        "divide", "exponential", "exponential_minus_one", "floor", "log", "log_plus_one",
        "logistic", "maximum", "minimum", "multiply", "negate", "not", "or", "power", "remainder",
        "rsqrt", "select", "sine", "sqrt", "subtract", "tan", "tanh", "xor",
    )
) | {"mhlo.erf"}  # fmt: skip
# The ops that a kernel of a product may compute, so that XLA does not make them before.
COMPUTED = APPLIED | {
    DOT, TRANSPOSE, BROADCAST, SLICE, CONCATENATE, "stablehlo.constant", "stablehlo.iota",
}  # fmt: skip
TYPES = ("bf16", "f16", "f32")  # of the results of libraries with epilogues
PRODUCT_TYPES = (*TYPES, "i32")
OF_ONE_SIZE = frozenset(("stablehlo.negate", "stablehlo.transpose"))
CONVERSIONS = {
    "none": "no type, and products have no other op in their kernels",
    "no-f8E4M3": "all but f8E4M3, for GPUs before Ada",
    "all": "every type",
}
"""Which types products can widen, by name. XLA has no such kernels for GPUs before Ampere, and on
none for integers without a sign."""
TILE = 64  # the rows or columns of each operand of a concatenation are a multiple
GROWTH_BYTES = 1024  # by which the result of an applied op may exceed what it reads
RUN_BYTES = 16  # of elements in a row, of which a kernel reads multiples
BATCH = 0  # the role of the batch of a product, before those of rows and columns


def collect_output_ops(product: ir.Operation, *, in_matrices: bool) -> list[ir.Operation]:
    """Collect the ops that the kernel of a ``dot_general`` applies to its result, in order.

    Args:
        in_matrices: Whether the kernel computes a batch of matrices, as on GPUs, and so no
            broadcasts to other dimensions.
    """
    ops: list[ir.Operation] = []
    sizes, batch = _list_role_sizes(product), BATCH
    views: list[ir.Operation] = []
    last = product
    while (user := _find_only_user(last)) is not None:
        if user.name == VIEW:
            views.append(user)
        elif user.name == TRANSPOSE and (order := _find_role_order(user, sizes)):
            in_matrices = in_matrices and not _splits_matrices(user, sizes, batch)
            sizes, batch = [sizes[role] for role in order], order.index(batch)
            ops += [*views, user]
            views = []
        elif user.name in APPLIED and _can_apply(user, last):
            roles = find_roles(get_static_shape(user.results[0]), sizes)
            if in_matrices and not all(
                _is_broadcast_of_matrices(value, roles, batch) for value in user.operands
            ):
                break
            ops += [*views, user]
            views = []
        else:
            break
        last = user
    return ops


def collect_operand_ops(product: ir.Operation, number: int, conversions: str) -> list[ir.Operation]:
    """Collect the ops between what a kernel reads and operand ``number`` of a product, in order."""
    value = product.operands[number]
    if joined := _collect_concatenation(product, number):
        return joined
    if repeated := _collect_repetition(product, number):
        return repeated
    if moved := _collect_transpose(product, number):
        return [*_collect_operand_ops(moved[0].operands[0], conversions), *moved]
    ops = _collect_operand_ops(value, conversions)
    # A view of what the kernel reads is free, and may be one for other kernels too.
    first = next((n for n, op in enumerate(ops) if op.name != VIEW), len(ops))
    return ops[first:]


def is_widened(value: ir.Value, conversions: str, known: dict[ir.Value, bool]) -> bool:
    """Return whether a product can read a value before it is converted to a wider type.

    Args:
        known: Answers for values, to which those on the way are added.
    """
    applied = []
    while value not in known and (source := _find_applied_source(value)) is not None:
        applied.append(value)
        value = source
    if value not in known:
        known[value] = any(map(is_widening, _collect_moved_ops(value, conversions)))
    known.update(dict.fromkeys(applied, known[value]))
    return known[value]


def is_widening(op: ir.Operation) -> bool:
    """Return whether an op converts to a type that is not narrower."""
    if op.name != CONVERT:
        return False
    narrow, wide = (to_buffer_size(v.type) for v in (op.operands[0], op.results[0]))
    return wide.bits >= narrow.bits


def _collect_operand_ops(value: ir.Value, conversions: str) -> list[ir.Operation]:
    applied: list[ir.Operation] = []
    while (op := get_defining_op(value)) is not None:
        source = _find_applied_source(value)
        if source is None:
            break
        applied.append(op)
        value = source
    return [*_collect_moved_ops(value, conversions), *reversed(applied)]


def _find_applied_source(value: ir.Value) -> ir.Value | None:
    """Return what an elementwise op reads besides broadcasts, if a kernel applies it, or None."""
    op = get_defining_op(value)
    if op is None or op.name not in APPLIED or op.name == CONVERT:
        return None
    if len(op.operands) == 1:
        return op.operands[0] if isinstance(get_element_type(value), ir.FloatType) else None
    wholes = [operand for operand in op.operands if not _is_broadcast(operand)]
    if len(op.operands) != 2 or len(wholes) != 1:
        return None
    others = [operand for operand in op.operands if operand not in wholes]
    return wholes[0] if all(map(_is_broadcast_argument, others)) else None


def _collect_moved_ops(value: ir.Value, conversions: str) -> list[ir.Operation]:
    op = get_defining_op(value)
    if op is None:
        return []
    if positions := _list_position_ops(op):
        return positions
    if op.name == CONVERT:
        if not is_widening(op):
            return [op] if _alone_reads_argument(op) else []
        inner = _collect_operand_ops(op.operands[0], conversions)
        if any(map(is_widening, inner)):
            return [*inner, op]
        if not _can_widen(op.operands[0], conversions):
            return []
        return [*(inner or _collect_rearrangements(op.operands[0])), op]
    if op.name == SLICE:
        return [op] if _alone_reads_argument(op) else []
    if op.name == VIEW:
        inner = _collect_operand_ops(op.operands[0], conversions)
        roles = _group_viewed_dims(get_static_shape(op.operands[0]), get_static_shape(value))
        # A scale of each group of rows repeats along a part of what the view merges.
        is_grouped = any(_repeats_part(read, roles) for other in inner for read in other.operands)
        return [] if is_grouped else [*inner, op]
    if op.name in OF_ONE_SIZE:
        inner = _collect_operand_ops(op.operands[0], conversions)
        is_read_once = find_only_reader(op) is not None
        return [*inner, op] if is_read_once and any(map(is_widening, inner)) else []
    return []


def _can_widen(value: ir.Value, conversions: str) -> bool:
    kind = str(get_element_type(value))
    if conversions == "none" or kind.startswith("ui"):
        return False
    return conversions == "all" or not kind.startswith("f8E4M3")


def _collect_rearrangements(value: ir.Value) -> list[ir.Operation]:
    """Collect the transposes and signs that make a value, in order."""
    op = get_defining_op(value)
    if op is None or op.name not in OF_ONE_SIZE:
        return []
    return [*_collect_rearrangements(op.operands[0]), op]


def _is_broadcast(value: ir.Value) -> bool:
    op = get_defining_op(value)
    if op is None or op.name not in (BROADCAST, "stablehlo.constant"):
        return False
    return not _list_position_ops(op)


def _list_position_ops(op: ir.Operation) -> list[ir.Operation]:
    """List the ops that make positions in the kernel itself: an iota, and its broadcast."""
    if op.name == "stablehlo.iota":
        return [op]
    source = get_defining_op(op.operands[0]) if op.name == BROADCAST else None
    return [source, op] if source is not None and source.name == "stablehlo.iota" else []


def _is_broadcast_argument(value: ir.Value) -> bool:
    """Return whether a value is a constant number, or the broadcast of an argument of the function.

    The arguments of loops are elements of one, and XLA drops dimensions of size 1 before.
    """
    op = get_defining_op(value)
    if read_uniform_constant(value) is not None or op is None:
        return op is not None
    if op.name != BROADCAST or not _is_function_argument(op.operands[0]):
        return False
    return 1 not in get_static_shape(op.operands[0])


def _is_function_argument(value: ir.Value) -> bool:
    block = value.owner
    return isinstance(block, ir.Block) and block.owner.operation.name == "func.func"


def _alone_reads_argument(op: ir.Operation) -> bool:
    """Return whether an op that one op reads is the only reader of an argument."""
    return (
        _is_function_argument(op.operands[0])
        and len(list_users(op.operands[0])) == 1
        and find_only_reader(op) is not None
    )


def _collect_views(value: ir.Value) -> tuple[ir.Operation | None, list[ir.Operation]]:
    """Return the op that makes a value, and the views of its result, the last one first."""
    views: list[ir.Operation] = []
    while (op := get_defining_op(value)) is not None and op.name == VIEW:
        views.append(op)
        value = op.operands[0]
    return op, views


def _collect_transpose(product: ir.Operation, number: int) -> list[ir.Operation]:
    """Collect the transpose of an operand that the kernel reads untransposed, and its views.

    What is contracted must be one piece of what is transposed, in the same order, and the other
    dimensions at most two, of whole tiles. Of a right operand it must not be innermost. The batch
    must be outermost, and what stays innermost have multiples of 16 bytes.
    """
    side = DotGeneral.from_op(product).sides[number]
    op, views = _collect_views(product.operands[number])
    if op is None or op.name != TRANSPOSE or _count_innermost_bytes(op) % RUN_BYTES:
        return []
    dims = find_roles(get_static_shape(op.results[0]), side.shape)
    if not dims or not has_whole_tiles(side, _list_transposed_parts(op)):
        return []
    permutation = read_integer_list(op, "permutation", ())
    # The dimensions of the transpose, in the order of those of what is transposed.
    order = sorted(range(len(dims)), key=lambda place: permutation[place])
    order = [place for place in order if dims[place] != NO_ROLE]
    batch = sorted(place for place in order if dims[place] in side.batch)
    if order[: len(batch)] != batch:
        return []
    pieces = [
        (key, list(part))
        for key, part in groupby(order[len(batch) :], lambda d: dims[d] in side.contracting)
    ]
    contracted = [part for is_contracted, part in pieces if is_contracted]
    is_whole = contracted == [sorted(part) for part in contracted[:1]] and len(pieces) <= 3
    is_innermost = bool(pieces) and pieces[-1][0]
    return [op, *reversed(views)] if is_whole and not (number and is_innermost) else []


def _count_innermost_bytes(transpose: ir.Operation) -> int:
    """Count the bytes that are innermost before a transpose, and neighbours after it."""
    source = to_buffer_size(transpose.operands[0].type)
    runs = group_permutation(source.shape, read_integer_list(transpose, "permutation", ()))
    _, innermost = max(runs, default=(0, 1))
    return innermost * source.bits // 8


def _list_transposed_parts(transpose: ir.Operation) -> list[int]:
    """List the sizes of a transpose's result, in the parts that a view before it has merged."""
    shape = get_static_shape(transpose.operands[0])
    parts = list_merged_parts(transpose.operands[0])
    roles = find_roles(parts, shape)
    return [
        size
        for dim in read_integer_list(transpose, "permutation", ())
        for size in [size for size, role in zip(parts, roles, strict=True) if role == dim] or [1]
    ]


def _collect_concatenation(product: ir.Operation, number: int) -> list[ir.Operation]:
    """Collect the concatenation of an operand, and its views, which may divide what is contracted.

    It must be along the only free dimension of the operand, tile by tile.
    """
    side = DotGeneral.from_op(product).sides[number]
    op, views = _collect_views(product.operands[number])
    if op is None or op.name != CONCATENATE or len(side.free) != 1:
        return []
    axis, shape = get_attribute(op, "dimension").value, get_static_shape(op.results[0])
    (free,) = side.free
    is_same_dim = side.shape[free] == shape[axis] and (
        math.prod(side.shape[free:]) == math.prod(shape[axis:])
    )
    is_whole = all(get_static_shape(operand)[axis] % TILE == 0 for operand in op.operands)
    return [op, *reversed(views)] if is_same_dim and is_whole else []


def _collect_repetition(product: ir.Operation, number: int) -> list[ir.Operation]:
    """Collect the broadcast that repeats an operand along a part of the batch, and its view.

    Each group of query heads reads the same keys and values.
    """
    side, value = DotGeneral.from_op(product).sides[number], product.operands[number]
    op, view = find_repetition(value), get_defining_op(value)
    if op is None or view is None:
        return []
    roles = find_roles(get_static_shape(op.results[0]), side.shape)
    kept = read_integer_list(op, "broadcast_dimensions", ())
    added = {role for dim, role in enumerate(roles) if dim not in kept and role != NO_ROLE}
    return [op, view] if added and added <= set(side.batch) else []


def _find_only_user(op: ir.Operation) -> ir.Operation | None:
    """Return the op with one result that alone reads that of an op of its block, or None."""
    users = set(list_users(op.results[0]))
    user = users.pop() if len(users) == 1 else None
    return user if user is not None and user.block == op.block and len(user.results) == 1 else None


def _can_apply(op: ir.Operation, source: ir.Operation) -> bool:
    """Return whether the kernel that computes ``source`` also computes an elementwise op on it."""
    others = list(op.operands)
    others.remove(source.results[0])
    if not all(map(_is_available, others)):
        return False
    read_bytes = sum(to_buffer_size(value.type).bytes for value in op.operands)
    return to_buffer_size(op.results[0].type).bytes <= read_bytes + GROWTH_BYTES or _is_returned(op)


def _is_available(value: ir.Value) -> bool:
    """Return whether a value is in memory before XLA fuses, or a broadcast of one or of a scalar.

    These are arguments, and the results of ops that no kernel of a product computes, and of such
    kernels that come before.
    """
    op = get_defining_op(value)
    if op is not None and op.name == BROADCAST:
        value = op.operands[0]
        if not get_static_shape(value):
            return True
    op = get_defining_op(trace_through_ops(value, (VIEW, "stablehlo.bitcast_convert")))
    return op is None or op.name not in COMPUTED or read_uniform_constant(value) is not None


def _is_returned(op: ir.Operation) -> bool:
    users = set(list_users(op.results[0]))
    return len(users) == 1 and not len(users.pop().results)


def _list_role_sizes(product: ir.Operation) -> list[int]:
    """List the elements of the batch, of the rows and of the columns of a product."""
    lhs, rhs = DotGeneral.from_op(product).sides
    batch = math.prod(lhs.shape[d] for d in lhs.batch)
    return [batch, math.prod(lhs.free_sizes), math.prod(rhs.free_sizes)]


def _group_viewed_dims(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Number the dimensions before a reshape by the smallest groups that it keeps apart."""
    ends = {1, *accumulate(after, operator.mul)}
    groups = []
    number, elements = 0, 1
    for size in before:
        groups.append(number if size > 1 else NO_ROLE)
        elements *= size
        number += elements in ends
    return groups


def _find_role_order(transpose: ir.Operation, sizes: Sequence[int]) -> list[int]:
    """Return the order of the roles after a transpose; empty if one of them is in two pieces.

    It is empty too if a dimension has parts of two roles.
    """
    roles = find_roles(get_static_shape(transpose.operands[0]), sizes)
    if not roles:
        return []
    permutation = [
        d for d in read_integer_list(transpose, "permutation", ()) if roles[d] != NO_ROLE
    ]
    order = [role for role, _ in groupby(roles[d] for d in permutation)]
    is_whole = len(order) == len(set(order))
    return [*order, *(r for r in range(len(sizes)) if r not in order)] if is_whole else []


def _splits_matrices(transpose: ir.Operation, sizes: Sequence[int], batch: int) -> bool:
    """Return whether a transpose changes the order of the dimensions of the rows or the columns.

    What follows it is computed in the dimensions of the program.
    """
    roles = find_roles(get_static_shape(transpose.operands[0]), sizes)
    permutation = read_integer_list(transpose, "permutation", ())
    return any(
        roles[before] == roles[after] != batch and before > after
        for before, after in pairwise(dim for dim in permutation if roles[dim] != NO_ROLE)
    )


def _is_broadcast_of_matrices(value: ir.Value, roles: Sequence[int], batch: int) -> bool:
    """Return whether a broadcast is one to the shape of the product in matrices; True of others.

    XLA computes a batch of matrices, and views its result in the dimensions of the program. It
    moves the view behind an elementwise op (ReshapeMover) if broadcasts are of dimensions that the
    view leaves as they are, but not that of several dimensions of the batch, which it merges later.

    Args:
        roles: The role of each dimension of the result; empty if they are not known.
        batch: The role of the dimensions of the batch.
    """
    op = get_defining_op(value)
    if op is None or op.name not in (BROADCAST, "stablehlo.constant"):
        return True
    counts = Counter(roles)
    if counts[batch] > 1:
        return False
    if op.name != BROADCAST:
        return True
    source = get_static_shape(op.operands[0])
    dims = read_integer_list(op, "broadcast_dimensions", ())
    present = [d for d, extent in zip(dims, source, strict=True) if extent > 1]
    return not present or (bool(roles) and all(counts[roles[d]] == 1 for d in present))


def _repeats_part(value: ir.Value, roles: Sequence[int]) -> bool:
    """Return whether a value is a broadcast along some of the dimensions of one role."""
    op = get_defining_op(value)
    if op is None or op.name != BROADCAST or read_uniform_constant(value) is not None:
        return False
    source = get_static_shape(op.operands[0])
    dims = read_integer_list(op, "broadcast_dimensions", ())
    present = {d for d, extent in zip(dims, source, strict=True) if extent > 1}
    return any(
        len({d in present for d, other in enumerate(roles) if other == role}) > 1
        for role in set(roles) - {NO_ROLE}
    )
