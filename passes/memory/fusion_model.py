"""A model of XLA's fusion, for the memory of programs that are not fused yet.

An elementwise op, or one that selects or repeats elements, needs no buffer if it is computed inside
the kernels that read it. This is the case if only one kernel reads it, or if computing it in each
kernel moves fewer bytes than writing and reading its result. A kernel is at the place of its last
op.

Invariant: the walk goes from the last op to the first, so the kernels of all readers of an op are
final when the op is assigned to kernels.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence

from hespas.dialects.op_kinds import FUSION, name_in_both
from hespas.estimators.work import find_cost_rule
from hespas.passes.memory.buffer_sharing import find_results_over, is_elementwise
from hespas.passes.memory.liveness_program import LivenessBody, LivenessOp

# The kinds of ops that are computed inside the kernels that read them, and of those that end a
# kernel: their producers may be fused into it.
ABSORBED_KINDS = frozenset(("loop", "copy", "gather", "transpose"))
ENDING_KINDS = frozenset(("reduction", "scatter"))
_ENDING_OPS = name_in_both("dynamic_update_slice")  # a copy that writes over what it reads
_TERMINATOR = -1  # stands for the index of the terminator of a block


def fuse_kernels(body: LivenessBody, sizes: Sequence[int]) -> None:
    """Merge the ops of each kernel, in ``body`` and in nested bodies, in place.

    Args:
        body: The body to change.
        sizes: The bytes of each value.
    """
    for item in body.items:
        for inner_body in item.bodies:
            fuse_kernels(inner_body, sizes)
    items = body.items
    read_bytes = _compute_read_bytes(items, sizes)
    readers = _collect_readers(body)
    kernels: list[frozenset[int]] = [frozenset()] * len(items)
    joins = [_can_be_absorbed(item.op.name) or _ends_kernel(item.op.name) for item in items]
    for i in range(len(items) - 1, -1, -1):
        item = items[i]
        users: set[int] = set()
        for value in item.results:
            for reader in readers.get(value, ()):
                users.update((_TERMINATOR,) if reader == _TERMINATOR else kernels[reader])
        is_fused = _can_be_absorbed(item.op.name) and _TERMINATOR not in users
        if is_fused and len(users) > 1:
            is_fused = _is_recompute_cheaper(item, read_bytes[i], sizes, len(users))
        is_fused = is_fused and all(joins[user] for user in users)
        kernels[i] = frozenset(users) if is_fused else frozenset((i,))
    body.items = _merge_into_kernels(items, kernels)


def _is_recompute_cheaper(
    item: LivenessOp, read_bytes: int, sizes: Sequence[int], kernels: int
) -> bool:
    """Return whether computing an op in each of its kernels moves fewer bytes than once."""
    written_bytes = sum(sizes[value] for value in item.results)
    return kernels * read_bytes <= read_bytes + (1 + kernels) * written_bytes


def _compute_read_bytes(items: Sequence[LivenessOp], sizes: Sequence[int]) -> list[int]:
    """Compute the bytes that each op reads. Ops that only repeat elements are always recomputed."""
    repeated: dict[int, int] = {}
    read_bytes = []
    for item in items:
        read = sum(repeated.get(value, sizes[value]) for value in dict.fromkeys(item.reads))
        read_bytes.append(read)
        if _repeats_elements(item.op.name):
            repeated[item.results[0]] = read
    return read_bytes


def _collect_readers(body: LivenessBody) -> dict[int, list[int]]:
    """Collect the indices of the ops that read each value."""
    readers: dict[int, list[int]] = {}
    for i, item in enumerate(body.items):
        for value in item.reads:
            readers.setdefault(value, []).append(i)
    for value in body.results:
        readers.setdefault(value, []).append(_TERMINATOR)
    return readers


def _merge_into_kernels(items: list[LivenessOp], kernels: list[frozenset[int]]) -> list[LivenessOp]:
    """Merge each op into its kernels; ``kernels`` are the indices of their last ops, by op."""
    members: dict[int, list[LivenessOp]] = {}
    for i, item in enumerate(items):
        for kernel in kernels[i]:
            members.setdefault(kernel, []).append(item)
    merged_items = []
    for i, item in enumerate(items):
        if i not in kernels[i]:
            continue
        fused_ops = members[i]
        if len(fused_ops) > 1:
            internal_values = {value for member in fused_ops for value in member.results}
            reads = dict.fromkeys(value for member in fused_ops for value in member.reads)
            item.reads = [value for value in reads if value not in internal_values]
            item.fused_ops = fused_ops
        merged_items.append(item)
    return merged_items


def find_kernel_results_over(item: LivenessOp, value: int) -> Collection[int]:
    """Find the results that a kernel may write over a value which no other op reads any more."""
    places = item.find_operand_places(value)
    if not item.fused_ops:
        result_sets = [find_results_over(item.op, operand) for _, operand in places]
        return (
            result_sets[0]
            if len(result_sets) == 1
            else {result for result_set in result_sets for result in result_set}
        )
    # The fused ops that read the value or what is derived from it, in their order.
    pending = list(places)
    heapq.heapify(pending)
    while pending:
        number, operand = heapq.heappop(pending)
        is_only_operand = True
        while pending and pending[0][0] == number:
            heapq.heappop(pending)
            is_only_operand = False
        member = item.fused_ops[number]
        if number == len(item.fused_ops) - 1 and is_only_operand:
            return find_results_over(member.op, operand)
        if not is_elementwise(member.op.name):
            return ()
        for result in member.results:
            for place in item.find_operand_places(result):
                heapq.heappush(pending, place)
    return range(len(item.results))


def _can_be_absorbed(name: str) -> bool:
    return _find_kind(name) in ABSORBED_KINDS and name not in _ENDING_OPS and name != FUSION


def _ends_kernel(name: str) -> bool:
    return _find_kind(name) in ENDING_KINDS or name in _ENDING_OPS


def _repeats_elements(name: str) -> bool:
    """Return whether the result of an op consists of repeated elements, or of indices."""
    return _find_kind(name) == "loop" and not is_elementwise(name) and name != FUSION


def _find_kind(name: str) -> str:
    """Return the kind of kernel that ops of this name make; "" if that is unknown."""
    rule = find_cost_rule(name)
    return "" if rule is None else rule.kind
