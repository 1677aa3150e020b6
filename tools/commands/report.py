"""``hespas report``: a result as a page for the browser, or as plots."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hespas.tools.commands.parser import Parser

DESCRIPTION = """\
Write a result as one HTML page that needs no network: where the step goes, the roofline, kernels,
collectives, memory, layers, and what each number rests on. RESULT is the output folder of hespas
run, or the table that hespas sweep wrote.

  hespas run --mlir step.mlir --node H100_80GB --output out && hespas report out -o out.html
"""


def arguments() -> Parser:
    parser = Parser("hespas report", DESCRIPTION)
    add = parser.add_argument
    add("result", metavar="RESULT", help="output folder of hespas run, or table of hespas sweep")
    add("-o", "--output", metavar="FILE", help="the page; default: report.html, without --plots")
    add("--plots", metavar="DIR", help="write the plots there, as PNG and SVG: needs matplotlib")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    given = arguments().parse_args(argv)

    from hespas.passes.emit.file import check, write_whole
    from hespas.tools.report import plots

    path = given.output or ("" if given.plots else "report.html")
    if path:
        check(path)
    if given.plots:
        plots.check_plot(os.path.join(given.plots, "roofline.png"))
    if os.path.isdir(given.result):
        from hespas.tools.report.run_page import run_page
        from hespas.tools.results import Result

        found = Result.load(given.result)
        page = run_page(found, os.path.dirname(path) or ".") if path else b""
        written = plots.write_run(found, given.plots) if given.plots else []
    else:
        from hespas.tools.report import sweep_page

        table = sweep_page.read(given.result)
        page = sweep_page.sweep_page(table) if path else b""
        written = plots.grid(given.plots, *table.best()) if given.plots else []
    if path:
        write_whole(path, page)
        written = [path, *written]
    print("\n".join(written))
    return 0
