"""The message-level engine: every message of every collective is an event of one queue.

The event engine times collectives one by one, which is exact as long as messages do not delay each
other. Here all collectives run at once, so that their messages can wait for each other on the links
of the congestion-aware network. With the congestion-unaware network it is the reference that the
event engine is tested against. Each device is its own class here, so device ids index runners.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hespas.simulators.simulation_inputs import SimulationInputs
from hespas.simulators.simulation_options import SimulationOptions

from .collective_execution import ChunkQueues, CollectiveExecution
from .congestion_aware import CongestedNetwork
from .device_runner import CollectiveInstance
from .events import TransferFunction
from .unaware_engine import UnawareEngine


@dataclass(slots=True)
class _RunningCollective:
    """A collective under way, and the number of devices that have not finished it."""

    execution: CollectiveExecution
    unfinished: int


class MessageLevelEngine(UnawareEngine):
    """An engine whose collectives share its event queue and its network.

    With ``options.congestion``, messages on a link share its bandwidth.
    """

    runs_messages: ClassVar[bool] = True

    def __init__(
        self, inputs: SimulationInputs, options: SimulationOptions, **engine_options: Any
    ) -> None:
        super().__init__(inputs, options, **engine_options)
        self._chunk_queues = [ChunkQueues() for _ in inputs.devices]
        self._running: dict[tuple, _RunningCollective] = {}  # by key of its instance

    def make_transfer(self) -> TransferFunction:
        """Return the function that carries the messages."""
        if self.options.congestion:
            return CongestedNetwork(self.queue, self.planner.network).transfer_message
        return super().make_transfer()

    def enter_instance(self, key: tuple, instance: CollectiveInstance, rank: int) -> None:
        """Start a device's part of a collective at once, without waiting for the other devices."""
        communicator = instance.communicator
        if self.find_time_model(instance) is not None:
            super().enter_instance(key, instance, rank)
            return
        self.check_start_time(communicator, self.queue.now)
        running = self._running.get(key)
        if running is None:
            endpoints = {member: self.runners[member].endpoint for member in communicator.members}

            def finish_device(device: int) -> None:
                self._finish_device(key, device)

            execution = CollectiveExecution(
                self.planner,
                communicator,
                self.queue,
                self.transport,
                endpoints,
                finish_device,
                key,
            )
            running = _RunningCollective(execution, len(communicator.members))
            self._running[key] = running
        plan = instance.joined[rank].plan
        running.execution.start_device(rank, plan, self._chunk_queues[rank])

    def _finish_device(self, key: tuple, device: int) -> None:
        instance, running = self.instances[key], self._running[key]
        running.unfinished -= 1
        if running.unfinished == 0:
            self.record_collective(instance, self.queue.now)
            del self.instances[key], self._running[key]
        self.runners[device].finish_node(instance.joined[device].position)
