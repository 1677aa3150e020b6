"""``hespas presets new``: create a system from a few numbers, in ASTRA-sim's files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hespas.support.errors import HespasError, UsageError
from hespas.support.suggestions import suggest_nearest
from hespas.tools.commands.command_parser import (
    CommandParser,
    parse_count,
    parse_non_negative,
    parse_positive,
)

if TYPE_CHECKING:
    from hespas.configs.system_layout import SystemDimension

DESCRIPTION = """\
Create a system: write network.yml, system.json, remote_memory.json and provenance.json to DIR, in
the form that ASTRA-sim and hespas read. Bandwidths are in 1e9 bytes per second and per direction,
as vendors give them.

  hespas presets new my_system --devices-per-host 8 --hosts 4 \\
    --link-bandwidth 450 --nic-bandwidth 50 --node H100_80GB
"""
LINK_LATENCY_NS, NIC_LATENCY_NS = 1000.0, 2000.0
LATENCY_SOURCES = {  # of the default latencies
    "link": "default: that of the published presets",
    "nic": "default: half of the 4 us that NCCL's tuner assumes for a network step of a ring "
    "(NVIDIA/nccl src/graph/tuning.cc, LL128), because a Switch has two hops",
}


def add_new_command(parser: CommandParser) -> None:
    """Add ``new`` to the parser of ``hespas presets``."""
    from hespas.configs.system_layout import ALGORITHMS, TOPOLOGIES

    command = parser.add_command(
        "new", "create a system: a network that no preset describes", _create_system, DESCRIPTION
    )
    add = command.add_argument
    add("folder", metavar="DIR", help="folder to write; it must be new or empty")
    add(
        "--devices-per-host", type=parse_count, required=True, metavar="N",
        help="number of devices in a host",
    )  # fmt: skip
    add("--hosts", type=parse_count, default=1, metavar="M", help="number of hosts (default 1)")
    add(
        "--link-bandwidth", type=parse_positive, metavar="GB/S",
        help="bandwidth in a host: of a device into the switch, or of each link without a switch",
    )  # fmt: skip
    add(
        "--nic-bandwidth", type=parse_positive, metavar="GB/S",
        help="bandwidth of one device between hosts",
    )  # fmt: skip
    add(
        "--link-latency", type=parse_non_negative, metavar="NS",
        help=f"latency of a hop in a host; a switch takes two hops (default {LINK_LATENCY_NS:g})",
    )  # fmt: skip
    add(
        "--nic-latency", type=parse_non_negative, metavar="NS",
        help=f"latency of a hop between hosts (default {NIC_LATENCY_NS:g})",
    )  # fmt: skip
    add(
        "--topology", default="Switch", metavar="NAME[,NAME]",
        help=f"topology in a host and between hosts (default Switch): {', '.join(TOPOLOGIES)}",
    )  # fmt: skip
    add(
        "--algorithm", default="", metavar="NAME[,NAME]",
        help=f"algorithm of collectives in each dimension: {', '.join(ALGORITHMS)} (default ring; "
        "direct on FullyConnected)",
    )  # fmt: skip
    add(
        "--local-mem-bandwidth", type=parse_positive, metavar="GB/S",
        help="memory bandwidth of a device, for the time of reductions",
    )  # fmt: skip
    add("--node", metavar="NAME", help="node preset or file that supplies the memory bandwidth")
    add("--description", default="", help="one line of text for provenance.json")


def _create_system(options: argparse.Namespace) -> int:
    from hespas.configs import system_layout

    dimensions = _build_dimensions(options)
    bandwidth_gb_s, bandwidth_source = _select_memory_bandwidth(options)
    system = system_layout.build_system_spec(Path(options.folder), dimensions, bandwidth_gb_s)
    texts = system_layout.render_system_files(system, _build_provenance(options, bandwidth_source))
    write_system_folder(Path(options.folder), texts)
    counts = " x ".join(f"{dimension.topology} {dimension.devices}" for dimension in dimensions)
    print(f"{options.folder}: {system.device_count} devices, {counts}")
    return 0


def _build_dimensions(options: argparse.Namespace) -> list[SystemDimension]:
    """Build the dimensions in a host and between hosts; one with a single device is left out."""
    from hespas.configs.system_layout import ALGORITHMS, TOPOLOGIES, SystemDimension

    inside = ("link", options.devices_per_host, options.link_bandwidth, options.link_latency)
    between = ("nic", options.hosts, options.nic_bandwidth, options.nic_latency)
    parts = [part for part in (inside, between) if part[1] > 1]
    if not parts:
        raise UsageError("a system needs at least 2 devices, this one has 1")
    for name, bandwidth in (("link", options.link_bandwidth), ("nic", options.nic_bandwidth)):
        needed = any(part[0] == name for part in parts)
        if needed and bandwidth is None:
            raise UsageError(f"--{name}-bandwidth is missing")
        if not needed and bandwidth is not None:
            other = "--hosts" if name == "nic" else "--devices-per-host"
            raise UsageError(f"--{name}-bandwidth has no effect: {other} is 1")
    topologies = _parse_dimension_names(
        "--topology", options.topology, TOPOLOGIES, len(parts), "Switch"
    )
    algorithms = _parse_dimension_names(
        "--algorithm", options.algorithm, ALGORITHMS, len(parts), ""
    )
    return [
        SystemDimension(topology, devices, bandwidth, _select_latency(name, latency), algorithm)
        for (name, devices, bandwidth, latency), topology, algorithm in zip(
            parts, topologies, algorithms, strict=True
        )
    ]


def _select_latency(name: str, latency: float | None) -> float:
    if latency is not None:
        return latency
    return LINK_LATENCY_NS if name == "link" else NIC_LATENCY_NS


def _parse_dimension_names(
    flag: str, text: str, known: Sequence[str], count: int, default: str
) -> list[str]:
    """Parse one name for each dimension; missing ones are the default."""

    names = [name.strip() for name in text.split(",")] if text else []
    for name in names:
        if name not in known:
            raise UsageError(
                f"{flag} has no value '{name}'", remedy=suggest_nearest(name, list(known))
            )
    if len(names) > count:
        dimensions = f"{count} dimension{'s' if count > 1 else ''}"
        raise UsageError(f"{flag} has {len(names)} names, but the system has {dimensions}")
    return [*names, *[default] * (count - len(names))]


def _select_memory_bandwidth(options: argparse.Namespace) -> tuple[float, str]:
    """Return the memory bandwidth in 1e9 bytes per second, and its source."""
    from hespas import configs

    if (options.local_mem_bandwidth is None) == (options.node is None):
        raise UsageError(
            "the memory bandwidth of a device must be given once",
            remedy="give either --local-mem-bandwidth, or --node to use that of a node preset",
        )
    if options.node is None:
        return options.local_mem_bandwidth, "given by flags"
    node = configs.load_node(options.node)
    return node.memory_bandwidth_bytes_per_s / 1e9, f"node {node.name}"


def _build_provenance(options: argparse.Namespace, bandwidth_source: str) -> dict[str, object]:
    from hespas.configs.system_layout import UNITS

    latency = [
        "given by flags" if value is not None else LATENCY_SOURCES[name]
        for name, value, count in (
            ("link", options.link_latency, options.devices_per_host),
            ("nic", options.nic_latency, options.hosts),
        )
        if count > 1
    ]
    return {
        "description": options.description,
        "sources": {
            "topology": "given by flags, or Switch by default",
            "npus_count": "given by flags",
            "bandwidth": "given by flags",
            "latency": "; ".join(dict.fromkeys(latency)),
            "implementations": "given by flags, or the default of the topology",
            "local-mem-bw": bandwidth_source,
            "other keys of system.json": "as in hespas's own presets",
        },
        "units": UNITS,
    }


def write_system_folder(folder: Path, texts: dict[str, str]) -> None:
    """Write all files or none to a folder that is new or empty; raises HespasError."""
    from hespas.support.folder_manifest import OutputSet
    from hespas.support.output_folder import open_output_folder

    if folder.is_dir() and any(folder.iterdir()):
        raise HespasError(
            "the folder is not empty",
            where=str(folder),
            remedy="name a new folder or empty this one",
        )
    with open_output_folder(folder, OutputSet("system")) as fresh:
        for name, text in texts.items():
            (fresh / name).write_text(text, encoding="utf-8")
