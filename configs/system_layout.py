"""Construction of a system from dimensions in vendors' units, and its files for ASTRA-sim."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hespas.configs.collective_algorithms import ALGORITHM_LIMITS
from hespas.configs.system_spec import COLLECTIVES, SystemSpec
from hespas.support.errors import HespasError

GIB = 2**30
TOPOLOGIES = ("Switch", "FullyConnected", "Ring", "Mesh")
ALGORITHMS = tuple(ALGORITHM_LIMITS)
SWITCH_ALL_TO_ALL = "direct1"
UNITS = (
    "network.yml counts bandwidth in 2**30 bytes per second: each is the sourced number, in 1e9 "
    "bytes per second and one direction, times 1e9 / 2**30"
)


@dataclass(frozen=True, slots=True)
class SystemDimension:
    """One dimension of a network.

    Attributes:
        bandwidth_gb_s: Bandwidth in 1e9 bytes per second and direction: of a device to a Switch, of
            each link of a FullyConnected group, or of the links to one neighbour in a Ring or Mesh.
        latency_ns: Latency of a hop. A message makes one hop, or two through a Switch.
        algorithm: The preferred collective algorithm; "" for the usual one.
    """

    topology: str
    devices: int
    bandwidth_gb_s: float
    latency_ns: float
    algorithm: str = ""

    @property
    def bandwidth_gib_s(self) -> float:
        """The bandwidth in 2**30 bytes per second, as in network.yml, rounded to 1e-6."""
        return round(self.bandwidth_gb_s * 1e9 / GIB, 6)

    def choose_algorithm(self, collective: str) -> str:
        """Return ``algorithm`` if it supports the collective, or else the usual algorithm.

        Through a switch, an all-to-all sends to one peer after the other (``direct1``): a ring
        would need n/2 times as long, and ``direct`` would send to all peers at once, each with the
        full bandwidth.
        """
        usual = "direct" if self.topology == "FullyConnected" else "ring"
        if collective == "all-to-all" and self.topology == "Switch":
            usual = SWITCH_ALL_TO_ALL
        limits = ALGORITHM_LIMITS.get(self.algorithm)
        is_supported = limits is not None and collective.replace("-", "_") in limits.kinds
        return self.algorithm if is_supported else usual


def list_usual_algorithms(topology: Sequence[str], kind: str) -> tuple[str, ...]:
    """Return the usual algorithm of a kind of collective in each dimension."""
    collective = kind.replace("_", "-")
    dimensions = (SystemDimension(name, 2, 1.0, 0.0) for name in topology)
    return tuple(dimension.choose_algorithm(collective) for dimension in dimensions)


def check_dimensions(dimensions: Sequence[SystemDimension]) -> None:
    """Check that ASTRA-sim supports the dimensions.

    Raises:
        HespasError: It does not.
    """
    for k, dimension in enumerate(dimensions):
        where = f"dimension {k}"
        if dimension.devices < 2:
            raise HespasError(
                f"{where} has {dimension.devices} devices, but ASTRA-sim needs 2 or more"
            )
        limits = ALGORITHM_LIMITS.get(dimension.algorithm)
        is_limited = limits is not None and limits.needs_power_of_two
        if is_limited and dimension.devices & (dimension.devices - 1):
            raise HespasError(
                f"{where} has {dimension.devices} devices, but {dimension.algorithm} needs a power "
                "of two"
            )


def make_system_settings(
    dimensions: Sequence[SystemDimension], local_mem_bw_gb_s: float
) -> dict[str, Any]:
    """Return the contents of system.json, with every key without a useful default in ASTRA-sim."""
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
    folder: Path,
    dimensions: Sequence[SystemDimension],
    local_mem_bw_gb_s: float,
    fabric_data: dict[str, Any] | None = None,
) -> SystemSpec:
    """Build a system.

    Args:
        folder: The folder of the system, which may not exist; its name is that of the system.
        local_mem_bw_gb_s: Memory bandwidth of a device in 1e9 bytes per second.
        fabric_data: The contents of fabric.json; None if there is nothing to say.

    Raises:
        HespasError: ASTRA-sim does not support the dimensions.
    """
    from hespas.configs import system_files

    check_dimensions(dimensions)
    network = {
        "topology": [dimension.topology for dimension in dimensions],
        "npus_count": [dimension.devices for dimension in dimensions],
        "bandwidth": [dimension.bandwidth_gib_s for dimension in dimensions],
        "latency": [float(dimension.latency_ns) for dimension in dimensions],
    }
    data = make_system_settings(dimensions, local_mem_bw_gb_s)
    return system_files.parse_system_files(
        folder / "system.json", network, data, str(folder / "network.yml"), fabric_data or {}
    )


def render_system_files(system: SystemSpec, provenance: dict[str, Any]) -> dict[str, str]:
    """Return the texts of a system's files by name."""
    texts: dict[str, Any] = {
        "system.json": dict(system.settings),
        "remote_memory.json": {"memory-type": "NO_MEMORY_EXPANSION"},
        "provenance.json": provenance,
    }
    fabric = system.fabric.to_json(system.network_model)
    if fabric:  # a folder of ASTRA-sim's files has none
        texts["fabric.json"] = fabric
    json_texts = {name: json.dumps(data, indent=2) + "\n" for name, data in texts.items()}
    return {"network.yml": system.render_network_text(), **json_texts}
