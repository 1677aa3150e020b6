"""``hespas measure cycles``: the cycles that XLA:TPU estimates for products."""

from __future__ import annotations

import argparse
import sys

from hespas.tools.commands.command_parser import CommandParser

DESCRIPTION = """\
Print the cycles that XLA:TPU estimates for products, as CSV; no TPU is needed. The products are
those of the micro-benchmarks whose time the matrix units bound. It takes 5 to 20 minutes, and a row
is printed when its product is compiled.

  hespas measure cycles TPUv5e > cycles.csv
"""


def add_cycles_command(parser: CommandParser) -> None:
    """Add ``cycles`` to the parser of ``hespas measure``."""
    command = parser.add_command(
        "cycles", "print the cycles that XLA:TPU estimates for products", _print_cycles, DESCRIPTION
    )
    command.add_argument("target", metavar="TARGET", help="TPU compile target, such as TPUv5e")


def _print_cycles(options: argparse.Namespace) -> int:
    from hespas.workflows.calibration.micro_benchmarks import write_cycle_table

    write_cycle_table(options.target, sys.stdout)
    return 0
