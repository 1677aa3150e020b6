"""The result of a run: tables for people, one JSON object for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hespas.configs.node import Node
from hespas.configs.system import System
from hespas.dialects.attrs import Memory, Target
from hespas.passes.emit.emit_chakra import Emitted
from hespas.tools.commands.render import Row, Table, counted, percent, scaled, seconds
from hespas.tools.derived import Derived

if TYPE_CHECKING:
    from hespas.estimators.measure.run import Statistics
    from hespas.simulators.report import Report

SHOWN = 8
TABLES = {"op": "kinds", "bound": "bounds", "dtype": "dtypes"}  # by their names in the statistics


@dataclass(frozen=True)
class Summary:
    """What is known at the end of a run."""

    program: str
    target: Target
    system: System | None
    split: str
    emitted: Emitted
    warnings: list[str]
    simulation: Report | None = None
    timeline: str | None = None
    measured: Statistics | None = None
    memory: Memory | None = None
    node: Node | None = None
    derived: Derived | None = None

    @property
    def fits(self) -> bool | None:
        """Whether the program fits the node's memory; None where that is not known."""
        if self.memory is None or self.node is None or self.node.memory_bytes is None:
            return None
        return self.memory.peak_bytes <= self.node.memory_bytes

    @property
    def stats(self) -> dict[str, Any]:
        """What module_stats.json holds."""
        return self.emitted.stats

    @property
    def time_ns(self) -> float:
        """Compute time of one device."""
        return self.stats["totals"]["time_ns"]

    @property
    def band_ns(self) -> tuple[float, float] | None:
        """Low and high end of the compute time of one device, where the estimator knows them."""
        totals = self.stats["totals"]
        return None if totals["low_ns"] is None else (totals["low_ns"], totals["high_ns"])

    @property
    def step_band_s(self) -> tuple[float, float] | None:
        """Low and high end of the step: it changes by no more than its compute does."""
        if self.band_ns is None or self.simulation is None:
            return None
        low_ns, high_ns = self.band_ns
        step_ns = self.simulation.result.step_time_ns
        least_ns = max(step_ns - (self.time_ns - low_ns), 0.0)
        return 1e-9 * least_ns, 1e-9 * (step_ns + high_ns - self.time_ns)

    def setting(self, name: str) -> str | None:
        """What the simulation says of itself, such as ``curves``; None where it does not."""
        return self.simulation.result.settings.get(name) if self.simulation else None

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written on one device."""
        totals = self.stats["totals"]
        return totals["read_bytes"] + totals["write_bytes"]

    def utilisation(self, what: str) -> float | None:
        """Share of the peak ``flops`` or ``bandwidth`` in use; 0 where nothing takes time.

        None where no node says what the peak is.
        """
        if self.target.node is None:
            return None
        return (self.stats["utilisation"] or {}).get(what, 0.0)

    def shares(self, by: str) -> list[tuple[str, float]]:
        """(name, ns) of what takes any time, longest first, by op, bound or dtype."""
        rows = self.stats[TABLES[by]].items()
        return [(name, row["time_ns"]) for name, row in rows if row["time_ns"]]


@dataclass(frozen=True)
class Collectives:
    """All collectives of one kind and group size that one device takes part in."""

    kind: str
    group_size: int
    count: int
    operand_bytes: int


def collectives(stats: dict[str, Any]) -> Iterator[Collectives]:
    """By kind and group size, of the device that sends most; for permutes the average device."""
    per_device: dict[tuple[str, int], dict[int, list[int]]] = {}
    for row in stats["communicators"].values():
        for kind, sums in row["collectives"].items():
            devices = per_device.setdefault((kind, len(row["ranks"])), {})
            for rank in row["ranks"]:
                mine = devices.setdefault(rank, [0, 0])
                mine[0] += sums["operand_bytes"]
                mine[1] += sums["count"]
    for (kind, size), devices in sorted(per_device.items()):
        operand_bytes, count = max(devices.values())
        yield Collectives(kind, size, count, operand_bytes)
    transfers = stats["transfers"]
    if transfers["count"]:
        average = transfers["message_bytes"] // stats["program"]["devices"]
        yield Collectives("permute", 2, transfers["count"], average)


def as_json(found: Summary) -> dict[str, Any]:
    """The object that ``--json`` prints: docs/reference/run-json.md."""
    totals, reuse = found.stats["totals"], found.stats["reuse"]
    simulated: dict[str, Any] = _simulated(found.simulation)
    energy_nj = totals["energy_nj"]
    compute_band_ns, step_band_s = found.band_ns, found.step_band_s
    return {
        "step_time_s": simulated.get("step_time_s"),
        "compute_s": found.time_ns * 1e-9,
        "comm_s": simulated.get("comm_s"),
        "exposed_comm_s": simulated.get("exposed_comm_s"),
        "devices": found.target.devices,
        "estimator": found.target.estimator,
        "warnings": found.warnings,
        "compute_band_s": compute_band_ns and [1e-9 * end for end in compute_band_ns],
        "step_time_band_s": step_band_s and list(step_band_s),
        "tags": totals["tags"],
        "exposed_share": simulated.get("exposed_share"),
        "overlap_s": simulated.get("overlap_s"),
        "simulator": simulated.get("simulator"),
        "curves": found.setting("curves"),
        "communicators": found.setting("communicators"),
        "timeline": found.timeline,
        "program": found.program,
        "node": found.target.node,
        "constants": found.target.constants,
        "system": found.system.name if found.system else None,
        "split": found.split,
        "output": str(found.emitted.folder),
        "nodes_per_device": found.emitted.nodes_per_device,
        "flops": totals["flops"],
        "read_bytes": totals["read_bytes"],
        "write_bytes": totals["write_bytes"],
        "energy_j": None if energy_nj is None else energy_nj * 1e-9,
        "flops_utilisation": found.utilisation("flops"),
        "bandwidth_utilisation": found.utilisation("bandwidth"),
        "compute_s_by": {by: {name: ns * 1e-9 for name, ns in found.shares(by)} for by in TABLES},
        "comm_ops": totals["comm_ops"],
        "comm_bytes": totals["comm_operand_bytes"],
        "collectives": [vars(row) for row in collectives(found.stats)],
        "regions": reuse["regions"],
        "distinct_regions": reuse["distinct_regions"],
        "region_ops": reuse["ops"],
        "distinct_region_ops": reuse["distinct_ops"],
        "basic_block_reuse_rate": reuse["basic_block_reuse_rate"],
        "operator_reuse_factor": reuse["operator_reuse_factor"],
        "measured": found.measured.to_json() if found.measured else None,
        "gaps": totals["gaps"],
        "memory": _memory_json(found),
        "derived": found.derived.to_json() if found.derived else None,
    }


def as_tables(found: Summary) -> list[Table]:
    """The summary for people."""
    totals, target, reuse = found.stats["totals"], found.target, found.stats["reuse"]
    layout = f"{counted(target.replicas, 'replica')} x {counted(target.partitions, 'partition')}"
    head = [
        ("program", found.program),
        ("devices", f"{target.devices} ({layout})"),
        ("node", _node(target)),
        ("system", _system(found.system)),
        ("estimator", target.estimator or "unknown"),
    ]
    flops, moved = scaled(totals["flops"], "FLOP"), scaled(found.moved_bytes, "B")
    compute = [
        ("time", seconds(found.time_ns * 1e-9)),
        *_band_row("80 % band", found.band_ns and [1e-9 * end for end in found.band_ns]),
        ("operations", flops + _share(found.utilisation("flops"), "the peak")),
        ("memory traffic", moved + _share(found.utilisation("bandwidth"), "the bandwidth")),
    ]
    if totals["energy_nj"] is not None:
        compute.append(("energy", scaled(totals["energy_nj"] * 1e-9, "J")))
    regions = f"{reuse['regions']}, {reuse['distinct_regions']} distinct"
    count = totals["gaps"]
    gaps = f"{counted(count, 'op')}: the time is too low" if count else "nothing"
    compute += [("regions", f"{regions} ({totals['count']} ops run)"), ("not estimated", gaps)]
    compute += [(tag, f"{counted(number, 'op')}") for tag, number in totals["tags"].items()]
    end: list[Row] = [
        ("traces", f"{found.emitted.folder}, {found.emitted.nodes_per_device} nodes a device"),
        ("warnings", str(len(found.warnings))),
    ]
    if found.timeline is not None:
        end.append(("timeline", f"{found.timeline}, for https://ui.perfetto.dev"))
    end += _step(found)
    tables = [
        _memory(found),
        Table("Program", head, left=2),
        Table("Compute, one device", compute, left=2),
        _measured(found),
        *(_shares(found, by) for by in TABLES),
        _collectives(found),
        _derived(found),
        Table("Result", end, left=2),
    ]
    return [table for table in tables if table.rows]


def _memory_json(found: Summary) -> dict[str, Any] | None:
    """The memory with a timeline of (point, bytes) pairs, and whether it fits."""
    if found.memory is None:
        return None
    values = asdict(found.memory)
    points, live = values.pop("timeline_points"), values.pop("timeline_bytes")
    return {
        "fits": found.fits,
        "node_bytes": found.node.memory_bytes if found.node else None,
        **values,
        "timeline": [list(pair) for pair in zip(points, live, strict=True)],
    }


def _memory(found: Summary) -> Table:
    """What the program takes on a device, the most important first: whether that is there."""
    memory = found.memory
    if memory is None:
        return Table("Memory, one device", [], left=2)
    rows: list[Row] = [("peak", f"{scaled(memory.peak_bytes, 'B')}{_of_node(found)}")]
    where = f" ({memory.location})" if memory.location else ""
    rows.append(("most live", f"{scaled(memory.live_bytes, 'B')}, at {memory.op}{where}"))
    named = (
        ("parameters", memory.parameter_bytes),
        ("optimizer state", memory.optimizer_bytes),
    )
    told = [(name, size) for name, size in named if size is not None]
    rest = memory.argument_bytes - sum(size for _, size in told)
    activations = memory.activation_bytes
    parts = [
        *told,
        ("other arguments" if told else "arguments", rest),
        ("constants", memory.constant_bytes or None),
        ("results", memory.result_bytes),
        ("activations", activations),
        ("temporaries", memory.temporary_bytes - (activations or 0)),
    ]
    rows += [
        (f"  {name}", f"{scaled(size, 'B')}, {percent(size / (memory.live_bytes or 1))}")
        for name, size in parts
        if size is not None
    ]
    return Table("Memory, one device", rows, left=2)


def _of_node(found: Summary) -> str:
    assert found.memory is not None
    if found.node is None or not found.node.memory_bytes:
        return ", of a device whose memory is not known"
    share = f" of {scaled(found.node.memory_bytes, 'B')}"
    peak, there = found.memory.peak_bytes, found.node.memory_bytes
    if found.fits:
        return f"{share}, {percent(peak / there)}: fits"
    return f"{share}: DOES NOT FIT, {scaled(peak - there, 'B')} too much"


def _derived(found: Summary) -> Table:
    """What follows of a step: shares of the peak, rates, energy, cost."""
    derived = found.derived
    if derived is None or not derived.known:
        return Table("Step, all devices", [], left=2)
    rows: list[Row] = []
    if derived.peak_flops_per_s is not None:
        peak = f"dense {derived.peak_dtype} peak, {scaled(derived.peak_flops_per_s, 'FLOP/s')}"
        for name, share, flops, what in (
            ("MFU", derived.mfu, derived.model_flops, "of the model"),
            ("HFU", derived.hfu, derived.executed_flops, "executed"),
        ):
            if share is not None and flops is not None:
                text = f"{percent(share)} of the {peak}: {scaled(flops, 'FLOP')} {what}"
                rows.append((name, text))
    for name, rate in (("tokens", derived.tokens_per_s), ("samples", derived.samples_per_s)):
        if rate is not None:
            rows.append((f"{name} per second", f"{rate:,.6g}"))
    if derived.energy_j is not None:
        rows.append(("energy", f"{scaled(derived.energy_j, 'J')} ({derived.energy_model})"))
    if derived.cost_usd is not None:
        price = f"{derived.price_per_hour:g} USD an hour and device"
        rows.append(("cost", f"{derived.cost_usd:.4g} USD, {price}"))
    return Table("Step, all devices", rows, left=2)


def _simulated(report: Report | None) -> dict[str, Any]:
    if report is None:
        return {}
    from hespas.tools.commands import simulation

    return simulation.totals(report)


def _step(found: Summary) -> list[Row]:
    if found.simulation is None:
        why = "as asked" if found.system else "it needs a network, --system"
        return [("step time", f"not simulated: {why}")]
    from hespas.tools.commands import simulation

    step, *parts = simulation.step_rows(found.simulation)
    curves, way = found.setting("curves"), found.setting("communicators")
    measured = f"as measured on {curves}; --curves none: the network's model"
    return [
        ("simulator", found.simulation.result.simulator),
        *([("collectives", measured)] if curves else []),
        *([("communicators", way)] if way else []),
        step,
        *_band_row("80 % band", found.step_band_s),
        *parts,
    ]


def _band_row(name: str, ends: Sequence[float] | None) -> list[Row]:
    return [(name, f"{seconds(ends[0])} to {seconds(ends[1])}")] if ends else []


def _share(share: float | None, whole: str) -> str:
    return "" if share is None else f", {percent(share)} of {whole}"


def _node(target: Target) -> str:
    """The node, and where its constants are from where that says more than its name."""
    name, constants = target.node or "none", target.constants or "no constants known"
    return name if constants == name else f"{name} ({constants.removeprefix(f'{name}; ')})"


def _system(system: System | None) -> str:
    if system is None:
        return "none given"
    shape = " x ".join(
        f"{kind} {n}" for kind, n in zip(system.topology, system.npus_count, strict=True)
    )
    return f"{system.name} ({shape})"


def _shares(found: Summary, by: str) -> Table:
    items = found.shares(by)
    shown, rest = items[:SHOWN], items[SHOWN:]
    if rest:
        shown = [*shown, (f"({len(rest)} more)", sum(ns for _, ns in rest))]
    rows = [
        ("no operations" if (by, name) == ("dtype", "none") else name,
         seconds(ns * 1e-9), percent(ns / found.time_ns))
        for name, ns in shown
    ]  # fmt: skip
    return Table(f"Compute time by {by}", rows, (by, "time", "share"))


def _measured(found: Summary) -> Table:
    """What was measured and what was reused, where the estimator measures."""
    measured, reuse = found.measured, found.stats["reuse"]
    if measured is None:
        return Table("Measurements", [], left=2)
    blocks = f"{measured.regions}, {measured.free} of them free, {measured.distinct} distinct"
    rows = [
        ("device", measured.device or "none: nothing to measure"),
        ("regions", blocks),
        ("measured", f"{measured.measured}, {measured.cached} from the cache"),
        ("not measured", str(measured.failed)),
        (
            "time taken",
            f"{seconds(measured.elapsed_s)}, {seconds(measured.uncached_s)} without reuse",
        ),
        ("block reuse", percent(reuse["basic_block_reuse_rate"])),
        ("operator reuse", percent(reuse["operator_reuse_factor"])),
    ]
    return Table("Measurements", rows, left=2)


def _collectives(found: Summary) -> Table:
    rows = [
        (row.kind, str(row.group_size), str(row.count), scaled(row.operand_bytes, "B"))
        for row in collectives(found.stats)
    ]
    return Table("Collectives, one device", rows, ("kind", "group", "count", "operand bytes"))
