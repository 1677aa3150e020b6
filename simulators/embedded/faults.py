"""What is wrong where devices wait for ever, or do not fit together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hespas.simulators.simulation_steps import SimulationStep
from hespas.support.errors import HespasError

from .device_runner import DeviceRunner

if TYPE_CHECKING:
    from .event_engine import CollectiveInstance, EventEngine


def diagnose_deadlock(engine: EventEngine, stuck: Sequence[DeviceRunner]) -> HespasError:
    """Who waits for what."""
    runner = stuck[0]
    waiting = [p for p, s in enumerate(runner.lane.starts) if s >= 0 and runner.lane.ends[p] < 0]
    count = sum(engine.classes.size[engine.classes.class_of[r.rank]] for r in stuck)
    text = f"deadlock: {count} of {len(engine.inputs.devices)} devices never finish"
    if not waiting:
        position = next(p for p, s in enumerate(runner.lane.starts) if s < 0)
        return HespasError(
            f"{text}: device {runner.rank} waits here, and nothing runs that could let it go on: a "
            "node that takes no time lets others start only when something else of its device ends",
            where=runner.describe_position(position),
        )
    holder = next((p for p in waiting if runner.steps[p].resource == "comm"), waiting[0])
    text += f"; device {runner.rank} waits {_describe_wait(engine, runner, holder)}"
    return HespasError(text, where=runner.describe_position(holder), remedy=_suggest_remedy(engine))


def diagnose_mismatch(
    engine: EventEngine,
    instance: CollectiveInstance,
    runner: DeviceRunner,
    position: int,
    step: SimulationStep,
) -> HespasError:
    """Two devices that meet in a communicator and want different things."""
    other, (other_position, _) = next(iter(instance.joined.items()))
    there = engine.get_runner(other).describe_position(other_position)
    return HespasError(
        f"{step.kind} of {step.size} bytes on communicator {instance.communicator.id} meets "
        f"{instance.step.kind} of {instance.step.size} bytes ({there})",
        where=runner.describe_position(position),
    )


def _describe_wait(engine: EventEngine, runner: DeviceRunner, position: int) -> str:
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
            return (
                f"in {step.kind} of {step.size} bytes on communicator {runner.resolve_communicator(position)} for "
                f"device {absent[0]}{others}, which {_describe_activity(engine.get_runner(absent[0]))}"
            )
    return engine.customs.describe_wait(runner.rank) or f"in {step.kind} of {step.size} bytes"


def _describe_activity(runner: DeviceRunner) -> str:
    if runner.left == 0:
        return "has finished"
    for position, start in enumerate(runner.lane.starts):
        if start >= 0 and runner.lane.ends[position] < 0:
            number = runner.device.program.nodes[position].id
            return f"is in node {number} ({runner.steps[position].kind or 'compute'})"
    return "cannot go on"


def _suggest_remedy(engine: EventEngine) -> str:
    groups = {instance.communicator.id for instance in engine.instances.values()}
    if 0 in groups and len(engine.inputs.groups) > 1:
        return (
            "the default communicator does not go together with communicators of some devices: "
            "give all devices together an id of their own"
        )
    return "use the same order of communication on all devices"
