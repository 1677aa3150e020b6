"""The plain event simulation: every message of every collective in one queue of events.

The engine times collectives one by one, which is right where messages do not disturb each other.
Here all are under way together, so that they may wait for each other on the links of the
congestion-aware network. With the congestion-unaware one it is the reference that the engine is
tested against.
"""

from __future__ import annotations

from typing import Any

from hespas.simulators.inputs import Inputs

from .aware import Links
from .engine import Engine, Instance
from .events import Rendezvous, Transport
from .execution import Execution, Queues
from .options import Options
from .plan import Plan


class PlainEngine(Engine):
    """An engine whose collectives share its queue and its network; links are shared, as one says,
    with ``options.congestion``."""

    def __init__(self, inputs: Inputs, options: Options, **more: Any) -> None:
        super().__init__(inputs, options, **more)
        if options.congestion:
            links = Links(self.queue, self.planner.network)
            kind = Rendezvous if options.rendezvous else Transport
            self.transport = kind(self.queue, links.transfer)
        self._queues = [Queues() for _ in inputs.devices]
        self._executions: dict[tuple, Execution] = {}
        self._left: dict[tuple, int] = {}

    def enter(self, key: tuple, instance: Instance, rank: int, position: int, chunks: Plan) -> None:
        """A device starts its part of a collective at once, without waiting for the others."""
        communicator = instance.communicator
        if self.curves_of(instance) is not None:
            super().enter(key, instance, rank, position, chunks)
            return
        self.check_start(communicator, self.queue.now)
        instance.joined[rank] = (position, self.queue.now)
        execution = self._executions.get(key)
        if execution is None:
            endpoints = {member: self.runners[member].endpoint for member in communicator.members}

            def done(device: int) -> None:
                self._done(key, device)

            execution = Execution(
                self.planner, communicator, self.queue, self.transport, endpoints, done, key
            )
            self._executions[key] = execution
            self._left[key] = len(communicator.members)
        execution.start(rank, chunks, self._queues[rank])

    def _done(self, key: tuple, device: int) -> None:
        instance = self.instances[key]
        position = instance.joined[device][0]
        self._left[key] -= 1
        if self._left[key] == 0:
            self.over(instance, self.queue.now)
            del self.instances[key], self._executions[key], self._left[key]
        self.runners[device].end(position)
