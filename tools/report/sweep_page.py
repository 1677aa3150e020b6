"""The page of a sweep or a study: a heat map of programs and nodes, and a table of all cells."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hespas.support.text_tables import TextTable, format_count, format_seconds, format_time_range
from hespas.tools.report.charts import ScatterAxis, ScatterPoint, draw_scatter_charts
from hespas.tools.report.html_table import (
    TableCell,
    TableColumn,
    format_figure_cell,
    format_number_cell,
    format_text_cell,
    format_time_cell,
    render_cards,
    render_facts,
    render_table,
)
from hespas.tools.report.markup import Child, Markup, allow_breaks, join_markup, tag
from hespas.tools.report.page_frame import PageSection, render_page
from hespas.tools.report.table_page import render_text_table
from hespas.workflows.figures import BY_NAME, PEAK_DTYPE, Figure, list_figures, name_peak
from hespas.workflows.run_comparison import choose_measure
from hespas.workflows.sweep.sweep_analysis import (
    FITS,
    PROGRAM,
    Objective,
    find_pareto_front,
    group_comparable,
    label_programs,
    select_fitting_rows,
    select_known_rows,
)
from hespas.workflows.sweep.sweep_expressions import LET
from hespas.workflows.sweep.sweep_summary import (
    SweepQuestions,
    find_varied_keys,
    make_answer_tables,
    number_values,
)
from hespas.workflows.sweep.sweep_table import CELL, ORIGIN, SweepRow, read_split_results

SHADES = (1.1, 1.5, 2.5, 5.0)  # upper ends of the heat map's levels, in multiples of the best
RESTS = ("estimator", "split", "simulator", "curves")  # provenance, in addition to ORIGIN
MOST_NODES = 16  # of a heat map; the fronts show more
TIME = "time"  # the key of the column of the measure
MEMORY, GAPS = "memory.peak_bytes", "gaps"
# What a shorter time is paid with: the first that differs between cells is the other axis.
PRICES = ("derived.area_mm2", "derived.energy_j", "derived.cost_usd")
MOST_FRONTS = 8  # programs with a chart of their own
NODE = "cell.node"
_UNIT = re.compile(r"(_bytes_per_s|_bytes|_gb_s|_hz|_w|_flops)$")


def render_sweep_page(sweep: SweepResults) -> bytes:
    """Render the page of a sweep."""
    sections = [
        _build_grid_section(sweep),
        *build_front_sections(sweep),
        build_effects_section(sweep),
        _build_cells_section(sweep),
        _build_failures_section(sweep),
        _build_provenance_section(sweep),
    ]
    axes = ", ".join(name.removeprefix(CELL) for name in sweep.free_axes) or "nothing"
    count = len(sweep.done) + len(sweep.failed)
    return render_page(
        sweep.name,
        f"a sweep of {format_count(count, 'cell')} over {axes}",
        [section for section in sections if section is not None],
        join_markup(_render_gap_alert(sweep), _render_sweep_cards(sweep)),
    )


def _render_gap_alert(sweep: SweepResults) -> Markup | None:
    """Render the number of cells with ops that were not estimated; None if there are none."""
    count = sum(bool(row.get(GAPS)) for row in sweep.done)
    if not count:
        return None
    has = "has" if count == 1 else "have"
    cells = format_count(count, "cell")
    message = f"{cells} {has} ops without an estimate, or loops whose trip counts are assumed."
    return tag("div", message, class_="alert bad", role="alert")


def _render_sweep_cards(sweep: SweepResults) -> Markup:
    cards = [
        ("cells with a result", str(len(sweep.done)), f"{len(sweep.failed)} failed"),
        ("programs", str(len(sweep.program_names)),
         f"on {format_count(len(sweep.node_names), 'node')}"),
    ]  # fmt: skip
    fitting = select_fitting_rows(sweep.done)
    if fitting and len(sweep.program_names) == 1:  # times of two programs do not compare
        best = min(fitting, key=sweep.get_time_s)
        place = f"{sweep.get_program_label(best)} on {sweep.get_node_label(best)}"
        shortest = format_seconds(sweep.get_time_s(best))
        cards.append((f"shortest {_get_measure_name(sweep)}", shortest, place))
    return render_cards(cards)


def _get_measure_name(sweep: SweepResults) -> str:
    return "step" if sweep.measure == "step_time_s" else "compute"


def _build_grid_section(sweep: SweepResults) -> PageSection | None:
    """Build the heat map; None for a single node, where each program would be its own best.

    Of many nodes there is none either.
    """
    programs, nodes, times = sweep.find_best_times()
    if not 2 <= len(nodes) <= MOST_NODES:
        return None
    crowded = sweep.find_memory_misfits()
    head = tag("tr", tag("td"), *(tag("th", allow_breaks(node), scope="col") for node in nodes))
    body = []
    for program, row in zip(programs, times, strict=True):
        least = min(time for time in row if time is not None)
        cells = [
            _render_shaded_cell(time, least, fits=(program, node) not in crowded)
            for node, time in zip(nodes, row, strict=True)
        ]
        body.append(tag("tr", tag("th", allow_breaks(program), scope="row"), *cells))
    grid = tag("table", tag("thead", head), tag("tbody", *body), class_="heat",
               aria_labelledby="grid-title")  # fmt: skip
    scroller = tag("div", grid, class_="scroll", tabindex=0, role="region",
                   aria_labelledby="grid-title")  # fmt: skip
    others = [name.removeprefix(CELL) for name in sweep.find_minimised_axes()]
    over = f", the shortest of all values of {' and '.join(others)}" if others else ""
    lead = (
        f"The {_get_measure_name(sweep)} of each program on each node{over}, and its ratio to the "
        "shortest time of the program. The stronger the colour, the longer it takes."
    )
    return PageSection("grid", "Programs and nodes", scroller, lead)


def _render_shaded_cell(time_s: float | None, least_s: float, *, fits: bool) -> Markup:
    if time_s is None:
        return tag("td", "-", class_="none")
    ratio = time_s / least_s if least_s else 1.0
    level = sum(ratio > end for end in SHADES)
    more = tag("span", f"{ratio:.2f} x")
    alert = None if fits else tag("span", "does not fit")
    return tag("td", format_seconds(time_s), more, alert, class_=f"h{level}")


def _build_cells_section(sweep: SweepResults) -> PageSection:
    rows = _sort_cells(sweep)
    columns, equal = list(_list_setting_columns(sweep)), []
    for column in (*_list_time_columns(sweep), *_list_figure_columns(sweep)):
        texts = {(cell.text, cell.more) for cell in map(column.make_cell, rows)}
        if len(texts) > 1 or len(rows) == 1 or column.key == TIME:
            columns.append(column)
        else:
            equal.append(f"{column.title} {texts.pop()[0]}")
    grid = render_table("cell", "By program, the shortest first", columns, rows)
    note = tag("p", f"Equal in all cells: {', '.join(equal)}.", class_="note") if equal else None
    return PageSection("cells", "Cells", join_markup(grid, note))


def tabulate_cells(sweep: SweepResults, limit: int | None) -> list[TextTable]:
    """Build the tables of the cells and of the errors for the terminal, with ``limit`` rows each.

    The cells have the order of the page, and also the columns that are equal in all of them.
    """
    lists = _list_setting_columns, _list_time_columns, _list_figure_columns
    columns = [column for list_columns in lists for column in list_columns(sweep)]
    settings = len(sweep.free_axes)
    good = _tabulate(sweep.name, columns, _sort_cells(sweep), limit, settings)
    failed = _tabulate("Errors", _list_error_columns(sweep), sweep.failed, limit, settings + 1)
    return [table for table in (good, failed) if table.rows]


def _tabulate(
    title: str,
    columns: Sequence[TableColumn],
    rows: Sequence[SweepRow],
    limit: int | None,
    left: int,
) -> TextTable:
    lines = [[str(column.make_cell(row).text) for column in columns] for row in rows[:limit]]
    rest = len(rows) - len(lines)
    if rest > 0:
        lines.append([f"({rest} more: --top 0)", *[""] * (len(columns) - 1)])
    return TextTable(title, lines, [column.title for column in columns], left=left)


def _sort_cells(sweep: SweepResults) -> list[SweepRow]:
    """Return the cells with a result by program, the shortest first."""
    order = {name: i for i, name in enumerate(sweep.program_names)}
    return sorted(
        sweep.done,
        key=lambda row: (order[sweep.get_program_label(row)], sweep.get_time_s(row)),
    )


def _list_setting_columns(sweep: SweepResults) -> Iterator[TableColumn]:
    for name in sweep.free_axes:
        yield TableColumn(
            name.removeprefix(CELL),
            _format_column_title(name),
            lambda row, name=name: _format_value_cell(sweep, row, name),
            _find_column_kind(sweep, name),
        )


def _list_time_columns(sweep: SweepResults) -> Iterator[TableColumn]:
    least_s: dict[str, float] = {}
    for row in sweep.done:
        name = sweep.get_program_label(row)
        least_s[name] = min(least_s.get(name, float("inf")), sweep.get_time_s(row))

    def make_ratio_cell(row: SweepRow) -> TableCell:
        shortest_s = least_s[sweep.get_program_label(row)]
        ratio = sweep.get_time_s(row) / shortest_s if shortest_s else 1.0
        return TableCell(f"{ratio:.2f} x", ratio)

    yield TableColumn("devices", "Devices", lambda row: format_number_cell(row.get("devices")))
    title = _get_measure_name(sweep).capitalize()
    yield TableColumn(TIME, title, lambda row: format_time_cell(sweep.get_time_s(row)))
    ratio_help = "relative to the shortest of the same program"
    yield TableColumn("ratio", "Of shortest", make_ratio_cell, help=ratio_help)
    if any("compute_band_s.0" in row for row in sweep.done):
        yield TableColumn("band", "80 % band", lambda row: _format_band_cell(row, sweep.measure))
    if sweep.measure != "compute_s":
        yield TableColumn("compute", "Compute", lambda row: format_time_cell(row["compute_s"]))


def _list_figure_columns(sweep: SweepResults) -> Iterator[TableColumn]:
    """Yield the columns of the figures that any cell has."""
    names = {name for row in sweep.done for name in row}
    peaks = {row.get(PEAK_DTYPE) for row in sweep.done}
    for figure in list_figures("sweep"):
        if figure.name in names and (figure.name != GAPS or any(r.get(GAPS) for r in sweep.done)):
            title = figure.column_title
            yield TableColumn(
                figure.name.rpartition(".")[2],
                title[0].upper() + title[1:],
                lambda row, figure=figure: _format_figure_cell(figure, row, peaks),
                help=figure.help,
            )


def _format_figure_cell(figure: Figure, row: SweepRow, peaks: Collection[str | None]) -> TableCell:
    """Format a figure of a row; of a peak memory that does not fit, this is said.

    A utilisation names the type whose peak it is a share of, if that differs between cells.
    """
    cell = format_figure_cell(figure, row.get(figure.name))
    if row.get(figure.name) is not None and (
        peak := name_peak(figure.name, row.get(PEAK_DTYPE), peaks)
    ):
        return replace(cell, more=peak)
    does_not_fit = figure.name == MEMORY and row.get(FITS) is False
    return replace(cell, more="does not fit") if does_not_fit else cell


def _format_column_title(name: str) -> str:
    return "Program" if name == PROGRAM else name.removeprefix(CELL).replace("_", " ").capitalize()


def _find_column_kind(sweep: SweepResults, name: str) -> Any:
    values = [row[name] for row in sweep.done if name in row]
    is_number = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return "number" if is_number else "text"


def _format_value_cell(sweep: SweepResults, row: SweepRow, name: str) -> TableCell:
    value = sweep.get_program_label(row) if name == PROGRAM else row.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return TableCell(f"{value:,}" if isinstance(value, int) else f"{value:g}", value)
    return format_text_cell(value)


def _format_band_cell(row: SweepRow, measure: str) -> TableCell:
    name = "step_time_band_s" if measure == "step_time_s" else "compute_band_s"
    low, high = row.get(f"{name}.0"), row.get(f"{name}.1")
    if low is None or high is None:
        return TableCell("-")
    return TableCell(format_time_range(low, high), high - low)


def _build_failures_section(sweep: SweepResults) -> PageSection | None:
    if not sweep.failed:
        return None
    caption = "Cells without a result, and the reason"
    grid = render_table("failure", caption, _list_error_columns(sweep), sweep.failed)
    return PageSection("failed", f"Failed: {format_count(len(sweep.failed), 'cell')}", grid)


def _list_error_columns(sweep: SweepResults) -> list[TableColumn]:
    """List the columns of the cells without a result."""
    settings = [replace(column, kind="text") for column in _list_setting_columns(sweep)]
    error = TableColumn("error", "Error", lambda row: format_text_cell(row["error"]), "text")
    return [*settings, error]


def _build_provenance_section(sweep: SweepResults) -> PageSection | None:
    """Build the list of settings and sources that are equal in all cells, or their values."""
    values_by_name: dict[str, set[str]] = {}
    for row in sweep.done:
        for name, value in row.items():
            if name.startswith(ORIGIN) or name in RESTS:
                values_by_name.setdefault(name.removeprefix(ORIGIN).replace("_", " "), set()).add(
                    str(value)
                )
    same = {n.removeprefix(CELL): v for n, v in sweep.done[0].items() if n.startswith(CELL)}
    facts: list[tuple[str, Child]] = [
        (name, str(value)) for name, value in same.items() if f"{CELL}{name}" not in sweep.axes
    ]
    facts += [
        (name, _summarise_values(values))
        for name, values in values_by_name.items()
        if name not in same
    ]
    return PageSection("provenance", "Provenance", render_facts(facts)) if facts else None


def _summarise_values(values: set[str]) -> Child:
    ordered = sorted(values)
    shown = ", ".join(ordered)
    return shown if len(ordered) == 1 or len(shown) < 100 else f"{len(ordered)} different values"


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
            division = number_values([one.get(key, "") for one in by_name.values()])
            if max(division):
                parts.setdefault(division, key)
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
    names = dict.fromkeys(name for row in rows for name in row if name.startswith(CELL))
    axes = [name for name in names if len({str(row.get(name)) for row in rows}) > 1]
    return SweepResults(os.path.basename(path), done, failed, choose_measure(done), axes)
