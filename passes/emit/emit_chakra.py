"""``--emit-chakra``: Chakra traces, communicators and statistics of a split, annotated module."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from hespas.chakra import writer
from hespas.chakra.trace import Trace
from hespas.dialects.errors import UsageError
from hespas.dialects.mlir import ir
from hespas.passes.base import Pass, Run, nearest, option
from hespas.passes.emit import stats
from hespas.passes.emit.folder import output_folder
from hespas.passes.emit.program import build

STATS_FILE = "module_stats.json"
SUFFIXES = frozenset(
    (".mlir", ".mlirbc", ".bc", ".stablehlo", ".vhlo", ".hlo", ".txt", ".pb", ".xz", ".gz", ".zst")
)


@dataclass(frozen=True)
class Emitted:
    """What was written: ``nodes`` counts by device, ``stats`` is what module_stats.json holds."""

    folder: Path
    trace: Trace
    nodes: tuple[int, ...]
    trace_bytes: int
    stats: dict[str, Any]

    @property
    def nodes_per_device(self) -> int:
        """Nodes in the longest trace."""
        return max(self.nodes)


@dataclass(frozen=True)
class EmitChakraPass(Pass):
    """Write Chakra traces, one per device, with communicators and statistics, for ASTRA-sim."""

    name: ClassVar[str] = "emit-chakra"
    only_marks: ClassVar[bool] = True

    output: str = option("", "folder to write; default: the module's name, in the current folder")
    time: str = option(
        "both", "durations in us with carry, in ns for roofline mode: carry, exact, both"
    )
    stats: bool = option(True, f"write {STATS_FILE} too")
    clean: bool = option(False, "empty the folder first, of other files too")

    def apply(self, module: ir.Module, run: Run) -> None:
        if self.time not in writer.TIMES:
            raise UsageError(
                f"{self.name}: there is no time '{self.time}'",
                remedy=nearest(self.time, list(writer.TIMES)),
            )
        program = build(module, run)
        place = self._place(module, run)
        with output_folder(place, clean=self.clean) as folder:
            written = writer.write(program.trace, folder, self.time)
            found = stats.collect(module, program, run.results.get("node"))
            if self.stats:
                (folder / STATS_FILE).write_text(stats.render(found), encoding="utf-8")
        run.results["emit"] = Emitted(
            place, program.trace, written.nodes, written.trace_bytes, found
        )
        warn_of_gaps(found, run)

    def _place(self, module: ir.Module, run: Run) -> Path:
        if self.output:
            place = Path(self.output)
        else:
            name = default_name(module, run.input_name)
            place = Path(f"{name}.traces" if Path(name).is_file() else name)
            run.note(f"{self.name}: traces in {place} (output=FOLDER chooses another)")
        if "empty" in str(place.absolute()):
            run.warn(f"{place}: ASTRA-sim reads no communicators from a path with 'empty' in it")
        return place


def warn_of_gaps(found: dict[str, Any], run: Run) -> None:
    """Warn where statistics tell of ops without an estimate."""
    gaps = found["totals"]["gaps"]
    if gaps:
        ops = "op" if gaps == 1 else "ops"
        run.warn(f"the traces lack the time of {gaps} {ops} that could not be estimated")


def default_name(module: ir.Module, input_name: str) -> str:
    """The input file's name without folder and endings; the module's name for standard input."""
    path = Path(input_name)
    while path.suffix in SUFFIXES:
        path = path.with_suffix("")
    if input_name not in ("", "-", "<stdin>") and path.name:
        return path.name
    attributes = module.operation.attributes
    return ir.StringAttr(attributes["sym_name"]).value if "sym_name" in attributes else "module"
