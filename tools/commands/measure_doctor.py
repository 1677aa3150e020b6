"""``hespas measure doctor``: which optional parts are usable here, and what is missing."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from hespas.support.text_tables import TextTable, print_tables
from hespas.tools.commands.command_parser import CommandParser
from hespas.tools.commands.shared_flags import add_json_flag

DESCRIPTION = """\
List the extras of hespas, which pip installs, and the simulators and compilers of others that it
can use: how each is installed, the version that it was tested with, and whether it is usable here.
The exit code is 0 whatever is missing.

  hespas measure doctor
"""


def add_doctor_command(parser: CommandParser) -> None:
    """Add ``doctor`` to the parser of ``hespas measure``."""
    command = parser.add_command(
        "doctor", "list which extras and simulators are usable here", _show_states, DESCRIPTION
    )
    add_json_flag(command)


def _show_states(options: argparse.Namespace) -> int:
    from hespas.support.installed_extras import examine_extras
    from hespas.workflows.simulator_doctor import examine_simulators

    states, extras = examine_simulators(), examine_extras()
    if options.json:
        rows: list[dict[str, Any]] = [
            {**asdict(state), "usable": state.is_usable} for state in states
        ]
        rows += [
            {"name": f"hespas[{extra.name}]", "source": "pip", "problem": extra.problem,
             "remedy": extra.remedy, "usable": not extra.problem}
            for extra in extras
        ]  # fmt: skip
        print(json.dumps(rows, indent=1))
        return 0
    installed = [
        [extra.name, "no" if extra.problem else "yes", _join(extra.problem, extra.remedy)]
        for extra in extras
    ]
    header = ("simulator", "by", "tested with", "usable", "found, or what is missing")
    shown = [
        [
            state.name,
            state.source,
            state.tested_version or "-",
            "yes" if state.is_usable else "no",
            state.identity or _join(state.problem, state.remedy),
        ]
        for state in states
    ]
    print_tables(
        [
            TextTable("Extras, by pip", installed, ("extra", "usable", "what is missing"), left=3),
            TextTable("Simulators and compilers of others", shown, header, left=5),
        ]
    )
    return 0


def _join(problem: str, remedy: str) -> str:
    return "; ".join(filter(None, (problem, remedy)))
