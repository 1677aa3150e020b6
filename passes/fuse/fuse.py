"""``--fuse``: group ops into the kernels that a compiler would launch, as ``mhlo.fusion``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import has_fusions
from hespas.passes.annotate.traverse import require_target
from hespas.passes.base import Pass, PassRun, option
from hespas.passes.fuse import KernelFusion
from hespas.passes.fuse.algebraic_simplifier import simplify_module
from hespas.passes.fuse.collective_rewrites import (
    scatter_reductions,
    transpose_collectives_to_major,
)
from hespas.passes.fuse.combine_collectives import CollectiveCombiner
from hespas.passes.fuse.constant_sinking import sink_constants
from hespas.passes.fuse.converted_operands import CONVERSIONS, fuse_converted_operands, is_widened
from hespas.passes.fuse.dots import fold_transposes, merge_dots
from hespas.passes.fuse.epilogues import fuse_epilogues
from hespas.passes.fuse.fusion_builder import FusionBuilder
from hespas.passes.fuse.fusion_graph import FusionGraph
from hespas.passes.fuse.priority_fusion import KernelLimits, PriorityFusion
from hespas.passes.fuse.ragged_products import EXPANSIONS, expand_ragged_dots
from hespas.passes.fuse.row_normalisations import DiamondFinder
from hespas.passes.fuse.select_and_scatter import expand_selections
from hespas.passes.fuse.sibling_fusion import SiblingFusion
from hespas.passes.fuse.tree_reductions import split_reductions
from hespas.passes.prepare.call_inlining import inline_all_calls
from hespas.passes.split.blocks import check_not_split
from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest

MODELS = ("xla", "elementwise", "none")


@dataclass(frozen=True)
class FusePass(Pass):
    """Group ops into the kernels that XLA's GPU compiler would launch."""

    name: ClassVar[str] = "fuse"
    prepares: ClassVar[bool] = True

    model: str = option("xla", f"model of the compiler's fusion: {', '.join(MODELS)}")
    max_buffers: int = option(96, "maximum number of operands and results of a kernel")
    combine: int = option(
        (30 << 20) + 7, "maximum bytes of a combined collective; 0: do not combine collectives"
    )
    max_ops: int = option(10000, "maximum number of ops in a kernel")
    conversions: str = option(
        "all",
        "types that products convert to wider ones while they read them: "
        + "; ".join(f"{name}: {text}" for name, text in CONVERSIONS.items()),
    )
    ragged: str = option(
        "dense",
        "what the rows of a ragged_dot are multiplied by: "
        + "; ".join(f"{name}: {text}" for name, text in EXPANSIONS.items()),
    )

    def apply(self, module: ir.Module, run: PassRun) -> KernelFusion:
        check_not_split(module, self.name)
        for noun, value, known in (
            ("model is", self.model, MODELS),
            ("conversions are", self.conversions, CONVERSIONS),
            ("ragged products are", self.ragged, EXPANSIONS),
        ):
            if value not in known:
                raise UsageError(
                    f"{self.name}: no {noun} called '{value}'",
                    remedy=suggest_nearest(value, list(known)),
                )
        self._check_limits()
        if has_fusions(module):
            run.warn(f"{self.name}: the module already has fusions and is not changed")
            return KernelFusion(self.model)
        limits = KernelLimits(self.max_buffers, self.max_ops)
        inline_all_calls(module)
        blocks = simplify_module(module)
        if self.model == "xla":
            target = require_target(module)
            for block in blocks:
                expand_selections(block)
                if self.ragged == "dense":
                    expand_ragged_dots(block)
                scatter_reductions(block, target)
                fold_transposes(block)
                merge_dots(block, lambda value: not is_widened(value, self.conversions))
                transpose_collectives_to_major(block)
                fold_transposes(block)
                split_reductions(block)
            blocks = simplify_module(module)
        # CSE would move the copies out again.
        sink_constants(blocks)
        if self.model == "xla":
            for block in blocks:
                fuse_converted_operands(block, self.conversions)
                fuse_epilogues(block)
        for block in blocks:
            self._fuse_block(block, limits)
        if self.model == "xla" and self.combine:
            for block in blocks:
                CollectiveCombiner(block, self.combine).combine_collectives()
        return KernelFusion(self.model)

    def _check_limits(self) -> None:
        for spelling, value, minimum in (
            ("max-buffers", self.max_buffers, 2),
            ("max-ops", self.max_ops, 1),
            ("combine", self.combine, 0),
        ):
            if value < minimum:
                raise UsageError(f"{self.name}: {spelling} is {value}, less than {minimum}")

    def _fuse_block(self, block: ir.Block, limits: KernelLimits) -> None:
        if self.model == "none":
            return
        graph = FusionGraph(block, elementwise_only=self.model == "elementwise")
        groups = DiamondFinder(graph).find_diamonds() if self.model == "xla" else []
        fusion = PriorityFusion(graph, limits, groups)
        fusion.fuse_producers()
        if self.model == "xla":
            SiblingFusion(fusion).fuse_siblings()
        FusionBuilder(graph, fusion.kernels, fusion.collect_dependencies()).build_fusions()
