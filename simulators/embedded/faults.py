"""What is wrong where devices wait for ever, or do not fit together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hespas.dialects.errors import HespasError
from hespas.simulators.steps import Step

from .runner import Runner

if TYPE_CHECKING:
    from .engine import Engine, Instance


def deadlock(engine: Engine, stuck: Sequence[Runner]) -> HespasError:
    """Who waits for what."""
    runner = stuck[0]
    waiting = [p for p, s in enumerate(runner.lane.starts) if s >= 0 and runner.lane.ends[p] < 0]
    count = sum(engine.classes.size[engine.classes.of[r.rank]] for r in stuck)
    text = f"deadlock: {count} of {len(engine.inputs.devices)} devices never finish"
    if not waiting:
        position = next(p for p, s in enumerate(runner.lane.starts) if s < 0)
        return HespasError(
            f"{text}: device {runner.rank} waits here, and nothing runs that could let it go on: a "
            "node that takes no time lets others start only when something else of its device ends",
            where=runner.where(position),
        )
    holder = next((p for p in waiting if runner.steps[p].resource == "comm"), waiting[0])
    text += f"; device {runner.rank} waits {_for_what(engine, runner, holder)}"
    return HespasError(text, where=runner.where(holder), remedy=_remedy(engine))


def mismatch(
    engine: Engine, instance: Instance, runner: Runner, position: int, step: Step
) -> HespasError:
    """Two devices that meet in a communicator and want different things."""
    other, (theirs, _) = next(iter(instance.joined.items()))
    there = engine.runner(other).where(theirs)
    return HespasError(
        f"{step.kind} of {step.size} bytes on communicator {instance.communicator.id} meets "
        f"{instance.step.kind} of {instance.step.size} bytes ({there})",
        where=runner.where(position),
    )


def _for_what(engine: Engine, runner: Runner, position: int) -> str:
    step = runner.steps[position]
    if step.kind == "recv":
        return (
            f"for a message of {step.size} bytes with tag {step.tag} from device "
            f"{runner.peer(position)}"
        )
    for instance in engine.instances.values():
        if runner.rank not in instance.joined:
            continue
        here = {engine.classes.of[rank] for rank in instance.joined}
        members = instance.communicator.members
        absent = [m for m in members if engine.classes.of[m] not in here]
        if absent:
            others = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
            return (
                f"in {step.kind} of {step.size} bytes on communicator {runner.group(position)} for "
                f"device {absent[0]}{others}, which {_doing(engine.runner(absent[0]))}"
            )
    return engine.customs.waiting(runner.rank) or f"in {step.kind} of {step.size} bytes"


def _doing(runner: Runner) -> str:
    if runner.left == 0:
        return "has finished"
    for position, start in enumerate(runner.lane.starts):
        if start >= 0 and runner.lane.ends[position] < 0:
            number = runner.device.program.nodes[position].id
            return f"is in node {number} ({runner.steps[position].kind or 'compute'})"
    return "cannot go on"


def _remedy(engine: Engine) -> str:
    groups = {instance.communicator.id for instance in engine.instances.values()}
    if 0 in groups and len(engine.inputs.groups) > 1:
        return (
            "the default communicator does not go together with communicators of some devices: "
            "give all devices together an id of their own"
        )
    return "use the same order of communication on all devices"
