"""``hespas measure doctor``: which simulators are usable here, and what is missing."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from hespas.tools.commands.command_parser import CommandParser
from hespas.tools.commands.shared_flags import add_json_flag

DESCRIPTION = """\
List the simulators and compilers of others that hespas can use, the version of each that it was
tested with, and whether it is usable here. The exit code is 0 whatever is missing.

  hespas measure doctor
"""


def add_doctor_command(parser: CommandParser) -> None:
    """Add ``doctor`` to the parser of ``hespas measure``."""
    command = parser.add_command(
        "doctor", "list which simulators are usable here", _show_states, DESCRIPTION
    )
    add_json_flag(command)


def _show_states(options: argparse.Namespace) -> int:
    from hespas.support.text_tables import TextTable, print_tables
    from hespas.workflows.simulator_doctor import examine_simulators

    states = examine_simulators()
    if options.json:
        rows = [{**asdict(state), "usable": state.is_usable} for state in states]
        print(json.dumps(rows, indent=1))
        return 0
    header = ("simulator", "tested with", "usable", "found, or what is missing")
    shown = [
        [
            state.name,
            state.tested_version or "-",
            "yes" if state.is_usable else "no",
            state.identity or "; ".join(filter(None, (state.problem, state.remedy))),
        ]
        for state in states
    ]
    print_tables([TextTable("Simulators and compilers of others", shown, header, left=4)])
    return 0
