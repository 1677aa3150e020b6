"""The result of a simulation, the same for every simulator; times are integer nanoseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from hespas.configs.overlap_slowdown import SlowdownShares, format_slowdown_shares

BY_DEVICE_NUMBER = (
    "too many messages to order within a nanosecond as ASTRA-sim does: by device number"
)

NETWORK_MODEL_NAMES = {
    "flows": "flows that share links",
    "astra": "ASTRA-sim's",
    "astra, congestion": "ASTRA-sim's, with congestion",
}


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """The totals of one device, as ASTRA-sim reports them.

    Attributes:
        finish_ns: When its last node finishes.
        exposed_ns: ``finish_ns`` less the sum of the durations of the compute nodes.
        compute_ns: Time in which compute nodes are under way, from issue to finish.
        comm_ns: Time in which communication nodes are under way.
        overlap_ns: Time in which both are.
    """

    finish_ns: int
    exposed_ns: int
    compute_ns: int
    comm_ns: int
    overlap_ns: int


def compute_device_result(
    finish_ns: int, compute: Sequence[tuple[int, int]], comm: Sequence[tuple[int, int]]
) -> DeviceResult:
    """Compute the totals of a device from the issue and finish of its nodes."""
    compute_ns, comm_ns = _compute_covered_ns(compute), _compute_covered_ns(comm)
    overlap_ns = compute_ns + comm_ns - _compute_covered_ns([*compute, *comm])
    exposed_ns = finish_ns - sum(finish - start for start, finish in compute)
    return DeviceResult(finish_ns, exposed_ns, compute_ns, comm_ns, overlap_ns)


def _compute_covered_ns(spans: Sequence[tuple[int, int]]) -> int:
    """Compute the length of the union of spans."""
    total, end = 0, 0
    for start, finish in sorted(spans):
        if finish > end:
            total += finish - (start if start > end else end)
            end = finish
    return total


class NodeInterval(NamedTuple):
    """One node on one device, from issue to finish, and the resource that it occupied.

    That is compute; comm, slices or recv for communication; or cpu, for a copy to or from the host.
    """

    node: int
    start_ns: int
    finish_ns: int
    resource: str


@dataclass(frozen=True, slots=True)
class CommRecord:
    """One collective or message, across all its devices.

    Attributes:
        name: The name of the node.
        kind: all_reduce, all_gather, reduce_scatter, all_to_all, broadcast or send.
        operand_bytes: Operand bytes of one device.
        communicator: The id of the communicator; 0 for all devices, -1 for a message.
        ranks: The devices; for a message its source and target.
        start_ns: The first issue.
        ready_ns: The last issue; until then the first devices wait for the last one.
        finish_ns: The last finish.
        copies: How many communicators (or messages) did the same at the same time, this one
            included.
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
class LinkTraffic:
    """The traffic of one link, which is one direction.

    Attributes:
        dim: The dimension.
        source: The place at which it starts: a device, or a switch.
        target: The place at which it ends.
        carried_bytes: The bytes that cross it in a step.
        utilisation: The share of the step in which it would be busy at its full bandwidth.
    """

    dim: int
    source: str
    target: str
    carried_bytes: int
    utilisation: float


@dataclass(frozen=True, slots=True)
class LinkUse:
    """The use of the links of a network in a step.

    Attributes:
        links: The links that carry anything, by dimension and places.
        counts: The number of links of each dimension.
        loads: The utilisation of all links of each dimension together, over time.
    """

    links: Sequence[LinkTraffic]
    counts: Sequence[int]
    loads: Sequence[NetworkLoad]


@dataclass(frozen=True, slots=True)
class NetworkLoad:
    """How busy a part of a network is.

    Attributes:
        name: The name of the part.
        shares: The times at which its utilisation changes, with the new one in per cent.
    """

    name: str
    shares: Sequence[tuple[int, float]]


class CurveTag(StrEnum):
    """How the time of a collective follows from measured curves."""

    MEASURED = "measured"
    BETWEEN = "between measured group sizes"
    SCALED = "scaled to the system's bandwidth"
    BEYOND = "beyond measured bytes"
    MODELLED = "by the network model: not measured for such devices"


@dataclass(frozen=True, slots=True)
class ModelUse:
    """A model that timed collectives as wholes, and the number of them by tag or algorithm."""

    name: str
    counts: Mapping[str, int]

    def to_text(self) -> str:
        """Return a description such as ``A100_SXM (2 measured)``."""
        parts = [f"{count} {tag}" for tag, count in self.counts.items()]
        return f"{self.name} ({', '.join(parts) or 'no collectives'})"

    def list_warnings(self) -> list[str]:
        """Warn of times by curves that were not measured as they are.

        The text has no counts, so that programs with different numbers of collectives have equal
        warnings.
        """
        if all(tag is CurveTag.MEASURED for tag in self.counts):
            return []
        return [f"collectives by measured curves: {self.name} ({', '.join(self.counts)})"]


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """The system and the options of a simulation, as far as the simulator knows them.

    Attributes:
        system: The name of the system.
        network: Topology and number of devices of each dimension.
        network_model: The network model: "flows", "astra" or "astra, congestion" for ASTRA-sim's,
            or that of another program. Times are comparable if it is equal; "" if unknown.
        congestion: Whether messages waited for each other on links, with ASTRA-sim's model; None if
            unknown.
        curves: The measured curves that were used, if any.
        between_hosts: NCCL's model between hosts, if it was used.
        slowdown: Share by which compute took longer while communication ran, or shares by kind.
        device_speeds: The speed of compute of each device whose speed the system states.
        custom: The custom collectives that were played.
        replayed_broadcasts: The number of broadcasts that took the duration of their nodes.
        ordered_by_device: Whether events within a nanosecond were ordered by device number.
        program: The path of the external simulator.
        backend: Its network backend.
        exact_durations: Whether durations were in nanoseconds; None if unknown.
        agrees_with: The path of an external simulator with equal results.
    """

    system: str = ""
    network: str = ""
    network_model: str = ""
    congestion: bool | None = None
    curves: ModelUse | None = None
    between_hosts: ModelUse | None = None
    slowdown: SlowdownShares = 0.0
    device_speeds: Mapping[int, float] = field(default_factory=dict)
    custom: str = ""
    replayed_broadcasts: int = 0
    ordered_by_device: bool = False
    program: str = ""
    backend: str = ""
    exact_durations: bool | None = None
    agrees_with: str = ""

    def to_texts(self) -> dict[str, str]:
        """Return the settings by name as texts, for reports and JSON; unset ones are left out."""
        texts = {
            "program": self.program,
            "backend": self.backend,
            "system": self.system,
            "network": self.network,
            "network model": NETWORK_MODEL_NAMES.get(self.network_model, self.network_model),
            "congestion": {None: "", True: "aware", False: "unaware"}[self.congestion],
            "curves": self.curves.to_text() if self.curves else "",
            "between hosts": self.between_hosts.to_text() if self.between_hosts else "",
            "slowdown": format_slowdown_shares(self.slowdown),
            "speeds": ", ".join(
                f"device {device} at {speed:g}" for device, speed in self.device_speeds.items()
            ),
            "custom": self.custom,
            "broadcasts": f"{self.replayed_broadcasts} for the duration of their nodes, without a "
            "network"
            if self.replayed_broadcasts
            else "",
            "ties": BY_DEVICE_NUMBER if self.ordered_by_device else "",
            "durations": {None: "", True: "nanoseconds", False: "as ASTRA-sim reads the files"}[
                self.exact_durations
            ],
            "agrees with": self.agrees_with,
        }
        return {name: text for name, text in texts.items() if text}


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """A finished simulation.

    Attributes:
        simulator: The name of the simulator.
        devices: The totals of each device.
        comms: The collectives and messages.
        classes: The intervals of each class of equivalent devices, in order of issue; empty if the
            simulator has none.
        class_of: The class of each device; empty if the simulator has no classes.
        settings: The system and the options.
        link_use: The use of the links; None if it was not recorded.
    """

    simulator: str
    devices: Sequence[DeviceResult]
    comms: Sequence[CommRecord] = ()
    classes: Sequence[Sequence[NodeInterval]] = ()
    class_of: Sequence[int] = ()
    settings: SimulationSettings = field(default_factory=SimulationSettings)
    link_use: LinkUse | None = None

    @property
    def step_time_ns(self) -> int:
        """The time at which the last device finishes."""
        return max(device.finish_ns for device in self.devices)

    @property
    def critical_device(self) -> int:
        """The device that finishes last; of several, the one with the lowest id."""
        return max(range(len(self.devices)), key=lambda d: (self.devices[d].finish_ns, -d))
