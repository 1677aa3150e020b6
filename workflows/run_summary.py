"""The summary of a run, and its JSON object."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hespas.configs.node_spec import NodeSpec
from hespas.configs.system_spec import SystemSpec
from hespas.dialects.attrs import MemoryAttr, TargetAttr
from hespas.passes.emit.emit_chakra import EmittedTraces
from hespas.workflows.compiler_rematerialisation import CompilerRematerialisation
from hespas.workflows.figures import compute_figures
from hespas.workflows.network_settings import NetworkSettings
from hespas.workflows.run_results import MEMORY_TIMELINE
from hespas.workflows.step_band import compute_hidden_ns, compute_step_band
from hespas.workflows.step_facts import StepFacts, StepWork, compute_lone_step_s

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
        scheduler: The scheduler of XLA:GPU that ordered the program; "" if it is not known.
        xla_flags: The flags that XLA has compiled it with, and where they are from; "" for XLA's
            own defaults, or if it is not known.
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
        work: The work of the step, and the price of a device.
        rematerialisation: What XLA computes again; None if XLA has not compiled the program.
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
    scheduler: str = ""
    xla_flags: str = ""
    memory_plan: Mapping[str, int] = field(default_factory=dict)
    node: NodeSpec | None = None
    work: StepWork = field(default_factory=StepWork)
    rematerialisation: CompilerRematerialisation | None = None
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

    @property
    def network_model(self) -> str | None:
        """The network model of the simulation; None without a simulation."""
        settings = self.simulation and self.simulation.result.settings
        return (settings.network_model or None) if settings else None

    @property
    def hidden_s(self) -> float | None:
        """How much longer a step without overlap would be in seconds; None without a simulation."""
        if self.simulation is None:
            return None
        return 1e-9 * compute_hidden_ns(self.time_ns, self.simulation)

    def get_simulation_setting(self, name: str) -> str | None:
        """Return a setting that the simulation reports, such as ``curves``; None if it does not."""
        if self.simulation is None:
            return None
        return self.simulation.result.settings.to_texts().get(name)

    @functools.cached_property
    def facts(self) -> StepFacts:
        """What the figures of the step are computed from."""
        return StepFacts(
            stats=self.module_stats,
            node=self.node,
            work=self.work,
            simulated=_collect_simulated_totals(self.simulation),
            step_band_s=self.step_band_s,
            hidden_s=self.hidden_s,
            memory=self.memory,
            fits_memory=self.fits_memory,
            nodes_per_device=self.emitted.nodes_per_device,
            rematerialisation=self.rematerialisation,
        )

    @functools.cached_property
    def figures(self) -> Mapping[str, Any]:
        """The figures of the step, as run.json nests them."""
        return compute_figures(self.facts)

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
    facts, figures = summary.facts, summary.figures
    first = ("step_time_s", "compute_s", "comm_s", "exposed_comm_s", "devices")
    memory, derived = figures.get("memory"), figures["derived"]
    return {
        **{name: figures[name] for name in first},
        "estimator": summary.target.estimator,
        "warnings": summary.warnings,
        **{name: value for name, value in figures.items() if not isinstance(value, dict)},
        "tags": facts.totals["tags"],
        "simulator": facts.simulated.get("simulator"),
        "curves": summary.get_simulation_setting("curves"),
        "between_hosts": summary.get_simulation_setting("between hosts"),
        "network_model": summary.network_model,
        "timeline": summary.timeline,
        "program": summary.program,
        "node": summary.target.node,
        "node_overrides": summary.target.node_overrides,
        "constants": summary.target.constants,
        "system": summary.system.name if summary.system else None,
        "network": summary.network_settings.model_dump(),
        "form": summary.form,
        "scheduler": summary.scheduler or None,
        "xla_flags": summary.xla_flags or None,
        "rematerialised": _list_recomputed_kernels(summary),
        "split": summary.split,
        "output": str(summary.emitted.folder),
        "compute_s_by": {
            by: {name: ns * 1e-9 for name, ns in summary.list_time_shares(by)} for by in TIME_SHARES
        },
        "collectives": [vars(row) for row in sum_collectives(summary.module_stats)],
        "measured": summary.measured.to_json() if summary.measured else None,
        "memory": None if memory is None else {**memory, **_describe_memory(summary)},
        "derived": {
            **derived,
            "energy_model": facts.energy.energy_model,
            "peak_dtype": facts.peak_dtype,
            "model_flops_source": facts.work.model_flops_source,
        },
        **({"sensitivity": summary.sensitivity.to_json()} if summary.sensitivity else {}),
    }


def _list_recomputed_kernels(summary: RunSummary) -> list[dict[str, Any]] | None:
    """List what XLA computes again; None if the program is not compiled."""
    found = summary.rematerialisation
    return None if found is None else [dataclasses.asdict(kernel) for kernel in found.kernels]


def _describe_memory(summary: RunSummary) -> dict[str, Any]:
    """Return what is no figure of the memory: where most is live, XLA's plan, the timeline."""
    assert summary.memory is not None
    plan = {"xla_plan": dict(summary.memory_plan)} if summary.memory_plan else {}
    place = {"op": summary.memory.op, "location": summary.memory.location}
    return {**place, **plan, "timeline": MEMORY_TIMELINE}


def _collect_simulated_totals(report: SimulationReport | None) -> dict[str, Any]:
    if report is None:
        return {}
    from hespas.workflows import simulation_report

    return simulation_report.collect_step_totals(report)
