"""Parses the output and the log of ASTRA-sim: statistics, faults, and the time of each node.

The lines are those of the workload layer, which all its network backends share. The exit code is
not reliable: ASTRA-sim exits with 0 after a deadlock or a lost exception.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hespas.simulators.simulation_result import DeviceResult, NodeInterval, compute_device_result

_FINISHED = re.compile(
    r"sys\[(\d+)\] finished, (\d+) cycles(?:, exposed communication (-?\d+) cycles)?"
)
_STATISTIC = re.compile(
    r"sys\[(\d+)\], (GPU time|Comm time|Total compute-communication overlap): (\d+)"
)
_UNRELEASED = re.compile(r"Hardware Resource sys\.id=(\d+) has unreleased nodes")
_HELD = re.compile(r"\[critical\] (?:CPU|GPU comp|GPU comm) node id: (\d+)")
_CRITICAL = re.compile(r"\[critical\] (.*)")
_WHAT = re.compile(r"what\(\): *(.*)")
_EVENT = re.compile(r"(issue|callback),sys->id=(\d+), tick=(\d+), node->id=(\d+),")
_OLD = re.compile(r"log\.(\d+)\.log")
_OLDEST = "log.10.log"  # of 11 files of 10 MiB

NodeTimes = dict[int, tuple[int, int]]
"""Issue and finish in ns by node id, in order of issue."""


@dataclass(slots=True)
class AstraDeviceOutput:
    """What a run printed about one device.

    Attributes:
        finish_ns: When it finished; None if it did not.
        exposed_ns: Its exposed communication; None if not printed.
        statistics: Times in ns by ASTRA-sim's names; empty if not printed.
        held_nodes: The nodes that were never released.
    """

    finish_ns: int | None = None
    exposed_ns: int | None = None
    statistics: dict[str, int] = field(default_factory=dict)
    held_nodes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class AstraOutput:
    """What a run printed; ``critical`` holds its critical messages and uncaught exceptions."""

    devices: dict[int, AstraDeviceOutput] = field(default_factory=dict)
    critical: list[str] = field(default_factory=list)
    last_line: str = ""

    def get_device(self, device: int) -> AstraDeviceOutput:
        """Return the output about a device, which is empty at first."""
        return self.devices.setdefault(device, AstraDeviceOutput())

    @property
    def finished_count(self) -> int:
        """The number of devices that finished."""
        return sum(device.finish_ns is not None for device in self.devices.values())

    @property
    def held_nodes(self) -> dict[int, list[int]]:
        """The nodes that were never released, by device."""
        return {
            number: device.held_nodes
            for number, device in self.devices.items()
            if device.held_nodes
        }


def read_output(lines: Iterable[str]) -> AstraOutput:
    """Parse the standard output and error of a run."""
    output = AstraOutput()
    unreleased_device = -1
    for raw in lines:
        line = raw.strip()
        if not line:
            continue
        output.last_line = line
        if match := _FINISHED.search(line):
            device = output.get_device(int(match[1]))
            device.finish_ns = int(match[2])
            if match[3]:
                device.exposed_ns = int(match[3])
        elif match := _STATISTIC.search(line):
            output.get_device(int(match[1])).statistics[match[2]] = int(match[3])
        elif match := _UNRELEASED.search(line):
            unreleased_device = int(match[1])
        elif match := _HELD.search(line):
            output.get_device(unreleased_device).held_nodes.append(int(match[1]))
        elif match := _CRITICAL.search(line) or _WHAT.search(line):
            output.critical.append(match[1])
    return output


def compute_statistics(
    printed: AstraOutput, intervals: Sequence[Sequence[NodeInterval]] | None
) -> list[DeviceResult]:
    """Return the totals of each device: those printed, or else those of its ``intervals``.

    Raises:
        ValueError: There are neither.
    """
    return [
        _compute_totals(device, printed.devices[device], intervals)
        for device in range(printed.finished_count)
    ]


def _compute_totals(
    device: int,
    printed: AstraDeviceOutput,
    intervals: Sequence[Sequence[NodeInterval]] | None,
) -> DeviceResult:
    finish, statistics = printed.finish_ns, printed.statistics
    assert finish is not None
    if statistics:
        compute, comm = statistics.get("GPU time", 0), statistics.get("Comm time", 0)
        overlap = statistics.get("Total compute-communication overlap", 0)
        totals = DeviceResult(finish, finish - compute, compute, comm, overlap)
    elif intervals is None:
        raise ValueError(f"there are no statistics of device {device}")
    else:
        spans: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        for interval in intervals[device]:
            spans[interval.resource == "compute"].append((interval.start_ns, interval.finish_ns))
        totals = compute_device_result(finish, spans[True], spans[False])
    if printed.exposed_ns is None:
        return totals
    return replace(totals, exposed_ns=printed.exposed_ns)


def read_node_times(folder: Path, devices: int) -> list[NodeTimes] | None:
    """Read when each node was issued and finished from the log of a run with trace-enabled.

    Returns:
        The times by device. None if the log is empty or its beginning is lost, see
        ``explain_missing_times``.
    """
    issued: list[dict[int, int]] = [{} for _ in range(devices)]
    times: list[NodeTimes] = [{} for _ in range(devices)]
    for line in _read_log_lines(folder):
        match = _EVENT.search(line)
        if match is None:
            continue
        event, tick, node = match[1], int(match[3]), int(match[4])
        device = int(match[2])
        if device >= devices:
            return None
        if event == "issue":
            issued[device][node] = tick
        elif node in issued[device]:
            times[device][node] = (issued[device][node], tick)
        else:
            return None
    if not all(times):
        return None
    return [{node: node_times[node] for node in started if node in node_times}
            for started, node_times in zip(issued, times, strict=True)]  # fmt: skip


def explain_missing_times(folder: Path) -> str:
    """Return why ``read_node_times`` finds no times of single nodes in the log of a run."""
    if not any(_read_log_lines(folder)):
        return "wrote no log"
    if (folder / _OLDEST).is_file():
        return "kept only the last 110 MB of its log"
    return "has a log without the times of all devices"


def _read_log_lines(folder: Path) -> Iterator[str]:
    """Yield the lines of a rotated log; log.10.log is the oldest part, log.log the newest."""
    numbered = [
        (int(m[1]), path) for path in folder.glob("log.*.log") if (m := _OLD.match(path.name))
    ]
    files = [path for _, path in sorted(numbered, reverse=True)] + [folder / "log.log"]
    for path in files:
        if path.is_file():
            with path.open(encoding="utf-8", errors="replace") as lines:
                yield from lines
