"""``hespas show``: explain a result in the terminal, or write it as a page or as plots."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hespas.support.errors import UsageError
from hespas.support.text_tables import (
    TextTable,
    clip_text,
    format_count,
    format_percent,
    format_seconds,
    print_tables,
)
from hespas.tools.commands.command_parser import CommandParser
from hespas.tools.commands.shared_flags import (
    add_depth_flag,
    add_json_flag,
    add_reading_flags,
    add_top_flag,
)

if TYPE_CHECKING:
    from hespas.configs.node_spec import NodeSpec
    from hespas.workflows.kernel_rows import KernelRow
    from hespas.workflows.program_explanation import ProgramExplanation

DESCRIPTION = """\
Show where the compute time of a program goes. The table of kernels gives the shapes of each kernel,
its limit, the share of the node's peak rates that it reaches, the constants behind its time, and
its place in the program. More tables give the time by layer (the names of the framework), kind of
kernel, element type and limit.

With --page, write one HTML page instead, which loads nothing from the network: the step, the
roofline, kernels, collectives, memory, layers, and the provenance of each number. With --plots,
write the plots as files.

RESULT is the output folder of hespas run, an annotated module, or the table that hespas sweep or
hespas study wrote. Of a table, the cells are shown, by program and then by time, and the errors.

  hespas run --mlir step.mlir --node H100_80GB --output out && hespas show out
  hespas show out --page out.html
"""


def build_parser() -> CommandParser:
    parser = CommandParser("hespas show", DESCRIPTION)
    add = parser.add_argument
    add(
        "result", metavar="RESULT",
        help="output folder of hespas run, annotated module, or table of a sweep or a study",
    )  # fmt: skip
    add_top_flag(parser, "kernels with the most time, or first cells of a table", default=15)
    add_depth_flag(parser)
    add_json_flag(parser)
    add_reading_flags(parser)
    add("--page", metavar="FILE", help="write an HTML page instead of printing tables")
    add(
        "--plots", metavar="DIR",
        help="write the plots as PNG and SVG files to this folder instead; needs matplotlib",
    )  # fmt: skip
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    options = build_parser().parse_args(argv)
    if not (options.page or options.plots):
        from hespas.workflows.sweep.sweep_table import is_table_file

        if is_table_file(options.result):
            return _print_cells(options)
        return _print_explanation(options)
    if options.json:
        raise UsageError("--json prints tables: it does not go with --page or --plots")
    return _write_report(options)


def _write_report(options: argparse.Namespace) -> int:
    """Write the page and the plots of a run or of a sweep, and print the names of the files."""
    from hespas.support.output_file import check_writable_file, write_atomically
    from hespas.tools.report import report_plots

    if options.page:
        check_writable_file(options.page)
    if options.plots:
        report_plots.check_plot_file(os.path.join(options.plots, "roofline.png"))
    if os.path.isdir(options.result):
        page, written = _render_run_report(options)
    else:
        page, written = _render_sweep_report(options)
    if options.page:
        write_atomically(options.page, page)
        written = [options.page, *written]
    print("\n".join(written))
    return 0


def _render_run_report(options: argparse.Namespace) -> tuple[bytes, list[str]]:
    """Render the page of a run and write its plots; returns the page and the files."""
    from hespas.tools.report import report_plots
    from hespas.tools.report.run_page import render_run_page
    from hespas.workflows.run_results import RunResult

    run_result = RunResult.load_folder(options.result)
    page = b""
    if options.page:
        page = render_run_page(run_result, os.path.dirname(options.page) or ".")
    plots = report_plots.write_run_plots(run_result, options.plots) if options.plots else []
    return page, plots


def _render_sweep_report(options: argparse.Namespace) -> tuple[bytes, list[str]]:
    """Render the page of a sweep and write its plots; returns the page and the files."""
    from hespas.tools.report import report_plots, sweep_page

    table = sweep_page.read_sweep_results(options.result)
    page = sweep_page.render_sweep_page(table) if options.page else b""
    plots: list[str] = []
    if options.plots:
        plots = report_plots.write_heat_map(options.plots, *table.find_best_times())
    return page, plots


def _print_cells(options: argparse.Namespace) -> int:
    """Print the cells of a sweep or a study, or its rows as JSON."""
    from hespas.tools.report import sweep_page
    from hespas.workflows.sweep import sweep_table

    if options.json:
        print(sweep_table.format_as_json(sweep_table.read_table(options.result)), end="")
        return 0
    results = sweep_page.read_sweep_results(options.result)
    print_tables(sweep_page.tabulate_cells(results, options.top))
    return 0


def _print_explanation(options: argparse.Namespace) -> int:
    from hespas.workflows.program_explanation import explain_program, to_explanation_json

    explanation = explain_program(options.result, options.depth)
    if options.json:
        print(json.dumps(to_explanation_json(explanation, options.top), indent=1))
        return 0
    tables = [
        _build_facts_table(explanation),
        _build_kernels_table(explanation, options.top),
        *_build_group_tables(explanation),
    ]
    if explanation.node is not None and explanation.is_calibrated:
        tables.append(_build_constants_table(explanation.node))
    print_tables(tables)
    return 0


def _build_facts_table(explanation: ProgramExplanation) -> TextTable:
    target, rows = explanation.target, explanation.rows
    facts: list[Sequence[str]] = [
        ("node", target.node or "-"),
        ("estimator", target.estimator or "-"),
        ("constants", target.constants or "-"),
        ("compute time", format_seconds(explanation.total_ns * 1e-9)),
        ("kernels", f"{sum(row.count for row in rows)}, {len(rows)} distinct"),
    ]
    gaps = sum(row.count for row in rows if row.cost.gap)
    if gaps:
        facts.append(("not estimated", f"{format_count(gaps, 'op')}: the time is too low"))
    return TextTable("Compute, one device", facts, left=2)


def _build_kernels_table(explanation: ProgramExplanation, limit: int | None) -> TextTable:
    total_ns = explanation.total_ns
    rows = [_format_kernel_row(row, explanation.node, total_ns) for row in explanation.rows[:limit]]
    header = (
        "kind", "shapes", "bound", "tag", "place", "count", "each", "band", "of peak",
        "of bandwidth", "total", "share",
    )  # fmt: skip
    return TextTable("Kernels", rows, header, left=5)


def _format_kernel_row(row: KernelRow, node: NodeSpec | None, total_ns: float) -> tuple[str, ...]:
    from hespas.workflows.program_explanation import NO_ESTIMATE, compute_peak_shares

    cost = row.cost
    peak_shares = compute_peak_shares(row, node)
    return (
        row.kind_title,
        clip_text(row.shapes),
        cost.bound,
        NO_ESTIMATE if cost.gap else cost.tag or "-",
        row.place or row.layer or "-",
        str(row.count),
        format_seconds(cost.time_ns * 1e-9),
        row.band_text or "-",
        *("-" if share is None else format_percent(share) for share in peak_shares),
        format_seconds(row.time_ns * 1e-9),
        format_percent(row.time_ns / total_ns if total_ns else 0.0),
    )


def _build_group_tables(explanation: ProgramExplanation) -> list[TextTable]:
    from hespas.workflows.program_explanation import NO_NAME

    total_ns, tables = explanation.total_ns, []
    for group_name, totals in explanation.groups.items():
        title = f"Time by {group_name}"
        if group_name == "layer" and [name for name, _, _ in totals] == [NO_NAME]:
            tables.append(TextTable(title, [("the program carries no names", "")]))
            continue
        rows = [
            (
                name,
                str(count),
                format_seconds(time_ns * 1e-9),
                format_percent(time_ns / total_ns if total_ns else 0.0),
            )
            for name, time_ns, count in totals
        ]
        tables.append(TextTable(title, rows, (group_name, "kernels", "time", "share")))
    return tables


def _build_constants_table(node: NodeSpec) -> TextTable:
    """Build the table of a node's calibrated constants, see docs/reference/calibrated.md."""
    from hespas.estimators.calibrated.device_constants import DeviceConstants

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
