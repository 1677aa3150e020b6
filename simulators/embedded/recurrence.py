"""One phase of a chunk, for all positions at once: when each ends, given when each starts.

Invariant: each algorithm is a recurrence over rounds in which a position ends a round after its own
previous round and after the messages that it awaits, plus the endpoint delay D and, in rounds that
reduce, the reduction R. The arrays hold nanoseconds; the last axis is the position in a dimension,
and the axes before it count equal dimensions side by side. Covered are ring, direct (to all peers
at once or one by one) and halving-doubling.
Source: derived from ASTRA-sim's algorithms; the tests compare each recurrence with the simulation
message by message in ``algorithms/phase_messages.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hespas.support.errors import HespasError

from .chunk_phases import ChunkPhase, PhaseCosts, RingSteps
from .link_arrays import Array
from .link_table import LinkTable

_MAX_RING_NS = 1 << 61  # with the start, it fits into 64 bits


def solve_symmetric_direct(
    costs: PhaseCosts, table: LinkTable, phase: ChunkPhase
) -> tuple[int, int] | None:
    """Time a phase of ``direct`` on positions that look alike and start together."""
    delay, n = costs.endpoint_ns, table.position_count
    size = phase.size if phase.kind == "all_gather" else phase.size // n
    reduce = costs.reduce_ns(size)
    times = table.arrays.compute_times_ns(size)[0]
    if phase.backwards:
        times = times[-np.arange(n) % n]
    ways = times[1:]
    if phase.window == 1:
        return delay + int((ways + delay).sum()), delay
    if phase.kind != "all_reduce":
        end = delay + int(ways.max()) + delay
        return (end + reduce, reduce) if phase.kind == "reduce_scatter" else (end, delay)
    released = _compute_releases(np.sort(ways) + delay, delay + reduce)
    if _has_overtaking(released, released + ways, delay):
        return None
    twice = costs.part and n > 2
    end = int((released + ways).max()) + delay
    return end + (reduce if twice else 0), reduce if twice else delay


def solve_ring(
    costs: PhaseCosts, table: LinkTable, phase: ChunkPhase, starts: Array
) -> tuple[Array, int]:
    """Time a phase of ``ring`` for all positions; see ``CollectiveAlgorithm.solve_positions``."""
    n = starts.shape[-1]
    steps = phase.count_steps(n)
    if not phase.backwards:
        hop = table.arrays.compute_offset_ns(steps.message_bytes, 1)
        return _solve_ring_steps(costs, phase.kind, steps, hop, starts)
    # The positions are reversed, so that the ring runs forwards.
    hop = table.arrays.compute_offset_ns(steps.message_bytes, n - 1)[::-1]
    end_times, lag = _solve_ring_steps(costs, phase.kind, steps, hop, starts[..., ::-1])
    return end_times[..., ::-1], lag


def solve_direct(
    costs: PhaseCosts, table: LinkTable, phase: ChunkPhase, starts: Array
) -> tuple[Array, int] | None:
    """Time a phase of ``direct`` for all positions."""
    n = starts.shape[-1]
    size = phase.size if phase.kind == "all_gather" else phase.size // n
    times = table.arrays.compute_times_ns(size)
    if phase.backwards:
        starts, times = starts[..., ::-1], times[::-1][:, -np.arange(n) % n]
    if phase.window == 1:
        solved = _solve_one_by_one(costs, times, starts)
    else:
        solved = _solve_all_at_once(costs, phase.kind, size, times, starts)
    if solved is None:
        return None
    end_times, lag = solved
    return (end_times[..., ::-1] if phase.backwards else end_times), lag


def _solve_ring_steps(
    costs: PhaseCosts, kind: str, steps: RingSteps, hops: Array, starts: Array
) -> tuple[Array, int]:
    """Solve ``g[i] = max(g[i], g[i - 1] + T) + D (+ R)`` for the steps of a ring.

    Each step adds the same D and R to all positions, so the end of position i is determined by the
    latest ``start[i - j]`` plus j hops, for j up to the number of steps. A start may travel around
    the ring several times; ``laps`` counts the complete laps.
    """
    n = starts.shape[-1]
    size = steps.message_bytes
    reduce, delay = costs.reduce_ns(size), costs.endpoint_ns
    hop = np.broadcast_to(hops, (n,))  # to the next
    if (steps.count + 2 * n) * int(hop.max()) > _MAX_RING_NS:
        raise HespasError(f"a {kind} of messages of {size} bytes takes more than 2**61 ns")
    lap = int(hop.sum())
    way = np.concatenate(([0], np.cumsum(np.tile(hop, 2))[:-1]))  # from position 0, two laps
    ahead = np.concatenate((starts, starts), axis=-1) - way
    laps, rest = divmod(steps.count, n)
    best = _slide_maximum(ahead, n, 0, rest) + laps * lap
    if laps and rest < n - 1:
        best = np.maximum(best, _slide_maximum(ahead, n, rest + 1, n - 1) + (laps - 1) * lap)
    end_times = best + way[n:] + (1 + steps.count) * delay + steps.reductions * reduce
    return end_times, reduce if kind == "reduce_scatter" else delay


def _slide_maximum(values: Array, n: int, least: int, most: int) -> Array:
    """Return the maximum of ``values[i - most : i - least + 1]`` for each i from n to 2n - 1."""
    width, done = most - least + 1, 1
    window = values  # invariant: window[x] is the maximum of values[x : x + done]
    while done * 2 <= width:
        window = np.maximum(window[..., :-done], window[..., done:])
        done *= 2
    first = n - most
    left = window[..., first : first + n]
    shift = width - done
    return np.maximum(left, window[..., first + shift : first + shift + n])


def _solve_all_at_once(
    costs: PhaseCosts, kind: str, size: int, times: Array, starts: Array
) -> tuple[Array, int] | None:
    """Time positions that send to all others at once; in an all-reduce they do so twice."""
    n = starts.shape[-1]
    reduce, delay = costs.reduce_ns(size), costs.endpoint_ns
    begun = starts + delay
    arrived = _compute_arrivals(times, begun)
    if kind != "all_reduce":
        lag = reduce if kind == "reduce_scatter" else delay
        last = np.maximum(arrived.max(axis=-1), begun)
        return last + delay + (reduce if kind == "reduce_scatter" else 0), lag
    came = np.sort(np.maximum(arrived, begun[..., None]), axis=-1)
    released = _compute_releases(came, delay + reduce)
    position, k = np.arange(n)[:, None], np.arange(n - 1)[None, :]
    source = (position - 1 - k) % n
    way = times[0][k + 1] if len(times) == 1 else times[source, k + 1]
    second = np.maximum(released[..., source, k] + way, released)
    if _has_overtaking(released, second, delay):
        return None
    last = second.max(axis=-1)
    twice = costs.part and n > 2
    return last + delay + (reduce if twice else 0), reduce if twice else delay


def _solve_one_by_one(costs: PhaseCosts, times: Array, starts: Array) -> tuple[Array, int]:
    """Solve ``g[i] = max(g[i], g[i - o] + T) + D`` for the offsets o = 1, 2, ... n - 1.

    Every position sends to the others in turn, to the next one when the previous one has sent to
    it.
    """
    n = starts.shape[-1]
    position, delay = np.arange(n), costs.endpoint_ns
    end_times = starts + delay
    for offset in range(1, n):
        source = (position - offset) % n
        way = times[source if len(times) > 1 else 0, offset]
        end_times = np.maximum(end_times, end_times[..., source] + way) + delay
    return end_times, delay


def _compute_releases(came: Array, work_ns: int) -> Array:
    """Return when packets that arrived at the times ``came`` are sent on.

    A packet is sent on once it has been reduced, but none before the last packet has arrived.
    """
    reduced = came + work_ns
    open_from = np.where(reduced >= came[..., -1:], reduced, np.iinfo(np.int64).max)
    return np.maximum(reduced, open_from.min(axis=-1)[..., None])


def _has_overtaking(released: Array, second: Array, delay: int) -> bool:
    """Return whether a message of the second round arrives before the last packet is reduced."""
    return bool((second.min(axis=-1) + delay <= released.max(axis=-1)).any())


def _compute_arrivals(times: Array, begun: Array) -> Array:
    """Return when the messages of the others arrive: entry o is from the position o + 1 before."""
    n = begun.shape[-1]
    position, offset = np.arange(n)[:, None], np.arange(1, n)[None, :]
    source = (position - offset) % n
    way = times[0][offset] if len(times) == 1 else times[source, offset]
    return begun[..., source] + way


def solve_exchanges(
    costs: PhaseCosts, table: LinkTable, exchanges: Sequence[tuple[int, int, int]], starts: Array
) -> tuple[Array, int]:
    """Time exchanges with the positions whose numbers differ in one bit.

    Args:
        costs: The costs of the phase.
        table: The times of messages between positions.
        exchanges: The distance, the bytes, and the bytes to reduce afterwards, of each exchange.
        starts: When each position starts.
    """
    n = starts.shape[-1]
    position = np.arange(n)
    delay = costs.endpoint_ns
    end_times = starts + delay
    for distance, message, reduced in exchanges:
        partner = position ^ distance
        ahead, back = (
            np.broadcast_to(table.arrays.compute_offset_ns(message, offset), (n,))
            for offset in (distance, n - distance)
        )
        way = np.where(partner < position, ahead[partner], back[partner])
        end_times = np.maximum(end_times, end_times[..., partner] + way) + delay
        if reduced:
            end_times = end_times + costs.reduce_ns(reduced)
    return end_times, delay
