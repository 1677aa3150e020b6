"""``hespas nodes``: the node presets, with their main constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hespas.tools.commands import preset_listing
from hespas.tools.commands.command_parser import CommandParser

if TYPE_CHECKING:
    from hespas.configs.node_spec import NodeSpec

SHOWN = ("f32", "tf32", "bf16", "f16", "f8", "i8")


def build_parser() -> CommandParser:
    description = "List the node presets, with dense peak rates."
    name_help = "one preset or file, all its constants as JSON"
    return preset_listing.build_listing_parser("hespas nodes", description, name_help)


def main(argv: Sequence[str]) -> int:
    """List the presets, or one in full as JSON; returns the exit code, raises HespasError."""
    options = build_parser().parse_args(argv)

    from hespas import configs

    header = ("node", *(f"{dtype} TFLOP/s" for dtype in SHOWN), "GB/s", "GB")
    nodes = preset_listing.PresetListing(
        configs.list_node_presets(), configs.load_node, _to_node_json, _format_node_row, header
    )
    return preset_listing.print_listing(nodes, options)


def _to_node_json(node: NodeSpec) -> dict[str, Any]:
    """All constants of a node, rates in operations/s, with their sources."""
    return {
        "name": node.name,
        "vendor": node.vendor,
        "description": node.description,
        "memory_bandwidth_bytes_per_s": node.memory_bandwidth_bytes_per_s,
        "memory_bytes": node.memory_bytes,
        "l2_bytes": node.l2_bytes,
        "tdp_w": node.tdp_w,
        "hbm_power_share": node.hbm_power_share,
        "collectives": node.collectives,
        "overlap_slowdown": node.overlap_slowdown,
        "calibration": node.calibration,
        "idle_w": node.idle_w,
        "price_per_hour": node.price_per_hour,
        "default_flops": node.default_flops,
        "peaks_flops": {unit: dict(rates) for unit, rates in node.peaks_flops.items()},
        "fallbacks": dict(node.fallbacks),
        "sources": dict(node.sources),
    }


def _format_node_row(node: NodeSpec) -> list[str]:
    """The rates of the matrix unit, or of the vector unit for types that it lacks."""
    rates = {**node.peaks_flops.get("vector", {}), **node.peaks_flops.get("matrix", {})}
    cells = [f"{rates[dtype] / 1e12:g}" if dtype in rates else "-" for dtype in SHOWN]
    memory = f"{node.memory_bytes / 1e9:.0f}" if node.memory_bytes else "-"
    return [node.name, *cells, f"{node.memory_bandwidth_bytes_per_s / 1e9:g}", memory]
