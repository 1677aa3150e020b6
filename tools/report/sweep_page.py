"""The page of a sweep: its programs against its nodes, and every cell."""

from __future__ import annotations

import functools
import os
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from hespas.tools.commands.render import counted, seconds
from hespas.tools.report import table
from hespas.tools.report.markup import Child, Markup, join, tag
from hespas.tools.report.page import Section, page
from hespas.tools.report.table import Cell, Column, text
from hespas.tools.sweep.table import CELL, ORIGIN, Row, results

PROGRAM, NODE = "cell.mlir", "cell.node"
SHADES = (1.1, 1.5, 2.5, 5.0)  # ends of the heat map's levels, times over the best
SHARES = {
    "exposed_share": "Exposed", "flops_utilisation": "Of peak",
    "bandwidth_utilisation": "Of bandwidth", "derived.mfu": "MFU", "derived.hfu": "HFU",
}  # fmt: skip
AMOUNTS = {  # columns and their units
    "derived.tokens_per_s": ("Tokens", "/s"), "derived.samples_per_s": ("Samples", "/s"),
    "derived.energy_j": ("Energy", "J"),
}  # fmt: skip
RESTS = ("estimator", "split", "simulator", "curves")  # what figures rest on, beside ORIGIN
MEMORY, FITS, GAPS = "memory.peak_bytes", "memory.fits", "gaps"


@dataclass(frozen=True)
class Sweep:
    """The cells that have a result, and those that failed.

    ``measure`` is the column that they are judged by; ``axes`` are the columns of what differs
    from cell to cell.
    """

    name: str
    done: list[Row]
    failed: list[Row]
    measure: str
    axes: list[str]

    @functools.cached_property
    def labels(self) -> dict[str, str]:
        """Programs by their files: without the folders, where that tells them apart."""
        files = list(dict.fromkeys(str(row.get(PROGRAM)) for row in (*self.done, *self.failed)))
        names = Counter(os.path.basename(file) for file in files)
        return {f: f if names[os.path.basename(f)] > 1 else os.path.basename(f) for f in files}

    def program(self, row: Row) -> str:
        return self.labels[str(row.get(PROGRAM))]

    @property
    def programs(self) -> list[str]:
        return list(dict.fromkeys(map(self.program, self.done)))

    @property
    def nodes(self) -> list[str]:
        return list(dict.fromkeys(map(node_of, self.done)))

    def time_s(self, row: Row) -> float:
        return row[self.measure]

    def crowded(self) -> set[tuple[str, str]]:
        """The programs and nodes whose memory no cell fits."""
        found = {(self.program(row), node_of(row)) for row in self.done if row.get(FITS) is False}
        return found - {(self.program(row), node_of(row)) for row in self.done if row.get(FITS)}

    def best(self) -> tuple[list[str], list[str], list[list[float | None]]]:
        """Programs, nodes, and the least time of each with each over all else; None: no cell."""
        least: dict[tuple[str, str], float] = {}
        for row in self.done:
            key = self.program(row), node_of(row)
            least[key] = min(least.get(key, float("inf")), self.time_s(row))
        programs, nodes = self.programs, self.nodes
        return programs, nodes, [[least.get((p, n)) for n in nodes] for p in programs]


def node_of(row: Row) -> str:
    return str(row.get("node") or row.get(NODE) or "no node")


def read(path: str) -> Sweep:
    """The sweep whose table is in a file; raises HespasError."""
    done, failed = results(path)
    rows = [*done, *failed]
    measure = "step_time_s" if all("step_time_s" in row for row in done) else "compute_s"
    names = dict.fromkeys(name for row in rows for name in row if name.startswith(CELL))
    axes = [name for name in names if len({str(row.get(name)) for row in rows}) > 1]
    return Sweep(os.path.basename(path), done, failed, measure, axes)


def sweep_page(sweep: Sweep) -> bytes:
    """The page of a sweep."""
    sections = [_grid(sweep), _cells(sweep), _failed(sweep), _provenance(sweep)]
    axes = ", ".join(name.removeprefix(CELL) for name in sweep.axes) or "nothing"
    count = len(sweep.done) + len(sweep.failed)
    return page(
        sweep.name,
        f"a sweep of {counted(count, 'cell')} over {axes}",
        [section for section in sections if section is not None],
        join(_alert(sweep), _cards(sweep)),
    )


def _alert(sweep: Sweep) -> Markup | None:
    """What makes times too low."""
    count = sum(bool(row.get(GAPS)) for row in sweep.done)
    if not count:
        return None
    has = "has" if count == 1 else "have"
    said = f"{counted(count, 'cell')} {has} ops without an estimate: the times are too low."
    return tag("div", said, class_="alert bad", role="alert")


def _cards(sweep: Sweep) -> Markup:
    best = min(sweep.done, key=sweep.time_s)
    cards = [
        ("cells with a result", str(len(sweep.done)), f"{len(sweep.failed)} failed"),
        ("programs", str(len(sweep.programs)), f"on {counted(len(sweep.nodes), 'node')}"),
        (f"shortest {_what(sweep)}", seconds(sweep.time_s(best)),
         f"{sweep.program(best)} on {node_of(best)}"),
    ]  # fmt: skip
    return table.cards(cards)


def _what(sweep: Sweep) -> str:
    return "step" if sweep.measure == "step_time_s" else "compute"


def _grid(sweep: Sweep) -> Section:
    programs, nodes, times = sweep.best()
    crowded = sweep.crowded()
    head = tag("tr", tag("td"), *(tag("th", node, scope="col") for node in nodes))
    body = []
    for program, row in zip(programs, times, strict=True):
        least = min(time for time in row if time is not None)
        cells = [
            _shaded(time, least, fits=(program, node) not in crowded)
            for node, time in zip(nodes, row, strict=True)
        ]
        body.append(tag("tr", tag("th", program, scope="row"), *cells))
    grid = tag("table", tag("thead", head), tag("tbody", *body), class_="heat",
               aria_labelledby="grid-title")  # fmt: skip
    scroller = tag("div", grid, class_="scroll", tabindex=0, role="region",
                   aria_labelledby="grid-title")  # fmt: skip
    others = [n.removeprefix(CELL) for n in sweep.axes if n not in (PROGRAM, NODE)]
    over = f", the shortest over {' and '.join(others)}" if others else ""
    lead = (
        f"The {_what(sweep)} of each program on each node{over}; below, how many times the "
        "program's shortest. The stronger the colour, the longer."
    )
    return Section("grid", "Programs and nodes", scroller, lead)


def _shaded(time_s: float | None, least_s: float, *, fits: bool) -> Markup:
    if time_s is None:
        return tag("td", "-", class_="none")
    ratio = time_s / least_s if least_s else 1.0
    level = sum(ratio > end for end in SHADES)
    more = tag("span", f"{ratio:.2f} x")
    alert = None if fits else tag("span", "does not fit")
    return tag("td", seconds(time_s), more, alert, class_=f"h{level}")


def _cells(sweep: Sweep) -> Section:
    least: dict[str, float] = {}
    for row in sweep.done:
        name = sweep.program(row)
        least[name] = min(least.get(name, float("inf")), sweep.time_s(row))
    banded = any("compute_band_s.0" in row for row in sweep.done)
    shares = {n: title for n, title in SHARES.items() if any(n in row for row in sweep.done)}
    amounts = {n: pair for n, pair in AMOUNTS.items() if any(n in row for row in sweep.done)}
    sized = any(MEMORY in row for row in sweep.done)
    gaps = any(row.get(GAPS) for row in sweep.done)
    columns = [
        *(Column(name.removeprefix(CELL), _title(name), _kind(sweep, name)) for name in sweep.axes),
        Column("devices", "Devices"),
        Column("time", _what(sweep).capitalize()),
        Column("ratio", "Of shortest", help="over the shortest of the same program"),
        *([Column("band", "80 % band")] if banded else []),
        *([] if sweep.measure == "compute_s" else [Column("compute", "Compute")]),
        *(Column(name.rpartition(".")[2], title) for name, title in shares.items()),
        *(Column(name.rpartition(".")[2], title) for name, (title, _) in amounts.items()),
        *([Column("memory", "Memory", help="peak of one device")] if sized else []),
        *([Column("gaps", "Gaps", help="ops without an estimate")] if gaps else []),
    ]
    rows = []
    order = sweep.programs
    for row in sorted(sweep.done, key=lambda r: (order.index(sweep.program(r)), sweep.time_s(r))):
        time_s = sweep.time_s(row)
        rows.append(
            [
                *(_value(sweep, row, name) for name in sweep.axes),
                table.number(row["devices"]) if "devices" in row else Cell("-"),
                table.time(time_s),
                _ratio(time_s, least[sweep.program(row)]),
                *([_band(row, sweep.measure)] if banded else []),
                *([] if sweep.measure == "compute_s" else [table.time(row["compute_s"])]),
                *(table.share(row.get(name)) for name in shares),
                *(table.size(row.get(name), unit) for name, (_, unit) in amounts.items()),
                *([_memory(row)] if sized else []),
                *([table.number(row.get(GAPS, 0))] if gaps else []),
            ]
        )
    grid = table.table("cell", "By program, the shortest first", columns, rows)
    return Section("cells", "Cells", grid)


def _title(name: str) -> str:
    return "Program" if name == PROGRAM else name.removeprefix(CELL).replace("_", " ").capitalize()


def _kind(sweep: Sweep, name: str) -> Any:
    values = [row[name] for row in sweep.done if name in row]
    is_number = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return "number" if is_number else "text"


def _value(sweep: Sweep, row: Row, name: str) -> Cell:
    value = sweep.program(row) if name == PROGRAM else row.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Cell(f"{value:,}" if isinstance(value, int) else f"{value:g}", value)
    return text(value)


def _memory(row: Row) -> Cell:
    size = table.size(row.get(MEMORY))
    return replace(size, more="does not fit") if row.get(FITS) is False else size


def _ratio(time_s: float, least_s: float) -> Cell:
    ratio = time_s / least_s if least_s else 1.0
    return Cell(f"{ratio:.2f} x", ratio)


def _band(row: Row, measure: str) -> Cell:
    name = "step_time_band_s" if measure == "step_time_s" else "compute_band_s"
    low, high = row.get(f"{name}.0"), row.get(f"{name}.1")
    if low is None or high is None:
        return Cell("-")
    return Cell(f"{seconds(low)} to {seconds(high)}", high - low)


def _failed(sweep: Sweep) -> Section | None:
    if not sweep.failed:
        return None
    columns = [
        *(Column(name.removeprefix(CELL), _title(name), "text") for name in sweep.axes),
        Column("error", "Error", "text"),
    ]
    rows = [
        [*(_value(sweep, row, name) for name in sweep.axes), text(row["error"])]
        for row in sweep.failed
    ]
    grid = table.table("failure", "Cells without a result, and why", columns, rows)
    return Section("failed", f"Failed: {counted(len(rows), 'cell')}", grid)


def _provenance(sweep: Sweep) -> Section | None:
    """What is the same in all cells; of what is not, how many values there are."""
    found: dict[str, set[str]] = {}
    for row in sweep.done:
        for name, value in row.items():
            if name.startswith(ORIGIN) or name in RESTS:
                found.setdefault(name.removeprefix(ORIGIN).replace("_", " "), set()).add(str(value))
    same = {n.removeprefix(CELL): v for n, v in sweep.done[0].items() if n.startswith(CELL)}
    facts: list[tuple[str, Child]] = [
        (name, str(value)) for name, value in same.items() if f"{CELL}{name}" not in sweep.axes
    ]
    facts += [(name, _listed(values)) for name, values in found.items() if name not in same]
    return Section("provenance", "What the numbers rest on", table.facts(facts)) if facts else None


def _listed(values: set[str]) -> Child:
    ordered = sorted(values)
    shown = ", ".join(ordered)
    return shown if len(ordered) == 1 or len(shown) < 100 else f"{len(ordered)} different ones"
