"""Lower bounds of layouts with pipeline parallelism, from the sketches of their stage programs.

The bound of a pipeline is its schedule with the bound of each task in place of its time, and with
the time of each message on an idle network. Every task and every message of the simulation takes at
least as long and waits for the same others, so that no bound is above the estimate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hespas.chakra.trace_steps import ProgramTrace
from hespas.configs.system_spec import SystemSpec
from hespas.simulators.embedded.idle_messages import IdleMessages
from hespas.support.errors import HespasError
from hespas.workflows.pipelines.schedules import (
    FORWARD,
    PipelineSchedule,
    StageTask,
    TaskKind,
    time_schedule,
)
from hespas.workflows.pipelines.stage_estimates import (
    UPDATE,
    StageEstimate,
    StagePart,
    StageProgramEstimate,
    compute_rank_memory,
)
from hespas.workflows.pipelines.stage_workloads import RECIPE
from hespas.workflows.planning import program_sketch as sketch
from hespas.workflows.planning.layout_bounds import LayoutBounds
from hespas.workflows.planning.layout_space import ACCUMULATE, BATCH, LayoutCandidate
from hespas.workflows.planning.pipeline_layouts import (
    build_layout_schedule,
    is_pipeline,
    plan_layout_stages,
)
from hespas.workflows.planning.program_sketch import SketchOp
from hespas.workflows.planning.step_bounds import StepBound
from hespas.workflows.studies.study_definition import StudyWorkload

# Options that change no size of a sketch, so that layouts with other values share it.
UPDATE_INDEPENDENT = ("remat", "attention", BATCH, ACCUMULATE)
TASK_INDEPENDENT = ("zero1",)

_ProgramKey = tuple[tuple[tuple[str, int], ...], tuple[tuple[str, str], ...]]


def bound_layouts(
    bounds: LayoutBounds, candidates: Sequence[LayoutCandidate], system: SystemSpec | None
) -> list[StepBound | None]:
    """Bound layouts with and without stages; None for those whose sketches do not follow."""
    single = [i for i, one in enumerate(candidates) if not is_pipeline(one)]
    staged = [i for i, one in enumerate(candidates) if is_pipeline(one)]
    step_bounds: dict[int, StepBound | None] = dict.fromkeys(range(len(candidates)))
    step_bounds |= zip(
        single, bounds.bound_candidates([candidates[i] for i in single]), strict=True
    )
    if staged and system is not None:
        network = IdleMessages(system, bounds.comm.options)
        pipelines = PipelineBounds(bounds, ScheduleBounds(network))
        answers = pipelines.bound_pipelines([candidates[i] for i in staged])
        step_bounds |= zip(staged, answers, strict=True)
    return [step_bounds[i] for i in range(len(candidates))]


@dataclass(frozen=True)
class StageProgramBound:
    """Bounds of one program of a stage.

    Attributes:
        compute_s: Of its compute time.
        comm_s: Of the time of its collectives.
        argument_bytes: The bytes of its arguments.
        result_bytes: The bytes of each result.
    """

    compute_s: float
    comm_s: float
    argument_bytes: int
    result_bytes: tuple[int, ...]

    @property
    def time_s(self) -> float:
        return self.compute_s + self.comm_s


@dataclass(frozen=True)
class StagedLayout:
    """A layout with its schedule, and the programs of each stage."""

    candidate: LayoutCandidate
    schedule: PipelineSchedule
    stages: Sequence[Mapping[StagePart, LayoutCandidate]]


@dataclass
class ScheduleBounds:
    """Computes bounds of schedules whose programs have bounds.

    Attributes:
        network: The network of all devices.
    """

    network: IdleMessages
    _messages_s: dict[tuple[int, int, int, int], float] = field(default_factory=dict)

    def bound_schedule(
        self,
        schedule: PipelineSchedule,
        stages: Sequence[Mapping[StagePart, StageProgramBound]],
    ) -> StepBound:
        """Bound a step. Its time without compute is the bubble with collectives and messages."""
        step_s = self._bound_step_s(schedule, stages, self.network.device_count // schedule.ranks)
        compute_s = max(_sum_compute_s(schedule, stages, rank) for rank in range(schedule.ranks))
        return StepBound(compute_s, step_s - compute_s, _bound_memory(schedule, stages))

    def _bound_step_s(
        self,
        schedule: PipelineSchedule,
        stages: Sequence[Mapping[StagePart, StageProgramBound]],
        devices: int,
    ) -> float:
        """Bound the end of the rank that ends last: its tasks, then its optimisers."""

        def find_delay(source: StageTask, target: StageTask) -> float:
            size = stages[source.stage][source.kind].result_bytes[0]
            ends = schedule.find_rank(source.stage), schedule.find_rank(target.stage)
            return self._time_message_s(size, *ends, devices)

        spans = time_schedule(schedule, lambda t: stages[t.stage][t.kind].time_s, find_delay)
        ends_s = [0.0] * schedule.ranks
        for task, (_, end_s) in spans.items():
            rank = schedule.find_rank(task.stage)
            ends_s[rank] = max(ends_s[rank], end_s)
        for stage, programs in enumerate(stages):
            ends_s[schedule.find_rank(stage)] += programs[UPDATE].time_s
        return max(ends_s)

    def _time_message_s(self, size: int, source: int, target: int, devices: int) -> float:
        """Time the fastest of the messages between the devices of two ranks."""
        key = (size, source, target, devices)
        if key not in self._messages_s:
            times_ns = (
                self.network.compute_transfer_ns(source * devices + i, target * devices + i, size)
                for i in range(devices)
            )
            self._messages_s[key] = 1e-9 * min(times_ns)
        return self._messages_s[key]


@dataclass
class PipelineBounds:
    """Computes bounds of layouts.

    Attributes:
        bounds: Derives and bounds the sketches of programs.
        schedules: Bounds the schedules.
    """

    bounds: LayoutBounds
    schedules: ScheduleBounds

    def bound_pipelines(self, candidates: Sequence[LayoutCandidate]) -> list[StepBound | None]:
        """Bound the step of each layout; None if a sketch of its stages does not follow."""
        layouts = [_plan_staged_layout(candidate) for candidate in candidates]
        programs = {
            _make_program_key(program): program
            for layout in layouts
            if layout is not None
            for stage in layout.stages
            for program in stage.values()
        }
        bounds = _select_stage_recipe(self.bounds).derive_sketches([*programs.values()])
        known = {
            key: None if ops is None else self.bound_program(ops, program)
            for (key, program), ops in zip(programs.items(), bounds, strict=True)
        }
        return [None if layout is None else self._bound_layout(layout, known) for layout in layouts]

    def bound_program(self, ops: list[SketchOp], program: LayoutCandidate) -> StageProgramBound:
        """Bound a program of a stage by its sketch.

        Only the optimiser certainly reads what it writes.
        """
        is_update = program.options["part"] == UPDATE
        computed = [op for op in ops if is_update or op.kind != sketch.RESULT]
        sizes = {
            kind: [op.sizes[0] for op in ops if op.kind == kind]
            for kind in (sketch.ARGUMENT, sketch.RESULT)
        }
        return StageProgramBound(
            self.bounds.compute.bound_compute_s(computed),
            self.bounds.comm.bound_comm_s(ops, program.mesh),
            sum(sizes[sketch.ARGUMENT]),
            tuple(sizes[sketch.RESULT]),
        )

    def _bound_layout(
        self, layout: StagedLayout, known: Mapping[_ProgramKey, StageProgramBound | None]
    ) -> StepBound | None:
        stages: list[dict[StagePart, StageProgramBound]] = []
        for programs in layout.stages:
            parts: dict[StagePart, StageProgramBound] = {}
            for part, program in programs.items():
                bound = known[_make_program_key(program)]
                if bound is None:
                    return None
                parts[part] = bound
            stages.append(parts)
        return self.schedules.bound_schedule(layout.schedule, stages)


def _select_stage_recipe(bounds: LayoutBounds) -> LayoutBounds:
    """Return the same bounds for the recipe of stages."""
    programs = bounds.programs.select_recipe(RECIPE)
    return LayoutBounds(programs, bounds.compute, bounds.comm, bounds.note)


def _plan_staged_layout(candidate: LayoutCandidate) -> StagedLayout | None:
    """Plan the programs of the stages of a layout; None if its layers cannot fill them."""
    schedule = build_layout_schedule(candidate)
    try:
        workloads = plan_layout_stages(candidate, schedule)
    except HespasError:
        return None  # the reason is that of its estimate
    stages: list[dict[StagePart, LayoutCandidate]] = [
        {part: _make_sketch_candidate(part, one) for part, one in stage.items()}
        for stage in workloads
    ]
    return StagedLayout(candidate, schedule, stages)


def _make_sketch_candidate(part: StagePart, workload: StudyWorkload) -> LayoutCandidate:
    """Make the layout of a program without the options that its sketch does not depend on."""
    independent = UPDATE_INDEPENDENT if part == UPDATE else TASK_INDEPENDENT
    options = {n: value for n, value in workload.options.items() if n not in independent}
    return LayoutCandidate(workload.mesh, options)


def _make_program_key(program: LayoutCandidate) -> _ProgramKey:
    return tuple(sorted(program.mesh.items())), tuple(sorted(program.options.items()))


def _sum_compute_s(
    schedule: PipelineSchedule,
    stages: Sequence[Mapping[StagePart, StageProgramBound]],
    rank: int,
) -> float:
    """Sum the compute of a rank: its tasks and its optimisers."""
    runs: Counter[tuple[int, TaskKind]] = Counter(
        (task.stage, task.kind) for task in schedule.tasks[rank]
    )
    tasks_s = sum(count * stages[stage][kind].compute_s for (stage, kind), count in runs.items())
    numbers = range(rank, schedule.stages, schedule.ranks)
    return tasks_s + sum(stages[number][UPDATE].compute_s for number in numbers)


def _bound_memory(
    schedule: PipelineSchedule, stages: Sequence[Mapping[StagePart, StageProgramBound]]
) -> int:
    """Bound the memory of the rank that needs most, as of programs without temporary values."""
    programs = [
        StageEstimate({part: _make_smallest_program(part, one) for part, one in stage.items()})
        for stage in stages
    ]
    return max(compute_rank_memory(schedule, programs, rank) or 0 for rank in range(schedule.ranks))


def _make_smallest_program(part: StagePart, bound: StageProgramBound) -> StageProgramEstimate:
    """Make a program that uses no temporary memory; results of forward programs are all kept."""
    kept_count = len(bound.result_bytes) if part == FORWARD else 0
    return StageProgramEstimate(
        trace=ProgramTrace(0),
        compute_ns=1e9 * bound.compute_s,
        band_ns=None,
        argument_bytes=bound.argument_bytes,
        result_bytes=bound.result_bytes,
        new_results=frozenset(range(kept_count)),
        peak_bytes=0,
    )
