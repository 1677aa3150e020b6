"""The messages of ASTRA-sim's algorithms, one object per device, chunk and phase.

A phase is driven by three calls: ``start_phase``; ``accept_message`` when a message has arrived;
``release_packet`` when a packet has passed the endpoint and, if it needs one, a reduction.
Invariant: packets are sent in the order in which they were scheduled. Each class restates the class
of ASTRA-sim's algorithm (astraccl/native_collectives/collective_algorithm) and keeps its order of
events.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

from ..chunk_phases import ChunkPhase


@dataclass(frozen=True, slots=True)
class PhasePlace:
    """The part of a device in a phase of a chunk.

    Attributes:
        phase: The phase.
        ring: The devices of the dimension, by position.
        index: The position of the device.
        part: Whether the collective is one ring over some of the devices.
    """

    phase: ChunkPhase
    ring: tuple[int, ...]
    index: int
    part: bool


class AlgorithmPort(Protocol):
    """The services that an algorithm uses on its device, for its chunk."""

    def schedule_packet(self, algorithm: Any, size: int, reduce: bool) -> None:
        """Call ``algorithm.release_packet`` after the endpoint delay and the reduction, if any."""
        ...

    def send_message(self, target: int, size: int) -> None:
        """Send a message."""
        ...

    def await_message(self, algorithm: Any, source: int, size: int) -> None:
        """Call ``algorithm.accept_message`` when a message arrives."""
        ...

    def finish_phase(self) -> None:
        """End this phase of the chunk."""
        ...


class ReductionRounds:
    """Selects the packets to reduce: those after the first of a round, in every other round."""

    __slots__ = ("first_left", "kind", "reducing", "rest_left")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.first_left = self.rest_left = 0
        self.reducing = False

    def _is_next_reduced(self, first: int, rest: int) -> bool:
        """Return whether to reduce the next packet, in rounds of ``first`` and ``rest`` packets."""
        if self.first_left == 0 and self.rest_left == 0:
            self.first_left, self.rest_left = first, rest
            self.reducing = not self.reducing
        if self.first_left:
            self.first_left -= 1
            return False
        self.rest_left -= 1
        return self.kind == "reduce_scatter" or (self.kind == "all_reduce" and self.reducing)


class RingPhase(ReductionRounds):
    """Ring, in which each device passes packets on to the next; also the direct algorithms."""

    __slots__ = (
        "_direct_ar", "after_first", "batch", "free", "index", "middle", "packets", "port",
        "ring", "size", "source", "steps", "target", "total_received", "turn", "walks",
    )  # fmt: skip

    def __init__(self, port: AlgorithmPort, place: PhasePlace, *, walks: bool) -> None:
        """Prepare a phase.

        Args:
            port: The services of the device.
            place: The part of the device in the phase.
            walks: Whether the algorithm is direct, and each packet goes to the next peer.
        """
        kind, index, n = place.phase.kind, place.index, len(place.ring)
        steps = place.phase.count_steps(n)
        super().__init__(kind)
        self.port, self.ring, self.index = port, place.ring, index
        self.turn = -1 if place.phase.backwards else 1
        self.size = steps.message_bytes
        self.target = (index + self.turn) % n
        self.source = (index - self.turn) % n
        self.batch = 1
        self.steps = steps.count
        self.middle = n - 1
        self.walks = walks
        if walks and kind == "all_to_all":  # each message goes to its target at once
            self.steps = n - 1
        self.after_first = (n - 1) * self.batch
        if walks:
            window = place.phase.window
            self.batch = n - 1 if window == -1 else min(window, n - 1)
            self.after_first = (n - 1) * self.batch if place.part else self.batch
        self._direct_ar = walks and kind == "all_reduce"
        self.packets: deque[tuple[int, int]] = deque()
        self.free = self.total_received = 0

    def start_phase(self) -> None:
        for _ in range(self.batch):
            self._insert_packet()

    def accept_message(self, _: Any = None) -> None:
        self.total_received += 1
        self._insert_packet()

    def _insert_packet(self) -> None:
        reduce = self._is_next_reduced(self.batch, self.after_first)
        ring, n = self.ring, len(self.ring)
        self.packets.append((ring[self.source], ring[self.target]))
        self.port.schedule_packet(self, self.size, reduce)
        if self.walks:  # the next packet goes to the next peer
            self.target = (self.target + self.turn) % n
            if self.target == self.index:
                self.target = (self.target + self.turn) % n
            self.source = (self.source - self.turn) % n
            if self.source == self.index:
                self.source = (self.source - self.turn) % n

    def release_packet(self, _: Any = None) -> None:
        self.free += 1
        if self._direct_ar and self.steps <= self.middle:
            if self.total_received < self.middle:
                return
            for _ in range(self.batch):
                self._forward_packet()
        else:
            self._forward_packet()
        if self.steps == 0 and self.free == self.batch:
            self.port.finish_phase()

    def _forward_packet(self) -> None:
        if not self.packets or self.steps == 0 or self.free == 0:
            return
        source, target = self.packets.popleft()
        self.port.send_message(target, self.size)
        self.port.await_message(self, source, self.size)
        self.steps -= 1
        self.free -= 1
