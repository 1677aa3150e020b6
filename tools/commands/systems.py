"""``hespas systems``: the system presets, with their network."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hespas.dialects.errors import UsageError
from hespas.tools.commands import listing
from hespas.tools.commands.parser import Parser

if TYPE_CHECKING:
    from hespas.configs.system import System


def arguments() -> Parser:
    description = "List the system presets: dimensions, fastest first."
    one = "one preset or folder, all its settings as JSON"
    parser = listing.arguments("hespas systems", description, one)
    parser.add_argument("--output", metavar="DIR", help="write the files of the named preset there")
    return parser


def main(argv: Sequence[str]) -> int:
    """List the presets, or one in full as JSON; returns the exit code, raises HespasError."""
    options = arguments().parse_args(argv)

    from hespas import configs

    if options.output is not None:
        if not options.name:
            raise UsageError("--output needs the name of a preset")
        from hespas.tools.commands.system import write_folder

        write_folder(Path(options.output), configs.system_files(options.name))
        return 0
    header = ("system", "network", "bandwidth GiB/s", "latency ns", "devices")
    systems = listing.Listing(configs.system_names(), configs.system, as_json, _row, header, left=4)
    return listing.print_listing(systems, options)


def as_json(system: System) -> dict[str, Any]:
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
        "devices": system.devices,
        **configs.provenance(system),
    }


def _row(system: System) -> list[str]:
    shape = zip(system.topology, system.npus_count, strict=True)
    return [
        system.name,
        " x ".join(f"{kind} {count}" for kind, count in shape),
        ", ".join(f"{value:g}" for value in system.bandwidth_gib_s),
        ", ".join(f"{value:g}" for value in system.latency_ns),
        str(system.devices),
    ]
