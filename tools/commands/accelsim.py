"""``hespas accelsim``: the regions of a program as PTX, to be traced and run in Accel-Sim."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from hespas.support.errors import UsageError
from hespas.tools.commands.command_parser import CommandParser

DESCRIPTION = """\
Write each distinct region of a program as a module and as PTX, by IREE's compiler. Accel-Sim does
not run PTX: on a GPU, run each DIGEST.vmfb by iree-run-module under NVBit's tracer, give the
traces to accel-sim.out, and keep what it prints as REPORTS/DIGEST.log. Then

  hespas accelsim step.mlir --output regions
  hespas run --mlir step.mlir --split linear --estimator accelsim --setting reports=REPORTS
"""
REGION_FILES = re.compile(r"[0-9a-f]{16}\.(mlir|vmfb|\d+\.ptx)|regions\.json")


def build_parser() -> CommandParser:
    parser = CommandParser("hespas accelsim", DESCRIPTION)
    add = parser.add_argument
    add("mlir", metavar="FILE", help="the program, in any form that hespas reads; - for stdin")
    add("--output", metavar="DIR", required=True, help="folder for the regions")
    add("--split", default="linear", help="linear (default), individual or individual-merge")
    add("--target", default="sm_80", help="sm_60 to sm_89, as IREE has them; default: sm_80")
    add("--json", action="store_true", help="print JSON")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code, raises HespasError."""
    options = build_parser().parse_args(argv)

    from dataclasses import asdict

    from hespas import frontends
    from hespas.dialects.mlir import make_context
    from hespas.estimators.accelerators.accelsim_export import export_regions
    from hespas.passes import pipeline
    from hespas.passes.annotate.measured_items import collect_items
    from hespas.passes.base import PassRun
    from hespas.support import text_tables
    from hespas.support.output_folder import open_output_folder
    from hespas.support.suggestions import suggest_nearest
    from hespas.tools.commands.reference import SPLITS

    if options.split not in SPLITS:
        remedy = suggest_nearest(options.split, [*SPLITS])
        raise UsageError(f"no split is '{options.split}'", remedy=remedy)
    run = PassRun(input_name=frontends.to_display_name(options.mlir))
    module = frontends.read_module(options.mlir, make_context())
    pipeline.run_pipeline(module, SPLITS[options.split], run)
    with open_output_folder(Path(options.output), ours=REGION_FILES) as folder:
        exported_regions = list(export_regions(collect_items(module), folder, options.target))
        data = {
            "target": options.target,
            "regions": [asdict(region) for region in exported_regions],
        }
        (folder / "regions.json").write_text(json.dumps(data, indent=1) + "\n")
    if options.json:
        print(json.dumps(data, indent=1))
    else:
        rows = [
            (region.digest, str(region.count), str(region.kernels)) for region in exported_regions
        ]
        header = ("region", "times", "kernels")
        text_tables.print_tables([text_tables.TextTable("", rows, header)])
    for region in exported_regions:
        if region.problem:
            print(f"warning: {region.digest}: {region.problem}", file=sys.stderr)
    return 1 if exported_regions and all(region.problem for region in exported_regions) else 0
