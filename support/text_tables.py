"""Tables and numbers as text."""

from __future__ import annotations

import math
import re
import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

from hespas.support.records import record
from hespas.support.terminal_text import escape_cell, escape_controls, get_terminal

TextRow = Sequence[str]


@record(frozen=True)
class TextTable:
    """A table with a title.

    Attributes:
        header: The names of the columns; empty for a list of names and values.
        left: How many columns, from the first, are left-aligned text; the other ones are numbers.
    """

    title: str
    rows: Sequence[TextRow]
    header: TextRow = ()
    left: int = 1


def print_tables(tables: Sequence[TextTable], out: TextIO | None = None) -> None:
    """Print tables as plain text, or with rich if ``out`` is a terminal (default: stdout)."""
    stream: TextIO = sys.stdout if out is None else out
    if stream.isatty():
        _print_rich_tables(tables, stream)
    else:
        print("\n\n".join(format_plain_table(table) for table in tables), file=stream)


def format_plain_table(table: TextTable) -> str:
    """Return a table as text with aligned columns."""
    rows = [
        [escape_cell(cell) for cell in row]
        for row in [*([table.header] if table.header else []), *table.rows]
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    lines = [escape_controls(table.title)] if table.title else []
    for row in rows:
        cells = [
            cell.ljust(width) if i < table.left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def format_markdown_tables(tables: Sequence[TextTable]) -> str:
    """Return tables in Markdown, each below its title, as the text of a file."""
    return "\n\n".join(map(_format_markdown_table, tables)) + "\n"


def _format_markdown_table(table: TextTable) -> str:
    header = list(table.header) or [""] * max((len(row) for row in table.rows), default=1)
    rule = ["---" if i < table.left else "---:" for i in range(len(header))]
    rows = [header, rule, *table.rows]
    lines = [
        "| " + " | ".join(escape_cell(cell).replace("|", "\\|") for cell in row) + " |"
        for row in rows
    ]
    title = f"**{escape_controls(table.title)}**"
    return "\n".join([title, "", *lines] if table.title else lines)


def _print_rich_tables(tables: Sequence[TextTable], out: TextIO) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as RichTable

    console = Console(file=get_terminal(out), highlight=False)
    for table in tables:
        rich_table = RichTable(
            title=escape(escape_controls(table.title)), title_justify="left", title_style="bold",
            box=None, show_header=bool(table.header), pad_edge=False,
        )  # fmt: skip
        columns = len(table.rows[0]) if table.rows else len(table.header)
        for i in range(columns):
            name = table.header[i] if table.header else ""
            justify = "left" if i < table.left else "right"
            rich_table.add_column(name, justify=justify, overflow="fold")
        for row in table.rows:
            rich_table.add_row(*(escape(escape_cell(cell)) for cell in row))
        console.print(rich_table)
        console.print()


def wrap_command(command: str, width: int) -> list[str]:
    """Break a command into lines that a shell continues; a flag stays with its value."""
    words = re.sub(r"(--[\w-]+) (?!--)", "\\1\0", command)
    parts = textwrap.wrap(words, width, break_long_words=False, break_on_hyphens=False)
    parts = [part.replace("\0", " ") for part in parts]
    return [f"{part} \\" for part in parts[:-1]] + parts[-1:]


_LARGE, _SMALL = "kMGTPE", "fpnum"


def format_scaled(value: float, unit: str) -> str:
    """Return a number with an SI prefix and a unit, such as ``1.318 TB/s`` or ``4.851 nJs``."""
    if value == int(value) and abs(value) < 1000.0:
        return f"{value:.0f} {unit}"
    scale = min(max(math.floor(math.log10(abs(value)) / 3), -len(_SMALL)), len(_LARGE))
    prefix = _LARGE[scale - 1] if scale > 0 else _SMALL[scale] if scale else ""
    return f"{value / 1000.0**scale:.3f} {prefix}{unit}"


def format_seconds(value: float) -> str:
    """Return a time in s, ms, us or ns, such as ``1.318 ms``."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= factor:
            return f"{value / factor:.3f} {unit}"
    return f"{value * 1e9:.3f} ns" if value else "0 s"


def format_signed_seconds(value: float) -> str:
    """Return a difference of times with its sign, such as ``+1.318 ms``."""
    return f"{'-' if value < 0 else '+' if value else ''}{format_seconds(abs(value))}"


def format_time_range(low_s: float, high_s: float) -> str:
    """Format two times with three digits in the unit of the second: ``67.0 to 87.9 ms``."""
    number, unit = format_seconds(high_s).split()
    digits = max(3 - len(number.partition(".")[0]), 0)
    low = low_s / high_s * float(number) if high_s else 0.0
    return f"{low:.{digits}f} to {float(number):.{digits}f} {unit}"


def format_count(number: int, noun: str) -> str:
    """Return a number and its noun, such as ``1 op`` or ``2 ops``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def clip_text(text: str) -> str:
    """Truncate a text to 60 characters, with ``...`` at its end."""
    return text if len(text) <= 60 else f"{text[:57]}..."


def format_percent(share: float) -> str:
    """Return a share, such as 0.25, in per cent."""
    return f"{100 * share:.1f} %"
