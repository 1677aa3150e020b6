"""``hespas nodes``: the node presets, with their main constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hespas.tools.commands import listing
from hespas.tools.commands.parser import Parser

if TYPE_CHECKING:
    from hespas.configs.node import Node

SHOWN = ("f32", "tf32", "bf16", "f16", "f8", "i8")


def arguments() -> Parser:
    description = "List the node presets, with dense peak rates."
    one = "one preset or file, all its constants as JSON"
    return listing.arguments("hespas nodes", description, one)


def main(argv: Sequence[str]) -> int:
    """List the presets, or one in full as JSON; returns the exit code, raises HespasError."""
    options = arguments().parse_args(argv)

    from hespas import configs

    header = ("node", *(f"{dtype} TFLOP/s" for dtype in SHOWN), "GB/s", "GB")
    nodes = listing.Listing(configs.node_names(), configs.node, as_json, _row, header)
    return listing.print_listing(nodes, options)


def as_json(node: Node) -> dict[str, Any]:
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


def _row(node: Node) -> list[str]:
    """The rates of the matrix unit, or of the vector unit for types that it lacks."""
    rates = {**node.peaks_flops.get("vector", {}), **node.peaks_flops.get("matrix", {})}
    cells = [f"{rates[dtype] / 1e12:g}" if dtype in rates else "-" for dtype in SHOWN]
    memory = f"{node.memory_bytes / 1e9:.0f}" if node.memory_bytes else "-"
    return [node.name, *cells, f"{node.memory_bandwidth_bytes_per_s / 1e9:g}", memory]
