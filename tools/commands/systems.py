"""``hespas systems``: the system presets, with their network."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hespas.tools.commands.parser import Parser

if TYPE_CHECKING:
    from hespas.configs.system import System


def main(argv: Sequence[str]) -> int:
    """List the presets, or one in full as JSON; returns the exit code, raises HespasError."""
    parser = Parser("hespas systems", "List the system presets: dimensions, fastest first.")
    parser.add_argument("name", nargs="?", help="one preset or folder, all its settings as JSON")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(argv)

    from hespas import configs
    from hespas.tools.commands import render

    if options.name:
        print(json.dumps(as_json(configs.system(options.name)), indent=1))
        return 0
    systems = [configs.system(name) for name in configs.system_names()]
    if options.json:
        print(json.dumps([as_json(system) for system in systems], indent=1))
        return 0
    header = ("system", "network", "bandwidth GiB/s", "latency ns", "devices")
    render.show([render.Table("", [_row(system) for system in systems], header, left=4)])
    return 0


def as_json(system: System) -> dict[str, Any]:
    """A system: its settings, and for a preset their sources, corrections and caveats.

    Bandwidths in GB/s of 2**30 bytes (``local_mem_bw_gb_s``: of 1e9), latencies in ns, as ASTRA-sim
    takes them.
    """
    from hespas import configs

    provenance = system.folder / "provenance.json"
    return {
        **dataclasses.asdict(system),
        "folder": str(system.folder),
        "devices": system.devices,
        **(configs.read_json(provenance) if provenance.exists() else {}),
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
