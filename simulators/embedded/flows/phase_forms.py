"""The cost of an algorithm on the links of groups of devices, for any number of bytes.

Invariant: messages of a round are equal, and as slow as the slowest of them, which shares the
busiest link with others. So a round of messages of b bytes takes the latency of the longest way
plus b times the largest quotient of messages on a link and capacity of the link. All lines of
devices in a form send at the same time, and share links.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hespas.configs.network_fabric import SwitchReductionEntry

from ..algorithms.message_rounds import MessageRound
from ..link_arrays import Array
from .link_graph import LinkGraph, Messages

_MOST_MESSAGES = 1 << 20  # that are routed at once


@dataclass(frozen=True, eq=False)
class PhaseForm(ABC):
    """One algorithm on lines of devices that run it at the same time.

    Attributes:
        graph: The links.
        lines: The devices by line and position.
        endpoint_ns: The endpoint delay of a message.
    """

    graph: LinkGraph
    lines: Array
    endpoint_ns: float

    @property
    @abstractmethod
    def latency_ns(self) -> float:
        """The time without bytes."""

    @property
    @abstractmethod
    def ns_per_byte(self) -> float:
        """The time of a byte of the operand, without reductions on devices."""

    @property
    @abstractmethod
    def reduced_share(self) -> float:
        """The bytes that a device reduces, over those of its operand."""

    @property
    @abstractmethod
    def flow_share(self) -> float:
        """The bytes that one flow carries in all rounds, over those of the operand."""

    def split_streams(self) -> Sequence[PhaseForm]:
        """Return the parts of the form whose flows do not wait for each other."""
        return [self]

    @abstractmethod
    def sum_loads(self, lines: Array) -> Array:
        """Return the bytes on each link from some of the lines, over those of the operand."""

    @abstractmethod
    def find_crossing_lines(self, lines: Array, marked: Array) -> Array:
        """Return whether each of some lines sends across any of the links that are marked."""


@dataclass(frozen=True, eq=False)
class SwitchForm(PhaseForm):
    """Reduction and multicast in the switch of a dimension.

    Each device sends its operand once and receives the result once, through two pipelined hops.

    Attributes:
        reduction: What the switch can do.
        kind: The kind of collective.
        dim: The dimension.
    """

    reduction: SwitchReductionEntry
    kind: str
    dim: int

    @property
    def latency_ns(self) -> float:
        return 2 * (self.endpoint_ns + self.graph.latencies_ns[self.dim])

    @property
    def ns_per_byte(self) -> float:
        base = self.graph.bases[self.dim]
        ports = np.concatenate((base + self.lines, base + self.graph.place_count + self.lines))
        slowest = float(self.graph.capacities[ports].min())
        share = self.reduction.bandwidth_share
        assert share is not None, "resolved when fabric.json is read"
        return self.flow_share / (slowest * share)

    @property
    def reduced_share(self) -> float:
        return 0.0

    @property
    def flow_share(self) -> float:
        return max(self.reduction.list_link_shares(self.kind, self.lines.shape[1]))

    def sum_loads(self, lines: Array) -> Array:
        loads = np.zeros(len(self.graph.capacities))
        shares = self.reduction.list_link_shares(self.kind, lines.shape[1])
        for port, share in enumerate(shares):
            loads[self._number_ports(lines, port)] = share
        return loads

    def _number_ports(self, lines: Array, port: int) -> Array:
        return self.graph.bases[self.dim] + port * self.graph.place_count + lines

    def find_crossing_lines(self, lines: Array, marked: Array) -> Array:
        crossing = np.zeros(len(lines), dtype=bool)
        for port in range(2):
            crossing |= marked[self._number_ports(lines, port)].any(axis=1)
        return crossing


@dataclass(frozen=True, eq=False)
class MessageForm(PhaseForm):
    """An algorithm of messages between devices.

    Attributes:
        rounds: The messages of a line.
        pieces: The number of pieces of the data of pipelines.
    """

    rounds: Sequence[MessageRound]
    pieces: int = 1

    @property
    def latency_ns(self) -> float:
        """The time without bytes.

        Rounds that repeat, as those of a ring, take the mean latency of their messages, because a
        block passes a long way only once in each turn.
        """
        total = self.endpoint_ns
        for one in self.rounds:
            # Of a uniform exchange, two devices have the longest way.
            is_uniform = self._is_uniform_exchange(one, self.lines)
            lines = self.lines[:1, :2] if is_uniform else self.lines
            latency_ns = 0.0
            for messages in self._list_messages(one, lines):
                latencies = self.graph.measure_latencies_ns(messages).reshape(len(lines), -1)
                ends = latencies.mean(axis=1) if one.repeats > 1 else latencies
                latency_ns = max(latency_ns, float(ends.max()))
            steps_ns = one.steps * (latency_ns + self.endpoint_ns)
            total += one.repeats * (steps_ns + (self.pieces - 1) * self.endpoint_ns)
        return total

    @property
    def ns_per_byte(self) -> float:
        total = 0.0
        for one in self.rounds:
            streams = map(one.select_stream, range(one.stream_count))
            counts = [self._count_round(stream, self.lines) for stream in streams]
            filling = 1 + (one.steps - 1) / self.pieces
            ns_per_byte = time_streams(self.graph.capacities, counts)
            total += one.repeats * one.share * ns_per_byte * filling
        return total

    @property
    def reduced_share(self) -> float:
        return sum(one.reduced_share for one in self.rounds)

    @property
    def flow_share(self) -> float:
        return sum(one.repeats * one.share for one in self.rounds)

    def split_streams(self) -> Sequence[PhaseForm]:
        streams = max(one.stream_count for one in self.rounds)
        if streams == 1:
            return [self]
        return [
            replace(self, rounds=[one.select_stream(stream) for one in self.rounds])
            for stream in range(streams)
        ]

    def sum_loads(self, lines: Array) -> Array:
        loads = np.zeros(len(self.graph.capacities))
        for one in self.rounds:
            loads += one.repeats * one.share * self._count_round(one, lines)
        return loads

    def find_crossing_lines(self, lines: Array, marked: Array) -> Array:
        crossing = np.zeros(len(lines), dtype=bool)
        for one in self.rounds:
            for messages in self._list_messages(one, lines):
                crossing |= (
                    self.graph.find_crossing(messages, marked).reshape(len(lines), -1).any(axis=1)
                )
        return crossing

    def _count_round(self, one: MessageRound, lines: Array) -> Array:
        graph = self.graph
        total = np.zeros(len(graph.capacities))
        if self._is_uniform_exchange(one, lines):
            base = graph.bases[graph.find_only_dimension(lines) or 0]
            for port in range(2):
                total[base + port * graph.place_count + lines.reshape(-1)] = lines.shape[1] - 1
            return total
        for messages in self._list_messages(one, lines):
            total += graph.count_messages(messages)
        return total

    def _is_uniform_exchange(self, one: MessageRound, lines: Array) -> bool:
        """Return whether all positions of each line send to each other through one Switch."""
        if one.sources is not None or self.graph.has_down_links:
            return False
        dim = self.graph.find_only_dimension(lines)
        return dim is not None and self.graph.topology[dim] == "Switch"

    @staticmethod
    def _list_messages(one: MessageRound, lines: Array) -> Iterator[Messages]:
        """Yield the messages of a round on lines, in parts that fit into memory."""
        count = lines.shape[1]
        if one.sources is not None:
            ties = one.ties if isinstance(one.ties, int) else np.tile(one.ties, len(lines))
            sources, targets = lines[:, one.sources], lines[:, one.targets]
            yield Messages(sources.reshape(-1), targets.reshape(-1), ties)
            return
        positions = np.arange(count)
        width = max(1, _MOST_MESSAGES // lines.size)
        for start in range(1, count, width):
            offsets = np.arange(start, min(count, start + width))
            targets = (positions + offsets[:, None]) % count
            sources = np.broadcast_to(positions, targets.shape)
            yield Messages(
                lines[:, sources.reshape(-1)].reshape(-1), lines[:, targets.reshape(-1)].reshape(-1)
            )


def time_streams(capacities: Array, counts: Sequence[Array]) -> float:
    """Return the time of a byte in each flow of one or two streams that share links.

    The flows of a stream are as fast as its slowest. Two streams that share the busiest link have
    one rate. Otherwise one of them ends first, and leaves its links to the other.
    """
    total = counts[0] if len(counts) == 1 else counts[0] + counts[1]
    slowest = find_busiest_ns(capacities, total)
    if len(counts) == 1 or not slowest:
        return slowest
    is_busiest = total >= slowest * capacities * (1 - 1e-9)
    slow, fast = counts if (counts[0][is_busiest] > 0).any() else counts[::-1]
    if (fast[is_busiest] > 0).any():
        return slowest
    used = np.flatnonzero(fast)
    fast_rate = float(((capacities[used] - slow[used] / slowest) / fast[used]).min())
    first_ns = 1 / fast_rate
    return first_ns + (1 - first_ns / slowest) * find_busiest_ns(capacities, slow)


def find_busiest_ns(capacities: Array, loads: Array) -> float:
    """Return the time for which the busiest link is busy with its bytes."""
    used = np.flatnonzero(loads)
    return float((loads[used] / capacities[used]).max(initial=0.0))
