"""``hespas targets``: the GPUs that XLA can compile for here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hespas.tools.commands import preset_listing
from hespas.tools.commands.command_parser import CommandParser


def build_parser() -> CommandParser:
    description = "List what --xla-optimize compiles for, besides cpu."
    name_help = "one target or file, in full as JSON"
    parser = preset_listing.build_listing_parser("hespas targets", description, name_help)
    parser.add_argument("--txtpb", action="store_true", help="print it as XLA reads it")
    return parser


def main(argv: Sequence[str]) -> int:
    """List the targets, or one in full; returns the exit code, raises HespasError."""
    options = build_parser().parse_args(argv)

    from hespas.configs import compile_targets
    from hespas.support.errors import UsageError

    if options.txtpb:
        if not options.name:
            raise UsageError("--txtpb needs the name of a target")
        print(compile_targets.load_compile_target(options.name).proto or "", end="")
        return 0
    header = ("target", "what", "compute capability", "cores", "GB/s", "GB")
    target_listing = preset_listing.PresetListing(
        compile_targets.list_target_presets(),
        compile_targets.read_target_json,
        lambda data: data,
        _format_target_row,
        header,
        left=2,
    )
    return preset_listing.print_listing(target_listing, options)


def _format_target_row(data: dict[str, Any]) -> list[str]:
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
