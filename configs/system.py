"""A system: how many accelerators, and the network between them, in ASTRA-sim's terms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")


@dataclass(frozen=True, slots=True)
class System:
    """A network of ``topology`` dimensions, the first the fastest varying digit of a device id.

    Bandwidths in GB/s of 2**30 bytes per second per device, latencies in ns per hop, as ASTRA-sim
    reads them; ``local_mem_bw_gb_s`` in 1e9 bytes per second. ``implementations`` names one
    algorithm per dimension for each collective. ``folder`` holds the files themselves.
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

    @property
    def devices(self) -> int:
        """How many devices the system has."""
        return math.prod(self.npus_count)
