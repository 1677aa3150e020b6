"""The embedded simulator: inputs and options in, a result out."""

from __future__ import annotations

from contextlib import suppress

from hespas.simulators.simulation_inputs import SimulatedProgram, SimulationInputs
from hespas.simulators.simulation_result import (
    DeviceResult,
    NodeInterval,
    SimulationResult,
    compute_device_result,
)

from .collective_plan import CollectivePlanner
from .device_runner import DeviceLane, DeviceRunner
from .equivalence_classes import AmbiguousOrder, AsymmetricFinish, find_equivalence_classes
from .event_engine import EventEngine
from .message_level_engine import MessageLevelEngine
from .simulation_options import SimulationOptions
from .slowdown import SlowdownRunner

DEFAULT_OPTIONS = SimulationOptions()
MOST_MESSAGES = 1_000_000  # some 10 s
_ONE_RING = ", one ring where the devices are no grid"
BY_NUMBER = "too many messages to order within a nanosecond as ASTRA-sim does: by device number"


def run_event_simulation(
    inputs: SimulationInputs, options: SimulationOptions = DEFAULT_OPTIONS
) -> SimulationResult:
    """Simulate; the times are ASTRA-sim's congestion-unaware backend's, to the nanosecond.

    Raises HespasError with file, node, device and key where the simulation cannot end.
    """
    engine, lanes = _run_engine(inputs, options)
    totals, intervals = [], []
    for rank, lane in zip(engine.classes.first, lanes, strict=True):
        program = inputs.devices[rank].program
        totals.append(_compute_totals(program, lane))
        if options.intervals:
            intervals.append(_collect_intervals(program, lane))
    devices = [totals[known] for known in engine.classes.class_of]
    comms = sorted(engine.records, key=lambda one: (one.start_ns, one.ranks))
    class_of = engine.classes.class_of if options.intervals else ()
    return SimulationResult(
        "embedded", devices, comms, intervals, class_of, _collect_settings(engine)
    )


def _run_engine(
    inputs: SimulationInputs, options: SimulationOptions
) -> tuple[EventEngine, list[DeviceLane]]:
    """The engine and its lanes by class: with as few classes as can be.

    Where the order of what ends in one nanosecond decides what a device does next, all messages are
    simulated in one queue, which keeps that order; where they are too many, by device number.
    """
    runner = SlowdownRunner if options.slowdown else DeviceRunner
    if options.congestion:
        engine = MessageLevelEngine(inputs, options, runner=runner, ties=False)
        return engine, engine.run_all_devices()
    plain = EventEngine(inputs, options, runner=runner)
    try:
        if options.symmetry and not plain.customs.custom.has_traces:
            for positions in (False, True):
                classes = find_equivalence_classes(
                    inputs, plain.planner.network, plain.find_members, positions
                )
                engine = EventEngine(inputs, options, runner=runner, classes=classes)
                with suppress(AsymmetricFinish):
                    return engine, engine.run_all_devices()
        return plain, plain.run_all_devices()
    except AmbiguousOrder:
        pass
    if _estimate_message_count(inputs, plain.planner) <= MOST_MESSAGES:
        engine = MessageLevelEngine(inputs, options, runner=runner, ties=False)
    else:
        engine = EventEngine(inputs, options, runner=runner, ties=False)
    return engine, engine.run_all_devices()


def _estimate_message_count(inputs: SimulationInputs, planner: CollectivePlanner) -> int:
    """About how many messages there are: a collective's devices send some to each other."""
    total = 0
    for device in inputs.devices:
        for step in device.program.steps:
            if step.group >= 0 and step.kind != "broadcast":
                members = inputs.groups[device.groups.get(step.group, step.group)]
                total += 2 * len(members) * planner.split_chunks(step.kind, step.size)[0]
    return total


def _collect_settings(engine: EventEngine) -> dict[str, str]:
    """What was simulated on, and how."""
    system, options = engine.inputs.system, engine.options
    settings = {
        "system": system.name,
        "network": " x ".join(
            f"{topology} {count}"
            for topology, count in zip(system.topology, system.npus_count, strict=True)
        ),
        "congestion": "aware" if options.congestion else "unaware",
    }
    if options.by_dimension:
        settings["communicators"] = "by dimension" + (_ONE_RING if engine.has_single_ring else "")
    if engine.measured is not None:
        settings["curves"] = engine.measured.summarise_counts()
    if options.slowdown:
        settings["slowdown"] = f"{options.slowdown:g}"
    if played := engine.customs.summarise_played():
        settings["custom"] = played
    if not engine.ties and not isinstance(engine, MessageLevelEngine):
        settings["ties"] = BY_NUMBER
    return settings


def _collect_intervals(program: SimulatedProgram, lane: DeviceLane) -> list[NodeInterval]:
    names = {"cpu": "compute", "skip": "compute"}
    return [
        NodeInterval(
            program.nodes[p].id,
            lane.starts[p],
            lane.ends[p],
            names.get(program.steps[p].resource, program.steps[p].resource),
        )
        for p in sorted(lane.order, key=lambda p: (lane.starts[p], p))
    ]


def _compute_totals(program: SimulatedProgram, lane: DeviceLane) -> DeviceResult:
    spans: dict[str, list[tuple[int, int]]] = {"compute": [], "comm": [], "recv": []}
    for position in lane.order:
        resource = program.steps[position].resource
        if resource in spans:
            spans[resource].append((lane.starts[position], lane.ends[position]))
    return compute_device_result(lane.finish_ns, spans["compute"], spans["comm"] + spans["recv"])
