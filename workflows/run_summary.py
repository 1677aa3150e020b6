"""The summary of a run, as tables and as a JSON object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from hespas.configs.node_spec import NodeSpec
from hespas.configs.system_spec import SystemSpec
from hespas.dialects.attrs import MemoryAttr, TargetAttr
from hespas.passes.emit.emit_chakra import EmittedTraces
from hespas.support.text_tables import (
    TextRow,
    TextTable,
    format_count,
    format_percent,
    format_scaled,
    format_seconds,
)
from hespas.workflows.derived_figures import DerivedFigures
from hespas.workflows.memory_timeline import MEMORY_TIMELINE
from hespas.workflows.network_settings import NetworkSettings
from hespas.workflows.step_band import compute_step_band

if TYPE_CHECKING:
    from hespas.estimators.measure.measurement_run import MeasureStatistics
    from hespas.simulators.report_rows import SimulationReport
    from hespas.workflows.sensitivity.step_sensitivity import StepSensitivity

SHOWN = 8  # rows of a table
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
    def step_band_s(self) -> tuple[float, float] | None:
        """80 % band of the step time in seconds; None without a band or a simulation."""
        if self.band_ns is None or self.simulation is None:
            return None
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
        "step_time_s": simulated.get("step_time_s"),
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


def build_summary_tables(summary: RunSummary, *, show_files: bool = True) -> list[TextTable]:
    """Build the tables of a summary; ``show_files`` includes what the run has written."""
    totals, target, reuse = (
        summary.module_stats["totals"],
        summary.target,
        summary.module_stats["reuse"],
    )
    replicas = format_count(target.replicas, "replica")
    layout = f"{replicas} x {format_count(target.partitions, 'partition')}"
    head = [
        ("program", summary.program),
        ("devices", f"{target.devices} ({layout})"),
        ("form", summary.form),
        ("node", _format_node(target)),
        ("system", _format_system(summary.system)),
        ("estimator", target.estimator or "unknown"),
    ]
    flops, moved = format_scaled(totals["flops"], "FLOP"), format_scaled(summary.moved_bytes, "B")
    compute = [
        ("time", format_seconds(summary.time_ns * 1e-9)),
        *_build_band_rows("80 % band", summary.band_ns and [1e-9 * end for end in summary.band_ns]),
        ("operations", flops + _format_share(summary.get_utilisation("flops"), "the peak")),
        (
            "memory traffic",
            moved + _format_share(summary.get_utilisation("bandwidth"), "the bandwidth"),
        ),
    ]
    if totals["energy_nj"] is not None:
        compute.append(("energy", format_scaled(totals["energy_nj"] * 1e-9, "J")))
    regions = f"{reuse['regions']}, {reuse['distinct_regions']} distinct"
    count = totals["gaps"]
    gaps = f"{format_count(count, 'op')}: the time is too low" if count else "nothing"
    compute += [("regions", f"{regions} ({totals['count']} ops run)"), ("not estimated", gaps)]
    compute += [(tag, f"{format_count(number, 'op')}") for tag, number in totals["tags"].items()]
    end: list[TextRow] = []
    if show_files:
        nodes = f"{summary.emitted.nodes_per_device} nodes a device"
        end.append(("traces", f"{summary.emitted.folder}, {nodes}"))
    end.append(("warnings", str(len(summary.warnings))))
    if summary.timeline is not None:
        end.append(("timeline", f"{summary.timeline}, for https://ui.perfetto.dev"))
    end += _build_result_step_rows(summary)
    tables = [
        _build_memory_table(summary),
        TextTable("Program", head, left=2),
        TextTable("Compute, one device", compute, left=2),
        _build_measurement_table(summary),
        *(_build_time_share_table(summary, by) for by in TABLES),
        _build_collective_totals_table(summary),
        _build_derived_table(summary),
        *(summary.sensitivity.build_report_tables() if summary.sensitivity else ()),
        TextTable("Result", end, left=2),
    ]
    return [table for table in tables if table.rows]


def _to_memory_json(summary: RunSummary) -> dict[str, Any] | None:
    """Convert the memory, with the name of its timeline's file instead of the timeline."""
    if summary.memory is None:
        return None
    values = asdict(summary.memory)
    del values["timeline_points"], values["timeline_bytes"]
    return {
        "fits": summary.fits_memory,
        "node_bytes": summary.node.memory_bytes if summary.node else None,
        **values,
        **({"xla_plan": dict(summary.memory_plan)} if summary.memory_plan else {}),
        "timeline": MEMORY_TIMELINE,
    }


def _build_memory_table(summary: RunSummary) -> TextTable:
    """Tabulate the peak memory, whether it fits, and what it consists of."""
    memory = summary.memory
    if memory is None:
        return TextTable("Memory, one device", [], left=2)
    rows: list[TextRow] = [
        ("peak", f"{format_scaled(memory.peak_bytes, 'B')}{_format_memory_share(summary)}")
    ]
    if "peak" in summary.memory_plan:
        planned = format_scaled(summary.memory_plan["peak"], "B")
        rows.append(("XLA's own plan", f"{planned}, with what is on the host: fits"))
    where = f" ({memory.location})" if memory.location else ""
    rows.append(("most live", f"{format_scaled(memory.live_bytes, 'B')}, at {memory.op}{where}"))
    named = (
        ("parameters", memory.parameter_bytes),
        ("optimizer state", memory.optimizer_bytes),
    )
    known_sizes = [(name, size) for name, size in named if size is not None]
    rest = memory.argument_bytes - sum(size for _, size in known_sizes)
    activations = memory.activation_bytes
    parts = [
        *known_sizes,
        ("other arguments" if known_sizes else "arguments", rest),
        ("constants", memory.constant_bytes or None),
        ("results", memory.result_bytes),
        ("activations", activations),
        ("temporaries", memory.temporary_bytes - (activations or 0)),
    ]
    rows += [
        (
            f"  {name}",
            f"{format_scaled(size, 'B')}, {format_percent(size / (memory.live_bytes or 1))}",
        )
        for name, size in parts
        if size is not None
    ]
    return TextTable("Memory, one device", rows, left=2)


def _format_memory_share(summary: RunSummary) -> str:
    assert summary.memory is not None
    if summary.node is None or not summary.node.memory_bytes:
        return ", of a device whose memory is not known"
    share = f" of {format_scaled(summary.node.memory_bytes, 'B')}"
    peak, node_bytes = summary.memory.peak_bytes, summary.node.memory_bytes
    if summary.fits_memory:
        return f"{share}, {format_percent(peak / node_bytes)}: fits"
    return f"{share}: DOES NOT FIT, {format_scaled(peak - node_bytes, 'B')} too much"


def _build_derived_table(summary: RunSummary) -> TextTable:
    """Tabulate utilisation, rates, energy and cost of a step."""
    derived = summary.derived
    if derived is None or not derived.has_step_figures:
        return TextTable("Step, all devices", [], left=2)
    rows: list[TextRow] = []
    if derived.peak_flops_per_s is not None:
        peak = (
            f"dense {derived.peak_dtype} peak, {format_scaled(derived.peak_flops_per_s, 'FLOP/s')}"
        )
        source = f", {derived.model_flops_source}" if derived.model_flops_source else ""
        for name, share, flops, flops_kind in (
            ("MFU", derived.mfu, derived.model_flops, f"of the model{source}"),
            ("HFU", derived.hfu, derived.executed_flops, "executed"),
        ):
            if share is not None and flops is not None:
                operations = f"{format_scaled(flops, 'FLOP')} {flops_kind}"
                text = f"{format_percent(share)} of the {peak}: {operations}"
                rows.append((name, text))
    for name, rate in (("tokens", derived.tokens_per_s), ("samples", derived.samples_per_s)):
        if rate is not None:
            rows.append((f"{name} per second", f"{rate:,.6g}"))
    if derived.energy_j is not None:
        rows += _build_energy_rows(derived, derived.energy_j)
    if derived.area_mm2 is not None:
        rows.append(("area of a chip", f"{derived.area_mm2:.4g} mm2"))
    if derived.cost_usd is not None:
        price = f"{derived.price_per_hour:g} USD an hour and device"
        rows.append(("cost", f"{derived.cost_usd:.4g} USD, {price}"))
    return TextTable("Step, all devices", rows, left=2)


def _build_energy_rows(derived: DerivedFigures, energy_j: float) -> list[TextRow]:
    """Build the rows of energy: its levels, average power and energy-delay product."""
    rows: list[TextRow] = [("energy", f"{format_scaled(energy_j, 'J')} ({derived.energy_model})")]
    for name, level_j in derived.list_energy_levels():
        text = f"{format_scaled(level_j, 'J')}, {format_percent(level_j / (energy_j or 1))}"
        rows.append((f"  {name}", text))
    if derived.average_power_w is not None:
        rows.append(("average power", f"{format_scaled(derived.average_power_w, 'W')} a device"))
    if derived.energy_delay_js is not None:
        rows.append(("energy x delay", format_scaled(derived.energy_delay_js, "Js")))
    return rows


def _collect_simulated_totals(report: SimulationReport | None) -> dict[str, Any]:
    if report is None:
        return {}
    from hespas.workflows import simulation_report

    return simulation_report.collect_step_totals(report)


def _build_result_step_rows(summary: RunSummary) -> list[TextRow]:
    if summary.simulation is None:
        reason = "as asked" if summary.system else "it needs a network, --system"
        return [("step time", f"not simulated: {reason}")]
    from hespas.workflows import simulation_report

    step, *parts = simulation_report.build_step_rows(summary.simulation)
    curves, between_hosts, communicator_model = (
        summary.get_simulation_setting(name)
        for name in ("curves", "between hosts", "communicators")
    )
    measured = f"as measured on {curves}; --curves none: the network's model"
    return [
        ("simulator", summary.simulation.result.simulator),
        *([("collectives", measured)] if curves else []),
        *([("between hosts", between_hosts)] if between_hosts else []),
        *([("communicators", communicator_model)] if communicator_model else []),
        step,
        *_build_band_rows("80 % band", summary.step_band_s),
        *parts,
    ]


def _build_band_rows(name: str, ends: Sequence[float] | None) -> list[TextRow]:
    return [(name, f"{format_seconds(ends[0])} to {format_seconds(ends[1])}")] if ends else []


def _format_share(share: float | None, reference_name: str) -> str:
    return "" if share is None else f", {format_percent(share)} of {reference_name}"


def _format_node(target: TargetAttr) -> str:
    """Format the node with the provenance of its constants if that differs from its name."""
    name, constants = target.node or "none", target.constants or "no constants known"
    return name if constants == name else f"{name} ({constants.removeprefix(f'{name}; ')})"


def _format_system(system: SystemSpec | None) -> str:
    if system is None:
        return "none given"
    shape = " x ".join(
        f"{kind} {n}" for kind, n in zip(system.topology, system.npus_count, strict=True)
    )
    return f"{system.name} ({shape})"


def _build_time_share_table(summary: RunSummary, by: str) -> TextTable:
    items = summary.list_time_shares(by)
    shown, rest = items[:SHOWN], items[SHOWN:]
    if rest:
        shown = [*shown, (f"({len(rest)} more)", sum(ns for _, ns in rest))]
    rows = [
        ("no operations" if (by, name) == ("dtype", "none") else name,
         format_seconds(ns * 1e-9), format_percent(ns / summary.time_ns))
        for name, ns in shown
    ]  # fmt: skip
    return TextTable(f"Compute time by {by}", rows, (by, "time", "share"))


def _build_measurement_table(summary: RunSummary) -> TextTable:
    """Tabulate measurements and their reuse, for an estimator that measures."""
    measured, reuse = summary.measured, summary.module_stats["reuse"]
    if measured is None:
        return TextTable("Measurements", [], left=2)
    blocks = f"{measured.regions}, {measured.free} of them free, {measured.distinct} distinct"
    rows = [
        ("device", measured.device or "none: nothing to measure"),
        ("regions", blocks),
        ("measured", f"{measured.measured}, {measured.cached} from the cache"),
        ("not measured", str(measured.failed)),
        (
            "time taken",
            f"{format_seconds(measured.elapsed_s)}, "
            f"{format_seconds(measured.uncached_s)} without reuse",
        ),
        ("block reuse", format_percent(reuse["basic_block_reuse_rate"])),
        ("operator reuse", format_percent(reuse["operator_reuse_factor"])),
    ]
    return TextTable("Measurements", rows, left=2)


def _build_collective_totals_table(summary: RunSummary) -> TextTable:
    rows = [
        (row.kind, str(row.group_size), str(row.count), format_scaled(row.operand_bytes, "B"))
        for row in sum_collectives(summary.module_stats)
    ]
    return TextTable("Collectives, one device", rows, ("kind", "group", "count", "operand bytes"))
