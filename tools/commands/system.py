"""``hespas system new``: a system of one's own from a few numbers, in ASTRA-sim's files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hespas.support.errors import HespasError, UsageError
from hespas.tools.commands.command_parser import (
    CommandParser,
    parse_count,
    parse_non_negative,
    parse_positive,
)

if TYPE_CHECKING:
    from hespas.configs.system_layout import SystemDimension

DESCRIPTION = """\
Write a system: DIR with network.yml, system.json, remote_memory.json and provenance.json, as
ASTRA-sim and hespas read them. Bandwidths are vendors' (1e9 bytes per second), of one direction.

  hespas system new my_system --devices-per-node 8 --nodes 4 \\
    --link-bandwidth 450 --nic-bandwidth 50 --node H100_80GB
"""
LINK_LATENCY_NS, NIC_LATENCY_NS = 1000.0, 2000.0
DEFAULTS = {
    "link": "default: that of the published presets",
    "nic": "default: half of the 4 us that NCCL's tuner takes for a network step of a ring "
    "(NVIDIA/nccl src/graph/tuning.cc, LL128), as a Switch has two hops",
}


def build_parser() -> CommandParser:
    from hespas.configs.system_layout import ALGORITHMS, TOPOLOGIES

    parser = CommandParser("hespas system", DESCRIPTION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    new = commands.add_parser("new", help="write the folder of a new system", description="")
    add = new.add_argument
    add("folder", metavar="DIR", help="a folder that does not exist, or is empty")
    add("--devices-per-node", type=parse_count, required=True, metavar="N")
    add("--nodes", type=parse_count, default=1, metavar="M", help="default 1")
    add(
        "--link-bandwidth",
        type=parse_positive,
        metavar="GB/S",
        help="inside a node: of a device into the switch; of each link, where there is none",
    )
    add("--nic-bandwidth", type=parse_positive, metavar="GB/S", help="between nodes, of a device")
    add(
        "--link-latency",
        type=parse_non_negative,
        metavar="NS",
        help=f"of a hop, two of which lead through a switch (default {LINK_LATENCY_NS:g})",
    )
    add("--nic-latency", type=parse_non_negative, metavar="NS", help=f"default {NIC_LATENCY_NS:g}")
    add(
        "--topology",
        default="Switch",
        metavar="NAME[,NAME]",
        help=f"inside a node, and between nodes (default Switch): {', '.join(TOPOLOGIES)}",
    )
    add(
        "--algorithm",
        default="",
        metavar="NAME[,NAME]",
        help="of collectives, by dimension: "
        f"{', '.join(ALGORITHMS)} (default ring; direct on FullyConnected)",
    )
    add(
        "--local-mem-bandwidth",
        type=parse_positive,
        metavar="GB/S",
        help="of a device's memory: the time of reductions",
    )
    add("--node", metavar="NAME", help="node preset or file to take the memory bandwidth from")
    add("--description", default="", help="a line for provenance.json")
    return parser  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    options = build_parser().parse_args(argv)

    from hespas.configs import system_layout

    dimensions = _build_dimensions(options)
    local, local_source = _select_memory_bandwidth(options)
    system = system_layout.build_system_spec(Path(options.folder), dimensions, local)
    texts = system_layout.render_system_files(system, _build_provenance(options, local_source))
    write_system_folder(Path(options.folder), texts)
    counts = " x ".join(f"{dimension.topology} {dimension.devices}" for dimension in dimensions)
    print(f"{options.folder}: {system.device_count} devices, {counts}")
    return 0


def _build_dimensions(options: argparse.Namespace) -> list[SystemDimension]:
    """Inside a node, then between nodes; one with a single device is left out."""
    from hespas.configs.system_layout import ALGORITHMS, TOPOLOGIES, SystemDimension

    inside = ("link", options.devices_per_node, options.link_bandwidth, options.link_latency)
    between = ("nic", options.nodes, options.nic_bandwidth, options.nic_latency)
    parts = [part for part in (inside, between) if part[1] > 1]
    if not parts:
        raise UsageError("a system needs 2 devices or more, here is 1")
    for name, bandwidth in (("link", options.link_bandwidth), ("nic", options.nic_bandwidth)):
        needed = any(part[0] == name for part in parts)
        if needed and bandwidth is None:
            raise UsageError(f"--{name}-bandwidth is missing")
        if not needed and bandwidth is not None:
            other = "--nodes" if name == "nic" else "--devices-per-node"
            raise UsageError(f"--{name}-bandwidth has no use: {other} is 1")
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
    """One name for each dimension; those that are not given are the usual one."""
    from hespas.support.suggestions import suggest_nearest

    names = [name.strip() for name in text.split(",")] if text else []
    for name in names:
        if name not in known:
            raise UsageError(
                f"{flag}: there is no '{name}'", remedy=suggest_nearest(name, list(known))
            )
    if len(names) > count:
        dimensions = f"{count} dimension{'s' if count > 1 else ''}"
        raise UsageError(f"{flag} names {len(names)}, and the system has {dimensions}")
    return [*names, *[default] * (count - len(names))]


def _select_memory_bandwidth(options: argparse.Namespace) -> tuple[float, str]:
    """The memory bandwidth in 1e9 bytes per second, and where it comes from."""
    from hespas import configs

    if (options.local_mem_bandwidth is None) == (options.node is None):
        raise UsageError(
            "the bandwidth of a device's memory is needed once",
            remedy="give --local-mem-bandwidth, or --node to take it from a node preset",
        )
    if options.node is None:
        return options.local_mem_bandwidth, "given by flags"
    node = configs.load_node(options.node)
    return node.memory_bandwidth_bytes_per_s / 1e9, f"node {node.name}"


def _build_provenance(options: argparse.Namespace, local_source: str) -> dict[str, object]:
    from hespas.configs.system_layout import UNITS

    latency = [
        "given by flags" if value is not None else DEFAULTS[name]
        for name, value, count in (
            ("link", options.link_latency, options.devices_per_node),
            ("nic", options.nic_latency, options.nodes),
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
            "implementations": "given by flags, or the usual ones of the topology",
            "local-mem-bw": local_source,
            "other keys of system.json": "as in hespas's own presets",
        },
        "units": UNITS,
    }


def write_system_folder(folder: Path, texts: dict[str, str]) -> None:
    """Write all files or none, into a folder that is new or empty; raises HespasError."""
    from hespas.support.output_folder import open_output_folder

    if folder.is_dir() and any(folder.iterdir()):
        raise HespasError(
            "is not empty", where=str(folder), remedy="name a new folder, or empty that one"
        )
    with open_output_folder(folder) as fresh:
        for name, text in texts.items():
            (fresh / name).write_text(text, encoding="utf-8")
