"""Cells of CSV files that a spreadsheet would otherwise take for formulas."""

from __future__ import annotations

import json

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def quote_formula(text: str) -> str:
    """Return a text as a JSON string if a spreadsheet would run it as a formula.

    Other texts are returned as they are. Numbers are not passed to this function.
    """
    return json.dumps(text) if text.startswith(_FORMULA_STARTS) else text


def unquote_formula(text: str) -> str:
    """Return the text that ``quote_formula`` has quoted; other texts as they are."""
    if text.startswith('"'):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return value if isinstance(value, str) else text
    return text
