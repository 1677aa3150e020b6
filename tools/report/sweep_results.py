"""The results of a sweep, as its page shows them."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass

from hespas.workflows.sweep.sweep_analysis import PROGRAM, label_programs
from hespas.workflows.sweep.sweep_table import CELL, SweepRow, read_split_results

NODE, FITS = "cell.node", "memory.fits"


@dataclass(frozen=True)
class SweepResults:
    """The results of a sweep.

    Attributes:
        name: The name of the table.
        done: The cells with a result.
        failed: The cells without a result.
        measure: The column that cells are compared by: ``step_time_s``, or ``compute_s`` if any
            cell was not simulated.
        axes: The columns of the settings that differ between cells.
    """

    name: str
    done: list[SweepRow]
    failed: list[SweepRow]
    measure: str
    axes: list[str]

    @functools.cached_property
    def program_labels(self) -> dict[str, str]:
        """Labels of programs by their files: without the folder if the name is unique."""
        return label_programs([*self.done, *self.failed])

    def get_program_label(self, row: SweepRow) -> str:
        return self.program_labels[str(row.get(PROGRAM))]

    @property
    def program_names(self) -> list[str]:
        return list(dict.fromkeys(map(self.get_program_label, self.done)))

    @property
    def node_names(self) -> list[str]:
        return list(dict.fromkeys(map(get_node_name, self.done)))

    def get_time_s(self, row: SweepRow) -> float:
        return row[self.measure]

    def find_memory_misfits(self) -> set[tuple[str, str]]:
        """Find the (program, node) pairs whose cells all exceed the memory."""
        misfits = {
            (self.get_program_label(row), get_node_name(row))
            for row in self.done
            if row.get(FITS) is False
        }
        return misfits - {
            (self.get_program_label(row), get_node_name(row)) for row in self.done if row.get(FITS)
        }

    def find_best_times(self) -> tuple[list[str], list[str], list[list[float | None]]]:
        """Return programs, nodes, and their shortest times over all other settings.

        A time is None if there is no such cell.
        """
        least: dict[tuple[str, str], float] = {}
        for row in self.done:
            key = self.get_program_label(row), get_node_name(row)
            least[key] = min(least.get(key, float("inf")), self.get_time_s(row))
        programs, nodes = self.program_names, self.node_names
        return programs, nodes, [[least.get((p, n)) for n in nodes] for p in programs]

    def find_minimised_axes(self) -> list[str]:
        """Find the settings that differ between cells of equal program and node.

        A setting that belongs to the node, or advances with it, is not among them.
        """
        values: dict[tuple[str, str, str], set[str]] = {}
        for row in self.done:
            for name in self.axes:
                key = name, self.get_program_label(row), get_node_name(row)
                values.setdefault(key, set()).add(str(row.get(name)))
        varied = {name for (name, _, _), texts in values.items() if len(texts) > 1}
        return [name for name in self.axes if name in varied]


def get_node_name(row: SweepRow) -> str:
    """Return the name of a cell's node; "no node" if it has none."""
    return str(row.get("node") or row.get(NODE) or "no node")


def read_sweep_results(path: str) -> SweepResults:
    """Read the table of a sweep; raises HespasError."""
    done, failed = read_split_results(path)
    rows = [*done, *failed]
    measure = "step_time_s" if all("step_time_s" in row for row in done) else "compute_s"
    names = dict.fromkeys(name for row in rows for name in row if name.startswith(CELL))
    axes = [name for name in names if len({str(row.get(name)) for row in rows}) > 1]
    return SweepResults(os.path.basename(path), done, failed, measure, axes)
