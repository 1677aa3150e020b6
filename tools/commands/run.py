"""``hespas run``: the whole flow in one line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hespas.support.errors import HespasError, UsageError
from hespas.tools.commands.command_parser import CommandParser

if TYPE_CHECKING:
    from hespas.dialects.mlir import ir
    from hespas.workflows.run_config import RunConfig
    from hespas.workflows.run_flow import NoteFunction, RunPlan
    from hespas.workflows.run_summary import RunSummary

DESCRIPTION = """\
Estimate a program: read it, split it at its collectives, annotate costs, write Chakra traces,
simulate them on the network of --system, and print a summary on stdout. CONFIG is a JSON file with
the same keys as the flags (mlir, node, system, split, block_limit, fuse, estimator, setting,
output, keep_going, jobs, dask, cache, timeout, memory_limit, simulate, simulator, congestion,
curves, slowdown, by_dimension, astra_sim, timeline, memory, model_flops, tokens_per_step,
samples_per_step, price_per_hour), or a configuration of the published tools; flags override it.
Paths are relative to where you are.

  hespas run --mlir step.mlir --node A100_SXM_40GB --system A100_SXM_40GB_4GPU --output out
"""


def build_parser() -> CommandParser:
    parser = CommandParser("hespas run", DESCRIPTION)
    add = parser.add_argument
    add("config", nargs="?", help="configuration file (JSON)")
    add("--mlir", metavar="FILE", help="the program, in any form that hespas reads; - for stdin")
    add("--node", help="node preset or file; hespas nodes lists the presets")
    add("--system", help="system preset or folder: the network; hespas systems lists the presets")
    add("--output", metavar="DIR", help="folder for the traces; default: named after the program")
    add(
        "--no-simulate", dest="simulate", action="store_false", default=None,
        help="write the traces only, also with --system",
    )  # fmt: skip
    add("--timeline", metavar="FILE", help="write a timeline for https://ui.perfetto.dev")
    add("--json", action="store_true", help="print one JSON object instead of tables")
    add_run_options(parser)
    return parser


def add_run_options(parser: CommandParser) -> None:
    """The flags of how a program is estimated and simulated, for commands that do it."""
    add = parser.add_argument
    add("--split", help="linear (default with calibrated), individual or individual-merge")
    add("--block-limit", type=int, metavar="N", help="most ops in a region; 0: no limit (default)")
    add(
        "--fuse", action="store_true", default=None,
        help="group ops into kernels as XLA would: for programs that XLA has not optimised",
    )  # fmt: skip
    add(
        "--estimator", metavar="NAME",
        help="what estimates the regions: calibrated (default), roofline, ... (see docs)",
    )  # fmt: skip
    add(
        "--setting", action="append", metavar="KEY=VALUE",
        help="a setting of the estimator; may be given several times",
    )  # fmt: skip
    add("--simulator", help="auto (default), embedded, astra-sim or both: see hespas simulate")
    add("--congestion", action="store_true", default=None, help="messages share links")
    add(
        "--curves", metavar="DEVICE",
        help="collectives take what was measured on this device; none: the network's model; "
        "default: the node's own for estimators of real times (calibrated), else none",
    )  # fmt: skip
    add(
        "--slowdown", type=float, metavar="X",
        help="compute takes longer by this share beside communication; default: as with --curves",
    )  # fmt: skip
    add(
        "--by-dimension", action=argparse.BooleanOptionalAction, default=None,
        help="collectives between some devices go dimension by dimension, and messages pay for "
        "all dimensions that they cross; default: for estimators of real times (calibrated)",
    )  # fmt: skip
    add("--astra-sim", metavar="PATH", help="the ASTRA-sim program, where it is not on PATH")
    add(
        "--keep-going", action="store_true", default=None,
        help="tag and count what no rule can cost, instead of stopping",
    )  # fmt: skip
    add(
        "--no-memory", dest="memory", action="store_false", default=None,
        help="do not find the memory that the program takes",
    )  # fmt: skip
    figures = parser.add_argument_group("a step, of all devices; else as the exporter wrote")
    add = figures.add_argument
    add("--model-flops", type=float, metavar="N", help="operations of the model, nothing twice")
    add("--tokens-per-step", type=float, metavar="N", help="for tokens per second")
    add("--samples-per-step", type=float, metavar="N", help="for samples per second")
    add("--price-per-hour", type=float, metavar="USD", help="of one device; default: the node's")
    measuring = parser.add_argument_group("estimators that measure")
    add = measuring.add_argument
    add("--jobs", type=int, metavar="N", help="worker processes; default: 1")
    add(
        "--dask",
        metavar="ADDRESS",
        help="measure on the workers of a Dask cluster, tcp://host:port",
    )
    add("--cache", metavar="FILE", help="where results are kept; none: nowhere; see hespas cache")
    add("--timeout", type=float, metavar="S", help="seconds for one region; default: 600")
    add("--memory-limit", type=float, metavar="GB", help="memory of one worker; default: no limit")


def select_set_flags(options: dict[str, Any]) -> dict[str, Any]:
    """What was given of the parsed flags, settings by key; raises UsageError."""
    flags = {name: value for name, value in options.items() if value is not None}
    if "setting" in flags:
        flags["setting"] = parse_settings(flags["setting"])
    return flags


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    options = vars(build_parser().parse_args(argv))
    path, wants_json = options.pop("config"), options.pop("json")
    flags = select_set_flags(options)

    from hespas.support import text_tables
    from hespas.workflows import run_flow, run_summary

    with run_flow.show_progress() as before:
        finished_run = run_and_write_result(
            build_plan_from_flags(path, flags), run_flow.print_to_stderr, before
        )
    if wants_json:
        print(json.dumps(run_summary.to_summary_json(finished_run), indent=1))
    else:
        text_tables.print_tables(run_summary.build_summary_tables(finished_run))
    return 0


def run_and_write_result(
    plan: RunPlan,
    note: NoteFunction,
    before: Callable[[str], None],
    module: ir.Module | None = None,
) -> RunSummary:
    """Run a plan, and leave its result in the output folder; raises HespasError.

    ``module`` is the program, where it has been read.
    """
    from hespas.workflows import run_flow, run_results, run_summary, simulation_report

    progress = before if sys.stderr.isatty() else None
    outcome = run_flow.execute_plan(plan, note, before=before, progress=progress, module=module)
    simulated = run_flow.simulate_traces(plan, outcome, note, before=before)
    finished_run = run_flow.summarise_run(plan, outcome, simulated)
    folder = finished_run.emitted.folder
    details = None
    if simulated is not None and plan.system is not None:
        details = simulation_report.to_simulation_json(
            simulated, traces=str(folder), system=plan.system.name
        )
    run_results.write_run_result(
        folder, outcome.module, run_summary.to_summary_json(finished_run), details
    )
    return finished_run


def build_plan_from_flags(path: str | None, flags: dict[str, Any]) -> RunPlan:
    """The plan that a configuration file, in either form, and the flags make.

    Raises HespasError.
    """
    from hespas.configs.validation import validate_config
    from hespas.tools import published_config
    from hespas.workflows import run_config, run_flow

    flag_config = _validate_flags(flags)
    values = run_config.load_json_object(path) if path else {}
    if path and published_config.is_published_config(values):
        return _build_published_plan(values, path, flag_config)
    if "setting" in flags and isinstance(values.get("setting"), dict):
        flags = {**flags, "setting": {**values["setting"], **flags["setting"]}}
    checked_config = validate_config(
        run_config.RunConfig, {**values, **flags}, path or "hespas run"
    )
    if checked_config.mlir is None:
        remedy = "name it with --mlir FILE"
        raise UsageError("no program is given", where=path or "", remedy=remedy)
    return run_flow.add_requested_figures(run_flow.build_run_plan(checked_config), checked_config)


def parse_settings(setting_texts: Sequence[str]) -> dict[str, str]:
    """``key=value`` each; of one that is given twice the last. Raises UsageError."""
    settings = {}
    for item in setting_texts:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise UsageError(f"--setting: '{item}' is not KEY=VALUE")
        settings[key] = value
    return settings


def _validate_flags(flags: dict[str, Any]) -> RunConfig:
    """The flags alone, checked: a wrong one is a wrong command line, not a wrong file."""
    from hespas.configs.validation import validate_config
    from hespas.workflows.run_config import RunConfig

    try:
        return validate_config(RunConfig, flags, "")
    except HespasError as error:
        raise UsageError(error.message, remedy=error.remedy) from None


def _build_published_plan(values: dict[str, Any], path: str, flag_config: RunConfig) -> RunPlan:
    from hespas.tools import published_config
    from hespas.workflows import run_flow

    method = published_config.METHODS[published_config.find_method_name(values, path)]
    if "estimator" in flag_config.model_fields_set and flag_config.estimator != method.estimator:
        raise UsageError(
            f"--estimator {flag_config.estimator} does not go with the published configuration {path}",
            remedy="it has its own perf_estimator.method",
        )
    flag_config = flag_config.model_copy(update={"estimator": method.estimator})
    overrides: dict[str, Any] = {"mlir_file": flag_config.mlir, "output_dir": flag_config.output}
    if "split" in flag_config.model_fields_set:
        strategy, _, merge = run_flow.select_split(flag_config).partition("-")
        overrides |= {"split_strategy": f"{strategy}_split", "merge": bool(merge)}
    if "block_limit" in flag_config.model_fields_set:
        overrides["block_lim"] = flag_config.block_limit
    config_file = published_config.parse_published_config(values, path, overrides)
    notes = list(config_file.notes)
    if config_file.config.clean:
        notes.append("clean: traces are always replaced; other files stay")
    for text in notes:
        run_flow.print_to_stderr(f"note: {text}")
    return run_flow.add_requested_figures(
        published_config.build_published_plan(config_file, flag_config), flag_config
    )
