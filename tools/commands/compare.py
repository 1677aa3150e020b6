"""``hespas compare``: put results side by side, or show what changed between two."""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hespas.support.errors import UsageError
from hespas.support.text_tables import (
    TextTable,
    format_markdown_tables,
    format_percent,
    print_tables,
)
from hespas.tools.commands.command_parser import CommandParser
from hespas.tools.commands.shared_flags import (
    add_depth_flag,
    add_json_flag,
    add_reading_flags,
    add_top_flag,
)
from hespas.tools.terminal import print_to_stderr, show_progress

if TYPE_CHECKING:
    from hespas.workflows.figures import Figure
    from hespas.workflows.gate.budget_check import BudgetLimits, BudgetViolation, GrowthLimit
    from hespas.workflows.run_comparison import ComparedResult, ComparisonRequest
    from hespas.workflows.run_results import RunResult

    CellFormatter = Callable[[ComparedResult], str | None]

DESCRIPTION = """\
Put results side by side, relative to the first one. A SOURCE is an output folder of hespas run, a
table of hespas sweep (each cell is a result), or a configuration (.json) or program, which is run
in a temporary folder with the options given here. An annotated program keeps its annotation.

With --changes, show what changed from the first to the second of two results: the step, the compute
time by kind of kernel, kernel and layer, the collectives, and the settings of both.

Several --nodes run each program on each node. --systems names one system for all programs, or one
for each program; for a single program, one for each node. {node} in a system's name stands for the
name of the node.

  hespas compare step.mlir --nodes A100_SXM_80GB,H100_80GB --systems '{node}_4GPU' --plot nodes.png
  hespas compare fsdp8.mlir fsdp32.mlir --nodes H100_80GB --systems small,large
  hespas compare before after --changes --fail-above 3%
"""
NETWORK_MODEL = "network_model"
NAMES = ("program", "node", "system", "split", "estimator", "devices")  # settings of a result


def build_parser() -> CommandParser:
    from hespas.tools.commands.run import FILE_OPTIONS
    from hespas.tools.model_flags import add_model_flags
    from hespas.workflows.run_config import RunConfig

    parser = CommandParser("hespas compare", DESCRIPTION)
    add = parser.add_argument
    add(
        "sources", nargs="+", metavar="SOURCE",
        help="result folder, table of a sweep, configuration (.json) or program",
    )  # fmt: skip
    add("--nodes", metavar="A,B,...", help="node presets or files to run programs on")
    add("--systems", metavar="A,B,...", help="system presets or folders to simulate programs on")
    add(
        "--work", choices=("auto", "flops", "strong", "weak"), default="auto",
        help="work of a step for the scaling efficiency of programs with different numbers of "
        "devices: flops: its operations; strong: the same for all programs; weak: the same for "
        "each device; auto (default): its tokens or samples if they are known, else flops",
    )  # fmt: skip
    add("--plot", metavar="FILE", help="write a bar chart of the times as .png, .svg or .pdf")
    add_json_flag(parser)
    add(
        "--markdown", metavar="FILE",
        help="write the tables as Markdown too, below what exceeds its limit",
    )  # fmt: skip
    add_reading_flags(parser)
    _add_limit_flags(parser)
    changes = parser.add_argument_group("changes between two results")
    changes.add_argument(
        "--changes", action="store_true", help="show what changed from the first to the second"
    )
    add_top_flag(changes, "largest changes in each table", default=10)
    add_depth_flag(changes)
    title = "options of the runs, as for hespas run"
    add_model_flags(parser, RunConfig, exclude=(*FILE_OPTIONS, "node", "system"), title=title)
    return parser


def _add_limit_flags(parser: CommandParser) -> None:
    """Add the limits, which take the names of the fields of ``BudgetLimits``."""
    limits = parser.add_argument_group(
        "limits: exit with 1 if a result is worse than the first by more, and say why"
    )
    limits.add_argument(
        "--fail-above", dest="step", type=functools.partial(_parse_limit, allows_band=True),
        metavar="LIMIT",
        help="limit of the step: a percentage such as 3%%; 3%%+band: it takes longer by more than "
        "this with a probability of 90 %%, by the band of the difference; band: 0%%+band",
    )  # fmt: skip
    limits.add_argument(
        "--fail-memory-above", dest="memory", type=_parse_limit, metavar="PERCENT",
        help="limit of the peak memory of a device",
    )  # fmt: skip
    limits.add_argument(
        "--fail-exposed-above", dest="exposed", type=_parse_limit, metavar="PERCENT",
        help="limit of the growth of the exposed communication, as a share of the first step",
    )  # fmt: skip


def _parse_limit(text: str, *, allows_band: bool = False) -> GrowthLimit:
    from hespas.workflows.gate.budget_check import parse_growth_limit

    try:
        return parse_growth_limit(text, allows_band=allows_band)
    except UsageError as error:
        raise argparse.ArgumentTypeError(error.message) from None


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    options = vars(build_parser().parse_args(argv))
    keys = ("sources", "work", "plot", "json", "markdown", "changes", "top", "depth")
    sources, work, plot, wants_json, markdown, changes, top, depth = map(options.pop, keys)
    limit_values = {key: options.pop(key) for key in ("step", "memory", "exposed")}
    nodes, systems = (_split_names(options.pop(key)) for key in ("nodes", "systems"))

    from hespas.support.output_file import check_writable_file, write_atomically
    from hespas.tools.commands.run import build_plan_from_flags
    from hespas.tools.model_flags import collect_set_flags
    from hespas.tools.report import report_plots
    from hespas.workflows import run_differences
    from hespas.workflows.gate.budget_check import BudgetLimits
    from hespas.workflows.run_comparison import ComparisonRequest, compare_results, open_results
    from hespas.workflows.run_differences import find_run_differences

    if plot:
        report_plots.check_plot_file(plot)
    for path in filter(None, (plot, markdown)):
        check_writable_file(path)
    limits = BudgetLimits(**limit_values)
    request = ComparisonRequest(sources, nodes, systems, collect_set_flags(options), work)
    if changes:
        _check_two_results(request)
    with (
        show_progress() as progress,
        open_results(
            request, note=print_to_stderr, progress=progress, plan_builder=build_plan_from_flags
        ) as results,
    ):
        compared_results = compare_results(results, work)
        is_pair = len(results) == 2 and all(result.has_module for result in results)
        difference = None
        if changes or is_pair:
            difference = find_run_differences(results[0], results[1], depth)
        labels = _label_results(compared_results)
        violations = _find_violations(results, labels, limits, depth)
    if plot:
        report_plots.write_comparison_plot(plot, compared_results, labels)
    names = sources if len({*sources}) == 2 else labels
    if changes and difference is not None:
        tables = run_differences.build_changes_tables(difference, names, top)
    else:
        tables = [_build_comparison_table(compared_results)]
        if difference is not None:
            tables += run_differences.build_disagreement_tables(difference)
    if markdown:
        text = _format_markdown_report(tables, violations, limits)
        write_atomically(markdown, text.encode())
    if wants_json:
        data = (
            _to_comparison_json(compared_results, labels)
            if not changes or difference is None
            else run_differences.to_changes_json(difference, names)
        )
        print(json.dumps({**data, "violations": _to_violations_json(violations)}, indent=1))
    else:
        print_tables(tables)
    for label, violation in violations:
        print_to_stderr(f"error: {label}: {violation.text}")
    return 1 if violations else 0


def _check_two_results(request: ComparisonRequest) -> None:
    """Raise an error, before anything is run, if there are more than two results."""
    from hespas.workflows.run_results import reject_sweep_table

    for source in request.sources:
        reject_sweep_table(source)
    count = len(request.sources) * max(1, len(request.nodes))
    if count > 2:
        raise UsageError(f"--changes compares two results, and there are {count}")


def _find_violations(
    results: Sequence[RunResult], labels: Sequence[str], limits: BudgetLimits, depth: int
) -> list[tuple[str, BudgetViolation]]:
    """Find what exceeds the limits in each result but the first, with the result's label."""
    from hespas.workflows.gate.budget_check import BudgetLimits, find_violations
    from hespas.workflows.gate.step_comparison import StepComparison, profile_result

    if limits == BudgetLimits():
        return []
    first, *others = (profile_result(result, depth) for result in results)
    return [
        (label, violation)
        for profile, label in zip(others, labels[1:], strict=True)
        for violation in find_violations(StepComparison(first, profile), limits)
    ]


def _to_violations_json(
    violations: Sequence[tuple[str, BudgetViolation]],
) -> list[Mapping[str, Any]]:
    return [
        {
            "label": label,
            "figure": violation.figure,
            "growth": None if violation.growth == float("inf") else violation.growth,
            "text": violation.text,
        }
        for label, violation in violations
    ]


def _format_markdown_report(
    tables: Sequence[TextTable],
    violations: Sequence[tuple[str, BudgetViolation]],
    limits: BudgetLimits,
) -> str:
    """Return what exceeds its limit as a list in Markdown, and the tables below it."""
    from hespas.workflows.gate.budget_check import BudgetLimits

    lines = [f"- **{label}**: {violation.text}" for label, violation in violations]
    if not lines and limits != BudgetLimits():
        lines = ["Nothing exceeds its limit."]
    return "\n".join([*lines, "", ""] if lines else []) + format_markdown_tables(tables)


def _split_names(text: str | None) -> list[str]:
    return [part for part in (text or "").split(",") if part]


def _label_results(compared_results: Sequence[ComparedResult]) -> list[str]:
    """Label each result with the settings that differ between the results."""
    keys = [
        key
        for key in NAMES
        if len({_get_label_value(compared, key) for compared in compared_results}) > 1
    ]
    keys = [key for key in keys if key != "devices" and not (key == "system" and "node" in keys)]
    names = [
        " ".join(_get_label_value(compared, key) for key in keys) for compared in compared_results
    ]
    if len(set(names)) == len(names):
        return names
    numbered = enumerate(zip(names, compared_results, strict=True), start=1)
    return [f"{name or compared.result.program_name} ({i})" for i, (name, compared) in numbered]


def _get_label_value(compared: ComparedResult, key: str) -> str:
    value = compared.result.program_name if key == "program" else compared.result.get_figure(key)
    return "" if value is None else str(value)


def _build_comparison_table(compared_results: Sequence[ComparedResult]) -> TextTable:
    """Build the table: equal settings are in its title, and columns without values are left out."""

    settings = {
        key: [_get_label_value(compared, key) for compared in compared_results] for key in NAMES
    }
    settings = {key: column for key, column in settings.items() if any(column)}
    models = [_get_label_value(compared, NETWORK_MODEL) for compared in compared_results]
    if len({*models}) > 1:
        settings[NETWORK_MODEL.replace("_", " ")] = models
    equal = [f"{key} {column[0]}" for key, column in settings.items() if len({*column}) == 1]
    columns: dict[str, list[str | None]] = {
        key: [*column] for key, column in settings.items() if len({*column}) > 1
    }
    left = sum(key != "devices" for key in columns)
    # Utilisations are shares of the peak of a type, which is said if the types differ.
    peaks = {compared.result.get_figure("derived.peak_dtype") for compared in compared_results}
    measure = compared_results[0].measure
    for title, format_cell in _list_figure_columns(measure, names_peak=len(peaks - {None}) > 1):
        columns[title] = [format_cell(compared) for compared in compared_results]
    columns = {title: column for title, column in columns.items() if any(column)}
    rows = [tuple(text or "-" for text in row) for row in zip(*columns.values(), strict=True)]
    return TextTable("; ".join(equal) or "Compared", rows, tuple(columns), left=left)


def _list_figure_columns(measure: str, *, names_peak: bool) -> Iterator[tuple[str, CellFormatter]]:
    """Yield the title of each column of figures, and the function that formats its cells."""
    from hespas.workflows.figures import BY_NAME, format_band, list_figures

    def format_figure(figure: Figure) -> CellFormatter:
        def format_cell(compared: ComparedResult) -> str | None:
            value = compared.result.get_figure(figure.name)
            is_absent = value is None or (figure.unit == "count" and not value)
            return None if is_absent else figure.format_cell(value)

        return format_cell

    time = BY_NAME[measure]
    yield time.column_title, lambda compared: time.format(compared.time_s)
    yield "80 % band", lambda compared: _format_optional(compared.band_s, format_band)
    yield "of first", lambda compared: _format_optional(compared.relative_time, "{:.3f}".format)
    yield "speed-up", lambda compared: _format_optional(compared.speed_up, "{:.2f} x".format)
    if measure == "step_time_s":
        yield BY_NAME["compute_s"].column_title, format_figure(BY_NAME["compute_s"])
    for figure in list_figures("compare"):
        yield figure.column_title, format_figure(figure)
        if figure.name == "derived.hfu" and names_peak:
            yield "peak of", lambda compared: compared.result.get_figure("derived.peak_dtype")
    yield "efficiency", lambda compared: _format_optional(compared.efficiency, format_percent)


def _format_optional(value: Any, format_value: Callable[[Any], str]) -> str | None:
    return None if value is None else format_value(value)


def _to_comparison_json(
    compared_results: Sequence[ComparedResult], labels: Sequence[str]
) -> dict[str, Any]:
    """Convert to the object that ``--json`` prints, see docs/how-to/compare.md."""
    return {
        "measure": compared_results[0].measure,
        "results": [
            {
                "label": label,
                "time_s": compared.time_s,
                "relative_time": compared.relative_time,
                "speed_up": compared.speed_up,
                "efficiency": compared.efficiency,
                "run": compared.result.figures,
            }
            for label, compared in zip(labels, compared_results, strict=True)
        ],
    }
