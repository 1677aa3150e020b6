"""``hespas plan``: find the best layout of a program on a machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hespas.support.errors import UsageError
from hespas.support.text_tables import print_tables
from hespas.tools.commands.command_parser import CommandParser, parse_count
from hespas.tools.commands.shared_flags import (
    add_json_flag,
    read_jobs,
    split_value_lists,
)
from hespas.tools.terminal import print_to_stderr

if TYPE_CHECKING:
    from hespas.workflows.planning.layout_space import LayoutRequest, PlanOptions

DESCRIPTION = """\
Find the fastest layout of a program on a machine: the mesh, what the backward pass computes again,
and the microbatches, at a fixed global batch. Every layout has a lower bound; those that may be
among the best are estimated, and XLA compiles them until no other could win. Layouts that do not
fit are rows with the reason. Programs, bounds and estimates are kept, so repeating a command
continues it.

  hespas plan llama --set model=8b --node H100_80GB --devices 64 --global-batch 512 \\
    --mesh tensor=1,2,4,8 --set remat=minimal,full --csv layouts.csv
"""


COMMAND = "hespas plan"


def build_parser() -> CommandParser:
    from hespas.tools.model_flags import add_model_flags, add_run_option_flags
    from hespas.workflows.planning.layout_space import PlanOptions

    parser = CommandParser(COMMAND, DESCRIPTION)
    add = parser.add_argument
    add("program", help="a recipe, module:function or FILE.py[:function], as of hespas export")
    add("--node", required=True, help="node preset")
    add("--devices", type=parse_count, required=True, metavar="N", help="number of devices")
    add(
        "--spec", default="", metavar="FILE",
        help="arguments of a plain function, as of hespas export, with their logical axes",
    )  # fmt: skip
    add(
        "--global-batch", type=parse_count, metavar="N",
        help="samples of a step over all devices: sequences, or images; with --spec not needed",
    )  # fmt: skip
    add(
        "--global-tokens", type=parse_count, metavar="N",
        help="tokens of a step over all devices, instead of --global-batch",
    )  # fmt: skip
    add(
        "--mesh", nargs="+", action="extend", default=[], metavar="AXIS=SIZE[,SIZE...]",
        help="sizes to try of a mesh axis; default: every divisor, and 1 for context; pipeline=N "
        "adds layouts of N ranks to recipes with stages",
    )  # fmt: skip
    add(
        "--dcn", nargs="*", action="extend", metavar="AXIS=SIZE[,SIZE...]",
        help="also search how the axes are divided over slices of TPUs, or over hosts: the parts "
        "to try of an axis that lie between them, and every part of axes left out; default: the "
        "first axes lie between them",
    )  # fmt: skip
    add(
        "--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE[,VALUE...]",
        help="values to try of an option of the program; default: five policies of remat, every "
        "split of the batch, layers in a loop, the node's fused attention",
    )  # fmt: skip
    add_model_flags(parser, PlanOptions)
    add("--csv", metavar="FILE", help="write all layouts as a table")
    add("--page", metavar="FILE", help="write an HTML page: the front, the winner, all layouts")
    add_json_flag(parser)
    add_run_option_flags(parser, COMMAND)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    command_line = build_parser().parse_args(argv)
    if None not in (command_line.compile_count, command_line.compile_minutes):
        raise UsageError("--compile-minutes does not go with --compile, which states the number")
    request, options = _read_request(command_line), _read_options(command_line)

    from hespas.support import output_file
    from hespas.workflows.planning import plan_result, plan_search
    from hespas.workflows.studies import study_output

    for path in filter(None, (command_line.csv, command_line.page)):
        output_file.check_writable_file(path)
    plan = plan_search.plan_layouts(request, options, print_to_stderr)
    if command_line.csv:
        text = study_output.format_csv(plan_result.list_csv_rows(plan))
        output_file.write_atomically(command_line.csv, text.encode())
    if command_line.page:
        from hespas.tools.report.plan_page import render_plan_page

        page = render_plan_page(plan, f"Layouts of {command_line.program}")
        output_file.write_atomically(command_line.page, page)
    if command_line.json:
        print(json.dumps(plan.to_json(), indent=1))
    else:
        print_tables(plan_result.build_plan_tables(plan))
        if plan.verdict:
            print(f"\n{plan.verdict}")
    if plan.winner is None:
        print_to_stderr("no layout fits")
    return 0 if plan.winner else 1


def _read_request(command_line: Any) -> LayoutRequest:
    from hespas.workflows.planning.layout_space import LayoutRequest

    return LayoutRequest(
        command_line.program,
        command_line.node,
        command_line.devices,
        command_line.global_batch,
        _parse_axes("--mesh", command_line.mesh),
        _split_lists("--set", command_line.set),
        spec_file=command_line.spec,
        global_tokens=command_line.global_tokens,
        dcn=None if command_line.dcn is None else _parse_axes("--dcn", command_line.dcn),
    )


def _read_options(command_line: Any) -> PlanOptions:
    from hespas.tools.model_flags import read_model_flags, read_run_options
    from hespas.workflows.planning.layout_space import PlanOptions

    return read_model_flags(
        PlanOptions,
        command_line,
        run=read_run_options(command_line, COMMAND),
        jobs=read_jobs(command_line),
    )


def _split_lists(flag: str, items: Sequence[str]) -> dict[str, list[str]]:
    return {
        key.replace("-", "_"): [value.strip("'\"") for value in values]
        for key, values in split_value_lists(flag, items).items()
    }


def _parse_axes(flag: str, items: Sequence[str]) -> dict[str, list[int]]:
    """Parse ``AXIS=SIZE,SIZE`` items; raises UsageError."""
    lists = _split_lists(flag, items)
    for axis, texts in lists.items():
        for text in texts:
            if not text.isdecimal():
                raise UsageError(f"{flag} {axis}: '{text}' is not a whole number")
    return {axis: [int(text) for text in texts] for axis, texts in lists.items()}
