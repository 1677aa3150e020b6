"""``hespas validate`` of a table of training cases, whose programs hespas makes."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from hespas.support.errors import UsageError
from hespas.tools.commands.shared_flags import parse_key_values, read_pool_options

COMMAND = "hespas validate"
CASE_FLAGS = (
    "rows", "form", "set", "all_layers", "work_dir", "csv", "page",
)  # fmt: skip
CELL_FLAGS = ("programs", "start", "baselines")


def check_flags_of_table(options: argparse.Namespace, *, is_case_table: bool) -> None:
    """Raise UsageError for a flag that belongs to the other form of the table."""
    flags = CELL_FLAGS if is_case_table else CASE_FLAGS
    # All flags are off by default but the baselines, which a flag turns off.
    names = [name for name in flags if bool(getattr(options, name)) != (name == "baselines")]
    if names:
        needs = "program files" if is_case_table else "training cases"
        flag = "no-baselines" if names[0] == "baselines" else names[0].replace("_", "-")
        raise UsageError(f"--{flag} needs a table of {needs}, which {options.cells} is not")
    if not is_case_table and not options.programs:
        raise UsageError(
            "--programs is missing", remedy="name the folder with the programs of the table"
        )


def validate_cases(options: argparse.Namespace) -> int:
    """Predict the rows of a table of training cases, and print their errors; the exit code."""
    from hespas.support import text_tables
    from hespas.support.output_file import check_writable_file, write_atomically
    from hespas.tools.model_flags import read_run_options
    from hespas.tools.report.table_page import render_table_page
    from hespas.tools.terminal import print_to_stderr
    from hespas.workflows.plot_files import check_plot_file
    from hespas.workflows.studies.study_output import format_csv
    from hespas.workflows.validation import case_report, case_runner, training_cases
    from hespas.workflows.validation.prediction_scores import draw_validation
    from hespas.workflows.validation.training_cases import FORMS, CaseOptions

    if options.plot:
        check_plot_file(options.plot)
    for path in filter(None, (options.plot, options.markdown, options.csv, options.page)):
        check_writable_file(path)
    ids = [name.strip() for text in options.rows for name in text.split(",") if name.strip()]
    cases = training_cases.select_cases(training_cases.read_training_cases(options.cells), ids)
    case_options = CaseOptions(
        form=options.form or FORMS[0],
        run=read_run_options(options, COMMAND),
        changes=parse_key_values(options.set, "--set"),
        all_layers=options.all_layers,
        **read_pool_options(options),
    )
    estimator = case_options.run.estimator
    outcomes = case_runner.predict_cases(cases, case_options, print_to_stderr)
    tables = case_report.build_case_tables(outcomes, options.at_least)
    if options.csv:
        rows = [case_report.build_case_row(outcome, case_options) for outcome in outcomes]
        write_atomically(options.csv, format_csv(rows).encode())
    if options.markdown:
        write_atomically(options.markdown, text_tables.format_markdown_tables(tables).encode())
    if options.page:
        name = os.path.basename(options.cells)
        subtitle = f"predictions of {text_tables.format_count(len(outcomes), 'training case')}"
        write_atomically(options.page, render_table_page(name, subtitle, tables))
    predictions = [o.prediction for o in outcomes if o.prediction is not None]
    if options.plot and predictions:
        flows = {f"{estimator}, {case_options.form}": predictions}
        draw_validation(options.plot, flows, compares_nodes=False)
    if options.json:
        data = case_report.build_case_json(outcomes, case_options, options.at_least)
        print(json.dumps(data, indent=1))
    else:
        text_tables.print_tables(tables)
    return _check_result(outcomes, estimator, options)


def _check_result(outcomes: Any, estimator: str, options: argparse.Namespace) -> int:
    from hespas.tools.commands.validate import check_error_limits
    from hespas.tools.terminal import print_to_stderr
    from hespas.workflows.validation.prediction_scores import score_predictions

    predictions = [o.prediction for o in outcomes if o.prediction is not None]
    if not predictions:
        print_to_stderr("error: no row can be predicted")
        return 1
    score = score_predictions(predictions, at_least_s=options.at_least)
    return check_error_limits({estimator: score}, options.max_mape, options.max_bias)
