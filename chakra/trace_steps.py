"""A program's trace before it is written: the steps that all devices share, and who takes part.

Every device runs the same program, so a trace is one list of steps; devices differ in the
communicator of a collective and the peers of a transfer only. Ids are program order and equal on
all devices.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

FS_PER_NS = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class ComputeContent:
    """A compute node: ``latency_fs`` in femtoseconds, ``attrs`` encoded further attributes."""

    name: str
    latency_fs: int
    attrs: bytes = b""


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveContent:
    """A collective over communicators ``groups``, of ``size`` operand bytes on each device."""

    name: str
    comm_type: int
    size: int
    groups: tuple[int, ...]
    attrs: bytes = b""


@dataclass(frozen=True, slots=True, eq=False)
class TransferContent:
    """Messages of ``size`` bytes between ``pairs`` (source, target); a device sends one at most.

    It takes two ids: the SEND and, one up, the RECV.
    """

    name: str
    size: int
    pairs: tuple[tuple[int, int], ...]
    attrs: bytes = b""


StepContent = ComputeContent | CollectiveContent | TransferContent


@dataclass(slots=True)
class TraceStep:
    """One step: ``deps`` are ids of steps, ascending; a transfer goes by the id of its SEND."""

    id: int
    deps: tuple[int, ...]
    content: StepContent


@dataclass(slots=True)
class ProgramTrace:
    """Steps in program order. ``groups``: the communicators, id to ascending ranks.

    ``chain`` numbers the chains: of the steps with equal number each depends, directly or not, on
    the one before. Collectives and transfers are chain -1; 0 where a step is not listed.
    """

    devices: int
    groups: dict[int, tuple[int, ...]] = field(default_factory=dict)
    steps: list[TraceStep] = field(default_factory=list)
    chain: dict[int, int] = field(default_factory=dict)

    def drop_implied_deps(self, deps: Collection[int]) -> tuple[int, ...]:
        """``deps`` without those that others of them imply: of each chain the newest, ascending."""
        if len(deps) < 2:
            return tuple(deps)
        last: dict[int, int] = {}
        for d in deps:
            key = self.chain.get(d, 0)
            if d > last.get(key, -1):
                last[key] = d
        return tuple(sorted(last.values()))


@dataclass(frozen=True, slots=True)
class NodeDuration:
    """The time of one compute node: whole microseconds with carry, and exact nanoseconds."""

    micros: int
    nanos: int


def round_durations(steps: Sequence[TraceStep]) -> list[NodeDuration]:
    """The durations of the compute steps, in order, so rounded that the totals come out right.

    Each is the distance of the exact running total from what the nodes before it were given, hence
    rounding never adds up. A simulator takes at least 1 ns for a node, also where it is written as
    0 us, and that counts as given. Where the last nodes are shorter than that, and so get too much
    with nothing after them to make up for it, nodes before them get as much less.
    """
    exact_fs = given_by_micros_ns = given_by_nanos_ns = exact_ns = 0
    micros: list[int] = []
    nanos: list[int] = []
    for step in steps:
        if isinstance(step.content, ComputeContent):
            exact_fs += step.content.latency_fs
            exact_ns = (exact_fs + FS_PER_NS // 2) // FS_PER_NS
            micros.append(max(0, (exact_ns - given_by_micros_ns + 500) // 1000))
            nanos.append(max(1, exact_ns - given_by_nanos_ns))
            given_by_micros_ns += micros[-1] * 1000 or 1
            given_by_nanos_ns += nanos[-1]
    _shorten_latest_times(micros, (given_by_micros_ns - exact_ns) // 1000, least=1)
    _shorten_latest_times(nanos, given_by_nanos_ns - exact_ns, least=1)
    return [NodeDuration(*pair) for pair in zip(micros, nanos, strict=True)]


def _shorten_latest_times(times: list[int], excess: int, least: int) -> None:
    for i in reversed(range(len(times))):
        if excess <= 0:
            return
        taken = min(excess, times[i] - least)
        if taken > 0:
            times[i] -= taken
            excess -= taken
