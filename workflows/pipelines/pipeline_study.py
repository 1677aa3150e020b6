"""``hespas study pipeline``: schedules and numbers of microbatches of one model, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hespas import configs
from hespas.configs.node_spec import NodeSpec
from hespas.support.errors import HespasError
from hespas.support.html_tables import PrintedTables
from hespas.support.text_tables import TextTable, format_count, format_scaled, format_seconds
from hespas.workflows.pipelines.pipeline_cells import estimate_pipelines, make_stage_files
from hespas.workflows.pipelines.pipeline_plots import draw_pipelines, make_rank_chart
from hespas.workflows.pipelines.pipeline_request import (
    PipelineRequest,
    PipelineRow,
    PlannedPipeline,
    plan_pipelines,
)
from hespas.workflows.pipelines.pipeline_tables import (
    tabulate_pipelines,
    tabulate_rank_memory,
    tabulate_ranks,
    tabulate_reasons,
)
from hespas.workflows.studies import program_forms
from hespas.workflows.studies.study_output import StudyOutput

DESCRIPTION = """\
Compare schedules of pipeline parallelism over numbers of microbatches: the step, its bubble, the
time that ranks wait for messages, and the memory of each rank.

  hespas study pipeline --model 8b --ranks 4 --mesh data=2 --node H100_80GB --page pipeline.html
  hespas study pipeline --model 8b --ranks 4 --stage-layers even 9,8,8,7 --node H100_80GB
  hespas study pipeline stages --ranks 4 --schedules 1f1b,zb-h1 --node H100_80GB --system HGX_H100_8

The programs are those of the recipe `stage`, or of a folder with stage-N.PART.mlir for each stage,
or stage.PART.mlir for the stages without one. PART is forward, backward and update; zb-h1 has
input_gradient and weight_gradient in place of backward.
"""
DETAILS = ("ranks", "warnings")  # figures that a row of the table leaves out


@dataclass(frozen=True, repr=False)
class PipelineStudy(PrintedTables):
    """The pipelines of a study; ``print`` shows them as tables.

    Attributes:
        request: What was compared.
        system: The system of all ranks.
        rows: The pipelines, in the order of microbatches, then schedules, then layers of stages.
        notes: What the figures are based on, one line each.
    """

    request: PipelineRequest
    system: str
    rows: Sequence[PipelineRow]
    notes: Sequence[str]

    @property
    def winner(self) -> PipelineRow | None:
        """The row with the shortest time for each sequence, of those that fit; None if none does.

        Of equally fast rows it is the one that needs least memory. Sequences that are not known are
        the same in all microbatches.
        """
        fitting = [row for row in self.rows if row.figures and not row.reason]
        return min(
            fitting,
            key=lambda row: (row.compute_sequence_time_s(), row.figures["peak_bytes"] or 0),
            default=None,
        )

    @property
    def failed_count(self) -> int:
        """The number of rows without figures."""
        return sum(not row.figures for row in self.rows)

    def build_tables(self) -> list[TextTable]:
        """Build the table of the rows, that of the ranks of the winner, and that of reasons."""
        where = f"{self.request.node}, {self.system}, {format_count(self.request.ranks, 'rank')}"
        tables = [tabulate_pipelines(self.rows, self.winner, f"Pipelines, {where}")]
        if self.winner is not None:
            tables.append(tabulate_ranks(self.winner))
        memory = tabulate_rank_memory(self.rows)
        if memory.rows:
            tables.append(memory)
        if any(row.reason for row in self.rows):
            tables.append(tabulate_reasons(self.rows))
        return tables

    def to_json(self) -> dict[str, Any]:
        """Convert to the object that docs/how-to/pipeline.md describes."""
        winner = self.winner
        return {
            "study": "pipeline",
            "notes": list(self.notes),
            "rows": self.list_flat_rows(),
            "winner": None if winner is None else self.rows.index(winner),
            "ranks": None if winner is None else winner.figures["ranks"],
        }

    def list_flat_rows(self) -> list[dict[str, Any]]:
        """List the rows with one value in each column."""
        mesh = ",".join(f"{axis}={size}" for axis, size in self.request.mesh.items())
        place = {
            "node": self.request.node,
            "devices": configs.load_system(self.system).device_count,
            "mesh": mesh,
            "system": self.system,
            "form": self.request.form,
            "program": self.request.folder or None,
            "estimator": self.request.run.estimator,
        }
        names = [name for row in self.rows for name in row.figures if name not in DETAILS]
        return [
            {
                "schedule": row.schedule,
                "stages_per_rank": row.stages_per_rank,
                "stage_layers": row.format_layers() if row.stage_layers else None,
                "microbatches": row.microbatches,
                "batch": row.batch,
                **place,
                "error": row.reason or None,
                **{name: row.figures.get(name) for name in dict.fromkeys(names)},
            }
            for row in self.rows
        ]

    def build_output(self) -> StudyOutput:
        """Return the result as the output of a study."""
        winner = self.winner
        return StudyOutput(
            self.list_flat_rows(),
            self.to_json(),
            self.build_tables(),
            self.notes,
            lambda figure: draw_pipelines(figure, self.rows, winner),
            (9.0, 7.0),
            failed=self.failed_count,
            gantt=None if winner is None else make_rank_chart(winner),
        )


def compare_pipelines(request: PipelineRequest, note: Callable[[str], None]) -> PipelineStudy:
    """Estimate every schedule with every number of microbatches.

    Args:
        request: What is compared.
        note: Receives notes and progress, one line each.

    Raises:
        HespasError: An option is wrong, or no pipeline at all can be estimated.
    """
    start = time.monotonic()
    node = configs.load_node(request.node)
    system = request.choose_system()
    program_forms.check_run_options(request.run, request.form, request.node, system)
    planned = plan_pipelines(request, system)
    made_count = _make_programs(planned, request, system, note)
    cells = {i: one.cell for i, one in enumerate(planned) if one.cell is not None}
    answers, computed = estimate_pipelines([*cells.values()], request, note)
    for i, figures in zip(cells, answers, strict=True):
        _record_figures(planned[i].row, figures, node)
    rows = [one.row for one in planned]
    if not any(row.figures for row in rows):
        raise HespasError(f"no pipeline can be estimated: {rows[0].title}: {rows[0].reason}")
    notes = [
        *_describe_basis(request),
        *_collect_warnings(rows),
        f"{made_count} programs; {len(cells)} pipelines, {computed} computed now; "
        f"{format_seconds(time.monotonic() - start)}",
    ]
    return PipelineStudy(request, system, rows, notes)


def _make_programs(
    planned: Sequence[PlannedPipeline],
    request: PipelineRequest,
    system: str,
    note: Callable[[str], None],
) -> int:
    """Make the programs of the rows of a recipe, and return how many there are."""
    todo = [one for one in planned if one.schedule is not None and one.programs]
    if not todo:
        return 0
    pipelines = make_stage_files([one.programs for one in todo], request, note)
    paths: set[str] = set()
    for one, files in zip(todo, pipelines, strict=True):
        if isinstance(files, HespasError):
            one.row.reason = files.reason
            continue
        assert one.schedule is not None
        one.cell = request.make_cell(one.schedule, files, system)
        paths.update(path for stage in files for path in stage.values())
    return len(paths)


def _record_figures(
    row: PipelineRow, figures: Mapping[str, Any] | HespasError, node: NodeSpec
) -> None:
    """Record the figures of a row, or why it has none or does not fit."""
    if isinstance(figures, HespasError):
        row.reason = figures.reason
        return
    row.figures = figures
    if figures["fits"] is False:
        row.reason = (
            f"needs {format_scaled(figures['peak_bytes'], 'B')} of memory on a device, and "
            f"{node.name} has {format_scaled(node.memory_bytes or 0, 'B')}"
        )


def _describe_basis(request: PipelineRequest) -> list[str]:
    """Describe the form, and what the recipe of stages assumes."""
    form = f"form {request.form}: {program_forms.FORMS[request.form]}"
    if request.folder:
        return [form]
    assumptions = ["gradients are clipped by the norm of each stage"]
    if request.mesh.get("fsdp", 1) > 1:
        assumptions.append(
            "fsdp: a rank keeps its weights whole; gradients are scattered, and weights gathered, "
            "once in a step"
        )
    return [form, *assumptions]


def _collect_warnings(rows: Sequence[PipelineRow]) -> list[str]:
    return list(dict.fromkeys(text for row in rows for text in row.figures.get("warnings", ())))
