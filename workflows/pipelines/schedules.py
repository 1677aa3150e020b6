"""Schedules of pipeline parallelism: which program of which microbatch a device runs when.

A model is cut into stages. The devices form ranks, of which each runs the stages whose number has
the remainder of the rank. A schedule orders the tasks of each rank: the forward and backward
programs of its stages for each microbatch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from hespas.support.errors import HespasError, UsageError
from hespas.support.suggestions import suggest_nearest

TaskKind = Literal["forward", "backward", "input_gradient", "weight_gradient"]
FORWARD: TaskKind = "forward"
BACKWARD: TaskKind = "backward"  # both gradients in one program
INPUT_GRADIENT: TaskKind = "input_gradient"
WEIGHT_GRADIENT: TaskKind = "weight_gradient"


class StageTask(NamedTuple):
    """One execution of a program of a stage."""

    kind: TaskKind
    stage: int
    microbatch: int


@dataclass(frozen=True)
class PipelineSchedule:
    """The tasks of each rank, in the order in which it runs them.

    Attributes:
        name: The name of the schedule.
        microbatches: The number of microbatches of a step.
        stages_per_rank: The number of stages of each rank.
        tasks: The tasks by rank.
    """

    name: str
    microbatches: int
    stages_per_rank: int
    tasks: tuple[tuple[StageTask, ...], ...]

    @property
    def ranks(self) -> int:
        return len(self.tasks)

    @property
    def stages(self) -> int:
        return self.ranks * self.stages_per_rank

    def find_rank(self, stage: int) -> int:
        """Return the rank that runs a stage."""
        return stage % self.ranks

    def list_stages(self, rank: int) -> range:
        """Return the stages that a rank runs."""
        return range(rank, self.stages, self.ranks)

    @cached_property
    def has_split_backward(self) -> bool:
        """Whether the gradients of inputs and of weights are separate programs."""
        return any(task.kind == WEIGHT_GRADIENT for task in self.tasks[0])

    def list_inputs(self, task: StageTask) -> Iterator[StageTask]:
        """Yield the tasks whose results a task reads."""
        kind, stage, microbatch = task
        if kind == WEIGHT_GRADIENT:
            yield StageTask(INPUT_GRADIENT, stage, microbatch)
            return
        if kind == FORWARD:
            if stage:
                yield StageTask(FORWARD, stage - 1, microbatch)
            return
        yield StageTask(FORWARD, stage, microbatch)
        if stage + 1 < self.stages:
            yield StageTask(kind, stage + 1, microbatch)

    def order_tasks(self) -> list[StageTask]:
        """Return the tasks of all ranks in an order that every rank and every input keeps.

        Raises:
            HespasError: Ranks wait for each other for ever.
        """
        ordered: dict[StageTask, None] = {}
        position = [0] * self.ranks
        while len(ordered) < sum(map(len, self.tasks)):
            before = len(ordered)
            for rank, tasks in enumerate(self.tasks):
                if position[rank] < len(tasks):
                    task = tasks[position[rank]]
                    if all(needed in ordered for needed in self.list_inputs(task)):
                        ordered[task] = None
                        position[rank] += 1
            if len(ordered) == before:
                rank = next(r for r in range(self.ranks) if position[r] < len(self.tasks[r]))
                raise HespasError(
                    f"schedule {self.name} deadlocks: rank {rank} waits for ever before "
                    f"{describe_task(self.tasks[rank][position[rank]])}"
                )
        return list(ordered)


def describe_task(task: StageTask) -> str:
    """Return a task in words."""
    kind = task.kind.replace("_", " ")
    return f"the {kind} of microbatch {task.microbatch} in stage {task.stage}"


def count_runs(tasks: Iterable[StageTask]) -> Counter[tuple[int, TaskKind]]:
    """Count how many times each program of each stage runs."""
    return Counter((task.stage, task.kind) for task in tasks)


def time_schedule(
    schedule: PipelineSchedule,
    find_duration: Callable[[StageTask], float],
    find_delay: Callable[[StageTask, StageTask], float] = lambda source, target: 0.0,
) -> dict[StageTask, tuple[float, float]]:
    """Compute the start and the end of each task.

    Args:
        schedule: The schedule.
        find_duration: Returns the time of a task.
        find_delay: Returns the time of the message from a task to one of another rank.
    """
    spans: dict[StageTask, tuple[float, float]] = {}
    free = [0.0] * schedule.ranks
    for task in schedule.order_tasks():
        rank = schedule.find_rank(task.stage)
        start = free[rank]
        for needed in schedule.list_inputs(task):
            is_local = schedule.find_rank(needed.stage) == rank
            start = max(start, spans[needed][1] + (0.0 if is_local else find_delay(needed, task)))
        free[rank] = start + find_duration(task)
        spans[task] = (start, free[rank])
    return spans


def build_gpipe(ranks: int, microbatches: int) -> PipelineSchedule:
    """Build GPipe's schedule: all forward tasks, then all backward tasks (arXiv 1811.06965)."""
    tasks = tuple(
        tuple(StageTask(kind, rank, i) for kind in (FORWARD, BACKWARD) for i in range(microbatches))
        for rank in range(ranks)
    )
    return PipelineSchedule("gpipe", microbatches, 1, tasks)


def build_one_forward_one_backward(ranks: int, microbatches: int) -> PipelineSchedule:
    """Build 1F1B (PipeDream-Flush, arXiv 2006.09503).

    A rank runs as many forward tasks as there are ranks after it, then a forward and a backward
    task in turn, then the remaining backward tasks.
    """
    return _build_interleaved("1f1b", ranks, microbatches, 1)


def build_interleaved(ranks: int, microbatches: int, stages_per_rank: int) -> PipelineSchedule:
    """Build interleaved 1F1B of Megatron-LM (arXiv 2104.04473, section 2.2).

    Raises:
        UsageError: The ranks do not divide the microbatches.
    """
    if microbatches % ranks:
        raise UsageError(
            f"the interleaved schedule of {ranks} ranks cannot run {microbatches} microbatches",
            remedy="use a multiple of the ranks",
        )
    return _build_interleaved("interleaved", ranks, microbatches, stages_per_rank)


def _build_interleaved(
    name: str, ranks: int, microbatches: int, stages_per_rank: int
) -> PipelineSchedule:
    """Build 1F1B over the stages of each rank, which takes turns with groups of microbatches."""
    total = microbatches * stages_per_rank
    tasks = []
    for rank in range(ranks):
        forward = list(_order_microbatches(FORWARD, rank, ranks, microbatches, stages_per_rank))
        backward = list(_order_microbatches(BACKWARD, rank, ranks, microbatches, stages_per_rank))
        ahead = ranks - rank - 1
        if stages_per_rank > 1:
            ahead = 2 * ahead + (stages_per_rank - 1) * ranks
        ahead = total if stages_per_rank > 1 and microbatches == ranks else min(ahead, total)
        pairs = zip(forward[ahead:], backward[: total - ahead], strict=True)
        steady = [task for pair in pairs for task in pair]
        tasks.append((*forward[:ahead], *steady, *backward[total - ahead :]))
    return PipelineSchedule(name, microbatches, stages_per_rank, tuple(tasks))


def _order_microbatches(
    kind: TaskKind, rank: int, ranks: int, microbatches: int, stages_per_rank: int
) -> Iterator[StageTask]:
    """Yield the tasks of a kind: groups of as many microbatches as ranks, stage after stage."""
    order = range(stages_per_rank) if kind == FORWARD else reversed(range(stages_per_rank))
    chunks = list(order)
    for first in range(0, microbatches, ranks):
        group = range(first, min(first + ranks, microbatches))
        for chunk in chunks:
            yield from (StageTask(kind, chunk * ranks + rank, i) for i in group)


def build_zero_bubble(ranks: int, microbatches: int) -> PipelineSchedule:
    """Build ZB-H1 (arXiv 2401.10241, section 2): 1F1B whose bubbles gradients of weights fill.

    Rank r runs the gradient of the weights r microbatches after that of the input, so that all
    ranks keep as many activations as the first one does in 1F1B.
    """
    tasks = []
    for rank, old in enumerate(build_one_forward_one_backward(ranks, microbatches).tasks):
        row: list[StageTask] = []
        for task in old:
            if task.kind == FORWARD:
                row.append(task)
                continue
            row.append(StageTask(INPUT_GRADIENT, rank, task.microbatch))
            if task.microbatch >= rank:
                row.append(StageTask(WEIGHT_GRADIENT, rank, task.microbatch - rank))
        late = range(max(microbatches - rank, 0), microbatches)
        row += [StageTask(WEIGHT_GRADIENT, rank, i) for i in late]
        tasks.append(tuple(row))
    return PipelineSchedule("zb-h1", microbatches, 1, tuple(tasks))


_BUILDERS: dict[str, Callable[[int, int], PipelineSchedule]] = {
    "gpipe": build_gpipe,
    "1f1b": build_one_forward_one_backward,
    "zb-h1": build_zero_bubble,
}
INTERLEAVED = "interleaved"
SCHEDULES: Sequence[str] = ("gpipe", "1f1b", INTERLEAVED, "zb-h1")


def build_schedule(
    name: str, ranks: int, microbatches: int, stages_per_rank: int = 1
) -> PipelineSchedule:
    """Build a schedule by its name.

    Raises:
        UsageError: There is no such schedule, or it cannot run with these numbers.
    """
    if name not in SCHEDULES:
        raise UsageError(
            f"no schedule is called '{name}'", remedy=suggest_nearest(name, list(SCHEDULES))
        )
    for count, what in ((ranks, "ranks"), (microbatches, "microbatches")):
        if count < 1:
            raise UsageError(f"a pipeline of {count} {what}")
    if name == INTERLEAVED:
        return build_interleaved(ranks, microbatches, stages_per_rank)
    if stages_per_rank != 1:
        raise UsageError(
            f"schedule {name} has one stage for each rank, not {stages_per_rank}",
            remedy=f"use the schedule {INTERLEAVED}",
        )
    return _BUILDERS[name](ranks, microbatches)
