"""The tables and the JSON object of ``hespas compare --changes``: what changed from A to B."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hespas.support.text_tables import (
    TextTable,
    clip_text,
    format_scaled,
    format_seconds,
    format_signed_seconds,
)
from hespas.workflows.figures import BY_NAME

if TYPE_CHECKING:
    from hespas.support.text_tables import TextRow
    from hespas.workflows.run_differences import RunDifference, TimeChange

# The settings that results of one question may differ in, without what follows from them
MODELLED_SETTINGS = (
    "program", "form", "xla_flags", "compile_memory_limit_bytes", "split", "estimator", "simulator",
    "network_model",
)  # fmt: skip
FOLLOW_FROM_NODE = ("form", "compile_memory_limit_bytes")  # which name the node, or its memory
DISAGREEMENT = 0.03  # the relative difference of two results from which it is explained
SHOWN_INSTRUCTIONS = 5


def to_changes_json(difference: RunDifference, names: Sequence[str]) -> dict[str, Any]:
    """Convert to the object that ``--json`` prints, see docs/how-to/compare.md."""

    def to_change_objects(rows: list[TimeChange], *keys: str) -> list[dict[str, Any]]:
        return [
            {
                **dict(zip(keys, row.name, strict=True)),
                "a_s": row.a_s,
                "b_s": row.b_s,
                "difference_s": row.difference_s,
                "a_count": row.a_count,
                "b_count": row.b_count,
                "only_in": row.only_in,
            }
            for row in rows
        ]

    def to_value_pairs(values: Any) -> dict[str, Any]:
        return {name: {"a": a, "b": b} for name, (a, b) in values.items()}

    growth = difference.relative_growth
    return {
        "a": names[0],
        "b": names[1],
        "measure": difference.compared_measure,
        "growth": None if growth == float("inf") else growth,
        "difference_band_s": difference.comparison.band_s,
        "causes": [asdict(cause) for cause in difference.comparison.causes],
        "totals": to_value_pairs(difference.totals),
        "counts": to_value_pairs(difference.counts),
        "provenance": to_value_pairs(difference.provenance),
        "kinds": to_change_objects(difference.kinds, "kind"),
        "kernels": to_change_objects(difference.kernels, "kind", "shapes"),
        "layers": to_change_objects(difference.layers, "layer"),
        "instructions": to_change_objects(difference.instructions, "instruction", "place"),
        "operations": to_change_objects(difference.operations, "kind", "operations"),
        "collectives": to_change_objects(
            difference.collectives, "kind", "group_size", "operand_bytes"
        ),
    }


def build_changes_tables(
    difference: RunDifference, names: Sequence[str], limit: int | None
) -> list[TextTable]:
    """Build the tables of all that differs, with at most ``limit`` rows for each breakdown."""
    breakdowns = (
        ("kind of kernel", ("kind",), difference.kinds),
        ("kernel", ("kind", "shapes"), difference.kernels),
        ("layer", ("layer",), difference.layers),
        ("instruction", ("instruction", "at"), difference.instructions),
        ("collective", ("kind", "group", "operand"), difference.collectives),
    )
    return [
        _build_head_table(difference, names),
        _build_settings_table(difference),
        _build_totals_table(difference),
        *_build_causes_tables(difference),
        *(_build_change_table(title, keys, rows, limit) for title, keys, rows in breakdowns),
    ]


def build_disagreement_tables(difference: RunDifference) -> list[TextTable]:
    """Build the tables of two results of one question that differ by more than 3 %.

    They show the settings that differ, and the instructions and collectives with the largest
    changes of time; there are none if the results agree, or are of another question. Programs of
    two frameworks name few instructions alike, so that kernels are compared by their operations.
    """
    growth = difference.relative_growth
    if abs(growth) <= DISAGREEMENT or not difference.is_one_question:
        return []
    percent = f"{100 * growth:+.1f} %"
    settings = [
        (name, label, _format_setting(value))
        for name in MODELLED_SETTINGS
        if (pair := difference.provenance[name])[0] != pair[1]
        for label, value in zip(("first", "second"), pair, strict=True)
    ]
    collectives = difference.collectives
    return [
        TextTable(
            f"The second differs by {percent}: settings that differ",
            settings or [("none", "", "")],
            left=3,
        ),
        _build_change_table(
            "instruction", ("instruction", "at"), difference.instructions, SHOWN_INSTRUCTIONS
        )
        if difference.has_common_names
        else _build_change_table(
            "kind and operations of a kernel, because few instructions have the same name",
            ("kind", "operations"),
            difference.operations,
            SHOWN_INSTRUCTIONS,
        ),
        _build_change_table(
            "collective", ("kind", "group", "operand"), collectives, SHOWN_INSTRUCTIONS
        ),
    ]


def _build_head_table(difference: RunDifference, names: Sequence[str]) -> TextTable:
    rows = [("A", names[0]), ("B", names[1])]
    if difference.comparison.band_s is not None:
        ends = map(format_signed_seconds, difference.comparison.band_s)
        rows.append(("80 % band of B - A", " to ".join(ends)))
    return TextTable("Compared", rows, left=2)


def _build_settings_table(difference: RunDifference) -> TextTable:
    rows: list[TextRow] = []
    nodes = difference.provenance["node"]
    for name, (a, b) in difference.provenance.items():
        if name in FOLLOW_FROM_NODE and nodes[0] != nodes[1]:
            continue
        if a != b:
            rows += [(name, "A", _format_setting(a)), ("", "B", _format_setting(b))]
    return TextTable("Settings that differ", rows or [("none", "", "")], left=3)


def _build_totals_table(difference: RunDifference) -> TextTable:
    rows = [
        (BY_NAME[name].title, format_seconds(a), format_seconds(b), *_format_difference(a, b))
        for name, (a, b) in difference.totals.items()
        if a is not None and b is not None
    ]
    for name, (a, b) in difference.counts.items():
        if a is None or b is None or a == b:
            continue
        figure = BY_NAME[name]
        amount = figure.format(abs(b - a))
        if figure.unit == "share":
            amount = amount.replace(" %", " points")
        values = (figure.format(a), figure.format(b))
        change = _format_relative_change(a, b)
        rows.append((figure.title, *values, _get_sign(b - a) + amount, change))
    return TextTable("Totals, one device", rows, ("", "A", "B", "difference", "change"))


def _build_causes_tables(difference: RunDifference) -> list[TextTable]:
    """Build the table of what makes B worse; none if nothing does."""
    rows = [(f"{cause.text[0].upper()}{cause.text[1:]}",) for cause in difference.comparison.causes]
    return [TextTable("What makes B worse", rows, ("cause",))] if rows else []


def _build_change_table(
    group_name: str, keys: tuple[str, ...], changes: Sequence[TimeChange], limit: int | None
) -> TextTable:
    """Build the table of the rows that differ, the largest change first; equal rows are counted."""
    unequal = [change for change in changes if not change.is_equal]
    equal = len(changes) - len(unequal)
    title = f"By {group_name}" + (f", {equal} equal" if equal else "")
    rows: list[TextRow] = []
    for change in unequal[:limit]:
        name = [clip_text(part) for part in change.name]
        if "operations" in keys and name[-1]:
            flops, dtype = name[-1].split()
            name[-1] = f"{format_scaled(int(flops), 'FLOP')} {dtype}"
        if "operand" in keys:
            name[-1] = format_scaled(int(name[-1]), "B") if name[-1] else "-"
        times = (_format_optional_seconds(change.a_s), _format_optional_seconds(change.b_s))
        counts = ("-" if n is None else str(n) for n in (change.a_count, change.b_count))
        rows.append((*name, *counts, *times, *_format_difference(change.a_s, change.b_s)))
    rest = unequal[limit:] if limit else []
    if rest:
        difference_s = sum(change.difference_s for change in rest)
        blank = [""] * (len(keys) + 3)
        rows.append((f"({len(rest)} more)", *blank, format_signed_seconds(difference_s), ""))
    if not rows:
        return TextTable(title, [("no difference",)])
    header = (*keys, "A runs", "B runs", "A", "B", "difference", "change")
    return TextTable(title, rows, header, left=len(keys))


def _format_difference(a: float | None, b: float | None) -> tuple[str, str]:
    """Format the difference of two times, and the difference as a share of A."""
    if a is None and b is None:
        return "-", "-"
    return format_signed_seconds((b or 0.0) - (a or 0.0)), _format_relative_change(a, b)


def _format_relative_change(a: float | None, b: float | None) -> str:
    if a is None or b is None:
        return "new" if a is None else "gone"
    return f"{100 * (b / a - 1):+.1f} %" if a else "-"


def _format_optional_seconds(value: float | None) -> str:
    return "-" if value is None else format_seconds(value)


def _get_sign(value: float) -> str:
    return "-" if value < 0 else "+" if value else ""


def _format_setting(value: Any) -> str:
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value)
