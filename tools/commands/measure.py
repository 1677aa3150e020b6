"""``hespas measure``: commands that run compiled code, and what their results are used for."""

from __future__ import annotations

from collections.abc import Sequence

from hespas.tools.commands import (
    measure_accelsim,
    measure_cache,
    measure_calibrate,
    measure_cycles,
    measure_doctor,
    measure_reference,
)
from hespas.tools.commands.command_parser import CommandParser

DESCRIPTION = """\
Manage the cache of measurements, measure a whole program, fit the constants of a node to
measurements, print XLA:TPU's cycles, export regions for Accel-Sim, and tell which simulators are
usable here.
"""


def build_parser() -> CommandParser:
    parser = CommandParser("hespas measure", DESCRIPTION)
    measure_cache.add_cache_command(parser)
    measure_reference.add_reference_command(parser)
    measure_calibrate.add_calibrate_command(parser)
    measure_cycles.add_cycles_command(parser)
    measure_accelsim.add_accelsim_command(parser)
    measure_doctor.add_doctor_command(parser)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    return build_parser().run_command(argv)
