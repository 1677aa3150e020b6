"""The result of a run: tables for people, one JSON object for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hespas.configs.system import System
from hespas.dialects.attrs import Target
from hespas.passes.emit.emit_chakra import Emitted
from hespas.tools.commands.render import Row, Table, percent, scaled, seconds

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

    @property
    def stats(self) -> dict[str, Any]:
        """What module_stats.json holds."""
        return self.emitted.stats

    @property
    def time_ns(self) -> float:
        """Compute time of one device."""
        return self.stats["totals"]["time_ns"]

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
    return {
        "step_time_s": simulated.get("step_time_s"),
        "compute_s": found.time_ns * 1e-9,
        "comm_s": simulated.get("comm_s"),
        "exposed_comm_s": simulated.get("exposed_comm_s"),
        "devices": found.target.devices,
        "estimator": found.target.estimator,
        "warnings": found.warnings,
        "exposed_share": simulated.get("exposed_share"),
        "overlap_s": simulated.get("overlap_s"),
        "simulator": simulated.get("simulator"),
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
    }


def as_tables(found: Summary) -> list[Table]:
    """The summary for people."""
    totals, target, reuse = found.stats["totals"], found.target, found.stats["reuse"]
    layout = f"{_count(target.replicas, 'replica')} x {_count(target.partitions, 'partition')}"
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
        ("operations", flops + _share(found.utilisation("flops"), "the peak")),
        ("memory traffic", moved + _share(found.utilisation("bandwidth"), "the bandwidth")),
    ]
    if totals["energy_nj"] is not None:
        compute.append(("energy", scaled(totals["energy_nj"] * 1e-9, "J")))
    regions = f"{reuse['regions']}, {reuse['distinct_regions']} distinct"
    count = totals["gaps"]
    gaps = f"{_count(count, 'op')}: the time is too low" if count else "nothing"
    compute += [("regions", f"{regions} ({totals['count']} ops run)"), ("not estimated", gaps)]
    end: list[Row] = [
        ("traces", f"{found.emitted.folder}, {found.emitted.nodes_per_device} nodes a device"),
        ("warnings", str(len(found.warnings))),
    ]
    if found.timeline is not None:
        end.append(("timeline", f"{found.timeline}, for https://ui.perfetto.dev"))
    end += _step(found)
    tables = [
        Table("Program", head, left=2),
        Table("Compute, one device", compute, left=2),
        _measured(found),
        *(_shares(found, by) for by in TABLES),
        _collectives(found),
        Table("Result", end, left=2),
    ]
    return [table for table in tables if table.rows]


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

    return [
        ("simulator", found.simulation.result.simulator),
        *simulation.step_rows(found.simulation),
    ]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


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
