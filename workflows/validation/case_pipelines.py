"""Training cases with pipeline parallelism: the schedule of a row, and its prediction."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hespas.workflows.pipelines.pipeline_figures import Figures
from hespas.workflows.pipelines.schedules import INTERLEAVED, PipelineSchedule, build_schedule
from hespas.workflows.pipelines.stage_workloads import (
    StageWorkloads,
    place_on_rank,
    plan_stage_workloads,
)
from hespas.workflows.studies.study_definition import StudyWorkload
from hespas.workflows.studies.study_table import FIGURES
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
    if schedule.has_split_backward:  # the gradients of a loop cannot be divided
        model = dataclasses.replace(model, options={**model.options, "scan": "false"})
    if model.mesh.get("fsdp", 1) > 1:
        assumptions.append("weights gathered, and gradients reduce-scattered, once in a step")
    assumptions.append("gradients are clipped by the norm of each stage")
    return CasePipeline(schedule, plan_stage_workloads(place_on_rank(model), schedule))


def make_case_row(figures: Figures) -> dict[str, Any]:
    """Return the figures of a pipeline under the names of a sweep's row."""
    row = {FIGURES[name]: value for name, value in figures.items() if name in FIGURES}
    return {
        **row,
        "error": None,
        "exposed_comm_s": max(figures["step_time_s"] - figures["compute_s"], 0.0),
        "bubble_share": figures["bubble_share"],
        "warnings": json.dumps(figures["warnings"]),
    }
