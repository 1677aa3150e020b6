"""``hespas measure``: commands that run compiled code, and what their results are used for."""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import io
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hespas.support.errors import HespasError, UsageError
from hespas.support.text_tables import (
    TextTable,
    format_percent,
    format_scaled,
    format_seconds,
    print_tables,
)
from hespas.tools.commands.command_parser import CommandParser, parse_count, parse_positive
from hespas.tools.commands.shared_flags import (
    add_cache_flag,
    add_json_flag,
    add_key_value_flag,
    add_reading_flags,
)

if TYPE_CHECKING:
    from hespas.configs.node_spec import NodeSpec
    from hespas.workflows.calibration.measurement_tables import MeasurementTable
    from hespas.workflows.calibration.node_calibration import FitScore
    from hespas.workflows.reference.program_comparison import ProgramComparison

DESCRIPTION = """\
Manage the cache of measurements, measure a whole program, fit the constants of a node to
measurements, print XLA:TPU's cycles, export regions for Accel-Sim, and tell which simulators are
usable here.
"""
CACHE_DESCRIPTION = """\
List the cache of measurements, or clear it.

  hespas measure cache
  hespas measure cache clear --estimator xla
"""
REFERENCE_DESCRIPTION = """\
Compile and run a whole program on the local device, alternating with its regions one by one, to see
how well the sum of the regions approximates the whole. The program must be for one device: each
collective is replaced by a local op with a result of the same shape, which is also measured alone.

  hespas measure reference step.mlir --split linear
"""
SPLITS = {  # the pipeline of each value of --split
    "linear": "split-linear",
    "individual": "split-individual",
    "individual-merge": "split-individual{merge=true}",
}
CALIBRATE_DESCRIPTION = """\
Fit the constants of the estimator `calibrated` to measured kernels, and write a node file with
them. The measurements are CSV files, or are taken on the local device with --measure. A public
table with several devices needs --device. Classes of kernels without measurements keep the
constants of the node.

  hespas measure calibrate --node H100_80GB --measurements gemm_h100.csv.xz -o mine.json
  hespas measure calibrate --node H100_80GB --measure xla --save measured.csv -o mine.json
  hespas measure calibrate --node H100_80GB --measurements gemm_h100.csv.xz --check
"""
CYCLES_DESCRIPTION = """\
Print the cycles that XLA:TPU estimates for products, as CSV; no TPU is needed. The products are
those of the micro-benchmarks whose time the matrix units bound. It takes 5 to 20 minutes, and a row
is printed when its product is compiled.

  hespas measure cycles TPUv5e > cycles.csv
"""
ACCELSIM_DESCRIPTION = """\
Write each distinct region of a program as a module and as PTX, with IREE's compiler. Accel-Sim
simulates traces, not PTX: on a GPU, run each DIGEST.vmfb with iree-run-module under NVBit's tracer,
pass the traces to accel-sim.out, and save its output as REPORTS/DIGEST.log. Then

  hespas measure accelsim step.mlir --output regions
  hespas run --mlir step.mlir --split linear --estimator accelsim --setting reports=REPORTS
"""
REGION_FILES = re.compile(r"[0-9a-f]{16}\.(mlir|vmfb|\d+\.ptx)|regions\.json")
DOCTOR_DESCRIPTION = """\
List the extras of hespas, which pip installs, and the simulators and compilers of others that it
can use: how each is installed, the version that it was tested with, and whether it is usable here.
The exit code is 0 whatever is missing.

  hespas measure doctor
"""


def build_parser() -> CommandParser:
    parser = CommandParser("hespas measure", DESCRIPTION)
    _add_cache_command(parser)
    _add_reference_command(parser)
    _add_calibrate_command(parser)
    _add_cycles_command(parser)
    _add_accelsim_command(parser)
    _add_doctor_command(parser)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    return build_parser().run_command(argv)


def _add_cache_command(parser: CommandParser) -> None:
    """Add ``cache`` to the parser of ``hespas measure``."""
    command = parser.add_command(
        "cache", "list or clear the cache of measurements", _show_cache, CACHE_DESCRIPTION
    )
    add = command.add_argument
    add(
        "action", nargs="?", choices=("list", "clear"), default="list",
        help="list the cached results (default), or remove them",
    )  # fmt: skip
    add_cache_flag(command, "measurements", allows_none=False)
    add(
        "--estimator", metavar="NAME", default="",
        help="clear only the results of this estimator",
    )  # fmt: skip
    add_json_flag(command)


def _show_cache(options: argparse.Namespace) -> int:
    from hespas.estimators.measure.measurement_cache import MeasurementCache, locate_default_file

    file = options.cache or str(locate_default_file())
    if not Path(file).expanduser().exists():
        raise HespasError("the cache does not exist: nothing has been measured", where=file)
    with MeasurementCache(file) as cache:
        if options.action == "clear":
            removed = cache.remove_outcomes(options.estimator)
            print(json.dumps({"file": file, "removed": removed}) if options.json else
                  f"{file}: {removed} results removed")  # fmt: skip
            return 0
        size_bytes, groups = cache.measure_size_bytes(), cache.count_grouped_outcomes()
    keys = ("estimator", "version", "device", "results", "failures")
    if options.json:
        group_objects = [dict(zip(keys, row, strict=True)) for row in groups]
        print(json.dumps({"file": file, "bytes": size_bytes, "groups": group_objects}, indent=1))
        return 0

    print(f"{file}: {format_scaled(size_bytes, 'B')}")
    if groups:
        print_tables([TextTable("", [tuple(map(str, row)) for row in groups], keys, left=3)])
    return 0


def _add_reference_command(parser: CommandParser) -> None:
    """Add ``reference`` to the parser of ``hespas measure``."""
    command = parser.add_command(
        "reference",
        "run a whole program on the local device, and compare it with the sum of its regions",
        _measure_reference,
        REFERENCE_DESCRIPTION,
    )
    _add_program_options(command)
    add = command.add_argument
    add(
        "--estimator", default="xla", metavar="NAME",
        help="measuring estimator: xla (default), iree, ...",
    )  # fmt: skip
    add_key_value_flag(command, "--setting", "setting of the estimator")
    add(
        "--rounds", type=parse_count, default=3, help="number of rounds of measurements (default 3)"
    )
    add(
        "--timeout", type=parse_positive, default=600.0, metavar="S",
        help="limit for the measurement of one program, in seconds",
    )  # fmt: skip
    add_json_flag(command)
    add_reading_flags(command)


def _add_program_options(command: CommandParser) -> None:
    """Add the options for a program and its split, for commands that work on regions."""
    add = command.add_argument
    add("mlir", metavar="FILE", help="program in any format that hespas reads; - for stdin")
    add("--split", choices=SPLITS, default="linear", help="how to split into regions")


def _measure_reference(options: argparse.Namespace) -> int:
    from hespas import frontends
    from hespas.dialects.mlir import make_context
    from hespas.passes.base import PassRun, print_note
    from hespas.workflows.reference.program_comparison import compare_with_regions

    run = PassRun(input_name=frontends.to_display_name(options.mlir), note=print_note)
    comparison = compare_with_regions(
        frontends.read_module(options.mlir, make_context()),
        options.estimator,
        options.setting,
        SPLITS[options.split],
        run,
        rounds=options.rounds,
        timeout_s=options.timeout,
    )
    if options.json:
        print(json.dumps({"program": run.input_name, **comparison.to_json()}, indent=1))
    else:
        print_tables(_build_reference_tables(run.input_name, comparison))
    return 0


def _build_reference_tables(program: str, comparison: ProgramComparison) -> list[TextTable]:
    values = comparison.to_json()
    rounds = [
        (
            str(number),
            format_seconds(measured_round.whole_s),
            format_percent(measured_round.whole["mad_s"] / measured_round.whole_s),
            format_seconds(measured_round.regions_s),
            format_seconds(measured_round.stand_ins_s),
            f"{measured_round.ratio:.3f}",
            f"{measured_round.whole['host_load']:.1f}",
        )
        for number, measured_round in enumerate(comparison.rounds, 1)
    ]
    low, high = values["ratio_range"]
    versions = ", ".join(f"{name} {version}" for name, version in comparison.versions.items())
    return [
        TextTable(
            "",
            [
                ("program", program),
                ("device", f"{comparison.device}; {versions}"),
                ("regions", f"{comparison.regions}, of which {comparison.distinct} differ"),
                ("collectives", f"{comparison.collectives}, each replaced by a local operation")
                if comparison.collectives
                else ("collectives", "none"),
                ("whole", format_seconds(values["whole_s"])),
                ("sum of the parts", format_seconds(values["regions_s"] + values["stand_ins_s"])),
                ("ratio", f"{values['ratio']:.3f}, from {low:.3f} to {high:.3f} by round"),
                ("least disturbed", f"{comparison.least_ratio:.3f}"),
            ],
            left=2,
        ),
        TextTable(
            "",
            rounds,
            ("round", "whole", "deviation", "regions", "stand-ins", "ratio", "host load"),
        ),
    ]


def _add_calibrate_command(parser: CommandParser) -> None:
    """Add ``calibrate`` to the parser of ``hespas measure``."""
    command = parser.add_command(
        "calibrate", "fit the kernel constants of a node to measurements, or check them",
        _calibrate_node, CALIBRATE_DESCRIPTION,
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

    from hespas.workflows.calibration.node_calibration import calibrate_node, render_node_file

    fitted = calibrate_node(node, tables, datetime.date.today().isoformat())
    for kind, reason in fitted.skipped.items():
        print(f"note: {kind} is not fitted: {reason}", file=sys.stderr)
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
    from hespas.workflows.calibration.node_calibration import score_measurements

    constants = DeviceConstants.from_node(node)
    rows = [measurement for table in tables for measurement in table.measurements]
    fit_scores = (
        score_measurements(constants, rows, lambda measurement: True)
        if everything
        else score_measurements(constants, rows)
    )
    header = ("class", "kernels", "median", "mean", "p90", "bias", "in 80 % band")
    print_tables(
        [
            TextTable(
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


def _add_cycles_command(parser: CommandParser) -> None:
    """Add ``cycles`` to the parser of ``hespas measure``."""
    command = parser.add_command(
        "cycles",
        "print the cycles that XLA:TPU estimates for products",
        _print_cycles,
        CYCLES_DESCRIPTION,
    )
    command.add_argument("target", metavar="TARGET", help="TPU compile target, such as TPUv5e")


def _print_cycles(options: argparse.Namespace) -> int:
    from hespas.workflows.calibration.micro_benchmarks import write_cycle_table

    write_cycle_table(options.target, sys.stdout)
    return 0


def _add_accelsim_command(parser: CommandParser) -> None:
    """Add ``accelsim`` to the parser of ``hespas measure``."""
    command = parser.add_command(
        "accelsim", "write the regions of a program as PTX for Accel-Sim", _export_regions,
        ACCELSIM_DESCRIPTION,
    )  # fmt: skip
    _add_program_options(command)
    add = command.add_argument
    add("--output", metavar="DIR", required=True, help="folder to write the regions to")
    add("--target", default="sm_80", help="target of IREE, sm_60 to sm_89 (default sm_80)")
    add_json_flag(command)
    add_reading_flags(command)


def _export_regions(options: argparse.Namespace) -> int:
    from hespas import frontends
    from hespas.dialects.mlir import make_context
    from hespas.estimators.accelerators.accelsim_export import export_regions
    from hespas.passes import pipeline
    from hespas.passes.annotate.measured_items import collect_items
    from hespas.passes.base import PassRun, print_note
    from hespas.support.folder_manifest import OutputSet
    from hespas.support.output_folder import check_writable_folder, open_output_folder

    output_set = OutputSet("regions", REGION_FILES)
    check_writable_folder(options.output, output_set)
    run = PassRun(input_name=frontends.to_display_name(options.mlir), note=print_note)
    module = frontends.read_module(options.mlir, make_context())
    pipeline.run_pipeline(module, SPLITS[options.split], run)
    with open_output_folder(Path(options.output), output_set) as folder:
        regions = list(export_regions(collect_items(module), folder, options.target))
        data = {"target": options.target, "regions": [asdict(region) for region in regions]}
        (folder / "regions.json").write_text(json.dumps(data, indent=1) + "\n")
    if options.json:
        print(json.dumps(data, indent=1))
    else:
        rows = [(region.digest, str(region.count), str(region.kernels)) for region in regions]
        header = ("region", "times", "kernels")
        print_tables([TextTable("", rows, header)])
    for region in regions:
        if region.problem:
            print(f"warning: {region.digest}: {region.problem}", file=sys.stderr)
    return 1 if regions and all(region.problem for region in regions) else 0


def _add_doctor_command(parser: CommandParser) -> None:
    """Add ``doctor`` to the parser of ``hespas measure``."""
    command = parser.add_command(
        "doctor",
        "list which extras and simulators are usable here",
        _show_states,
        DOCTOR_DESCRIPTION,
    )
    add_json_flag(command)


def _show_states(options: argparse.Namespace) -> int:
    from hespas.support.installed_extras import examine_extras
    from hespas.workflows.simulator_doctor import examine_simulators

    states, extras = examine_simulators(), examine_extras()
    if options.json:
        rows: list[dict[str, Any]] = [
            {**asdict(state), "usable": state.is_usable} for state in states
        ]
        rows += [
            {"name": f"hespas[{extra.name}]", "source": "pip", "problem": extra.problem,
             "remedy": extra.remedy, "usable": not extra.problem}
            for extra in extras
        ]  # fmt: skip
        print(json.dumps(rows, indent=1))
        return 0
    installed = [
        [extra.name, "no" if extra.problem else "yes", _join(extra.problem, extra.remedy)]
        for extra in extras
    ]
    header = ("simulator", "by", "tested with", "usable", "found, or what is missing")
    shown = [
        [
            state.name,
            state.source,
            state.tested_version or "-",
            "yes" if state.is_usable else "no",
            state.identity or _join(state.problem, state.remedy),
        ]
        for state in states
    ]
    print_tables(
        [
            TextTable("Extras, by pip", installed, ("extra", "usable", "what is missing"), left=3),
            TextTable("Simulators and compilers of others", shown, header, left=5),
        ]
    )
    return 0


def _join(problem: str, remedy: str) -> str:
    return "; ".join(filter(None, (problem, remedy)))
