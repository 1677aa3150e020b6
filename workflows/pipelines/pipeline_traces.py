"""The traces of a pipeline: the steps of stage programs in the order of a schedule.

Ranks have equal numbers of devices: rank r has those from r times that number. Each device of a
rank sends its part of an activation, or of the gradient of one, to its counterpart in the rank of
the next or previous stage.

Invariant: ids rise over all ranks in an order that every rank and every message keeps. The two ends
of a message have one id, so that they have one tag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from hespas.chakra.trace_steps import (
    CollectiveContent,
    ComputeContent,
    HostCopyContent,
    ProgramTrace,
    StepContent,
    TraceStep,
    TransferContent,
)
from hespas.workflows.pipelines.schedules import (
    FORWARD,
    WEIGHT_GRADIENT,
    PipelineSchedule,
    StageTask,
    TaskKind,
)
from hespas.workflows.pipelines.stage_estimates import UPDATE, StageEstimate, list_task_kinds

_KIND_TITLES: Mapping[TaskKind, str] = {
    "forward": "F", "backward": "B", "input_gradient": "B", "weight_gradient": "W",
}  # fmt: skip


class StepSpan(NamedTuple):
    """The ids of the steps of a task, the last one exclusive."""

    first: int
    end: int


@dataclass(frozen=True)
class PipelineTraces:
    """The traces of all ranks.

    Attributes:
        ranks: The trace of each rank.
        spans: The steps of each task.
        updates: The steps of the optimiser by rank.
    """

    ranks: Sequence[ProgramTrace]
    spans: Mapping[StageTask, StepSpan]
    updates: Sequence[StepSpan]


def build_pipeline_traces(
    schedule: PipelineSchedule,
    stages: Sequence[StageEstimate],
    slowdowns: Mapping[int, float] | None = None,
) -> PipelineTraces:
    """Build the traces of all ranks.

    Args:
        schedule: The schedule.
        stages: The estimates of the programs of each stage, on the devices of one rank.
        slowdowns: By rank, how many times as long its compute takes; 1 for ranks left out.

    Raises:
        HespasError: A stage lacks a program, or has nothing to send.
    """
    for number, stage in enumerate(stages):
        for kind in list_task_kinds(schedule.has_split_backward):
            stage.get_program(kind, number)  # the first that is missing is the error
    builder = _PipelineTraceBuilder(schedule, stages, slowdowns or {})
    for task in schedule.order_tasks():
        builder.append_task(task)
    updates = [builder.append_updates(rank) for rank in range(schedule.ranks)]
    return PipelineTraces([rank.trace for rank in builder.ranks], builder.spans, updates)


@dataclass
class _RankTrace:
    """The trace of a rank; ``sinks`` are the steps that the next task waits for."""

    trace: ProgramTrace
    slowdown: float
    sinks: tuple[int, ...] = ()
    groups: dict[tuple[int, ...], int] = field(default_factory=dict)


class _PipelineTraceBuilder:
    """Appends tasks to the traces of their ranks."""

    def __init__(
        self,
        schedule: PipelineSchedule,
        stages: Sequence[StageEstimate],
        slowdowns: Mapping[int, float],
    ) -> None:
        self.schedule, self.stages = schedule, stages
        self.rank_devices = next(iter(stages[0].programs.values())).trace.devices
        count = self.rank_devices * schedule.ranks
        self.ranks = [
            _RankTrace(
                ProgramTrace(
                    count, members=range(r * self.rank_devices, (r + 1) * self.rank_devices)
                ),
                slowdowns.get(r, 1.0),
            )
            for r in range(schedule.ranks)
        ]
        self.spans: dict[StageTask, StepSpan] = {}
        self._next = 2
        self._group_count = 0
        self._messages: dict[StageTask, int] = {}  # what a task receives

    def append_task(self, task: StageTask) -> None:
        """Append a task to the trace of its rank, and the message of its result to both ends."""
        rank = self.ranks[self.schedule.find_rank(task.stage)]
        received = self._messages.pop(task, None)
        if received is not None:
            rank.sinks = (*rank.sinks, received)
        title = f"{_KIND_TITLES[task.kind]}{task.microbatch} stage {task.stage}: "
        program = self.stages[task.stage].get_program(task.kind, task.stage)
        self.spans[task] = self._append_program(rank, program.trace, title)
        self._append_message(task)

    def append_updates(self, number: int) -> StepSpan:
        """Append the optimisers of the stages of a rank."""
        rank, first = self.ranks[number], self._next
        for stage in range(number, self.schedule.stages, self.schedule.ranks):
            update = self.stages[stage].programs.get(UPDATE)
            if update is not None:
                self._append_program(rank, update.trace, f"update stage {stage}: ")
        return StepSpan(first, self._next)

    def _append_program(self, rank: _RankTrace, program: ProgramTrace, title: str) -> StepSpan:
        """Append one execution of a program, which waits for the sinks of the rank."""
        first = self._next
        read: set[int] = set()
        numbers: list[int] = []
        for step in program.steps:
            deps = tuple(first + d for d in step.deps) or rank.sinks
            read.update(deps)
            number = first + step.id
            numbers.append(number)
            content = self._place_content(rank, program, step.content, title)
            rank.trace.steps.append(TraceStep(number, deps, content))
            if step.id in program.chain:
                chain = program.chain[step.id]
                rank.trace.chain[number] = first + chain if chain > 0 else chain
        if numbers:
            self._next = numbers[-1] + 2
            rank.sinks = tuple(number for number in numbers if number not in read)
        return StepSpan(first, self._next)

    def _append_message(self, task: StageTask) -> None:
        """Append the message of a task to the traces of its sender and its receiver."""
        kind, stage, microbatch = task
        target = stage + 1 if kind == FORWARD else stage - 1
        if kind == WEIGHT_GRADIENT or not 0 <= target < self.schedule.stages:
            return
        ends = [self.schedule.find_rank(s) for s in (stage, target)]
        if ends[0] == ends[1]:
            return
        size = self.stages[stage].get_message_bytes(kind, stage)
        offsets = [end * self.rank_devices for end in ends]
        pairs = tuple((offsets[0] + i, offsets[1] + i) for i in range(self.rank_devices))
        name = f"{_KIND_TITLES[kind]}{microbatch} stage {stage} to {target}"
        content = TransferContent(name, size, pairs)
        number, self._next = self._next, self._next + 2
        sender, receiver = (self.ranks[end].trace for end in ends)
        sender.steps.append(TraceStep(number, self.ranks[ends[0]].sinks, content))
        receiver.steps.append(TraceStep(number, (), content))
        for trace in (sender, receiver):
            trace.chain[number] = number  # messages do not wait for each other
        self._messages[StageTask(kind, target, microbatch)] = number

    def _place_content(
        self, rank: _RankTrace, program: ProgramTrace, content: StepContent, title: str
    ) -> StepContent:
        """Return a content on the devices of a rank, under the title of its task."""
        name = title + content.name
        if isinstance(content, ComputeContent):
            latency_fs = round(content.latency_fs * rank.slowdown)
            return replace(content, name=name, latency_fs=latency_fs)
        first = rank.trace.list_members()[0]
        if isinstance(content, CollectiveContent):
            groups = tuple(
                self._find_group(rank, tuple(first + d for d in program.groups[group]))
                for group in content.groups
            )
            return replace(content, name=name, groups=groups)
        if isinstance(content, HostCopyContent):
            return replace(content, name=name)
        pairs = tuple((first + source, first + target) for source, target in content.pairs)
        return replace(content, name=name, pairs=pairs)

    def _find_group(self, rank: _RankTrace, members: tuple[int, ...]) -> int:
        """Return the communicator of devices, whose id no other rank has."""
        if members not in rank.groups:
            self._group_count += 1
            rank.groups[members] = self._group_count
            rank.trace.groups[self._group_count] = members
        return rank.groups[members]
