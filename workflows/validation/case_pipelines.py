"""Training cases with pipeline parallelism: the schedule of a row, and its prediction."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hespas import configs
from hespas.workflows.pipelines.pipeline_estimate import (
    PipelineEstimate,
    choose_pipeline_network,
    estimate_pipeline,
)
from hespas.workflows.pipelines.schedules import INTERLEAVED, PipelineSchedule, build_schedule
from hespas.workflows.pipelines.stage_estimates import StagePart, StageTarget, estimate_stages
from hespas.workflows.pipelines.stage_workloads import StageWorkloads, plan_stage_workloads
from hespas.workflows.studies import study_programs
from hespas.workflows.studies.study_definition import StudyWorkload
from hespas.workflows.studies.study_programs import StudyProgram
from hespas.workflows.validation.axis_sizes import read_axis_sizes
from hespas.workflows.validation.training_cases import TrainingCase

_NAMED = (
    (r"\bzb-?h1\b|zero.?bubble", "zb-h1"),
    (r"\bgpipe\b", "gpipe"),
    (r"interleaved", INTERLEAVED),
    (r"\b1f1b\b", "1f1b"),
)
"""Schedules by the words of a row."""


@dataclass(frozen=True)
class CasePipeline:
    """The pipeline of a case.

    Attributes:
        schedule: The schedule.
        stages: The programs of each stage.
    """

    schedule: PipelineSchedule
    stages: Sequence[StageWorkloads]


@dataclass(frozen=True)
class StageCounts:
    """The ranks of a pipeline, and the stages of each; one of each without a pipeline."""

    ranks: int = 1
    stages_per_rank: int = 1

    @property
    def stages(self) -> int:
        return self.ranks * self.stages_per_rank


def read_stage_counts(case: TrainingCase, assumptions: list[str] | None = None) -> StageCounts:
    """Read the ranks and the stages of each; assumptions are added to the list."""
    sizes = read_axis_sizes(case.get_text("parallelism"), case.devices)
    ranks, stages_per_rank = sizes.get("pp", 1), sizes.get("vp")
    if stages_per_rank is None and ranks > 1 and _find_named_schedule(case) == INTERLEAVED:
        stages_per_rank = 2
        if assumptions is not None:
            assumptions.append("two stages for each rank")
    return StageCounts(ranks, stages_per_rank or 1)


def _find_named_schedule(case: TrainingCase) -> str:
    """Return the schedule that a row names, or ""."""
    text = " ".join(map(case.get_text, ("framework", "parallelism", "notes"))).lower()
    return next((name for words, name in _NAMED if re.search(words, text)), "")


def plan_case_pipeline(
    case: TrainingCase, model: StudyWorkload, counts: StageCounts, assumptions: list[str]
) -> CasePipeline:
    """Plan the schedule and the stages of a case.

    Args:
        case: The case.
        model: The whole model on the mesh of a rank; ``accumulate`` counts the microbatches.
        counts: The ranks and the stages of each.
        assumptions: The list to which assumptions are added.

    Raises:
        HespasError: The schedule cannot run, or there are fewer layers than stages.
    """
    name = _find_named_schedule(case)
    if not name:
        name = INTERLEAVED if counts.stages_per_rank > 1 else "1f1b"
        assumptions.append(f"schedule {name}")
    microbatches = int(model.options.get("accumulate", "1"))
    schedule = build_schedule(name, counts.ranks, microbatches, counts.stages_per_rank)
    if model.mesh.get("fsdp", 1) > 1:
        assumptions.append("weights gathered, and gradients reduce-scattered, once in a step")
    assumptions.append("gradients are clipped by the norm of each stage")
    return CasePipeline(schedule, plan_stage_workloads(_place_on_rank(model), schedule))


def _place_on_rank(model: StudyWorkload) -> StudyWorkload:
    """Return the model with the mesh and the options of the recipe of stages."""
    mesh, options = dict(model.mesh), dict(model.options)
    shards = mesh.pop("fsdp", 1)
    mesh["data"] = mesh.get("data", 1) * shards
    if shards > 1:
        options["zero1"] = "true"
    axes = ("data", "context", "expert", "tensor")
    return replace(model, mesh={axis: mesh[axis] for axis in axes if axis in mesh}, options=options)


def make_stage_programs(
    stages: Sequence[Mapping[StagePart, StudyProgram]],
    folder: Path,
    jobs: int,
    note: Callable[[str], None],
) -> list[dict[StagePart, str]]:
    """Make the files of the programs of stages, each once; raises HespasError."""
    programs = {
        program.name_final_file(): program for stage in stages for program in stage.values()
    }
    files = study_programs.make_program_files(list(programs.values()), folder, jobs, note)
    for error in files.errors.values():
        raise error
    paths = dict(zip(programs, files.paths, strict=True))
    return [
        {part: paths[program.name_final_file()] for part, program in stage.items()}
        for stage in stages
    ]


def predict_case_pipeline(
    pipeline: CasePipeline,
    files: Sequence[Mapping[StagePart, str]],
    target: StageTarget,
    system: str,
    note: Callable[[str], None],
) -> PipelineEstimate:
    """Predict the step of a case; raises HespasError."""
    network = choose_pipeline_network(system, target)
    stages = estimate_stages(files, target, note)
    return estimate_pipeline(pipeline.schedule, stages, network)


def collect_pipeline_figures(estimate: PipelineEstimate, node: str) -> dict[str, Any]:
    """Return the figures of an estimate under the names of a sweep's row."""
    low_s, high_s = estimate.band_s or (None, None)
    memory_bytes = estimate.memory_bytes
    available_bytes = configs.load_node(node).memory_bytes
    fits = None
    if memory_bytes is not None and available_bytes:
        fits = memory_bytes <= available_bytes
    return {
        "error": None,
        "step_time_s": estimate.step_time_s,
        "step_time_band_s.0": low_s,
        "step_time_band_s.1": high_s,
        "compute_s": estimate.compute_s,
        "exposed_comm_s": max(estimate.step_time_s - estimate.compute_s, 0.0),
        "bubble_share": estimate.bubble_share,
        "memory.peak_bytes": memory_bytes,
        "memory.fits": fits,
        "warnings": json.dumps(list(estimate.warnings)),
    }
