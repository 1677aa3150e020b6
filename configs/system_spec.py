"""A system: how many accelerators, and the network between them, in ASTRA-sim's terms."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
PER_NODE_KEY = "per-node-custom-implementation"


@dataclass(frozen=True, slots=True)
class SystemSpec:
    """A network of ``topology`` dimensions, the first the fastest varying digit of a device id.

    Bandwidths in GB/s of 2**30 bytes per second per device, latencies in ns per hop, as ASTRA-sim
    reads them; ``local_mem_bw_gb_s`` in 1e9 bytes per second. ``implementations`` names one
    algorithm per dimension for each collective. ``folder`` holds the files themselves.
    With ``roofline_enabled``, compute nodes take the time of their operations and bytes, not their
    duration. ``custom`` maps a collective to the prefix of the traces of its own algorithm, and
    ``per_node_custom`` names a file that does so by node. ``settings`` are system.json as it is.
    """

    name: str
    folder: Path
    topology: tuple[str, ...]
    npus_count: tuple[int, ...]
    bandwidth_gib_s: tuple[float, ...]
    latency_ns: tuple[float, ...]
    implementations: dict[str, tuple[str, ...]]
    scheduling_policy: str
    collective_optimization: str
    active_chunks_per_dimension: int
    preferred_dataset_splits: int
    endpoint_delay_ns: int
    local_mem_bw_gb_s: float
    roofline_enabled: bool = False
    peak_perf_tflops: float | None = None
    custom: dict[str, str] = field(default_factory=dict)
    per_node_custom: str = ""
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def device_count(self) -> int:
        """How many devices the system has."""
        return math.prod(self.npus_count)

    @property
    def device_gb_s(self) -> float:
        """What a device can send to the others in its line of dimension 0, in 1e9 bytes/s."""
        others = self.npus_count[0] - 1
        links = {"FullyConnected": others, "Ring": min(2, others)}.get(self.topology[0], 1)
        return links * self.bandwidth_gib_s[0] * 2**30 / 1e9

    def resolve_settings_paths(self) -> dict[str, Any]:
        """``settings`` for another folder: the paths of custom collectives absolute."""
        resolved = dict(self.settings)
        for name in COLLECTIVES:
            key = f"{name}-implementation-custom"
            if resolved.get(key):
                resolved[key] = [os.path.abspath(self.folder / prefix) for prefix in resolved[key]]
        if self.per_node_custom:
            resolved[PER_NODE_KEY] = os.path.abspath(self.folder / self.per_node_custom)
        return resolved

    def render_network_text(self) -> str:
        """The system's network.yml."""
        rows = {
            "topology": self.topology,
            "npus_count": self.npus_count,
            "bandwidth": self.bandwidth_gib_s,
            "latency": self.latency_ns,
        }
        notes = {"bandwidth": "  # GB/s of 2**30 bytes", "latency": "  # ns"}
        return "".join(
            f"{key}: [ {', '.join(_format_network_value(value) for value in values)} ]{notes.get(key, '')}\n"
            for key, values in rows.items()
        )


def _format_network_value(value: str | float) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
