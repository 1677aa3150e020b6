"""Reading measured step times, and finding the programs that they were measured on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hespas.support.csv_rows import read_csv_rows
from hespas.support.errors import HespasError

COLUMNS = ("workload", "devices", "node", "system", "measured_s", "uncertainty_s", "source")
DEFAULT, OPTIMISED, UNOPTIMISED = "default", "optimised", "unoptimised"
STARTS = (DEFAULT, OPTIMISED, UNOPTIMISED)
SUFFIXES = (".mlir", ".mlir.xz", ".mlir.gz", ".mlirbc")


@dataclass(frozen=True, slots=True)
class MeasuredCell:
    """One measured step time.

    Attributes:
        workload: The name of the program.
        devices: The number of devices.
        node: The node.
        system: The network.
        measured_s: The step time in seconds.
        uncertainty_s: Its uncertainty in seconds, to either side.
        source: The provenance of the measurement.
        line: The line in the file.
    """

    workload: str
    devices: int
    node: str
    system: str
    measured_s: float
    uncertainty_s: float
    source: str
    line: int


def read_measured_cells(path: str) -> list[MeasuredCell]:
    """Read a CSV file with the columns ``COLUMNS``; raises HespasError with the line."""
    rows = read_csv_rows(path, COLUMNS)
    cells = [_parse_cell(row, f"{path}:{line}", line) for line, row in rows]
    if not cells:
        raise HespasError("it has no measurement", where=path)
    return cells


def _parse_cell(row: dict[str, str], where: str, line: int) -> MeasuredCell:
    try:
        cell = MeasuredCell(
            row["workload"],
            int(row["devices"]),
            row["node"],
            row["system"],
            float(row["measured_s"]),
            float(row["uncertainty_s"]),
            row["source"],
            line,
        )
    except (TypeError, ValueError) as error:
        raise HespasError(f"the row is wrong: {error}", where=where) from None
    if not (cell.measured_s > 0 and cell.uncertainty_s >= 0 and cell.devices > 0):
        raise HespasError("devices and measured_s must be positive", where=where)
    return cell


def find_programs(folders: Sequence[str]) -> dict[str, Path]:
    """Find the programs in folders, recursively, by name without suffix; raises HespasError."""
    programs_by_name: dict[str, Path] = {}
    for folder in folders:
        if not os.path.isdir(folder):
            raise HespasError("there is no such folder", where=folder)
        for path in sorted(Path(folder).rglob("*.mlir*")):
            for suffix in SUFFIXES:
                if path.name.endswith(suffix):
                    programs_by_name.setdefault(path.name.removesuffix(suffix), path)
    return programs_by_name


def find_cell_program(
    cell: MeasuredCell, start: str, programs_by_name: dict[str, Path]
) -> Path | None:
    """Find the program of a cell; returns None if there is none.

    A program that is not optimised is called WORKLOAD_N_devices or WORKLOAD. An optimised one has
    the suffix ``-opt-cudnn-GPU``, if convolutions call the GPU's library, or ``-opt-GPU``. GPU is
    the first word of the node's name, such as "a100" for A100_SXM_40GB.
    """
    gpu = cell.node.split("_")[0].lower()
    ends = [f"-opt-cudnn-{gpu}", f"-opt-{gpu}"] if start == OPTIMISED else [""]
    for end in ends:
        for name in (f"{cell.workload}_{cell.devices}_devices", cell.workload):
            if name + end in programs_by_name:
                return programs_by_name[name + end]
    return None
