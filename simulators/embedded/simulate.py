"""The embedded simulator: inputs and options in, a result out."""

from __future__ import annotations

from contextlib import suppress

from hespas.simulators.inputs import Inputs, Program
from hespas.simulators.result import DeviceResult, Interval, Result, device_result

from .classes import NotAlike, OrderMatters, alike
from .engine import Engine
from .options import Options
from .plain import PlainEngine
from .plan import Planner
from .runner import Lane, Runner
from .slowdown import SlowRunner

MOST_MESSAGES = 1_000_000  # some 10 s
ONE_RING = ", one ring where the devices are no grid"
BY_NUMBER = "too many messages to order within a nanosecond as ASTRA-sim does: by device number"


def simulate(inputs: Inputs, options: Options = Options()) -> Result:  # noqa: B008 (frozen)
    """Simulate; the times are ASTRA-sim's congestion-unaware backend's, to the nanosecond.

    Raises HespasError with file, node, device and key where the simulation cannot end.
    """
    engine, lanes = _run(inputs, options)
    totals, kept = [], []
    for rank, lane in zip(engine.classes.first, lanes, strict=True):
        program = inputs.devices[rank].program
        totals.append(_totals(program, lane))
        if options.intervals:
            kept.append(_intervals(program, lane))
    devices = [totals[known] for known in engine.classes.of]
    comms = sorted(engine.happened, key=lambda one: (one.start_ns, one.ranks))
    class_of = engine.classes.of if options.intervals else ()
    return Result("embedded", devices, comms, kept, class_of, _settings(engine))


def _run(inputs: Inputs, options: Options) -> tuple[Engine, list[Lane]]:
    """The engine and its lanes by class: with as few classes as can be.

    Where the order of what ends in one nanosecond decides what a device does next, all messages are
    simulated in one queue, which keeps that order; where they are too many, by device number.
    """
    runner = SlowRunner if options.slowdown else Runner
    if options.congestion:
        engine = PlainEngine(inputs, options, runner=runner, ties=False)
        return engine, engine.run()
    plain = Engine(inputs, options, runner=runner)
    try:
        if options.symmetry and not plain.customs.custom.any:
            for positions in (False, True):
                classes = alike(inputs, plain.planner.network, plain.members, positions)
                engine = Engine(inputs, options, runner=runner, classes=classes)
                with suppress(NotAlike):
                    return engine, engine.run()
        return plain, plain.run()
    except OrderMatters:
        pass
    if _messages(inputs, plain.planner) <= MOST_MESSAGES:
        engine = PlainEngine(inputs, options, runner=runner, ties=False)
    else:
        engine = Engine(inputs, options, runner=runner, ties=False)
    return engine, engine.run()


def _messages(inputs: Inputs, planner: Planner) -> int:
    """About how many messages there are: a collective's devices send some to each other."""
    total = 0
    for device in inputs.devices:
        for step in device.program.steps:
            if step.group >= 0 and step.kind != "broadcast":
                members = inputs.groups[device.groups.get(step.group, step.group)]
                total += 2 * len(members) * planner.chunks(step.kind, step.size)[0]
    return total


def _settings(engine: Engine) -> dict[str, str]:
    """What was simulated on, and how."""
    system, options = engine.inputs.system, engine.options
    found = {
        "system": system.name,
        "network": " x ".join(
            f"{topology} {count}"
            for topology, count in zip(system.topology, system.npus_count, strict=True)
        ),
        "congestion": "aware" if options.congestion else "unaware",
    }
    if options.by_dimension:
        found["communicators"] = "by dimension" + (ONE_RING if engine.one_ring else "")
    if engine.measured is not None:
        found["curves"] = engine.measured.summary()
    if options.slowdown:
        found["slowdown"] = f"{options.slowdown:g}"
    if played := engine.customs.summary():
        found["custom"] = played
    if not engine.ties and not isinstance(engine, PlainEngine):
        found["ties"] = BY_NUMBER
    return found


def _intervals(program: Program, lane: Lane) -> list[Interval]:
    names = {"cpu": "compute", "skip": "compute"}
    return [
        Interval(
            program.nodes[p].id,
            lane.starts[p],
            lane.ends[p],
            names.get(program.steps[p].resource, program.steps[p].resource),
        )
        for p in sorted(lane.order, key=lambda p: (lane.starts[p], p))
    ]


def _totals(program: Program, lane: Lane) -> DeviceResult:
    spans: dict[str, list[tuple[int, int]]] = {"compute": [], "comm": [], "recv": []}
    for position in lane.order:
        resource = program.steps[position].resource
        if resource in spans:
            spans[resource].append((lane.starts[position], lane.ends[position]))
    return device_result(lane.finish_ns, spans["compute"], spans["comm"] + spans["recv"])
