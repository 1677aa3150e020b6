"""NCCL's tuning model of a collective between hosts: the fastest algorithm and protocol.

For each algorithm and protocol, NCCL estimates ``latency + bytes / bandwidth`` and runs the
fastest. This is that estimate, for hosts of GPUs on NVSwitch with one network interface, or an
equal share of one, for each GPU. ``configs/nccl_tuning.json`` holds the constants with their
sources: NCCL's own, and corrections by size that were measured with nccl-tests, because the model
is meant to choose and is too fast at medium sizes. A correction is interpolated between powers of
two, so that a larger collective never takes less time.

The share of a collective that crosses the network at the rate of the interfaces is at most their
bandwidth times ``nic_share``; this also bounds trees between two hosts, for which NCCL's model
assumes the bandwidth within a host.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hespas.configs.nccl_constants import find_nccl_generation, read_nccl_constants
from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulation_result import ModelUse
from hespas.simulators.simulation_steps import SimulationStep
from hespas.support.errors import UsageError

_SMALLEST_BYTES = 64  # of the tables of corrections
_PROTOCOLS = ("LL", "LL128", "Simple")
_LL, _LL128, _SIMPLE = range(3)
_STEPS = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
MODELLED_KINDS = (*_STEPS, "all_to_all")


@dataclass(frozen=True, slots=True)
class HostGroup:
    """The devices of a communicator that spans several hosts.

    Attributes:
        devices: The number of devices.
        hosts: The number of hosts; 2 at least.
        fills_hosts: Whether the communicator has all devices of its hosts.
        nic_gb_s: Bandwidth of a device between hosts, in 1e9 bytes per second.
        network_us: Latency of a message between hosts.
    """

    devices: int
    hosts: int
    fills_hosts: bool
    nic_gb_s: float
    network_us: float

    @property
    def devices_per_host(self) -> float:
        """The mean number of devices in a host."""
        return self.devices / self.hosts


class NcclEstimate(NamedTuple):
    """The time of a collective in microseconds, and the algorithm and protocol that it takes."""

    time_us: float
    method: str


@dataclass(frozen=True)
class NcclTuning:
    """The model for one generation of GPUs.

    Attributes:
        name: The generation, such as ``hopper``.
        limits: The constants of the generation.
        constants: The constants of all generations.
    """

    name: str
    limits: Mapping[str, Any]
    constants: Mapping[str, Any]

    def estimate_collective(self, kind: str, whole_bytes: int, group: HostGroup) -> NcclEstimate:
        """Estimate the time of a collective of ``MODELLED_KINDS``.

        Args:
            kind: The kind of collective.
            whole_bytes: Bytes of the whole buffer, as nccl-tests counts them.
            group: The devices.
        """
        return min(self.list_estimates(kind, whole_bytes, group))

    def list_estimates(self, kind: str, whole_bytes: int, group: HostGroup) -> list[NcclEstimate]:
        """List the estimates of all algorithms and protocols; see ``estimate_collective``."""
        if kind == "all_to_all":
            return [self._estimate_all_to_all(whole_bytes, group)]
        estimates = [*self._estimate_rings(kind, whole_bytes, group)]
        if kind == "all_reduce":
            estimates += self._estimate_trees(whole_bytes, group)
            if self._has_nvls_tree(group):
                estimates.append(self._estimate_nvls_tree(whole_bytes, group))
        return estimates

    def _estimate_rings(
        self, kind: str, whole_bytes: int, group: HostGroup
    ) -> Iterator[NcclEstimate]:
        steps = _STEPS[kind] * (group.devices - 1)
        ramp = self._find_ring_ramp(kind, whole_bytes / group.devices, group)
        for protocol, name in enumerate(_PROTOCOLS):
            bus_gb_s = self._limit_protocol("ring", protocol, self._compute_rail_gb_s(group), group)
            latency_us = self._compute_ring_latency_us(kind, protocol, whole_bytes, group)
            time_us = latency_us + whole_bytes * steps / group.devices / (1e3 * bus_gb_s * ramp)
            yield NcclEstimate(time_us, f"ring {name}")

    def _compute_ring_latency_us(
        self, kind: str, protocol: int, whole_bytes: int, group: HostGroup
    ) -> float:
        constants = self.constants
        network_steps = _STEPS[kind] * (group.hosts - 1)
        host_steps = _STEPS[kind] * (group.devices - 1) - network_steps
        host_us = max(
            constants["host_latency_us"]["ring"][protocol], constants["post_overhead_us"][protocol]
        )
        latency_us = (
            constants["base_latency_us"]["ring"][protocol]
            + host_steps * host_us
            + network_steps * self._compute_network_us("ring", protocol, group)
        )
        if kind != "all_reduce":
            return latency_us
        sync_us, growth = constants["sync_us_per_host"]
        latency_us += sync_us * group.hosts * max(1.0, group.hosts / 4) ** growth
        chunk_bytes = whole_bytes / (self._count_channels(group) * group.devices)
        is_plateau = protocol == _SIMPLE and chunk_bytes >= _SMALLEST_BYTES
        return latency_us * (constants["plateau"] if is_plateau else 1.0)

    def _estimate_trees(self, whole_bytes: int, group: HostGroup) -> Iterator[NcclEstimate]:
        constants, channels = self.constants, self._count_channels(group)
        share, pattern_share = constants["tree_share"]
        cap_gb_s = channels * self._find_limit("tree_gb_s", group)
        rail_gb_s = min(self._compute_rail_gb_s(group, both_ways=True) * share, cap_gb_s)
        for protocol, name in enumerate(_PROTOCOLS):
            bus_gb_s = self._limit_protocol("tree", protocol, rail_gb_s, group) * pattern_share
            bus_gb_s *= _interpolate_ramp(constants["tree_ramp"][protocol], whole_bytes)
            host_steps = group.devices_per_host - 1
            latency_us = constants["base_latency_us"]["tree"][protocol] + 2 * (
                host_steps * constants["host_latency_us"]["tree"][protocol]
                + _count_levels(group) * self._compute_network_us("tree", protocol, group)
            )
            yield NcclEstimate(latency_us + 2 * whole_bytes / (1e3 * bus_gb_s), f"tree {name}")

    def _has_nvls_tree(self, group: HostGroup) -> bool:
        enough = group.devices_per_host >= self.constants["nvls_devices"]
        return enough and self.limits["nvls_efficiency"] > 0

    def _estimate_nvls_tree(self, whole_bytes: int, group: HostGroup) -> NcclEstimate:
        constants, channels = self.constants, self._count_channels(group)
        switch_gb_s = (
            2 * self.limits["nvlink_gb_s"] * self.limits["nvls_efficiency"]
            * (channels - 1) / channels
        )  # fmt: skip
        bus_gb_s = min(
            switch_gb_s,
            self._compute_nic_gb_s(group) * (2 if group.hosts == 2 else 1),
            channels * self._find_limit("nvls_tree_gb_s", group),
        )
        ramp = _interpolate_ramp(constants["nvls_tree_ramp"], whole_bytes)
        latency_us = constants["host_latency_us"]["nvls_tree"][_SIMPLE] + 2 * _count_levels(
            group
        ) * self._compute_network_us("nvls_tree", _SIMPLE, group)
        crossings = 2 * (group.devices - 1) / group.devices
        time_us = latency_us + whole_bytes * crossings / (1e3 * bus_gb_s * ramp)
        return NcclEstimate(time_us, "NVLSTree Simple")

    def _estimate_all_to_all(self, whole_bytes: int, group: HostGroup) -> NcclEstimate:
        constants = self.constants["all_to_all"]
        latency_us = _interpolate_points(constants["latency_us"], group.hosts)
        ramp = _interpolate_ramp(constants["ramp"], whole_bytes / group.devices)
        ramp = 1 - (1 - ramp) / max(1, _count_levels(group))
        nic_gb_s = group.nic_gb_s * (1 - constants["nic_overhead"] / group.hosts)
        remote_bytes = whole_bytes * (1 - 1 / group.hosts)
        extra_us = group.network_us - self.constants["network_included_us"]
        time_us = latency_us + max(0.0, extra_us) + remote_bytes / (1e3 * nic_gb_s * ramp)
        return NcclEstimate(time_us, "point to point")

    def _find_ring_ramp(self, kind: str, device_bytes: float, group: HostGroup) -> float:
        constants = self.constants
        if kind == "all_reduce":
            return _interpolate_ramp(
                _deepen_ramp(tuple(constants["all_reduce_ring_ramp"]), group.hosts), device_bytes
            )
        return _interpolate_ramp(constants["ring_ramp"], device_bytes) if group.fills_hosts else 1.0

    def _compute_nic_gb_s(self, group: HostGroup) -> float:
        return group.devices_per_host * group.nic_gb_s * self.constants["nic_share"]

    def _compute_rail_gb_s(self, group: HostGroup, both_ways: bool = False) -> float:
        """Compute the bandwidth of a host's part of a ring, or of its trees, in 1e9 bytes/s."""
        factor = 2 if both_ways and group.hosts == 2 else 1
        return min(factor * self._compute_nic_gb_s(group), self.limits["nvlink_gb_s"])

    def _limit_protocol(
        self, algorithm: str, protocol: int, bus_gb_s: float, group: HostGroup
    ) -> float:
        """Limit the bandwidth of an algorithm with Simple to what a protocol reaches."""
        if protocol == _SIMPLE:
            return bus_gb_s
        if protocol == _LL:
            share = self.constants["ll_share"][algorithm]
            return min(bus_gb_s * share, self._find_limit("ll_gb_s", group))
        cap_gb_s = self._find_limit(f"{algorithm}_ll128_gb_s", group) * self._count_channels(group)
        return min(bus_gb_s * self.constants["ll128_share"][algorithm], cap_gb_s)

    def _find_limit(self, name: str, group: HostGroup) -> float:
        return self.limits[name][0 if group.hosts == 2 else 1]

    def _count_channels(self, group: HostGroup) -> int:
        rows: Sequence[Sequence[int]] = self.constants["channels"]
        at = bisect_right(rows, group.devices_per_host, key=lambda row: row[0])
        return rows[at - 1][1]

    def _compute_network_us(self, algorithm: str, protocol: int, group: HostGroup) -> float:
        """Compute the latency of one step between hosts; Simple waits for the network twice."""
        latencies = self.constants["network_latency_us"]
        name = "tree" if group.devices == group.hosts else algorithm
        extra_us = max(0.0, group.network_us - self.constants["network_included_us"])
        return latencies[name][protocol] + extra_us * (2 if protocol == _SIMPLE else 1)


def _count_levels(group: HostGroup) -> int:
    """Return the levels of a tree over the hosts, as NCCL rounds them."""
    return group.hosts.bit_length() - 1


@functools.cache
def _deepen_ramp(ramp: tuple[float, ...], hosts: int) -> tuple[float, ...]:
    """Return the correction of a ring over many hosts, which fills later."""
    exponent = 1.0 + 0.2 * max(0, hosts.bit_length() - 3)
    deep: list[float] = []
    for value in ramp:
        powered = value**exponent
        deep.append(min(powered, 2 * deep[-1]) if deep else powered)
    return tuple(deep)


def _interpolate_ramp(ramp: Sequence[float], size_bytes: float) -> float:
    """Interpolate a correction as a power of the size between powers of two."""
    position = math.log2(max(size_bytes, _SMALLEST_BYTES) / _SMALLEST_BYTES)
    at = min(int(position), len(ramp) - 1)
    share = position - at if at + 1 < len(ramp) else 0.0
    return ramp[at] if not share else ramp[at] ** (1 - share) * ramp[at + 1] ** share


def _interpolate_points(points: Sequence[Sequence[float]], x: float) -> float:
    """Interpolate linearly between points, and in proportion to ``x`` beyond the last one."""
    if x >= points[-1][0]:
        return points[-1][1] * x / points[-1][0]
    at = max(1, bisect_right(points, x, key=lambda point: point[0]))
    (x0, y0), (x1, y1) = points[at - 1], points[at]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


@functools.cache
def load_nccl_tuning(device: str) -> NcclTuning:
    """Load the model of a device of ``configs/collectives``; raises UsageError if it has none."""
    generation, constants = find_nccl_generation(device), read_nccl_constants()
    if generation:
        return NcclTuning(generation, constants["generations"][generation], constants)
    reason = f"has no constants of {device}" if device else "needs a device"
    raise UsageError(
        f"NCCL's model between hosts {reason}",
        remedy="name another device with --curves, or use --between-hosts network",
    )


class NcclCollectives:
    """Times the collectives of a simulation between hosts, and counts them by algorithm.

    All devices finish together, the time of the model after the last of them has started. The first
    dimension of the network is a host, unless it is a ring or a mesh. The network between hosts
    consists of the other dimensions: the bandwidth of a device is that of the slowest dimension in
    which the members differ, and the latency of a message is that of all of them, two hops through
    each switch.
    """

    def __init__(self, tuning: NcclTuning, system: SystemSpec) -> None:
        self.tuning = tuning
        self.counts: Counter[str] = Counter()
        self._system = system
        self._host_devices = system.npus_count[0]
        self._groups: dict[tuple[int, ...], HostGroup] = {}

    def covers_group(self, kind: str, members: Sequence[int]) -> bool:
        """Return whether the model times a collective between these devices."""
        return (
            self._system.has_hosts and kind in MODELLED_KINDS and len(self._find_hosts(members)) > 1
        )

    def compute_time_ns(self, step: SimulationStep, members: Sequence[int], copies: int) -> int:
        """Compute the time of a collective, and count it ``copies`` times.

        ``covers_group`` must hold. A kernel that copies, as within a host, does not run here.
        """
        whole_bytes = step.size * (len(members) if step.kind == "all_gather" else 1)
        group = self._describe_group(tuple(members))
        estimate = self.tuning.estimate_collective(step.kind, whole_bytes, group)
        self.counts[estimate.method] += copies
        return round(1000 * estimate.time_us)

    def list_estimates(
        self, kind: str, whole_bytes: int, members: Sequence[int]
    ) -> list[NcclEstimate]:
        """List the estimates of all algorithms for a collective between these devices."""
        group = self._describe_group(tuple(members))
        return self.tuning.list_estimates(kind, whole_bytes, group)

    def to_model_use(self) -> ModelUse:
        """Return the generation of the model and the number of collectives by algorithm."""
        name = f"NCCL's model of {self.tuning.name}"
        return ModelUse(name, dict(sorted(self.counts.items())))

    def _find_hosts(self, members: Sequence[int]) -> set[int]:
        return {member // self._host_devices for member in members}

    def _describe_group(self, members: tuple[int, ...]) -> HostGroup:
        group = self._groups.get(members)
        if group is None:
            group = self._groups[members] = self._measure_group(members)
        return group

    def _measure_group(self, members: tuple[int, ...]) -> HostGroup:
        system, hosts = self._system, self._find_hosts(members)
        crossed = []
        for dim in range(1, len(system.npus_count)):
            stride = math.prod(system.npus_count[:dim])
            if len({member // stride % system.npus_count[dim] for member in members}) > 1:
                crossed.append(dim)
        hops = [2 if system.topology[dim] == "Switch" else 1 for dim in crossed]
        latency_ns = sum(n * system.latency_ns[dim] for n, dim in zip(hops, crossed, strict=True))
        return HostGroup(
            devices=len(members),
            hosts=len(hosts),
            fills_hosts=len(members) == len(hosts) * self._host_devices,
            nic_gb_s=min(system.compute_device_gb_s(dim) for dim in crossed),
            network_us=latency_ns / 1000,
        )
