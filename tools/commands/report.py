"""``hespas report``: a result as a page for the browser, or as plots."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hespas.tools.commands.command_parser import CommandParser

DESCRIPTION = """\
Write a result as one HTML page that needs no network: where the step goes, the roofline, kernels,
collectives, memory, layers, and what each number rests on. RESULT is the output folder of hespas
run, or the table that hespas sweep wrote.

  hespas run --mlir step.mlir --node H100_80GB --output out && hespas report out -o out.html
"""


def build_parser() -> CommandParser:
    parser = CommandParser("hespas report", DESCRIPTION)
    add = parser.add_argument
    add("result", metavar="RESULT", help="output folder of hespas run, or table of hespas sweep")
    add("-o", "--output", metavar="FILE", help="the page; default: report.html, without --plots")
    add("--plots", metavar="DIR", help="write the plots there, as PNG and SVG: needs matplotlib")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    options = build_parser().parse_args(argv)

    from hespas.support.output_file import check_writable_file, write_atomically
    from hespas.tools.report import report_plots

    path = options.output or ("" if options.plots else "report.html")
    if path:
        check_writable_file(path)
    if options.plots:
        report_plots.check_plot_file(os.path.join(options.plots, "roofline.png"))
    if os.path.isdir(options.result):
        from hespas.tools.report.run_page import render_run_page
        from hespas.workflows.run_results import RunResult

        run_result = RunResult.load_folder(options.result)
        page = render_run_page(run_result, os.path.dirname(path) or ".") if path else b""
        written = report_plots.write_run_plots(run_result, options.plots) if options.plots else []
    else:
        from hespas.tools.report import sweep_page

        table = sweep_page.read_sweep_results(options.result)
        page = sweep_page.render_sweep_page(table) if path else b""
        written = (
            report_plots.write_heat_map(options.plots, *table.find_best_times())
            if options.plots
            else []
        )
    if path:
        write_atomically(path, page)
        written = [path, *written]
    print("\n".join(written))
    return 0
