"""Copies between device and host alongside kernels, as XLA runs them.

It makes each copy asynchronous, and moves both ends apart for TPUs (libtpu 0.0.52) and for the GPUs
for which it hides collectives. Here, a copy starts as soon as its operands are known, and is
awaited before what reads its result first, at the latest at the end of a step of a loop. libtpu
starts the copies that a step needs first in the step before; that they start in their own step is
assumed. XLA:GPU lets a copy end after as many kernels as it expects it to take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.attrs import CommAttr
from hespas.dialects.mlir import ir
from hespas.estimators.work import is_free_op
from hespas.passes.base import option
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dependency_order import collect_dependencies, order_topologically
from hespas.passes.fuse.kernel_cost_model import FusionDevice
from hespas.passes.fuse.overlap_collectives import (
    add_readers_before_writers,
    hides_collectives,
    place_ops,
)
from hespas.passes.memory.host_values import get_host_copy_target

_EPSILON = 1e-3  # of a position, between the places of two ops


@dataclass(frozen=True)
class OverlapTransfersPass(BlockPass):
    """Run copies between device and host alongside kernels that do not wait for them."""

    name: ClassVar[str] = "overlap-transfers"

    target: str = option(
        "", "GPU, as in form-kernels, of which XLA's schedule decides; empty: copies run alongside"
    )

    def rewrite_block(self, block: ir.Block) -> None:
        if self.target and not hides_collectives(FusionDevice.from_target(self.target)):
            return
        ops = [view.operation for view in block.operations]
        copies = {
            number: comm
            for number, op in enumerate(ops)
            if get_host_copy_target(op)
            and (comm := CommAttr.read_from_op(op)) is not None
            and not comm.is_async
        }
        if copies:
            place_ops(ops, copies, _order_copies_apart(ops, list(copies)))


def _order_copies_apart(
    ops: Sequence[ir.Operation], copies: Sequence[int]
) -> list[tuple[int, bool]]:
    """Order the ops of a block with copies early and waits late; the others keep their order.

    Free ops, such as reshapes, stay with the copy that reads them, or whose result they read.
    Copies that can start at once start in the order in which they are needed.

    Args:
        ops: The ops of the block, of which the last one is its terminator.
        copies: The numbers of those that are copies.

    Returns:
        The number of each op, and that of each copy a second time, with True: where it is awaited.
    """
    last = len(ops) - 1
    dependencies = collect_dependencies(ops, [op.name for op in ops])
    add_readers_before_writers(ops, dependencies)
    waits = {copy: len(ops) + place for place, copy in enumerate(copies)}
    late = set(waits.values())
    for number, before in dependencies.items():
        before |= {waits[copy] for copy in before & waits.keys()}
        if number != last and not late.isdisjoint(before) and is_free_op(ops[number]):
            late.add(number)
    dependencies |= {wait: {copy} for copy, wait in waits.items()}
    positions: dict[int, float] = {}
    needed: dict[int, float] = {}  # the position of the first reader
    for number in reversed(range(len(ops))):
        positions[number] = needed.get(number, last) - _EPSILON if number in late else number
        for before in dependencies[number] & late:
            needed[before] = min(needed.get(before, last), positions[number])
    for wait in waits.values():
        positions[wait] = needed.get(wait, last) - _EPSILON
    for copy in reversed(copies):
        positions[copy] = positions[waits[copy]] - len(ops)  # before all others
        pending = [copy]
        while pending:
            for before in dependencies[pending.pop()] - late:
                if positions[before] >= 0 and is_free_op(ops[before]):
                    positions[before] = -len(ops)
                    pending.append(before)
    copied = {wait: copy for copy, wait in waits.items()}
    order = order_topologically(dependencies, positions)
    return [(copied.get(number, number), number in copied) for number in order]
