"""A system: a number of devices and the network between them, as ASTRA-sim describes it."""

from __future__ import annotations

import dataclasses
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hespas.configs.network_fabric import NetworkFabric
from hespas.support.data_files import check_named_path
from hespas.support.errors import HespasError
from hespas.support.text_tables import format_count

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
PER_NODE_KEY = "per-node-custom-implementation"


@dataclass(frozen=True, slots=True)
class RemoteMemory:
    """Memories that devices load from and store to, one access at a time.

    Attributes:
        latency_ns: The latency of an access.
        bytes_per_ns: The bandwidth of a memory.
        devices_per_memory: How many consecutive devices share a memory; 1 if each has its own.
    """

    latency_ns: int
    bytes_per_ns: int
    devices_per_memory: int

    def find_memory(self, device: int) -> int:
        """Return the number of the memory of a device."""
        return device // self.devices_per_memory

    def compute_access_ns(self, size: int) -> int:
        """Compute the nanoseconds of an access to ``size`` bytes."""
        return self.latency_ns + int(size / self.bytes_per_ns)


@dataclass(frozen=True, slots=True)
class SystemSpec:
    """A network of one or more dimensions.

    Attributes:
        folder: The folder of the system's files.
        topology: The kind of each dimension; the first one varies fastest in a device id.
        npus_count: The number of devices in each dimension.
        bandwidth_gib_s: Bandwidth of a device in each dimension, in 2**30 bytes per second.
        latency_ns: Latency of a hop in each dimension.
        implementations: For each collective, its algorithm in each dimension. A collective that
            system.json does not name is absent.
        local_mem_bw_gb_s: Memory bandwidth of a device in 1e9 bytes per second.
        roofline_enabled: Whether the time of a compute node follows from its operations and bytes
            instead of its duration.
        peak_perf_tflops: The peak rate that ``roofline_enabled`` uses.
        custom: For a collective, the prefix of the traces of a custom algorithm.
        per_node_custom: A file that maps single trace nodes to custom algorithms.
        settings: The contents of system.json.
        fabric: What the network can do beyond ASTRA-sim's model.
        remote_memory: The memories beside those of the devices; None if there are none.
        network_model: The network model by default: "astra" for a folder of ASTRA-sim's files,
            "flows" for a system in a form of hespas.
        notes: What was assumed because system.json does not say it, one sentence each.
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
    fabric: NetworkFabric = field(default_factory=NetworkFabric)
    remote_memory: RemoteMemory | None = None
    network_model: str = "astra"
    notes: tuple[str, ...] = ()

    def to_values(self) -> dict[str, Any]:
        """Return all fields by name, without objects but the folder."""
        return {**dataclasses.asdict(self), "fabric": self.fabric.to_values()}

    @property
    def device_count(self) -> int:
        """The number of devices, without those that are down."""
        return math.prod(self.npus_count) - len(self.fabric.down_devices)

    def list_device_speeds(self) -> list[float]:
        """List the speed of compute of each device, relative to the node."""
        speeds = self.fabric.device_speeds
        return [speeds.get(device, 1.0) for device in range(self.device_count)]

    @property
    def slice_count(self) -> int:
        """The number of groups of devices with fast links: slices of a torus, or else hosts."""
        if {"Ring", "Mesh"} & {*self.topology}:
            return self.npus_count[-1] if self.topology[-1] == "Switch" else 1
        return math.prod(self.npus_count[1:])

    @property
    def has_hosts(self) -> bool:
        """Whether dimension 0 is a host, whose devices reach each other directly."""
        return self.topology[0] in ("Switch", "FullyConnected")

    @property
    def needs_embedded(self) -> bool:
        """Whether ASTRA-sim has no model of the network."""
        if self.fabric.changes_links or self.fabric.slow_devices:
            return True
        return not {"Mesh", "FatTree", "Dragonfly"}.isdisjoint(self.topology)

    @property
    def device_gb_s(self) -> float:
        """The bandwidth of a device in dimension 0, over all its links, in 1e9 bytes per second."""
        return self.compute_device_gb_s(0)

    def check_device_count(
        self, devices: int, subject: str, *, where: str, alone: str = ""
    ) -> None:
        """Raise HespasError if the system has another number of devices than a program or traces.

        Args:
            devices: The devices of the program or the traces.
            subject: How the message begins, such as "the program runs on".
            where: The file or folder of the program or the traces.
            alone: The remedy for one device, if it is another one.
        """
        if self.device_count == devices:
            return
        sizes = " x ".join(str(count) for count in self.npus_count)
        raise HespasError(
            f"{subject} {format_count(devices, 'device')}, but system {self.name} has "
            f"{self.device_count}{f' ({sizes})' if len(self.npus_count) > 1 else ''}",
            where=where,
            remedy=(devices == 1 and alone)
            or "use a system of that size: hespas presets systems lists the presets, and "
            "hespas presets new makes another",
        )

    def list_algorithms(self, kind: str) -> tuple[str, ...]:
        """List the algorithm of a kind of collective in each dimension; () if it has none."""
        return self.implementations.get(kind.replace("_", "-"), ())

    def compute_device_gb_s(self, dim: int) -> float:
        """Compute the bandwidth of a device in a dimension, over all its links, in 1e9 bytes/s."""
        others = self.npus_count[dim] - 1
        links = {"FullyConnected": others, "Ring": min(2, others), "Mesh": min(2, others)}.get(
            self.topology[dim], 1
        )
        return links * self.bandwidth_gib_s[dim] * 2**30 / 1e9

    def resolve_settings_paths(self) -> dict[str, Any]:
        """Return ``settings`` with absolute paths of custom algorithms, for another folder."""
        resolved = dict(self.settings)
        for name in COLLECTIVES:
            key = f"{name}-implementation-custom"
            if resolved.get(key):
                resolved[key] = [str(self.resolve_trace_prefix(prefix)) for prefix in resolved[key]]
        if self.per_node_custom:
            resolved[PER_NODE_KEY] = str(self.per_node_path)
        return resolved

    @property
    def per_node_path(self) -> Path:
        """The absolute path of ``per_node_custom``; raises HespasError if it leaves the folder."""
        path = Path(os.path.abspath(self.folder / self.per_node_custom))
        where = f"{self.folder / 'system.json'}: {PER_NODE_KEY}"
        check_named_path(self.per_node_custom, path, self.folder, where)
        return path

    def resolve_trace_prefix(self, prefix: str) -> Path:
        """Return the absolute form of a prefix of custom traces.

        A relative prefix starts at the folder of the system. If no traces are there, it starts at
        the working directory, as in ASTRA-sim.

        Raises:
            HespasError: The prefix leaves these two folders.
        """
        paths = [Path(os.path.abspath(folder / prefix)) for folder in (self.folder, Path())]
        with_traces = [path for path in paths if path.with_name(f"{path.name}.0.et").exists()]
        path = [*with_traces, *paths][0]
        first = path.with_name(f"{path.name}.0.et")
        check_named_path(prefix, first, self.folder, str(self.folder / "system.json"))
        return path

    def render_network_text(self) -> str:
        """Return the text of network.yml."""
        rows = {
            "topology": self.topology,
            "npus_count": self.npus_count,
            "bandwidth": self.bandwidth_gib_s,
            "latency": self.latency_ns,
        }
        notes = {"bandwidth": "  # GB/s of 2**30 bytes", "latency": "  # ns"}
        lines = []
        for key, values in rows.items():
            listed = ", ".join(_format_network_value(value) for value in values)
            lines.append(f"{key}: [ {listed} ]{notes.get(key, '')}\n")
        return "".join(lines)


def _format_network_value(value: str | float) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
