"""The pass that brings any module into the one form that the other passes read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.mlir import collect_functions, ir
from hespas.passes.base import Pass, PassRun, option
from hespas.passes.prepare.call_inlining import inline_calls
from hespas.passes.prepare.census import ModuleCensus, collect_census
from hespas.passes.prepare.communicators import annotate_collectives
from hespas.passes.prepare.legalise import legalise_dialects
from hespas.passes.prepare.markers import remove_markers
from hespas.passes.prepare.partition import partition_module
from hespas.passes.prepare.symbolic_dims import set_dimension_sizes
from hespas.passes.prepare.trip_counts import write_trip_counts
from hespas.support.errors import HespasError, UsageError


@dataclass(frozen=True)
class PreparePass(Pass):
    """One device's program: static local shapes, one entry, trip counts, communicators.

    Each step looks at what one walk found and does nothing where there is nothing for it to do:
    symbolic dimensions get sizes, global shapes are partitioned by their shardings, chlo and shape
    ops are legalised, markers are removed, calls are inlined where they communicate or happen once,
    async pairs become a collective and a wait, loops get their trip counts, and collectives the
    devices they join. Running it twice changes nothing.
    """

    name: ClassVar[str] = "prepare"

    dims: str = option(
        "", "sizes of symbolic dimensions, b=8,s=1024 or arg0=8x1024x64; others: their bound or 128"
    )
    trip_count: str = option(
        "", "count for loops whose count depends on data, or 'error'; empty: 1, with a warning"
    )
    partition: bool = option(
        True, "divide global shapes by their shardings; false: take them as local"
    )
    devices: int = option(0, "devices that the module must be for; 0: what the module says")

    def apply(self, module: ir.Module, run: PassRun) -> None:
        self._check_options()
        census = collect_census(module)
        for name, function in collect_functions(module).items():
            if name not in census.functions:
                run.warn(f"the function @{name} is not called from the entry: it is left out")
                function.erase()
        if set_dimension_sizes(module, census, self.dims, run):
            census = collect_census(module)
        if self.partition and partition_module(module, census, run):
            census = collect_census(module)
        if legalise_dialects(module, census):
            census = collect_census(module)
        if remove_markers(census):
            census = collect_census(module)
        if inline_calls(census):
            census = collect_census(module)
        _check_single_blocks(census)
        write_trip_counts(census, run, self.trip_count)
        target = annotate_collectives(module, census, run, self.devices)
        target.write_to_op(module.operation)

    def _check_options(self) -> None:
        if self.trip_count not in ("", "error") and not self.trip_count.isdecimal():
            message = f"takes a whole number or 'error', not '{self.trip_count}'"
            raise UsageError(f"prepare: option 'trip-count' {message}")
        if self.devices < 0:
            raise UsageError(f"prepare: option 'devices' is {self.devices}, less than 0")


def _check_single_blocks(census: ModuleCensus) -> None:
    """Refuse jumps between blocks: the other passes follow loops and branches that are ops."""
    for name, contents in census.functions.items():
        if len(contents.function.regions[0].blocks) > 1:
            raise HespasError(
                f"the function @{name} jumps between blocks",
                op=contents.function,
                remedy="express its control flow by stablehlo.while, if and case",
            )
