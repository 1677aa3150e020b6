"""``hespas reference``: a whole program on the device at hand, beside the sum of its regions."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hespas.support.errors import UsageError
from hespas.tools.commands.command_parser import CommandParser, parse_count, parse_positive

if TYPE_CHECKING:
    from hespas.support.text_tables import TextTable
    from hespas.workflows.reference.program_comparison import ProgramComparison

DESCRIPTION = """\
Compile and run a whole program on the device at hand, and its regions one by one, in turn, to see
how well the sum of the regions stands for the whole. It is one device's program: where there are
collectives, each is replaced by a local operation that gives a result of the same shape, which is
measured apart.

  hespas reference step.mlir --split linear
"""
SPLITS = {
    "linear": "split-linear",
    "individual": "split-individual",
    "individual-merge": "split-individual{merge=true}",
}


def build_parser() -> CommandParser:
    parser = CommandParser("hespas reference", DESCRIPTION)
    add = parser.add_argument
    add("mlir", metavar="FILE", help="the program, in any form that hespas reads; - for stdin")
    add("--split", default="linear", help="linear (default), individual or individual-merge")
    add("--estimator", default="xla", help="what measures: xla (default), iree, ...")
    add(
        "--setting", action="append", default=[], metavar="KEY=VALUE",
        help="a setting of the estimator; may be given several times",
    )  # fmt: skip
    add("--rounds", type=parse_count, default=3, help="how often all is measured; default: 3")
    add(
        "--timeout", type=parse_positive, default=600.0, metavar="S", help="seconds for one program"
    )
    add("--json", action="store_true", help="print one JSON object")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code, raises HespasError."""
    options = build_parser().parse_args(argv)
    if options.split not in SPLITS:
        from hespas.support.suggestions import suggest_nearest

        raise UsageError(
            f"no split is '{options.split}'", remedy=suggest_nearest(options.split, [*SPLITS])
        )

    from hespas import frontends
    from hespas.dialects.mlir import make_context
    from hespas.passes.base import PassRun
    from hespas.support import text_tables
    from hespas.tools.model_flags import parse_settings
    from hespas.workflows.reference.program_comparison import compare_with_regions

    run = PassRun(input_name=frontends.to_display_name(options.mlir))
    comparison = compare_with_regions(
        frontends.read_module(options.mlir, make_context()),
        options.estimator,
        parse_settings(options.setting),
        SPLITS[options.split],
        run,
        rounds=options.rounds,
        timeout_s=options.timeout,
    )
    if options.json:
        print(json.dumps({"program": run.input_name, **comparison.to_json()}, indent=1))
    else:
        text_tables.print_tables(_build_reference_tables(run.input_name, comparison), sys.stdout)
    return 0


def _build_reference_tables(program: str, comparison: ProgramComparison) -> list[TextTable]:
    from hespas.support.text_tables import TextTable, format_percent, format_seconds

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
