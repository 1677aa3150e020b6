"""Replacement of the deprecated cross-replica-sum."""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.mlir import create_before, ir, replace_results
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
    groups = {"replica_groups": op.attributes["replica_groups"]}
    reduction = create_before(
        op, "stablehlo.all_reduce", op.operands, op.results.types, groups, regions=1
    )
    with op.location:
        scalar = ir.RankedTensorType.get([], ir.ShapedType(op.operands[0].type).element_type)
        body = reduction.regions[0].blocks.append(scalar, scalar)
        with ir.InsertionPoint(body):
            added = ir.Operation.create("stablehlo.add", [scalar], list(body.arguments))
            ir.Operation.create("stablehlo.return", [], list(added.results))
    replace_results(op, reduction.results)
