"""``hespas accelsim``: the regions of a program as PTX, to be traced and run in Accel-Sim."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from hespas.dialects.errors import UsageError
from hespas.tools.commands.parser import Parser

DESCRIPTION = """\
Write each distinct region of a program as a module and as PTX, by IREE's compiler. Accel-Sim does
not run PTX: on a GPU, run each DIGEST.vmfb by iree-run-module under NVBit's tracer, give the
traces to accel-sim.out, and keep what it prints as REPORTS/DIGEST.log. Then

  hespas accelsim step.mlir --output regions
  hespas run --mlir step.mlir --split linear --estimator accelsim --setting reports=REPORTS
"""
OURS = re.compile(r"[0-9a-f]{16}\.(mlir|vmfb|\d+\.ptx)|regions\.json")


def arguments() -> Parser:
    parser = Parser("hespas accelsim", DESCRIPTION)
    add = parser.add_argument
    add("mlir", metavar="FILE", help="the program, in any form that hespas reads; - for stdin")
    add("--output", metavar="DIR", required=True, help="folder for the regions")
    add("--split", default="linear", help="linear (default), individual or individual-merge")
    add("--target", default="sm_80", help="sm_60 to sm_89, as IREE has them; default: sm_80")
    add("--json", action="store_true", help="print JSON")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code, raises HespasError."""
    options = arguments().parse_args(argv)

    from dataclasses import asdict

    from hespas import frontends
    from hespas.dialects.mlir import make_context
    from hespas.estimators.accelerators.accelsim_export import export
    from hespas.passes import pipeline
    from hespas.passes.annotate.collect import items
    from hespas.passes.base import Run, nearest
    from hespas.passes.emit.folder import output_folder
    from hespas.tools.commands import render
    from hespas.tools.commands.reference import SPLITS

    if options.split not in SPLITS:
        remedy = nearest(options.split, [*SPLITS])
        raise UsageError(f"no split is '{options.split}'", remedy=remedy)
    run = Run(input_name=frontends.shown(options.mlir))
    module = frontends.read(options.mlir, make_context())
    pipeline.run(module, SPLITS[options.split], run)
    with output_folder(Path(options.output), ours=OURS) as folder:
        found = list(export(items(module), folder, options.target))
        data = {"target": options.target, "regions": [asdict(one) for one in found]}
        (folder / "regions.json").write_text(json.dumps(data, indent=1) + "\n")
    if options.json:
        print(json.dumps(data, indent=1))
    else:
        rows = [(one.digest, str(one.count), str(one.kernels)) for one in found]
        header = ("region", "times", "kernels")
        render.show([render.Table("", rows, header)])
    for one in found:
        if one.problem:
            print(f"warning: {one.digest}: {one.problem}", file=sys.stderr)
    return 1 if found and all(one.problem for one in found) else 0
