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

from hespas.tools.commands.parser import Parser

if TYPE_CHECKING:
    from hespas.tools.commands.render import Table

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Output:
    """What a study found, in each form: ``rows`` for CSV, ``data`` for JSON.

    ``draw`` puts the plot into a figure of ``size`` inches.
    """

    rows: Sequence[Row]
    data: Mapping[str, Any]
    tables: Sequence[Table]
    notes: Sequence[str]
    draw: Callable[[Any], None]
    size: tuple[float, float]


def add_arguments(parser: Parser) -> None:
    """The flags that say what is written where."""
    add = parser.add_argument
    add("--csv", metavar="FILE", help="write the results as a table")
    add("--plot", metavar="FILE", help="write a plot, .png, .svg or .pdf")
    add("--json", action="store_true", help="print one JSON object")


def check(options: argparse.Namespace) -> None:
    """Raise HespasError where a file cannot be written, before the work for it is done."""
    from hespas.passes.emit import file
    from hespas.tools.plotting import check_plot

    if options.plot:
        check_plot(options.plot)
    for place in (options.csv, options.plot):
        if place:
            file.check(place)


def write(found: Output, options: argparse.Namespace) -> None:
    """Write the files that were asked for, then print; raises HespasError."""
    from hespas.passes.emit.file import write_whole
    from hespas.tools.commands import render

    if options.csv:
        write_whole(options.csv, as_csv(found.rows).encode())
    if options.plot:
        _plot(found, options.plot)
    if options.json:
        print(json.dumps(found.data, indent=1))
        return
    render.show(found.tables)
    for line in found.notes:
        print(f"- {line}", file=sys.stderr)


def as_csv(rows: Sequence[Row]) -> str:
    """A line for each row, a column for each name; None is empty, a truth value as in JSON."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, bool) else "" if value is None else value


def _plot(found: Output, place: str) -> None:
    from matplotlib.figure import Figure

    from hespas.tools.plotting import save

    figure = Figure(figsize=found.size, layout="constrained")
    found.draw(figure)
    save(figure, place)
