"""The output of a study: its rows as CSV, its data as JSON, its tables, and its plot."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from hespas.support import output_file
from hespas.support.csv_cells import quote_formula
from hespas.support.errors import UsageError
from hespas.workflows import plot_files

if TYPE_CHECKING:
    from hespas.support.text_tables import TextTable

Row = Mapping[str, Any]


class GanttBar(NamedTuple):
    """A bar of a Gantt chart; bars of one kind have one colour."""

    start_s: float
    end_s: float
    kind: str
    description: str


@dataclass(frozen=True)
class GanttChart:
    """What ran when.

    Attributes:
        title: The title of the chart.
        lanes: The name and the bars of each lane, from the top.
    """

    title: str
    lanes: Sequence[tuple[str, Sequence[GanttBar]]]

    def list_kinds(self) -> list[str]:
        """List the kinds of bars in the order in which they first occur."""
        return list(dict.fromkeys(bar.kind for _, bars in self.lanes for bar in bars))

    @property
    def end_s(self) -> float:
        """The end of the last bar."""
        return max((bar.end_s for _, bars in self.lanes for bar in bars), default=0.0)


@dataclass(frozen=True)
class StudyOutput:
    """The result of a study in each form.

    Attributes:
        rows: The rows of the CSV file; a column for each key.
        data: The JSON object.
        tables: The tables for the terminal.
        notes: What the figures are based on, and what is missing, one line each.
        draw: Draws the plot into a figure of matplotlib.
        size: Width and height of the figure in inches.
        failed: The number of rows without figures that the command reports as errors.
        gantt: A chart for the page; None for none.
    """

    rows: Sequence[Row]
    data: Mapping[str, Any]
    tables: Sequence[TextTable]
    notes: Sequence[str]
    draw: Callable[[Any], None]
    size: tuple[float, float]
    failed: int = 0
    gantt: GanttChart | None = None


def parse_value_list(text: str, read: Callable[[str], Any], flag: str) -> list[Any]:
    """Parse ``A,B,...`` into distinct values; raises UsageError if it is empty."""
    values = [read(part.strip()) for part in text.split(",") if part.strip()]
    if not values:
        raise UsageError(f"{flag} is empty")
    return list(dict.fromkeys(values))


def check_output_files(csv_file: str | None, plot_file: str | None, page: str | None) -> None:
    """Raise HespasError if a file cannot be written, before the work for it is done."""
    if plot_file:
        plot_files.check_plot_file(plot_file)
    for path in (csv_file, plot_file, page):
        if path:
            output_file.check_writable_file(path)


def write_output_files(output: StudyOutput, csv_file: str | None, plot_file: str | None) -> None:
    """Write the requested files, none if the plot cannot be drawn; raises HespasError."""
    table = format_csv(output.rows).encode() if csv_file else b""
    figure = None
    if plot_file:
        from matplotlib.figure import Figure

        figure = Figure(figsize=output.size, layout="constrained")
        output.draw(figure)
    if csv_file:
        output_file.write_atomically(csv_file, table)
    if plot_file:
        plot_files.save_figure(figure, plot_file)


def format_csv(rows: Sequence[Row]) -> str:
    """Format rows as CSV; None is an empty cell, a truth value is as in JSON."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([quote_formula(name) for name in names])
    writer.writerows([_format_csv_cell(row.get(name)) for name in names] for row in rows)
    return text.getvalue()


def _format_csv_cell(value: Any) -> Any:
    if isinstance(value, str):
        return quote_formula(value)
    return json.dumps(value) if isinstance(value, bool) else "" if value is None else value
