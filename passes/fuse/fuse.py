"""``--fuse``: group ops into the kernels that a compiler would launch, as ``mhlo.fusion``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import has_fusions
from hespas.passes.base import PassRun, check_choice, option, repeat_option
from hespas.passes.fuse import KernelFusion
from hespas.passes.fuse.assign_orders import AssignOrdersPass
from hespas.passes.fuse.combine_collectives import CombineCollectivesPass
from hespas.passes.fuse.copy_carried_values import CopyCarriedValuesPass
from hespas.passes.fuse.copy_kept_values import CopyKeptValuesPass
from hespas.passes.fuse.expand_ragged_products import EXPANSIONS, ExpandRaggedProductsPass
from hespas.passes.fuse.expand_scans import ExpandScansPass
from hespas.passes.fuse.expand_scatters import ExpandScattersPass
from hespas.passes.fuse.expand_selections import ExpandSelectionsPass
from hespas.passes.fuse.expand_vector_products import ExpandVectorProductsPass
from hespas.passes.fuse.fold_reductions import FoldReductionsPass
from hespas.passes.fuse.fold_transposes import FoldTransposesPass
from hespas.passes.fuse.form_kernels import KERNEL_MODELS, FormKernelsPass
from hespas.passes.fuse.fuse_copies import FuseCopiesPass
from hespas.passes.fuse.fuse_epilogues import FuseEpiloguesPass
from hespas.passes.fuse.fuse_products import FuseProductsPass
from hespas.passes.fuse.hoist_transposes import HoistTransposesPass
from hespas.passes.fuse.inline_all_calls import InlineAllCallsPass
from hespas.passes.fuse.join_reductions import JoinReductionsPass
from hespas.passes.fuse.merge_products import MergeProductsPass
from hespas.passes.fuse.narrow_gathers import NarrowGathersPass
from hespas.passes.fuse.order_convolutions import OrderConvolutionsPass
from hespas.passes.fuse.overlap_collectives import OverlapCollectivesPass
from hespas.passes.fuse.overlap_transfers import OverlapTransfersPass
from hespas.passes.fuse.pad_convolutions import PadConvolutionsPass
from hespas.passes.fuse.remove_empty_values import RemoveEmptyValuesPass
from hespas.passes.fuse.scatter_reductions import ScatterReductionsPass
from hespas.passes.fuse.simplify import SimplifyPass
from hespas.passes.fuse.simplify_conversions import SimplifyConversionsPass
from hespas.passes.fuse.sink_constants import SinkConstantsPass
from hespas.passes.fuse.sink_reductions import SinkReductionsPass
from hespas.passes.fuse.sink_transposes import SinkTransposesPass
from hespas.passes.fuse.split_products import SplitProductsPass
from hespas.passes.fuse.split_reductions import SplitReductionsPass
from hespas.passes.fuse.split_scans import SplitScansPass
from hespas.passes.fuse.transpose_collectives import TransposeCollectivesPass
from hespas.passes.fuse.transpose_operands import READERS, TransposeOperandsPass
from hespas.passes.fuse.widen_floats import WidenFloatsPass
from hespas.passes.pass_list import ListEntry, PassList, run_entries
from hespas.passes.split.blocks import check_not_split

MODELS = (*KERNEL_MODELS, "none")
OVERLAPS = {
    "xla": "where XLA places them for the target by default",
    "latency-hiding": "where XLA's latency-hiding scheduler places them, for any target",
    "transfers": "copies between device and host only, as on TPUs",
    "none": "every collective is serial",
}


@dataclass(frozen=True)
class FusePass(PassList):
    """Group ops into the kernels that XLA's GPU compiler would launch."""

    name: ClassVar[str] = "fuse"
    prepares: ClassVar[bool] = True

    model: str = option("xla", f"model of the compiler's fusion: {', '.join(MODELS)}")
    max_buffers: int = repeat_option(FormKernelsPass, "max_buffers")
    combine: int = option(
        CombineCollectivesPass.limit,
        "maximum bytes of a combined collective; 0: do not combine collectives",
        least=0,
    )
    combine_all_gather: int = option(
        -1, "maximum bytes of a combined all-gather; -1: combine", least=-1
    )
    combine_all_reduce: int = option(
        -1, "maximum bytes of a combined all-reduce; -1: combine", least=-1
    )
    combine_reduce_scatter: int = option(
        -1, "maximum bytes of a combined reduce-scatter; -1: combine", least=-1
    )
    max_ops: int = repeat_option(FormKernelsPass, "max_ops")
    conversions: str = repeat_option(FuseProductsPass, "conversions")
    ragged: str = option(
        "dense",
        "what the rows of a ragged_dot are multiplied by: "
        + "; ".join(f"{name}: {text}" for name, text in EXPANSIONS.items()),
    )

    target: str = repeat_option(FormKernelsPass, "target")
    operands: str = option(
        "libraries",
        "what products and convolutions read: "
        + "; ".join(f"{name}: {text}" for name, text in READERS.items()),
    )

    overlap: str = option(
        "xla",
        "collectives alongside compute: "
        + "; ".join(f"{k}: {text}" for k, text in OVERLAPS.items()),
    )
    serial: str = repeat_option(OverlapCollectivesPass, "serial")

    def apply(self, module: ir.Module, run: PassRun) -> KernelFusion:
        check_not_split(module, self.name)
        self._check_options()
        if has_fusions(module):
            run.warn(f"{self.name}: the module already has fusions and is not changed")
        else:
            run_entries(self.list_entries(), module, run)
        return KernelFusion(self.model)

    def list_entries(self) -> list[ListEntry]:
        is_xla = self.model == "xla"
        has_libraries = is_xla and self.operands == "libraries"
        has_kernels = self.conversions != "none"  # of XLA's own for products
        kernels = FormKernelsPass(
            self.model if self.model in KERNEL_MODELS else "xla",
            self.max_buffers,
            self.max_ops,
            self.target,
        )
        own_limits = (
            self.combine_all_gather, self.combine_all_reduce, self.combine_reduce_scatter,
        )  # fmt: skip
        entries = [
            (True, InlineAllCallsPass(), "kernels are formed across functions"),
            (True, RemoveEmptyValuesPass(), "the patterns below divide by the sizes of values"),
            (is_xla, ExpandScattersPass(), "what updates one place is simplified as such"),
            (True, SimplifyPass(), "the patterns below match simplified ops"),
            (is_xla, ExpandScansPass(), "each trip of its loop has kernels"),
            (is_xla, ExpandSelectionsPass(), "its search and its scatter are kernels"),
            (
                is_xla and self.ragged == "dense",
                ExpandRaggedProductsPass(),
                "its products are products like others",
            ),
            (is_xla, JoinReductionsPass(), "reductions and slices of sums are of one value then"),
            (is_xla, SinkReductionsPass(), "what a loop adds is reduced by one op each"),
            (
                is_xla,
                NarrowGathersPass(),
                "the conversions may be fused with what makes their operands",
            ),
            (is_xla, FoldReductionsPass(), "a slice by rank follows the last reduction"),
            (is_xla, ScatterReductionsPass(), "slices by rank must not be fused before"),
            (
                is_xla,
                FoldTransposesPass(hidden=not has_libraries),
                "transposes must not hide a shared operand",
            ),
            (has_libraries, PadConvolutionsPass(), "what makes an image may pad it"),
            (
                has_libraries,
                OrderConvolutionsPass(self.target),
                "what follows a convolution keeps the order of its result",
            ),
            (
                is_xla,
                ExpandVectorProductsPass(),
                "the sums of products of vectors have orders like products",
            ),
            (
                has_libraries,
                SinkTransposesPass(),
                "what follows a product keeps the order of its result",
            ),
            (has_libraries, FoldTransposesPass(), "products may read what the pass before moved"),
            (is_xla, MergeProductsPass(self.conversions), "products are merged without transposes"),
            (has_libraries, TransposeCollectivesPass(), "products are what reads the transposes"),
            (
                has_libraries,
                AssignOrdersPass(),
                "products are merged, so that it is known what slices share",
            ),
            (is_xla, FoldTransposesPass(), "those of the passes before are folded into products"),
            (
                has_libraries,
                TransposeOperandsPass(has_kernels),
                "what makes an operand may transpose it",
            ),
            (
                has_libraries,
                HoistTransposesPass(),
                "updates have the order in which products read their results",
            ),
            (
                has_libraries and has_kernels,
                SplitProductsPass(self.target),
                "the sums of parts are split and fused like others",
            ),
            (is_xla, SplitScansPass(), "each part may be fused with what it reads"),
            (is_xla, SplitReductionsPass(), "each part may be fused with what it reads"),
            (
                is_xla,
                SimplifyPass(layouts=True),
                "the rewrites leave reshapes, and ops without users",
            ),
            (True, SinkConstantsPass(), "the merging of equal ops would move the copies out again"),
            (
                is_xla,
                FuseProductsPass(self.conversions, has_libraries),
                "a product takes its ops before other kernels do",
            ),
            (
                is_xla,
                FuseEpiloguesPass(not has_kernels),
                "a library takes its epilogue before other kernels do",
            ),
            (
                has_libraries,
                WidenFloatsPass(self.target),
                "products and libraries have taken theirs",
            ),
            (is_xla, SimplifyConversionsPass(), "the pass before converts what was converted"),
            (self.model != "none", kernels, "the ops that are left become kernels"),
            (
                is_xla and any(limit > 0 for limit in (self.combine, *own_limits)),
                CombineCollectivesPass(self.combine, *own_limits),
                "which collectives depend on each other is known when the kernels are",
            ),
            (
                self.model != "none",
                CopyKeptValuesPass(),
                "what writes to its operands is known now",
            ),
            (
                self.model != "none",
                CopyCarriedValuesPass(),
                "the copies of the pass before are written to buffers of their own",
            ),
            (
                is_xla,
                FuseCopiesPass(self.max_buffers),
                "the copies of the passes before are written by the kernels before them",
            ),
            (
                is_xla and self.overlap in ("xla", "latency-hiding"),
                OverlapCollectivesPass(self.target, self.overlap == "latency-hiding", self.serial),
                "all kernels are known, and what they write to",
            ),
            (
                is_xla and self.overlap != "none",
                OverlapTransfersPass(self.target if self.overlap == "xla" else ""),
                "the pass before orders only blocks without asynchronous ops",
            ),
        ]
        return [ListEntry(step, reason) for is_run, step, reason in entries if is_run]

    def _check_options(self) -> None:
        check_choice(self.name, "model is", self.model, MODELS)
        FuseProductsPass(self.conversions).check_options(self.name)
        check_choice(self.name, "ragged products are", self.ragged, EXPANSIONS)
        check_choice(self.name, "readers of operands are", self.operands, READERS)
        check_choice(self.name, "overlaps are", self.overlap, OVERLAPS)
        OverlapCollectivesPass(serial=self.serial).check_kinds(self.name)
