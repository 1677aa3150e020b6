"""Forming of kernels: which ops of a block become one ``mhlo.fusion``.

The parts share the kernels in memory: producers are fused by priority, then siblings, and the
fusions are built at the end. A sort makes positions itself (sort_iota_fusion.cc).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.configs.op_cycles import read_op_cycles
from hespas.dialects.attrs import KernelAttr
from hespas.dialects.mlir import find_ops, get_defining_op, ir
from hespas.dialects.op_kinds import FUSION
from hespas.passes.base import PassRun, check_choice, option
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.fuse_epilogues import HEROES
from hespas.passes.fuse.fusion_builder import FusionBuilder
from hespas.passes.fuse.fusion_graph import FusionGraph
from hespas.passes.fuse.kernel_cost_model import DEFAULT_TARGET, FusionDevice
from hespas.passes.fuse.op_builder import copy_operand_ops, find_named_ops, fuse_ops
from hespas.passes.fuse.priority_fusion import KernelLimits, PriorityFusion
from hespas.passes.fuse.row_normalisations import DiamondFinder
from hespas.passes.fuse.sibling_fusion import SiblingFusion
from hespas.passes.fuse.simplify import BROADCAST

SORT, IOTA = "stablehlo.sort", "stablehlo.iota"
KERNEL_MODELS = ("xla", "elementwise")


@dataclass(frozen=True)
class FormKernelsPass(BlockPass):
    """Group the ops of a block into kernels that write as little as possible to memory."""

    name: ClassVar[str] = "form-kernels"

    model: str = option("xla", f"model of the compiler's fusion: {', '.join(KERNEL_MODELS)}")
    max_buffers: int = option(96, "maximum number of operands and results of a kernel", least=2)
    max_ops: int = option(10000, "maximum number of ops in a kernel", least=1)
    target: str = option(
        DEFAULT_TARGET,
        "GPU for which XLA's model rates kernels: a name of `hespas presets targets`, "
        "or a .json file",
    )

    def apply(self, module: ir.Module, run: PassRun) -> None:
        if any(map(_is_formed_kernel, find_ops(module.operation, (FUSION,)))):
            run.warn(f"{self.name}: the module already has kernels and is not changed")
        else:
            super().apply(module, run)

    def check_options(self, owner: str) -> None:
        check_choice(owner, "model is", self.model, KERNEL_MODELS)

    def rewrite_block(self, block: ir.Block) -> None:
        if self.model == "xla":
            for sort in find_named_ops(block, (SORT,)):
                _fuse_positions(sort)
        device = FusionDevice.from_target(self.target)
        cycles = read_op_cycles(device.profile)
        graph = FusionGraph(block, self.model == "elementwise", cycles)
        groups = DiamondFinder(graph).find_diamonds()
        fusion = PriorityFusion(
            graph,
            KernelLimits(self.max_buffers, self.max_ops),
            groups,
            device,
        )
        fusion.fuse_producers()
        fusion.remove_unread_conversions()
        if self.model == "xla":
            SiblingFusion(fusion).fuse_siblings()
        FusionBuilder(graph, fusion.kernels, fusion.collect_dependencies()).build_fusions()


def _fuse_positions(sort: ir.Operation) -> None:
    """Fuse a sort with the positions that it sorts."""
    copies: list[ir.Operation] = []
    for number, value in enumerate(sort.operands):
        copies += copy_operand_ops(sort, number, _list_position_makers(value))
    if copies:
        fuse_ops([*copies, sort], "kCustom", "sort", sort)


def _list_position_makers(value: ir.Value) -> list[ir.Operation]:
    """List the iota that makes a value, and its broadcast if there is one; none for others."""
    op = get_defining_op(value)
    if op is not None and op.name == BROADCAST:
        makers = _list_position_makers(op.operands[0])
        return [*makers, op] if makers else []
    return [op] if op is not None and op.name == IOTA else []


def _is_formed_kernel(fusion: ir.Operation) -> bool:
    """Return whether a fusion is not one of a product, which other passes make."""
    kernel = KernelAttr.read_from_op(fusion)
    return kernel is None or kernel.kind not in HEROES.values()
