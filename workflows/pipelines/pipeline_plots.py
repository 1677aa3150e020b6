"""The charts of a study of pipelines: time over microbatches, and what each rank runs when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hespas.workflows.pipelines.pipeline_request import PipelineRow
from hespas.workflows.plot_files import COLOURS, MARKS
from hespas.workflows.studies.study_output import GanttBar, GanttChart

UPDATE_KIND = "update"


def make_rank_chart(row: PipelineRow) -> GanttChart:
    """Make the chart of what each rank of a pipeline runs when."""
    lanes = []
    for rank in row.figures["ranks"]:
        bars = [
            GanttBar(
                1e-9 * start_ns,
                1e-9 * end_ns,
                kind.replace("_", " "),
                f"{kind.replace('_', ' ')} of microbatch {microbatch}, stage {stage}",
            )
            for kind, stage, microbatch, start_ns, end_ns in rank["tasks_ns"]
        ]
        if rank["update_ns"]:
            start_ns, end_ns = rank["update_ns"]
            bars.append(GanttBar(1e-9 * start_ns, 1e-9 * end_ns, UPDATE_KIND, UPDATE_KIND))
        lanes.append((f"rank {rank['rank']}", bars))
    return GanttChart(row.title, lanes)


def draw_pipelines(figure: Any, rows: Sequence[PipelineRow], winner: PipelineRow | None) -> None:
    """Draw the time of a microbatch over their number, and the chart of the winner below it."""
    panels = figure.subplots(1 if winner is None else 2, 1, squeeze=False)[:, 0]
    lines: dict[str, list[PipelineRow]] = {}
    for row in rows:
        if row.figures:
            stages = f", {row.stages_per_rank} stages" if row.stages_per_rank > 1 else ""
            layers = f", layers {row.format_layers()}" if row.is_uneven else ""
            lines.setdefault(row.schedule + stages + layers, []).append(row)
    for number, (name, line) in enumerate(lines.items()):
        counts = [row.microbatches for row in line]
        times_ms = [1e3 * row.compute_sequence_time_s() for row in line]
        colour, mark = (values[number % len(values)] for values in (COLOURS, MARKS))
        panels[0].plot(counts, times_ms, color=colour, marker=mark, label=name)
    is_known = all(row.batch for row in rows if row.figures)
    panels[0].set_xlabel("microbatches")
    panels[0].set_ylabel(
        f"step / {'sequences of a batch shard' if is_known else 'microbatches'}: ms"
    )
    panels[0].set_xticks(sorted({row.microbatches for row in rows}))
    panels[0].set_ylim(0, 1.1 * panels[0].get_ylim()[1])
    panels[0].legend(fontsize=8)
    if winner is not None:
        _draw_rank_chart(panels[1], make_rank_chart(winner))


def _draw_rank_chart(axes: Any, chart: GanttChart) -> None:
    """Draw a Gantt chart; the first lane is on top."""
    colours = dict(zip(chart.list_kinds(), COLOURS, strict=False))
    for place, (_, bars) in enumerate(chart.lanes):
        for kind, colour in colours.items():
            spans = [(1e3 * b.start_s, 1e3 * (b.end_s - b.start_s)) for b in bars if b.kind == kind]
            axes.broken_barh(
                spans, (place - 0.4, 0.8), facecolors=colour, edgecolor="white", linewidth=0.3,
                label=kind if place == 0 else None,
            )  # fmt: skip
    axes.set_yticks(range(len(chart.lanes)), [name for name, _ in chart.lanes])
    axes.invert_yaxis()
    axes.set_xlabel("ms")
    axes.set_title(chart.title, fontsize=9, loc="left")
    axes.legend(fontsize=8, ncols=4, loc="lower right", bbox_to_anchor=(1, 1), frameon=False)
