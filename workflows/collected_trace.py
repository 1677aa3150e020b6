"""The traces of a program in memory, in place of trace files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hespas.dialects.mlir import ir
from hespas.passes.base import Pass, PassRun
from hespas.passes.emit import module_stats
from hespas.passes.emit.emit_chakra import EmittedTraces, warn_of_gaps
from hespas.passes.emit.trace_program import build_trace_program
from hespas.simulators.in_memory_programs import InMemoryPrograms


@dataclass(frozen=True)
class CollectedTraces(EmittedTraces):
    """Traces that were not written.

    Attributes:
        programs: The programs of the devices.
    """

    programs: InMemoryPrograms


@dataclass(frozen=True)
class CollectTracesPass(Pass):
    """Build the Chakra traces of all devices in memory, with their statistics."""

    name: ClassVar[str] = "collect-traces"
    only_marks: ClassVar[bool] = True

    def apply(self, module: ir.Module, run: PassRun) -> CollectedTraces:
        built = build_trace_program(module, run)
        statistics = module_stats.collect_stats(module, built)
        warn_of_gaps(statistics, run)
        programs = InMemoryPrograms(built.trace, keeps_attrs=True)
        return CollectedTraces(Path(), built.trace, programs.node_counts, 0, statistics, programs)
