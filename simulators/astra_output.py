"""What ASTRA-sim prints and logs, read back: statistics, faults, and the time of each node.

Lines of the workload layer, which all its network backends share. ASTRA-sim's exit code says
nothing: a deadlock exits with 0, and so does a run that lost an exception.
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

NodeTimes = dict[int, tuple[int, int]]  # node id to issue and finish, in ns, in order of issue


@dataclass(slots=True)
class AstraOutput:
    """What a run printed. ``finish_ns`` and ``exposed_ns`` by device, of those that finished.

    ``statistics``: by device, the times by ASTRA-sim's name for them. ``held``: nodes that were
    never released, by device. ``critical``: what else it called critical, and what it died of.
    """

    finish_ns: dict[int, int] = field(default_factory=dict)
    exposed_ns: dict[int, int] = field(default_factory=dict)
    statistics: dict[int, dict[str, int]] = field(default_factory=dict)
    held: dict[int, list[int]] = field(default_factory=dict)
    critical: list[str] = field(default_factory=list)
    last_line: str = ""


def read_output(lines: Iterable[str]) -> AstraOutput:
    """Standard output and error of a run, line by line."""
    output = AstraOutput()
    device = -1
    for raw in lines:
        line = raw.strip()
        if not line:
            continue
        output.last_line = line
        if match := _FINISHED.search(line):
            rank = int(match[1])
            output.finish_ns[rank] = int(match[2])
            if match[3]:
                output.exposed_ns[rank] = int(match[3])
        elif match := _STATISTIC.search(line):
            output.statistics.setdefault(int(match[1]), {})[match[2]] = int(match[3])
        elif match := _UNRELEASED.search(line):
            device = int(match[1])
        elif match := _HELD.search(line):
            output.held.setdefault(device, []).append(int(match[1]))
        elif match := _CRITICAL.search(line) or _WHAT.search(line):
            output.critical.append(match[1])
    return output


def compute_statistics(
    printed: AstraOutput, intervals: Sequence[Sequence[NodeInterval]] | None
) -> list[DeviceResult]:
    """The totals of each device: those printed, else those of its ``intervals``.

    Raises ValueError where there are neither.
    """
    return [_compute_totals(printed, device, intervals) for device in range(len(printed.finish_ns))]


def _compute_totals(
    printed: AstraOutput, device: int, intervals: Sequence[Sequence[NodeInterval]] | None
) -> DeviceResult:
    finish, device_statistics = printed.finish_ns[device], printed.statistics.get(device)
    if device_statistics is not None:
        compute, comm = device_statistics.get("GPU time", 0), device_statistics.get("Comm time", 0)
        overlap = device_statistics.get("Total compute-communication overlap", 0)
        totals = DeviceResult(finish, finish - compute, compute, comm, overlap)
    elif intervals is None:
        raise ValueError(f"there are no statistics of device {device}")
    else:
        spans: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        for one in intervals[device]:
            spans[one.resource == "compute"].append((one.start_ns, one.finish_ns))
        totals = compute_device_result(finish, spans[True], spans[False])
    return replace(totals, exposed_ns=printed.exposed_ns.get(device, totals.exposed_ns))


def read_node_times(folder: Path, devices: int) -> list[NodeTimes] | None:
    """When each node was issued and finished, by device, from the log of a run with trace-enabled.

    ASTRA-sim keeps the last 11 files of 10 MiB of its log. None where its beginning is lost, or
    where nothing is in it.
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


def _read_log_lines(folder: Path) -> Iterator[str]:
    """The lines of a rotated log: log.10.log is the oldest part, log.log the newest."""
    numbered = [
        (int(m[1]), path) for path in folder.glob("log.*.log") if (m := _OLD.match(path.name))
    ]
    files = [path for _, path in sorted(numbered, reverse=True)] + [folder / "log.log"]
    for path in files:
        if path.is_file():
            with path.open(encoding="utf-8", errors="replace") as lines:
                yield from lines
