"""``hespas compare``: one program on several nodes, several programs, or results, side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hespas.tools.commands.parser import Parser

if TYPE_CHECKING:
    from hespas.tools.commands.render import Table
    from hespas.tools.comparison import Compared

DESCRIPTION = """\
Put results side by side, normalised to the first: a program on several nodes, several programs (of
other device counts, say), output folders of hespas run, or the cells of a table of hespas sweep. A
system of --systems goes with each program, or, of one program, with each node; a single one goes
with all, and {node} in its name stands for the node's.

  hespas compare step.mlir --nodes A100_SXM_80GB,H100_80GB --systems '{node}_4GPU' --plot nodes.png
  hespas compare fsdp8.mlir fsdp32.mlir --nodes H100_80GB --systems small,large
"""
NAMES = ("program", "node", "system", "split", "estimator", "devices")  # what a result is of
SHARES = {  # figures of a run
    "exposed_share": "share", "flops_utilisation": "of peak", "derived.mfu": "MFU",
    "derived.hfu": "HFU",
}  # fmt: skip
AMOUNTS = {  # figures of a run, and their units
    "derived.tokens_per_s": ("tokens/s", ""), "derived.samples_per_s": ("samples/s", ""),
    "derived.energy_j": ("energy", "J"), "memory.peak_bytes": ("memory", "B"),
}  # fmt: skip


def arguments() -> Parser:
    parser = Parser("hespas compare", DESCRIPTION)
    add = parser.add_argument
    add("sources", nargs="+", metavar="SOURCE", help="program, configuration (.json) or result")
    add("--nodes", metavar="A,B,...", help="node presets or files")
    add("--systems", metavar="A,B,...", help="system presets or folders: the networks")
    add(
        "--work", choices=("auto", "flops", "strong", "weak"), default="auto",
        help="how much programs of other device counts do, for the scaling efficiency: as their "
        "tokens or samples say, else their operations (default); as their operations say; all the "
        "same; or each device the same",
    )  # fmt: skip
    add("--plot", metavar="FILE", help="bars of the times, as .png, .svg or .pdf")
    add("--json", action="store_true", help="print one JSON object instead of a table")

    from hespas.tools.commands.run import add_options

    add_options(parser)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    options = vars(arguments().parse_args(argv))
    sources, work, plot = (options.pop(key) for key in ("sources", "work", "plot"))
    wants_json = options.pop("json")
    nodes, systems = (_listed(options.pop(key)) for key in ("nodes", "systems"))

    import tempfile

    from hespas.passes.emit.file import check
    from hespas.tools.commands import flow, render
    from hespas.tools.commands.run import given_flags
    from hespas.tools.comparison import compare
    from hespas.tools.report import plots

    flags = given_flags(options)
    if plot:
        plots.check_plot(plot)
        check(plot)
    cells = _cells(sources, nodes, systems, flags)
    with tempfile.TemporaryDirectory() as scratch, flow.progress() as before:
        found = compare(_results(cells, scratch, before), work)
    if plot:
        plots.comparison(plot, found, labels(found))
    if wants_json:
        print(json.dumps(as_json(found), indent=1))
    else:
        render.show([_table(found)])
    return 0


Cell = tuple[str, dict[str, Any]]  # what is run, and with which flags


def _listed(text: str | None) -> list[str]:
    return [part for part in (text or "").split(",") if part]


def _cells(
    sources: Sequence[str], nodes: Sequence[str], systems: Sequence[str], flags: dict[str, Any]
) -> list[Cell]:
    """What to run, programs first and nodes inside; raises UsageError."""
    from hespas.dialects.errors import UsageError
    from hespas.tools.sweep.table import is_table

    if len(sources) < 2 and len(nodes) < 2 and not is_table(sources[0]):
        raise UsageError("there is one result only", remedy="name several, or several --nodes")
    by_source = len(sources) > 1
    wanted = len(sources) if by_source else len(nodes)
    if len(systems) not in (0, 1, wanted):
        what = "programs" if by_source else "nodes"
        raise UsageError(
            f"there are {wanted} {what} and {len(systems)} systems",
            remedy="give one system, or as many; {node} in a name stands for the node's",
        )
    cells = []
    for i, source in enumerate(sources):
        for k, node in enumerate(nodes or [None]):
            given = {**flags, "node": node} if node else dict(flags)
            if systems:
                system = systems[(i if by_source else k) % len(systems)]
                given["system"] = system.replace("{node}", node or "")
            cells.append((source, given))
    return cells


def _results(cells: Sequence[Cell], scratch: str, before: Callable[[str], None]) -> list[Any]:
    """The results of all cells; wrong presets are found before the first is run."""
    import os

    from hespas import configs
    from hespas.dialects.errors import UsageError
    from hespas.tools.sources import Runner
    from hespas.tools.sweep.table import is_table

    for source, flags in cells:
        if flags and (os.path.isdir(source) or is_table(source)):
            raise UsageError("it is a result already: flags change nothing in it", where=source)
        if "node" in flags:
            configs.node(flags["node"])
        if "system" in flags:
            configs.system(flags["system"])
    runner = Runner(scratch, before)
    return [result for source, flags in cells for result in runner.found(source, flags)]


def labels(found: Sequence[Compared]) -> list[str]:
    """What tells the results apart, of program, node, system, split and estimator."""
    keys = [key for key in NAMES if len({_label(one, key) for one in found}) > 1]
    keys = [key for key in keys if key != "devices" and not (key == "system" and "node" in keys)]
    names = [" ".join(_label(one, key) for key in keys) for one in found]
    if len(set(names)) == len(names):
        return names
    numbered = enumerate(zip(names, found, strict=True), start=1)
    return [f"{name or one.result.name} ({i})" for i, (name, one) in numbered]


def _label(one: Compared, key: str) -> str:
    value = one.result.name if key == "program" else one.result.figure(key)
    return "" if value is None else str(value)


def _table(found: Sequence[Compared]) -> Table:
    """What is the same in all is the title, what none has is left out."""
    from hespas.tools.commands.render import Table, percent, scaled, seconds

    figures = [one.result.figures for one in found]
    names = {key: [_label(one, key) for one in found] for key in NAMES}
    names = {key: column for key, column in names.items() if any(column)}
    same = [f"{key} {column[0]}" for key, column in names.items() if len({*column}) == 1]
    columns: dict[str, list[str | None]] = {
        key: [*column] for key, column in names.items() if len({*column}) > 1
    }
    left = sum(key != "devices" for key in columns)
    what = "compute" if found[0].measure == "compute_s" else "step"
    columns[what] = [seconds(one.time_s) for one in found]
    columns["80 % band"] = [
        " to ".join(map(seconds, one.band_s)) if one.band_s else None for one in found
    ]
    columns["of first"] = [_text(one.relative_time, lambda ratio: f"{ratio:.3f}") for one in found]
    columns["speed-up"] = [_text(one.speed_up, lambda ratio: f"{ratio:.2f} x") for one in found]
    if what == "step":
        columns["compute"] = [seconds(figure["compute_s"]) for figure in figures]
        columns["exposed"] = [_text(figure.get("exposed_comm_s"), seconds) for figure in figures]
    for key, title in SHARES.items():
        columns[title] = [_text(one.result.figure(key), percent) for one in found]
    for key, (title, unit) in AMOUNTS.items():
        values = [one.result.figure(key) for one in found]
        columns[title] = [_text(value, lambda v, u=unit: scaled(v, u).strip()) for value in values]
    costs = [one.result.figure("derived.cost_usd") for one in found]
    columns["cost"] = [_text(cost, lambda usd: f"{usd:.4g} USD") for cost in costs]
    gaps = [figure.get("gaps") or None for figure in figures]
    columns["gaps"] = [_text(count, str) for count in gaps]
    columns["efficiency"] = [_text(one.efficiency, percent) for one in found]
    shown = {key: column for key, column in columns.items() if any(column)}
    rows = [tuple(text or "-" for text in row) for row in zip(*shown.values(), strict=True)]
    return Table("; ".join(same) or "Compared", rows, tuple(shown), left=left)


def _text(value: Any, spelled: Callable[[Any], str]) -> str | None:
    return None if value is None else spelled(value)


def as_json(found: Sequence[Compared]) -> dict[str, Any]:
    """The object that ``--json`` prints: docs/how-to/compare.md."""
    return {
        "measure": found[0].measure,
        "results": [
            {
                "label": label,
                "time_s": one.time_s,
                "relative_time": one.relative_time,
                "speed_up": one.speed_up,
                "efficiency": one.efficiency,
                "run": one.result.figures,
            }
            for label, one in zip(labels(found), found, strict=True)
        ],
    }
