"""``hespas``: the command line. Each command is a module that is imported when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from hespas.support import supervised_process
from hespas.support.errors import UsageError
from hespas.tools import console_scripts

COMMAND_GROUPS = {
    "predict a step time": {
        "run": "estimate a program and simulate its step on a network",
        "simulate": "simulate Chakra traces on a network",
        "export": "export a JAX program as StableHLO, for any number of devices",
        "optimize": "optimise a program with XLA for a GPU or TPU; none is needed",
    },
    "answer questions with many runs": {
        "plan": "find the best layout of a program on a machine",
        "sweep": "run all combinations of several options, and write one table",
        "study": "run a predefined study: operators, model sizes, scaling out",
        "validate": "compare predicted step times with measured ones",
    },
    "look at results": {
        "show": "explain a result in the terminal, or write it as a page or plots",
        "compare": "put results side by side, or show what changed between two",
    },
    "presets, traces and measurements": {
        "presets": "list nodes, systems, compile targets and schemas; create a system",
        "trace": "check and print Chakra traces; write collective algorithms as traces",
        "measure": "cache, whole programs, calibration of a node, Accel-Sim",
    },
}
COMMANDS = {name: text for group in COMMAND_GROUPS.values() for name, text in group.items()}

USAGE = """\
usage: hespas COMMAND [...]

Predict how fast a distributed ML program runs, from its StableHLO to its step time.
{commands}
hespas COMMAND --help lists the options of a command, hespas --version prints the version.
hespas-opt runs single passes and prints IR.
"""


def format_usage() -> str:
    """Format the help text: the commands by group."""
    lines = []
    for title, commands in COMMAND_GROUPS.items():
        lines += [f"\n{title}:", *(f"  {name:<9} {text}" for name, text in commands.items())]
    return USAGE.format(commands="\n".join(lines) + "\n")


def main(argv: Sequence[str]) -> int:
    """Run the tool; returns its exit code, raises HespasError."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(format_usage(), end="")
        return 0 if argv else console_scripts.EXIT_USAGE
    if argv[0] == "--version":
        from hespas import __version__

        print(f"hespas {__version__}")
        return 0
    if argv[0] not in COMMANDS:
        from hespas.support.suggestions import suggest_nearest

        raise UsageError(
            f"no command is called '{argv[0]}'", remedy=suggest_nearest(argv[0], [*COMMANDS])
        )
    command = importlib.import_module(f"hespas.tools.commands.{argv[0]}")
    supervised_process.handle_interrupts_in_child()
    return command.main(list(argv[1:]))


def script() -> None:
    console_scripts.script(main)


if __name__ == "__main__":
    script()
