"""``hespas_mlir_analyzer FILE``: print the op census of a program, like the published tool."""

from __future__ import annotations

from collections.abc import Sequence

from hespas.support.errors import UsageError
from hespas.tools import console_scripts
from hespas.tools.commands.command_parser import CommandParser
from hespas.tools.published import log_options

DESCRIPTION = """\
Count the ops of a program by kind. hespas-opt --op-stats offers more formats.
"""


def build_parser() -> CommandParser:
    parser = CommandParser("hespas_mlir_analyzer", DESCRIPTION)
    add = parser.add_argument
    add("mlir_file", help="program in any format that hespas reads; - for stdin")
    add(
        "-s", "--input_sensitive", action="store_true",
        help="count ops with different operand types separately",
    )  # fmt: skip
    add("-f", "--format", default="table", help="table (default), or csv (rows op,count)")
    add(
        "-e", "--expand_func_calls", action="store_true",
        help="count the ops in called functions and fusions instead of calls and fusions",
    )  # fmt: skip
    log_options.add_log_options(parser)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the tool; returns its exit code, raises HespasError."""
    options = build_parser().parse_args(argv)
    kind = options.format.lower()
    if kind not in ("table", "csv"):
        raise UsageError(f"unknown format '{options.format}'", remedy="known: table, csv")

    from hespas import frontends
    from hespas.dialects.mlir import make_context
    from hespas.passes.emit import op_stats

    module = frontends.read_module(options.mlir_file, make_context())
    op_census = op_stats.count_program_ops(
        module, expand=options.expand_func_calls, by_operands=options.input_sensitive
    )
    if kind == "table":
        print("MLIR Analysis Results:")
        head, _, rows = op_stats.render_census_table(op_census).partition("\n\n")
        rule = head.splitlines()[0]
        print(f"{rule}\nUnique Operators   : {op_census.unique_op_count}\n")
        print(f"Operator Histogram:\n{rows}", end="")
    else:
        print(op_stats.render_census_csv(op_census, header=False), end="")
    return 0


def script() -> None:
    console_scripts.script(main)


if __name__ == "__main__":
    script()
