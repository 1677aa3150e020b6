"""Tables that sort and filter in the browser, and are complete without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hespas.support.text_tables import format_percent, format_scaled, format_seconds
from hespas.tools.report.markup import Child, Markup, join_markup, tag

SHOWN = 12  # rows before "show all"
FILTERED = 6  # rows from which a table has a filter


@dataclass(frozen=True, slots=True)
class TableColumn:
    """``key`` names it in the page's address; ``help`` is said where the mouse rests."""

    key: str
    title: str
    kind: Literal["text", "code", "number"] = "number"
    help: str = ""


@dataclass(frozen=True, slots=True)
class TableCell:
    """``value`` sorts it where it is a number; ``share`` is drawn as a bar, beside the column's
    largest; ``more`` stands below."""

    text: Child
    value: float | None = None
    share: float | None = None
    more: str | None = None


def format_number_cell(value: float) -> TableCell:
    return TableCell(f"{value:,}", value)


def format_time_cell(value_s: float | None) -> TableCell:
    return TableCell("-") if value_s is None else TableCell(format_seconds(value_s), value_s)


def format_size_cell(value: float | None, unit: str = "B") -> TableCell:
    return TableCell("-") if value is None else TableCell(format_scaled(value, unit), value)


def format_share_cell(value: float | None, *, bar: bool = False) -> TableCell:
    if value is None:
        return TableCell("-")
    return TableCell(format_percent(value), value, value if bar else None)


def format_text_cell(value: object) -> TableCell:
    return TableCell("-" if value in (None, "") else str(value))


def render_table(
    name: str,
    caption: str,
    columns: Sequence[TableColumn],
    rows: Sequence[Sequence[TableCell]],
    ids: Sequence[str] = (),
) -> Markup:
    """A table with its controls; ``name`` is its place in the page's address.

    ``ids`` are those of the rows, where something links to them.
    """
    header = tag(
        "tr",
        *(
            tag(
                "th",
                tag("button", column.title, type="button", title=column.help or None),
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
    title = f"{name}-caption"
    grid = tag(
        "table",
        tag("thead", header),
        tag("tbody", *body),
        id=name,
        class_="sortable",
        data_shown=SHOWN,
        aria_labelledby=title,
    )
    tools = tag(
        "div",
        tag(
            "label",
            tag("span", "Filter"),
            tag("input", type="search", aria_controls=name, placeholder="words to look for"),
        ),
        tag("button", "Show all", type="button", class_="all", aria_controls=name),
        tag("span", f"{len(rows)} rows", class_="count", role="status"),
        class_="tools",
        hidden=True,
    )
    scroller = tag("div", grid, class_="scroll", tabindex=0, role="region", aria_labelledby=title)
    heading = tag("p", caption, id=title, class_="caption")
    return tag("div", heading, tools if len(rows) > FILTERED else None, scroller, class_="table")


def _render_cell(cell: TableCell, column: TableColumn, longest: float) -> Markup:
    """``longest`` is the share that a whole bar stands for."""
    content: Child = cell.text
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
    """Names and values."""
    return tag(
        "dl",
        join_markup(*(tag("div", tag("dt", name), tag("dd", value)) for name, value in rows)),
        class_="facts",
    )


def render_cards(card_texts: Sequence[tuple[str, str, str]]) -> Markup:
    """Main figures: each a name, a value, and what more is to be said."""
    items = (
        tag(
            "li",
            tag("span", name, class_="name"),
            tag("span", value, class_="value"),
            tag("span", more, class_="more"),
        )
        for name, value, more in card_texts
    )
    return tag("ul", *items, class_="cards")
