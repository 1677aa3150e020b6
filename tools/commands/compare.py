"""``hespas compare``: one program on several nodes, several programs, or results, side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hespas.tools.commands.command_parser import CommandParser

if TYPE_CHECKING:
    from hespas.support.text_tables import TextTable
    from hespas.workflows.run_comparison import ComparedResult

DESCRIPTION = """\
Put results side by side, normalised to the first: a program on several nodes, several programs (of
other device counts, say), output folders of hespas run, or the cells of a table of hespas sweep. A
system of --systems goes with each program, or, of one program, with each node; a single one goes
with all, and {node} in its name stands for the node's.

  hespas compare step.mlir --nodes A100_SXM_80GB,H100_80GB --systems '{node}_4GPU' --plot nodes.png
  hespas compare fsdp8.mlir fsdp32.mlir --nodes H100_80GB --systems small,large
"""
NAMES = ("program", "node", "system", "split", "estimator", "devices")  # what a result is of
SHARES = {  # figures of a run
    "exposed_share": "share", "flops_utilisation": "of peak", "derived.mfu": "MFU",
    "derived.hfu": "HFU",
}  # fmt: skip
AMOUNTS = {  # figures of a run, and their units
    "derived.tokens_per_s": ("tokens/s", ""), "derived.samples_per_s": ("samples/s", ""),
    "derived.energy_j": ("energy", "J"), "memory.peak_bytes": ("memory", "B"),
}  # fmt: skip


def build_parser() -> CommandParser:
    parser = CommandParser("hespas compare", DESCRIPTION)
    add = parser.add_argument
    add("sources", nargs="+", metavar="SOURCE", help="program, configuration (.json) or result")
    add("--nodes", metavar="A,B,...", help="node presets or files")
    add("--systems", metavar="A,B,...", help="system presets or folders: the networks")
    add(
        "--work", choices=("auto", "flops", "strong", "weak"), default="auto",
        help="how much programs of other device counts do, for the scaling efficiency: as their "
        "tokens or samples say, else their operations (default); as their operations say; all the "
        "same; or each device the same",
    )  # fmt: skip
    add("--plot", metavar="FILE", help="bars of the times, as .png, .svg or .pdf")
    add("--json", action="store_true", help="print one JSON object instead of a table")

    from hespas.tools.commands.run import FILE_OPTIONS
    from hespas.tools.model_flags import add_model_flags
    from hespas.workflows.run_config import RunConfig

    add_model_flags(parser, RunConfig, exclude=(*FILE_OPTIONS, "node", "system"))
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    options = vars(build_parser().parse_args(argv))
    sources, work, plot = (options.pop(key) for key in ("sources", "work", "plot"))
    wants_json = options.pop("json")
    nodes, systems = (_split_names(options.pop(key)) for key in ("nodes", "systems"))

    from hespas.support import text_tables
    from hespas.support.output_file import check_writable_file
    from hespas.tools.commands.run import build_plan_from_flags
    from hespas.tools.model_flags import collect_set_flags
    from hespas.tools.report import report_plots
    from hespas.tools.terminal import print_to_stderr, show_progress
    from hespas.workflows.run_comparison import ComparisonRequest, compare_sources

    if plot:
        report_plots.check_plot_file(plot)
        check_writable_file(plot)
    request = ComparisonRequest(sources, nodes, systems, collect_set_flags(options), work)
    with show_progress() as progress:
        compared_results = compare_sources(
            request, note=print_to_stderr, progress=progress, plan_builder=build_plan_from_flags
        )
    if plot:
        report_plots.write_comparison_plot(plot, compared_results, _label_results(compared_results))
    if wants_json:
        print(json.dumps(_to_comparison_json(compared_results), indent=1))
    else:
        text_tables.print_tables([_build_comparison_table(compared_results)])
    return 0


def _split_names(text: str | None) -> list[str]:
    return [part for part in (text or "").split(",") if part]


def _label_results(compared_results: Sequence[ComparedResult]) -> list[str]:
    """What tells the results apart, of program, node, system, split and estimator."""
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
    """What is the same in all is the title, what none has is left out."""
    from hespas.support.text_tables import (
        TextTable,
        format_percent,
        format_scaled,
        format_seconds,
    )

    figures = [compared.result.figures for compared in compared_results]
    names = {
        key: [_get_label_value(compared, key) for compared in compared_results] for key in NAMES
    }
    names = {key: column for key, column in names.items() if any(column)}
    same = [f"{key} {column[0]}" for key, column in names.items() if len({*column}) == 1]
    columns: dict[str, list[str | None]] = {
        key: [*column] for key, column in names.items() if len({*column}) > 1
    }
    left = sum(key != "devices" for key in columns)
    measure_name = "compute" if compared_results[0].measure == "compute_s" else "step"
    columns[measure_name] = [format_seconds(compared.time_s) for compared in compared_results]
    columns["80 % band"] = [
        " to ".join(map(format_seconds, compared.band_s)) if compared.band_s else None
        for compared in compared_results
    ]
    columns["of first"] = [
        _format_optional(compared.relative_time, lambda ratio: f"{ratio:.3f}")
        for compared in compared_results
    ]
    columns["speed-up"] = [
        _format_optional(compared.speed_up, lambda ratio: f"{ratio:.2f} x")
        for compared in compared_results
    ]
    if measure_name == "step":
        columns["compute"] = [format_seconds(figure["compute_s"]) for figure in figures]
        columns["exposed"] = [
            _format_optional(figure.get("exposed_comm_s"), format_seconds) for figure in figures
        ]
    for key, title in SHARES.items():
        columns[title] = [
            _format_optional(compared.result.get_figure(key), format_percent)
            for compared in compared_results
        ]
    for key, (title, unit) in AMOUNTS.items():
        values = [compared.result.get_figure(key) for compared in compared_results]
        columns[title] = [
            _format_optional(value, lambda v, u=unit: format_scaled(v, u).strip())
            for value in values
        ]
    costs = [compared.result.get_figure("derived.cost_usd") for compared in compared_results]
    columns["cost"] = [_format_optional(cost, lambda usd: f"{usd:.4g} USD") for cost in costs]
    gaps = [figure.get("gaps") or None for figure in figures]
    columns["gaps"] = [_format_optional(count, str) for count in gaps]
    columns["efficiency"] = [
        _format_optional(compared.efficiency, format_percent) for compared in compared_results
    ]
    shown = {key: column for key, column in columns.items() if any(column)}
    rows = [tuple(text or "-" for text in row) for row in zip(*shown.values(), strict=True)]
    return TextTable("; ".join(same) or "Compared", rows, tuple(shown), left=left)


def _format_optional(value: Any, spelled: Callable[[Any], str]) -> str | None:
    return None if value is None else spelled(value)


def _to_comparison_json(compared_results: Sequence[ComparedResult]) -> dict[str, Any]:
    """The object that ``--json`` prints: docs/how-to/compare.md."""
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
            for label, compared in zip(
                _label_results(compared_results), compared_results, strict=True
            )
        ],
    }
