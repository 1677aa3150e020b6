"""Entry point of the embedded simulator: traces, a system and options in, a result out."""

from __future__ import annotations

import functools
from contextlib import suppress
from dataclasses import replace

from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulated_program import SimulatedProgram
from hespas.simulators.simulation_inputs import SimulationInputs
from hespas.simulators.simulation_options import SimulationOptions
from hespas.simulators.simulation_result import (
    DeviceResult,
    NodeInterval,
    SimulationResult,
    SimulationSettings,
    compute_device_result,
)
from hespas.simulators.simulation_steps import MEMORY_KIND
from hespas.support.errors import HespasError

from .collective_plan import CollectivePlanner
from .device_runner import DeviceLane, DeviceRunner
from .equivalence_classes import AmbiguousOrder, AsymmetricFinish, find_equivalence_classes
from .event_engine import EventEngine
from .lockstep import can_run_in_lockstep, run_in_lockstep
from .message_level_engine import MessageLevelEngine
from .slowdown import SlowdownRunner

DEFAULT_OPTIONS = SimulationOptions()
MAX_MESSAGES = 1_000_000  # some 10 s
_make_interval = functools.partial(tuple.__new__, NodeInterval)  # faster than a call of the class
_COMMUNICATING = ("comm", "slices", "recv")
_INTERVAL_RESOURCES = {
    "compute": "compute", "cpu": "cpu", "skip": "compute", "comm": "comm", "recv": "recv",
    "slices": "slices",
}  # fmt: skip


def run_event_simulation(
    inputs: SimulationInputs, options: SimulationOptions = DEFAULT_OPTIONS
) -> SimulationResult:
    """Simulate traces on a system.

    With the default options the times equal those of ASTRA-sim's congestion-unaware backend to the
    nanosecond.

    Raises:
        HespasError: The simulation cannot finish; it names the file, node, device and key.
    """
    engine, lanes = _run_engine(inputs, _apply_fabric(inputs.system, options))
    totals, intervals = [], []
    for rank, lane in zip(engine.classes.first, lanes, strict=True):
        program = inputs.devices[rank].program
        totals.append(_compute_totals(program, lane))
        if options.intervals:
            intervals.append(_collect_intervals(program, lane))
    devices = [totals[device_class] for device_class in engine.classes.class_of]
    comms = sorted(engine.records, key=lambda record: (record.start_ns, record.ranks))
    class_of = engine.classes.class_of if options.intervals else ()
    return SimulationResult(
        "embedded", devices, comms, intervals, class_of, _collect_settings(engine)
    )


def _apply_fabric(system: SystemSpec, options: SimulationOptions) -> SimulationOptions:
    """Return the options with what the fabric of a system requires.

    Raises:
        HespasError: The fabric has no model with the options.
    """
    fabric = system.fabric
    if options.congestion and (fabric.switch_reductions or fabric.slow_links):
        name = "switch_reductions" if fabric.switch_reductions else "slow_links"
        raise HespasError(
            f"{name} have no model with congestion",
            where=str(system.folder / "fabric.json"),
            remedy="use --no-congestion",
        )
    return replace(options, by_dimension=True) if fabric.changes_collectives else options


def _run_engine(
    inputs: SimulationInputs, options: SimulationOptions
) -> tuple[EventEngine, list[DeviceLane]]:
    """Run the fastest engine that is exact; return it with the lane of each class.

    First, one device of each class is simulated and collectives are timed alone; if there is one
    class, whose nodes form a chain, without events. If the order of
    events within a nanosecond decides what a device does next, all messages are simulated in one
    queue, which keeps ASTRA-sim's order. If there are too many messages, events within a nanosecond
    are ordered by device number instead.
    """
    runner_class = SlowdownRunner if options.slowdown else DeviceRunner

    def run_message_level() -> tuple[EventEngine, list[DeviceLane]]:
        engine = MessageLevelEngine(inputs, options, runner_class=runner_class, detects_ties=False)
        return engine, engine.run_all_devices()

    if options.congestion:
        return run_message_level()
    plain = EventEngine(inputs, options, runner_class=runner_class)
    try:
        if plain.memories.are_shared and _has_memory_accesses(inputs):
            raise AmbiguousOrder  # the order of accesses in one nanosecond matters
        is_uniform = not inputs.system.fabric.slow_links
        if options.symmetry and is_uniform and not plain.customs.traces.has_traces:
            for by_position in (False, True):
                classes = find_equivalence_classes(
                    inputs, plain.planner.network, plain.find_members, by_position
                )
                engine = EventEngine(inputs, options, runner_class=runner_class, classes=classes)
                with suppress(AsymmetricFinish):
                    if can_run_in_lockstep(engine):
                        return engine, run_in_lockstep(engine)
                    return engine, engine.run_all_devices()
        return plain, plain.run_all_devices()
    except AmbiguousOrder:
        pass
    if _estimate_message_count(inputs, plain.planner) <= MAX_MESSAGES:
        return run_message_level()
    engine = EventEngine(inputs, options, runner_class=runner_class, detects_ties=False)
    return engine, engine.run_all_devices()


def _has_memory_accesses(inputs: SimulationInputs) -> bool:
    """Return whether any device loads from or stores to remote memory."""
    programs = {id(device.program): device.program for device in inputs.devices}
    return any(step.kind == MEMORY_KIND for program in programs.values() for step in program.steps)


def _estimate_message_count(inputs: SimulationInputs, planner: CollectivePlanner) -> int:
    """Estimate the number of messages: two per member and chunk on each device of a collective."""
    total = 0
    for device in inputs.devices:
        for step in device.program.steps:
            if step.group >= 0 and step.kind != "broadcast":
                members = inputs.groups[device.groups.get(step.group, step.group)]
                total += 2 * len(members) * planner.split_chunks(step.kind, step.size)[0]
    return total


def _collect_settings(engine: EventEngine) -> SimulationSettings:
    """Describe the system and the options of a simulation."""
    system, options = engine.inputs.system, engine.options
    return SimulationSettings(
        system=system.name,
        network=" x ".join(
            f"{topology} {count}"
            for topology, count in zip(system.topology, system.npus_count, strict=True)
        ),
        congestion=options.congestion,
        by_dimension=options.by_dimension,
        single_rings=options.by_dimension and engine.has_single_ring,
        curves=engine.measured.to_curve_use() if engine.measured else None,
        between_hosts=engine.between_hosts.to_nccl_use() if engine.between_hosts else None,
        slowdown=options.slowdown,
        custom=engine.customs.summarise_played(),
        ordered_by_device=not engine.detects_ties and not isinstance(engine, MessageLevelEngine),
    )


def _collect_intervals(program: SimulatedProgram, lane: DeviceLane) -> list[NodeInterval]:
    nodes, steps, ends = program.nodes, program.steps, lane.ends
    issued = sorted([(lane.starts[p], p) for p in lane.order])
    return [
        _make_interval((nodes[p].id, start, ends[p], _INTERVAL_RESOURCES[steps[p].resource]))
        for start, p in issued
    ]


def _compute_totals(program: SimulatedProgram, lane: DeviceLane) -> DeviceResult:
    steps, starts, ends = program.steps, lane.starts, lane.ends
    compute = [(starts[p], ends[p]) for p in lane.order if steps[p].resource == "compute"]
    comm = [(starts[p], ends[p]) for p in lane.order if steps[p].resource in _COMMUNICATING]
    return compute_device_result(lane.finish_ns, compute, comm)
