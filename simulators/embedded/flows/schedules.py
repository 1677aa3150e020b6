"""The schedule of a collective: which algorithm runs in which dimension, on how many bytes, when.

A collective between devices that form a grid takes the dimensions one after another: all but the
last of an all-reduce scatter and later gather what they have reduced. Its data is divided into
parts that take the dimensions in different orders, and into pieces that follow each other, so that
all dimensions are busy. A dimension serves one phase of one piece at a time, in the order in which
they arrive. Other collectives are one phase between all of their devices.

Invariant: of all schedules that a network allows, the fastest for the size is taken. Its time alone
is that of the phases in their queues.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .phase_forms import PhaseForm

PIECE_COUNTS = (1, 2, 4, 8, 16)
"""Into how many pieces the parts of a schedule may be divided."""
_LEAST_GAIN = 0.01  # the share of the time that twice as many pieces must save


class PhaseKey(NamedTuple):
    """A kind of collective between devices that differ in some dimensions; () for whole groups."""

    kind: str
    dims: tuple[int, ...]


class SchedulePhase(NamedTuple):
    """A phase of one piece.

    Attributes:
        form: The algorithm on the links.
        size: The bytes of the operand of a device.
        server: The tier of dimensions that serves one phase at a time; -1 for all of them.
    """

    form: PhaseForm
    size: float
    server: int


class FlowStream(NamedTuple):
    """Flows that have the rate of the slowest of them.

    Attributes:
        sizes: The bytes of the operands of all phases of each form.
        flow_bytes: The bytes that one flow carries: those of the tier in which it carries most.
    """

    sizes: Mapping[PhaseForm, float]
    flow_bytes: float


@dataclass(frozen=True, eq=False)
class CollectiveSchedule:
    """The chosen schedule of a collective.

    Attributes:
        kind: The kind of collective.
        size: The bytes of the operand of a device.
        chunks: The phases of each piece of each part, pieces in the order in which they are sent.
        time_ns: The time if no other collective or message is under way.
        order: The phases in the order in which they start, by number of chunk and phase.
    """

    kind: str
    size: float
    chunks: Sequence[Sequence[SchedulePhase]]
    time_ns: float
    order: Sequence[tuple[int, int]]

    @functools.cached_property
    def streams(self) -> Sequence[FlowStream]:
        """The flows that do not wait for each other, each with all of its bytes.

        Those of several phases are one stream, whose phases alternate.
        """
        if len(self.chunks) == len(self.chunks[0]) == 1:
            ((phase,),) = self.chunks
            return [
                FlowStream({form: phase.size}, phase.size * form.flow_share)
                for form in phase.form.split_streams()
            ]
        sizes: dict[PhaseForm, float] = {}
        flow_bytes: dict[int, float] = {}
        for chunk in self.chunks:
            for phase in chunk:
                sizes[phase.form] = sizes.get(phase.form, 0.0) + phase.size
                moved = phase.size * phase.form.flow_share
                flow_bytes[phase.server] = flow_bytes.get(phase.server, 0.0) + moved
        return [FlowStream(sizes, max(flow_bytes.values()))]


class PhaseTime(NamedTuple):
    """The time of a phase by its bytes, and the form that takes it."""

    form: PhaseForm
    latency_ns: float
    ns_per_byte: float

    def compute_ns(self, size: float) -> float:
        """Compute the time in nanoseconds."""
        return self.latency_ns + size * self.ns_per_byte


class SchedulePlanner:
    """Finds the fastest schedule of collectives between alike groups of devices.

    Attributes:
        times: Returns the ways to run a phase, each with its time by bytes.
        servers: The tier of each dimension.
        counts: The devices of a group in a line of each dimension.
        at_once: Whether dimensions work on different parts at the same time.
    """

    def __init__(
        self,
        times: Callable[[PhaseKey], Sequence[PhaseTime]],
        servers: Sequence[int],
        counts: Sequence[int],
        at_once: bool,
    ) -> None:
        self._times, self._servers, self._counts, self._at_once = times, servers, counts, at_once

    def choose_schedule(
        self, kind: str, size: float, dims: Sequence[int], *, is_flat: bool
    ) -> CollectiveSchedule:
        """Return the fastest schedule.

        Args:
            kind: The kind of collective.
            size: The bytes of the operand of a device.
            dims: The dimensions in which the devices of a group differ if they form a grid.
            is_flat: Whether one phase between all devices is possible.
        """
        schedules: list[CollectiveSchedule] = []
        if is_flat:
            for time in self._times(PhaseKey(kind, ())):
                phase = SchedulePhase(time.form, size, -1)
                time_ns = time.compute_ns(size)
                schedules.append(CollectiveSchedule(kind, size, [[phase]], time_ns, [(0, 0)]))
        if dims and kind == "all_to_all":
            schedules.append(self._schedule_exchange(size, dims))
        elif dims:
            schedules += self._list_grid_schedules(kind, size, dims)
        return min(schedules, key=lambda one: one.time_ns)

    def _schedule_exchange(self, size: float, dims: Sequence[int]) -> CollectiveSchedule:
        """Schedule an all-to-all, whose messages cross all dimensions without a stop."""
        tiers: dict[int, list[int]] = {}
        for dim in dims:
            tiers.setdefault(self._servers[dim], []).append(dim)
        times = {
            server: self._choose_time("all_to_all", tier, size) for server, tier in tiers.items()
        }
        latency_ns = sum(time.latency_ns for time in times.values())
        busiest_ns = max(size * time.ns_per_byte for time in times.values())
        chunks = [[SchedulePhase(time.form, size, server)] for server, time in times.items()]
        order = [(chunk, 0) for chunk in range(len(chunks))]
        return CollectiveSchedule("all_to_all", size, chunks, latency_ns + busiest_ns, order)

    def _list_grid_schedules(
        self, kind: str, size: float, dims: Sequence[int]
    ) -> Iterator[CollectiveSchedule]:
        """Yield schedules that take one dimension after the other.

        They are single orders, which send the fewest messages; equal parts, which suit equal
        dimensions; and the shares for which the busiest dimension is busy for the shortest time, of
        all orders, and of those that leave one dimension, such as a slow one, for the fewest bytes.
        Shares are divided into more and more pieces as long as they save time.
        """
        if len(dims) == 1 or not self._at_once:
            yield self._time_orders(kind, size, [(tuple(dims), 1.0)], 1)
            return
        orders = _list_orders(dims)
        for order in orders:
            yield self._time_orders(kind, size, [(order, 1.0)], 1)
        if not size:  # there is nothing to divide
            return
        rotations = orders[: len(dims)]
        yield self._time_orders(kind, size, [(o, 1 / len(rotations)) for o in rotations], 1)
        choices = [orders]
        if len(dims) > 2:
            choices += [[order for order in orders if order[-1] == dim] for dim in dims]
        for choice in choices:
            yield from self._list_balanced_schedules(kind, size, choice)

    def _list_balanced_schedules(
        self, kind: str, size: float, orders: Sequence[tuple[int, ...]]
    ) -> Iterator[CollectiveSchedule]:
        loads = tuple(self._compute_loads(order, size) for order in orders)
        shares = balance_shares(loads)
        used = [(o, share) for o, share in zip(orders, shares, strict=True) if share > 1e-6]
        former_ns = math.inf
        for pieces in PIECE_COUNTS:
            schedule = self._time_orders(kind, size, used, pieces)
            yield schedule
            if schedule.time_ns > (1 - _LEAST_GAIN) * former_ns:
                return
            former_ns = schedule.time_ns

    def _compute_loads(self, order: Sequence[int], size: float) -> tuple[float, ...]:
        """Return the time that each tier is busy with a reduce-scatter in an order."""
        loads = dict.fromkeys(self._servers, 0.0)
        for dim in order:
            time = self._choose_time("reduce_scatter", [dim], size)
            loads[self._servers[dim]] += size * time.ns_per_byte
            size /= self._counts[dim]
        return tuple(loads.values())

    def _time_orders(
        self, kind: str, size: float, orders: Sequence[tuple[Sequence[int], float]], pieces: int
    ) -> CollectiveSchedule:
        """Build the schedule of parts with their shares, and time it in its queues."""
        plans = [self._plan_phases(kind, size * share / pieces, order) for order, share in orders]
        chunks = [[phase for phase, _ in plan] for plan in plans] * pieces
        times = [[time for _, time in plan] for plan in plans] * pieces
        servers = [[phase.server for phase in chunk] for chunk in chunks]
        served = list(serve_phases(servers, times))
        order = [(chunk, number) for chunk, number, _ in served]
        return CollectiveSchedule(kind, size, chunks, max(end for _, _, end in served), order)

    def _plan_phases(
        self, kind: str, size: float, order: Sequence[int]
    ) -> list[tuple[SchedulePhase, float]]:
        """Plan the phases of a piece, each with its time."""
        if kind == "all_reduce":
            kinds = (
                ["reduce_scatter"] * (len(order) - 1) + [kind] + ["all_gather"] * (len(order) - 1)
            )
            dims = [*order, *reversed(order[:-1])]
        else:
            kinds = [kind] * len(order)
            dims = list(reversed(order) if kind == "all_gather" else order)
        phases = []
        for phase_kind, dim in zip(kinds, dims, strict=True):
            time = self._choose_time(phase_kind, [dim], size)
            phase = SchedulePhase(time.form, size, self._servers[dim])
            phases.append((phase, time.compute_ns(size)))
            if phase_kind == "reduce_scatter":
                size /= self._counts[dim]
            elif phase_kind == "all_gather":
                size *= self._counts[dim]
        return phases

    def _choose_time(self, kind: str, dims: Sequence[int], size: float) -> PhaseTime:
        times = self._times(PhaseKey(kind, tuple(dims)))
        return min(times, key=lambda time: time.compute_ns(size))


def serve_phases(
    servers: Sequence[Sequence[int]], times: Sequence[Sequence[float]]
) -> Iterator[tuple[int, int, float]]:
    """Yield the chunk, the number of its phase and its end, in the order in which phases start.

    The chunks take their phases one after another, and wait for the server of each in the order in
    which they arrive.
    """
    arrivals = [(0.0, number, number, 0) for number in range(len(servers))]
    free_ns: dict[int, float] = {}
    order = len(servers)
    while arrivals:
        arrival_ns, _, chunk, number = heapq.heappop(arrivals)
        server = servers[chunk][number]
        end_ns = max(arrival_ns, free_ns.get(server, 0.0)) + times[chunk][number]
        free_ns[server] = end_ns
        yield chunk, number, end_ns
        if number + 1 < len(servers[chunk]):
            heapq.heappush(arrivals, (end_ns, order, chunk, number + 1))
            order += 1


def _list_orders(dims: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the rotations of the dimensions upwards and downwards: up to three, all orders."""
    turns = (tuple(dims), tuple(reversed(dims)))
    rotated = [(*turn[at:], *turn[:at]) for turn in turns for at in range(len(turn))]
    return list(dict.fromkeys(rotated))


@functools.lru_cache(maxsize=64)
def balance_shares(loads: tuple[tuple[float, ...], ...]) -> tuple[float, ...]:
    """Return the shares of orders for which the largest load of a tier is least.

    This is the best strategy of a matrix game. One that uses k orders makes the loads of k tiers
    equal, so the shares solve the equations of a square part of the matrix.

    Args:
        loads: The load of each tier, by order, if everything takes that order.

    Returns:
        The share of each order, with as few shares other than 0 as possible.
    """
    import numpy as np

    matrix = np.array(loads).T
    tiers, orders = map(range, matrix.shape)
    best, least = np.zeros(len(orders)), np.inf
    for count in range(1, len(tiers) + 1):
        for rows, columns in itertools.product(
            itertools.combinations(tiers, count), itertools.combinations(orders, count)
        ):
            try:
                solved = np.linalg.solve(matrix[np.ix_(rows, columns)], np.ones(count))
            except np.linalg.LinAlgError:  # these tiers cannot be made equal
                continue
            if (solved < 0).any():
                continue
            shares = np.zeros(len(orders))
            shares[list(columns)] = solved / solved.sum()
            load = (matrix @ shares).max()
            if load < least * (1 - 1e-9):
                best, least = shares, load
    return tuple(best.tolist())
