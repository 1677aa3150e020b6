"""The cost of an algorithm on the links of groups of devices, for any number of bytes.

Invariant: messages of a round are equal, and as slow as the slowest of them, which shares the
busiest link with others. So a round of messages of b bytes takes the latency of the longest way
plus b times the largest quotient of messages on a link and capacity of the link. All lines of
devices in a form send at the same time, and share links.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hespas.configs.network_fabric import SwitchReduction

from ..algorithms.message_rounds import PIPELINE_PIECES, MessageRound
from .link_graph import LinkGraph, Messages

Array = npt.NDArray[Any]

_MOST_MESSAGES = 1 << 20  # that are routed at once


IN_SWITCH = "inSwitch"


@dataclass(frozen=True, eq=False)
class PhaseForm(ABC):
    """One algorithm on lines of devices that run it at the same time.

    Attributes:
        graph: The links.
        lines: The devices by line and position.
        endpoint_ns: The endpoint delay of a message.
        name: The name of the algorithm.
    """

    graph: LinkGraph
    lines: Array
    endpoint_ns: float
    name: str

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

    reduction: SwitchReduction
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
        return self.flow_share / (slowest * self.reduction.bandwidth_share)

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
    """

    rounds: Sequence[MessageRound]

    @property
    def latency_ns(self) -> float:
        """The time without bytes.

        Rounds that repeat, as those of a ring, take the mean latency of their messages, because a
        block passes a long way only once in each turn.
        """
        total = self.endpoint_ns
        for one in self.rounds:
            lines = self._select_typical_lines(one)
            latency_ns = 0.0
            for messages in self._list_messages(one, lines):
                latencies = self.graph.measure_latencies_ns(messages).reshape(len(lines), -1)
                ends = latencies.mean(axis=1) if one.repeats > 1 else latencies
                latency_ns = max(latency_ns, float(ends.max()))
            total += one.repeats * one.steps * (latency_ns + self.endpoint_ns)
        return total

    def _select_typical_lines(self, one: MessageRound) -> Array:
        """Return lines with the longest way: two devices of a uniform exchange, else all."""
        return self.lines[:1, :2] if self._is_uniform_exchange(one, self.lines) else self.lines

    @property
    def ns_per_byte(self) -> float:
        return self._sum_rounds(self.lines)[0]

    @property
    def reduced_share(self) -> float:
        return sum(one.reduced_share for one in self.rounds)

    @property
    def flow_share(self) -> float:
        return sum(one.repeats * one.share for one in self.rounds)

    def sum_loads(self, lines: Array) -> Array:
        return self._sum_rounds(lines)[1]

    def _sum_rounds(self, lines: Array) -> tuple[float, Array]:
        loads, ns_per_byte = np.zeros(len(self.graph.capacities)), 0.0
        for one in self.rounds:
            counts = self._count_round(one, lines)
            used = np.flatnonzero(counts)
            slowest = float((counts[used] / self.graph.capacities[used]).max(initial=0.0))
            filling = 1 + (one.steps - 1) / PIPELINE_PIECES
            ns_per_byte += one.repeats * one.share * slowest * filling
            loads += one.repeats * one.share * counts
        return ns_per_byte, loads

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
