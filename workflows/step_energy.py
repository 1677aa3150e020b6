"""The energy of a step: by the power model of the estimator, by level, or by the power limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hespas.configs.node_spec import NodeSpec
from hespas.simulators.timeline import count_sent_bytes

# How the energy of a step was computed.
ANNOTATED = "power model of the node, idle power while nothing computes"
BY_LEVEL = "operations, memories, links and leakage"
LIMITS = "power limit while it computes, idle power else"
AT_MOST = "at most: power limit throughout"


@dataclass(frozen=True)
class StepEnergy:
    """The energy of a step on all devices in joules; None for what is not known.

    Attributes:
        energy_j: The sum of the known levels.
        energy_model: How it was computed, and which levels are missing.
        energy_compute_j: Operations.
        energy_sram_j: On-chip memory.
        energy_memory_j: Device memory.
        energy_network_j: Messages, once for each byte that a device has to send.
        energy_leakage_j: What the chips draw while nothing switches, over the whole step.
    """

    energy_j: float | None = None
    energy_model: str | None = None
    energy_compute_j: float | None = None
    energy_sram_j: float | None = None
    energy_memory_j: float | None = None
    energy_network_j: float | None = None
    energy_leakage_j: float | None = None


def estimate_step_energy(
    stats: Mapping[str, Any], seconds: float | None, node: NodeSpec | None
) -> StepEnergy:
    """Estimate the energy of a step that takes ``seconds``, as exactly as its inputs permit.

    Args:
        stats: The contents of module_stats.json, which describe one device.
        seconds: The step time; None if it is not known.
        node: The node; None if it is unknown.
    """
    if seconds is None or node is None:
        return StepEnergy()
    devices, totals = stats["program"]["devices"], stats["totals"]
    if totals.get("compute_nj") is not None:
        return _sum_levels(stats, seconds)
    compute_s = min(totals["time_ns"] * 1e-9, seconds)
    idle_s = seconds - compute_s
    if totals["energy_nj"] is not None and (node.idle_w is not None or not idle_s):
        idle_j = idle_s * (node.idle_w or 0.0)
        return StepEnergy(devices * (totals["energy_nj"] * 1e-9 + idle_j), ANNOTATED)
    if node.tdp_w is None:
        return StepEnergy()
    if node.idle_w is not None:
        return StepEnergy(devices * (compute_s * node.tdp_w + idle_s * node.idle_w), LIMITS)
    return StepEnergy(devices * seconds * node.tdp_w, AT_MOST)


def _sum_levels(stats: Mapping[str, Any], seconds: float) -> StepEnergy:
    """Sum the energy by level on all devices, and name the levels that are missing."""
    program, totals = stats["program"], stats["totals"]
    devices, leakage_w = program["devices"], program.get("leakage_w")
    levels = {
        level: None if totals.get(f"{level}_nj") is None else devices * totals[f"{level}_nj"] * 1e-9
        for level in ("compute", "sram", "memory")
    }
    sent_bytes, pj_per_byte = _sum_sent_bytes(stats), program.get("link_pj_per_byte")
    if not sent_bytes:
        levels["network"] = 0.0
    else:
        levels["network"] = None if pj_per_byte is None else sent_bytes * pj_per_byte * 1e-12
    levels["leakage"] = None if leakage_w is None else devices * seconds * leakage_w
    missing = [level for level, energy_j in levels.items() if energy_j is None]
    model = f"{BY_LEVEL}; without {', '.join(missing)}" if missing else BY_LEVEL
    known_j = sum(energy_j or 0.0 for energy_j in levels.values())
    return StepEnergy(known_j, model, *levels.values())


def _sum_sent_bytes(stats: Mapping[str, Any]) -> float:
    """Return the bytes that all devices have to send in a step."""
    collectives_bytes = sum(
        len(row["ranks"]) * count_sent_bytes(kind, sums["operand_bytes"], len(row["ranks"]))
        for row in stats["communicators"].values()
        for kind, sums in row["collectives"].items()
    )
    return collectives_bytes + stats["transfers"]["message_bytes"]
