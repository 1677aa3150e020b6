"""``hespas calibrate``: a node preset whose kernel constants are fitted to measurements."""

from __future__ import annotations

import datetime
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hespas.support.errors import HespasError, UsageError
from hespas.tools.commands.command_parser import CommandParser

if TYPE_CHECKING:
    import argparse

    from hespas.configs.node_spec import NodeSpec
    from hespas.workflows.calibration.fit_scores import FitScore
    from hespas.workflows.calibration.measurement_tables import MeasurementTable

DESCRIPTION = """\
Fit the constants of the estimator `calibrated` to measured kernels, and write a node file with
them. Measurements are CSV files, or what --measure takes of the device at hand; a public table of
many devices needs --device. Classes of kernels that no file has stay as they are in the node.

  hespas calibrate --node H100_80GB --measurements gemm_h100.csv.xz -o mine.json
  hespas calibrate --node H100_80GB --measure xla --save measured.csv -o mine.json
  hespas calibrate --node H100_80GB --measurements gemm_h100.csv.xz --check
"""
EXTRA = "pip install 'hespas[calibrate]'"


def build_parser() -> CommandParser:
    parser = CommandParser("hespas calibrate", DESCRIPTION)
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
    options = build_parser().parse_args(argv)

    from hespas import configs
    from hespas.support.output_file import check_writable_file, write_atomically

    node = configs.load_node(options.node)
    if options.list:
        _print_benchmarks(node)
        return 0
    _check_command_line(options)
    for path in (options.output, options.save):
        if path:
            check_writable_file(path)
    tables = _load_measurement_tables(options, node)
    if options.check:
        _print_fit_scores(node, tables, "every measurement", everything=True)
        return 0
    if not _has_scipy():
        raise UsageError("fitting needs SciPy", remedy=EXTRA)

    from dataclasses import replace

    from hespas.workflows.calibration.node_calibration import (
        LEAST_POINTS,
        calibrate_node,
        render_node_file,
    )

    fitted = calibrate_node(node, tables, datetime.date.today().isoformat())
    for kind, count in fitted.skipped.items():
        print(f"{kind}: {count} measurements, fewer than {LEAST_POINTS}: left", file=sys.stderr)
    text = render_node_file(node, fitted.data, Path(options.output).stem)
    _print_fit_scores(replace(node, calibration=fitted.data), tables, "shapes held out of the fit")
    write_atomically(options.output, text.encode())
    return 0


def _check_command_line(options: argparse.Namespace) -> None:
    if not options.measurements and not options.measure:
        raise UsageError("there is nothing to fit", remedy="give --measurements or --measure")
    if not options.output and not options.check:
        raise UsageError("where should the node go?", remedy="give -o FILE.json")
    if options.save and not options.measure:
        raise UsageError("--save writes what --measure takes", remedy="give --measure ESTIMATOR")
    if options.output and Path(options.output).suffix != ".json":
        raise UsageError(f"a node file ends in .json, not '{options.output}'")


def _load_measurement_tables(options: argparse.Namespace, node: NodeSpec) -> list[MeasurementTable]:
    from hespas.workflows.calibration.measurement_tables import read_measurements

    tables = [
        read_measurements(path, options.device, options.source) for path in options.measurements
    ]
    for table in tables:
        for reason, count in sorted(table.left_out.items()):
            if count:
                print(f"{table.source}: {count} rows left out: {reason}", file=sys.stderr)
    if options.measure:
        tables.append(_measure_benchmarks(options, node))
    if not any(table.measurements for table in tables):
        raise HespasError("there are no measurements of any class that has a model")
    return tables


def _measure_benchmarks(options: argparse.Namespace, node: NodeSpec) -> MeasurementTable:
    """Run the micro-benchmarks on the device at hand."""
    from hespas.estimators import registry
    from hespas.support.output_file import write_atomically
    from hespas.workflows.calibration.measurement_tables import parse_measurements
    from hespas.workflows.calibration.micro_benchmarks import (
        list_benchmarks,
        measure_benchmarks,
        write_measurements,
    )

    if not registry.load_estimator_class(options.measure).measures:
        raise UsageError(
            f"{options.measure} does not measure", remedy="name an estimator that runs kernels"
        )
    estimator = registry.build_estimator(options.measure, node, {})
    csv_buffer = io.StringIO()
    write_measurements(
        csv_buffer, measure_benchmarks(list_benchmarks(node), estimator, _print_progress)
    )
    if options.save:
        write_atomically(options.save, csv_buffer.getvalue().encode())
    source = options.source or f"{options.measure}, micro-benchmarks of hespas"
    return parse_measurements(csv_buffer.getvalue(), options.save or "measured", source=source)


def _print_progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(
            f"\rmeasured {done} of {total} kernels",
            end="\n" if done == total else "",
            file=sys.stderr,
        )


def _print_benchmarks(node: NodeSpec) -> None:
    from hespas.workflows.calibration.micro_benchmarks import list_benchmarks

    print("kernel,sizes,flops,bytes")
    for benchmark in list_benchmarks(node):
        print(
            f"{benchmark.kernel},{'x'.join(map(str, benchmark.sizes))},{benchmark.flops:g},{benchmark.bytes:g}"
        )


def _print_fit_scores(
    node: NodeSpec, tables: Sequence[MeasurementTable], scope: str, *, everything: bool = False
) -> None:
    from hespas.estimators.calibrated.device_constants import DeviceConstants
    from hespas.support import text_tables
    from hespas.workflows.calibration.fit_scores import score_measurements

    constants = DeviceConstants.from_node(node)
    rows = [measurement for table in tables for measurement in table.measurements]
    fit_scores = (
        score_measurements(constants, rows, lambda measurement: True)
        if everything
        else score_measurements(constants, rows)
    )
    header = ("class", "kernels", "median", "mean", "p90", "bias", "in 80 % band")
    text_tables.print_tables(
        [
            text_tables.TextTable(
                f"errors of {node.name}, {scope}",
                [_format_score_row(s) for s in fit_scores],
                header,
            )
        ]
    )


def _format_score_row(score: FitScore) -> tuple[str, ...]:
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
