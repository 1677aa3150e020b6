"""The places that print figures, with the labels that name no figure of ``FIGURES``."""

from __future__ import annotations

from collections.abc import Mapping

from hespas.workflows.figures import BY_NAME, FIGURES, Figure, list_figures

# What is no figure of run.json: names, settings and words. Keys that end in a dot stand for all
# that follow.
FACTS = (
    "estimator", "warnings", "rematerialised", "xla_flags", "simulator", "curves", "between_hosts",
    "network_model", "timeline",
    "program", "node", "node_overrides", "constants", "system", "network.", "form", "scheduler",
    "split",
    "output", "tags.", "compute_s_by.", "collectives", "measured", "memory.op", "memory.location",
    "memory.timeline", "derived.energy_model", "derived.peak_dtype", "derived.model_flops_source",
)  # fmt: skip
# What is no figure of a row of a plan or of a study; and figures that compare rows.
ROW_FACTS = (
    "rank", "status", "reason", "on_front", "form", "program", "node", "devices", "mesh", "system",
    "error", "estimator", "bound_s", "best_case_s", "fused_step_time_s", "efficiency",
    "peak_dtype",
)  # fmt: skip
# What a pipeline does not know of a step: the ranks run several programs.
NOT_OF_PIPELINES = frozenset(("comm_s", "flops_per_device"))
# Labels of figures that a place prints in rows of its own, beside those of its loop, by place.
OWN_LABELS: Mapping[str, Mapping[str, str]] = {
    "summary": {
        "Memory, one device: peak": "memory.peak_bytes",
        "Memory, one device: most live": "memory.live_bytes",
        "Memory, one device:   arguments": "memory.argument_bytes",
        "Memory, one device:   results": "memory.result_bytes",
        "Memory, one device:   temporaries": "memory.temporary_bytes",
        "Program: devices": "devices",
        "Compute, one device: time": "compute_s",
        "Compute, one device: regions": "regions",
        "Result: step time": "step_time_s",
        "Result: 80 % band": "step_time_band_s",
        "Result: communication": "comm_s",
        "Result: exposed": "exposed_comm_s",
        "Result: serial": "serial_step_s",
    },
    "show": {"Compute, one device: compute time": "compute_s"},
    "compare": {"step": "step_time_s", "80 % band": "step_time_band_s", "compute": "compute_s"},
    "study": {"images/s": "derived.samples_per_s", "of peak": "derived.mfu"},
    "sweep": {"Devices": "devices", "Step": "step_time_s", "Compute": "compute_s"},
}
# Labels that name no figure.
FACT_LABELS: Mapping[str, frozenset[str]] = {
    "summary": frozenset((
        "Program: program", "Program: form", "Program: node", "Program: system",
        "Program: estimator", "Compute, one device: memory traffic",
        "Compute, one device: not estimated", "Compute, one device: assumed",
        "Compute, one device: extrapolated", "Compute, one device: transferred", "Result: traces",
        "Result: warnings", "Result: simulator", "Result: network model", "Result: compute",
    )),
    "page": frozenset(),
    "show": frozenset(f"Compute, one device: {name}" for name in (
        "node", "estimator", "constants", "kernels", "not estimated",
    )),
    "compare": frozenset(("of first", "speed-up")),
    "changes": frozenset(),
    "sweep": frozenset(("Program", "Of shortest", "80 % band")),
    "plan": frozenset(("rank", "bound", "at best", "form", "status", "reason")),
    "plan terminal": frozenset(("rank", "margin", "at best")),
    "study": frozenset(),
}  # fmt: skip


def list_labels(place: str) -> dict[str, Figure]:
    """Return the figure of each label at a place."""
    labels = {label: BY_NAME[name] for label, name in OWN_LABELS.get(place, {}).items()}
    match place:
        case "summary":
            labels |= {f"{f.table}: {f.label or f.title}": f for f in list_figures("summary")}
        case "page" | "changes":
            labels |= {figure.title: figure for figure in list_figures(place)}
        case "compare" | "plan" | "plan terminal" | "study":
            labels |= {figure.column_title: figure for figure in list_figures(place)}
        case "sweep":
            titles = {figure.column_title: figure for figure in list_figures("sweep")}
            labels |= {title[0].upper() + title[1:]: figure for title, figure in titles.items()}
    return labels


def is_known_name(name: str) -> bool:
    """Return whether a name of a flat run.json is a figure or a fact."""
    figures = {figure.name for figure in FIGURES}
    known = figures | {f"{name}.{end}" for name in figures for end in (0, 1)} | set(FACTS)
    return name in known or name.startswith(tuple(fact for fact in FACTS if fact.endswith(".")))
