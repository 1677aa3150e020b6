"""``hespas reference``: a whole program on the device at hand, beside the sum of its regions."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hespas.dialects.errors import UsageError
from hespas.tools.commands.parser import Parser, above_zero, count

if TYPE_CHECKING:
    from hespas.estimators.reference.compare import Comparison
    from hespas.tools.commands.render import Table

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


def arguments() -> Parser:
    parser = Parser("hespas reference", DESCRIPTION)
    add = parser.add_argument
    add("mlir", metavar="FILE", help="the program, in any form that hespas reads; - for stdin")
    add("--split", default="linear", help="linear (default), individual or individual-merge")
    add("--estimator", default="xla", help="what measures: xla (default), iree, ...")
    add(
        "--setting", action="append", default=[], metavar="KEY=VALUE",
        help="a setting of the estimator; may be given several times",
    )  # fmt: skip
    add("--rounds", type=count, default=3, help="how often all is measured; default: 3")
    add("--timeout", type=above_zero, default=600.0, metavar="S", help="seconds for one program")
    add("--json", action="store_true", help="print one JSON object")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code, raises HespasError."""
    options = arguments().parse_args(argv)
    if options.split not in SPLITS:
        from hespas.passes.base import nearest

        raise UsageError(f"no split is '{options.split}'", remedy=nearest(options.split, [*SPLITS]))

    from hespas import frontends
    from hespas.dialects.mlir import make_context
    from hespas.estimators.reference.compare import compare
    from hespas.passes.base import Run
    from hespas.tools.commands import render
    from hespas.tools.commands.run import settings_of

    run = Run(input_name=frontends.shown(options.mlir))
    found = compare(
        frontends.read(options.mlir, make_context()),
        options.estimator,
        settings_of(options.setting),
        SPLITS[options.split],
        run,
        rounds=options.rounds,
        timeout_s=options.timeout,
    )
    if options.json:
        print(json.dumps({"program": run.input_name, **found.to_json()}, indent=1))
    else:
        render.show(_tables(run.input_name, found), sys.stdout)
    return 0


def _tables(program: str, found: Comparison) -> list[Table]:
    from hespas.tools.commands.render import Table, percent, seconds

    values = found.to_json()
    rounds = [
        (
            str(number),
            seconds(one.whole_s),
            percent(one.whole["mad_s"] / one.whole_s),
            seconds(one.regions_s),
            seconds(one.stand_ins_s),
            f"{one.ratio:.3f}",
            f"{one.whole['host_load']:.1f}",
        )
        for number, one in enumerate(found.rounds, 1)
    ]
    low, high = values["ratio_range"]
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    return [
        Table(
            "",
            [
                ("program", program),
                ("device", f"{found.device}; {versions}"),
                ("regions", f"{found.regions}, of which {found.distinct} differ"),
                ("collectives", f"{found.collectives}, each replaced by a local operation")
                if found.collectives
                else ("collectives", "none"),
                ("whole", seconds(values["whole_s"])),
                ("sum of the parts", seconds(values["regions_s"] + values["stand_ins_s"])),
                ("ratio", f"{values['ratio']:.3f}, from {low:.3f} to {high:.3f} by round"),
                ("least disturbed", f"{found.least_ratio:.3f}"),
            ],
            left=2,
        ),
        Table(
            "",
            rounds,
            ("round", "whole", "deviation", "regions", "stand-ins", "ratio", "host load"),
        ),
    ]
