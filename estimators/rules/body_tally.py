"""Counting the operations of a body: reducers, comparators, scan bodies, control flow in fusions.

Values inside a body live in registers, so bytes are not counted.
"""

from __future__ import annotations

from hespas.dialects import op_kinds
from hespas.dialects.attr_codec import read_branch_number, read_trip_count
from hespas.dialects.mlir import get_symbol_name, has_users, ir
from hespas.estimators.rules.base import (
    KEEP_GOING,
    NotALeaf,
    OpWork,
    UnknownCost,
    WorkPart,
    get_attribute,
)
from hespas.estimators.rules.registry import compute_op_work
from hespas.support.errors import HespasError

CONTROL = op_kinds.CONTROL | op_kinds.COMPOSITES | {"func.call"}


class WorkTally:
    """A running sum of operations by peak rate."""

    __slots__ = ("_flops", "transcendentals")

    def __init__(self) -> None:
        self._flops: dict[tuple[str, str], int] = {}
        self.transcendentals = 0

    def add_work(self, work: OpWork | WorkTally, times: int = 1, per: int = 1) -> None:
        """Add ``times / per`` times the work; each sum is rounded up."""
        for part in work.to_parts() if isinstance(work, WorkTally) else work.parts:
            key = (part.unit, part.dtype)
            self._flops[key] = self._flops.get(key, 0) + -(-part.flops * times // per)
        self.transcendentals += -(-work.transcendentals * times // per)

    def sum_operations(self) -> int:
        """Return operations plus transcendentals, the measure by which branches are compared."""
        return sum(self._flops.values()) + self.transcendentals

    def to_parts(self) -> tuple[WorkPart, ...]:
        """Return the sum as parts, the largest first."""
        ordered = sorted(self._flops.items(), key=lambda item: (-item[1], item[0]))
        return tuple(WorkPart(unit, dtype, flops) for (unit, dtype), flops in ordered if flops)


def tally_block(block: ir.Block, times: int = 1, into: WorkTally | None = None) -> WorkTally:
    """Count the operations of ``times`` executions of a block.

    Args:
        into: The tally to add to; by default a new one.
    """
    tally = WorkTally() if into is None else into
    for view in block.operations:
        op = view.operation
        if op.name in CONTROL:
            tally.add_work(tally_control_flow(op), times)
        else:
            tally.add_work(compute_inner_work(op), times)
    return tally


def compute_inner_work(op: ir.Operation) -> OpWork:
    """Compute the work of an op that is a part of a kernel. Raises HespasError if it communicates.

    Also raises what ``compute_op_work`` does.
    """
    try:
        return compute_op_work(op)
    except NotALeaf:
        raise HespasError(
            "the op communicates, and runs in a fusion or another op, which is one kernel",
            op=op,
            remedy="move it out of the kernel",
        ) from None


def tally_control_flow(op: ir.Operation) -> WorkTally:
    """Count the operations of control flow in a body.

    A loop counts its condition and body once per trip. A branch counts as the one that is known to
    run, else as that with the most operations.
    """
    if op.name in op_kinds.LOOPS:
        trips, tally = require_trip_count(op), WorkTally()
        for region in op.regions:
            tally_block(region.blocks[0], trips, tally)
        return tally
    if op.name in op_kinds.BRANCHES:
        number = read_branch_number(op)
        if number is not None:
            return tally_block(op.regions[number].blocks[0])
        return max(
            (tally_block(region.blocks[0]) for region in op.regions), key=WorkTally.sum_operations
        )
    return tally_block(find_callee(op).regions[0].blocks[0])


def require_trip_count(loop: ir.Operation) -> int:
    """Return the trip count that ``prepare`` wrote on a loop; raises UnknownCost without one."""
    trips = read_trip_count(loop)
    if trips is None:
        remedy = "run prepare, which finds it or assumes a default"
        raise UnknownCost("the loop's trip count is not known", op=loop, remedy=remedy)
    return trips


def find_callee(op: ir.Operation) -> ir.Operation:
    """Return the function that a call, composite or asynchronous op runs; raises UnknownCost."""
    name = get_attribute(op, op_kinds.CALLEE.get(op.name, "decomposition")).value
    module = op.parent
    while module is not None and module.name != "builtin.module":
        module = module.parent
    if module is not None:
        for view in module.regions[0].blocks[0].operations:
            if view.operation.name == "func.func" and get_symbol_name(view.operation) == name:
                return view.operation
    raise UnknownCost(f"the function @{name} is not in the module", op=op, remedy=KEEP_GOING)


def uses_first_arguments(block: ir.Block, count: int) -> bool:
    """Return whether the block uses any of its first ``count`` arguments.

    Those of a scatter computation are the old values.
    """
    return any(has_users(argument) for argument in list(block.arguments)[:count])
