"""``hespas_mlir_analyzer FILE``: the op census of a program, under the published tool's name."""

from __future__ import annotations

from collections.abc import Sequence

from hespas.dialects.errors import UsageError
from hespas.tools import common
from hespas.tools.commands import log
from hespas.tools.commands.parser import Parser

DESCRIPTION = """\
Count the ops of a program by kind. hespas-opt --op-stats does the same with more formats.
"""


def arguments() -> Parser:
    parser = Parser("hespas_mlir_analyzer", DESCRIPTION)
    add = parser.add_argument
    add("mlir_file", help="the program, in any form that hespas reads; - for stdin")
    add(
        "-s", "--input_sensitive", action="store_true",
        help="tell ops of different operand types apart",
    )  # fmt: skip
    add("-f", "--format", default="table", help="table (default) or csv (rows op,count)")
    add(
        "-e", "--expand_func_calls", action="store_true",
        help="count what calls and fusions hold instead of the call or fusion",
    )  # fmt: skip
    log.add_options(parser)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the tool; returns its exit code, raises HespasError."""
    options = arguments().parse_args(argv)
    kind = options.format.lower()
    if kind not in ("table", "csv"):
        raise UsageError(f"there is no format '{options.format}'", remedy="known: table, csv")

    from hespas import frontends
    from hespas.dialects.mlir import make_context
    from hespas.passes.emit import op_stats

    module = frontends.read(options.mlir_file, make_context())
    found = op_stats.census(
        module, expand=options.expand_func_calls, by_operands=options.input_sensitive
    )
    if kind == "table":
        print("MLIR Analysis Results:")
        print(op_stats.as_table(found), end="")
    else:
        print(op_stats.as_csv(found, header=False), end="")
    return 0


def script() -> None:
    common.script(main)


if __name__ == "__main__":
    script()
