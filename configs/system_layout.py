"""Writing a system: from dimensions in vendors' units to the files that ASTRA-sim reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hespas.configs.system_spec import COLLECTIVES, SystemSpec
from hespas.support.errors import HespasError

GIB = 2**30
TOPOLOGIES = ("Switch", "FullyConnected", "Ring")
ALGORITHMS = ("ring", "direct", "halvingDoubling", "doubleBinaryTree")
SWITCH_ALL_TO_ALL = "direct1"
UNITS = (
    "network.yml counts bandwidth in 2**30 bytes per second: each is the sourced number, in 1e9 "
    "bytes per second and one direction, times 1e9 / 2**30"
)


@dataclass(frozen=True, slots=True)
class SystemDimension:
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

    def choose_algorithm(self, collective: str) -> str:
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


def check_dimensions(dimensions: Sequence[SystemDimension]) -> None:
    """Raise HespasError for what ASTRA-sim cannot run."""
    for k, dimension in enumerate(dimensions):
        where = f"dimension {k}"
        if dimension.devices < 2:
            raise HespasError(f"{where} has {dimension.devices} devices: ASTRA-sim needs 2 or more")
        tree = dimension.algorithm in ("halvingDoubling", "doubleBinaryTree")
        if tree and dimension.devices & (dimension.devices - 1):
            raise HespasError(
                f"{where} has {dimension.devices} devices: {dimension.algorithm} needs a power of two"
            )


def make_system_settings(
    dimensions: Sequence[SystemDimension], local_mem_bw_gb_s: float
) -> dict[str, Any]:
    """system.json, with every key that ASTRA-sim has no good default for."""
    data: dict[str, Any] = {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 10,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
    }
    for name in COLLECTIVES:
        data[f"{name}-implementation"] = [
            dimension.choose_algorithm(name) for dimension in dimensions
        ]
    return data | {
        "collective-optimization": "localBWAware",
        "local-mem-bw": local_mem_bw_gb_s,
        "boost-mode": 0,
        "trace-enabled": 1,
    }


def build_system_spec(
    name: Path, dimensions: Sequence[SystemDimension], local_mem_bw_gb_s: float
) -> SystemSpec:
    """The system of these dimensions, checked; ``name`` is the folder where it is or would be."""
    from hespas.configs import file_models

    check_dimensions(dimensions)
    network = {
        "topology": [dimension.topology for dimension in dimensions],
        "npus_count": [dimension.devices for dimension in dimensions],
        "bandwidth": [dimension.bandwidth_gib_s for dimension in dimensions],
        "latency": [float(dimension.latency_ns) for dimension in dimensions],
    }
    data = make_system_settings(dimensions, local_mem_bw_gb_s)
    return file_models.parse_system_files(
        name / "system.json", network, data, str(name / "network.yml")
    )


def render_system_files(system: SystemSpec, provenance: dict[str, Any]) -> dict[str, str]:
    """The texts of a system's folder."""
    texts: dict[str, Any] = {
        "system.json": dict(system.settings),
        "remote_memory.json": {"memory-type": "NO_MEMORY_EXPANSION"},
        "provenance.json": provenance,
    }
    written = {name: json.dumps(data, indent=2) + "\n" for name, data in texts.items()}
    return {"network.yml": system.render_network_text(), **written}
