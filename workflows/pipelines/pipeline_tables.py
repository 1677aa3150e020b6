"""The tables of a study of pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hespas.support.text_tables import (
    TextTable,
    format_percent,
    format_scaled,
    format_seconds,
    format_time_range,
)
from hespas.workflows.pipelines.pipeline_request import PipelineRow
from hespas.workflows.studies import study_definition as base
from hespas.workflows.studies.study_definition import StudyColumn, select_columns

COLUMNS = (
    base.STEP,
    StudyColumn("bubble_share", "bubble", format_percent),
    StudyColumn("exposed_transfer_s", "messages", format_seconds),
    base.EXPOSED,
    base.MEMORY,
    StudyColumn("memory_margin", "margin", format_percent),
    base.MFU,
    base.TOKENS,
    base.COST,
    StudyColumn("straggler_step_time_s", "with straggler", format_seconds),
    StudyColumn("straggler_rank", "slow rank"),
)
RANK_COLUMNS = (
    base.COMPUTE,
    StudyColumn("task_s", "tasks", format_seconds),
    StudyColumn("update_s", "update", format_seconds),
    StudyColumn("bubble_s", "bubble", format_seconds),
    StudyColumn("transfer_s", "messages", format_seconds),
    StudyColumn("in_flight", "in flight"),
    StudyColumn("memory_bytes", "memory", lambda value: format_scaled(value, "B")),
    StudyColumn("memory_margin", "margin", format_percent),
)


def tabulate_pipelines(
    rows: Sequence[PipelineRow], winner: PipelineRow | None, title: str
) -> TextTable:
    """Tabulate the rows; the fastest one that fits has a star."""
    columns = select_columns(COLUMNS, [row.figures for row in rows])
    names, labels = list_row_labels(rows, batch=True)
    lines = [
        [
            f"{label[0]}{' *' if row is winner else ''}",
            *label[1:],
            *(column.format_cell(row.figures) for column in columns),
            _format_band(row.figures),
        ]
        for row, label in zip(rows, labels, strict=True)
    ]
    return TextTable(title, lines, [*names, *(c.header for c in columns), "80 % band"])


def list_row_labels(
    rows: Sequence[PipelineRow], *, batch: bool = False
) -> tuple[list[str], list[list[str]]]:
    """List the columns that distinguish rows, and the labels of each row in them.

    Stages, layers and batch are left out where all rows have one stage for each rank, as many
    layers in each, or the same batch.
    """
    names, columns = ["schedule"], [[row.schedule for row in rows]]
    if any(row.stages_per_rank > 1 for row in rows):
        names.append("stages per rank")
        columns.append([str(row.stages_per_rank) for row in rows])
    if any(row.is_uneven for row in rows):
        names.append("layers")
        columns.append([row.format_layers() for row in rows])
    names.append("microbatches")
    columns.append([str(row.microbatches) for row in rows])
    if batch and len({row.batch for row in rows}) > 1:
        names.append("batch")
        columns.append([str(row.batch or "-") for row in rows])
    return names, [list(labels) for labels in zip(*columns, strict=True)]


def _format_band(figures: Mapping[str, Any]) -> str:
    if figures.get("step_time_low_s") is None:
        return "-"
    return format_time_range(figures["step_time_low_s"], figures["step_time_high_s"])


def tabulate_ranks(row: PipelineRow) -> TextTable:
    """Tabulate the ranks of a row."""
    ranks = row.figures["ranks"]
    columns = select_columns(RANK_COLUMNS, ranks)
    lines = [
        [
            str(rank["rank"]),
            " ".join(map(str, rank["stages"])),
            *([str(row.count_rank_layers(rank["stages"]))] if row.stage_layers else []),
            *(column.format_cell(rank) for column in columns),
        ]
        for rank in ranks
    ]
    title = f"Ranks of {row.title}"
    layers = ["layers"] if row.stage_layers else []
    return TextTable(title, lines, ["rank", "stages", *layers, *(c.header for c in columns)], 2)


def tabulate_rank_memory(rows: Sequence[PipelineRow]) -> TextTable:
    """Tabulate the memory of each rank of the rows that do not fit; a star marks what exceeds."""
    crowded = [row for row in rows if row.figures and row.reason]
    count = max((len(row.figures["ranks"]) for row in crowded), default=0)
    names, labels = list_row_labels(crowded) if crowded else ([], [])
    lines = []
    for row, label in zip(crowded, labels, strict=True):
        ranks = row.figures["ranks"]
        cells = [
            f"{format_scaled(rank['memory_bytes'], 'B')}{' *' if rank['memory_margin'] < 0 else ''}"
            if rank["memory_bytes"] is not None and rank["memory_margin"] is not None
            else "-"
            for rank in ranks
        ]
        lines.append([*label, *cells, *["-"] * (count - len(cells))])
    header = [*names, *(f"rank {i}" for i in range(count))]
    return TextTable("Memory of each rank, where a rank (*) does not fit", lines, header)


def tabulate_reasons(rows: Sequence[PipelineRow]) -> TextTable:
    """Tabulate the rows that cannot run, with the reasons."""
    names, labels = list_row_labels(rows)
    lines = [[*label, row.reason] for row, label in zip(rows, labels, strict=True) if row.reason]
    header = [*names, "reason"]
    return TextTable("Pipelines that cannot run", lines, header, len(header))
