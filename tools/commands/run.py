"""``hespas run``: the whole flow in one line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hespas.dialects.errors import HespasError, UsageError
from hespas.tools.commands.parser import Parser

if TYPE_CHECKING:
    from hespas.dialects.mlir import ir
    from hespas.tools.commands.config import RunConfig
    from hespas.tools.commands.flow import Note, Plan
    from hespas.tools.commands.summary import Summary

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


def arguments() -> Parser:
    parser = Parser("hespas run", DESCRIPTION)
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
    add_options(parser)
    return parser


def add_options(parser: Parser) -> None:
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


def given_flags(options: dict[str, Any]) -> dict[str, Any]:
    """What was given of the parsed flags, settings by key; raises UsageError."""
    flags = {name: value for name, value in options.items() if value is not None}
    if "setting" in flags:
        flags["setting"] = settings_of(flags["setting"])
    return flags


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    options = vars(arguments().parse_args(argv))
    path, wants_json = options.pop("config"), options.pop("json")
    flags = given_flags(options)

    from hespas.tools.commands import flow, render, summary

    with flow.progress() as before:
        found = perform(plan_of(path, flags), flow.to_stderr, before)
    if wants_json:
        print(json.dumps(summary.as_json(found), indent=1))
    else:
        render.show(summary.as_tables(found))
    return 0


def perform(
    plan: Plan, note: Note, before: Callable[[str], None], module: ir.Module | None = None
) -> Summary:
    """Run a plan, and leave its result in the output folder; raises HespasError.

    ``module`` is the program, where it has been read.
    """
    from hespas.tools import results
    from hespas.tools.commands import flow, simulation, summary

    progress = before if sys.stderr.isatty() else None
    outcome = flow.execute(plan, note, before=before, progress=progress, module=module)
    simulated = flow.simulate(plan, outcome, note, before=before)
    found = flow.summarise(plan, outcome, simulated)
    folder = found.emitted.folder
    details = None
    if simulated is not None and plan.system is not None:
        details = simulation.as_json(simulated, traces=str(folder), system=plan.system.name)
    results.write(folder, outcome.module, summary.as_json(found), details)
    return found


def plan_of(path: str | None, flags: dict[str, Any]) -> Plan:
    """The plan that a configuration file, in either form, and the flags make.

    Raises HespasError.
    """
    from hespas.configs.checked import checked
    from hespas.tools import published
    from hespas.tools.commands import config, flow

    given = _given(flags)
    values = config.load_json(path) if path else {}
    if path and published.is_published(values):
        return _published_plan(values, path, given)
    if "setting" in flags and isinstance(values.get("setting"), dict):
        flags = {**flags, "setting": {**values["setting"], **flags["setting"]}}
    chosen = checked(config.RunConfig, {**values, **flags}, path or "hespas run")
    if chosen.mlir is None:
        remedy = "name it with --mlir FILE"
        raise UsageError("no program is given", where=path or "", remedy=remedy)
    return flow.with_figures(flow.plan(chosen), chosen)


def settings_of(given: Sequence[str]) -> dict[str, str]:
    """``key=value`` each; of one that is given twice the last. Raises UsageError."""
    found = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise UsageError(f"--setting: '{item}' is not KEY=VALUE")
        found[key] = value
    return found


def _given(flags: dict[str, Any]) -> RunConfig:
    """The flags alone, checked: a wrong one is a wrong command line, not a wrong file."""
    from hespas.configs.checked import checked
    from hespas.tools.commands.config import RunConfig

    try:
        return checked(RunConfig, flags, "")
    except HespasError as error:
        raise UsageError(error.message, remedy=error.remedy) from None


def _published_plan(values: dict[str, Any], path: str, given: RunConfig) -> Plan:
    from hespas.tools import published
    from hespas.tools.commands import flow

    method = published.METHODS[published.method_of(values, path)]
    if "estimator" in given.model_fields_set and given.estimator != method.estimator:
        raise UsageError(
            f"--estimator {given.estimator} does not go with the published configuration {path}",
            remedy="it has its own perf_estimator.method",
        )
    given = given.model_copy(update={"estimator": method.estimator})
    overrides: dict[str, Any] = {"mlir_file": given.mlir, "output_dir": given.output}
    if "split" in given.model_fields_set:
        strategy, _, merge = flow.split_of(given).partition("-")
        overrides |= {"split_strategy": f"{strategy}_split", "merge": bool(merge)}
    if "block_limit" in given.model_fields_set:
        overrides["block_lim"] = given.block_limit
    found = published.interpret(values, path, overrides)
    notes = list(found.notes)
    if found.config.clean:
        notes.append("clean: traces are always replaced; other files stay")
    for text in notes:
        flow.to_stderr(f"note: {text}")
    return flow.with_figures(published.plan(found, given), given)
