"""Simulation of devices that all run one chain of nodes, at the same times.

If all devices are one class, and each node waits for the one before it, nothing runs alongside
anything else. Each node then starts when the one before it ends, and no event queue is needed.
Invariant: the time of a collective depends on its step, its communicator and the turn of the device
in its queues, so that equal ones are timed once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hespas.simulators.simulated_program import SimulatedProgram
from hespas.simulators.simulation_result import CommRecord

from .chunk_phases import QueueTurn
from .device_runner import (
    CollectiveInstance,
    DeviceLane,
    DeviceRunner,
    JoinedDevice,
)
from .equivalence_classes import CommunicatorKey
from .unaware_engine import UnawareEngine

_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


@dataclass(frozen=True, slots=True)
class _TimedCollective:
    """The time of a collective, its first instance, and the turn that it leaves."""

    time_ns: int
    instance: CollectiveInstance
    communicator: CommunicatorKey
    copies: int
    turn: QueueTurn


def can_run_in_lockstep(engine: UnawareEngine) -> bool:
    """Return whether the devices of an engine run one chain of compute nodes and collectives."""
    first, devices = engine.classes.first, engine.inputs.devices
    return len(first) == 1 and _is_chain(devices[first[0]].program)


def _is_chain(program: SimulatedProgram) -> bool:
    followers = enumerate(program.children[:-1], 1)
    return all(position in children for position, children in followers) and all(
        step.kind in _COLLECTIVES or step.resource in ("compute", "cpu") for step in program.steps
    )


def run_in_lockstep(engine: UnawareEngine) -> list[DeviceLane]:
    """Run the simulation as ``run_all_devices`` does, if ``can_run_in_lockstep`` holds."""
    (runner,) = engine.create_runners()
    return [_LockstepRun(engine, runner).run_program()]


@dataclass
class _LockstepRun:
    """The run of the device that represents all; ``_known`` holds the collectives so far."""

    engine: UnawareEngine
    runner: DeviceRunner
    _known: dict[tuple, _TimedCollective] = field(default_factory=dict)

    def run_program(self) -> DeviceLane:
        """Run all nodes; errors are those of ``run_all_devices``."""
        runner, lane, now = self.runner, self.runner.lane, 0
        for position, step in enumerate(runner.steps):
            self.engine.queue.now = lane.starts[position] = now
            if step.kind:
                now = self._end_collective(position, now)
            else:
                now += runner.compute_duration_ns(position)
            lane.ends[position] = now
        lane.order.extend(range(len(runner.steps)))
        lane.finish_ns = now
        return lane

    def _end_collective(self, position: int, now: int) -> int:
        """Record a collective and return its end."""
        engine, runner = self.engine, self.runner
        step, group = runner.steps[position], runner.resolve_communicator(position)
        key = (id(step), group, runner.turn.to_hashable_key())
        known = self._known.get(key) if now else None  # at time 0 ASTRA-sim may abort
        if known is None:
            instance, plan, _ = engine.plan_instance(runner, position, group)
            engine.count_untimed_instance(instance)
            instance.joined[runner.rank] = JoinedDevice(position, now, plan)
            ((end, _),) = engine.time_instance(instance).values()
            engine.record_collective(instance, end)
            if engine.find_time_model(instance) is None:
                communicators = engine.classes.list_symmetric_communicators(
                    instance.communicator_class
                )
                turn = runner.turn.copy_turn_state()
                self._known[key] = _TimedCollective(
                    end - now, instance, communicators[0], len(communicators), turn
                )
            return end
        engine.count_untimed_instance(known.instance)
        runner.turn.restore_turn_state(known.turn)
        end = now + known.time_ns
        name = runner.device.program.nodes[position].name
        engine.records.append(
            CommRecord(name, step.kind, step.size, *known.communicator, now, now, end, known.copies)
        )
        return end
