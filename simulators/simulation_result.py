"""What every simulator returns, whichever it is: times in integer nanoseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """One device's totals, as ASTRA-sim reports them.

    ``compute_ns`` and ``comm_ns`` are the unions of the intervals from issue to finish of the
    compute nodes and of the communication nodes; ``overlap_ns`` is the time that both have.
    ``exposed_ns`` is ``finish_ns`` less the sum of the durations of the compute nodes.
    """

    finish_ns: int
    exposed_ns: int
    compute_ns: int
    comm_ns: int
    overlap_ns: int


def compute_device_result(
    finish_ns: int, compute: Sequence[tuple[int, int]], comm: Sequence[tuple[int, int]]
) -> DeviceResult:
    """The totals of a device, from issue and finish of its compute and communication nodes."""
    compute_ns, comm_ns = _compute_covered_ns(compute), _compute_covered_ns(comm)
    overlap_ns = compute_ns + comm_ns - _compute_covered_ns([*compute, *comm])
    exposed_ns = finish_ns - sum(finish - start for start, finish in compute)
    return DeviceResult(finish_ns, exposed_ns, compute_ns, comm_ns, overlap_ns)


def _compute_covered_ns(spans: Sequence[tuple[int, int]]) -> int:
    """The length of the union of spans."""
    total, end = 0, 0
    for start, finish in sorted(spans):
        if finish > end:
            total += finish - max(start, end)
            end = finish
    return total


@dataclass(frozen=True, slots=True)
class NodeInterval:
    """One node on one device, from issue to finish. ``resource``: compute, comm or recv."""

    node: int
    start_ns: int
    finish_ns: int
    resource: str


@dataclass(frozen=True, slots=True)
class CommRecord:
    """One collective or message, over all its devices: first issue, last finish.

    ``ready_ns`` is the last issue: what comes before is waiting for devices that are late.
    ``kind`` is all_reduce, all_gather, reduce_scatter, all_to_all, broadcast or send;
    ``operand_bytes`` those of one device; ``communicator`` its id, 0 for all devices, -1 for a
    message; ``ranks`` the devices (a message: source, target). ``copies`` counts the communicators
    (or messages) that did the same at the same time, of which this is one.
    """

    name: str
    kind: str
    operand_bytes: int
    communicator: int
    ranks: tuple[int, ...]
    start_ns: int
    ready_ns: int
    finish_ns: int
    copies: int = 1


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """A finished simulation.

    ``classes[c]`` lists the intervals of the devices of class ``c``, in order of issue, and
    ``class_of[device]`` names a device's class: devices that behave alike share one list. Both are
    empty where the simulator does not tell. ``settings`` says what was simulated on, and how.
    """

    simulator: str
    devices: Sequence[DeviceResult]
    comms: Sequence[CommRecord] = ()
    classes: Sequence[Sequence[NodeInterval]] = ()
    class_of: Sequence[int] = ()
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def step_time_ns(self) -> int:
        """When the last device finishes."""
        return max(device.finish_ns for device in self.devices)

    @property
    def critical_device(self) -> int:
        """The device that finishes last, the lowest of several."""
        return max(range(len(self.devices)), key=lambda d: (self.devices[d].finish_ns, -d))
