"""The table of the loads of a serving study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hespas.support.text_tables import TextTable, format_percent
from hespas.workflows.studies import study_definition as base
from hespas.workflows.studies.study_definition import StudyColumn


def _format_milliseconds(time_s: float) -> str:
    """Format a time so that all times of a column have one unit."""
    return f"{1e3 * time_s:.4g} ms"


LOAD_COLUMNS = (
    StudyColumn("rate_per_s", "requests/s", lambda value: f"{value:.3g}"),
    StudyColumn("clients", "clients"),
    StudyColumn("ttft_p50_s", "TTFT p50", _format_milliseconds),
    StudyColumn("ttft_p99_s", "TTFT p99", _format_milliseconds),
    StudyColumn("tpot_p50_s", "TPOT p50", _format_milliseconds),
    StudyColumn("tpot_p99_s", "TPOT p99", _format_milliseconds),
    StudyColumn("output_tokens_per_s_per_device", "tokens/s/device", lambda value: f"{value:.4g}"),
    base.COST,
    StudyColumn("good_share", "good", format_percent),
    StudyColumn("goodput_per_s", "goodput/s", lambda value: f"{value:.3g}"),
    StudyColumn("mean_batch", "batch", lambda value: f"{value:.1f}"),
    StudyColumn("busy_share", "busy", format_percent),
)
LOAD_LABELS = ("model", "tensor", "node")


def make_load_table(rows: Sequence[Mapping[str, Any]]) -> TextTable:
    """Make the table, whose title names the labels that all rows share."""
    names = [*LOAD_LABELS, "devices"]
    varied = [name for name in names if len({row[name] for row in rows}) > 1]
    fixed = [base.describe_label(name, rows[0][name]) for name in names if name not in varied]
    columns = [c for c in LOAD_COLUMNS if any(row[c.name] is not None for row in rows)]
    lines = [
        [
            *(str(row[name]) for name in varied),
            *("-" if row[c.name] is None else c.text(row[c.name]) for c in columns),
        ]
        for row in rows
    ]
    title = ", ".join(["Serving, loads", *fixed])
    return TextTable(title, lines, [*varied, *(c.header for c in columns)], len(varied))
