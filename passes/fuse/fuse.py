"""``--fuse``: the kernels that a compiler would launch, as ``mhlo.fusion``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import FUSION
from hespas.passes.annotate.traverse import require_target
from hespas.passes.base import Pass, PassRun, option
from hespas.passes.fuse.algebraic_simplifier import simplify_module
from hespas.passes.fuse.collective_rewrites import (
    scatter_reductions,
    transpose_collectives_to_major,
)
from hespas.passes.fuse.combine_collectives import CollectiveCombiner
from hespas.passes.fuse.dots import fold_transposes, merge_dots
from hespas.passes.fuse.epilogues import fuse_epilogues
from hespas.passes.fuse.fusion_builder import FusionBuilder
from hespas.passes.fuse.fusion_graph import FusionGraph
from hespas.passes.fuse.inline_calls import inline_calls
from hespas.passes.fuse.priority_fusion import KernelLimits, PriorityFusion
from hespas.passes.fuse.row_normalisations import DiamondFinder
from hespas.passes.fuse.select_and_scatter import expand_selections
from hespas.passes.fuse.sibling_fusion import SiblingFusion
from hespas.passes.fuse.tree_reductions import split_reductions
from hespas.passes.split.blocks import check_not_split
from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest

MODELS = ("xla", "elementwise", "none")


@dataclass(frozen=True)
class FusePass(Pass):
    """Group ops into the kernels that XLA's GPU compiler would launch."""

    name: ClassVar[str] = "fuse"
    prepares: ClassVar[bool] = True

    model: str = option("xla", f"what the compiler fuses: {', '.join(MODELS)}")
    max_buffers: int = option(96, "operands and results of one kernel, at most")
    combine: int = option(
        (30 << 20) + 7, "bytes of collectives that are combined to one, at most; 0: leave them"
    )
    max_ops: int = option(10000, "ops in one kernel, at most")

    def apply(self, module: ir.Module, run: PassRun) -> None:
        check_not_split(module, self.name)
        if self.model not in MODELS:
            raise UsageError(
                f"{self.name}: no model is called '{self.model}'",
                remedy=suggest_nearest(self.model, list(MODELS)),
            )
        self._check_limits()
        if _has_fusions(module):
            run.warn(f"{self.name}: the module has fusions already: it is left as it is")
            return
        limits = KernelLimits(self.max_buffers, self.max_ops)
        inline_calls(module)
        blocks = simplify_module(module)
        if self.model == "xla":
            target = require_target(module)
            for block in blocks:
                expand_selections(block)
                scatter_reductions(block, target)
                fold_transposes(block)
                merge_dots(block)
                transpose_collectives_to_major(block)
                fold_transposes(block)
                split_reductions(block)
            blocks = simplify_module(module)
            for block in blocks:
                fuse_epilogues(block)
        for block in blocks:
            self._fuse_block(block, limits)
        if self.model == "xla" and self.combine:
            for block in blocks:
                CollectiveCombiner(block, self.combine).combine_collectives()

    def _check_limits(self) -> None:
        for spelled, value, least in (
            ("max-buffers", self.max_buffers, 2),
            ("max-ops", self.max_ops, 1),
            ("combine", self.combine, 0),
        ):
            if value < least:
                raise UsageError(f"{self.name}: {spelled} is {value}, less than {least}")

    def _fuse_block(self, block: ir.Block, limits: KernelLimits) -> None:
        if self.model == "none":
            return
        graph = FusionGraph(block, elementwise_only=self.model == "elementwise")
        groups = DiamondFinder(graph).find_diamonds() if self.model == "xla" else []
        fused = PriorityFusion(graph, limits, groups)
        fused.fuse_producers()
        if self.model == "xla":
            SiblingFusion(fused).fuse_siblings()
        FusionBuilder(graph, fused.kernels, fused.collect_dependencies()).build_fusions()


def _has_fusions(module: ir.Module) -> bool:
    """Whether there are fusions in the module."""
    has_fusion = False

    def visit_op(op: ir.Operation) -> ir.WalkResult:
        nonlocal has_fusion
        has_fusion = op.name == FUSION
        return ir.WalkResult.INTERRUPT if has_fusion else ir.WalkResult.ADVANCE

    module.operation.walk(visit_op)
    return has_fusion
