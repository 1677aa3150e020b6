"""What a study of pipelines compares, and the programs of each of its rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hespas import configs
from hespas.support.errors import HespasError, UsageError
from hespas.workflows.cells import PoolOptions
from hespas.workflows.pipelines.pipeline_cells import PipelineCell
from hespas.workflows.pipelines.schedules import (
    INTERLEAVED,
    SCHEDULES,
    PipelineSchedule,
    build_schedule,
)
from hespas.workflows.pipelines.stage_estimates import StagePart, find_stage_files
from hespas.workflows.pipelines.stage_workloads import (
    count_stage_layers,
    place_on_rank,
    plan_stage_workloads,
)
from hespas.workflows.run_config import RunOptions
from hespas.workflows.studies import program_forms, study_programs
from hespas.workflows.studies.study_definition import StudyWorkload
from hespas.workflows.studies.study_programs import StudyProgram

BATCH_AXES = ("data", "fsdp", "expert")  # of the mesh, which divide the sequences of a microbatch
MODEL = "8b"
StagePrograms = Sequence[Mapping[StagePart, StudyProgram]]


@dataclass(frozen=True)
class PipelineRequest(PoolOptions):
    """What a study of pipelines compares.

    Attributes:
        node: The type of device.
        ranks: The number of ranks.
        schedules: The names of the schedules.
        microbatches: The numbers of microbatches; empty for 1, 2 and 4 times the ranks.
        stages_per_rank: The stages of each rank in the interleaved schedule.
        stage_layers: Divisions of the layers of the recipe's model over its stages, each with the
            layers of every stage; an empty one is even. Empty for an even one only.
        folder: The folder of the programs of stages; "" for those of the recipe.
        options: The options of the recipe of stages.
        mesh: The mesh of the devices of each rank.
        global_batch: The sequences of a step, which the microbatches divide; None if each
            microbatch has the sequences of the option ``batch``.
        systems: System presets, patterns or folders to choose from; empty for the node's presets.
        form: One of ``program_forms.FORMS``.
        run: The options of each estimate.
        straggler: How many times as long the compute of one slow rank takes; None for no slow rank.
    """

    node: str = "H100_80GB"
    ranks: int = 4
    schedules: Sequence[str] = SCHEDULES
    microbatches: Sequence[int] = ()
    stages_per_rank: Sequence[int] = (2,)
    stage_layers: Sequence[Sequence[int]] = ()
    folder: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    mesh: Mapping[str, int] = field(default_factory=dict)
    global_batch: int | None = None
    systems: Sequence[str] = ()
    form: str = "fused"
    run: RunOptions = field(default_factory=RunOptions)
    straggler: float | None = None

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
        figures: The figures of ``collect_pipeline_figures``; empty if there are none.
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
            files, programs = find_stage_files(request.folder, schedule.stages), []
        else:
            options = make_stage_options(request)
            if request.global_batch is not None:
                options["batch"] = str(divide_global_batch(request, row.microbatches))
            row.batch = int(options.get("batch", "1"))
            model = place_on_rank(StudyWorkload("stage", options, request.mesh, {}))
            row.stage_layers = count_stage_layers(model, schedule, row.stage_layers)
            files = []
            programs = make_study_stages(model, schedule, request, system, row.stage_layers)
        config = program_forms.make_run_config(request.run, request.form, node=request.node)
        row.cell = PipelineCell(config, schedule, files, system, request.straggler, programs)
    except HespasError as error:
        row.reason = error.reason
    return row


def make_stage_options(request: PipelineRequest) -> dict[str, str]:
    """Return the options of the recipe of stages; by default, attention is the device's kernel."""
    compiler = program_forms.find_compiler(request.node)
    attention = program_forms.FUSED_ATTENTION[compiler] if compiler else "dot_product"
    return {"model": MODEL, "attention": attention, **request.options}


def divide_global_batch(request: PipelineRequest, microbatches: int) -> int:
    """Return the sequences of a microbatch on each batch shard; raises UsageError."""
    assert request.global_batch is not None
    shards = math.prod(request.mesh.get(axis, 1) for axis in BATCH_AXES)
    batch, rest = divmod(request.global_batch, shards * microbatches)
    if rest or not batch:
        raise UsageError(
            f"{request.global_batch} sequences of a step are not {microbatches} microbatches on "
            f"{shards} batch shards"
        )
    return batch


def make_study_stages(
    model: StudyWorkload,
    schedule: PipelineSchedule,
    request: PipelineRequest,
    system: str,
    stage_layers: Sequence[int] = (),
) -> StagePrograms:
    """Make the programs of the stages of a model; raises HespasError."""
    target = program_forms.choose_xla_target(request.form, request.node)
    per_host = configs.load_system(system).npus_count[0]
    platform = study_programs.PLATFORMS[program_forms.find_compiler(request.node)]
    compile_options = program_forms.format_compile_options(request.run) if target else ""
    return [
        {
            part: StudyProgram(workload, request.form, target, per_host, compile_options, platform)
            for part, workload in stage.items()
        }
        for stage in plan_stage_workloads(model, schedule, stage_layers)
    ]
