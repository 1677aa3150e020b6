"""The results of a sweep, as its page shows them."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from hespas.workflows.sweep.sweep_analysis import FITS, PROGRAM, label_programs
from hespas.workflows.sweep.sweep_expressions import LET
from hespas.workflows.sweep.sweep_summary import find_varied_keys
from hespas.workflows.sweep.sweep_table import CELL, SweepRow, read_split_results

NODE = "cell.node"
_UNIT = re.compile(r"(_bytes_per_s|_bytes|_gb_s|_hz|_w|_flops)$")


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

    @functools.cached_property
    def node_labels(self) -> dict[str, str]:
        """Short labels of nodes by their names: of replaced values, those that tell nodes apart."""
        return label_nodes(dict.fromkeys(map(get_node_name, self.done)))

    def get_node_label(self, row: SweepRow) -> str:
        return self.node_labels[get_node_name(row)]

    @property
    def node_names(self) -> list[str]:
        return list(dict.fromkeys(map(self.get_node_label, self.done)))

    def get_time_s(self, row: SweepRow) -> float:
        return row[self.measure]

    @functools.cached_property
    def free_axes(self) -> list[str]:
        """The axes without those that follow from the variables of the sweep.

        Of variables that change together, the first is free.
        """
        variables = [name for name in self.axes if name.startswith(f"{CELL}{LET}")]
        rows = [*self.done, *self.failed]
        varied = find_varied_keys(rows, ())
        tied = {name for name in variables if name not in varied}
        others = [name for name in self.axes if name not in variables]
        groups = {tuple(str(row.get(name)) for name in variables) for row in rows}
        followers = {
            name
            for name in others
            if variables
            and name != PROGRAM
            and len({(*(str(row.get(v)) for v in variables), str(row.get(name))) for row in rows})
            == len(groups)
        }
        return [name for name in self.axes if name not in followers | tied]

    @property
    def is_sampled(self) -> bool:
        """Whether the cells are fewer than the combinations of their values."""
        counts = [len({str(row.get(name)) for row in self.done}) for name in self.free_axes]
        return len(self.done) < math.prod(counts)

    def find_memory_misfits(self) -> set[tuple[str, str]]:
        """Find the (program, node) pairs whose cells all exceed the memory."""
        misfits = {
            (self.get_program_label(row), self.get_node_label(row))
            for row in self.done
            if row.get(FITS) is False
        }
        return misfits - {
            (self.get_program_label(row), self.get_node_label(row))
            for row in self.done
            if row.get(FITS)
        }

    def find_best_times(self) -> tuple[list[str], list[str], list[list[float | None]]]:
        """Return programs, nodes, and their shortest times over all other settings.

        A time is None if there is no such cell. It is that of a cell that exceeds the memory only
        if all of them do.
        """
        least: dict[tuple[str, str], tuple[bool, float]] = {}
        for row in self.done:
            key = self.get_program_label(row), self.get_node_label(row)
            rank = row.get(FITS) is False, self.get_time_s(row)
            least[key] = min(least.get(key, rank), rank)
        programs, nodes = self.program_names, self.node_names
        times_s = {key: time_s for key, (_, time_s) in least.items()}
        return programs, nodes, [[times_s.get((p, n)) for n in nodes] for p in programs]

    def find_minimised_axes(self) -> list[str]:
        """Find the settings that differ between cells of equal program and node.

        A setting that belongs to the node, or advances with it, is not among them.
        """
        values: dict[tuple[str, str, str], set[str]] = {}
        for row in self.done:
            for name in self.axes:
                key = name, self.get_program_label(row), self.get_node_label(row)
                values.setdefault(key, set()).add(str(row.get(name)))
        varied = {name for (name, _, _), texts in values.items() if len(texts) > 1}
        return [name for name in self.axes if name in varied]


def label_nodes(names: Iterable[str]) -> dict[str, str]:
    """Label nodes by their names, such as ``H100_80GB[tdp_w=500,memory_bytes=8e+10]``.

    A replaced value that is equal in all nodes of a name is left out, and so is one that always
    changes together with another: ``H100_80GB, tdp 500``.
    """
    values: dict[str, dict[str, dict[str, str]]] = {}  # by base, by name, by key
    for name in names:
        base, _, text = name.removesuffix("]").partition("[")
        pairs = (pair.partition("=") for pair in text.split(",") if pair)
        values.setdefault(base, {})[name] = {key: value for key, _, value in pairs}
    labels: dict[str, str] = {}
    for base, by_name in values.items():
        keys = dict.fromkeys(key for one in by_name.values() for key in one)
        parts: dict[tuple[int, ...], str] = {}  # the first key of each division of the nodes
        for key in keys:
            texts = [one.get(key, "") for one in by_name.values()]
            numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
            if len(numbers) > 1:
                parts.setdefault(tuple(numbers[text] for text in texts), key)
        for name, one in by_name.items():
            own = [(_shorten_key(key), _round_text(one.get(key, "-"))) for key in parts.values()]
            labels[name] = ", ".join([base, *(f"{key} {value}" for key, value in own)])
    is_unique = len({*labels.values()}) == len(labels)
    return labels if is_unique else {name: name for name in labels}


def _shorten_key(key: str) -> str:
    """Return the last part of a key of a node, without its unit."""
    return _UNIT.sub("", key.rpartition(".")[2]).replace("_", " ")


def _round_text(text: str) -> str:
    try:
        return f"{float(text):.4g}"
    except ValueError:
        return text


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
