"""``hespas run``: estimate a program from its StableHLO to its step time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hespas.support.text_tables import print_tables
from hespas.tools.commands.command_parser import CommandParser
from hespas.tools.commands.shared_flags import add_json_flag, add_reading_flags
from hespas.tools.terminal import print_to_stderr, show_progress

if TYPE_CHECKING:
    from hespas.workflows.run_plan import RunPlan

DESCRIPTION = """\
Estimate a program: read it, split it at its collectives, annotate costs, write Chakra traces,
simulate them on the network of --system, and print a summary on stdout. CONFIG is a JSON file whose
keys are the names of the flags with _ for - ("block_limit", "simulate": false), or a configuration
of the published tools; flags override it. Paths are relative to the current folder.

  hespas run --mlir step.mlir --node A100_SXM_40GB --system A100_SXM_40GB_4GPU --output out
"""
FILE_OPTIONS = ("mlir", "output", "timeline", "simulate")  # of a run that keeps its traces


def build_parser() -> CommandParser:
    from hespas.tools.model_flags import add_model_flags
    from hespas.workflows.run_config import RunConfig

    parser = CommandParser("hespas run", DESCRIPTION)
    parser.add_argument("config", nargs="?", help="configuration file (JSON)")
    add_json_flag(parser)
    add_reading_flags(parser)
    add_model_flags(parser, RunConfig)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command and return its exit code; raises HespasError."""
    options = vars(build_parser().parse_args(argv))
    path, wants_json = options.pop("config"), options.pop("json")

    from hespas.tools.model_flags import collect_set_flags
    from hespas.workflows import run_flow, run_summary

    plan = build_plan_from_flags(path, collect_set_flags(options))
    with show_progress() as progress:
        summary = run_flow.run_program(plan, note=print_to_stderr, progress=progress)
    if wants_json:
        print(json.dumps(run_summary.to_summary_json(summary), indent=1))
    else:
        print_tables(run_summary.build_summary_tables(summary))
    return 0


def build_plan_from_flags(path: str | None, flags: dict[str, Any]) -> RunPlan:
    """Build the plan of a configuration file, native or published, and of flags that override it.

    Raises:
        HespasError: The file has a wrong key or value, or a preset does not exist.
        UsageError: A flag has a wrong value.
    """
    from hespas.tools import published
    from hespas.tools.model_flags import validate_flags
    from hespas.workflows import run_config, run_plan

    flag_config = validate_flags(run_config.RunConfig, flags)
    values = run_config.load_json_object(path) if path else {}
    published_run = published.build_published_run(values, path, flag_config) if path else None
    if published_run is not None:
        plan, notes = published_run
        for text in notes:
            print_to_stderr(f"note: {text}")
        return plan
    config = run_plan.merge_run_config(values, flags, path or "hespas run")
    return run_plan.build_run_plan(config, path or "")
