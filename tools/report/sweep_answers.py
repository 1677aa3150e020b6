"""What a sweep answers, on its page: the front of each program, and the effect of each axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hespas.support.text_tables import format_count
from hespas.tools.report.charts import ScatterAxis, ScatterPoint, draw_scatter_charts
from hespas.tools.report.html_table import (
    TableCell,
    TableColumn,
    format_figure_cell,
    render_table,
)
from hespas.tools.report.markup import join_markup
from hespas.tools.report.page_frame import PageSection
from hespas.tools.report.sweep_results import SweepResults
from hespas.tools.report.table_page import render_text_table
from hespas.workflows.figures import BY_NAME, Figure
from hespas.workflows.sweep.sweep_analysis import (
    PROGRAM,
    Objective,
    find_pareto_front,
    group_comparable,
    select_fitting_rows,
    select_known_rows,
)
from hespas.workflows.sweep.sweep_summary import SweepQuestions, make_answer_tables
from hespas.workflows.sweep.sweep_table import CELL, SweepRow

# What a shorter time is paid with: the first that differs between cells is the other axis.
PRICES = ("derived.area_mm2", "derived.energy_j", "derived.cost_usd")
MOST_FRONTS = 8  # programs with a chart of their own


def build_front_sections(sweep: SweepResults) -> Iterator[PageSection]:
    """Build a chart and a table of the Pareto front of each program, if cells differ in a price."""
    fitting = select_fitting_rows(sweep.done)
    price = next((name for name in PRICES if _differs(fitting, name)), None)
    if price is None or not _differs(fitting, sweep.measure):
        return
    figures = [BY_NAME[sweep.measure], BY_NAME[price]]
    known = select_known_rows(fitting, [figure.name for figure in figures])
    groups = [*group_comparable(known).items()][:MOST_FRONTS]
    for number, (label, cells) in enumerate(groups):
        front = find_pareto_front(cells, [Objective(figure.name) for figure in figures])
        label = label or sweep.get_program_label(cells[0])
        yield _build_front_section(sweep, f"front-{number}", label, cells, front, figures)


def _differs(rows: Sequence[SweepRow], name: str) -> bool:
    return len({row[name] for row in rows if row.get(name) is not None}) > 1


def _build_front_section(
    sweep: SweepResults,
    name: str,
    program: str,
    cells: Sequence[SweepRow],
    front: Sequence[SweepRow],
    figures: Sequence[Figure],
) -> PageSection:
    settings = [axis for axis in sweep.free_axes if axis != PROGRAM]
    numbers = {id(row): str(number) for number, row in enumerate(front, 1)}

    def describe(row: SweepRow) -> str:
        values = [f"{axis.removeprefix(CELL)} {row.get(axis)}" for axis in settings]
        return "\n".join([*values, *(f"{f.title} {f.format(row[f.name])}" for f in figures)])

    x, y = figures
    points = [
        ScatterPoint(
            row[x.name], row[y.name], id(row) in numbers, describe(row), numbers.get(id(row), "")
        )
        for row in cells
    ]
    axes = (ScatterAxis(x.title, x.format), ScatterAxis(y.title, y.format))
    chart = draw_scatter_charts(f"{x.title} and {y.title} of each cell of {program}", points, axes)
    columns = [
        TableColumn(
            "n", "Point", lambda row: TableCell(numbers[id(row)], int(numbers[id(row)]))
        ),
        *(
            TableColumn(
                axis.removeprefix(CELL), axis.removeprefix(CELL),
                lambda row, axis=axis: TableCell(str(row.get(axis))), "text",
            )
            for axis in settings
        ),
        *(
            TableColumn(
                figure.name.rpartition(".")[2], figure.column_title,
                lambda row, figure=figure: format_figure_cell(figure, row[figure.name]),
                help=figure.help,
            )
            for figure in figures
        ),
    ]  # fmt: skip
    table = render_table(f"{name}-cell", "The cells of the front", columns, front)
    lead = (
        f"No other of the {format_count(len(cells), 'cell')} is better in one of {x.title} and "
        f"{y.title} without being worse in the other than those on the line."
    )
    return PageSection(name, f"Front of {program}", join_markup(chart, table), lead)


def build_effects_section(sweep: SweepResults) -> PageSection | None:
    """Build the table of the effect of each axis on the time; None if nothing differs."""
    derived = frozenset(
        axis.removeprefix(CELL) for axis in sweep.axes if axis not in sweep.free_axes
    )
    questions = SweepQuestions((), (), sweep.measure, derived, sweep.is_sampled)
    if not _differs(sweep.done, sweep.measure):
        return None
    tables = make_answer_tables(sweep.done, questions)
    if not tables:
        return None
    lead = (
        "What each axis does to the time at equal values of the others, and the share of the "
        "variance that it explains."
    )
    return PageSection("effects", "Effects", render_text_table(tables[0], "effects-table"), lead)
