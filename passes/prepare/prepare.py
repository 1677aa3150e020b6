"""``--prepare``: bring a module into the form that the other passes require."""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.attrs import BRANCH, TRIPS, CommAttr, TargetAttr
from hespas.dialects.mlir import get_symbol_name, ir
from hespas.passes.base import PassRun, option, repeat_option
from hespas.passes.pass_list import ListEntry, PassList, run_entries
from hespas.passes.prepare.annotate_collectives import AnnotateCollectivesPass
from hespas.passes.prepare.check_input import CheckInputPass
from hespas.passes.prepare.choose_branches import ChooseBranchesPass
from hespas.passes.prepare.inline_calls import InlineCallsPass
from hespas.passes.prepare.isolate_fusions import IsolateFusionsPass
from hespas.passes.prepare.legalise import LegalisePass
from hespas.passes.prepare.partition import PartitionPass
from hespas.passes.prepare.preparation import Preparation
from hespas.passes.prepare.remove_markers import RemoveMarkersPass
from hespas.passes.prepare.remove_misplaced_facts import RemoveMisplacedFactsPass
from hespas.passes.prepare.remove_uncalled_functions import RemoveUncalledFunctionsPass
from hespas.passes.prepare.replace_cross_replica_sums import ReplaceCrossReplicaSumsPass
from hespas.passes.prepare.replace_host_placements import ReplaceHostPlacementsPass
from hespas.passes.prepare.replace_host_transfers import ReplaceHostTransfersPass
from hespas.passes.prepare.select_platform import SelectPlatformPass
from hespas.passes.prepare.set_dimension_sizes import SetDimensionSizesPass
from hespas.passes.prepare.write_trip_counts import WriteTripCountsPass
from hespas.support.records import record

FACTS_OF_PREPARE = (CommAttr.NAME, TRIPS, BRANCH)


@record(frozen=True)
class PreparePass(PassList):
    """Make the program of one device, with static local shapes, trip counts and communicators.

    Each pass of the list does nothing if the census of the module shows no work for it. The pass is
    idempotent.
    """

    name: ClassVar[str] = "prepare"
    keeps: ClassVar[frozenset[str]] = frozenset(FACTS_OF_PREPARE)

    dims: str = repeat_option(SetDimensionSizesPass, "dims")
    platform: str = repeat_option(SelectPlatformPass, "platform")
    trip_count: str = repeat_option(WriteTripCountsPass, "trip_count")
    partition: bool = option(
        True, "partition global shapes by their shardings; false: treat them as local"
    )
    devices: int = repeat_option(AnnotateCollectivesPass, "devices")
    replicas: int = repeat_option(AnnotateCollectivesPass, "replicas")

    def apply(self, module: ir.Module, run: PassRun) -> None:
        entries = self.list_entries()
        for step, _ in entries:
            step.check_options(self.name)
        view: Preparation | None = run_entries(entries, module, run)
        if view is not None:
            run.entry_code = view.census.functions[get_symbol_name(view.census.entry)].code
        run.mark_current(*FACTS_OF_PREPARE)

    def list_entries(self, *, inlines_single_calls: bool = True) -> list[ListEntry]:
        entries = [
            (CheckInputPass(), "its errors name the remedy, those of XLA do not"),
            (SelectPlatformPass(self.platform), "the ops of the others are no part of the program"),
            (ReplaceCrossReplicaSumsPass(), "the partitioner does not know the op"),
            (RemoveUncalledFunctionsPass(), "their dimensions may have no size"),
            (SetDimensionSizesPass(self.dims), "the partitioner divides static shapes only"),
            (PartitionPass(), "the shapes of all that follows are those of one device"),
            (LegalisePass(), "XLA's partitioner keeps chlo ops, whose shapes are divided now"),
            (ReplaceHostTransfersPass(), "what is sent to the host is no collective"),
            (RemoveMarkersPass(), "markers hide which op reads which"),
            (
                InlineCallsPass(inlines_single_calls),
                "every collective is in a function that runs once, or in a loop",
            ),
            (IsolateFusionsPass(), "the passes that follow read fusions by their operands"),
            (ReplaceHostPlacementsPass(), "a slice and its placement were in two functions"),
            (RemoveMisplacedFactsPass(), "another pass may have copied what prepare wrote"),
            (WriteTripCountsPass(self.trip_count), "inlining shows the bounds of loops"),
            (
                AnnotateCollectivesPass(self.devices, self.replicas, not self.partition),
                "the bytes of collectives are those of the divided, static shapes",
            ),
            (ChooseBranchesPass(), "a branch is chosen by the bytes that it sends in its loops"),
        ]
        return [
            ListEntry(step, reason)
            for step, reason in entries
            if self.partition or not isinstance(step, PartitionPass)
        ]


def refresh_preparation(module: ir.Module, run: PassRun) -> None:
    """Make what ``prepare`` has written describe the ops as they are.

    Nothing is done for a module that is not prepared, and if no pass may have changed ops since.
    Functions that are called once stay functions, because another tool may have written their cost.

    Raises:
        HespasError: Another pass has left something that ``prepare`` refuses.
    """
    is_prepared = TargetAttr.NAME in module.operation.attributes
    if is_prepared and not all(map(run.is_current, FACTS_OF_PREPARE)):
        entries = PreparePass().list_entries(inlines_single_calls=False)
        run.entry_ops = None
        run_entries(entries, module, run, is_shown=False)
        run.mark_current(*FACTS_OF_PREPARE)
