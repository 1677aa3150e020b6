"""The passes of the list of ``fuse``, most of which rewrite one block after the other."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from hespas.dialects.mlir import ir
from hespas.passes.base import PassRun
from hespas.passes.fuse.op_builder import collect_blocks
from hespas.passes.pass_list import ListedPass
from hespas.passes.split.blocks import check_not_split


class FuseStep(ListedPass[list[ir.Block]]):
    """A pass of ``fuse``, which reads the blocks of a prepared module, inner blocks first."""

    prepares: ClassVar[bool] = True

    def apply(self, module: ir.Module, run: PassRun) -> None:
        check_not_split(module, self.name)
        super().apply(module, run)

    def collect_view(self, module: ir.Module) -> list[ir.Block]:
        return collect_blocks(module)


class BlockPass(FuseStep):
    """A pass that rewrites each block by itself."""

    def rewrite(self, module: ir.Module, view: list[ir.Block], run: PassRun) -> bool:
        for block in view:
            self.rewrite_block(block)
        return False

    @abstractmethod
    def rewrite_block(self, block: ir.Block) -> None:
        """Rewrite the ops of a block, without those of its inner blocks."""
