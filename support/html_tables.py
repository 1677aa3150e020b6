"""Tables as HTML for notebooks: one fragment that needs nothing else."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Sequence

from hespas.support.text_tables import TextTable, format_plain_table

_STYLE = """\
.hespas table { border-collapse: collapse; margin: 0 0 1em }
.hespas caption { text-align: left; font-weight: bold; padding: 0.2em 0 }
.hespas td, .hespas th { padding: 0.1em 0.8em 0.1em 0; text-align: right; vertical-align: top }
.hespas .text { text-align: left }
.hespas summary { cursor: pointer; margin-bottom: 0.5em }
"""


class PrintedTables(ABC):
    """A result that ``print`` shows as plain tables, and Jupyter as HTML."""

    @abstractmethod
    def build_tables(self) -> list[TextTable]:
        """Build the tables in their order."""

    def __str__(self) -> str:
        return "\n\n".join(map(format_plain_table, self.build_tables()))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return format_html_page("", self.build_tables())


def format_html_page(
    headline: str, tables: Sequence[TextTable], folded: Sequence[TextTable] = ()
) -> str:
    """Return a headline and tables as a fragment of HTML, in which ``folded`` can be unfolded.

    The fragment carries its style and refers to nothing outside of it.
    """
    parts = [f"<style>{_STYLE}</style>"]
    if headline:
        parts.append(f"<p><b>{html.escape(headline)}</b></p>")
    parts += map(_format_html_table, tables)
    if folded:
        rest = "".join(map(_format_html_table, folded))
        parts.append(f"<details><summary>all tables</summary>{rest}</details>")
    return f'<div class="hespas">{"".join(parts)}</div>'


def _format_html_table(table: TextTable) -> str:
    rows = [_format_html_row(row, "td", table.left) for row in table.rows]
    if table.header:
        rows.insert(0, _format_html_row(table.header, "th", table.left))
    caption = f"<caption>{html.escape(table.title)}</caption>" if table.title else ""
    return f"<table>{caption}{''.join(rows)}</table>"


def _format_html_row(row: Sequence[str], element: str, left: int) -> str:
    cells = [
        f"<{element}{' class=text' if i < left else ''}>{html.escape(cell)}</{element}>"
        for i, cell in enumerate(row)
    ]
    return f"<tr>{''.join(cells)}</tr>"
