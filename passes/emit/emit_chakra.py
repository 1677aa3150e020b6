"""``--emit-chakra``: write Chakra traces, communicators and statistics of an annotated module."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from hespas.chakra import trace_writer
from hespas.chakra.trace_steps import ProgramTrace
from hespas.dialects.mlir import ir
from hespas.passes.base import Pass, PassRun, option
from hespas.passes.emit import module_stats
from hespas.passes.emit.trace_program import build_trace_program
from hespas.support.errors import UsageError, find_source_file
from hespas.support.output_folder import open_output_folder
from hespas.support.suggestions import suggest_nearest

STATS_FILE = "module_stats.json"
EMITTED_FILES = re.compile(r"dev\.\d+\.et|comm_group\.json|module_stats\.json")
SUFFIXES = frozenset(
    (".mlir", ".mlirbc", ".bc", ".stablehlo", ".vhlo", ".hlo", ".txt", ".pb", ".xz", ".gz", ".zst")
)


@dataclass(frozen=True)
class EmittedTraces:
    """The artefact of the pass.

    Attributes:
        folder: The folder of the traces.
        trace: The steps that all devices execute.
        nodes: The number of trace nodes of each device.
        trace_bytes: The size of all trace files.
        stats: The content of module_stats.json.
    """

    folder: Path
    trace: ProgramTrace
    nodes: tuple[int, ...]
    trace_bytes: int
    stats: dict[str, Any]

    @property
    def nodes_per_device(self) -> int:
        """The number of nodes in the longest trace."""
        return max(self.nodes)


@dataclass(frozen=True)
class EmitChakraPass(Pass):
    """Write Chakra traces, one per device, with communicators and statistics, for ASTRA-sim."""

    name: ClassVar[str] = "emit-chakra"
    only_marks: ClassVar[bool] = True

    output: str = option(
        "", "folder to write; default: the name of the module, in the current folder"
    )
    time: str = option(
        "both", "durations: carry (in us, fractions carried over), exact (in ns), both"
    )
    stats: bool = option(True, f"also write {STATS_FILE}")
    clean: bool = option(False, "first remove everything in the folder, other files included")

    def apply(self, module: ir.Module, run: PassRun) -> EmittedTraces:
        if self.time not in trace_writer.TIMES:
            raise UsageError(
                f"{self.name}: no duration is named '{self.time}'",
                remedy=suggest_nearest(self.time, list(trace_writer.TIMES)),
            )
        program = build_trace_program(module, run)
        destination = self._choose_folder(module, run)
        with open_output_folder(destination, stale=EMITTED_FILES, clean=self.clean) as folder:
            written = trace_writer.write_traces(program.trace, folder, self.time)
            statistics = module_stats.collect_stats(module, program)
            if self.stats:
                (folder / STATS_FILE).write_text(
                    module_stats.render_stats(statistics), encoding="utf-8"
                )
        warn_of_gaps(statistics, run)
        return EmittedTraces(
            destination, program.trace, written.nodes, written.trace_bytes, statistics
        )

    def _choose_folder(self, module: ir.Module, run: PassRun) -> Path:
        if self.output:
            destination = Path(self.output)
        else:
            name = choose_default_name(module, run.input_name)
            destination = Path(f"{name}.traces" if Path(name).is_file() else name)
            other = run.spell_option("output", "FOLDER")
            run.note(f"{self.name}: traces in {destination} ({other} chooses another)")
        if "empty" in str(destination.absolute()):
            run.warn(
                f"{destination}: ASTRA-sim reads no communicators from a path that contains 'empty'"
            )
        return destination


def warn_of_gaps(statistics: dict[str, Any], run: PassRun) -> None:
    """Warn if the statistics count ops without an estimate."""
    gaps = statistics["totals"]["gaps"]
    if gaps:
        ops = "op" if gaps == 1 else "ops"
        run.warn(f"the traces lack the time of {gaps} {ops} that could not be estimated")


def choose_default_name(module: ir.Module, input_name: str) -> str:
    """Choose the name of the input file without its folder and endings.

    For standard input, this is the file that an earlier process read the module from. If there is
    none, choose the name of the module.
    """
    for name in (input_name, find_source_file(module.operation.location)):
        path = Path(name)
        while path.suffix in SUFFIXES:
            path = path.with_suffix("")
        if name not in ("", "-", "<stdin>") and path.name:
            return path.name
    attributes = module.operation.attributes
    return ir.StringAttr(attributes["sym_name"]).value if "sym_name" in attributes else "module"
