"""``--emit-chakra``: write Chakra traces, communicators and statistics of an annotated module."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from hespas.chakra import trace_writer
from hespas.chakra.trace_steps import ProgramTrace
from hespas.dialects.mlir import ir
from hespas.passes.base import FACTS, Pass, PassRun, option
from hespas.passes.emit import module_stats
from hespas.passes.emit.trace_program import build_trace_program
from hespas.support.errors import UsageError, find_source_file
from hespas.support.folder_manifest import OutputSet
from hespas.support.output_folder import has_own_files, is_open_folder, open_output_folder
from hespas.support.records import record
from hespas.support.suggestions import suggest_nearest
from hespas.support.text_tables import format_count

STATS_FILE = "module_stats.json"
TRACES = OutputSet("traces", re.compile(r"dev\.\d+\.et|comm_group\.json|module_stats\.json"))
STDIN_NAMES = ("-", "<stdin>")
MAX_NAME = 60  # characters of a default name that comes from inside a program
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


@record(frozen=True)
class EmitChakraPass(Pass):
    """Write Chakra traces, one per device, with communicators and statistics, for ASTRA-sim."""

    name: ClassVar[str] = "emit-chakra"
    keeps: ClassVar[frozenset[str]] = FACTS
    only_marks: ClassVar[bool] = True

    output: str = option(
        "", "folder to write; default: the name of the module, in the current folder"
    )
    time: str = option(
        "both", "durations: carry (in us, fractions carried over), exact (in ns), both"
    )
    stats: bool = option(True, f"also write {STATS_FILE}")
    clean: bool = option(
        False, "also remove the other outputs that hespas has written to the folder"
    )

    def apply(self, module: ir.Module, run: PassRun) -> EmittedTraces:
        if self.time not in trace_writer.TIMES:
            raise UsageError(
                f"{self.name}: no duration is named '{self.time}'",
                remedy=suggest_nearest(self.time, list(trace_writer.TIMES)),
            )
        program = build_trace_program(module, run)
        destination = Path(self.output)
        if not is_open_folder(destination):
            destination = choose_trace_folder(self.output, module, run.input_name)
            announce_trace_folder(destination, self.output, run)
        with open_output_folder(destination, TRACES, clean=self.clean) as folder:
            written = trace_writer.write_traces(program.trace, folder, self.time)
            statistics = module_stats.collect_stats(module, program, run.leaves)
            if self.stats:
                (folder / STATS_FILE).write_text(
                    module_stats.render_stats(statistics), encoding="utf-8"
                )
        warn_of_gaps(statistics, run)
        return EmittedTraces(
            destination, program.trace, written.nodes, written.trace_bytes, statistics
        )


def choose_trace_folder(output: str, module: ir.Module, input_name: str) -> Path:
    """Return the folder of the traces; without ``output`` it is named after the program.

    A default name never selects a folder in which hespas has not written anything.
    """
    if output:
        return Path(output)
    name = choose_default_name(module, input_name)
    is_taken = os.path.lexists(name) and not has_own_files(Path(name))
    return Path(f"{name}.traces" if is_taken else name)


def announce_trace_folder(destination: Path, output: str, run: PassRun) -> None:
    """Print which folder has been chosen without ``output``, and warn if ASTRA-sim misreads it."""
    if not output:
        other = run.spell_option("output", "FOLDER")
        run.note(f"{EmitChakraPass.name}: traces in {destination} ({other} chooses another)")
    if "empty" in str(destination.absolute()):
        run.warn(
            f"{destination}: ASTRA-sim reads no communicators from a path that contains 'empty'"
        )


def warn_of_gaps(statistics: dict[str, Any], run: PassRun) -> None:
    """Warn if the statistics count ops without an estimate, or loops whose trips are assumed."""
    totals = statistics["totals"]
    loops = totals["assumed_loops"]
    if gaps := totals["gaps"] - loops:
        ops = format_count(gaps, "op")
        run.warn(f"the traces lack the time of {ops} that could not be estimated")
    if loops:
        run.warn(
            f"the trip count of {format_count(loops, 'loop')} is assumed, so that the time can be "
            "too short or, with a maximum, too long"
        )


def choose_default_name(module: ir.Module, input_name: str) -> str:
    """Choose the name of the input file without its folder and endings.

    For standard input, this is the file that an earlier process read the module from. If there is
    none, choose the name of the module. Names from inside the module are reduced to letters,
    digits, and ``_ . + -``, so that they never select another folder.
    """
    if input_name not in STDIN_NAMES and (name := _strip_endings(input_name)):
        return name
    source_file = find_source_file(module.operation.location)
    if source_file not in STDIN_NAMES and (name := _make_file_name(_strip_endings(source_file))):
        return name
    attributes = module.operation.attributes
    symbol = ir.StringAttr(attributes["sym_name"]).value if "sym_name" in attributes else ""
    return _make_file_name(symbol) or "module"


def _strip_endings(name: str) -> str:
    path = Path(name)
    while path.suffix in SUFFIXES:
        path = path.with_suffix("")
    return path.name


def _make_file_name(text: str) -> str:
    """Make a file name of a text from inside a program; it is empty if nothing is left."""
    return re.sub(r"[^\w.+-]+", "_", text).strip("._-")[:MAX_NAME]
