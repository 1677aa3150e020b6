"""``hespas measure accelsim``: write the regions of a program as PTX for Accel-Sim."""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import asdict
from pathlib import Path

from hespas.support.text_tables import TextTable, print_tables
from hespas.tools.commands.command_parser import CommandParser
from hespas.tools.commands.measure_reference import SPLITS, add_program_options
from hespas.tools.commands.shared_flags import add_json_flag, add_reading_flags

DESCRIPTION = """\
Write each distinct region of a program as a module and as PTX, with IREE's compiler. Accel-Sim
simulates traces, not PTX: on a GPU, run each DIGEST.vmfb with iree-run-module under NVBit's tracer,
pass the traces to accel-sim.out, and save its output as REPORTS/DIGEST.log. Then

  hespas measure accelsim step.mlir --output regions
  hespas run --mlir step.mlir --split linear --estimator accelsim --setting reports=REPORTS
"""
REGION_FILES = re.compile(r"[0-9a-f]{16}\.(mlir|vmfb|\d+\.ptx)|regions\.json")


def add_accelsim_command(parser: CommandParser) -> None:
    """Add ``accelsim`` to the parser of ``hespas measure``."""
    command = parser.add_command(
        "accelsim", "write the regions of a program as PTX for Accel-Sim", _export_regions,
        DESCRIPTION,
    )  # fmt: skip
    add_program_options(command)
    add = command.add_argument
    add("--output", metavar="DIR", required=True, help="folder to write the regions to")
    add("--target", default="sm_80", help="target of IREE, sm_60 to sm_89 (default sm_80)")
    add_json_flag(command)
    add_reading_flags(command)


def _export_regions(options: argparse.Namespace) -> int:
    from hespas import frontends
    from hespas.dialects.mlir import make_context
    from hespas.estimators.accelerators.accelsim_export import export_regions
    from hespas.passes import pipeline
    from hespas.passes.annotate.measured_items import collect_items
    from hespas.passes.base import PassRun, print_note
    from hespas.support.folder_manifest import OutputSet
    from hespas.support.output_folder import check_writable_folder, open_output_folder

    output_set = OutputSet("regions", REGION_FILES)
    check_writable_folder(options.output, output_set)
    run = PassRun(input_name=frontends.to_display_name(options.mlir), note=print_note)
    module = frontends.read_module(options.mlir, make_context())
    pipeline.run_pipeline(module, SPLITS[options.split], run)
    with open_output_folder(Path(options.output), output_set) as folder:
        regions = list(export_regions(collect_items(module), folder, options.target))
        data = {"target": options.target, "regions": [asdict(region) for region in regions]}
        (folder / "regions.json").write_text(json.dumps(data, indent=1) + "\n")
    if options.json:
        print(json.dumps(data, indent=1))
    else:
        rows = [(region.digest, str(region.count), str(region.kernels)) for region in regions]
        header = ("region", "times", "kernels")
        print_tables([TextTable("", rows, header)])
    for region in regions:
        if region.problem:
            print(f"warning: {region.digest}: {region.problem}", file=sys.stderr)
    return 1 if regions and all(region.problem for region in regions) else 0
