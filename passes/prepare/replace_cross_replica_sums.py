"""Replacement of the deprecated cross-replica-sum."""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import CROSS_REPLICA_SUMS
from hespas.passes.base import PassRun
from hespas.passes.prepare.census import ModuleCensus
from hespas.passes.prepare.preparation import Preparation, PrepareStep


class ReplaceCrossReplicaSumsPass(PrepareStep):
    """Replace each cross-replica-sum by an all_reduce that adds."""

    name: ClassVar[str] = "replace-cross-replica-sums"

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        return replace_cross_replica_sums(view.census)


def replace_cross_replica_sums(census: ModuleCensus) -> bool:
    """Replace each cross-replica-sum by an all_reduce, and return whether there were any."""
    sums = census.select_ops_by_name(*CROSS_REPLICA_SUMS)
    for op in sums:
        _replace_cross_replica_sum(op)
    return bool(sums)


def _replace_cross_replica_sum(op: ir.Operation) -> None:
    """Replace the op by an all_reduce that adds."""
    value = op.operands[0]
    element: ir.Type = value.type.element_type  # type: ignore[attr-defined]
    scalar = ir.RankedTensorType.get([], element, loc=op.location)
    reduction = ir.Operation.create(
        "stablehlo.all_reduce",
        results=[op.results[0].type],
        operands=[value],
        attributes={"replica_groups": op.attributes["replica_groups"]},
        regions=1,
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    body = reduction.regions[0].blocks.append(scalar, scalar, arg_locs=[op.location] * 2)
    end = ir.InsertionPoint(body)
    sum_op = ir.Operation.create(
        "stablehlo.add", results=[scalar], operands=list(body.arguments), loc=op.location, ip=end
    )
    ir.Operation.create("stablehlo.return", operands=sum_op.results, loc=op.location, ip=end)
    op.results[0].replace_all_uses_with(reduction.results[0])
    op.erase()
