"""``hespas study pipeline``: schedules and numbers of microbatches of one model, side by side."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass as options_record

from hespas import configs
from hespas.configs.node_spec import NodeSpec
from hespas.configs.validation import validate_config
from hespas.support.errors import HespasError, UsageError
from hespas.support.html_tables import PrintedTables
from hespas.support.suggestions import suggest_nearest
from hespas.support.text_tables import (
    TextTable,
    format_count,
    format_percent,
    format_scaled,
    format_seconds,
    format_time_range,
)
from hespas.workflows.cells import PoolOptions
from hespas.workflows.pipelines.pipeline_cells import PipelineCell, estimate_pipelines
from hespas.workflows.pipelines.schedules import INTERLEAVED, SCHEDULES, build_schedule
from hespas.workflows.pipelines.stage_estimates import UPDATE, find_stage_files
from hespas.workflows.pipelines.stage_workloads import (
    count_stage_layers,
    place_on_rank,
    plan_stage_workloads,
)
from hespas.workflows.plot_files import COLOURS, MARKS
from hespas.workflows.run_config import (
    STRICT,
    Count,
    Flag,
    OptionalCount,
    RunOptions,
    Systems,
    list_run_options,
    take_run_options,
)
from hespas.workflows.run_flow import TextFunction, ignore_text
from hespas.workflows.studies import program_forms
from hespas.workflows.studies import study_definition as base
from hespas.workflows.studies.program_forms import FORM_HELP, Form
from hespas.workflows.studies.study_definition import (
    StudyColumn,
    StudyWorkload,
    make_count_flag,
    make_list_flag,
    select_columns,
)
from hespas.workflows.studies.study_output import GanttBar, GanttChart, StudyOutput

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
BATCH_AXES = ("data", "fsdp", "expert")  # of the mesh, which divide the sequences of a microbatch
MODEL = "8b"
EVEN = "even"  # the division of layers whose numbers are not stated


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
    rows = plan_pipelines(request, system)
    cells = [row.cell for row in rows if row.cell is not None]
    computed = estimate_pipelines(cells, request, note)
    for row in rows:
        _record_figures(row, node)
    if not any(row.figures for row in rows):
        raise HespasError(f"no pipeline can be estimated: {rows[0].title}: {rows[0].reason}")
    made = {
        path for cell in cells if cell.programs for stage in cell.files for path in stage.values()
    }
    notes = [
        *_describe_basis(request),
        *dict.fromkeys(text for row in rows for text in row.figures.get("warnings", ())),
        f"{len(made)} programs; {len(cells)} pipelines, {computed} computed now; "
        f"{format_seconds(time.monotonic() - start)}",
    ]
    return PipelineStudy(request, system, rows, notes)


def _record_figures(row: PipelineRow, node: NodeSpec) -> None:
    """Record the figures of a row, or why it has none or does not fit."""
    if row.cell is None:
        return
    figures = row.figures = row.cell.figures
    if row.cell.error is not None:
        row.reason = row.cell.error.reason
    elif figures["fits"] is False:
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
            bars.append(GanttBar(1e-9 * start_ns, 1e-9 * end_ns, UPDATE, UPDATE))
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


def pipeline(
    folder: str | os.PathLike[str] = "", *, note: TextFunction = ignore_text, **options: Any
) -> PipelineStudy:
    """Compare schedules of pipeline parallelism, as ``hespas study pipeline`` does.

    Args:
        folder: The folder of the programs of stages; "" for those of the recipe ``stage``.
        note: Receives notes and progress, one line each.
        **options: Options of each estimate, such as ``estimator="roofline"``, see
            docs/reference/run-config.md, and fields of ``PipelineRequest``, such as ``ranks=4``,
            ``microbatches=[8, 16]``, ``options={"model": "8b"}``, ``mesh={"data": 2}`` and
            ``node="H100_80GB"``.

    Returns:
        A row for each schedule and number of microbatches, and the fastest one that fits.

    Raises:
        HespasError: An option is wrong, or no pipeline at all can be estimated.
    """
    run, own = take_run_options("hespas study pipeline", options)
    known = [*PipelineRequest.__dataclass_fields__, *list_run_options("hespas study pipeline")]
    for name in own:
        if name not in known:
            raise UsageError(
                f"a study of pipelines has no option '{name}'", remedy=suggest_nearest(name, known)
            )
    values = {"folder": os.fspath(folder), "run": run, **own}
    request = validate_config(PipelineRequest, values, "hespas study pipeline", UsageError)
    return compare_pipelines(request, note)


def _parse_stage_layers(layers: Any) -> Any:
    """Parse the layers of each stage, in which numbers may repeat; () for ``even``."""
    if not isinstance(layers, str):
        return layers
    counts = () if layers == EVEN else layers.split(",")
    if not all(count.isdecimal() for count in counts):
        raise UsageError(
            f"--stage-layers: '{layers}' is no list of layers",
            remedy=f"write the layers of each stage, such as 9,8,8,7, or {EVEN}",
        )
    return tuple(map(int, counts))


_StageLayers = Annotated[Sequence[int], BeforeValidator(_parse_stage_layers)]


@options_record(frozen=True, config=STRICT)
class PipelineRequest(PoolOptions):
    """What a study of pipelines compares.

    Attributes:
        folder: The folder of the programs of stages; "" for those of the recipe.
        mesh: The mesh of the devices of each rank.
        run: The options of each estimate.
    """

    node: Annotated[str, Flag("NODE")] = Field(
        default="H100_80GB", description="node preset or file"
    )
    ranks: Count = Field(default=4, description="ranks of the pipeline")
    schedules: Annotated[Sequence[str], make_list_flag("schedules", str)] = Field(
        default=SCHEDULES, description=f"schedules; default: {','.join(SCHEDULES)}"
    )
    microbatches: Annotated[Sequence[int], make_count_flag("microbatches")] = Field(
        default=(), description="microbatches of a step; default: 1, 2 and 4 times the ranks"
    )
    stages_per_rank: Annotated[Sequence[int], make_count_flag("stages-per-rank")] = Field(
        default=(2,), description="stages of each rank in the interleaved schedule; default: 2"
    )
    stage_layers: Annotated[Sequence[_StageLayers], Flag("even|LIST")] = Field(
        default=(),
        description="divisions of the layers over the stages to compare, such as 9,8,8,7; default: "
        "even, with what is left over in the middle, because the ends have the embedding and the "
        "logits",
    )
    folder: str = ""
    options: Annotated[Mapping[str, str], Flag(name="set")] = Field(
        default_factory=dict, description="another option of the recipe stage"
    )
    mesh: Mapping[str, int] = field(default_factory=dict)
    global_batch: OptionalCount = Field(
        default=None,
        description="sequences of a step, which the microbatches divide; default: each microbatch "
        "has the sequences of the option batch",
    )
    systems: Systems = ()
    form: Form = Field(default="fused", description=FORM_HELP)
    run: RunOptions = field(default_factory=RunOptions)
    straggler: Annotated[float | None, Flag("FACTOR")] = Field(
        default=None,
        gt=0,
        description="also find the rank that delays the step most if its compute takes FACTOR "
        "times as long",
    )
    overlap_updates: bool = Field(
        default=False,
        description="reduce the gradients of a stage as soon as its last task has ended, and "
        "gather its weights just before its first task, alongside the other tasks (Megatron's "
        "--overlap-grad-reduce and --overlap-param-gather); default: both after all tasks",
    )

    def list_microbatches(self) -> list[int]:
        """List the numbers of microbatches to try."""
        return list(self.microbatches) or [self.ranks, 2 * self.ranks, 4 * self.ranks]

    def choose_system(self) -> str:
        """Choose the system of all ranks.

        Raises:
            HespasError: No system has their devices, or programs of a folder have no system.
        """
        if self.ranks < 2:
            raise UsageError(f"a pipeline of {self.ranks} rank", remedy="give 2 ranks or more")
        if not self.folder:
            devices = self.ranks * math.prod(self.mesh.values())
            system = program_forms.choose_system(self.node, devices, self.systems)
            assert system is not None  # only a single device has none
            return system
        if len(self.systems) != 1:
            raise UsageError(
                "the programs of a folder need one system", remedy="name it by --system"
            )
        if self.options or self.mesh or self.global_batch or self.stage_layers:
            raise UsageError(
                "the programs of a folder have their options, mesh, batch and layers already",
                remedy="leave out --model, --set, --mesh, --global-batch and --stage-layers",
            )
        return self.systems[0]


@dataclass
class PipelineRow:
    """A schedule with a number of microbatches.

    Attributes:
        schedule: The name of the schedule.
        microbatches: The number of microbatches.
        stages_per_rank: The stages of each rank.
        stage_layers: The layers of each stage; empty if they are not known.
        batch: The sequences of a microbatch on each batch shard; None if it is not known.
        figures: The figures of ``estimate_pipeline``; empty if there are none.
        reason: Why there are no figures, or why the pipeline cannot run; "" if it can.
        cell: What it is estimated from; None if it cannot run.
    """

    schedule: str
    microbatches: int
    stages_per_rank: int
    stage_layers: Sequence[int] = ()
    batch: int | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    cell: PipelineCell | None = None

    def compute_sequence_time_s(self) -> float:
        """Return the step time over the sequences of a batch shard, or over the microbatches."""
        return self.figures["step_time_s"] / (self.microbatches * (self.batch or 1))

    @property
    def title(self) -> str:
        """The row in words."""
        stages = f" of {self.stages_per_rank} stages for each rank"
        layers = f", layers {self.format_layers()}" if self.is_uneven else ""
        return (
            f"{self.schedule}{stages if self.stages_per_rank > 1 else ''}, "
            f"{self.microbatches} microbatches{layers}"
        )

    @property
    def is_uneven(self) -> bool:
        """Whether stages have unlike numbers of layers."""
        return len({*self.stage_layers}) > 1

    def format_layers(self) -> str:
        """Format the layers of the stages, as ``9 8 8 7``."""
        return " ".join(map(str, self.stage_layers)) or "-"

    def count_rank_layers(self, stages: Sequence[int]) -> int | None:
        """Count the layers of some stages; None if they are not known."""
        return sum(self.stage_layers[stage] for stage in stages) if self.stage_layers else None


def plan_pipelines(request: PipelineRequest, system: str) -> list[PipelineRow]:
    """Plan every combination of a request; raises HespasError if there is no such schedule."""
    for name in request.schedules:
        if name not in SCHEDULES:
            build_schedule(name, request.ranks, 1)  # raises the error
    return [
        _plan_pipeline(request, system, PipelineRow(name, microbatches, stages_per_rank, layers))
        for microbatches in request.list_microbatches()
        for name in request.schedules
        for stages_per_rank in (request.stages_per_rank if name == INTERLEAVED else (1,))
        for layers in (request.stage_layers or ((),))
    ]


def _plan_pipeline(request: PipelineRequest, system: str, row: PipelineRow) -> PipelineRow:
    """Add to a row what it is estimated from, or why it cannot run."""
    try:
        schedule = build_schedule(
            row.schedule, request.ranks, row.microbatches, row.stages_per_rank
        )
        if request.folder:
            files, stages = find_stage_files(request.folder, schedule.stages), []
        else:
            options = make_stage_options(request)
            if request.global_batch is not None:
                batch = divide_global_batch(request.global_batch, request.mesh, row.microbatches)
                options["batch"] = str(batch)
            row.batch = int(options.get("batch", "1"))
            model = place_on_rank(StudyWorkload("stage", options, request.mesh, {}))
            row.stage_layers = count_stage_layers(model, schedule, row.stage_layers)
            files = []
            stages = plan_stage_workloads(model, schedule, row.stage_layers)
        config = program_forms.make_run_config(request.run, request.form, node=request.node)
        cell = PipelineCell(
            config, schedule, files, system, request.straggler, request.overlap_updates
        )
        cell.make_programs(stages, request.form, request.run)
        row.cell = cell
    except HespasError as error:
        row.reason = error.reason
    return row


def make_stage_options(request: PipelineRequest) -> dict[str, str]:
    """Return the options of the recipe of stages; by default, attention is the device's kernel."""
    compiler = program_forms.find_compiler(request.node)
    attention = program_forms.FUSED_ATTENTION[compiler]
    return {"model": MODEL, "attention": attention, **request.options}


def divide_global_batch(global_batch: int, mesh: Mapping[str, int], microbatches: int) -> int:
    """Return the sequences of a microbatch on each batch shard; raises UsageError."""
    shards = math.prod(mesh.get(axis, 1) for axis in BATCH_AXES)
    batch, rest = divmod(global_batch, shards * microbatches)
    if rest or not batch:
        raise UsageError(
            f"{global_batch} sequences of a step are not {microbatches} microbatches on "
            f"{shards} batch shards"
        )
    return batch
