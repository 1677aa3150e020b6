"""``hespas explain``: where the time of a program goes, and what each number rests on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hespas.tools.commands.parser import Parser

if TYPE_CHECKING:
    from hespas.configs.node import Node
    from hespas.dialects.attrs import Target
    from hespas.tools.commands.render import Table
    from hespas.tools.kernels import Row

DESCRIPTION = """\
Show where the compute time of an annotated program goes: the kernels with the most of it, each with
its shapes, what bounds it, the share of the node's peaks that it reaches, the constants behind it
and its place in the program; then time by layer (the framework's names), kind of kernel, type and
bound. RESULT is the output folder of hespas run, or an annotated module.

  hespas run --mlir step.mlir --node H100_80GB --output out && hespas explain out
"""
NO_ESTIMATE = "no estimate"  # in place of a tag


def arguments() -> Parser:
    parser = Parser("hespas explain", DESCRIPTION)
    add = parser.add_argument
    add("result", metavar="RESULT", help="output folder of hespas run, or annotated module")
    add("--top", type=int, default=15, metavar="N", help="kernels to show (15); 0: all")
    add("--depth", type=int, default=2, metavar="N", help="components of a name in a layer (2)")
    add("--json", action="store_true", help="print one JSON object instead of tables")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    given = arguments().parse_args(argv)
    if given.top < 0 or given.depth < 1:
        from hespas.dialects.errors import UsageError

        raise UsageError("--top takes 0 or more, --depth 1 or more")

    from dataclasses import replace

    from hespas.dialects.errors import in_file
    from hespas.passes.annotate.traverse import target_of
    from hespas.tools import kernels
    from hespas.tools.commands import render
    from hespas.tools.results import node_of, program_of, read_module

    module = read_module(given.result)
    program = program_of(given.result)
    target = target_of(module)
    node = node_of(target.node)
    table = [
        replace(row, place=in_file(row.place, program) if row.place else "")
        for row in kernels.rows(module, given.depth)
    ]
    groups = {
        "layer": kernels.by(table, lambda row: row.layer or "no name"),
        "kind": kernels.by(table, lambda row: row.kind),
        "dtype": kernels.by(table, lambda row: row.cost.dtype),
        "bound": kernels.by(table, lambda row: row.cost.bound),
    }
    is_calibrated = (target.estimator or "").startswith("calibrated")
    if is_calibrated or any(row.cost.tag for row in table):
        untagged = "within what was measured" if is_calibrated else "no tag"
        groups["constants"] = kernels.by(table, lambda row: row.cost.tag or untagged)
    whole = kernels.merged(table)
    shown = whole[: given.top or None]
    if given.json:
        print(json.dumps(_as_json(target, node, shown, whole, groups), indent=1))
    else:
        tables = _tables(target, node, shown, whole, groups)
        if node is not None and is_calibrated:
            tables.append(_constants(node))
        render.show(tables)
    return 0


Groups = dict[str, list[tuple[str, float, int]]]


def achieved(row: Row, node: Node | None) -> tuple[float | None, float | None]:
    """Shares of the node's peak rate and of its bandwidth that a kernel reaches; None unknown."""
    if node is None or not row.cost.latency_ns:
        return None, None
    time_s = row.cost.latency_ns * 1e-9
    moved = row.cost.read_bytes + row.cost.write_bytes
    memory = moved / time_s / node.memory_bandwidth_bytes_per_s
    rates = [
        rates[row.cost.dtype] for rates in node.peaks_flops.values() if row.cost.dtype in rates
    ]
    compute = row.cost.flops / time_s / max(rates) if rates else None
    return compute, memory


def _tables(
    target: Target, node: Node | None, shown: Sequence[Row], whole: Sequence[Row], groups: Groups
) -> list[Table]:
    from hespas.tools.commands.render import Table, counted, percent, seconds

    total_ns = sum(row.time_ns for row in whole)
    gaps = sum(row.count for row in whole if row.cost.gap)
    facts: list[Sequence[str]] = [
        ("node", target.node or "-"),
        ("estimator", target.estimator or "-"),
        ("constants", target.constants or "-"),
        ("compute time", seconds(total_ns * 1e-9)),
        ("kernels", f"{sum(row.count for row in whole)}, {len(whole)} distinct"),
    ]
    if gaps:
        facts.append(("not estimated", f"{counted(gaps, 'op')}: the time is too low"))
    rows = []
    for row in shown:
        compute, memory = achieved(row, node)
        low, high = row.cost.low_ns, row.cost.high_ns
        rows.append(
            (
                row.title,
                _clipped(row.shapes),
                row.cost.bound,
                NO_ESTIMATE if row.cost.gap else row.cost.tag or "-",
                row.place or row.layer or "-",
                str(row.count),
                seconds(row.cost.latency_ns * 1e-9),
                "-" if low is None or high is None else _band(low, high, row.cost.latency_ns),
                "-" if compute is None else percent(compute),
                "-" if memory is None else percent(memory),
                seconds(row.time_ns * 1e-9),
                percent(row.time_ns / total_ns if total_ns else 0.0),
            )
        )
    header = (
        "kind", "shapes", "bound", "tag", "place", "count", "each", "band", "of peak",
        "of bandwidth", "total", "share",
    )  # fmt: skip
    tables = [Table("Compute, one device", facts, left=2), Table("Kernels", rows, header, left=5)]
    for what, found in groups.items():
        if what == "layer" and len(found) == 1 and found[0][0] == "no name":
            tables.append(Table("Time by layer", [("the program carries no names", "")]))
            continue
        listed = [
            (name, str(count), seconds(ns * 1e-9), percent(ns / total_ns if total_ns else 0.0))
            for name, ns, count in found
        ]
        tables.append(Table(f"Time by {what}", listed, (what, "kernels", "time", "share")))
    return tables


def _constants(node: Node) -> Table:
    """The fits behind a calibrated estimate; see docs/reference/calibrated.md."""
    from hespas.estimators.calibrated.constants import Constants
    from hespas.tools.commands.render import Table, percent

    rows = [
        (
            name,
            fit.name.partition(" ")[0],
            fit.source or "-",
            ", ".join(sorted(fit.tags)) or "-",
            f"{fit.efficiency:.3f}",
            f"{fit.bandwidth:.3f}",
            f"{1e6 * fit.fixed_s:.2f} us",
            "-" if fit.error is None else percent(fit.error),
        )
        for name, fit in sorted(Constants.of(node).fits.items())
    ]
    header = (
        "class", "of", "source", "tag", "of peak", "of bandwidth", "fixed", "median error",
    )  # fmt: skip
    return Table("Constants", rows, header, left=4)


def _clipped(text: str, width: int = 60) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _band(low_ns: float, high_ns: float, middle_ns: float) -> str:
    return f"{100 * (low_ns / middle_ns - 1):+.0f} to {100 * (high_ns / middle_ns - 1):+.0f} %"


def _as_json(
    target: Target, node: Node | None, shown: Sequence[Row], whole: Sequence[Row], groups: Groups
) -> dict[str, Any]:
    kernels = []
    for row in shown:
        compute, memory = achieved(row, node)
        cost = row.cost
        kernels.append(
            {
                "op": row.op,
                "kind": row.kind,
                "shapes": row.shapes,
                "count": row.count,
                "time_s": cost.latency_ns * 1e-9,
                "low_s": None if cost.low_ns is None else cost.low_ns * 1e-9,
                "high_s": None if cost.high_ns is None else cost.high_ns * 1e-9,
                "total_s": row.time_ns * 1e-9,
                "flops": cost.flops,
                "read_bytes": cost.read_bytes,
                "write_bytes": cost.write_bytes,
                "dtype": cost.dtype,
                "bound": cost.bound,
                "of_peak": compute,
                "of_bandwidth": memory,
                "tag": cost.tag,
                "gap": cost.gap,
                "place": row.place,
                "layer": row.layer,
            }
        )
    return {
        "node": target.node,
        "estimator": target.estimator,
        "constants": target.constants,
        "compute_s": sum(row.time_ns for row in whole) * 1e-9,
        "distinct_kernels": len(whole),
        "kernels": kernels,
        **{
            f"by_{what}": [
                {what: name, "time_s": ns * 1e-9, "kernels": count} for name, ns, count in found
            ]
            for what, found in groups.items()
        },
    }
