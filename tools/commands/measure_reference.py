"""``hespas measure reference``: compare a whole program with the sum of its regions."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from hespas.support.text_tables import TextTable, format_percent, format_seconds, print_tables
from hespas.tools.commands.command_parser import CommandParser, parse_count, parse_positive
from hespas.tools.commands.shared_flags import (
    add_json_flag,
    add_reading_flags,
    parse_key_values,
)

if TYPE_CHECKING:
    from hespas.workflows.reference.program_comparison import ProgramComparison

DESCRIPTION = """\
Compile and run a whole program on the local device, alternating with its regions one by one, to see
how well the sum of the regions approximates the whole. The program must be for one device: each
collective is replaced by a local op with a result of the same shape, which is also measured alone.

  hespas measure reference step.mlir --split linear
"""
SPLITS = {  # the pipeline of each value of --split
    "linear": "split-linear",
    "individual": "split-individual",
    "individual-merge": "split-individual{merge=true}",
}


def add_reference_command(parser: CommandParser) -> None:
    """Add ``reference`` to the parser of ``hespas measure``."""
    command = parser.add_command(
        "reference",
        "run a whole program on the local device, and compare it with the sum of its regions",
        _measure_reference,
        DESCRIPTION,
    )
    add_program_options(command)
    add = command.add_argument
    add(
        "--estimator", default="xla", metavar="NAME",
        help="measuring estimator: xla (default), iree, ...",
    )  # fmt: skip
    add(
        "--setting", action="append", default=[], metavar="KEY=VALUE",
        help="setting of the estimator; may be repeated",
    )  # fmt: skip
    add(
        "--rounds", type=parse_count, default=3, help="number of rounds of measurements (default 3)"
    )
    add(
        "--timeout", type=parse_positive, default=600.0, metavar="S",
        help="limit for the measurement of one program, in seconds",
    )  # fmt: skip
    add_json_flag(command)
    add_reading_flags(command)


def add_program_options(command: CommandParser) -> None:
    """Add the options for a program and its split, for commands that work on regions."""
    add = command.add_argument
    add("mlir", metavar="FILE", help="program in any format that hespas reads; - for stdin")
    add("--split", choices=SPLITS, default="linear", help="how to split into regions")


def _measure_reference(options: argparse.Namespace) -> int:
    from hespas import frontends
    from hespas.dialects.mlir import make_context
    from hespas.passes.base import PassRun, print_note
    from hespas.workflows.reference.program_comparison import compare_with_regions

    run = PassRun(input_name=frontends.to_display_name(options.mlir), note=print_note)
    comparison = compare_with_regions(
        frontends.read_module(options.mlir, make_context()),
        options.estimator,
        parse_key_values(options.setting, "--setting"),
        SPLITS[options.split],
        run,
        rounds=options.rounds,
        timeout_s=options.timeout,
    )
    if options.json:
        print(json.dumps({"program": run.input_name, **comparison.to_json()}, indent=1))
    else:
        print_tables(_build_reference_tables(run.input_name, comparison))
    return 0


def _build_reference_tables(program: str, comparison: ProgramComparison) -> list[TextTable]:
    values = comparison.to_json()
    rounds = [
        (
            str(number),
            format_seconds(measured_round.whole_s),
            format_percent(measured_round.whole["mad_s"] / measured_round.whole_s),
            format_seconds(measured_round.regions_s),
            format_seconds(measured_round.stand_ins_s),
            f"{measured_round.ratio:.3f}",
            f"{measured_round.whole['host_load']:.1f}",
        )
        for number, measured_round in enumerate(comparison.rounds, 1)
    ]
    low, high = values["ratio_range"]
    versions = ", ".join(f"{name} {version}" for name, version in comparison.versions.items())
    return [
        TextTable(
            "",
            [
                ("program", program),
                ("device", f"{comparison.device}; {versions}"),
                ("regions", f"{comparison.regions}, of which {comparison.distinct} differ"),
                ("collectives", f"{comparison.collectives}, each replaced by a local operation")
                if comparison.collectives
                else ("collectives", "none"),
                ("whole", format_seconds(values["whole_s"])),
                ("sum of the parts", format_seconds(values["regions_s"] + values["stand_ins_s"])),
                ("ratio", f"{values['ratio']:.3f}, from {low:.3f} to {high:.3f} by round"),
                ("least disturbed", f"{comparison.least_ratio:.3f}"),
            ],
            left=2,
        ),
        TextTable(
            "",
            rounds,
            ("round", "whole", "deviation", "regions", "stand-ins", "ratio", "host load"),
        ),
    ]
