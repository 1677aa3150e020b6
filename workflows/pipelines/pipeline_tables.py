"""The tables of a study of pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hespas.support.text_tables import TextTable, format_percent, format_scaled, format_seconds
from hespas.workflows.pipelines.pipeline_request import PipelineRow
from hespas.workflows.studies import study_definition as base
from hespas.workflows.studies.study_definition import StudyColumn

COLUMNS = (
    base.STEP,
    StudyColumn("bubble_share", "bubble", format_percent),
    StudyColumn("ideal_bubble_share", "ideal bubble", format_percent),
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
    columns = [c for c in COLUMNS if any(row.figures.get(c.name) is not None for row in rows)]
    shows_layers = has_uneven_stages(rows)
    lines = [
        [
            f"{row.schedule}{' *' if row is winner else ''}",
            str(row.stages_per_rank),
            *([row.format_layers()] if shows_layers else []),
            str(row.microbatches),
            str(row.batch or "-"),
            *(_format_column(row.figures, column) for column in columns),
            _format_band(row.figures),
        ]
        for row in rows
    ]
    layers = ["layers"] if shows_layers else []
    labels = ["schedule", "stages per rank", *layers, "microbatches", "batch"]
    return TextTable(title, lines, [*labels, *(c.header for c in columns), "80 % band"])


def has_uneven_stages(rows: Sequence[PipelineRow]) -> bool:
    """Return whether the stages of a row have unlike numbers of layers."""
    return any(row.is_uneven for row in rows)


def _format_column(figures: Mapping[str, Any], column: StudyColumn) -> str:
    value = figures.get(column.name)
    return "-" if value is None else column.text(value)


def _format_band(figures: Mapping[str, Any]) -> str:
    if figures.get("step_time_low_s") is None:
        return "-"
    low_s, high_s = figures["step_time_low_s"], figures["step_time_high_s"]
    return f"{format_seconds(low_s)} - {format_seconds(high_s)}"


def tabulate_ranks(row: PipelineRow) -> TextTable:
    """Tabulate the ranks of a row."""
    ranks = row.figures["ranks"]
    columns = [c for c in RANK_COLUMNS if any(rank[c.name] is not None for rank in ranks)]
    lines = [
        [
            str(rank["rank"]),
            " ".join(map(str, rank["stages"])),
            *([str(row.count_rank_layers(rank["stages"]))] if row.stage_layers else []),
            *(_format_column(rank, column) for column in columns),
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
    lines = []
    shows_layers = has_uneven_stages(rows)
    layers = ["layers"] if shows_layers else []
    for row in crowded:
        ranks = row.figures["ranks"]
        cells = [
            f"{format_scaled(rank['memory_bytes'], 'B')}{' *' if rank['memory_margin'] < 0 else ''}"
            if rank["memory_bytes"] is not None and rank["memory_margin"] is not None
            else "-"
            for rank in ranks
        ]
        cells += ["-"] * (count - len(cells))
        own = [row.format_layers()] if shows_layers else []
        lines.append([row.schedule, str(row.stages_per_rank), *own, str(row.microbatches), *cells])
    header = [
        "schedule",
        "stages per rank",
        *layers,
        "microbatches",
        *(f"rank {i}" for i in range(count)),
    ]
    return TextTable("Memory of each rank, where a rank (*) does not fit", lines, header)


def tabulate_reasons(rows: Sequence[PipelineRow]) -> TextTable:
    """Tabulate the rows that cannot run, with the reasons."""
    shows_layers = has_uneven_stages(rows)
    lines = [
        [
            row.schedule,
            str(row.stages_per_rank),
            *([row.format_layers()] if shows_layers else []),
            str(row.microbatches),
            row.reason,
        ]
        for row in rows
        if row.reason
    ]
    layers = ["layers"] if shows_layers else []
    header = ["schedule", "stages per rank", *layers, "microbatches", "reason"]
    return TextTable("Pipelines that cannot run", lines, header, len(header))
