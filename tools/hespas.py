"""``hespas``: the whole flow, and what belongs around it. A command is imported when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from hespas.support.errors import UsageError
from hespas.tools import console_scripts

COMMANDS = {
    "export": "a JAX program as StableHLO: as lowered, partitioned, or optimised by XLA",
    "optimize": "what XLA makes of a program, for a GPU that need not be there",
    "run": "estimate a program: read, split, annotate, write Chakra traces, simulate, summarise",
    "simulate": "the step time of Chakra traces on a network, and what it is made of",
    "chakra": "check or print Chakra traces",
    "cache": "list or clear what was measured",
    "reference": "run a whole program on the device at hand, beside the sum of its regions",
    "accelsim": "the regions of a program as PTX, to be traced and run in Accel-Sim",
    "study": "a question over a range of workloads: a table, CSV, JSON and a plot",
    "collective": "collective algorithms as traces: from MSCCL XML, or generated",
    "calibrate": "fit a node's kernel constants to measurements, or check them",
    "nodes": "list the node presets",
    "targets": "list the GPUs that XLA optimises for",
    "systems": "list the system presets",
    "validate": "predicted step times against measured ones",
    "explain": "where the time of a program goes, and what each number rests on",
    "diff": "what changed between two results, configurations or programs",
    "sweep": "many runs at once, in parallel, as one table",
    "compare": "one program on several nodes, or several programs, side by side",
    "report": "a result as a page for the browser, or as plots",
    "system": "make a system: a network of one's own",
    "schema": "the keys of a configuration file, as JSON Schema for editors",
}

USAGE = """\
usage: hespas COMMAND [...]

Predicts how fast a distributed ML program runs, from StableHLO to the step time.

commands:
{commands}

hespas COMMAND --help tells a command's options; hespas --version the version.
hespas-opt runs single passes and prints IR.
"""


def format_usage() -> str:
    """The help text."""
    lines = [f"  {name:<10} {text}" for name, text in COMMANDS.items()]
    return USAGE.format(commands="\n".join(lines))


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
    return importlib.import_module(f"hespas.tools.commands.{argv[0]}").main(list(argv[1:]))


def script() -> None:
    console_scripts.script(main)


if __name__ == "__main__":
    script()
