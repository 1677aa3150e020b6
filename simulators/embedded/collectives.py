"""When the devices of a collective finish, given when each starts.

A collective is timed alone, as messages do not disturb each other in this model. Where all devices
look alike and start together one stands for all; where there is a recurrence it is used; the rest
is simulated message by message. Equal collectives are timed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hespas.dialects.errors import HespasError

from . import recurrence
from .alike import pipeline
from .events import Call, Endpoint, EventQueue, Rendezvous, Transfer, Transport
from .execution import Execution
from .links import Array, Table, table
from .network import Network
from .plan import Communicator, Phase, Plan, Planner


class Finish(NamedTuple):
    """When a device finishes, and when it knew: ``since_ns`` is the start of the last wait."""

    end_ns: int
    since_ns: int


def unaware(network: Network, queue: EventQueue) -> Transfer:
    """The transfer function of the congestion-unaware network."""
    cache: dict[tuple[int, int, int], int] = {}

    def transfer(source: int, target: int, size: int, arrive: Call, argument: Any) -> None:
        time = cache.get((source, target, size))
        if time is None:
            time = cache[source, target, size] = network.transfer_ns(source, target, size)
        queue.at(queue.now + time, arrive, argument)

    return transfer


class Collectives:
    """Times collectives one by one. ``by_message``: always message by message."""

    def __init__(self, planner: Planner, by_message: bool = False) -> None:
        self.planner = planner
        self.by_message = by_message or planner.options.rendezvous
        self._known: dict[tuple, list[Finish]] = {}
        self._alike: dict[tuple[int, int], Finish | None] = {}
        self._tables: dict[tuple[int, int], Table] = {}

    def alike(self, communicator: Communicator, plan: Plan) -> Finish | None:
        """For devices that all start at 0, where they cannot be told apart; else None."""
        key = (communicator.shape, id(plan))
        if key not in self._alike:
            self._alike[key] = None if self.by_message else self._one(communicator, plan)
        return self._alike[key]

    def finish(
        self, communicator: Communicator, starts: Sequence[int], plans: Sequence[Plan]
    ) -> list[Finish]:
        """By position in the communicator; ``plans`` are those of the devices.

        Raises HespasError where devices wait for each other for ever.
        """
        first, same = min(starts), plans.count(plans[0]) == len(plans)
        if same and max(starts) == first:
            one = self.alike(communicator, plans[0])
            if one is not None:
                return [Finish(one.end_ns + first, one.since_ns + first)] * len(starts)
        after = tuple([s - first for s in starts])
        key = (communicator.shape, after, id(plans[0]) if same else tuple(map(id, plans)))
        found = self._known.get(key)
        if found is None:
            if same and not self.by_message:
                found = self._together(communicator, after, plans[0])
            found = self._known[key] = found or self._run(communicator, after, plans)
        return [Finish(end + first, since + first) for end, since in found]

    def _costs(self, communicator: Communicator) -> recurrence.Costs:
        planner = self.planner
        delay_ns = planner.delay_ns(communicator)
        return recurrence.Costs(planner.network, delay_ns, planner.reduce_ns, communicator.part)

    def _table(self, communicator: Communicator, dim: int) -> Table:
        key = (communicator.shape, dim)
        if key not in self._tables:
            self._tables[key] = table(self.planner.network, communicator.dims[dim])
        return self._tables[key]

    def _known_phases(self, communicator: Communicator, plan: Plan) -> bool:
        return all(
            recurrence.known(communicator.dims[phase.dim].algorithm, phase.kind)
            for chunk in plan
            for phase in chunk
        )

    def _one(self, communicator: Communicator, plan: Plan) -> Finish | None:
        """One device's way through a collective that all start together."""
        if not self._known_phases(communicator, plan):
            return None
        costs = self._costs(communicator)
        times: dict[tuple, tuple[int, int]] = {}
        for chunk in plan:
            for phase in chunk:
                key = (phase.kind, phase.dim, phase.size, phase.backwards)
                if key in times:
                    continue
                dim = communicator.dims[phase.dim]
                links = self._table(communicator, phase.dim)
                time = recurrence.alike(costs, links, dim.algorithm, phase, dim.count)
                if time is None:
                    return None
                times[key] = time
        return Finish(*pipeline(self.planner, communicator, plan, times))

    def _together(
        self, communicator: Communicator, starts: Sequence[int], plan: Plan
    ) -> list[Finish] | None:
        """All devices at once, chunk after chunk; None where chunks may get in each other's way."""
        if not self._known_phases(communicator, plan):
            return None
        costs = self._costs(communicator)
        now = np.array(starts, dtype=np.int64)
        if len(set(plan)) == 1 and len(plan[0]) == 1:
            phase = plan[0][0]
            dim, links = communicator.dims[phase.dim], self._table(communicator, phase.dim)
            lag = 0
            for _ in range(-(-len(plan) // self.planner.active)):
                found = recurrence.ends(costs, links, dim.algorithm, phase, now[None, :])
                if found is None:
                    return None
                now, lag = found[0][0], found[1]
        elif len(plan) == 1 and communicator.grid:
            lag = 0
            for phase in plan[0]:
                found = self._phase(costs, communicator, phase, now)
                if found is None:
                    return None
                now, lag = found
        else:
            return None
        return [Finish(end, end - lag) for end in now.tolist()]

    def _phase(
        self, costs: recurrence.Costs, communicator: Communicator, phase: Phase, starts: Array
    ) -> tuple[Array, int] | None:
        """One phase of a chunk of a grid of devices: the dimension's lines side by side."""
        dim, links = communicator.dims[phase.dim], self._table(communicator, phase.dim)
        grid = starts.reshape(-1, dim.count, dim.stride)
        lines = np.moveaxis(grid, 1, 2).reshape(-1, dim.count)
        solved = recurrence.ends(costs, links, dim.algorithm, phase, lines)
        if solved is None:
            return None
        found, lag = solved
        grid = np.moveaxis(found.reshape(-1, dim.stride, dim.count), 2, 1)
        return grid.reshape(-1), lag

    def _run(
        self, communicator: Communicator, starts: Sequence[int], plans: Sequence[Plan]
    ) -> list[Finish]:
        """Message by message."""
        queue = EventQueue()
        endpoints = {device: Endpoint(queue) for device in communicator.members}
        kind = Rendezvous if self.planner.options.rendezvous else Transport
        transport = kind(queue, unaware(self.planner.network, queue))
        ends: dict[int, Finish] = {}

        def done(device: int) -> None:
            ends[device] = Finish(queue.now, endpoints[device].registered)

        execution = Execution(self.planner, communicator, queue, transport, endpoints, done)

        def start(position: int) -> None:
            execution.start(communicator.members[position], plans[position])

        for position, tick in enumerate(starts):
            queue.at(tick, start, position)
        queue.run()
        missing = [device for device in communicator.members if device not in ends]
        if missing:
            raise HespasError(
                f"the chunks of the collective block each other on {len(missing)} devices (first: "
                f"{missing[0]})",
                remedy="raise active-chunks-per-dimension to preferred-dataset-splits",
            )
        return [ends[device] for device in communicator.members]
