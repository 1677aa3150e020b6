"""Markdown for the generated pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def format_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Format a table; each of its lines ends with a line feed."""
    lines = [_format_row(header), f"|{'---|' * len(header)}\n", *map(_format_row, rows)]
    return "".join(lines)


def _format_row(cells: Sequence[object]) -> str:
    texts = (str(cell).replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(texts)} |\n"


def format_prose(text: str) -> str:
    """Format a docstring or a help text as one line of prose, in which ``<`` opens no tag."""
    return " ".join(text.replace("``", "`").split()).replace("<", "&lt;")


def format_codes(names: Iterable[str]) -> str:
    """List names as code."""
    return ", ".join(f"`{name}`" for name in names)
