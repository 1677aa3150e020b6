"""The plain event simulation: every message of every collective in one queue of events.

The engine times collectives one by one, which is right where messages do not disturb each other.
Here all are under way together, so that they may wait for each other on the links of the
congestion-aware network. With the congestion-unaware one it is the reference that the engine is
tested against.
"""

from __future__ import annotations

from typing import Any

from hespas.simulators.simulation_inputs import SimulationInputs

from .collective_execution import ChunkQueues, CollectiveExecution
from .collective_plan import CollectivePlan
from .congestion_aware import CongestedNetwork
from .event_engine import CollectiveInstance, EventEngine
from .events import MessageTransport, RendezvousTransport
from .simulation_options import SimulationOptions


class MessageLevelEngine(EventEngine):
    """An engine whose collectives share its queue and its network; links are shared, as one says,
    with ``options.congestion``."""

    def __init__(self, inputs: SimulationInputs, options: SimulationOptions, **more: Any) -> None:
        super().__init__(inputs, options, **more)
        if options.congestion:
            links = CongestedNetwork(self.queue, self.planner.network)
            kind = RendezvousTransport if options.rendezvous else MessageTransport
            self.transport = kind(self.queue, links.transfer_message)
        self._queues = [ChunkQueues() for _ in inputs.devices]
        self._executions: dict[tuple, CollectiveExecution] = {}
        self._left: dict[tuple, int] = {}

    def enter_instance(
        self,
        key: tuple,
        instance: CollectiveInstance,
        rank: int,
        position: int,
        chunks: CollectivePlan,
    ) -> None:
        """A device starts its part of a collective at once, without waiting for the others."""
        communicator = instance.communicator
        if self.find_curves(instance) is not None:
            super().enter_instance(key, instance, rank, position, chunks)
            return
        self.check_start_time(communicator, self.queue.now)
        instance.joined[rank] = (position, self.queue.now)
        execution = self._executions.get(key)
        if execution is None:
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
            self._executions[key] = execution
            self._left[key] = len(communicator.members)
        execution.start_device(rank, chunks, self._queues[rank])

    def _finish_device(self, key: tuple, device: int) -> None:
        instance = self.instances[key]
        position = instance.joined[device][0]
        self._left[key] -= 1
        if self._left[key] == 0:
            self.record_collective(instance, self.queue.now)
            del self.instances[key], self._executions[key], self._left[key]
        self.runners[device].finish_node(position)
