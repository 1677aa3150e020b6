"""Which ops of a program that XLA has not fused yet would be one kernel: a model of its fusion.

An elementwise op, or one that picks or repeats elements, makes no buffer where kernels take it in:
one that holds all that read it, or several where doing it again in each moves fewer bytes than
writing and reading its result, and is cheap. A kernel stands where its last op does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hespas.estimators.rules.base import names
from hespas.passes.memory.ops import is_elementwise, results_over
from hespas.passes.memory.program import Body, Item

_REPEATED = frozenset(
    names("stablehlo", "broadcast broadcast_in_dim dynamic_broadcast_in_dim iota dynamic_iota")
)
_PICKS = frozenset(
    names(
        "stablehlo",
        "transpose slice dynamic_slice real_dynamic_slice reverse pad dynamic_pad concatenate "
        "gather dynamic_gather map",
    )
    + names("mhlo", "copy")
)
_ENDS = frozenset(  # that take in others, and are taken in by none
    names(
        "stablehlo",
        "reduce reduce_window select_and_scatter dynamic_update_slice scatter",
    )
)
_OUTSIDE = -1  # the number of what stands for the end of a block


def fuse(body: Body, sizes: Sequence[int]) -> None:
    """Put the ops of each kernel together in ``body`` and what is nested in it, in place."""
    for item in body.items:
        for inside in item.bodies:
            fuse(inside, sizes)
    items = body.items
    traffic = _traffic(items, sizes)
    readers = _readers(body)
    kernels: list[frozenset[int]] = [frozenset()] * len(items)
    joins = [_can_join(item.op.name) for item in items]
    for i in range(len(items) - 1, -1, -1):
        item = items[i]
        users: set[int] = set()
        for value in item.makes:
            for reader in readers.get(value, ()):
                users.update((_OUTSIDE,) if reader == _OUTSIDE else kernels[reader])
        inside = _can_be_taken_in(item.op.name) and _OUTSIDE not in users
        if inside and len(users) > 1 and item.op.name not in _REPEATED:
            inside = _is_less(item, traffic[i], sizes, len(users))
        inside = inside and all(joins[user] for user in users)
        kernels[i] = frozenset(users) if inside else frozenset((i,))
    body.items = _kernels(items, kernels)


def _is_less(item: Item, read: int, sizes: Sequence[int], times: int) -> bool:
    """Whether doing an op in each of so many kernels moves fewer bytes than doing it once."""
    written = sum(sizes[value] for value in item.makes)
    return times * read <= read + (1 + times) * written


def _traffic(items: Sequence[Item], sizes: Sequence[int]) -> list[int]:
    """The bytes that each item reads, where what only repeats elements is written in place."""
    repeated: dict[int, int] = {}
    found = []
    for item in items:
        read = sum(repeated.get(value, sizes[value]) for value in dict.fromkeys(item.reads))
        found.append(read)
        if item.op.name in _REPEATED:
            repeated[item.makes[0]] = read
    return found


def _readers(body: Body) -> dict[int, list[int]]:
    """The items that read each value, by index; ``_OUTSIDE`` for the end of the block."""
    readers: dict[int, list[int]] = {}
    for i, item in enumerate(body.items):
        for value in item.reads:
            readers.setdefault(value, []).append(i)
    for value in body.results:
        readers.setdefault(value, []).append(_OUTSIDE)
    return readers


def _kernels(items: list[Item], kernels: list[frozenset[int]]) -> list[Item]:
    """The items that are kernels, each with what it took in."""
    members: dict[int, list[Item]] = {}
    for i, item in enumerate(items):
        for kernel in kernels[i]:
            members.setdefault(kernel, []).append(item)
    result = []
    for i, item in enumerate(items):
        inside = members.get(i, ())
        if i not in kernels[i]:
            continue
        if len(inside) > 1:
            made = {value for one in inside for value in one.makes}
            reads = dict.fromkeys(value for one in inside for value in one.reads)
            item.reads = [value for value in reads if value not in made]
            item.inside = list(inside)
        result.append(item)
    return result


def kernel_results_over(item: Item, value: int) -> Collection[int]:
    """The results that a kernel may write over a value which nothing else reads any more."""
    if not item.inside:
        places = [operand for operand, read in enumerate(item.operands) if read == value]
        found = [results_over(item.op, operand) for operand in places]
        return found[0] if len(found) == 1 else {result for one in found for result in one}
    *_, last = item.inside
    passing = {value}
    for member in item.inside:
        read = [operand for operand, read in enumerate(member.operands) if read in passing]
        if not read:
            continue
        if member is last and len(read) == 1:
            return results_over(member.op, read[0])
        if not is_elementwise(member.op.name):
            return ()
        passing.update(member.makes)
    return range(len(item.makes))


def _can_join(name: str) -> bool:
    return _can_be_taken_in(name) or name in _ENDS


def _can_be_taken_in(name: str) -> bool:
    return is_elementwise(name) or name in _REPEATED or name in _PICKS
