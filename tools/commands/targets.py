"""``hespas targets``: the GPUs that XLA can compile for here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hespas.tools.commands.parser import Parser


def arguments() -> Parser:
    parser = Parser("hespas targets", "List what --xla-optimize compiles for, besides cpu.")
    parser.add_argument("name", nargs="?", help="one target or file, in full as JSON")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--txtpb", action="store_true", help="print it as XLA reads it")
    return parser


def main(argv: Sequence[str]) -> int:
    """List the targets, or one in full; returns the exit code, raises HespasError."""
    options = arguments().parse_args(list(argv))

    from hespas.configs import targets
    from hespas.dialects.errors import UsageError
    from hespas.tools.commands import render

    if options.txtpb:
        if not options.name:
            raise UsageError("--txtpb needs the name of a target")
        print(targets.target(options.name).proto or "", end="")
        return 0
    if options.name:
        print(json.dumps(targets.target_data(options.name), indent=1))
        return 0
    found = [targets.target_data(name) for name in targets.target_names()]
    if options.json:
        print(json.dumps(found, indent=1))
        return 0
    header = ("target", "what", "compute capability", "cores", "GB/s", "GB")
    render.show([render.Table("", [_row(data) for data in found], header, left=2)])
    return 0


def _row(data: dict[str, Any]) -> list[str]:
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
