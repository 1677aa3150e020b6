"""The figures of a step: one list of what run.json, tables and pages may show.

Each figure has a unit and a rule of addition, and a label at each place that prints it. The list
lives here until the product has one (docs/design.md); then the laws read the product's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hespas.support.text_tables import (
    format_percent,
    format_scaled,
    format_seconds,
    format_time_range,
)

Rule = Literal["sum", "ratio", "largest", "of all", "none"]
RULES: Mapping[Rule, str] = {
    "sum": "the figure of two programs that run one after the other is the sum of theirs",
    "ratio": "a quotient of sums",
    "largest": "at least the larger one",
    "of all": "the same for both",
    "none": "no rule: bands, which depend on shared errors, and counts of distinct things",
}

UNITS: Mapping[str, Callable[[Any], str]] = {
    "s": format_seconds,
    "share": format_percent,
    "USD": lambda value: f"{value:g} USD",
    "mm2": lambda value: f"{value:.4g} mm",
    "count": str,
    "fits": lambda value: "" if value else "DOES NOT FIT",
    "text": str,
    "per s": lambda value: f"{value:,.6g}",
    "scaled": lambda value: format_scaled(value, "").strip(),
    "s, three digits": lambda value: format_time_range(value, value).partition(" ")[0],
    "whole per s": lambda value: f"{value:,.0f}",
    **{unit: lambda value, unit=unit: format_scaled(value, unit).strip()
       for unit in ("B", "FLOP", "FLOP/s", "J", "W", "Js", "/s")},
}  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A figure of a step.

    Attributes:
        name: Its path in run.json.
        unit: A key of ``UNITS``.
        rule: How the figures of two programs give that of both.
        short: Its name in the rows of plans and studies; "" if they have it under no other name.
        labels: The label at each place that prints it, and the unit there if it differs.
    """

    name: str
    unit: str
    rule: Rule
    short: str = ""
    labels: Mapping[str, str | tuple[str, str]] = field(default_factory=dict)

    @property
    def row_name(self) -> str:
        """The name in rows of plans and studies."""
        return self.short or self.name.rpartition(".")[2]


PLACES = (
    "summary", "page", "show", "compare", "changes", "sweep page", "plan", "plan page", "study",
)  # fmt: skip

FIGURES = (
    Figure("step_time_s", "s", "sum", labels={
        "summary": "Result: step time", "page": "step time", "compare": "step",
        "changes": "step time", "sweep page": "Step", "plan": "step", "plan page": "step",
        "study": "step"}),
    Figure("compute_s", "s", "sum", labels={
        "summary": "Compute, one device: time", "show": "Compute, one device: compute time",
        "page": "compute", "compare": "compute",
        "changes": "compute", "sweep page": "Compute", "plan": "compute", "study": "compute"}),
    Figure("comm_s", "s", "sum", labels={
        "summary": "Result: communication", "changes": "communication"}),
    Figure("exposed_comm_s", "s", "sum", labels={
        "summary": "Result: exposed", "page": "exposed communication", "compare": "exposed",
        "changes": "exposed communication", "plan": "exposed", "study": "exposed"}),
    Figure("overlap_s", "s", "sum", labels={"changes": "overlap"}),
    Figure("exposed_share", "share", "ratio", labels={
        "compare": "share", "sweep page": "Exposed"}),
    Figure("step_time_band_s.0", "s", "none", "step_time_low_s", labels={
        "summary": "Result: 80 % band", "compare": "80 % band",
        "sweep page": ("80 % band", "s, three digits"), "plan": "80 % band"}),
    Figure("step_time_band_s.1", "s", "none", "step_time_high_s"),
    Figure("compute_band_s.0", "s", "none", labels={
        "summary": "Compute, one device: 80 % band"}),
    Figure("compute_band_s.1", "s", "none"),
    Figure("devices", "count", "of all", labels={
        "summary": "Program: devices", "changes": "devices", "sweep page": "Devices"}),
    Figure("flops", "FLOP", "sum", "flops_per_device", labels={
        "summary": "Compute, one device: operations", "changes": "operations"}),
    Figure("read_bytes", "B", "sum", labels={"changes": "read"}),
    Figure("write_bytes", "B", "sum", labels={"changes": "written"}),
    Figure("energy_j", "J", "sum", labels={"summary": "Compute, one device: energy"}),
    Figure("flops_utilisation", "share", "ratio", labels={
        "page": "of the peak, computing", "compare": "of peak", "sweep page": "Of peak"}),
    Figure("bandwidth_utilisation", "share", "ratio", labels={
        "sweep page": "Of bandwidth"}),
    Figure("comm_ops", "count", "sum", labels={"changes": "collectives"}),
    Figure("comm_bytes", "B", "sum", labels={"changes": "operands of collectives"}),
    Figure("nodes_per_device", "count", "none"),
    Figure("regions", "count", "none", labels={"summary": "Compute, one device: regions"}),
    Figure("distinct_regions", "count", "none"),
    Figure("region_ops", "count", "none"),
    Figure("distinct_region_ops", "count", "none"),
    Figure("basic_block_reuse_rate", "share", "none"),
    Figure("operator_reuse_factor", "share", "none"),
    Figure("gaps", "count", "sum", labels={
        "summary": "Compute, one device: not estimated", "compare": "gaps",
        "changes": "ops without an estimate", "sweep page": "Gaps"}),
    Figure("memory.fits", "fits", "of all", labels={"study": "fits"}),
    Figure("memory.node_bytes", "B", "of all"),
    Figure("memory.peak_bytes", "B", "largest", "peak_bytes", labels={
        "summary": "Memory, one device: peak", "page": "peak memory", "compare": "memory",
        "changes": "peak memory", "sweep page": "Memory", "plan": "memory", "plan page": "memory",
        "study": "memory"}),
    Figure("memory.live_bytes", "B", "largest", labels={
        "summary": "Memory, one device: most live"}),
    Figure("memory.argument_bytes", "B", "none", labels={
        "summary": "Memory, one device:   arguments"}),
    Figure("memory.result_bytes", "B", "none", labels={
        "summary": "Memory, one device:   results"}),
    Figure("memory.constant_bytes", "B", "none"),
    Figure("memory.temporary_bytes", "B", "none", labels={
        "summary": "Memory, one device:   temporaries"}),
    Figure("memory.parameter_bytes", "B", "none"),
    Figure("memory.optimizer_bytes", "B", "none"),
    Figure("memory.activation_bytes", "B", "none"),
    Figure("memory.points", "count", "none"),
    Figure("derived.executed_flops", "FLOP", "sum"),
    Figure("derived.model_flops", "FLOP", "sum"),
    Figure("derived.peak_flops_per_s", "FLOP/s", "none"),
    Figure("derived.mfu", "share", "ratio", labels={
        "summary": "Step, all devices: MFU", "page": "MFU", "compare": "MFU", "changes": "MFU",
        "sweep page": "MFU", "plan": "MFU", "plan page": "MFU", "study": "MFU"}),
    Figure("derived.hfu", "share", "ratio", labels={
        "summary": "Step, all devices: HFU", "page": "HFU", "compare": "HFU", "changes": "HFU",
        "sweep page": "HFU"}),
    Figure("derived.tokens_per_s", "/s", "ratio", labels={
        "summary": ("Step, all devices: tokens per second", "per s"), "page": "tokens",
        "compare": ("tokens/s", "scaled"), "changes": "tokens", "sweep page": "Tokens",
        "plan": ("tokens/s", "whole per s"), "study": ("tokens/s", "whole per s")}),
    Figure("derived.samples_per_s", "/s", "ratio", labels={
        "summary": ("Step, all devices: samples per second", "per s"), "page": "samples",
        "compare": ("samples/s", "scaled"), "changes": "samples", "sweep page": "Samples",
        "plan": ("samples/s", "whole per s"), "study": ("images/s", "whole per s")}),
    Figure("derived.energy_j", "J", "sum", labels={
        "summary": "Step, all devices: energy", "page": "energy", "compare": "energy",
        "changes": "energy", "sweep page": "Energy", "study": "energy"}),
    Figure("derived.energy_compute_j", "J", "sum", labels={
        "summary": "Step, all devices:   operations"}),
    Figure("derived.energy_sram_j", "J", "sum", labels={
        "summary": "Step, all devices:   on-chip memory"}),
    Figure("derived.energy_memory_j", "J", "sum", labels={
        "summary": "Step, all devices:   device memory"}),
    Figure("derived.energy_network_j", "J", "sum", labels={
        "summary": "Step, all devices:   network"}),
    Figure("derived.energy_leakage_j", "J", "sum", labels={
        "summary": "Step, all devices:   leakage"}),
    Figure("derived.average_power_w", "W", "ratio", labels={
        "summary": "Step, all devices: average power", "page": "average power",
        "sweep page": "Power"}),
    Figure("derived.energy_delay_js", "Js", "none", labels={
        "summary": "Step, all devices: energy x delay", "sweep page": "Energy x delay"}),
    Figure("derived.area_mm2", "mm2", "of all", labels={
        "summary": "Step, all devices: area of a chip", "page": "area of a chip",
        "sweep page": "Area"}),
    Figure("derived.price_per_hour", "USD", "of all"),
    Figure("derived.cost_usd", "USD", "sum", labels={
        "summary": "Step, all devices: cost", "page": "cost of a step", "compare": "cost",
        "changes": "cost"}),
)  # fmt: skip

# Figures of rows of plans and studies that run.json lacks.
ROW_FIGURES = (
    Figure("bound_s", "s", "none", labels={"plan page": "bound"}),
    Figure("fused_step_time_s", "s", "none"),
    Figure("usd_per_million_tokens", "USD", "ratio", labels={
        "plan": "$/Mtoken", "study": "$/Mtoken"}),
    Figure("flops_per_s_per_device", "FLOP/s", "ratio", labels={"study": "of a device"}),
    Figure("efficiency", "share", "ratio", labels={"study": "efficiency"}),
)  # fmt: skip

# What is no figure: names, settings and words. Keys that end in a dot stand for all that follow.
FACTS = (
    "estimator", "warnings", "simulator", "curves", "between_hosts", "communicators", "timeline",
    "program", "node", "node_overrides", "constants", "system", "network.", "form", "split",
    "output", "tags.", "compute_s_by.", "collectives", "measured", "memory.op", "memory.location",
    "memory.timeline", "derived.energy_model", "derived.peak_dtype", "derived.model_flops_source",
)  # fmt: skip
ROW_FACTS = (
    "rank", "status", "reason", "on_front", "form", "program", "node", "devices", "mesh", "system",
    "error", "estimator",
)  # fmt: skip
# Labels that name no figure, by place.
FACT_LABELS: Mapping[str, frozenset[str]] = {
    "summary": frozenset((
        "Program: program", "Program: form", "Program: node", "Program: system",
        "Program: estimator", "Compute, one device: memory traffic", "Compute, one device: assumed",
        "Compute, one device: extrapolated", "Compute, one device: transferred", "Result: traces",
        "Result: warnings", "Result: simulator", "Result: communicators", "Result: compute",
    )),
    "page": frozenset(),
    "show": frozenset(f"Compute, one device: {name}" for name in (
        "node", "estimator", "constants", "kernels", "not estimated",
    )),
    "compare": frozenset(("of first", "speed-up")),
    "changes": frozenset(),
    "sweep page": frozenset(("Program", "node", "Node", "Of shortest", "mlir", "seed")),
    "plan": frozenset(("rank", "margin", "form")),
    "plan page": frozenset(("rank", "status", "reason")),
    "study": frozenset(),
}  # fmt: skip


def list_labels(place: str) -> dict[str, tuple[Figure, str]]:
    """Return the figure and the unit of each label at a place."""
    labels: dict[str, tuple[Figure, str]] = {}
    for figure in (*FIGURES, *ROW_FIGURES):
        label = figure.labels.get(place)
        if label is not None:
            text, unit = (label, figure.unit) if isinstance(label, str) else label
            labels[text] = figure, unit
    return labels


def is_known_name(name: str) -> bool:
    """Return whether a name of run.json is a figure or a fact."""
    names = {figure.name for figure in (*FIGURES, *ROW_FIGURES)}
    return (
        name in names
        or name in FACTS
        or name.startswith(tuple(fact for fact in FACTS if fact.endswith(".")))
    )
