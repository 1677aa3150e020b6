"""``hespas_chakra_gen CONFIG``: write the traces of a program, like the published tool."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hespas.support.errors import UsageError
from hespas.support.text_tables import format_scaled
from hespas.tools import console_scripts
from hespas.tools.commands.command_parser import CommandParser
from hespas.tools.published import log_options
from hespas.tools.terminal import show_progress

if TYPE_CHECKING:
    from hespas.dialects.mlir import ir
    from hespas.estimators.measure.measurement_run import MeasureStatistics
    from hespas.tools.published.published_config import PublishedConfigFile
    from hespas.workflows.run_summary import RunSummary

_SHOWN_OPS = 3  # of a region that is measured as a whole
_ROUNDING = 1e-9  # of the compute time

DESCRIPTION = """\
Estimate a program and write its Chakra traces. CONFIG contains mlir_file, output_dir, the split and
the constants of the device; flags override it. Paths are relative to the current folder. hespas run
does the same with presets, a network, and a more detailed summary.
"""


def build_parser() -> CommandParser:
    parser = CommandParser("hespas_chakra_gen", DESCRIPTION)
    add = parser.add_argument
    add("config", help="configuration file (JSON)")
    add("--clean", action="store_true", default=None, help="remove the outputs of earlier runs")
    add("--mlir_file", help="program in any format that hespas reads")
    add(
        "--num_npus",
        type=int,
        help="number of devices: that of the program, or any for a program of one device",
    )
    add("--split_fn", dest="split_strategy", help="linear_split (default) or individual_split")
    add("--block_lim", type=int, help="most ops in a block of linear_split (default 1024)")
    add("--merge", action="store_true", default=None, help="merge blocks of individual_split")
    add("--no-merge", dest="no_merge", action="store_true", help="do not merge blocks")
    add("--output", dest="output_dir", help="output folder")
    add(
        "--threads",
        dest="num_threads",
        type=int,
        help="accepted without effect: splitting uses one thread",
    )
    log_options.add_log_options(parser)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the tool; returns its exit code, raises HespasError."""
    options = build_parser().parse_args(argv)
    if options.merge and options.no_merge:
        raise UsageError("--merge does not go with --no-merge")

    from hespas.tools.published import published_config

    keys = ("clean", "mlir_file", "split_strategy", "block_lim", "output_dir", "num_threads")
    overrides = {key: getattr(options, key) for key in keys}
    overrides["merge"] = False if options.no_merge else options.merge
    config_file = published_config.read_published_config(options.config, overrides)
    if options.num_npus is not None:
        config_file = replace(config_file, num_npus=options.num_npus)
    published_config.require_config_value(
        config_file.config, "output_dir", "or give --output", config_file.path
    )
    start = time.perf_counter()
    summary, module = run_config_file(config_file, options)
    print("\n".join(format_results(summary, module)))
    print(f"Done. Output directory: {summary.emitted.folder}")
    print(f"Took {time.perf_counter() - start:.3f}s")
    return 0


def run_config_file(
    config_file: PublishedConfigFile, options: argparse.Namespace
) -> tuple[RunSummary, ir.Module]:
    """Run a configuration, and log its notes as the options of the log say.

    Returns:
        The results, and the annotated program.

    Raises:
        HespasError: The program cannot be read or estimated, or a preset does not exist.
    """
    from hespas.tools.published import published_config
    from hespas.workflows import run_flow

    plan = replace(published_config.build_published_plan(config_file), network=None)
    with log_options.open_log(options) as note:
        for text in config_file.notes:
            note(f"note: {text}")
        with show_progress(quiet=options.log_level in log_options.QUIET) as progress:
            run = run_flow.create_pass_run(plan, note, progress)
            run.spell_option = _spell_run_flag
            outcome = run_flow.execute_plan(plan, run)
        return run_flow.summarise_run(plan, outcome), outcome.module


def _spell_run_flag(name: str, value: str) -> str:
    """Spell an option that only ``hespas run`` has, which reads the same configuration."""
    from hespas.passes.base import spell_as_flag

    return f"{spell_as_flag(name, value)} to hespas run CONFIG"


def format_results(summary: RunSummary, module: ir.Module) -> list[str]:
    """Format the result lines of the published tool."""
    totals, reuse = summary.stats["totals"], summary.stats["reuse"]
    hits = reuse["regions"] - reuse["distinct_regions"]
    seconds = summary.time_ns * 1e-9 or 1.0
    moved_bytes = totals["read_bytes"] + totals["write_bytes"]
    lines = [
        f"Cache hits: {hits}",
        f"Basic block reuse rate: {_format_share(hits, reuse['regions'])}",
        "Operator reuse factor: "
        f"{_format_share(reuse['ops'] - reuse['distinct_ops'], reuse['ops'])}",
        *_format_estimator_time(summary.measured),
        *_format_utilisation("FLOPS/s", summary.figures["flops_utilisation"]),
        *_format_utilisation("Memory bandwidth", summary.figures["bandwidth_utilisation"]),
        f"Average FLOPS/s: {format_scaled(totals['flops'] / seconds, 'FLOPS/s')}",
        f"Average Memory Bandwidth: {format_scaled(moved_bytes / seconds, 'B/s')}",
    ]
    if totals["energy_nj"] is not None:
        lines.append(f"Total energy: {format_scaled(totals['energy_nj'] * 1e-9, 'J')}")
    lines.append(f"Compute Runtime Estimation: {summary.time_ns / 1e3:.3f} us")
    shares = _list_op_shares(summary, module)
    if shares:
        lines.append("Op time proportions:")
        width = max(len(name) for name, _ in shares) + 4
        lines += [f"    {f'{name}:':<{width}}{ns / summary.time_ns:.3f}" for name, ns in shares]
    return lines


def _format_estimator_time(measured: MeasureStatistics | None) -> list[str]:
    """Format the duration of measurements, and what it would be without reuse; or no line."""
    if measured is None or not measured.uncached_s:
        return []
    saved = 1 - measured.elapsed_s / measured.uncached_s
    return [
        f"Total estimator time taken vs cached time: {measured.elapsed_s:.3f} s vs total time "
        f"(without caching): {measured.uncached_s:.3f} s ({100 * saved:.3f} % reduction)"
    ]


def _list_op_shares(summary: RunSummary, module: ir.Module) -> list[tuple[str, float]]:
    """List (ops, nanoseconds) of a program, longest first.

    A region that is measured as a whole has the names of its ops, most frequent first.
    """
    from hespas.dialects.mlir import collect_functions
    from hespas.passes.annotate.cost_walk import is_estimated_whole

    shares = Counter(dict(summary.list_time_shares("op")))
    functions = collect_functions(module)
    for row in summary.stats["regions"]:
        function = functions.get(row["name"])
        if function is not None and is_estimated_whole(function):
            time_ns = row["runs"] * row["time_ns"]
            shares["func.call"] -= time_ns
            shares[_name_ops(module, function)] += time_ns
    return [(name, ns) for name, ns in shares.most_common() if ns > _ROUNDING * summary.time_ns]


def _name_ops(module: ir.Module, function: ir.Operation) -> str:
    """Name the ops of a function, most frequent first, such as ``stablehlo.add, 3 more``."""
    from hespas.dialects.op_kinds import FREE_OPS, TERMINATORS
    from hespas.passes.emit.op_stats import count_program_ops

    census = count_program_ops(module, function=function)
    kinds = [name for name, _ in census.iterate_rows() if name not in TERMINATORS]
    names = [name for name in kinds if name not in FREE_OPS] or kinds
    rest = [f"{len(names) - _SHOWN_OPS} more"] if len(names) > _SHOWN_OPS else []
    return ", ".join([*names[:_SHOWN_OPS], *rest])


def _format_utilisation(label: str, share: float | None) -> list[str]:
    """Format a utilisation; no line if the peak is unknown."""
    return [] if share is None else [f"{label} utilisation: {share:.3f}"]


def _format_share(part: int, total: int) -> str:
    return f"{part / total if total else 0.0:.3f} ({part}/{total})"


def script() -> None:
    console_scripts.script(main)


if __name__ == "__main__":
    script()
