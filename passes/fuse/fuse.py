"""``--fuse``: the kernels that a compiler would launch, as ``mhlo.fusion``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.errors import UsageError
from hespas.dialects.mlir import ir
from hespas.dialects.ops import FUSION
from hespas.passes.annotate.traverse import target_of
from hespas.passes.base import Pass, Run, nearest, option
from hespas.passes.fuse.build import Builder
from hespas.passes.fuse.collectives import along_major, scatter_reductions
from hespas.passes.fuse.combine import Combiner
from hespas.passes.fuse.dots import fold_transposes, merge_dots
from hespas.passes.fuse.epilogues import fuse_epilogues
from hespas.passes.fuse.graph import Graph
from hespas.passes.fuse.inline import inline_calls
from hespas.passes.fuse.priority import Limits, Priority
from hespas.passes.fuse.reductions import split_reductions
from hespas.passes.fuse.siblings import Siblings
from hespas.passes.fuse.simplify import simplify
from hespas.passes.fuse.softmax import Diamonds
from hespas.passes.fuse.windows import expand_selections
from hespas.passes.split.blocks import check_order

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

    def apply(self, module: ir.Module, run: Run) -> None:
        check_order(module, self.name)
        if self.model not in MODELS:
            raise UsageError(
                f"{self.name}: no model is called '{self.model}'",
                remedy=nearest(self.model, list(MODELS)),
            )
        self._check_limits()
        if is_fused(module):
            run.warn(f"{self.name}: the module has fusions already: it is left as it is")
            return
        limits = Limits(self.max_buffers, self.max_ops)
        inline_calls(module)
        blocks = simplify(module)
        if self.model == "xla":
            target = target_of(module)
            for block in blocks:
                expand_selections(block)
                scatter_reductions(block, target)
                fold_transposes(block)
                merge_dots(block)
                along_major(block)
                fold_transposes(block)
                split_reductions(block)
            blocks = simplify(module)
            for block in blocks:
                fuse_epilogues(block)
        fusions = sum(self._block(block, limits) for block in blocks)
        if self.model == "xla" and self.combine:
            for block in blocks:
                Combiner(block, self.combine).run()
        run.results["fusions"] = fusions

    def _check_limits(self) -> None:
        for spelled, value, least in (
            ("max-buffers", self.max_buffers, 2),
            ("max-ops", self.max_ops, 1),
            ("combine", self.combine, 0),
        ):
            if value < least:
                raise UsageError(f"{self.name}: {spelled} is {value}, less than {least}")

    def _block(self, block: ir.Block, limits: Limits) -> int:
        if self.model == "none":
            return 0
        graph = Graph(block, elementwise_only=self.model == "elementwise")
        groups = Diamonds(graph).find() if self.model == "xla" else []
        fused = Priority(graph, limits, groups)
        fused.run()
        if self.model == "xla":
            Siblings(fused).run()
        return Builder(graph, fused.kernels, fused.needs()).build()


def is_fused(module: ir.Module) -> bool:
    """Whether there are fusions in the module."""
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found = op.name == FUSION
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found
