"""Which ops of a program that XLA has not fused yet would be one kernel: a model of its fusion.

An elementwise op, or one that picks or repeats elements, makes no buffer where kernels take it in:
one that holds all that read it, or several where doing it again in each moves fewer bytes than
writing and reading its result, and is cheap. A kernel stands where its last op does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hespas.dialects.op_kinds import qualify_op_names
from hespas.passes.memory.buffer_sharing import find_results_over, is_elementwise
from hespas.passes.memory.liveness_program import LivenessBody, LivenessOp

_REPEATING_OPS = frozenset(
    qualify_op_names(
        "stablehlo", "broadcast broadcast_in_dim dynamic_broadcast_in_dim iota dynamic_iota"
    )
)
_SELECTING_OPS = frozenset(
    qualify_op_names(
        "stablehlo",
        "transpose slice dynamic_slice real_dynamic_slice reverse pad dynamic_pad concatenate "
        "gather dynamic_gather map",
    )
    + qualify_op_names("mhlo", "copy")
)
_KERNEL_ENDS = frozenset(  # that take in others, and are taken in by none
    qualify_op_names(
        "stablehlo",
        "reduce reduce_window select_and_scatter dynamic_update_slice scatter",
    )
)
_OUTSIDE = -1  # the number of what stands for the end of a block


def fuse_kernels(body: LivenessBody, sizes: Sequence[int]) -> None:
    """Put the ops of each kernel together in ``body`` and what is nested in it, in place."""
    for item in body.items:
        for inside in item.bodies:
            fuse_kernels(inside, sizes)
    items = body.items
    traffic = _compute_read_bytes(items, sizes)
    readers = _collect_readers(body)
    kernels: list[frozenset[int]] = [frozenset()] * len(items)
    joins = [_can_join_kernel(item.op.name) for item in items]
    for i in range(len(items) - 1, -1, -1):
        item = items[i]
        users: set[int] = set()
        for value in item.makes:
            for reader in readers.get(value, ()):
                users.update((_OUTSIDE,) if reader == _OUTSIDE else kernels[reader])
        inside = _can_be_absorbed(item.op.name) and _OUTSIDE not in users
        if inside and len(users) > 1 and item.op.name not in _REPEATING_OPS:
            inside = _is_recompute_cheaper(item, traffic[i], sizes, len(users))
        inside = inside and all(joins[user] for user in users)
        kernels[i] = frozenset(users) if inside else frozenset((i,))
    body.items = _merge_into_kernels(items, kernels)


def _is_recompute_cheaper(
    item: LivenessOp, read_bytes: int, sizes: Sequence[int], times: int
) -> bool:
    """Whether doing an op in each of so many kernels moves fewer bytes than doing it once."""
    written_bytes = sum(sizes[value] for value in item.makes)
    return times * read_bytes <= read_bytes + (1 + times) * written_bytes


def _compute_read_bytes(items: Sequence[LivenessOp], sizes: Sequence[int]) -> list[int]:
    """The bytes that each item reads, where what only repeats elements is written in place."""
    repeated: dict[int, int] = {}
    read_bytes = []
    for item in items:
        read = sum(repeated.get(value, sizes[value]) for value in dict.fromkeys(item.reads))
        read_bytes.append(read)
        if item.op.name in _REPEATING_OPS:
            repeated[item.makes[0]] = read
    return read_bytes


def _collect_readers(body: LivenessBody) -> dict[int, list[int]]:
    """The items that read each value, by index; ``_OUTSIDE`` for the end of the block."""
    readers: dict[int, list[int]] = {}
    for i, item in enumerate(body.items):
        for value in item.reads:
            readers.setdefault(value, []).append(i)
    for value in body.results:
        readers.setdefault(value, []).append(_OUTSIDE)
    return readers


def _merge_into_kernels(items: list[LivenessOp], kernels: list[frozenset[int]]) -> list[LivenessOp]:
    """The items that are kernels, each with what it took in."""
    members: dict[int, list[LivenessOp]] = {}
    for i, item in enumerate(items):
        for kernel in kernels[i]:
            members.setdefault(kernel, []).append(item)
    result = []
    for i, item in enumerate(items):
        inside = members.get(i, ())
        if i not in kernels[i]:
            continue
        if len(inside) > 1:
            internal_values = {value for member in inside for value in member.makes}
            reads = dict.fromkeys(value for member in inside for value in member.reads)
            item.reads = [value for value in reads if value not in internal_values]
            item.inside = list(inside)
        result.append(item)
    return result


def find_kernel_results_over(item: LivenessOp, value: int) -> Collection[int]:
    """The results that a kernel may write over a value which nothing else reads any more."""
    if not item.inside:
        places = [operand for operand, read in enumerate(item.operands) if read == value]
        result_sets = [find_results_over(item.op, operand) for operand in places]
        return (
            result_sets[0]
            if len(result_sets) == 1
            else {result for result_set in result_sets for result in result_set}
        )
    *_, last = item.inside
    passing = {value}
    for member in item.inside:
        read = [operand for operand, read in enumerate(member.operands) if read in passing]
        if not read:
            continue
        if member is last and len(read) == 1:
            return find_results_over(member.op, read[0])
        if not is_elementwise(member.op.name):
            return ()
        passing.update(member.makes)
    return range(len(item.makes))


def _can_join_kernel(name: str) -> bool:
    return _can_be_absorbed(name) or name in _KERNEL_ENDS


def _can_be_absorbed(name: str) -> bool:
    return is_elementwise(name) or name in _REPEATING_OPS or name in _SELECTING_OPS
