"""``hespas targets``: the GPUs that XLA can compile for here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hespas.tools.commands import listing
from hespas.tools.commands.parser import Parser


def arguments() -> Parser:
    description = "List what --xla-optimize compiles for, besides cpu."
    one = "one target or file, in full as JSON"
    parser = listing.arguments("hespas targets", description, one)
    parser.add_argument("--txtpb", action="store_true", help="print it as XLA reads it")
    return parser


def main(argv: Sequence[str]) -> int:
    """List the targets, or one in full; returns the exit code, raises HespasError."""
    options = arguments().parse_args(argv)

    from hespas.configs import targets
    from hespas.dialects.errors import UsageError

    if options.txtpb:
        if not options.name:
            raise UsageError("--txtpb needs the name of a target")
        print(targets.target(options.name).proto or "", end="")
        return 0
    header = ("target", "what", "compute capability", "cores", "GB/s", "GB")
    found = listing.Listing(
        targets.target_names(), targets.target_data, lambda data: data, _row, header, left=2
    )
    return listing.print_listing(found, options)


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
