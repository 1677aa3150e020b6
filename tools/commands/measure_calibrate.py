"""``hespas measure calibrate``: fit the constants of a node to measured kernels."""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hespas.support.errors import HespasError, UsageError
from hespas.tools.commands.command_parser import CommandParser
from hespas.tools.commands.shared_flags import add_reading_flags

if TYPE_CHECKING:
    from hespas.configs.node_spec import NodeSpec
    from hespas.workflows.calibration.measurement_tables import MeasurementTable
    from hespas.workflows.calibration.node_calibration import FitScore

DESCRIPTION = """\
Fit the constants of the estimator `calibrated` to measured kernels, and write a node file with
them. The measurements are CSV files, or are taken on the local device with --measure. A public
table with several devices needs --device. Classes of kernels without measurements keep the
constants of the node.

  hespas measure calibrate --node H100_80GB --measurements gemm_h100.csv.xz -o mine.json
  hespas measure calibrate --node H100_80GB --measure xla --save measured.csv -o mine.json
  hespas measure calibrate --node H100_80GB --measurements gemm_h100.csv.xz --check
"""


def add_calibrate_command(parser: CommandParser) -> None:
    """Add ``calibrate`` to the parser of ``hespas measure``."""
    command = parser.add_command(
        "calibrate", "fit the kernel constants of a node to measurements, or check them",
        _calibrate_node, DESCRIPTION,
    )  # fmt: skip
    add = command.add_argument
    add(
        "--node", required=True,
        help="node preset or file that supplies the peak rates and all other constants",
    )  # fmt: skip
    add(
        "--measurements", nargs="+", default=[], metavar="FILE",
        help="CSV files with measurements, optionally compressed (.xz)",
    )  # fmt: skip
    add("--device", metavar="NAME", help="device to select from files with several devices")
    add("--source", default="", metavar="TEXT", help="source of the measurements, for the record")
    add(
        "--measure", metavar="ESTIMATOR",
        help="run the micro-benchmarks with this measuring estimator",
    )  # fmt: skip
    add("--save", metavar="FILE", help="write the measurements of --measure as CSV")
    add("--list", action="store_true", help="print the micro-benchmarks as CSV and exit")
    add(
        "--check", action="store_true",
        help="print the errors of the node's constants without fitting any",
    )  # fmt: skip
    add("-o", "--output", metavar="FILE.json", help="node file to write")
    add_reading_flags(command)


def _calibrate_node(options: argparse.Namespace) -> int:
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
        _print_fit_scores(node, tables, "all measurements", everything=True)
        return 0
    if importlib.util.find_spec("scipy") is None:
        raise UsageError("fitting needs SciPy", remedy="pip install 'hespas[calibrate]'")

    from dataclasses import replace

    from hespas.workflows.calibration.node_calibration import (
        LEAST_POINTS,
        calibrate_node,
        render_node_file,
    )

    fitted = calibrate_node(node, tables, datetime.date.today().isoformat())
    for kind, count in fitted.skipped.items():
        print(
            f"note: {kind} has {count} measurements, fewer than {LEAST_POINTS}: not fitted",
            file=sys.stderr,
        )
    text = render_node_file(node, fitted.data, Path(options.output).stem)
    _print_fit_scores(replace(node, calibration=fitted.data), tables, "shapes held out of the fit")
    write_atomically(options.output, text.encode())
    return 0


def _check_command_line(options: argparse.Namespace) -> None:
    if not options.measurements and not options.measure:
        raise UsageError("there are no measurements", remedy="give --measurements or --measure")
    if not options.output and not options.check:
        raise UsageError("the output file is missing", remedy="name it with -o FILE.json")
    if options.save and not options.measure:
        raise UsageError("--save needs measurements to write", remedy="add --measure ESTIMATOR")
    if options.output and Path(options.output).suffix != ".json":
        raise UsageError(f"the name of a node file must end in .json: '{options.output}'")


def _load_measurement_tables(options: argparse.Namespace, node: NodeSpec) -> list[MeasurementTable]:
    from hespas.workflows.calibration.measurement_tables import read_measurements

    tables = [
        read_measurements(path, options.device, options.source) for path in options.measurements
    ]
    for table in tables:
        for reason, count in sorted(table.left_out.items()):
            if count:
                print(f"note: {table.source}: {count} rows left out: {reason}", file=sys.stderr)
    if options.measure:
        tables.append(_measure_benchmarks(options, node))
    if not any(table.measurements for table in tables):
        raise HespasError("no measurement is of a class of kernels that has a model")
    return tables


def _measure_benchmarks(options: argparse.Namespace, node: NodeSpec) -> MeasurementTable:
    """Run the micro-benchmarks on the local device."""
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
            f"{options.measure} is not a measuring estimator", remedy="name one, such as xla"
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
            f"{benchmark.kernel},{'x'.join(map(str, benchmark.sizes))},{benchmark.flops:g},"
            f"{benchmark.bytes:g}"
        )


def _print_fit_scores(
    node: NodeSpec, tables: Sequence[MeasurementTable], scope: str, *, everything: bool = False
) -> None:
    from hespas.estimators.calibrated.device_constants import DeviceConstants
    from hespas.support import text_tables
    from hespas.workflows.calibration.node_calibration import score_measurements

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
