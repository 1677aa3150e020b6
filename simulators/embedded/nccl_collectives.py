"""Collectives between hosts, timed by NCCL's tuning model.

The first dimension of the network is a host. The network between hosts consists of the other
dimensions: the bandwidth of a device is that of the slowest dimension in which the members differ,
and the latency of a message is that of all of them, two hops through each switch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulation_result import NcclUse

from .nccl_tuning import (
    MODELLED_KINDS,
    HostGroup,
    NcclEstimate,
    NcclTuning,
)


class NcclCollectives:
    """Times the collectives of a simulation between hosts, and counts them by algorithm.

    All devices finish together, the time of the model after the last of them has started.
    """

    def __init__(self, tuning: NcclTuning, system: SystemSpec) -> None:
        self.tuning = tuning
        self.counts: Counter[str] = Counter()
        self._system = system
        self._host_devices = system.npus_count[0]
        self._groups: dict[tuple[int, ...], HostGroup] = {}

    def covers_group(self, kind: str, members: Sequence[int]) -> bool:
        """Return whether the model times a collective between these devices."""
        return kind in MODELLED_KINDS and len(self._find_hosts(members)) > 1

    def compute_time_ns(
        self,
        kind: str,
        operand_bytes: int,
        members: Sequence[int],
        copies: int = 1,
        copy_rounds: int = 0,
    ) -> int:
        """Compute the time of a collective, and count it ``copies`` times.

        ``covers_group`` must hold. A kernel that copies, as within a host, does not run here.
        """
        whole_bytes = operand_bytes * len(members) if kind == "all_gather" else operand_bytes
        group = self._describe_group(tuple(members))
        estimate = self.tuning.estimate_collective(kind, whole_bytes, group)
        self.counts[estimate.method] += copies
        return round(1000 * estimate.time_us)

    def list_estimates(
        self, kind: str, whole_bytes: int, members: Sequence[int]
    ) -> list[NcclEstimate]:
        """List the estimates of all algorithms for a collective between these devices."""
        group = self._describe_group(tuple(members))
        return self.tuning.list_estimates(kind, whole_bytes, group)

    def to_nccl_use(self) -> NcclUse:
        """Return the generation of the model and the number of collectives by algorithm."""
        return NcclUse(self.tuning.name, dict(sorted(self.counts.items())))

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
