"""``hespas presets``: list and print presets and schemas, and create systems."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hespas.support.errors import HespasError, UsageError
from hespas.support.suggestions import suggest_nearest
from hespas.support.text_tables import TextRow, TextTable, print_tables
from hespas.tools.commands.command_parser import (
    CommandFunction,
    CommandParser,
    parse_count,
    parse_non_negative,
    parse_positive,
)
from hespas.tools.commands.shared_flags import add_json_flag

if TYPE_CHECKING:
    from hespas.configs.node_spec import NodeSpec
    from hespas.configs.system_layout import SystemDimension
    from hespas.configs.system_spec import SystemSpec

DESCRIPTION = """\
List the presets, print one in full, create a system, and print the JSON Schemas of the files.

  hespas presets nodes
  hespas presets systems H100_80GB_8GPU
  hespas presets schema run > run.schema.json
"""
DTYPES = ("f32", "tf32", "bf16", "f16", "f8", "i8")  # element types in the table of nodes
NEW_DESCRIPTION = """\
Create a system: write network.yml, system.json, remote_memory.json and provenance.json to DIR, in
the form that ASTRA-sim and hespas read. Bandwidths are in 1e9 bytes per second and per direction,
as vendors give them.

  hespas presets new my_system --devices-per-host 8 --hosts 4 \\
    --link-bandwidth 450 --nic-bandwidth 50 --node H100_80GB
"""
LATENCIES_NS = {"link": 1000.0, "nic": 2000.0}  # by default
LATENCY_SOURCES = {  # of the default latencies
    "link": "default: that of the published presets",
    "nic": "default: half of the 4 us that NCCL's tuner assumes for a network step of a ring "
    "(NVIDIA/nccl src/graph/tuning.cc, LL128), because a Switch has two hops",
}


def build_parser() -> CommandParser:
    parser = CommandParser("hespas presets", DESCRIPTION)
    _add_listing(
        parser, "nodes", "list the node presets with their dense peak rates", _show_nodes,
        "print all constants of this node preset or file as JSON",
    )  # fmt: skip
    systems = _add_listing(
        parser, "systems", "list the system presets with their dimensions", _show_systems,
        "print all settings of this system preset or folder as JSON",
    )  # fmt: skip
    systems.add_argument(
        "--output", metavar="DIR", help="write the files of the named preset to this folder"
    )
    targets = _add_listing(
        parser, "targets", "list the GPUs and TPUs that XLA can compile for", _show_targets,
        "print this compile target or file as JSON",
    )  # fmt: skip
    targets.add_argument(
        "--txtpb", action="store_true", help="print the named target in XLA's text format"
    )
    _add_new_command(parser)
    schema = parser.add_command(
        "schema",
        "list the JSON Schemas of configuration files, or print one",
        _show_schemas,
        "List the JSON Schemas of configuration files, or print one. Editors use them to complete\n"
        "and check the keys of a file.",
    )
    schema.add_argument("name", nargs="?", metavar="NAME", help="print this schema")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    return build_parser().run_command(argv)


def _add_listing(
    parser: CommandParser, name: str, summary: str, run: CommandFunction, name_help: str
) -> CommandParser:
    command = parser.add_command(name, summary, run)
    command.add_argument("name", nargs="?", metavar="NAME", help=name_help)
    add_json_flag(command, "print JSON instead of a table")
    return command


@dataclass(frozen=True)
class PresetListing:
    """The presets of one kind and how to print them.

    Attributes:
        names: The names of all presets.
        load: Loads a preset by its name.
        to_json: Converts a preset to the object that is printed as JSON.
        format_row: Converts a preset to a row of the table.
        header: The titles of the columns.
        left: The number of columns that are text and aligned to the left.
    """

    names: Sequence[str]
    load: Callable[[str], Any]
    to_json: Callable[[Any], Any]
    format_row: Callable[[Any], TextRow]
    header: TextRow
    left: int = 1

    def print_presets(self, options: argparse.Namespace) -> int:
        """Print all presets, or the one that the options name; returns the exit code."""

        if options.name:
            print(json.dumps(self.to_json(self.load(options.name)), indent=1))
            return 0
        presets = [self.load(name) for name in self.names]
        if options.json:
            print(json.dumps([self.to_json(preset) for preset in presets], indent=1))
        else:
            rows = [self.format_row(preset) for preset in presets]
            print_tables([TextTable("", rows, self.header, left=self.left)])
        return 0


def _show_nodes(options: argparse.Namespace) -> int:
    from hespas import configs

    header = ("node", *(f"{dtype} TFLOP/s" for dtype in DTYPES), "GB/s", "GB")
    return PresetListing(
        configs.list_node_presets(), configs.load_node, _to_node_json, _format_node_row, header
    ).print_presets(options)


def _to_node_json(node: NodeSpec) -> dict[str, Any]:
    """Convert a node to JSON: all its constants with their sources; rates in operations/s."""
    return {
        each.name: getattr(node, each.name)
        for each in fields(node)
        if each.name not in ("warn_default", "is_anonymous", "changed")  # which are of this process
    }


def _format_node_row(node: NodeSpec) -> list[str]:
    """Format a node with the rates of its matrix unit, or of its vector unit for other types."""
    rates = {**node.peaks_flops.get("vector", {}), **node.peaks_flops.get("matrix", {})}
    cells = [f"{rates[dtype] / 1e12:g}" if dtype in rates else "-" for dtype in DTYPES]
    memory = f"{node.memory_bytes / 1e9:.0f}" if node.memory_bytes else "-"
    return [node.name, *cells, f"{node.memory_bandwidth_bytes_per_s / 1e9:g}", memory]


def _show_systems(options: argparse.Namespace) -> int:
    from hespas import configs

    if options.output is not None:
        if not options.name:
            raise UsageError("--output needs the name of a preset")
        write_system_folder(Path(options.output), configs.read_system_files(options.name))
        return 0
    return PresetListing(
        configs.list_system_presets(),
        configs.load_system,
        _to_system_json,
        _format_system_row,
        ("system", "network", "bandwidth GiB/s", "latency ns", "devices"),
        left=4,
    ).print_presets(options)


def _to_system_json(system: SystemSpec) -> dict[str, Any]:
    """Convert a system to JSON: its settings, and the provenance of a preset.

    Bandwidths are in 2**30 bytes/s (``local_mem_bw_gb_s``: 1e9 bytes/s) and latencies in ns, the
    units of ASTRA-sim. The folder is None for a preset that is generated from a family.
    """
    from hespas import configs

    return {
        **system.to_values(),
        "folder": str(system.folder) if system.folder.is_dir() else None,
        "devices": system.device_count,
        **configs.read_system_provenance(system),
    }


def _format_system_row(system: SystemSpec) -> list[str]:
    shape = zip(system.topology, system.npus_count, strict=True)
    return [
        system.name,
        " x ".join(f"{kind} {count}" for kind, count in shape),
        ", ".join(f"{value:g}" for value in system.bandwidth_gib_s),
        ", ".join(f"{value:g}" for value in system.latency_ns),
        str(system.device_count),
    ]


def _show_targets(options: argparse.Namespace) -> int:
    from hespas.configs import compile_targets

    if options.txtpb:
        if not options.name:
            raise UsageError("--txtpb needs the name of a target")
        target = compile_targets.load_compile_target(options.name)
        if target.tpu is not None:
            raise UsageError(f"{target.name} is a TPU, which has no GpuTargetConfigProto")
        print(target.proto or "", end="")
        return 0
    return PresetListing(
        compile_targets.list_target_presets(),
        compile_targets.read_target_json,
        lambda data: data,
        _format_target_row,
        ("target", "description", "capability", "cores", "GB/s", "GB"),
        left=2,
    ).print_presets(options)


def _format_target_row(data: dict[str, Any]) -> list[str]:
    if "tpu" in data:
        return [data["name"], data["description"], data["tpu"]["topology"], "", "", ""]
    device = data["config"]["gpu_device_info"]
    version = device["cuda_compute_capability"]
    return [
        data["name"],
        data["description"],
        f"{version['major']}.{version.get('minor', 0)}",
        str(device["core_count"]),
        f"{device['memory_bandwidth'] / 1e9:g}",
        f"{device['device_memory_size'] / 1e9:.0f}",
    ]


def _show_schemas(options: argparse.Namespace) -> int:
    from hespas import configs

    if options.name:
        print(configs.read_schema_text(options.name), end="")
        return 0
    rows = [
        (name, json.loads(configs.read_schema_text(name))["title"])
        for name in configs.list_schema_names()
    ]
    print_tables([TextTable("", rows, ("schema", "file"), left=2)])
    return 0


def _add_new_command(parser: CommandParser) -> None:
    """Add ``new`` to the parser of ``hespas presets``."""
    from hespas.configs.system_layout import ALGORITHMS, TOPOLOGIES

    command = parser.add_command(
        "new",
        "create a system: a network that no preset describes",
        _create_system,
        NEW_DESCRIPTION,
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
        help="latency of a hop in a host; a switch takes two hops "
        f"(default {LATENCIES_NS['link']:g})",
    )  # fmt: skip
    add(
        "--nic-latency", type=parse_non_negative, metavar="NS",
        help=f"latency of a hop between hosts (default {LATENCIES_NS['nic']:g})",
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
        SystemDimension(
            topology,
            devices,
            bandwidth,
            LATENCIES_NS[name] if latency is None else latency,
            algorithm,
        )
        for (name, devices, bandwidth, latency), topology, algorithm in zip(
            parts, topologies, algorithms, strict=True
        )
    ]


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
