"""What a study leaves: tables or JSON on stdout, notes on stderr, CSV and a plot as files."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hespas.tools.commands.command_parser import CommandParser

if TYPE_CHECKING:
    from hespas.support.text_tables import TextTable

Row = Mapping[str, Any]


@dataclass(frozen=True)
class StudyOutput:
    """What a study found, in each form: ``rows`` for CSV, ``data`` for JSON.

    ``draw`` puts the plot into a figure of ``size`` inches.
    """

    rows: Sequence[Row]
    data: Mapping[str, Any]
    tables: Sequence[TextTable]
    notes: Sequence[str]
    draw: Callable[[Any], None]
    size: tuple[float, float]


def add_output_arguments(parser: CommandParser) -> None:
    """The flags that say what is written where."""
    add = parser.add_argument
    add("--csv", metavar="FILE", help="write the results as a table")
    add("--plot", metavar="FILE", help="write a plot, .png, .svg or .pdf")
    add("--json", action="store_true", help="print one JSON object")


def check_output_files(options: argparse.Namespace) -> None:
    """Raise HespasError where a file cannot be written, before the work for it is done."""
    from hespas.support import output_file
    from hespas.workflows.plot_files import check_plot_file

    if options.plot:
        check_plot_file(options.plot)
    for place in (options.csv, options.plot):
        if place:
            output_file.check_writable_file(place)


def write_study_output(output: StudyOutput, options: argparse.Namespace) -> None:
    """Write the files that were asked for, then print; raises HespasError."""
    from hespas.support import text_tables
    from hespas.support.output_file import write_atomically

    if options.csv:
        write_atomically(options.csv, _format_csv(output.rows).encode())
    if options.plot:
        _save_study_plot(output, options.plot)
    if options.json:
        print(json.dumps(output.data, indent=1))
        return
    text_tables.print_tables(output.tables)
    for line in output.notes:
        print(f"- {line}", file=sys.stderr)


def _format_csv(rows: Sequence[Row]) -> str:
    """A line for each row, a column for each name; None is empty, a truth value as in JSON."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_format_csv_cell(row.get(name)) for name in names] for row in rows)
    return text.getvalue()


def _format_csv_cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, bool) else "" if value is None else value


def _save_study_plot(output: StudyOutput, place: str) -> None:
    from matplotlib.figure import Figure

    from hespas.workflows.plot_files import save_figure

    figure = Figure(figsize=output.size, layout="constrained")
    output.draw(figure)
    save_figure(figure, place)
