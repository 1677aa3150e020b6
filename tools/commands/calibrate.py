"""``hespas calibrate``: a node preset whose kernel constants are fitted to measurements."""

from __future__ import annotations

import datetime
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hespas.dialects.errors import HespasError, UsageError
from hespas.tools.commands.parser import Parser

if TYPE_CHECKING:
    import argparse

    from hespas.configs.node import Node
    from hespas.estimators.calibrated.fitting.check import Score
    from hespas.estimators.calibrated.fitting.tables import Table

DESCRIPTION = """\
Fit the constants of the estimator `calibrated` to measured kernels, and write a node file with
them. Measurements are CSV files, or what --measure takes of the device at hand; a public table of
many devices needs --device. Classes of kernels that no file has stay as they are in the node.

  hespas calibrate --node H100_80GB --measurements gemm_h100.csv.xz -o mine.json
  hespas calibrate --node H100_80GB --measure xla --save measured.csv -o mine.json
  hespas calibrate --node H100_80GB --measurements gemm_h100.csv.xz --check
"""
EXTRA = "pip install 'hespas[calibrate]'"


def arguments() -> Parser:
    parser = Parser("hespas calibrate", DESCRIPTION)
    add = parser.add_argument
    add("--node", required=True, help="node preset or file: peak rates, bandwidth, and the rest")
    add("--measurements", nargs="+", default=[], metavar="FILE", help="CSV files, .xz or not")
    add("--device", metavar="NAME", help="the device to take from files that have several")
    add("--source", default="", metavar="TEXT", help="where the files are from, for the record")
    add("--measure", metavar="ESTIMATOR", help="run micro-benchmarks by an estimator that measures")
    add("--save", metavar="FILE", help="write what --measure took as CSV")
    add("--list", action="store_true", help="print the micro-benchmarks as CSV, and stop")
    add("--check", action="store_true", help="say how good the node's constants are, fit nothing")
    add("-o", "--output", metavar="FILE.json", help="the node file to write")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    options = arguments().parse_args(argv)

    from hespas import configs
    from hespas.passes.emit.file import check, write_whole

    node = configs.node(options.node)
    if options.list:
        _list(node)
        return 0
    _usage(options)
    for path in (options.output, options.save):
        if path:
            check(path)
    tables = _tables(options, node)
    if options.check:
        _show(node, tables, "every measurement", everything=True)
        return 0
    if not _has_scipy():
        raise UsageError("fitting needs SciPy", remedy=EXTRA)

    from dataclasses import replace

    from hespas.estimators.calibrated.fitting.calibrate import LEAST_POINTS, calibrate, node_text

    made = calibrate(node, tables, datetime.date.today().isoformat())
    for kind, count in made.skipped.items():
        print(f"{kind}: {count} measurements, fewer than {LEAST_POINTS}: left", file=sys.stderr)
    text = node_text(node, made.data, Path(options.output).stem)
    _show(replace(node, calibration=made.data), tables, "shapes held out of the fit")
    write_whole(options.output, text.encode())
    return 0


def _usage(options: argparse.Namespace) -> None:
    if not options.measurements and not options.measure:
        raise UsageError("there is nothing to fit", remedy="give --measurements or --measure")
    if not options.output and not options.check:
        raise UsageError("where should the node go?", remedy="give -o FILE.json")
    if options.save and not options.measure:
        raise UsageError("--save writes what --measure takes", remedy="give --measure ESTIMATOR")
    if options.output and Path(options.output).suffix != ".json":
        raise UsageError(f"a node file ends in .json, not '{options.output}'")


def _tables(options: argparse.Namespace, node: Node) -> list[Table]:
    from hespas.estimators.calibrated.fitting.tables import read

    tables = [read(path, options.device, options.source) for path in options.measurements]
    for table in tables:
        for reason, count in sorted(table.left_out.items()):
            if count:
                print(f"{table.source}: {count} rows left out: {reason}", file=sys.stderr)
    if options.measure:
        tables.append(_measured(options, node))
    if not any(table.measurements for table in tables):
        raise HespasError("there are no measurements of any class that has a model")
    return tables


def _measured(options: argparse.Namespace, node: Node) -> Table:
    """Run the micro-benchmarks on the device at hand."""
    from hespas.estimators import registry
    from hespas.estimators.calibrated.fitting.benchmarks import benchmarks, measure, write
    from hespas.estimators.calibrated.fitting.tables import parse
    from hespas.passes.emit.file import write_whole

    if not registry.get(options.measure).measures:
        raise UsageError(
            f"{options.measure} does not measure", remedy="name an estimator that runs kernels"
        )
    estimator = registry.build(options.measure, node, {})
    said = io.StringIO()
    write(said, measure(benchmarks(node), estimator, _progress))
    if options.save:
        write_whole(options.save, said.getvalue().encode())
    source = options.source or f"{options.measure}, micro-benchmarks of hespas"
    return parse(said.getvalue(), options.save or "measured", source=source)


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\rmeasured {done} of {of} kernels", end="\n" if done == of else "", file=sys.stderr)


def _list(node: Node) -> None:
    from hespas.estimators.calibrated.fitting.benchmarks import benchmarks

    print("kernel,sizes,flops,bytes")
    for one in benchmarks(node):
        print(f"{one.kernel},{'x'.join(map(str, one.sizes))},{one.flops:g},{one.bytes:g}")


def _show(node: Node, tables: Sequence[Table], what: str, *, everything: bool = False) -> None:
    from hespas.estimators.calibrated.constants import Constants
    from hespas.estimators.calibrated.fitting.check import scores
    from hespas.tools.commands import render

    constants = Constants.of(node)
    rows = [one for table in tables for one in table.measurements]
    found = scores(constants, rows, lambda one: True) if everything else scores(constants, rows)
    header = ("class", "kernels", "median", "mean", "p90", "bias", "in 80 % band")
    render.show([render.Table(f"errors of {node.name}, {what}", [_row(s) for s in found], header)])


def _row(score: Score) -> tuple[str, ...]:
    shares = (score.median, score.mean, score.p90)
    band = "-" if score.in_band != score.in_band else f"{100 * score.in_band:.0f} %"
    return (
        score.kind,
        str(score.points),
        *(f"{100 * share:.1f} %" for share in shares),
        f"{100 * score.bias:+.1f} %",
        band,
    )


def _has_scipy() -> bool:
    import importlib.util

    return importlib.util.find_spec("scipy") is not None
