"""``hespas sweep``: run the combinations of several options, and write one table."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hespas.support.errors import HespasError, UsageError
from hespas.support.text_tables import print_tables
from hespas.tools.commands.command_parser import CommandParser
from hespas.tools.commands.shared_flags import (
    add_json_flag,
    add_keep_going_flag,
    add_reading_flags,
    read_jobs,
    split_value_lists,
)
from hespas.tools.terminal import print_to_stderr

if TYPE_CHECKING:
    from hespas.workflows.sweep.sweep_summary import SweepQuestions

DESCRIPTION = """\
Run all combinations of programs, nodes, systems, splits, estimators and other options of hespas run
in parallel, and write one table of the results. FILE is YAML or JSON: a key with one value is the
same in every cell, a key with a list is an axis of the grid. Flags replace the keys of the file.
Results of cells are cached, so repeating an interrupted command continues it.

  hespas sweep --mlir steps/*.mlir --node A100_SXM_40GB H100_80GB --system '*_4GPU' \\
    --estimator roofline --set node.memory_bandwidth_bytes_per_s=1.5e12,2e12 --output cells.csv
"""
AXES = ("mlir", "node", "system", "split", "estimator")


def build_parser() -> CommandParser:
    from hespas.tools.model_flags import add_model_flags
    from hespas.workflows.run_config import PoolOptions

    parser = CommandParser("hespas sweep", DESCRIPTION)
    add = parser.add_argument
    add(
        "file", nargs="?", metavar="FILE",
        help="definition of the sweep: YAML, or JSON (.json); or the name of a shipped one: gemm, "
        "resnet, llama, scale-out",
    )  # fmt: skip
    add(
        "--mlir", nargs="+", action="extend", metavar="PROGRAM",
        help="programs, or patterns of them; "
        "{NAME} in a pattern matches a number, and becomes a column",
    )  # fmt: skip
    add("--node", nargs="+", action="extend", help="node presets, patterns of them, or files")
    add(
        "--system", nargs="+", action="extend",
        help="system presets, patterns of them, or folders; a pattern selects the systems with the "
        "number of devices of the program",
    )  # fmt: skip
    add("--split", nargs="+", action="extend", help="linear, individual or individual-merge")
    add("--estimator", nargs="+", action="extend", help="names of estimators")
    add(
        "--set", nargs="+", action="extend", metavar="KEY=VALUE[,VALUE...]", dest="values",
        help="values of another option of hespas run, of node.KEY, or of setting.KEY; "
        "range(A,B,STEP) stands for whole numbers from A to below B",
    )  # fmt: skip
    add("--output", metavar="FILE", help="table to write: .csv, .json or .parquet")
    add_model_flags(parser, PoolOptions)
    add_keep_going_flag(parser)
    add(
        "--columns", metavar="NAME[,NAME...]",
        help="print these columns (names or patterns) for every cell",
    )  # fmt: skip
    add(
        "--front", metavar="FIGURE[,FIGURE...]",
        help="print the cells that no other cell beats in one of these columns without losing in "
        "another; less is better, of FIGURE:max more",
    )  # fmt: skip
    add("--effects", metavar="FIGURE", help="print the effect of each axis on this column")
    add("--plot", metavar="FILE", help="draw a picture: .png, .svg or .pdf")
    add(
        "--plot-kind", choices=("front", "heat-map", "parallel"),
        help="the front over the first two figures of --front (default if it has two), a heat map "
        "of two axes (default if there are two), or parallel coordinates",
    )  # fmt: skip
    add(
        "--plot-axes", metavar="KEY[,KEY...]",
        help="the axes of the picture (default: all that differ); the first figure of --front is "
        "the colour",
    )  # fmt: skip
    add_json_flag(parser, "print the rows as JSON instead of tables")
    add_reading_flags(parser)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    command_line = build_parser().parse_args(argv)
    if not command_line.file and not command_line.mlir:
        raise UsageError("no program is given", remedy="name it with --mlir, or in a file")

    from hespas.tools.model_flags import read_model_flags
    from hespas.workflows.plot_files import check_plot_file
    from hespas.workflows.run_config import PoolOptions
    from hespas.workflows.sweep import sweep_runner, sweep_summary, sweep_table

    if command_line.output:
        sweep_table.check_table_file(command_line.output)
    if command_line.plot:
        check_plot_file(command_line.plot)
    cells, questions = _read_sweep(command_line)
    options = read_model_flags(PoolOptions, command_line, jobs=read_jobs(command_line))
    sweep_outcome = sweep_runner.run_sweep(cells, options, print_to_stderr)
    if command_line.output:
        sweep_table.write_table(
            command_line.output, sweep_outcome.rows, {"hespas sweep": json.dumps(list(argv))}
        )
    if command_line.json:
        sys.stdout.write(sweep_table.format_as_json(sweep_outcome.rows))
    elif command_line.columns:
        names = command_line.columns.split(",")
        print_tables(
            [
                sweep_summary.select_columns(sweep_outcome.rows, names),
                *sweep_summary.make_answer_tables(sweep_outcome.rows, questions),
            ]
        )
    else:
        print_tables(
            sweep_summary.make_summary_tables(sweep_outcome, command_line.output, questions)
        )
    if command_line.plot:
        _write_plot(command_line, sweep_outcome.rows, questions)
    if sweep_outcome.failed:
        print_to_stderr(f"{sweep_outcome.failed} of {len(sweep_outcome.rows)} cells have an error")
    if sweep_outcome.lost:
        print_to_stderr(sweep_outcome.lost)
        return 1
    return 1 if sweep_outcome.failed and not command_line.keep_going else 0


def _write_plot(command_line: Any, rows: Sequence[Any], questions: SweepQuestions) -> None:
    """Draw the picture that the flags ask for."""
    from hespas.workflows.plot_files import save_figure
    from hespas.workflows.sweep import sweep_plots, sweep_summary
    from hespas.workflows.sweep.sweep_analysis import Objective

    good = sweep_summary.select_successful_rows(rows)
    axes = (
        [f"cell.{key}" for key in command_line.plot_axes.split(",")]
        if command_line.plot_axes
        else sweep_summary.find_varied_keys(good, questions.derived)
    )
    objectives = questions.objectives or (Objective("step_time_s"),)
    kind = command_line.plot_kind or sweep_plots.choose_plot_kind(axes, objectives)
    allowed = sweep_summary.select_allowed_rows(rows, questions.limits)
    figure = sweep_plots.draw_sweep(good, allowed, kind, axes, objectives)
    save_figure(figure, command_line.plot)


def _read_sweep(command_line: Any) -> tuple[list[dict[str, Any]], SweepQuestions]:
    """Expand the file and the flags to cells; an error names the file if there is one."""
    from hespas.configs.simple_yaml import parse_scalar
    from hespas.workflows.sweep import sweep_grid
    from hespas.workflows.sweep.sweep_analysis import Objective
    from hespas.workflows.sweep.sweep_summary import SweepQuestions

    flags = {name: value for name in AXES if (value := getattr(command_line, name)) is not None}
    for key, values in split_value_lists("--set", command_line.values or []).items():
        flags[key] = [parse_scalar(value) for value in values]
    file = sweep_grid.read_sweep_file(command_line.file) if command_line.file else {}
    try:
        figures = command_line.front.split(",") if command_line.front else []
        questions = SweepQuestions(
            tuple(sweep_grid.read_expressions(file, sweep_grid.LIMITS)),
            tuple(Objective.parse(figure) for figure in figures),
            command_line.effects or "",
            sweep_grid.find_derived_keys(file),
            file.get(sweep_grid.SAMPLE) is not None,
        )
        return sweep_grid.expand_cells(sweep_grid.merge_flags(file, flags)), questions
    except UsageError:
        raise
    except HespasError as error:
        if not command_line.file:
            raise UsageError(error.message, where=error.where, remedy=error.remedy) from None
        error.where = error.where or command_line.file
        raise
