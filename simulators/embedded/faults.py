"""Diagnosis of deadlocks and mismatched collectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hespas.simulators.simulation_steps import SimulationStep
from hespas.support.errors import HespasError

from .device_runner import CollectiveInstance, DeviceRunner

if TYPE_CHECKING:
    from .simulation_engine import SimulationEngine


def diagnose_deadlock(engine: SimulationEngine, stuck: Sequence[DeviceRunner]) -> HespasError:
    """Build the error of a simulation that ended while ``stuck`` runners have unfinished nodes."""
    runner = stuck[0]
    running = [p for p, s in enumerate(runner.lane.starts) if s >= 0 and runner.lane.ends[p] < 0]
    count = sum(engine.classes.size[engine.classes.class_of[r.rank]] for r in stuck)
    text = f"deadlock: {count} of {len(engine.inputs.devices)} devices never finish"
    if not running:
        position = next(p for p, s in enumerate(runner.lane.starts) if s < 0)
        return HespasError(
            f"{text}: device {runner.rank} cannot start this node, because the nodes that it waits "
            "for take no time, and nodes are started only when another node of the device ends",
            where=runner.describe_position(position),
        )
    holder = next((p for p in running if runner.steps[p].resource == "comm"), running[0])
    text += f"; device {runner.rank} waits {_describe_wait(engine, runner, holder)}"
    return HespasError(text, where=runner.describe_position(holder), remedy=_suggest_remedy(engine))


def diagnose_mismatch(
    engine: SimulationEngine,
    instance: CollectiveInstance,
    runner: DeviceRunner,
    position: int,
    step: SimulationStep,
) -> HespasError:
    """Build the error of a device that reaches a collective that differs from ``instance``."""
    other, joined = next(iter(instance.joined.items()))
    there = engine.get_runner(other).describe_position(joined.position)
    return HespasError(
        f"{step.kind} of {step.size} bytes on communicator {instance.communicator.id} meets "
        f"{instance.step.kind} of {instance.step.size} bytes ({there})",
        where=runner.describe_position(position),
    )


def _describe_wait(engine: SimulationEngine, runner: DeviceRunner, position: int) -> str:
    step = runner.steps[position]
    if step.kind == "recv":
        return (
            f"for a message of {step.size} bytes with tag {step.tag} from device "
            f"{runner.resolve_peer(position)}"
        )
    for instance in engine.instances.values():
        if runner.rank not in instance.joined:
            continue
        here = {engine.classes.class_of[rank] for rank in instance.joined}
        members = instance.communicator.members
        absent = [m for m in members if engine.classes.class_of[m] not in here]
        if absent:
            others = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
            communicator = runner.resolve_communicator(position)
            return (
                f"in {step.kind} of {step.size} bytes on communicator {communicator} for device "
                f"{absent[0]}{others}, which {_describe_activity(engine.get_runner(absent[0]))}"
            )
    return engine.customs.describe_wait(runner.rank) or f"in {step.kind} of {step.size} bytes"


def _describe_activity(runner: DeviceRunner) -> str:
    if runner.unfinished == 0:
        return "has finished"
    for position, start in enumerate(runner.lane.starts):
        if start >= 0 and runner.lane.ends[position] < 0:
            number = runner.device.program.nodes[position].id
            return f"is in node {number} ({runner.steps[position].kind or 'compute'})"
    return "cannot continue"


def _suggest_remedy(engine: SimulationEngine) -> str:
    groups = {instance.communicator.id for instance in engine.instances.values()}
    if 0 in groups and len(engine.inputs.groups) > 1:
        return (
            "do not mix the default communicator with communicators of some devices: list all "
            "devices as a communicator with its own id"
        )
    return "use the same order of communication on all devices"
