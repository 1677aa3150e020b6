"""The operations of a region: reducers, comparators, scan bodies, control flow inside a fusion.

Values inside such a region live in registers, so bytes are not counted.
"""

from __future__ import annotations

from hespas.dialects import ops
from hespas.dialects.attrs import trips_of
from hespas.dialects.mlir import ir, symbol
from hespas.estimators.rules.base import KEEP_GOING, Part, UnknownCost, Work, attribute
from hespas.estimators.work import op_work

CONTROL = ops.CONTROL | {"func.call", "stablehlo.composite", "mhlo.composite"}


class Tally:
    """A running sum of operations by rate."""

    __slots__ = ("_flops", "transcendentals")

    def __init__(self) -> None:
        self._flops: dict[tuple[str, str], int] = {}
        self.transcendentals = 0

    def add(self, work: Work | Tally, times: int = 1, per: int = 1) -> None:
        """Add the work ``times / per`` times, rounded up."""
        for part in work.parts() if isinstance(work, Tally) else work.parts:
            key = (part.unit, part.dtype)
            self._flops[key] = self._flops.get(key, 0) + -(-part.flops * times // per)
        self.transcendentals += -(-work.transcendentals * times // per)

    def total(self) -> int:
        """Operations and transcendentals together, to compare branches."""
        return sum(self._flops.values()) + self.transcendentals

    def parts(self) -> tuple[Part, ...]:
        """The sum as parts, the largest first."""
        ordered = sorted(self._flops.items(), key=lambda item: (-item[1], item[0]))
        return tuple(Part(unit, dtype, flops) for (unit, dtype), flops in ordered if flops)


def region_tally(block: ir.Block, times: int = 1, into: Tally | None = None) -> Tally:
    """The operations of ``times`` runs of a block, added to ``into`` where given."""
    tally = Tally() if into is None else into
    for view in block.operations:
        op = view.operation
        if op.name in CONTROL:
            tally.add(control_tally(op), times)
        else:
            tally.add(op_work(op), times)
    return tally


def control_tally(op: ir.Operation) -> Tally:
    """Operations of control flow in a region: trips x (condition + body), the dearest branch."""
    name = op.name.partition(".")[2]
    if name == "while":
        trips, tally = known_trips(op), Tally()
        for region in op.regions:
            region_tally(region.blocks[0], trips, tally)
        return tally
    if name in ("if", "case"):
        return max((region_tally(region.blocks[0]) for region in op.regions), key=Tally.total)
    return region_tally(callee(op).regions[0].blocks[0])


def known_trips(loop: ir.Operation) -> int:
    """The trips of a loop that ``prepare`` has counted; raises UnknownCost where it has not."""
    trips = trips_of(loop)
    if trips is None:
        remedy = "run prepare, which finds it or takes a default"
        raise UnknownCost("the loop's trip count is not known", op=loop, remedy=remedy)
    return trips


def callee(op: ir.Operation) -> ir.Operation:
    """The function that a call, composite or asynchronous op runs; raises UnknownCost."""
    name = attribute(op, ops.CALLEE.get(op.name, "decomposition")).value
    module = op.parent
    while module is not None and module.name != "builtin.module":
        module = module.parent
    if module is not None:
        for view in module.regions[0].blocks[0].operations:
            if view.operation.name == "func.func" and symbol(view.operation) == name:
                return view.operation
    raise UnknownCost(f"the function @{name} is not in the module", op=op, remedy=KEEP_GOING)


def uses_first_argument(block: ir.Block, count: int) -> bool:
    """Whether any of the first ``count`` arguments (the old values of a scatter) is used."""
    return any(
        next(iter(argument.uses), None) is not None for argument in list(block.arguments)[:count]
    )
