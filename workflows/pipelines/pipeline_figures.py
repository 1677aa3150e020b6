"""The figures of a pipeline as plain data, for rows of studies and for the cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hespas.configs.node_spec import NodeSpec
from hespas.workflows.figures import compute_figures, list_row_values
from hespas.workflows.pipelines.pipeline_estimate import PipelineEstimate, RankFigures
from hespas.workflows.pipelines.schedules import FORWARD, PipelineSchedule, TaskKind
from hespas.workflows.pipelines.stage_estimates import (
    UPDATE,
    StageEstimate,
    StageProgramEstimate,
)
from hespas.workflows.step_facts import StepFacts, StepWork

Figures = Mapping[str, Any]
"""The figures of a pipeline by name; ``ranks`` holds those of each rank."""


def collect_pipeline_figures(
    estimate: PipelineEstimate, stages: Sequence[StageEstimate], node: NodeSpec
) -> dict[str, Any]:
    """Collect the figures of a step; None for what is not known."""
    low_s, high_s = estimate.band_s or (None, None)
    margin = _compute_margin(estimate.memory_bytes, node)
    facts = _collect_step_facts(estimate, stages, node)
    busiest = max(estimate.ranks, key=lambda rank: rank.compute_s)
    return {
        "step_time_s": estimate.step_time_s,
        "step_time_low_s": low_s,
        "step_time_high_s": high_s,
        "compute_s": busiest.compute_s,
        "exposed_comm_s": max(busiest.task_s + busiest.update_s - busiest.compute_s, 0.0),
        "bubble_share": estimate.bubble_share,
        "ideal_bubble_share": estimate.ideal_bubble_share,
        "exposed_transfer_s": max(rank.transfer_s for rank in estimate.ranks),
        "peak_bytes": estimate.memory_bytes,
        "memory_margin": margin,
        "fits": None if margin is None else margin >= 0,
        **list_row_values(compute_figures(facts, "derived."), "derived."),
        "ranks": [_describe_rank(rank, node) for rank in estimate.ranks],
        "warnings": list(estimate.warnings),
    }


def _compute_margin(peak_bytes: int | None, node: NodeSpec) -> float | None:
    """Return the share of the node's memory that is left; None if it is not known."""
    if peak_bytes is None or not node.memory_bytes:
        return None
    return 1 - peak_bytes / node.memory_bytes


def _describe_rank(rank: RankFigures, node: NodeSpec) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "stages": list(rank.stages),
        "compute_s": rank.compute_s,
        "task_s": rank.task_s,
        "update_s": rank.update_s,
        "bubble_s": rank.bubble_s,
        "transfer_s": rank.transfer_s,
        "in_flight": rank.in_flight,
        "memory_bytes": rank.memory_bytes,
        "memory_margin": _compute_margin(rank.memory_bytes, node),
        "tasks_ns": [[*span.task, span.start_ns, span.end_ns] for span in rank.spans],
        "update_ns": list(rank.update_ns) if rank.update_ns else None,
    }


def _list_task_runs(
    schedule: PipelineSchedule, stages: Sequence[StageEstimate]
) -> list[tuple[StageProgramEstimate, int]]:
    """List the programs of the tasks of all ranks, and how many times a device runs each."""
    counts: Counter[tuple[int, TaskKind]] = Counter(
        (task.stage, task.kind) for tasks in schedule.tasks for task in tasks
    )
    return [(stages[stage].get_program(kind, stage), n) for (stage, kind), n in counts.items()]


def _list_program_runs(
    schedule: PipelineSchedule, stages: Sequence[StageEstimate]
) -> list[tuple[StageProgramEstimate, int]]:
    """List the programs of all ranks, optimisers included, and how many times each runs."""
    runs = _list_task_runs(schedule, stages)
    updates = [stage.programs[UPDATE] for stage in stages if UPDATE in stage.programs]
    return runs + [(update, 1) for update in updates]


def _collect_step_facts(
    estimate: PipelineEstimate, stages: Sequence[StageEstimate], node: NodeSpec
) -> StepFacts:
    """Collect what the figures of a step are computed from, for an average device."""
    schedule = estimate.schedule
    runs, ranks = _list_program_runs(schedule, stages), schedule.ranks
    flops: Counter[str] = Counter()
    for program, count in runs:
        for dtype, number in program.dtype_flops.items():
            flops[dtype] += count * number
    energies = [(program.energy_nj, count) for program, count in runs]
    known_energy = [count * energy for energy, count in energies if energy is not None]
    stats = {
        "program": {"devices": len(estimate.result.devices)},
        "dtypes": {dtype: {"executed_flops": number / ranks} for dtype, number in flops.items()},
        "totals": {
            "time_ns": sum(count * program.compute_ns for program, count in runs) / ranks,
            "energy_nj": sum(known_energy) / ranks if len(known_energy) == len(energies) else None,
        },
    }
    work = _sum_step_work(schedule, stages, node)
    simulated = {"step_time_s": estimate.step_time_s}
    return StepFacts(stats=stats, node=node, work=work, simulated=simulated)


def _sum_step_work(
    schedule: PipelineSchedule, stages: Sequence[StageEstimate], node: NodeSpec
) -> StepWork:
    """Sum the work of the model over all tasks; None for facts that a program does not state."""
    runs = _list_task_runs(schedule, stages)
    flops = [program.facts.get("flops_per_step") for program, _ in runs]
    known = [
        count * number for number, (_, count) in zip(flops, runs, strict=True) if number is not None
    ]
    tokens = stages[0].get_program(FORWARD, 0).facts.get("tokens_per_step")
    return StepWork(
        model_flops=sum(known) if len(known) == len(flops) else None,
        tokens_per_step=None if tokens is None else schedule.microbatches * tokens,
        price_per_hour=node.price_per_hour,
    )
