"""The trace of a program before it is written: the steps that all devices share.

Every device runs the same program, so that a trace is one list of steps. Devices differ only in the
communicator of a collective and in the peers of a transfer. Ids are in program order and equal on
all devices. Devices that run different programs, such as the stages of pipeline parallelism, have a
trace for each program, which names its members.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import field
from typing import NamedTuple

from hespas.support.records import record

FS_PER_NS = 1_000_000
FS_PER_US = 1000 * FS_PER_NS


@record(frozen=True, slots=True, eq=False)
class ComputeContent:
    """A compute node.

    Attributes:
        latency_fs: The time in femtoseconds.
        attrs: Further attributes, encoded.
    """

    name: str
    latency_fs: int
    attrs: bytes = b""


@record(frozen=True, slots=True, eq=False)
class CollectiveContent:
    """A collective.

    Attributes:
        size: Operand bytes on each device.
        groups: Communicator ids.
        attrs: Further attributes, encoded.
        network: What carries it, as ``hespas.comm`` has it; "" for the links between devices.
        copy_rounds: Loads in sequence of a kernel that copies, as ``hespas.comm`` has them.
    """

    name: str
    comm_type: int
    size: int
    groups: tuple[int, ...]
    attrs: bytes = b""
    network: str = ""
    copy_rounds: int = 0


@record(frozen=True, slots=True, eq=False)
class TransferContent:
    """A transfer: messages between pairs of devices, of which each device sends at most one.

    It uses two ids: that of the SEND, and the next one for the RECV.

    Attributes:
        size: Bytes of each message.
        pairs: Source and target of each message.
        attrs: Further attributes, encoded.
    """

    name: str
    size: int
    pairs: tuple[tuple[int, int], ...]
    attrs: bytes = b""


@record(frozen=True, slots=True, eq=False)
class HostCopyContent:
    """A copy between the memories of a device and its host: a node of the CPU, which has a time.

    Attributes:
        latency_us: The time in whole microseconds, as simulators read it; at least one.
        attrs: Further attributes, encoded.
    """

    name: str
    latency_us: int
    attrs: bytes = b""


CommunicationContent = CollectiveContent | TransferContent | HostCopyContent
StepContent = ComputeContent | CommunicationContent


@record(slots=True)
class TraceStep:
    """A step of the program.

    Attributes:
        deps: The ids of the steps it depends on, ascending; a transfer has the id of its SEND.
    """

    id: int
    deps: tuple[int, ...]
    content: StepContent


@record(slots=True)
class ProgramTrace:
    """The trace of a program.

    Invariant: of the steps with equal numbers in ``chain``, each depends, directly or not, on the
    one before it.

    Attributes:
        devices: The number of devices, of all programs.
        groups: Ascending ranks by communicator id.
        steps: The steps in program order.
        chain: Chain number by step id; negative for communication, 0 for absent steps.
        members: The devices that run this program; None for all.
    """

    devices: int
    groups: dict[int, tuple[int, ...]] = field(default_factory=dict)
    steps: list[TraceStep] = field(default_factory=list)
    chain: dict[int, int] = field(default_factory=dict)
    members: range | None = None

    def list_members(self) -> range:
        """Return the devices that run the program."""
        return range(self.devices) if self.members is None else self.members

    def compute_lone_time_fs(self) -> int:
        """Return the time of a device that exchanges nothing with others, in femtoseconds.

        Kernels run in program order, and copies to and from the host beside them; steps between
        devices take no time.
        """
        ends: dict[int, int] = {}
        free_fs = dict.fromkeys((ComputeContent, HostCopyContent), 0)
        for step in self.steps:
            content = step.content
            start_fs = max((ends[dep] for dep in step.deps), default=0)
            if isinstance(content, (ComputeContent, HostCopyContent)):
                start_fs = max(start_fs, free_fs[type(content)])
                is_compute = isinstance(content, ComputeContent)
                start_fs += content.latency_fs if is_compute else content.latency_us * FS_PER_US
                free_fs[type(content)] = start_fs
            ends[step.id] = start_fs
        return max(ends.values(), default=0)

    def drop_implied_deps(self, deps: Collection[int]) -> tuple[int, ...]:
        """Reduce dependencies to the last one of each chain, which implies the other ones."""
        chain = self.chain
        if len(deps) == 2:  # as of most steps
            first, second = sorted(deps)
            has_one_chain = chain.get(first, 0) == chain.get(second, 0)
            return (second,) if has_one_chain else (first, second)
        last = {chain.get(dep, 0): dep for dep in sorted(deps)}
        return tuple(sorted(last.values()))


class NodeDuration(NamedTuple):
    """The time of one compute node, rounded to microseconds and to nanoseconds."""

    micros: int
    nanos: int


def list_latencies_fs(steps: Iterable[TraceStep]) -> list[int]:
    """Return the times of the compute steps in femtoseconds, in order."""
    contents = [step.content for step in steps]
    return [each.latency_fs for each in contents if isinstance(each, ComputeContent)]


def round_durations(latencies_fs: Iterable[int]) -> list[NodeDuration]:
    """Round the durations of compute steps so that rounding errors do not accumulate.

    Invariant: after each step, ``exact_fs`` is the exact running total, and ``micros_total_ns`` and
    ``nanos_total_ns`` are the times that a simulator needs for the rounded durations. The next
    rounded duration is the difference between the exact total and that time. A simulator needs at
    least 1 ns for a node, even if its duration is 0 us. Any excess of the totals at the end is
    subtracted from the last durations.
    """
    exact_fs = micros_total_ns = nanos_total_ns = exact_ns = 0
    micros: list[int] = []
    nanos: list[int] = []
    for latency_fs in latencies_fs:
        exact_fs += latency_fs
        exact_ns = (exact_fs + FS_PER_NS // 2) // FS_PER_NS
        # Calls of `max` would take a third of the time.
        micro = (exact_ns - micros_total_ns + 500) // 1000
        micro = micro if micro > 0 else 0
        nano = exact_ns - nanos_total_ns
        nano = nano if nano > 1 else 1
        micros.append(micro)
        nanos.append(nano)
        micros_total_ns += micro * 1000 or 1
        nanos_total_ns += nano
    _shorten_latest_times(micros, (micros_total_ns - exact_ns) // 1000)
    _shorten_latest_times(nanos, nanos_total_ns - exact_ns)
    return list(map(NodeDuration, micros, nanos))


def _shorten_latest_times(times: list[int], excess: int) -> None:
    """Shorten times by an excess in all, from the last one on, each to 1 at least."""
    for i in reversed(range(len(times))):
        reduction = min(excess, times[i] - 1)
        if reduction > 0:
            times[i] -= reduction
            excess -= reduction
