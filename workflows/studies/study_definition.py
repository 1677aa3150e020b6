"""The definition of a study of programs: its workloads, the columns of its table, and its plot.

``study_runner`` runs a study and draws its plot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hespas.support.errors import UsageError
from hespas.support.text_tables import TextTable, format_percent
from hespas.workflows.figures import BY_NAME, ROW_COLUMNS, name_peak
from hespas.workflows.run_config import Flag
from hespas.workflows.studies.study_output import parse_value_list

AxisValues = Mapping[str, Sequence[Any]]
"""The values of each axis, by its name."""


@dataclass(frozen=True)
class StudyAxis:
    """A flag with a list of values: ``--name A,B,...``.

    Attributes:
        name: The name of the flag.
        default: The values by default.
        help: The help of the flag.
        read: Parses one value; raises UsageError.
        key: The key of a sweep that it sets; the label of the study is the end of it.
        spell: Returns the keys of a sweep for one value, if there are several.
    """

    name: str
    default: str
    help: str
    read: Callable[[str], Any] = str
    key: str = ""
    spell: Callable[[Any], Mapping[str, Any]] | None = None

    def parse_values(self, text: str) -> list[Any]:
        """Parse ``A,B,...`` into distinct values; raises UsageError."""
        return parse_value_list(text, self.read, f"--{self.name}")


@dataclass(frozen=True)
class StudyWorkload:
    """A program of a study.

    Attributes:
        recipe: The recipe that makes the program.
        options: The options of the recipe that flags of the study set.
        mesh: The size of each mesh axis.
        labels: What distinguishes the program from others of the study.
        defaults: Other options of the recipe, which ``--set`` may change.
    """

    recipe: str
    options: Mapping[str, str]
    mesh: Mapping[str, int]
    labels: Mapping[str, Any]
    defaults: Mapping[str, str] = field(default_factory=dict)

    @property
    def devices(self) -> int:
        return math.prod(self.mesh.values())

    @property
    def mesh_text(self) -> str:
        """The mesh as ``AXIS=SIZE,...``."""
        return ",".join(f"{axis}={size}" for axis, size in self.mesh.items())


@dataclass(frozen=True)
class ImpossibleWorkload:
    """A combination of axis values that is no program, such as a mesh that does not divide.

    Attributes:
        labels: As of ``StudyWorkload``.
        devices: The number of devices.
        reason: Why there is no program.
    """

    labels: Mapping[str, Any]
    devices: int
    reason: str


@dataclass(frozen=True)
class StudyColumn:
    """A column of the table: the name of a figure, its header, and how it is formatted."""

    name: str
    header: str
    text: Callable[[Any], str] = str

    def format_cell(self, row: Mapping[str, Any]) -> str:
        """Format the figure of a row, ``-`` if the row has none."""
        value = row.get(self.name)
        return "-" if value is None else self.text(value)


def select_columns(
    columns: Iterable[StudyColumn], rows: Sequence[Mapping[str, Any]]
) -> list[StudyColumn]:
    """Select the columns whose figures some row has."""
    return [c for c in columns if any(row.get(c.name) is not None for row in rows)]


def make_labelled_table(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    labels: Sequence[str],
    columns: Iterable[StudyColumn],
) -> TextTable:
    """Make a table of labels, then figures; the title names the labels that all rows share.

    Utilisation names its peak if that differs between rows.
    """
    varied = [name for name in labels if len({row[name] for row in rows}) > 1]
    fixed = [describe_label(name, rows[0][name]) for name in labels if name not in varied]
    shown = select_columns(columns, rows)
    peaks = {row.get("peak_dtype") for row in rows}

    def format_figure(row: Mapping[str, Any], column: StudyColumn) -> str:
        peak = name_peak(ROW_COLUMNS.get(column.name, ""), row.get("peak_dtype"), peaks)
        return f"{column.format_cell(row)} {peak}".rstrip()

    lines = [
        [*(str(row[name] or "-") for name in varied), *(format_figure(row, c) for c in shown)]
        for row in rows
    ]
    title = ", ".join([title, *filter(None, fixed)])
    return TextTable(title, lines, [*varied, *(c.header for c in shown)], len(varied))


@dataclass(frozen=True)
class StudyPanel:
    """A panel of the plot.

    Attributes:
        columns: The figures to draw: the first as full lines, the second dashed.
        label: The label of the axis.
        log: Whether the axis is logarithmic.
        share: Whether the figures are shares, shown in percent.
        ideal: Whether to add the first point scaled with the number of devices.
    """

    columns: tuple[StudyColumn, ...]
    label: str
    log: bool = False
    share: bool = False
    ideal: bool = False


@dataclass(frozen=True)
class Study:
    """A study of programs.

    Attributes:
        name: The name on the command line.
        title: The title of the table.
        description: The description in the help.
        nodes: The nodes by default.
        axes: The flags with lists of values.
        workloads: Generates the programs from the values of the axes.
        columns: The columns of the table.
        panels: The panels of the plot.
        across: The label or figure along the horizontal axis.
        series: The labels whose values have separate lines.
        facet: The label whose values have separate panels; "" for none.
    """

    name: str
    title: str
    description: str
    nodes: tuple[str, ...]
    axes: tuple[StudyAxis, ...]
    workloads: Callable[[AxisValues], Iterable[StudyWorkload | ImpossibleWorkload]]
    columns: tuple[StudyColumn, ...]
    panels: tuple[StudyPanel, ...]
    across: str
    series: tuple[str, ...]
    facet: str = ""


def parse_positive_count(text: str) -> int:
    """Parse a whole number from 1; raises UsageError."""
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"'{text}' is not a whole number from 1")
    return int(text)


def make_list_flag(name: str, read: Callable[[str], Any]) -> Flag:
    """Make the flag of an option with distinct values, ``--name A,B,...``."""
    return Flag("LIST", parse_text=lambda text: parse_value_list(text, read, f"--{name}"))


def make_count_flag(name: str) -> Flag:
    """Make the flag of an option with distinct whole numbers from 1."""
    return make_list_flag(name, parse_positive_count)


def make_choice_reader(*known: str) -> Callable[[str], str]:
    """Make a parser of words; it raises UsageError that suggests the nearest known word."""

    def read_choice(text: str) -> str:
        if text not in known:
            from hespas.support.suggestions import suggest_nearest

            raise UsageError(
                f"'{text}' is not one of {', '.join(known)}",
                remedy=suggest_nearest(text, [*known]),
            )
        return text

    return read_choice


def describe_label(name: str, value: Any) -> str:
    """Describe a label in words: names as they are, numbers with the name of the label."""
    if name == "devices":
        return f"{value} device{'' if value == 1 else 's'}"
    return str(value or "") if isinstance(value, str | None) else f"{name} {value}"


def make_figure_column(name: str, header: str = "") -> StudyColumn:
    """Make the column of a figure by its name in run.json; ``header`` replaces its title."""
    figure = BY_NAME[name]
    (row_name,) = figure.row_names
    return StudyColumn(row_name, header or figure.column_title, figure.format_cell)


STEP = make_figure_column("step_time_s")
COMPUTE = make_figure_column("compute_s")
EXPOSED = make_figure_column("exposed_comm_s")
RATE = make_figure_column("derived.flops_per_s_per_device")
MFU = make_figure_column("derived.mfu")
PEAK_SHARE = make_figure_column("derived.mfu", "of peak")
TOKENS = make_figure_column("derived.tokens_per_s")
IMAGES = make_figure_column("derived.samples_per_s", "images/s")
MEMORY = make_figure_column("memory.peak_bytes")
FITS = make_figure_column("memory.fits")
ENERGY = make_figure_column("derived.energy_j")
COST = make_figure_column("derived.usd_per_million_tokens")
EFFICIENCY = StudyColumn("efficiency", "efficiency", format_percent)
