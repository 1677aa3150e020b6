"""The summary of a run, and its JSON object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from hespas.configs.node_spec import NodeSpec
from hespas.configs.system_spec import SystemSpec
from hespas.dialects.attrs import MemoryAttr, TargetAttr
from hespas.passes.emit.emit_chakra import EmittedTraces
from hespas.workflows.derived_figures import DerivedFigures, compute_lone_step_s
from hespas.workflows.memory_timeline import MEMORY_TIMELINE
from hespas.workflows.network_settings import NetworkSettings
from hespas.workflows.step_band import compute_step_band

if TYPE_CHECKING:
    from hespas.estimators.measure.measurement_run import MeasureStatistics
    from hespas.simulators.report_rows import SimulationReport
    from hespas.workflows.sensitivity.step_sensitivity import StepSensitivity

TABLES = {"op": "kinds", "bound": "bounds", "dtype": "dtypes"}  # keys of module_stats.json
TIME_SHARES = {**TABLES, "class": "classes"}


@dataclass(frozen=True)
class RunSummary:
    """All results of a run.

    Attributes:
        program: The name of the program's file.
        target: The node, the number of devices, and the provenance of the constants.
        system: The network; None if there is none.
        form: The form of the program: compiled by XLA, fused by hespas, or as it was read.
        split: The split strategy.
        emitted: The traces and statistics.
        warnings: Everything that makes the result less certain.
        network_settings: What ``hespas simulate`` uses by default for the traces.
        simulation: The simulation; None if the traces were not simulated.
        timeline: The file of the timeline.
        measured: What was measured; None if the estimator does not measure.
        memory: The memory on one device; None if it was not computed.
        memory_plan: The bytes of each part of XLA's own plan for one device; empty if not known.
        node: The node; None if it is unknown.
        derived: Utilisation, rates, energy and cost of a step.
        sensitivity: How much each rate of node and network matters; None if nobody asked.
    """

    program: str
    target: TargetAttr
    system: SystemSpec | None
    form: str
    split: str
    emitted: EmittedTraces
    warnings: list[str]
    network_settings: NetworkSettings
    simulation: SimulationReport | None = None
    timeline: str | None = None
    measured: MeasureStatistics | None = None
    memory: MemoryAttr | None = None
    memory_plan: Mapping[str, int] = field(default_factory=dict)
    node: NodeSpec | None = None
    derived: DerivedFigures | None = None
    sensitivity: StepSensitivity | None = None

    @property
    def fits_memory(self) -> bool | None:
        """Whether the peak memory fits the node; None if either is unknown.

        A program with a memory plan of XLA fits, because XLA refuses others.
        """
        if self.memory_plan:
            return True
        if self.memory is None or self.node is None or self.node.memory_bytes is None:
            return None
        return self.memory.peak_bytes <= self.node.memory_bytes

    @property
    def module_stats(self) -> dict[str, Any]:
        """The contents of module_stats.json."""
        return self.emitted.stats

    @property
    def time_ns(self) -> float:
        """Compute time of one device in nanoseconds."""
        return self.module_stats["totals"]["time_ns"]

    @property
    def band_ns(self) -> tuple[float, float] | None:
        """80 % band of the compute time in nanoseconds; None if the estimator has no band."""
        totals = self.module_stats["totals"]
        return None if totals["low_ns"] is None else (totals["low_ns"], totals["high_ns"])

    @property
    def step_time_s(self) -> float | None:
        """Step time in seconds; None if devices exchange data and nothing was simulated.

        A device that exchanges nothing takes the time of its kernels and its copies to the host.
        """
        if self.simulation is not None:
            return self.simulation.result.step_time_ns * 1e-9
        return compute_lone_step_s(self.module_stats)

    @property
    def step_band_s(self) -> tuple[float, float] | None:
        """80 % band of the step time in seconds; None without a band or a step time."""
        if self.band_ns is None or self.step_time_s is None:
            return None
        if self.simulation is None:  # copies to the host have no band of their own
            added_s = self.step_time_s - self.time_ns * 1e-9
            return self.band_ns[0] * 1e-9 + added_s, self.band_ns[1] * 1e-9 + added_s
        low_ns, high_ns = compute_step_band(self.time_ns, self.band_ns, self.simulation)
        return 1e-9 * low_ns, 1e-9 * high_ns

    def get_simulation_setting(self, name: str) -> str | None:
        """Return a setting that the simulation reports, such as ``curves``; None if it does not."""
        if self.simulation is None:
            return None
        return self.simulation.result.settings.to_texts().get(name)

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written on one device."""
        totals = self.module_stats["totals"]
        return totals["read_bytes"] + totals["write_bytes"]

    def get_utilisation(self, resource: str) -> float | None:
        """Return the used share of the peak of ``flops`` or ``bandwidth``.

        The share is 0 if nothing takes time, and None if no node defines the peak.
        """
        if self.target.node is None:
            return None
        return (self.module_stats["utilisation"] or {}).get(resource, 0.0)

    def list_time_shares(self, by: str) -> list[tuple[str, float]]:
        """List (name, nanoseconds) by a key of ``TIME_SHARES``, longest first."""
        rows = self.module_stats[TIME_SHARES[by]].items()
        return [(name, row["time_ns"]) for name, row in rows if row["time_ns"]]


@dataclass(frozen=True)
class CollectiveTotals:
    """All collectives of one kind and group size on one device."""

    kind: str
    group_size: int
    count: int
    operand_bytes: int


def sum_collectives(stats: dict[str, Any]) -> Iterator[CollectiveTotals]:
    """Sum collectives by kind and group size.

    The sums are those of the device that sends most; for permutes, of the average device.
    """
    per_device: dict[tuple[str, int], dict[int, list[int]]] = {}
    for row in stats["communicators"].values():
        for kind, sums in row["collectives"].items():
            devices = per_device.setdefault((kind, len(row["ranks"])), {})
            for rank in row["ranks"]:
                device_sums = devices.setdefault(rank, [0, 0])
                device_sums[0] += sums["operand_bytes"]
                device_sums[1] += sums["count"]
    for (kind, size), devices in sorted(per_device.items()):
        operand_bytes, count = max(devices.values())
        yield CollectiveTotals(kind, size, count, operand_bytes)
    copies = stats.get("host_copies")
    if copies:
        yield CollectiveTotals("host copy", 1, copies["count"], copies["operand_bytes"])
    transfers = stats["transfers"]
    if transfers["count"]:
        average = transfers["message_bytes"] // stats["program"]["devices"]
        yield CollectiveTotals("permute", 2, transfers["count"], average)


def to_summary_json(summary: RunSummary) -> dict[str, Any]:
    """Convert a summary to the object that docs/reference/run-json.md describes."""
    totals, reuse = summary.module_stats["totals"], summary.module_stats["reuse"]
    simulated: dict[str, Any] = _collect_simulated_totals(summary.simulation)
    energy_nj = totals["energy_nj"]
    compute_band_ns, step_band_s = summary.band_ns, summary.step_band_s
    return {
        "step_time_s": summary.step_time_s,
        "compute_s": summary.time_ns * 1e-9,
        "comm_s": simulated.get("comm_s"),
        "exposed_comm_s": simulated.get("exposed_comm_s"),
        "devices": summary.target.devices,
        "estimator": summary.target.estimator,
        "warnings": summary.warnings,
        "compute_band_s": compute_band_ns and [1e-9 * end for end in compute_band_ns],
        "step_time_band_s": step_band_s and list(step_band_s),
        "tags": totals["tags"],
        "exposed_share": simulated.get("exposed_share"),
        "overlap_s": simulated.get("overlap_s"),
        "simulator": simulated.get("simulator"),
        "curves": summary.get_simulation_setting("curves"),
        "between_hosts": summary.get_simulation_setting("between hosts"),
        "communicators": summary.get_simulation_setting("communicators"),
        "timeline": summary.timeline,
        "program": summary.program,
        "node": summary.target.node,
        "node_overrides": summary.target.node_overrides,
        "constants": summary.target.constants,
        "system": summary.system.name if summary.system else None,
        "network": summary.network_settings.model_dump(),
        "form": summary.form,
        "split": summary.split,
        "output": str(summary.emitted.folder),
        "nodes_per_device": summary.emitted.nodes_per_device,
        "flops": totals["flops"],
        "read_bytes": totals["read_bytes"],
        "write_bytes": totals["write_bytes"],
        "energy_j": None if energy_nj is None else energy_nj * 1e-9,
        "flops_utilisation": summary.get_utilisation("flops"),
        "bandwidth_utilisation": summary.get_utilisation("bandwidth"),
        "compute_s_by": {
            by: {name: ns * 1e-9 for name, ns in summary.list_time_shares(by)} for by in TIME_SHARES
        },
        "comm_ops": totals["comm_ops"],
        "comm_bytes": totals["comm_operand_bytes"],
        "collectives": [vars(row) for row in sum_collectives(summary.module_stats)],
        "regions": reuse["regions"],
        "distinct_regions": reuse["distinct_regions"],
        "region_ops": reuse["ops"],
        "distinct_region_ops": reuse["distinct_ops"],
        "basic_block_reuse_rate": reuse["basic_block_reuse_rate"],
        "operator_reuse_factor": reuse["operator_reuse_factor"],
        "measured": summary.measured.to_json() if summary.measured else None,
        "gaps": totals["gaps"],
        "memory": _to_memory_json(summary),
        "derived": summary.derived.to_json() if summary.derived else None,
        **({"sensitivity": summary.sensitivity.to_json()} if summary.sensitivity else {}),
    }


def _to_memory_json(summary: RunSummary) -> dict[str, Any] | None:
    """Convert the memory, with the name of its timeline's file instead of the timeline."""
    if summary.memory is None:
        return None
    names = [f.name for f in fields(summary.memory) if not f.name.startswith("timeline_")]
    values = {name: getattr(summary.memory, name) for name in names}
    return {
        "fits": summary.fits_memory,
        "node_bytes": summary.node.memory_bytes if summary.node else None,
        **values,
        **({"xla_plan": dict(summary.memory_plan)} if summary.memory_plan else {}),
        "timeline": MEMORY_TIMELINE,
    }


def _collect_simulated_totals(report: SimulationReport | None) -> dict[str, Any]:
    if report is None:
        return {}
    from hespas.workflows import simulation_report

    return simulation_report.collect_step_totals(report)
