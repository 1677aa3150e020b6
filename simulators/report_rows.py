"""The rows of a simulation report: devices, communicators, collectives, path, exposed time.

Times are integer nanoseconds, sizes are bytes, bandwidths are bytes per second.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hespas.simulators.critical_path import (
    COMMUNICATION,
    COMPUTE,
    WAITING,
    ExposedNode,
    PathSegment,
    TracedResult,
    classify_node,
    find_critical_path,
    find_exposed_nodes,
)
from hespas.simulators.simulation_result import CommRecord, DeviceResult, SimulationResult

BUS_SOURCE = "NVIDIA nccl-tests, doc/PERFORMANCE.md"


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """Devices with equal results; ``devices`` are ascending."""

    devices: tuple[int, ...]
    result: DeviceResult


@dataclass(frozen=True, slots=True)
class CollectiveRow:
    """Collectives of equal kind, operand bytes and group size.

    ``time_ns`` is the sum of their times, each from the moment when the last device joins to the
    last finish. Bandwidths are defined as in nccl-tests: the algorithm bandwidth is the larger of a
    device's input and output over the time; the bus bandwidth is that times a factor that makes it
    comparable with the bandwidth of a link for any number of devices.
    """

    kind: str
    group_size: int
    operand_bytes: int
    count: int
    time_ns: int

    @property
    def algorithm_bandwidth(self) -> float | None:
        """The algorithm bandwidth in bytes per second; None if the time is 0."""
        factor = self.group_size if self.kind == "all_gather" else 1
        moved = self.count * self.operand_bytes * factor
        return moved / self.time_ns * 1e9 if self.time_ns else None

    @property
    def bus_bandwidth(self) -> float | None:
        """The bus bandwidth in bytes per second; None if the time is 0."""
        algorithm = self.algorithm_bandwidth
        return (
            None
            if algorithm is None
            else algorithm * compute_bus_factor(self.kind, self.group_size)
        )


@dataclass(frozen=True, slots=True)
class CommunicatorRow:
    """The collectives of a communicator; the id -1 stands for all messages between two devices.

    ``alike`` communicators with as many devices moved as many bytes in the same time; the row shows
    the first of them.
    """

    id: int
    devices: tuple[int, ...]
    alike: int
    count: int
    operand_bytes: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class PathRow:
    """The part of the critical path with one kind of op; ``what`` is that of ``PathSegment``."""

    what: str
    kind: str
    count: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class ExposedRow:
    """Communication nodes of equal name and size that are exposed on the critical device.

    ``location`` is that in the source, ``needed_by`` the name of the compute node that waits.
    """

    name: str
    kind: str
    operand_bytes: int
    location: str
    needed_by: str
    count: int
    exposed_ns: int
    waiting_ns: int


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """All rows; ``path`` and ``exposed`` are None if the simulator records no intervals."""

    result: SimulationResult
    devices: list[DeviceRow]
    communicators: list[CommunicatorRow]
    collectives: list[CollectiveRow]
    path: list[PathRow] | None
    exposed: list[ExposedRow] | None

    @property
    def critical_result(self) -> DeviceResult:
        """The totals of the device that finishes last."""
        return self.result.devices[self.result.critical_device]

    @property
    def exposed_share(self) -> float:
        """Exposed communication of the critical device over the step time."""
        return self.critical_result.exposed_ns / (self.result.step_time_ns or 1)

    def collect_step_totals(self) -> dict[str, Any]:
        """Return the totals of the device that finishes last, by the keys of run.json."""
        critical = self.critical_result
        return {
            "step_time_s": self.result.step_time_ns * 1e-9,
            "comm_s": critical.comm_ns * 1e-9,
            "exposed_comm_s": critical.exposed_ns * 1e-9,
            "overlap_s": critical.overlap_ns * 1e-9,
            "exposed_share": self.exposed_share,
            "simulator": self.result.simulator,
        }


def build_report(result: SimulationResult, traced_result: TracedResult | None) -> SimulationReport:
    """Build all rows; ``traced_result`` is None if there are no intervals or no traces."""
    return SimulationReport(
        result,
        group_devices(result),
        group_communicators(result),
        group_collectives(result),
        None if traced_result is None else _build_path_rows(find_critical_path(traced_result)),
        None
        if traced_result is None
        else _build_exposed_rows(find_exposed_nodes(traced_result, result.critical_device)),
    )


def compute_bus_factor(kind: str, n: int) -> float:
    """Return the ratio of bus to algorithm bandwidth on ``n`` devices, as nccl-tests define it."""
    if kind == "all_reduce":
        return 2 * (n - 1) / n
    return (n - 1) / n if kind in ("all_gather", "reduce_scatter", "all_to_all") else 1.0


def group_devices(result: SimulationResult) -> list[DeviceRow]:
    """Group devices with equal results, the last to finish first."""
    devices_by_result: dict[DeviceResult, list[int]] = {}
    for device, totals in enumerate(result.devices):
        devices_by_result.setdefault(totals, []).append(device)
    rows = [DeviceRow(tuple(ids), totals) for totals, ids in devices_by_result.items()]
    return sorted(rows, key=lambda row: (-row.result.finish_ns, row.devices))


def group_communicators(result: SimulationResult) -> list[CommunicatorRow]:
    """Group collectives by communicator, and communicators that did the same; most time first."""
    records: dict[tuple[int, tuple[int, ...]], list[CommRecord]] = {}
    for record in result.comms:
        ranks = record.ranks if record.communicator >= 0 else ()
        records.setdefault((record.communicator, ranks), []).append(record)
    rows: dict[tuple[int, ...], CommunicatorRow] = {}
    for (id_, _), equal_records in sorted(records.items()):
        # Copies of a message are further messages; copies of a collective, further communicators.
        times = [record.copies if id_ < 0 else 1 for record in equal_records]
        alike = 1 if id_ < 0 else equal_records[0].copies
        ranks = (
            equal_records[0].ranks
            if id_ >= 0
            else _find_equivalent_devices(
                result, {r for record in equal_records for r in record.ranks}
            )
        )
        count = sum(times)
        moved = sum(
            n * record.operand_bytes for n, record in zip(times, equal_records, strict=True)
        )
        time = sum(
            n * (record.finish_ns - record.start_ns)
            for n, record in zip(times, equal_records, strict=True)
        )
        key = (min(id_, 0), len(ranks), count, moved, time)
        if key in rows:
            rows[key] = replace(rows[key], alike=rows[key].alike + alike)
        else:
            rows[key] = CommunicatorRow(id_, tuple(ranks), alike, count, moved, time)
    return sorted(rows.values(), key=lambda row: (-row.time_ns, row.id))


def _find_equivalent_devices(result: SimulationResult, ranks: set[int]) -> Sequence[int]:
    """Return the devices that are equivalent to some of ``ranks``."""
    if not result.class_of:
        return sorted(ranks)
    classes = {result.class_of[rank] for rank in ranks}
    return [device for device, known in enumerate(result.class_of) if known in classes]


def group_collectives(result: SimulationResult) -> list[CollectiveRow]:
    """Group collectives and messages by kind, size and group size, the most time first."""
    sums_by_shape: dict[tuple[str, int, int], list[int]] = {}
    for record in result.comms:
        sums = sums_by_shape.setdefault(
            (record.kind, len(record.ranks), record.operand_bytes), [0, 0]
        )
        sums[0] += record.copies
        sums[1] += record.copies * (record.finish_ns - record.ready_ns)
    rows = [CollectiveRow(*key, *sums) for key, sums in sums_by_shape.items()]
    return sorted(rows, key=lambda row: (-row.time_ns, row.kind, row.operand_bytes))


def _build_path_rows(path: Iterable[PathSegment]) -> list[PathRow]:
    """Group the critical path by kind of op, the most time first."""
    sums_by_kind: dict[tuple[str, str], list[int]] = {}
    for segment in path:
        key = (segment.what, classify_node(segment.node) if segment.node else "")
        sums = sums_by_kind.setdefault(key, [0, 0])
        sums[0] += 1
        sums[1] += segment.finish_ns - segment.start_ns
    rows = [PathRow(*key, *sums) for key, sums in sums_by_kind.items()]
    return sorted(rows, key=lambda row: (-row.time_ns, row.what, row.kind))


def sum_path_times(rows: Iterable[PathRow]) -> dict[str, int]:
    """Sum the nanoseconds of the critical path that are compute, communication and waiting."""
    totals: dict[str, int] = dict.fromkeys((COMPUTE, COMMUNICATION, WAITING), 0)
    for row in rows:
        totals[row.what] += row.time_ns
    return totals


def _build_exposed_rows(nodes: Iterable[ExposedNode]) -> list[ExposedRow]:
    """Group nodes of equal name, such as the trips of a loop; the most time first."""
    nodes_by_key: dict[tuple[str, str, int, str], list[ExposedNode]] = {}
    for exposed_node in nodes:
        node = exposed_node.node
        key = (
            node.name,
            classify_node(node),
            int(node.get_attr_value("comm_size", 0)),
            str(node.get_attr_value("location", "")),
        )
        nodes_by_key.setdefault(key, []).append(exposed_node)
    rows = [
        ExposedRow(
            *key,
            next((node.needed_by.name for node in equal_nodes if node.needed_by), ""),
            len(equal_nodes),
            sum(node.exposed_ns for node in equal_nodes),
            sum(node.waiting_ns for node in equal_nodes),
        )
        for key, equal_nodes in nodes_by_key.items()
    ]
    return sorted(rows, key=lambda row: (-row.exposed_ns, row.name))
