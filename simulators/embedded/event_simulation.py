"""Entry point of the embedded simulator: traces, a system and options in, a result out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from hespas.simulators.simulation_inputs import SimulationInputs
from hespas.simulators.simulation_options import ASTRA, FLOWS, SimulationOptions
from hespas.simulators.simulation_result import SimulationResult, SimulationSettings
from hespas.simulators.simulation_steps import MEMORY_KIND
from hespas.support.errors import UsageError

from .collective_plan import CollectivePlanner, encode_link_form
from .device_runner import DeviceLane, DeviceRunner, SlowdownRunner
from .equivalence_classes import (
    AmbiguousOrder,
    AsymmetricFinish,
    find_equivalence_classes,
)
from .network import AnalyticalNetwork
from .simulation_engine import SimulationEngine
from .unaware_engine import MessageLevelEngine, UnawareEngine

DEFAULT_OPTIONS = SimulationOptions()
MAX_MESSAGES = 1_000_000  # some 10 s


def run_event_simulation(
    inputs: SimulationInputs, options: SimulationOptions = DEFAULT_OPTIONS
) -> SimulationResult:
    """Simulate traces on a system.

    With ASTRA-sim's network model the times equal those of its congestion-unaware backend to the
    nanosecond, and with ``options.congestion`` those of its congestion-aware backend.

    Raises:
        HespasError: The simulation cannot finish; it names the file, node, device and key.
        UsageError: The options contradict each other.
    """
    if options.congestion and options.network_model == FLOWS:
        raise UsageError(
            "the flow-level model shares links by itself, and congestion is ASTRA-sim's model",
            remedy="use one of them",
        )
    if options.find_network_model(inputs.system) == FLOWS:
        from .flows.flow_engine import run_flow_engine

        engine, lanes = run_flow_engine(inputs, options, _choose_runner(options))
    else:
        engine, lanes = _run_engine(inputs, options)
    totals, intervals = [], []
    for rank, lane in zip(engine.classes.first, lanes, strict=True):
        program = inputs.devices[rank].program
        totals.append(lane.compute_totals(program))
        if options.intervals:
            intervals.append(lane.collect_intervals(program))
    devices = [totals[device_class] for device_class in engine.classes.class_of]
    comms = sorted(engine.records, key=lambda record: (record.start_ns, record.ranks))
    class_of = engine.classes.class_of if options.intervals else ()
    settings, link_use = _collect_settings(engine), engine.collect_link_use(comms)
    return SimulationResult("embedded", devices, comms, intervals, class_of, settings, link_use)


def _choose_runner(options: SimulationOptions) -> type[DeviceRunner]:
    return SlowdownRunner if options.slowdown else DeviceRunner


@dataclass(frozen=True)
class _AstraLinkForms:
    """Describes links by what ASTRA-sim's congestion-unaware network charges."""

    network: AnalyticalNetwork

    def describe_groups(
        self, groups: Sequence[tuple[int, tuple[int, ...], tuple[bool, ...]]]
    ) -> list[tuple[Hashable, Hashable]]:
        host = self.network.counts[0]
        forms: list[tuple[Hashable, Hashable]] = []
        for _, members, spanned in groups:
            form: tuple = (len(members), spanned)
            if len(members) < self.network.device_count and not spanned:
                hosts = len({member // host for member in members})
                form = (encode_link_form(self.network, members), hosts)
            forms.append((form, form))  # collectives are not planned
        return forms

    def describe_messages(self, pairs: Sequence[tuple[int, int]]) -> list[Hashable]:
        return [self.network.find_route(source, target) for source, target in pairs]


def _run_engine(
    inputs: SimulationInputs, options: SimulationOptions
) -> tuple[UnawareEngine, list[DeviceLane]]:
    """Run the fastest engine that is exact; return it with the lane of each class.

    First, one device of each class is simulated and collectives are timed alone. If the order of
    events within a nanosecond decides what a device does next, all messages are simulated in one
    queue, which keeps ASTRA-sim's order. If there are too many messages, events within a nanosecond
    are ordered by device number instead.
    """
    runner_class = _choose_runner(options)

    def run_message_level() -> tuple[UnawareEngine, list[DeviceLane]]:
        engine = MessageLevelEngine(inputs, options, runner_class=runner_class, detects_ties=False)
        return engine, engine.run_all_devices()

    if options.congestion:
        return run_message_level()
    plain = UnawareEngine(inputs, options, runner_class=runner_class)
    try:
        if plain.memories.are_shared and _has_memory_accesses(inputs):
            raise AmbiguousOrder  # the order of accesses in one nanosecond matters
        if options.symmetry and not options.links and not plain.customs.traces.has_traces:
            for by_position in (False, True):
                classes = find_equivalence_classes(
                    inputs, _AstraLinkForms(plain.planner.network), plain.find_members, by_position
                )
                engine = UnawareEngine(inputs, options, runner_class=runner_class, classes=classes)
                with suppress(AsymmetricFinish):
                    return engine, engine.run_all_devices()
        return plain, plain.run_all_devices()
    except AmbiguousOrder:
        pass
    if _estimate_message_count(inputs, plain.planner) <= MAX_MESSAGES:
        return run_message_level()
    engine = UnawareEngine(inputs, options, runner_class=runner_class, detects_ties=False)
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


def _collect_settings(engine: SimulationEngine) -> SimulationSettings:
    """Describe the system and the options of a simulation."""
    system, options = engine.inputs.system, engine.options
    model = options.find_network_model(system)
    return SimulationSettings(
        system=system.name,
        network=" x ".join(
            f"{topology} {count}"
            for topology, count in zip(system.topology, system.npus_count, strict=True)
        ),
        network_model=f"{model}, congestion" if options.congestion else model,
        congestion=options.congestion if model == ASTRA else None,
        curves=engine.measured.to_model_use() if engine.measured else None,
        between_hosts=engine.between_hosts.to_model_use() if engine.between_hosts else None,
        slowdown=options.slowdown,
        device_speeds=system.fabric.device_speeds,
        custom=engine.customs.summarise_played(),
        ordered_by_device=engine.orders_by_device,
        replayed_broadcasts=engine.replayed_broadcasts,
    )
