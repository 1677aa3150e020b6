"""``hespas validate``: compare predicted step times with measured ones."""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hespas.support.errors import UsageError
from hespas.support.text_tables import (
    TextTable,
    format_count,
    format_markdown_tables,
    print_tables,
)
from hespas.tools.commands.command_parser import CommandParser, parse_non_negative
from hespas.tools.commands.shared_flags import (
    add_json_flag,
    add_reading_flags,
    read_jobs,
)
from hespas.tools.model_flags import (
    add_model_flags,
    add_run_option_flags,
    read_model_flags,
    read_run_options,
)
from hespas.tools.terminal import print_to_stderr

if TYPE_CHECKING:
    from hespas.workflows.validation.prediction_scores import (
        MachineSpeedUp,
        PredictionScore,
        StepPrediction,
    )

DESCRIPTION = """\
Predict the step times in a CSV file of measured step times, and print the errors: of each cell, the
mean absolute percentage error (MAPE), the bias, the share of pairs in the right order, and the
share of cells inside the 80 % band. Two baselines are scored too: the roofline, and the time
measured on one node, scaled by the ratio of memory bandwidths.

A table of program files has the columns workload, devices, node, system, measured_s, uncertainty_s
and source. The program of a cell is WORKLOAD.mlir or WORKLOAD_N_devices.mlir (optionally .xz or
.gz) in a folder of --programs. If it is optimised for a GPU, its name ends in -opt-cudnn-a100 or
-opt-a100.

  hespas validate measured.csv --programs workloads --max-mape 8

A table of training cases has the columns model, hardware, devices and step_time_s, and any of
layers, hidden, heads, kv_heads, head_dim, ffn, vocab, seq_len, global_batch, per_device_batch,
precision, parallelism, remat, network, xla_flags and framework. hespas makes the program of each
row, compiles it with XLA for its device (no device is needed), and simulates it. Errors are
reported by hardware, devices, precision, framework, model and tier; a row that cannot be predicted
stays in the result with the reason. An interrupted run continues where it stopped.

  hespas validate cases.csv --csv result.csv --jobs 2
"""
COMMAND = "hespas validate"
CASE_FLAGS = ("rows", "form", "changes", "all_layers", "work_dir", "csv", "page")
CELL_FLAGS = ("programs", "start", "baselines")
_STARTS_BY_WORD = {
    "all": ("default", "optimised", "unoptimised"),
    "both": ("optimised", "unoptimised"),
}


def build_parser() -> CommandParser:
    from hespas.workflows.validation.training_cases import CaseOptions

    parser = CommandParser(COMMAND, DESCRIPTION)
    add = parser.add_argument
    add("cells", metavar="CSV", help="table of measured step times")
    add(
        "--programs", action="append", metavar="DIR",
        help="folder with the programs of a table of program files, searched recursively; may be "
        "repeated",
    )  # fmt: skip
    add(
        "--start", choices=("default", "optimised", "unoptimised", "both", "all"),
        help="estimate programs as hespas run does by default, programs optimised by XLA, "
        "unoptimised programs after --fuse, the last two, or all (default)",
    )  # fmt: skip
    add(
        "--at-least",
        type=parse_non_negative,
        default=0.1,
        metavar="S",
        help="score only cells with a measured step time of at least S seconds (default 0.1)",
    )
    add(
        "--max-mape",
        type=parse_non_negative,
        metavar="PERCENT",
        help="exit with 1 if a MAPE is larger",
    )
    add(
        "--max-bias",
        type=parse_non_negative,
        metavar="PERCENT",
        help="exit with 1 if the absolute value of a bias is larger",
    )
    add("--no-baselines", dest="baselines", action="store_false", help="do not score the baselines")
    add(
        "--plot",
        metavar="FILE",
        help="plot predicted against measured times, the error of each workload by each estimator, "
        "and speed-ups between machines, as .png, .svg or .pdf",
    )
    add("--markdown", metavar="FILE", help="write the tables as Markdown")
    add(
        "--csv", metavar="FILE",
        help="write the training cases with predictions, breakdowns and reasons",
    )  # fmt: skip
    add("--page", metavar="FILE", help="write the tables of training cases as one HTML file")
    add(
        "--rows", action="append", default=[], metavar="ID,...",
        help="predict only the training cases with these ids; may be repeated",
    )  # fmt: skip
    add_json_flag(parser)
    add_reading_flags(parser)
    add_model_flags(parser, CaseOptions)
    add_run_option_flags(parser, COMMAND)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    options = build_parser().parse_args(argv)

    from hespas.support.output_file import check_writable_file
    from hespas.workflows.plot_files import check_plot_file
    from hespas.workflows.validation.training_cases import is_case_table

    has_cases = is_case_table(options.cells)
    _check_flags_of_table(options, is_case_table=has_cases)
    if options.plot:
        check_plot_file(options.plot)
    for path in filter(None, (options.plot, options.markdown, options.csv, options.page)):
        check_writable_file(path)
    return _validate_cases(options) if has_cases else _validate_programs(options)


def _check_flags_of_table(options: argparse.Namespace, *, is_case_table: bool) -> None:
    """Raise UsageError for a flag that belongs to the other form of the table."""
    flags = CELL_FLAGS if is_case_table else CASE_FLAGS
    # All flags are off by default but the baselines, which a flag turns off.
    names = [name for name in flags if bool(getattr(options, name)) != (name == "baselines")]
    if names:
        needs = "program files" if is_case_table else "training cases"
        spellings = {"baselines": "no-baselines", "changes": "set"}
        flag = spellings.get(names[0], names[0].replace("_", "-"))
        raise UsageError(f"--{flag} needs a table of {needs}, which {options.cells} is not")
    if not is_case_table and not options.programs:
        raise UsageError(
            "--programs is missing", remedy="name the folder with the programs of the table"
        )


def _validate_programs(options: argparse.Namespace) -> int:
    """Predict the rows of a table of program files, and print their errors; the exit code."""
    from hespas.support.output_file import write_atomically
    from hespas.workflows.validation import prediction_scores
    from hespas.workflows.validation.step_predictions import ValidationRequest, validate_estimator

    request = read_model_flags(
        ValidationRequest,
        options,
        cells=options.cells,
        programs=options.programs,
        options=read_run_options(options, COMMAND),
        starts=_STARTS_BY_WORD.get(options.start or "all", (options.start,)),
        baselines=options.baselines,
        at_least_s=options.at_least,
        jobs=read_jobs(options),
    )
    by_flow, scores = validate_estimator(request, note=print_to_stderr)
    tables = _build_validation_tables(by_flow, scores, options.at_least)
    if options.plot:
        known = {name: by_flow[name] for name in by_flow if by_flow[name]}
        prediction_scores.draw_validation(options.plot, known, compares_nodes=True)
    if options.markdown:
        write_atomically(options.markdown, format_markdown_tables(tables).encode())
    if options.json:
        print(json.dumps(_to_validation_json(by_flow, scores, options.at_least), indent=1))
    else:
        print_tables(tables)
    return _check_error_limits(
        {f.name: scores.get(f.name) for f in request.flows}, options.max_mape, options.max_bias
    )


def _validate_cases(options: argparse.Namespace) -> int:
    """Predict the rows of a table of training cases, and print their errors; the exit code."""
    from hespas.support.output_file import write_atomically
    from hespas.tools.report.table_page import render_table_page
    from hespas.workflows.studies.study_output import format_csv
    from hespas.workflows.validation import case_report, case_runner, training_cases
    from hespas.workflows.validation.prediction_scores import draw_validation, score_predictions
    from hespas.workflows.validation.training_cases import CaseOptions

    ids = [name.strip() for text in options.rows for name in text.split(",") if name.strip()]
    cases = training_cases.select_cases(training_cases.read_training_cases(options.cells), ids)
    run = read_run_options(options, COMMAND)
    case_options = read_model_flags(CaseOptions, options, run=run, jobs=read_jobs(options))
    outcomes = case_runner.predict_cases(cases, case_options, print_to_stderr)
    tables = case_report.build_case_tables(outcomes, options.at_least)
    if options.csv:
        rows = [case_report.build_case_row(outcome) for outcome in outcomes]
        write_atomically(options.csv, format_csv(rows).encode())
    if options.markdown:
        write_atomically(options.markdown, format_markdown_tables(tables).encode())
    if options.page:
        name = os.path.basename(options.cells)
        subtitle = f"predictions of {format_count(len(outcomes), 'training case')}"
        write_atomically(options.page, render_table_page(name, subtitle, tables))
    predictions = [o.prediction for o in outcomes if o.prediction is not None]
    if options.plot and predictions:
        forms = sorted({o.form for o in outcomes if o.prediction is not None})
        flows = {f"{run.estimator}, {' and '.join(forms)}": predictions}
        draw_validation(options.plot, flows, compares_nodes=False)
    if options.json:
        data = case_report.build_case_json(outcomes, case_options, options.at_least)
        print(json.dumps(data, indent=1))
    else:
        print_tables(tables)
    if not predictions:
        print_to_stderr("error: no row can be predicted")
        return 1
    score = score_predictions(predictions, at_least_s=options.at_least)
    return _check_error_limits({run.estimator: score}, options.max_mape, options.max_bias)


def _build_validation_tables(
    by_flow: dict[str, list[StepPrediction]], scores: dict[str, PredictionScore], at_least_s: float
) -> list[TextTable]:
    from hespas.workflows.validation.prediction_scores import SCORE_TITLES, list_speed_ups

    header = ("workload", "devices", "node", "measured", "predicted", "band", "error", "in band")
    tables = [
        TextTable(name, [_format_prediction_row(p) for p in flow_result], header, left=3)
        for name, flow_result in by_flow.items()
        if flow_result
    ]
    speed_ups = list_speed_ups(by_flow)
    if speed_ups:
        flows = [name for name in by_flow if any(name in one.predicted for one in speed_ups)]
        lines = [_format_speed_up_row(one, flows) for one in speed_ups]
        names = ("workload", "devices", "node", "over", "measured", *flows)
        tables.append(TextTable("speed-up between machines", lines, names, left=4))
    rows = [(name, *score.format_figures()) for name, score in scores.items()]
    shown = ("flow", "cells", *SCORE_TITLES)
    tables.append(TextTable(f"cells of {1e3 * at_least_s:g} ms and more", rows, shown))
    return tables


def _format_prediction_row(prediction: StepPrediction) -> tuple[str, ...]:
    band = "-"
    if prediction.low_s is not None and prediction.high_s is not None:
        band = f"{1e3 * prediction.low_s:.1f} to {1e3 * prediction.high_s:.1f} ms"
    inside = {True: "yes", False: "no", None: "-"}[prediction.is_inside_band]
    measured = (
        f"{1e3 * prediction.cell.measured_s:.1f} ± {1e3 * prediction.cell.uncertainty_s:.1f} ms"
    )
    return (
        prediction.cell.workload,
        str(prediction.cell.devices),
        prediction.cell.node,
        measured,
        f"{1e3 * prediction.step_s:.1f} ms",
        band,
        f"{100 * prediction.relative_error:+.1f} %",
        inside,
    )


def _format_speed_up_row(speed_up: MachineSpeedUp, flows: Sequence[str]) -> tuple[str, ...]:
    predicted = (speed_up.predicted.get(flow) for flow in flows)
    return (
        speed_up.workload,
        str(speed_up.devices),
        speed_up.node,
        speed_up.reference,
        f"{speed_up.measured:.2f} ± {speed_up.uncertainty:.2f} x",
        *("-" if value is None else f"{value:.2f} x" for value in predicted),
    )


def _to_validation_json(
    by_flow: dict[str, list[StepPrediction]], scores: dict[str, PredictionScore], at_least_s: float
) -> dict[str, Any]:
    """Convert to the object that ``--json`` prints."""
    from hespas.workflows.validation.prediction_scores import list_speed_ups

    return {
        "at_least_s": at_least_s,
        "flows": {
            name: {
                "score": asdict(scores[name]) if name in scores else None,
                "cells": [_to_prediction_json(prediction) for prediction in predictions],
            }
            for name, predictions in by_flow.items()
        },
        "speed_ups": [asdict(one) for one in list_speed_ups(by_flow)],
    }


def _to_prediction_json(prediction: StepPrediction) -> dict[str, Any]:
    return {
        **asdict(prediction.cell),
        "predicted_s": prediction.step_s,
        "low_s": prediction.low_s,
        "high_s": prediction.high_s,
        "compute_s": _replace_nan(prediction.compute_s),
        "exposed_comm_s": _replace_nan(prediction.exposed_s),
        "error": prediction.relative_error,
        "inside": prediction.is_inside_band,
        "program": prediction.program,
    }


def _replace_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def _check_error_limits(
    scores: dict[str, PredictionScore | None], max_mape: float | None, max_bias: float | None
) -> int:
    """Report each flow that exceeds a limit in percent, or has no scored cell; 1 if any does."""

    code = 0
    for name, score in scores.items():
        limits = (
            ("MAPE", max_mape, "{:.1f}", None if score is None else 100 * score.mape),
            ("bias", max_bias, "{:+.1f}", None if score is None else 100 * score.bias),
        )
        for title, limit, number, value in limits:
            if limit is None or (value is not None and abs(value) <= limit):
                continue
            problem = "no cell is scored" if value is None else f"{title} {number.format(value)} %"
            print_to_stderr(f"error: {name}: {problem}, the limit is {limit:g} %")
            code = 1
    return code
