"""Tables that sort and filter in the browser, and are complete without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hespas.tools.commands.render import percent, scaled, seconds
from hespas.tools.report.markup import Child, Markup, join, tag

SHOWN = 12  # rows before "show all"
FILTERED = 6  # rows from which a table has a filter


@dataclass(frozen=True, slots=True)
class Column:
    """``key`` names it in the page's address; ``help`` is said where the mouse rests."""

    key: str
    title: str
    kind: Literal["text", "code", "number"] = "number"
    help: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """``value`` sorts it where it is a number; ``share`` is drawn as a bar, beside the column's
    largest; ``more`` stands below."""

    text: Child
    value: float | None = None
    share: float | None = None
    more: str | None = None


def number(value: float) -> Cell:
    return Cell(f"{value:,}", value)


def time(value_s: float | None) -> Cell:
    return Cell("-") if value_s is None else Cell(seconds(value_s), value_s)


def size(value: float | None, unit: str = "B") -> Cell:
    return Cell("-") if value is None else Cell(scaled(value, unit), value)


def share(value: float | None, *, bar: bool = False) -> Cell:
    if value is None:
        return Cell("-")
    return Cell(percent(value), value, value if bar else None)


def text(value: object) -> Cell:
    return Cell("-" if value in (None, "") else str(value))


def table(
    name: str,
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
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
            *(_cell(*each) for each in zip(row, columns, longest, strict=True)),
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


def _cell(cell: Cell, column: Column, longest: float) -> Markup:
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


def facts(rows: Sequence[tuple[str, Child]]) -> Markup:
    """Names and values."""
    return tag(
        "dl",
        join(*(tag("div", tag("dt", name), tag("dd", value)) for name, value in rows)),
        class_="facts",
    )


def cards(found: Sequence[tuple[str, str, str]]) -> Markup:
    """Main figures: each a name, a value, and what more is to be said."""
    items = (
        tag(
            "li",
            tag("span", name, class_="name"),
            tag("span", value, class_="value"),
            tag("span", more, class_="more"),
        )
        for name, value, more in found
    )
    return tag("ul", *items, class_="cards")
