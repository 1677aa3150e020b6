"""The step of a pipeline: its traces on a system, simulated, with the bubble and the memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from hespas import configs
from hespas.configs.system_spec import SystemSpec
from hespas.simulators import simulator_choice
from hespas.simulators.in_memory_programs import InMemoryPrograms, place_programs_on_system
from hespas.simulators.simulation_inputs import SimulationInputs
from hespas.simulators.simulation_options import SimulatorChoice
from hespas.simulators.simulation_result import NodeInterval, SimulationResult
from hespas.support.errors import UsageError
from hespas.workflows.pipelines.pipeline_memory import compute_rank_memory, count_in_flight
from hespas.workflows.pipelines.pipeline_traces import (
    PipelineTraces,
    StepSpan,
    build_pipeline_traces,
)
from hespas.workflows.pipelines.schedules import (
    PipelineSchedule,
    StageTask,
    TaskKind,
    time_schedule,
)
from hespas.workflows.pipelines.stage_estimates import (
    UPDATE,
    StageEstimate,
    make_stage_traces,
)
from hespas.workflows.run_config import RunConfig
from hespas.workflows.run_plan import select_network_settings
from hespas.workflows.step_band import add_network_error, find_network_cause


@dataclass(frozen=True)
class PipelineNetwork:
    """The network of a pipeline, and how it is simulated."""

    system: SystemSpec
    choice: SimulatorChoice


class TaskSpan(NamedTuple):
    """When a rank ran a task, in nanoseconds."""

    task: StageTask
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class RankFigures:
    """The figures of the devices of a rank.

    Attributes:
        rank: The rank.
        stages: The stages that it runs.
        compute_s: The compute time of a step.
        task_s: The time of its tasks: compute, and collectives within the stage.
        update_s: The time of the optimiser with its collectives.
        bubble_s: The time in which it waits for other stages.
        transfer_s: The part of the bubble in which it waits for a message whose task has ended.
        in_flight: The most microbatches whose activations it keeps at once.
        memory_bytes: The peak memory; None if a stage has no optimiser.
        spans: When it ran each task.
        update_ns: When its optimiser started and ended; None if it has none.
    """

    rank: int
    stages: tuple[int, ...]
    compute_s: float
    task_s: float
    update_s: float
    bubble_s: float
    transfer_s: float
    in_flight: int
    memory_bytes: int | None
    spans: Sequence[TaskSpan]
    update_ns: tuple[int, int] | None


@dataclass(frozen=True, repr=False)
class PipelineEstimate:
    """How long a step of a pipeline takes, and why.

    Attributes:
        schedule: The schedule.
        ranks: The figures of each rank.
        step_time_s: The step time.
        band_s: Its 80 % band; None if the estimator does not know how far off it is.
        ideal_bubble_share: The bubble of the same compute times if messages took no time.
        result: The result of the simulation.
        inputs: Its traces on the system.
        traces: The traces of the ranks.
        warnings: What makes the estimate less certain.
    """

    schedule: PipelineSchedule
    ranks: Sequence[RankFigures]
    step_time_s: float
    band_s: tuple[float, float] | None
    ideal_bubble_share: float
    result: SimulationResult
    inputs: SimulationInputs
    traces: PipelineTraces
    warnings: Sequence[str] = field(default=())

    @cached_property
    def bubble_share(self) -> float:
        """The share of the schedule, without the optimisers, in which a rank waits on average."""
        waits = sum(rank.bubble_s for rank in self.ranks)
        return waits / sum(rank.bubble_s + rank.task_s for rank in self.ranks)

    @property
    def compute_s(self) -> float:
        """The compute time of the rank that computes longest."""
        return max(rank.compute_s for rank in self.ranks)

    @property
    def memory_bytes(self) -> int | None:
        """The peak memory of the rank that needs most; None if it is not known."""
        known = [rank.memory_bytes for rank in self.ranks if rank.memory_bytes is not None]
        return max(known) if len(known) == len(self.ranks) else None


def choose_pipeline_network(system: str, config: RunConfig) -> PipelineNetwork:
    """Choose how a system is simulated: as ``hespas run`` does; raises HespasError."""
    config = config.model_copy(update={"system": system})
    choice = select_network_settings(config).build_simulator_choice()
    simulator_choice.check_simulator(choice)
    return PipelineNetwork(configs.load_system(system), choice)


def estimate_pipeline(
    schedule: PipelineSchedule,
    stages: Sequence[StageEstimate],
    network: PipelineNetwork,
    slowdowns: Mapping[int, float] | None = None,
) -> PipelineEstimate:
    """Simulate a step.

    Args:
        schedule: The schedule.
        stages: The estimates of the programs of each stage.
        network: The network; its devices are those of all ranks.
        slowdowns: By rank, how many times as long its compute takes.

    Raises:
        HespasError: A stage lacks a program, or the system has another number of devices.
    """
    _check_slowdowns(slowdowns or {}, schedule.ranks)
    traces, inputs = _place_traces(schedule, stages, network, slowdowns)
    result = simulator_choice.simulate_inputs(
        inputs, SimulatorChoice("embedded", network.choice.options)
    )
    ranks = _measure_ranks(schedule, stages, traces, result)
    step_s = result.step_time_ns * 1e-9
    band_s = _compute_band(step_s, ranks, schedule, stages, result)
    warnings = [text for stage in stages for p in stage.programs.values() for text in p.warnings]
    return PipelineEstimate(
        schedule, ranks, step_s, band_s, _compute_ideal_bubble(schedule, stages, slowdowns or {}),
        result, inputs, traces,
        tuple(dict.fromkeys([*warnings, *simulator_choice.list_warnings(result)])),
    )  # fmt: skip


def _place_traces(
    schedule: PipelineSchedule,
    stages: Sequence[StageEstimate],
    network: PipelineNetwork,
    slowdowns: Mapping[int, float] | None,
) -> tuple[PipelineTraces, SimulationInputs]:
    stage_traces = make_stage_traces(stages, has_split_backward=schedule.has_split_backward)
    traces = build_pipeline_traces(schedule, stage_traces, slowdowns)
    programs = [InMemoryPrograms(trace) for trace in traces.ranks]
    return traces, place_programs_on_system(programs, network.system)


class RankStraggler(NamedTuple):
    """The rank that delays the step most if it is slow, and the step time then."""

    rank: int
    step_time_s: float


def find_worst_straggler(
    schedule: PipelineSchedule,
    stages: Sequence[StageEstimate],
    network: PipelineNetwork,
    factor: float,
) -> RankStraggler:
    """Find the rank that costs most if its compute takes ``factor`` times as long.

    Raises:
        HespasError: As of ``estimate_pipeline``.
    """
    options = replace(network.choice.options, intervals=False)
    stragglers = []
    for rank in range(schedule.ranks):
        slowdowns = {rank: factor}
        _check_slowdowns(slowdowns, schedule.ranks)
        _, inputs = _place_traces(schedule, stages, network, slowdowns)
        result = simulator_choice.simulate_inputs(inputs, SimulatorChoice("embedded", options))
        stragglers.append(RankStraggler(rank, result.step_time_ns * 1e-9))
    return max(stragglers, key=lambda straggler: straggler.step_time_s)


def _check_slowdowns(slowdowns: Mapping[int, float], ranks: int) -> None:
    for rank, factor in slowdowns.items():
        if not 0 <= rank < ranks:
            raise UsageError(f"there is no rank {rank} to slow down: ranks are 0 to {ranks - 1}")
        if not 0 < factor < float("inf"):
            raise UsageError(f"the slowdown of rank {rank} is {factor:g}, not a positive number")


@dataclass(frozen=True)
class _RankTimes:
    """When a rank ran each of its nodes."""

    intervals: Mapping[int, NodeInterval]

    def measure_span(self, span: StepSpan) -> tuple[int, int] | None:
        """Return the start and the end of a task in nanoseconds; None if it has no node."""
        nodes = [self.intervals[i] for i in range(*span) if i in self.intervals]
        if not nodes:
            return None
        return min(node.start_ns for node in nodes), max(node.finish_ns for node in nodes)


def _measure_ranks(
    schedule: PipelineSchedule,
    stages: Sequence[StageEstimate],
    traces: PipelineTraces,
    result: SimulationResult,
) -> list[RankFigures]:
    """Measure what the first device of each rank did in the simulation."""
    devices = [trace.list_members()[0] for trace in traces.ranks]
    times = [
        _RankTimes({node.node: node for node in result.classes[result.class_of[device]]})
        for device in devices
    ]
    spans = [
        [
            TaskSpan(task, *span)
            for task in tasks
            if (span := rank_times.measure_span(traces.spans[task]))
        ]
        for tasks, rank_times in zip(schedule.tasks, times, strict=True)
    ]
    ends_ns = {span.task: span.end_ns for rank_spans in spans for span in rank_spans}
    schedule_ns = max(ends_ns.values(), default=0)
    figures = []
    for rank, device in enumerate(devices):
        task_ns = sum(span.end_ns - span.start_ns for span in spans[rank])
        update_ns = times[rank].measure_span(traces.updates[rank])
        start_ns, end_ns = update_ns or (0, 0)
        figures.append(
            RankFigures(
                rank=rank,
                stages=tuple(range(rank, schedule.stages, schedule.ranks)),
                compute_s=result.devices[device].compute_ns * 1e-9,
                task_s=task_ns * 1e-9,
                update_s=(end_ns - start_ns) * 1e-9,
                bubble_s=(schedule_ns - task_ns) * 1e-9,
                transfer_s=_sum_message_waits_ns(schedule, spans[rank], ends_ns) * 1e-9,
                in_flight=count_in_flight(schedule, rank),
                memory_bytes=compute_rank_memory(schedule, stages, rank),
                spans=spans[rank],
                update_ns=update_ns,
            )
        )
    return figures


def _sum_message_waits_ns(
    schedule: PipelineSchedule, spans: Sequence[TaskSpan], ends_ns: Mapping[StageTask, int]
) -> int:
    """Sum the times between the end of all that a task of a rank waits for, and its start.

    A task waits for the previous task of its rank and for its inputs. What is left is the time in
    which the message of an input is on its way.
    """
    waits_ns = free_ns = 0
    for task, start_ns, end_ns in spans:
        inputs_ns = [ends_ns.get(needed, 0) for needed in schedule.list_inputs(task)]
        waits_ns += start_ns - max([free_ns, *inputs_ns])
        free_ns = end_ns
    return waits_ns


def _compute_ideal_bubble(
    schedule: PipelineSchedule, stages: Sequence[StageEstimate], slowdowns: Mapping[int, float]
) -> float:
    """Compute the share of the bubble if there were compute only."""

    def find_duration(task: StageTask) -> float:
        program = stages[task.stage].get_program(task.kind, task.stage)
        return program.compute_ns * slowdowns.get(schedule.find_rank(task.stage), 1.0)

    spans = time_schedule(schedule, find_duration).values()
    total = schedule.ranks * max(end for _, end in spans)
    return 1 - sum(end - start for start, end in spans) / total if total else 0.0


def _compute_band(
    step_s: float,
    ranks: Sequence[RankFigures],
    schedule: PipelineSchedule,
    stages: Sequence[StageEstimate],
    result: SimulationResult,
) -> tuple[float, float] | None:
    """Compute the band of the step from that of the rank that computes longest.

    Waiting for other stages errs as their compute does, collectives and messages as the network.
    """
    slowest = max(ranks, key=lambda rank: rank.compute_s)
    tasks = schedule.tasks[slowest.rank]
    runs: Counter[tuple[int, TaskKind]] = Counter((task.stage, task.kind) for task in tasks)
    programs = [
        (stages[stage].get_program(kind, stage), count) for (stage, kind), count in runs.items()
    ]
    updates = [stages[stage].programs.get(UPDATE) for stage in slowest.stages]
    programs += [(update, 1) for update in updates if update is not None]
    compute_ns = sum(count * program.compute_ns for program, count in programs)
    bands = [(program.band_ns, count) for program, count in programs if program.band_ns is not None]
    if len(bands) < len(programs) or not compute_ns:
        return None
    low, high = (sum(count * band[end] for band, count in bands) / compute_ns for end in (0, 1))
    exposed_s = max(slowest.task_s + slowest.update_s - slowest.compute_s, 0.0)
    rest_s = max(step_s - exposed_s, 0.0)
    band_s = (exposed_s + low * rest_s, exposed_s + high * rest_s)
    return add_network_error(step_s, band_s, exposed_s, find_network_cause(result.settings))
