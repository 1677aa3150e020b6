"""Making the programs of pipelines, and estimating many: a worker estimates each program once."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hespas import configs
from hespas.configs.node_spec import NodeSpec
from hespas.estimators import registry
from hespas.support.errors import HespasError
from hespas.workflows.cell_keys import (
    compute_node_digest,
    compute_program_digest,
    compute_system_digest,
    describe_options,
)
from hespas.workflows.cell_worker import SingleEntryCache
from hespas.workflows.cells import Cell, CellPool, Note, PoolOptions, make_estimate_cell
from hespas.workflows.pipelines.pipeline_estimate import (
    Figures,
    choose_pipeline_network,
    estimate_pipeline,
    find_worst_straggler,
)
from hespas.workflows.pipelines.schedules import PipelineSchedule, build_schedule
from hespas.workflows.pipelines.stage_estimates import (
    SPLIT,
    UPDATE,
    StageFiles,
    StagePart,
    StageProgramEstimate,
    add_job_devices,
    estimate_stages,
    list_task_kinds,
)
from hespas.workflows.pipelines.stage_workloads import StageWorkloads
from hespas.workflows.run_config import RunConfig, RunOptions
from hespas.workflows.studies import program_forms, study_programs
from hespas.workflows.studies.study_programs import (
    PLATFORMS,
    StudyProgram,
    count_host_devices,
    make_node_program,
)

FUNCTION = "hespas.workflows.pipelines.pipeline_cells:compute_pipeline"
RESULT = "pipeline"  # the kind of keys


@dataclass
class PipelineCell:
    """A pipeline to estimate.

    Attributes:
        config: The run that estimates each program of a stage, without the program.
        schedule: The schedule.
        files: The programs of each stage; () until those of ``programs`` are made.
        system: The network, a preset or a folder.
        straggler: How many times as long the compute of one slow rank takes, to find the rank that
            costs most; None for no such search.
        overlap_updates: Whether gradients are reduced, and weights gathered, alongside tasks.
        programs: The programs of each stage to make; () if there are files.
        figures: What ``estimate_pipelines`` has computed; empty before, and with an error.
        error: Why there are no figures.
    """

    config: RunConfig
    schedule: PipelineSchedule
    files: Sequence[StageFiles]
    system: str
    straggler: float | None = None
    overlap_updates: bool = False
    programs: Sequence[Mapping[StagePart, StudyProgram]] = ()
    figures: Figures = field(default_factory=dict)
    error: HespasError | None = None

    def make_programs(self, stages: Sequence[StageWorkloads], form: str, run: RunOptions) -> None:
        """Make the programs of the stages of a model for the node; raises HespasError."""
        node = self.config.node or configs.DEFAULT_NODE
        platform = PLATFORMS[program_forms.find_compiler(node)]
        per_host = count_host_devices(self.system)
        self.programs = [
            {
                part: make_node_program(workload, form, node, per_host, run, platform=platform)
                for part, workload in stage.items()
            }
            for stage in stages
        ]

    def select_files(self) -> list[StageFiles]:
        """Select the files that the schedule runs."""
        parts = (*list_task_kinds(self.schedule.has_split_backward), UPDATE)
        return [{part: files[part] for part in parts if part in files} for files in self.files]

    @property
    def node(self) -> NodeSpec:
        """The type of device, with the price of the run."""
        node = configs.load_node(self.config.node or configs.DEFAULT_NODE)
        return replace(node, price_per_hour=self.config.price_per_hour or node.price_per_hour)


def estimate_pipelines(pipelines: Sequence[PipelineCell], options: PoolOptions, note: Note) -> int:
    """Make the programs of pipelines that do not exist yet, each once, and estimate them.

    Each pipeline gets its figures or its error; one that has an error is left out.

    Returns:
        How many have been computed now.

    Raises:
        HespasError: The store or the folder of programs cannot be used, no worker can be started,
            or JAX is not installed.
    """
    _make_files([one for one in pipelines if one.programs and one.error is None], options, note)
    cells: list[tuple[PipelineCell, Cell]] = []
    digest_program = functools.cache(compute_program_digest)
    for pipeline in pipelines:
        try:
            if pipeline.error is None:
                cells.append((pipeline, make_cell(pipeline, digest_program)))
        except HespasError as error:
            pipeline.error = error
    with CellPool(FUNCTION, options, note, "pipeline") as pool:
        answers = pool.run_cells([cell for _, cell in cells], "pipelines estimated")
    for (pipeline, _), answer in zip(cells, answers, strict=True):
        if isinstance(answer, HespasError):
            pipeline.error = answer
        else:
            pipeline.figures = answer["figures"]
    return pool.computed


def _make_files(pipelines: Sequence[PipelineCell], options: PoolOptions, note: Note) -> None:
    """Make the files of the programs of pipelines."""
    programs = [p for one in pipelines for stage in one.programs for p in stage.values()]
    if not programs:
        return
    made = study_programs.make_program_files(programs, options, note)
    paths = iter(made.paths)
    for pipeline in pipelines:
        pipeline.files = [{part: next(paths) for part in stage} for stage in pipeline.programs]
        used = [path for stage in pipeline.files for path in stage.values()]
        pipeline.error = next((made.errors[path] for path in used if path in made.errors), None)


def make_cell(
    pipeline: PipelineCell, digest_program: Callable[[str], str] = compute_program_digest
) -> Cell:
    """Make the cell of a pipeline for the workers; raises HespasError."""
    estimator = registry.load_estimator_class(pipeline.config.estimator)
    schedule, files = pipeline.schedule, pipeline.select_files()
    content = {
        "schedule": [schedule.name, *map(list, schedule.tasks)],
        "programs": [
            {part: digest_program(path) for part, path in stage.items()} for stage in files
        ],
        "node": compute_node_digest(pipeline.node),
        "system": compute_system_digest(configs.load_system(pipeline.system)),
        **describe_options(pipeline.config.model_copy(update={"split": SPLIT})),
        "straggler": pipeline.straggler,
        "overlap_updates": pipeline.overlap_updates,
    }
    config = pipeline.config.model_dump(exclude_unset=True)
    return make_estimate_cell(
        f"{schedule.name} of {os.path.basename(next(iter(files[0].values())))}",
        {
            "config": config,
            "schedule": [
                schedule.name, schedule.ranks, schedule.microbatches, schedule.stages_per_rank
            ],
            "files": files,
            "system": pipeline.system,
            "straggler": pipeline.straggler,
            "overlap_updates": pipeline.overlap_updates,
        },
        RESULT,
        estimator,
        content,
        sharing=(repr([config, sorted({path for stage in files for path in stage.values()})]),),
    )  # fmt: skip


_programs: SingleEntryCache[dict[str, StageProgramEstimate]] = SingleEntryCache()


def compute_pipeline(payload: dict[str, Any], scratch: str) -> dict[str, Any]:
    """Compute the figures of a pipeline in a worker; raises HespasError.

    Args:
        payload: That of ``make_cell``.
        scratch: A folder for temporary files, which this function does not use.
    """
    config = RunConfig.model_validate(payload["config"])
    pipeline = PipelineCell(
        config, build_schedule(*payload["schedule"]), payload["files"], payload["system"]
    )
    schedule, factor = pipeline.schedule, payload["straggler"]
    overlap: bool = payload["overlap_updates"]
    network = choose_pipeline_network(pipeline.system, config)
    config = add_job_devices(config, network.system.device_count)
    known = _programs.get_or_make(repr(config), dict)
    stages = estimate_stages(pipeline.files, config, known)
    figures = estimate_pipeline(schedule, stages, network, pipeline.node, overlap_updates=overlap)
    if factor is not None:
        rank, step_time_s = find_worst_straggler(
            schedule, stages, network, factor, overlap_updates=overlap
        )
        figures = {**figures, "straggler_rank": rank, "straggler_step_time_s": step_time_s}
    return {"figures": figures}
