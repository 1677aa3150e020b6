"""``hespas explain``: where the time of a program goes, and what each number rests on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hespas.tools.commands.command_parser import CommandParser

if TYPE_CHECKING:
    from hespas.configs.node_spec import NodeSpec
    from hespas.dialects.attrs import TargetAttr
    from hespas.support.text_tables import TextTable
    from hespas.workflows.kernel_rows import KernelRow

DESCRIPTION = """\
Show where the compute time of an annotated program goes: the kernels with the most of it, each with
its shapes, what bounds it, the share of the node's peaks that it reaches, the constants behind it
and its place in the program; then time by layer (the framework's names), kind of kernel, type and
bound. RESULT is the output folder of hespas run, or an annotated module.

  hespas run --mlir step.mlir --node H100_80GB --output out && hespas explain out
"""
NO_ESTIMATE = "no estimate"  # in place of a tag


def build_parser() -> CommandParser:
    parser = CommandParser("hespas explain", DESCRIPTION)
    add = parser.add_argument
    add("result", metavar="RESULT", help="output folder of hespas run, or annotated module")
    add("--top", type=int, default=15, metavar="N", help="kernels to show (15); 0: all")
    add("--depth", type=int, default=2, metavar="N", help="components of a name in a layer (2)")
    add("--json", action="store_true", help="print one JSON object instead of tables")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    options = build_parser().parse_args(argv)
    if options.top < 0 or options.depth < 1:
        from hespas.support.errors import UsageError

        raise UsageError("--top takes 0 or more, --depth 1 or more")

    from dataclasses import replace

    from hespas.passes.annotate.traverse import require_target
    from hespas.support import text_tables
    from hespas.support.errors import fill_in_file_name
    from hespas.workflows import kernel_rows
    from hespas.workflows.run_results import read_annotated_module, read_program_name, resolve_node

    module = read_annotated_module(options.result)
    program = read_program_name(options.result)
    target = require_target(module)
    node = resolve_node(target.node)
    table = [
        replace(row, place=fill_in_file_name(row.place, program) if row.place else "")
        for row in kernel_rows.collect_kernel_rows(module, options.depth)
    ]
    groups = {
        "layer": kernel_rows.sum_time_by(table, lambda row: row.layer or "no name"),
        "kind": kernel_rows.sum_time_by(table, lambda row: row.kind),
        "dtype": kernel_rows.sum_time_by(table, lambda row: row.cost.dtype),
        "bound": kernel_rows.sum_time_by(table, lambda row: row.cost.bound),
    }
    is_calibrated = (target.estimator or "").startswith("calibrated")
    if is_calibrated or any(row.cost.tag for row in table):
        untagged = "within what was measured" if is_calibrated else "no tag"
        groups["constants"] = kernel_rows.sum_time_by(table, lambda row: row.cost.tag or untagged)
    merged_rows = kernel_rows.merge_layers(table)
    shown = merged_rows[: options.top or None]
    if options.json:
        print(json.dumps(_to_explanation_json(target, node, shown, merged_rows, groups), indent=1))
    else:
        tables = _build_explanation_tables(target, node, shown, merged_rows, groups)
        if node is not None and is_calibrated:
            tables.append(_build_constants_table(node))
        text_tables.print_tables(tables)
    return 0


TimeGroups = dict[str, list[tuple[str, float, int]]]


def compute_peak_shares(row: KernelRow, node: NodeSpec | None) -> tuple[float | None, float | None]:
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


def _build_explanation_tables(
    target: TargetAttr,
    node: NodeSpec | None,
    shown: Sequence[KernelRow],
    merged_rows: Sequence[KernelRow],
    groups: TimeGroups,
) -> list[TextTable]:
    from hespas.support.text_tables import (
        TextTable,
        format_count,
        format_percent,
        format_seconds,
    )

    total_ns = sum(row.time_ns for row in merged_rows)
    gaps = sum(row.count for row in merged_rows if row.cost.gap)
    facts: list[Sequence[str]] = [
        ("node", target.node or "-"),
        ("estimator", target.estimator or "-"),
        ("constants", target.constants or "-"),
        ("compute time", format_seconds(total_ns * 1e-9)),
        ("kernels", f"{sum(row.count for row in merged_rows)}, {len(merged_rows)} distinct"),
    ]
    if gaps:
        facts.append(("not estimated", f"{format_count(gaps, 'op')}: the time is too low"))
    rows = []
    for row in shown:
        compute, memory = compute_peak_shares(row, node)
        low, high = row.cost.low_ns, row.cost.high_ns
        rows.append(
            (
                row.kind_title,
                _clip_text(row.shapes),
                row.cost.bound,
                NO_ESTIMATE if row.cost.gap else row.cost.tag or "-",
                row.place or row.layer or "-",
                str(row.count),
                format_seconds(row.cost.latency_ns * 1e-9),
                "-"
                if low is None or high is None
                else _format_band(low, high, row.cost.latency_ns),
                "-" if compute is None else format_percent(compute),
                "-" if memory is None else format_percent(memory),
                format_seconds(row.time_ns * 1e-9),
                format_percent(row.time_ns / total_ns if total_ns else 0.0),
            )
        )
    header = (
        "kind", "shapes", "bound", "tag", "place", "count", "each", "band", "of peak",
        "of bandwidth", "total", "share",
    )  # fmt: skip
    tables = [
        TextTable("Compute, one device", facts, left=2),
        TextTable("Kernels", rows, header, left=5),
    ]
    for group_name, group_totals in groups.items():
        if group_name == "layer" and len(group_totals) == 1 and group_totals[0][0] == "no name":
            tables.append(TextTable("Time by layer", [("the program carries no names", "")]))
            continue
        listed = [
            (
                name,
                str(count),
                format_seconds(ns * 1e-9),
                format_percent(ns / total_ns if total_ns else 0.0),
            )
            for name, ns, count in group_totals
        ]
        tables.append(
            TextTable(f"Time by {group_name}", listed, (group_name, "kernels", "time", "share"))
        )
    return tables


def _build_constants_table(node: NodeSpec) -> TextTable:
    """The fits behind a calibrated estimate; see docs/reference/calibrated.md."""
    from hespas.estimators.calibrated.device_constants import DeviceConstants
    from hespas.support.text_tables import TextTable, format_percent

    rows = [
        (
            name,
            fit.name.partition(" ")[0],
            fit.source or "-",
            ", ".join(sorted(fit.tags)) or "-",
            f"{fit.efficiency:.3f}",
            f"{fit.bandwidth:.3f}",
            f"{1e6 * fit.fixed_s:.2f} us",
            "-" if fit.error is None else format_percent(fit.error),
        )
        for name, fit in sorted(DeviceConstants.from_node(node).fits.items())
    ]
    header = (
        "class", "of", "source", "tag", "of peak", "of bandwidth", "fixed", "median error",
    )  # fmt: skip
    return TextTable("Constants", rows, header, left=4)


def _clip_text(text: str, width: int = 60) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _format_band(low_ns: float, high_ns: float, middle_ns: float) -> str:
    return f"{100 * (low_ns / middle_ns - 1):+.0f} to {100 * (high_ns / middle_ns - 1):+.0f} %"


def _to_explanation_json(
    target: TargetAttr,
    node: NodeSpec | None,
    shown: Sequence[KernelRow],
    merged_rows: Sequence[KernelRow],
    groups: TimeGroups,
) -> dict[str, Any]:
    kernels = []
    for row in shown:
        compute, memory = compute_peak_shares(row, node)
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
        "compute_s": sum(row.time_ns for row in merged_rows) * 1e-9,
        "distinct_kernels": len(merged_rows),
        "kernels": kernels,
        **{
            f"by_{group_name}": [
                {group_name: name, "time_s": ns * 1e-9, "kernels": count}
                for name, ns, count in group_totals
            ]
            for group_name, group_totals in groups.items()
        },
    }
