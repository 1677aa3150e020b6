"""The memory of a rank: what its stages keep between tasks, and what single programs use.

Between tasks, a rank keeps the state and the sums of gradients of its stages, which are the
arguments of their optimisers; and for each microbatch in flight, the received activation and what
the forward program keeps for the gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hespas.workflows.pipelines.schedules import (
    FORWARD,
    INPUT_GRADIENT,
    WEIGHT_GRADIENT,
    PipelineSchedule,
    StageTask,
)
from hespas.workflows.pipelines.stage_estimates import UPDATE, StageEstimate, list_task_kinds


def count_in_flight(schedule: PipelineSchedule, rank: int) -> int:
    """Count the most microbatches, of all stages of a rank, whose activations it keeps at once."""
    return _find_peak(schedule.tasks[rank], lambda stage: 1, lambda stage: 0)


def compute_kept_bytes(
    schedule: PipelineSchedule, stages: Sequence[StageEstimate], rank: int
) -> int:
    """Compute the most bytes that the microbatches in flight of a rank keep at once."""
    back = list_task_kinds(schedule.has_split_backward)[1]

    def sum_forward_bytes(stage: int) -> int:
        own_bytes = stages[stage].get_program(FORWARD, stage).sum_kept_bytes(first=1)
        if not stage:
            return own_bytes
        return own_bytes + stages[stage - 1].get_program(FORWARD, stage - 1).result_bytes[0]

    def sum_backward_bytes(stage: int) -> int:
        program = stages[stage].get_program(back, stage)
        return program.sum_kept_bytes(first=1 if stage else 0)

    return _find_peak(schedule.tasks[rank], sum_forward_bytes, sum_backward_bytes)


def compute_rank_memory(
    schedule: PipelineSchedule, stages: Sequence[StageEstimate], rank: int
) -> int | None:
    """Compute the peak memory of a device of a rank; None if a stage has no optimiser."""
    numbers = range(rank, schedule.stages, schedule.ranks)
    updates = [stages[number].programs.get(UPDATE) for number in numbers]
    state = [update.argument_bytes for update in updates if update is not None]
    if len(state) < len(updates):
        return None
    kinds = list_task_kinds(schedule.has_split_backward)
    temporary = max(
        stages[number].get_program(kind, number).temporary_bytes
        for number in numbers
        for kind in kinds
    )
    during_update = max(update.temporary_bytes for update in updates if update is not None)
    kept_bytes = compute_kept_bytes(schedule, stages, rank)
    return sum(state) + max(kept_bytes + temporary, during_update)


def _find_peak(
    tasks: Iterable[StageTask],
    count_forward: Callable[[int], int],
    count_backward: Callable[[int], int],
) -> int:
    """Find the highest sum of what tasks keep.

    Args:
        tasks: The tasks of a rank, in order.
        count_forward: Returns what the forward task of a stage keeps until its last gradient.
        count_backward: Returns what the gradient of the input of a stage keeps until that of the
            weights.
    """
    total = peak = 0
    for kind, stage, _ in tasks:
        if kind == FORWARD:
            total += count_forward(stage)
        elif kind == INPUT_GRADIENT:
            total += count_backward(stage)
        elif kind == WEIGHT_GRADIENT:
            total -= count_forward(stage) + count_backward(stage)
        else:
            total -= count_forward(stage)
        peak = max(peak, total)
    return peak
