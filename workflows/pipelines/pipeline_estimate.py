"""The step of a pipeline: its traces on a system, simulated, with the bubble and the memory.

The traces have the steps of stage programs in the order of a schedule. Ranks have equal numbers of
devices: rank r has those from r times that number. Each device of a rank sends its part of an
activation, or of the gradient of one, to its counterpart in the rank of the next or previous stage.

Invariant: ids rise over all ranks in an order that every rank and every message keeps. The two ends
of a message have one id, so that they have one tag.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from hespas import configs
from hespas.chakra.schema import SECOND_STREAM, CollectiveCommType
from hespas.chakra.trace_steps import (
    CollectiveContent,
    ComputeContent,
    HostCopyContent,
    ProgramTrace,
    StepContent,
    TraceStep,
    TransferContent,
)
from hespas.configs.node_spec import NodeSpec
from hespas.simulators import simulator_choice
from hespas.simulators.in_memory_programs import InMemoryPrograms, place_programs_on_system
from hespas.simulators.simulation_options import SimulatorChoice
from hespas.simulators.simulation_result import NodeInterval, SimulationResult
from hespas.workflows.figures import compute_figures, list_row_values
from hespas.workflows.network_settings import SimulatedNetwork
from hespas.workflows.pipelines.schedules import (
    FORWARD,
    WEIGHT_GRADIENT,
    PipelineSchedule,
    StageTask,
    TaskKind,
    count_runs,
    time_schedule,
)
from hespas.workflows.pipelines.stage_estimates import (
    UPDATE,
    StageEstimate,
    StageProgramEstimate,
    compute_rank_memory,
    count_in_flight,
    list_task_kinds,
)
from hespas.workflows.run_config import RunConfig
from hespas.workflows.run_plan import select_network_settings
from hespas.workflows.step_facts import StepFacts, StepWork, add_network_error, find_network_cause

Figures = Mapping[str, Any]
"""The figures of a pipeline by name; ``ranks`` holds those of each rank."""
_LARGE_SHARE = 1e-3
_REDUCTIONS = (CollectiveCommType.ALL_REDUCE, CollectiveCommType.REDUCE_SCATTER)
_KIND_TITLES: Mapping[TaskKind, str] = {
    "forward": "F", "backward": "B", "input_gradient": "B", "weight_gradient": "W",
}  # fmt: skip


class TaskSpan(NamedTuple):
    """When a rank ran a task, in nanoseconds."""

    task: StageTask
    start_ns: int
    end_ns: int


def choose_pipeline_network(system: str, config: RunConfig) -> SimulatedNetwork:
    """Choose how a system is simulated: as ``hespas run`` does; raises HespasError."""
    config = config.model_copy(update={"system": system})
    choice = select_network_settings(config).build_simulator_choice()
    simulator_choice.check_simulator(choice)
    return SimulatedNetwork(configs.load_system(system), choice)


def estimate_pipeline(
    schedule: PipelineSchedule,
    stages: Sequence[StageEstimate],
    network: SimulatedNetwork,
    node: NodeSpec,
    *,
    overlap_updates: bool = False,
) -> Figures:
    """Simulate a step, and return its figures by name; None for what is not known.

    Args:
        schedule: The schedule.
        stages: The estimates of the programs of each stage.
        network: The network; its devices are those of all ranks.
        node: The type of device.
        overlap_updates: As of ``PipelineTraces``.

    Raises:
        HespasError: A stage lacks a program, or the system has another number of devices.
    """
    traces, result = simulate_pipeline(schedule, stages, network, overlap_updates=overlap_updates)
    ranks = _measure_ranks(schedule, stages, traces, result, node)
    busiest = max(ranks, key=lambda rank: rank["compute_s"])
    device_speeds = network.system.list_device_speeds()
    speeds = [min(device_speeds[d] for d in trace.list_members()) for trace in traces.ranks]
    step_s = result.step_time_ns * 1e-9
    low_s, high_s = _compute_band(step_s, busiest, schedule, stages, result) or (None, None)
    waits_s = sum(rank["bubble_s"] for rank in ranks)
    known = [rank["memory_bytes"] for rank in ranks if rank["memory_bytes"] is not None]
    peak_bytes = max(known) if len(known) == len(ranks) else None
    margin = _compute_margin(peak_bytes, node)
    facts = _collect_step_facts(schedule, stages, result, node)
    warnings = [text for stage in stages for p in stage.programs.values() for text in p.warnings]
    return {
        "step_time_s": step_s,
        "step_time_low_s": low_s,
        "step_time_high_s": high_s,
        "compute_s": busiest["compute_s"],
        "exposed_comm_s": _compute_exposed_s(busiest),
        "bubble_share": waits_s / (waits_s + sum(rank["task_s"] for rank in ranks)),
        "ideal_bubble_share": _compute_ideal_bubble(schedule, stages, speeds),
        "exposed_transfer_s": max(rank["transfer_s"] for rank in ranks),
        "peak_bytes": peak_bytes,
        "memory_margin": margin,
        "fits": None if margin is None else margin >= 0,
        **list_row_values(compute_figures(facts, "derived."), "derived."),
        "ranks": ranks,
        "warnings": [*dict.fromkeys([*warnings, *simulator_choice.list_warnings(result)])],
    }


def simulate_pipeline(
    schedule: PipelineSchedule,
    stages: Sequence[StageEstimate],
    network: SimulatedNetwork,
    slowdowns: Mapping[int, float] | None = None,
    *,
    overlap_updates: bool = False,
    intervals: bool = True,
) -> tuple[PipelineTraces, SimulationResult]:
    """Return the traces of the ranks, and the result of their simulation.

    Args:
        schedule: The schedule.
        stages: The estimates of the programs of each stage.
        network: The network; its devices are those of all ranks.
        slowdowns: By rank, how many times as long its compute takes; 1 for ranks left out.
        overlap_updates: As of ``PipelineTraces``.
        intervals: Whether the result has the times of single nodes.

    Raises:
        HespasError: As of ``estimate_pipeline``.
    """
    traces = PipelineTraces(schedule, stages, slowdowns or {}, overlap_updates=overlap_updates)
    programs = [InMemoryPrograms(trace) for trace in traces.ranks]
    options = replace(
        network.choice.options, intervals=intervals and network.choice.options.intervals
    )
    result = simulator_choice.simulate_inputs(
        place_programs_on_system(programs, network.system), SimulatorChoice("embedded", options)
    )
    return traces, result


def find_worst_straggler(
    schedule: PipelineSchedule,
    stages: Sequence[StageEstimate],
    network: SimulatedNetwork,
    factor: float,
    *,
    overlap_updates: bool = False,
) -> tuple[int, float]:
    """Find the rank that costs most if its compute takes ``factor`` times as long.

    Returns:
        The rank, and the step time in seconds.

    Raises:
        HespasError: As of ``estimate_pipeline``.
    """
    step_times_s = {}
    for rank in range(schedule.ranks):
        _, result = simulate_pipeline(
            schedule,
            stages,
            network,
            {rank: factor},
            overlap_updates=overlap_updates,
            intervals=False,
        )
        step_times_s[rank] = result.step_time_ns * 1e-9
    worst = max(step_times_s, key=step_times_s.__getitem__)
    return worst, step_times_s[worst]


def _measure_span(nodes: Mapping[int, NodeInterval], steps: range) -> tuple[int, int] | None:
    """Return the start and the end of a task in nanoseconds; None if it has no node."""
    known = [nodes[i] for i in steps if i in nodes]
    if not known:
        return None
    return min(node.start_ns for node in known), max(node.finish_ns for node in known)


def _measure_ranks(
    schedule: PipelineSchedule,
    stages: Sequence[StageEstimate],
    traces: PipelineTraces,
    result: SimulationResult,
    node: NodeSpec,
) -> list[dict[str, Any]]:
    """Measure what the first device of each rank did in the simulation.

    Of the figures of a rank, ``task_s`` is the time of its tasks, which are compute and collectives
    within a stage, ``update_s`` that of the optimiser with those of its collectives that do not run
    alongside tasks, ``bubble_s`` the time in which it waits for other stages or for its weights,
    and ``transfer_s`` the part of it in which it waits for a message whose task has ended.
    """
    devices = [trace.list_members()[0] for trace in traces.ranks]
    nodes = [
        {node.node: node for node in result.classes[result.class_of[device]]} for device in devices
    ]
    spans = [
        [
            TaskSpan(task, *span)
            for task in tasks
            if (span := _measure_span(rank_nodes, traces.tasks[task]))
        ]
        for tasks, rank_nodes in zip(schedule.tasks, nodes, strict=True)
    ]
    ends_ns = {span.task: span.end_ns for rank_spans in spans for span in rank_spans}
    schedule_ns = max(ends_ns.values(), default=0)
    figures = []
    for rank, device in enumerate(devices):
        task_ns = sum(span.end_ns - span.start_ns for span in spans[rank])
        update_ns = _measure_span(nodes[rank], traces.updates[rank])
        start_ns, end_ns = update_ns or (0, 0)
        beside = [nodes[rank][step] for step in traces.beside[rank] if step in nodes[rank]]
        beside_ns = sum(node.finish_ns - node.start_ns for node in beside)
        memory_bytes = compute_rank_memory(schedule, stages, rank)
        figures.append(
            {
                "rank": rank,
                "stages": [*schedule.list_stages(rank)],
                "compute_s": result.devices[device].compute_ns * 1e-9,
                "task_s": task_ns * 1e-9,
                "update_s": (end_ns - start_ns + beside_ns) * 1e-9,
                "bubble_s": (schedule_ns - task_ns) * 1e-9,
                "transfer_s": _sum_message_waits_ns(schedule, spans[rank], ends_ns) * 1e-9,
                "in_flight": count_in_flight(schedule, rank),
                "memory_bytes": memory_bytes,
                "memory_margin": _compute_margin(memory_bytes, node),
                "tasks_ns": [[*span.task, span.start_ns, span.end_ns] for span in spans[rank]],
                "update_ns": [start_ns, end_ns] if update_ns else None,
            }
        )
    return figures


def _compute_exposed_s(rank: Mapping[str, Any]) -> float:
    """Return the communication of a rank that its compute does not hide, in seconds."""
    return max(rank["task_s"] + rank["update_s"] - rank["compute_s"], 0.0)


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
    schedule: PipelineSchedule, stages: Sequence[StageEstimate], speeds: Sequence[float]
) -> float:
    """Compute the share of the bubble if there were compute only, at the speed of each rank."""
    rank_of = {task: rank for rank, tasks in enumerate(schedule.tasks) for task in tasks}

    def find_duration(task: StageTask) -> float:
        return stages[task.stage].get_program(task.kind).compute_ns / speeds[rank_of[task]]

    spans = time_schedule(schedule, find_duration).values()
    total = schedule.ranks * max(end for _, end in spans)
    return 1 - sum(end - start for start, end in spans) / total if total else 0.0


def _compute_band(
    step_s: float,
    slowest: Mapping[str, Any],
    schedule: PipelineSchedule,
    stages: Sequence[StageEstimate],
    result: SimulationResult,
) -> tuple[float, float] | None:
    """Compute the band of the step from that of the rank that computes longest.

    Waiting for other stages errs as their compute does, collectives and messages as the network.
    """
    programs = _list_program_runs(schedule.tasks[slowest["rank"]], stages, slowest["stages"])
    compute_ns = sum(count * program.compute_ns for program, count in programs)
    bands = [(program.band_ns, count) for program, count in programs if program.band_ns is not None]
    if len(bands) < len(programs) or not compute_ns:
        return None
    low, high = (sum(count * band[end] for band, count in bands) / compute_ns for end in (0, 1))
    exposed_s = _compute_exposed_s(slowest)
    rest_s = max(step_s - exposed_s, 0.0)
    band_s = (exposed_s + low * rest_s, exposed_s + high * rest_s)
    return add_network_error(step_s, band_s, exposed_s, find_network_cause(result.settings))


def _compute_margin(peak_bytes: int | None, node: NodeSpec) -> float | None:
    """Return the share of the node's memory that is left; None if it is not known."""
    if peak_bytes is None or not node.memory_bytes:
        return None
    return 1 - peak_bytes / node.memory_bytes


def _list_task_runs(
    tasks: Iterable[StageTask], stages: Sequence[StageEstimate]
) -> list[tuple[StageProgramEstimate, int]]:
    """List the programs of tasks, and how many times a device runs each."""
    runs = count_runs(tasks).items()
    return [(stages[stage].get_program(kind), count) for (stage, kind), count in runs]


def _list_program_runs(
    tasks: Iterable[StageTask], stages: Sequence[StageEstimate], updated: Iterable[int]
) -> list[tuple[StageProgramEstimate, int]]:
    """List the programs of tasks and the optimisers of stages, and how many times each runs."""
    updates = [stages[n].programs[UPDATE] for n in updated if UPDATE in stages[n].programs]
    return [*_list_task_runs(tasks, stages), *((update, 1) for update in updates)]


def _collect_step_facts(
    schedule: PipelineSchedule,
    stages: Sequence[StageEstimate],
    result: SimulationResult,
    node: NodeSpec,
) -> StepFacts:
    """Collect what the figures of a step are computed from, for an average device."""
    tasks, ranks = itertools.chain(*schedule.tasks), schedule.ranks
    runs = _list_program_runs(tasks, stages, range(len(stages)))
    flops: Counter[str] = Counter()
    for program, count in runs:
        for dtype, number in program.dtype_flops.items():
            flops[dtype] += count * number
    energies = [(program.energy_nj, count) for program, count in runs]
    known_energy = [count * energy for energy, count in energies if energy is not None]
    stats = {
        "program": {"devices": len(result.devices)},
        "dtypes": {dtype: {"executed_flops": number / ranks} for dtype, number in flops.items()},
        "totals": {
            "time_ns": sum(count * program.compute_ns for program, count in runs) / ranks,
            "energy_nj": sum(known_energy) / ranks if len(known_energy) == len(energies) else None,
        },
    }
    work = _sum_step_work(schedule, stages, node)
    simulated = {"step_time_s": result.step_time_ns * 1e-9}
    return StepFacts(stats=stats, node=node, work=work, simulated=simulated)


def _sum_step_work(
    schedule: PipelineSchedule, stages: Sequence[StageEstimate], node: NodeSpec
) -> StepWork:
    """Sum the work of the model over all tasks; None for facts that a program does not state."""
    runs = _list_task_runs(itertools.chain(*schedule.tasks), stages)
    flops = [program.facts.get("flops_per_step") for program, _ in runs]
    known = [
        count * number for number, (_, count) in zip(flops, runs, strict=True) if number is not None
    ]
    tokens = stages[0].get_program(FORWARD).facts.get("tokens_per_step")
    return StepWork(
        model_flops=sum(known) if len(known) == len(flops) else None,
        tokens_per_step=None if tokens is None else schedule.microbatches * tokens,
        price_per_hour=node.price_per_hour,
    )


@dataclass
class _RankTrace:
    """The trace of a rank; ``sinks`` are the steps that the next task waits for."""

    trace: ProgramTrace
    slowdown: float
    sinks: tuple[int, ...] = ()
    groups: dict[tuple[int, ...], int] = field(default_factory=dict)


@dataclass(frozen=True)
class UpdateParts:
    """The ids of the steps of an optimiser that need not run in its place.

    Attributes:
        reductions: The reductions of gradients, and what they read: they need the gradients only.
        gathers: The gathers of weights, and what reads them: only the next step needs them.
    """

    reductions: frozenset[int]
    gathers: frozenset[int]


def divide_update(program: ProgramTrace) -> UpdateParts:
    """Find the steps of an optimiser that may run alongside the tasks of its rank.

    A program sums its gradients, computes their norm and updates its weights, and gathers these, in
    this order, and its trace waits for one collective before the next. So the reductions are all
    steps up to the last large one, and the gathers those from the first gather after the last
    reduction. A reduction is large that has more than a thousandth of the bytes of all.
    """
    kinds = {
        step.id: step.content.comm_type
        for step in program.steps
        if isinstance(step.content, CollectiveContent)
    }
    sizes = {
        step.id: step.content.size
        for step in program.steps
        if isinstance(step.content, CollectiveContent) and step.content.comm_type in _REDUCTIONS
    }
    least_bytes = _LARGE_SHARE * sum(sizes.values())
    large = [number for number, size in sizes.items() if size > least_bytes]
    last_large, last = max(large, default=-1), max(sizes, default=-1)
    gathers = [number for number, kind in kinds.items() if kind == CollectiveCommType.ALL_GATHER]
    first_gather = min((number for number in gathers if number > last), default=None)
    is_ordered = not any(number < last_large for number in gathers)
    ids = [step.id for step in program.steps]
    return UpdateParts(
        frozenset(number for number in ids if is_ordered and number <= last_large),
        frozenset(number for number in ids if first_gather is not None and number >= first_gather),
    )


def select_steps(program: ProgramTrace, chosen: Collection[int], network: str = "") -> ProgramTrace:
    """Return a program of some steps of another one, under their ids.

    Each of its collectives may run alongside all others.

    Args:
        program: The program.
        chosen: The steps. What they wait for outside of them is left out.
        network: What carries the collectives, as ``CollectiveContent`` has it; "" as before.
    """
    steps = []
    for step in program.steps:
        if step.id in chosen:
            content = step.content
            if network and isinstance(content, CollectiveContent):
                content = replace(content, network=network)
            deps = tuple(d for d in step.deps if d in chosen)
            steps.append(TraceStep(step.id, deps, content))
    chain = {number: number for number in program.chain if number in chosen}
    return ProgramTrace(program.devices, program.groups, steps, chain, program.members)


class PipelineTraces:
    """The traces of all ranks.

    Attributes:
        ranks: The trace of each rank.
        tasks: The ids of the steps of each task.
        updates: Those of the optimisers of each rank, without what runs alongside tasks.
        beside: Those of the compute of these optimisers that runs alongside tasks.
    """

    def __init__(
        self,
        schedule: PipelineSchedule,
        stages: Sequence[StageEstimate],
        slowdowns: Mapping[int, float],
        *,
        overlap_updates: bool = False,
    ) -> None:
        """Build the traces.

        Args:
            schedule: The schedule.
            stages: The estimates of the programs of each stage.
            slowdowns: As of ``simulate_pipeline``.
            overlap_updates: Whether the gradients of a stage are reduced as soon as its last task
                has ended, and its weights are gathered just before its first task, as in one of
                many steps. The collectives of the stages of a rank run one after another.

        Raises:
            HespasError: A stage lacks a program, or has nothing to send.
        """
        for stage in stages:
            for kind in list_task_kinds(schedule.has_split_backward):
                stage.get_program(kind)  # the first that is missing is the error
        self._schedule, self._stages = schedule, stages
        self._rank_devices = next(iter(stages[0].programs.values())).trace.devices
        count = self._rank_devices * schedule.ranks
        self._ranks = [
            _RankTrace(
                ProgramTrace(count, members=range(first, first + self._rank_devices)),
                slowdowns.get(rank, 1.0),
            )
            for rank, first in enumerate(range(0, count, self._rank_devices))
        ]
        self._next = 2
        self._group_count = 0
        self._messages: dict[StageTask, int] = {}  # what a task receives
        self.ranks = [rank.trace for rank in self._ranks]
        self.tasks: dict[StageTask, range] = {}
        self.beside: list[list[int]] = [[] for _ in self._ranks]
        self._parts: dict[int, UpdateParts] = {}
        self._gathered: dict[int, tuple[int, ...]] = {}  # what the first task of a stage waits for
        self._reduced: list[tuple[int, ...]] = [() for _ in self._ranks]  # the last reductions
        last: dict[int, StageTask] = {}
        if overlap_updates:
            last = {task.stage: task for tasks in schedule.tasks for task in tasks}
            for rank in range(schedule.ranks):
                self._append_gathers(rank)
        for task in schedule.order_tasks():
            self._append_task(task)
            if last.get(task.stage) == task:
                self._append_reductions(task.stage)
        self.updates = [self._append_updates(rank) for rank in range(schedule.ranks)]

    def _append_task(self, task: StageTask) -> None:
        """Append a task to the trace of its rank, and the message of its result to both ends."""
        rank = self._ranks[self._schedule.find_rank(task.stage)]
        received = self._messages.pop(task, None)
        if received is not None:
            rank.sinks = (*rank.sinks, received)
        rank.sinks += self._gathered.pop(task.stage, ())
        title = f"{_KIND_TITLES[task.kind]}{task.microbatch} stage {task.stage}: "
        program = self._stages[task.stage].get_program(task.kind)
        self.tasks[task] = self._append_program(rank, program.trace, title)
        self._append_message(task)

    def _append_gathers(self, number: int) -> None:
        """Append the gathers of the weights of a rank, which the first task of each stage reads."""
        gathered: tuple[int, ...] = ()
        for stage in self._schedule.list_stages(number):
            update = self._stages[stage].programs.get(UPDATE)
            if update is not None:
                self._parts[stage] = parts = divide_update(update.trace)
                gathered = self._append_beside(number, stage, parts.gathers, gathered)
                self._gathered[stage] = gathered

    def _append_reductions(self, stage: int) -> None:
        """Append the reductions of the gradients of a stage, whose last task was appended."""
        if stage in self._parts:
            number = self._schedule.find_rank(stage)
            inputs = (*self._ranks[number].sinks, *self._reduced[number])
            chosen = self._parts[stage].reductions
            self._reduced[number] = self._append_beside(number, stage, chosen, inputs)

    def _append_beside(
        self, number: int, stage: int, chosen: Collection[int], inputs: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Append steps of the optimiser of a stage that run alongside the tasks of its rank.

        Args:
            number: The rank.
            stage: The stage.
            chosen: The steps.
            inputs: What they wait for.

        Returns:
            The ids of the steps that nothing here waits for; ``inputs`` if no step is chosen.
        """
        rank, first = self._ranks[number], len(self._ranks[number].trace.steps)
        program = select_steps(self._stages[stage].programs[UPDATE].trace, chosen, SECOND_STREAM)
        sinks, rank.sinks = rank.sinks, inputs
        self._append_program(rank, program, f"update stage {stage}: ")
        sinks, rank.sinks = rank.sinks, sinks
        appended = rank.trace.steps[first:]
        self.beside[number] += [
            step.id for step in appended if not isinstance(step.content, CollectiveContent)
        ]
        return sinks

    def _append_updates(self, number: int) -> range:
        """Append the optimisers of the stages of a rank, without what was appended already."""
        rank, first = self._ranks[number], self._next
        rank.sinks += self._reduced[number]
        for stage in self._schedule.list_stages(number):
            update = self._stages[stage].programs.get(UPDATE)
            if update is None:
                continue
            program = update.trace
            if stage in self._parts:
                parts = self._parts[stage]
                ids = {step.id for step in program.steps}
                program = select_steps(program, ids - parts.reductions - parts.gathers)
            self._append_program(rank, program, f"update stage {stage}: ")
        return range(first, self._next)

    def _append_program(self, rank: _RankTrace, program: ProgramTrace, title: str) -> range:
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
        return range(first, self._next)

    def _append_message(self, task: StageTask) -> None:
        """Append the message of a task to the traces of its sender and its receiver."""
        kind, stage, microbatch = task
        target = stage + 1 if kind == FORWARD else stage - 1
        if kind == WEIGHT_GRADIENT or not 0 <= target < self._schedule.stages:
            return
        ends = [self._schedule.find_rank(s) for s in (stage, target)]
        if ends[0] == ends[1]:
            return
        size = self._stages[stage].get_message_bytes(kind)
        offsets = [end * self._rank_devices for end in ends]
        pairs = tuple((offsets[0] + i, offsets[1] + i) for i in range(self._rank_devices))
        name = f"{_KIND_TITLES[kind]}{microbatch} stage {stage} to {target}"
        content = TransferContent(name, size, pairs)
        number, self._next = self._next, self._next + 2
        sender, receiver = (self.ranks[end] for end in ends)
        sender.steps.append(TraceStep(number, self._ranks[ends[0]].sinks, content))
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
