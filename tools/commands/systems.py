"""``hespas systems``: the system presets, with their network."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hespas.support.errors import UsageError
from hespas.tools.commands import preset_listing
from hespas.tools.commands.command_parser import CommandParser

if TYPE_CHECKING:
    from hespas.configs.system_spec import SystemSpec


def build_parser() -> CommandParser:
    description = "List the system presets: dimensions, fastest first."
    name_help = "one preset or folder, all its settings as JSON"
    parser = preset_listing.build_listing_parser("hespas systems", description, name_help)
    parser.add_argument("--output", metavar="DIR", help="write the files of the named preset there")
    return parser


def main(argv: Sequence[str]) -> int:
    """List the presets, or one in full as JSON; returns the exit code, raises HespasError."""
    options = build_parser().parse_args(argv)

    from hespas import configs

    if options.output is not None:
        if not options.name:
            raise UsageError("--output needs the name of a preset")
        from hespas.tools.commands.system import write_system_folder

        write_system_folder(Path(options.output), configs.read_system_files(options.name))
        return 0
    header = ("system", "network", "bandwidth GiB/s", "latency ns", "devices")
    systems = preset_listing.PresetListing(
        configs.list_system_presets(),
        configs.load_system,
        _to_system_json,
        _format_system_row,
        header,
        left=4,
    )
    return preset_listing.print_listing(systems, options)


def _to_system_json(system: SystemSpec) -> dict[str, Any]:
    """A system: its settings, and for a preset their sources, corrections and caveats.

    Bandwidths in GB/s of 2**30 bytes (``local_mem_bw_gb_s``: of 1e9), latencies in ns, as ASTRA-sim
    takes them.
    """
    from hespas import configs

    return {
        **dataclasses.asdict(system),
        "folder": str(system.folder)
        if system.folder.is_dir()
        else None,  # none: made from a family
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
