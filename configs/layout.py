"""Writing a system: from dimensions in vendors' units to the files that ASTRA-sim reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hespas.configs.system import COLLECTIVES, System
from hespas.dialects.errors import HespasError

GIB = 2**30
TOPOLOGIES = ("Switch", "FullyConnected", "Ring")
ALGORITHMS = ("ring", "direct", "halvingDoubling", "doubleBinaryTree")
SWITCH_ALL_TO_ALL = "direct1"
UNITS = (
    "network.yml counts bandwidth in 2**30 bytes per second: each is the sourced number, in 1e9 "
    "bytes per second and one direction, times 1e9 / 2**30"
)


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension: bandwidth in 1e9 bytes per second and direction, latency in ns per hop.

    The bandwidth is that of a device into a Switch, of each link of a FullyConnected group, and of
    the links to a neighbour in a Ring. A message takes one hop, through a Switch two.
    """

    topology: str
    devices: int
    bandwidth_gb_s: float
    latency_ns: float
    algorithm: str = ""

    @property
    def bandwidth_gib_s(self) -> float:
        """As network.yml has it; to the nearest of 1e-6."""
        return round(self.bandwidth_gb_s * 1e9 / GIB, 6)

    def implementation(self, collective: str) -> str:
        """The algorithm of a collective: the one named where it can do that, else the usual one.

        An all-to-all sends to one peer after the other through a switch (``direct1``): a ring would
        take n/2 times as long, and ``direct`` sends to all at once, each at full bandwidth.
        """
        usual = "direct" if self.topology == "FullyConnected" else "ring"
        if collective == "all-to-all" and self.topology == "Switch":
            usual = SWITCH_ALL_TO_ALL
        able = {
            "halvingDoubling": collective != "all-to-all",
            "doubleBinaryTree": collective == "all-reduce",
            "": False,
        }
        return self.algorithm if able.get(self.algorithm, True) else usual


def check(dimensions: Sequence[Dimension]) -> None:
    """Raise HespasError for what ASTRA-sim cannot run."""
    for k, one in enumerate(dimensions):
        where = f"dimension {k}"
        if one.devices < 2:
            raise HespasError(f"{where} has {one.devices} devices: ASTRA-sim needs 2 or more")
        tree = one.algorithm in ("halvingDoubling", "doubleBinaryTree")
        if tree and one.devices & (one.devices - 1):
            raise HespasError(
                f"{where} has {one.devices} devices: {one.algorithm} needs a power of two"
            )


def settings(dimensions: Sequence[Dimension], local_mem_bw_gb_s: float) -> dict[str, Any]:
    """system.json, with every key that ASTRA-sim has no good default for."""
    data: dict[str, Any] = {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 10,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
    }
    for name in COLLECTIVES:
        data[f"{name}-implementation"] = [one.implementation(name) for one in dimensions]
    return data | {
        "collective-optimization": "localBWAware",
        "local-mem-bw": local_mem_bw_gb_s,
        "boost-mode": 0,
        "trace-enabled": 1,
    }


def system(name: Path, dimensions: Sequence[Dimension], local_mem_bw_gb_s: float) -> System:
    """The system of these dimensions, checked; ``name`` is the folder where it is or would be."""
    from hespas.configs import models

    check(dimensions)
    network = {
        "topology": [one.topology for one in dimensions],
        "npus_count": [one.devices for one in dimensions],
        "bandwidth": [one.bandwidth_gib_s for one in dimensions],
        "latency": [float(one.latency_ns) for one in dimensions],
    }
    data = settings(dimensions, local_mem_bw_gb_s)
    return models.system_of(name / "system.json", network, data, str(name / "network.yml"))


def files(system: System, provenance: dict[str, Any]) -> dict[str, str]:
    """The texts of a system's folder."""
    texts: dict[str, Any] = {
        "system.json": dict(system.settings),
        "remote_memory.json": {"memory-type": "NO_MEMORY_EXPANSION"},
        "provenance.json": provenance,
    }
    written = {name: json.dumps(data, indent=2) + "\n" for name, data in texts.items()}
    return {"network.yml": system.network_text(), **written}
