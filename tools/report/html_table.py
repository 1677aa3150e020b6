"""HTML tables that can be sorted and filtered; without scripts they show all rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hespas.support.text_tables import format_percent, format_scaled, format_seconds
from hespas.tools.report.markup import Child, Markup, allow_breaks, join_markup, tag

if TYPE_CHECKING:
    from hespas.workflows.figures import Figure

SHOWN_ROWS = 12  # number of rows before "Show all" is needed
MIN_FILTERED_ROWS = 6  # a table with more rows has a filter


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell of a table.

    Attributes:
        text: The content.
        value: The number that the cell is sorted by; None to sort by the text.
        share: The length of a bar in the cell, relative to the largest of the column.
        more: A second line of text.
    """

    text: Child
    value: float | None = None
    share: float | None = None
    more: str | None = None


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table with a row for each of some records.

    Attributes:
        key: Stands for it in the address of the page.
        title: Its title.
        make_cell: Makes its cell of a record.
        kind: What it contains.
        help: Its tooltip.
    """

    key: str
    title: str
    make_cell: Callable[[Any], TableCell]
    kind: Literal["text", "code", "number"] = "number"
    help: str = ""


def format_number_cell(value: float | None) -> TableCell:
    return TableCell("-") if value is None else TableCell(f"{value:,}", value)


def format_time_cell(value_s: float | None) -> TableCell:
    return TableCell("-") if value_s is None else TableCell(format_seconds(value_s), value_s)


def format_size_cell(value: float | None, unit: str = "B") -> TableCell:
    return TableCell("-") if value is None else TableCell(format_scaled(value, unit), value)


def format_share_cell(value: float | None, *, bar: bool = False) -> TableCell:
    if value is None:
        return TableCell("-")
    return TableCell(format_percent(value), value, value if bar else None)


def format_figure_cell(figure: Figure, value: Any) -> TableCell:
    """Format a figure in its column, which sorts a band by its low end."""
    number = value[0] if isinstance(value, list | tuple) else value
    return TableCell(figure.format_cell(value), number)


def format_text_cell(value: object) -> TableCell:
    return TableCell("-" if value in (None, "") else str(value))


def render_table(
    name: str,
    caption: str,
    columns: Sequence[TableColumn],
    records: Sequence[Any],
    ids: Sequence[str] = (),
) -> Markup:
    """Render a table with its controls.

    Args:
        name: The id of the table, which also stands for it in the address of the page.
        caption: The text above the table.
        columns: The columns.
        records: The records of the rows.
        ids: The ids of the rows, for links to them; may be empty.
    """
    rows = [[column.make_cell(record) for column in columns] for record in records]
    scroller = tag(
        "div",
        _render_grid(name, columns, rows, ids),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_labelledby=f"{name}-caption",
    )
    heading = tag("p", caption, id=f"{name}-caption", class_="caption")
    tools = _render_tools(name, len(rows)) if len(rows) > MIN_FILTERED_ROWS else None
    return tag("div", heading, tools, scroller, class_="table")


def _render_grid(
    name: str,
    columns: Sequence[TableColumn],
    rows: Sequence[Sequence[TableCell]],
    ids: Sequence[str],
) -> Markup:
    """Render the table element."""
    header = tag(
        "tr",
        *(
            tag(
                "th",
                tag("button", allow_breaks(column.title), type="button", title=column.help or None),
                scope="col",
                class_="number" if column.kind == "number" else None,
                data_key=column.key,
            )
            for column in columns
        ),
    )
    longest = [
        max((cell.share or 0.0 for cell in column), default=0.0)
        for column in zip(*rows, strict=True)
    ]
    body = [
        tag(
            "tr",
            *(_render_cell(*each) for each in zip(row, columns, longest, strict=True)),
            id=ids[i] if ids else None,
        )
        for i, row in enumerate(rows)
    ]
    return tag(
        "table",
        tag("thead", header),
        tag("tbody", *body),
        id=name,
        class_="sortable",
        data_shown=SHOWN_ROWS,
        aria_labelledby=f"{name}-caption",
    )


def _render_tools(name: str, row_count: int) -> Markup:
    """Render the filter and the button of a table."""
    return tag(
        "div",
        tag(
            "label",
            tag("span", "Filter"),
            tag("input", type="search", aria_controls=name, placeholder="words to look for"),
        ),
        tag("button", "Show all", type="button", class_="all", aria_controls=name),
        tag("span", f"{row_count} rows", class_="count", role="status"),
        class_="tools",
        hidden=True,
    )


def _render_cell(cell: TableCell, column: TableColumn, longest: float) -> Markup:
    """Render a cell; a bar of full length stands for the share ``longest``."""
    content: Child = cell.text if column.kind == "number" else allow_breaks(cell.text)
    if column.kind == "code" and cell.text not in (None, "-"):
        content = tag("code", cell.text)
    bar = None
    if cell.share is not None:
        inner = tag("rect", width=f"{100 * cell.share / (longest or 1.0):.2f}%", height="100%")
        bar = tag("svg", inner, class_="bar", aria_hidden="true")
        content = tag("span", content, class_="beside")
    return tag(
        "td",
        bar,
        content,
        tag("span", cell.more, class_="more") if cell.more else None,
        class_="number" if column.kind == "number" else None,
        data_v=None if cell.value is None else repr(float(cell.value)),
    )


def render_facts(rows: Sequence[tuple[str, Child]]) -> Markup:
    """Render a list of names and values."""
    return tag(
        "dl",
        join_markup(
            *(
                tag("div", tag("dt", allow_breaks(name)), tag("dd", allow_breaks(value)))
                for name, value in rows
            )
        ),
        class_="facts",
    )


def render_cards(card_texts: Sequence[tuple[str, str, str]]) -> Markup:
    """Render the main figures: name, value and explanation of each."""
    items = (
        tag(
            "li",
            tag("span", name, class_="name"),
            tag("span", value, class_="value"),
            tag("span", allow_breaks(more), class_="more"),
        )
        for name, value, more in card_texts
    )
    return tag("ul", *items, class_="cards")
