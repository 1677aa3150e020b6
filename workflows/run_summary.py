"""The summary of a run, its JSON object, and its tables."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hespas.configs.system_spec import SystemSpec
from hespas.dialects.attrs import TargetAttr
from hespas.passes.compile.hlo_origin import IN_MEMORY_ORDER, LATENCY_HIDING
from hespas.passes.emit.emit_chakra import EmittedTraces
from hespas.support.text_tables import (
    TextRow,
    TextTable,
    format_count,
    format_percent,
    format_scaled,
    format_seconds,
)
from hespas.workflows.figures import (
    COMPUTE,
    MEMORY,
    PROGRAM,
    RESULT,
    STEP,
    compute_figures,
    get_figure,
    list_figures,
)
from hespas.workflows.network_settings import NetworkSettings
from hespas.workflows.run_results import MEMORY_TIMELINE
from hespas.workflows.step_facts import (
    StepFacts,
)

if TYPE_CHECKING:
    from hespas.estimators.measure.measurement_run import MeasureStatistics
    from hespas.workflows.sensitivity.step_sensitivity import StepSensitivity

TABLES = {"op": "kinds", "bound": "bounds", "dtype": "dtypes"}  # keys of module_stats.json
TIME_SHARES = {**TABLES, "class": "classes"}
SHOWN = 8  # rows of a table
SHOWN_KERNELS = 3  # of those that XLA computes again
# Of the memory of a GPU that JAX reserves by default, and its arrays and temporaries are in
# (docs.jax.dev, "GPU memory allocation"). On TPUs, and in PyTorch, programs may use all of it.
JAX_MEMORY_SHARE = 0.75
_SCHEDULERS = {
    LATENCY_HIDING: "XLA's latency-hiding scheduler",
    IN_MEMORY_ORDER: "XLA's schedule, made without its latency-hiding scheduler",
}


@dataclass(frozen=True, kw_only=True)
class RunSummary(StepFacts):
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
        timeline: The file of the timeline.
        measured: What was measured; None if the estimator does not measure.
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
    timeline: str | None = None
    measured: MeasureStatistics | None = None
    scheduler: str = ""
    xla_flags: str = ""
    sensitivity: StepSensitivity | None = None

    @property
    def network_model(self) -> str | None:
        """The network model of the simulation; None without a simulation."""
        settings = self.simulation and self.simulation.result.settings
        return (settings.network_model or None) if settings else None

    def get_simulation_setting(self, name: str) -> str | None:
        """Return a setting that the simulation reports, such as ``curves``; None if it does not."""
        if self.simulation is None:
            return None
        return self.simulation.result.settings.to_texts().get(name)

    @functools.cached_property
    def figures(self) -> Mapping[str, Any]:
        """The figures of the step, as run.json nests them."""
        return compute_figures(self)

    def list_time_shares(self, by: str) -> list[tuple[str, float]]:
        """List (name, nanoseconds) by a key of ``TIME_SHARES``, longest first."""
        rows = self.stats[TIME_SHARES[by]].items()
        return [(name, row["time_ns"]) for name, row in rows if row["time_ns"]]


@dataclass(frozen=True)
class CollectiveTotals:
    """All collectives of one kind and group size on one device."""

    kind: str
    group_size: int
    count: int
    operand_bytes: int


def sum_collectives(stats: Mapping[str, Any]) -> Iterator[CollectiveTotals]:
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
    figures = summary.figures
    first = ("step_time_s", "compute_s", "comm_s", "exposed_comm_s", "devices")
    memory, derived = figures.get("memory"), figures["derived"]
    return {
        **{name: figures[name] for name in first},
        "estimator": summary.target.estimator,
        "warnings": summary.warnings,
        **{name: value for name, value in figures.items() if not isinstance(value, dict)},
        "tags": summary.totals["tags"],
        "simulator": summary.simulated.get("simulator"),
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
        "collectives": [vars(row) for row in sum_collectives(summary.stats)],
        "measured": summary.measured.to_json() if summary.measured else None,
        "memory": None if memory is None else {**memory, **_describe_memory(summary)},
        "derived": {
            **derived,
            "energy_model": summary.energy.energy_model,
            "peak_dtype": summary.peak_dtype,
            "model_flops_source": summary.work.model_flops_source,
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


def build_summary_tables(summary: RunSummary, *, show_files: bool = True) -> list[TextTable]:
    """Build the tables of a summary; ``show_files`` includes what the run has written."""
    totals, target, reuse = (
        summary.stats["totals"],
        summary.target,
        summary.stats["reuse"],
    )
    replicas = format_count(target.replicas, "replica")
    layout = f"{replicas} x {format_count(target.partitions, 'partition')}"
    head = [
        ("program", summary.program),
        ("devices", f"{target.devices} ({layout})"),
        ("form", summary.form),
        *([("XLA's flags", _shorten_flags(summary.xla_flags))] if summary.xla_flags else []),
        ("node", _format_node(target)),
        ("system", _format_system(summary.system)),
        ("estimator", target.estimator or "unknown"),
        *build_figure_rows(summary, PROGRAM),
    ]
    figures = summary.figures
    moved = format_scaled(figures["read_bytes"] + figures["write_bytes"], "B")
    compute = [
        ("time", format_seconds(figures["compute_s"])),
        *build_figure_rows(summary, COMPUTE),
        (
            "memory traffic",
            moved + _format_share(figures["bandwidth_utilisation"], "the bandwidth"),
        ),
    ]
    compute += _build_rematerialisation_rows(summary)
    regions = f"{reuse['regions']}, {reuse['distinct_regions']} distinct"
    loops = totals.get("assumed_loops", 0)  # results of older versions lack it
    count = totals["gaps"] - loops
    gaps = [f"{format_count(count, 'op')}: the time is too low"] if count else []
    gaps += [f"the trips of {format_count(loops, 'loop')}: assumed"] if loops else []
    compute += [
        ("regions", f"{regions} ({format_count(totals['count'], 'op')} run)"),
        ("not estimated", "; ".join(gaps) or "nothing"),
    ]
    compute += [(tag, f"{format_count(number, 'op')}") for tag, number in totals["tags"].items()]
    end: list[TextRow] = []
    if show_files:
        nodes = f"{format_count(summary.emitted.nodes_per_device, 'node')} a device"
        content = nodes if summary.emitted.trace_bytes else f"no traces, which have {nodes}"
        name = "traces" if summary.emitted.trace_bytes else "folder"
        end.append((name, f"{summary.emitted.folder}, {content}"))
    end.append(("warnings", str(len(summary.warnings))))
    if summary.timeline is not None:
        end.append(("timeline", f"{summary.timeline}, for https://ui.perfetto.dev"))
    end += _build_result_step_rows(summary)
    end += build_figure_rows(summary, RESULT)
    tables = [
        _build_memory_table(summary),
        TextTable(PROGRAM, head, left=2),
        TextTable(COMPUTE, compute, left=2),
        _build_measurement_table(summary),
        *(_build_time_share_table(summary, by) for by in TABLES),
        _build_collective_totals_table(summary),
        TextTable(STEP, build_figure_rows(summary, STEP), left=2),
        *(summary.sensitivity.build_tables() if summary.sensitivity else ()),
        TextTable(RESULT, end, left=2),
    ]
    return [table for table in tables if table.rows]


def _shorten_flags(text: str) -> str:
    """Name the framework and the preset that flags are from, if any, instead of the flags."""
    names, colon, flags = text.rpartition(": ")
    return f"{len(flags.split(' --'))} of {names}, in run.json" if colon else text


def _build_rematerialisation_rows(summary: RunSummary) -> list[TextRow]:
    """Build the rows of what XLA computes again: how much, within which memory, and the longest."""
    found = summary.rematerialisation
    if found is None or not found.count:
        return []
    share = format_percent(found.time_s / (summary.time_ns * 1e-9 or 1.0))
    limit = f", to keep within {format_scaled(found.limit_bytes, 'B')}" if found.limit_bytes else ""
    amount = f"{format_seconds(found.time_s)}, {share}: {format_count(found.count, 'kernel')} of "
    rows: list[TextRow] = [
        ("computed again", f"{amount}{format_scaled(found.flops, 'FLOP')} by XLA{limit}")
    ]
    for kernel in found.kernels[:SHOWN_KERNELS]:
        of = f" ({kernel.framework_op})" if kernel.framework_op else ""
        rows.append(("", f"{format_seconds(kernel.time_s)}: {kernel.count} x {kernel.name}{of}"))
    if (rest := len(found.kernels) - SHOWN_KERNELS) > 0:
        rows.append(("", f"and {rest} more, in run.json"))
    return rows


def _build_memory_table(summary: RunSummary) -> TextTable:
    """Tabulate the peak memory, whether it fits, and what it consists of."""
    memory = summary.memory
    if memory is None:
        return TextTable(MEMORY, [], left=2)
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
    rows += build_figure_rows(summary, MEMORY)
    return TextTable(MEMORY, rows, left=2)


def _format_memory_share(summary: RunSummary) -> str:
    assert summary.memory is not None
    if summary.node is None or not summary.node.memory_bytes:
        return ", of a device whose memory is not known"
    share = f" of {format_scaled(summary.node.memory_bytes, 'B')}"
    peak, node_bytes = summary.memory.peak_bytes, summary.node.memory_bytes
    if summary.fits_memory:
        fits = f"{share}, {format_percent(peak / node_bytes)}: fits"
        is_gpu = summary.node.vendor in ("NVIDIA", "AMD")
        if is_gpu and peak > JAX_MEMORY_SHARE * node_bytes:
            fits += (
                f" the device; JAX reserves {format_percent(JAX_MEMORY_SHARE)} of it, unless "
                "XLA_PYTHON_CLIENT_MEM_FRACTION is set"
            )
        return fits
    return f"{share}: DOES NOT FIT, {format_scaled(peak - node_bytes, 'B')} too much"


def build_figure_rows(summary: RunSummary, table: str) -> list[TextRow]:
    """Build the rows of the figures that a table shows and that are known."""
    json = to_summary_json(summary)
    return [
        (figure.label or figure.title, f"{figure.format(value)}{figure.explain(json)}")
        for figure in list_figures("summary", table)
        if (value := get_figure(json, figure.name)) is not None
    ]


def _build_result_step_rows(summary: RunSummary) -> list[TextRow]:
    if summary.simulation is None and "host_copies" in summary.stats and summary.step_time_s:
        copies_s = summary.stats["host_copies"]["time_ns"] * 1e-9
        note = f"with {format_seconds(copies_s)} of copies between device and host"
        return [
            ("step time", f"{format_seconds(summary.step_time_s)}, {note}"),
            *_build_band_rows(summary.step_band_s),
        ]
    if summary.simulation is None:
        reason = "as asked" if summary.system else "it needs a network, --system"
        return [("step time", f"not simulated: {reason}")]
    from hespas.workflows import simulation_report

    step, *parts = simulation_report.build_step_rows(summary.simulation)
    curves, between_hosts, network_model = (
        summary.get_simulation_setting(name)
        for name in ("curves", "between hosts", "network model")
    )
    measured = f"as measured on {curves}; --curves none: the network's model"
    return [
        ("simulator", summary.simulation.result.simulator),
        *([("collectives", measured)] if curves else []),
        *([("between hosts", between_hosts)] if between_hosts else []),
        *([("network model", network_model)] if network_model else []),
        step,
        *_build_band_rows(summary.step_band_s),
        *parts,
        *_build_serial_rows(summary),
    ]


def _build_serial_rows(summary: RunSummary) -> list[TextRow]:
    """Build the row of the step without overlap; a step without overlap has none."""
    if not summary.hidden_s:
        return []
    scheduler = "XLA's scheduler" if "XLA" in summary.form else "the order of the program"
    scheduler = _SCHEDULERS.get(summary.scheduler, scheduler)
    if summary.split != "linear":  # regions run as soon as their operands are there
        scheduler = f"what data dependencies allow (split {summary.split})"
    hidden = f"{format_seconds(summary.hidden_s)} of communication are hidden by {scheduler}"
    return [("serial", f"{format_seconds(summary.figures['serial_step_s'])}: {hidden}")]


def _build_band_rows(ends: Sequence[float] | None) -> list[TextRow]:
    if not ends:
        return []
    return [("80 % band", f"{format_seconds(ends[0])} to {format_seconds(ends[1])}")]


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
    measured, reuse = summary.measured, summary.stats["reuse"]
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
        for row in sum_collectives(summary.stats)
    ]
    return TextTable("Collectives, one device", rows, ("kind", "group", "count", "operand bytes"))
