"""What ASTRA-sim prints and logs, read back: statistics, faults, and the time of each node.

Lines of the workload layer, which all its network backends share. ASTRA-sim's exit code says
nothing: a deadlock exits with 0, and so does a run that lost an exception.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hespas.simulators.result import DeviceResult, Interval, device_result

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

Times = dict[int, tuple[int, int]]  # node id to issue and finish, in ns, in order of issue


@dataclass(slots=True)
class Printed:
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


def read_output(lines: Iterable[str]) -> Printed:
    """Standard output and error of a run, line by line."""
    found = Printed()
    device = -1
    for raw in lines:
        line = raw.strip()
        if not line:
            continue
        found.last_line = line
        if match := _FINISHED.search(line):
            rank = int(match[1])
            found.finish_ns[rank] = int(match[2])
            if match[3]:
                found.exposed_ns[rank] = int(match[3])
        elif match := _STATISTIC.search(line):
            found.statistics.setdefault(int(match[1]), {})[match[2]] = int(match[3])
        elif match := _UNRELEASED.search(line):
            device = int(match[1])
        elif match := _HELD.search(line):
            found.held.setdefault(device, []).append(int(match[1]))
        elif match := _CRITICAL.search(line) or _WHAT.search(line):
            found.critical.append(match[1])
    return found


def statistics(
    printed: Printed, intervals: Sequence[Sequence[Interval]] | None
) -> list[DeviceResult]:
    """The totals of each device: those printed, else those of its ``intervals``.

    Raises ValueError where there are neither.
    """
    return [_totals(printed, device, intervals) for device in range(len(printed.finish_ns))]


def _totals(
    printed: Printed, device: int, intervals: Sequence[Sequence[Interval]] | None
) -> DeviceResult:
    finish, said = printed.finish_ns[device], printed.statistics.get(device)
    if said is not None:
        compute, comm = said.get("GPU time", 0), said.get("Comm time", 0)
        overlap = said.get("Total compute-communication overlap", 0)
        found = DeviceResult(finish, finish - compute, compute, comm, overlap)
    elif intervals is None:
        raise ValueError(f"there are no statistics of device {device}")
    else:
        spans: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        for one in intervals[device]:
            spans[one.resource == "compute"].append((one.start_ns, one.finish_ns))
        found = device_result(finish, spans[True], spans[False])
    return replace(found, exposed_ns=printed.exposed_ns.get(device, found.exposed_ns))


def read_log(folder: Path, devices: int) -> list[Times] | None:
    """When each node was issued and finished, by device, from the log of a run with trace-enabled.

    ASTRA-sim keeps the last 11 files of 10 MiB of its log. None where its beginning is lost, or
    where nothing is in it.
    """
    issued: list[dict[int, int]] = [{} for _ in range(devices)]
    times: list[Times] = [{} for _ in range(devices)]
    for line in _log_lines(folder):
        match = _EVENT.search(line)
        if match is None:
            continue
        what, tick, node = match[1], int(match[3]), int(match[4])
        device = int(match[2])
        if device >= devices:
            return None
        if what == "issue":
            issued[device][node] = tick
        elif node in issued[device]:
            times[device][node] = (issued[device][node], tick)
        else:
            return None
    if not all(times):
        return None
    return [{node: mine[node] for node in started if node in mine}
            for started, mine in zip(issued, times, strict=True)]  # fmt: skip


def _log_lines(folder: Path) -> Iterator[str]:
    """The lines of a rotated log: log.10.log is the oldest part, log.log the newest."""
    numbered = [
        (int(m[1]), path) for path in folder.glob("log.*.log") if (m := _OLD.match(path.name))
    ]
    files = [path for _, path in sorted(numbered, reverse=True)] + [folder / "log.log"]
    for path in files:
        if path.is_file():
            with path.open(encoding="utf-8", errors="replace") as lines:
                yield from lines
