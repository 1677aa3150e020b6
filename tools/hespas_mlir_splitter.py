"""``hespas_mlir_splitter CONFIG``: the pieces of a program as files, as the published tool does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hespas.tools import common
from hespas.tools.commands import log
from hespas.tools.commands.parser import Parser

DESCRIPTION = """\
Split a program at its collectives, and write each piece as mini_module_<i>.mlir and .json.
CONFIG gives mlir_file and output_dir; flags override it. Paths are relative to where you are.
"""


def arguments() -> Parser:
    parser = Parser("hespas_mlir_splitter", DESCRIPTION)
    add = parser.add_argument
    add("config", help="configuration file (JSON)")
    add("--split_fn", dest="split_strategy", help="linear_split (default) or individual_split")
    add("--block_lim", type=int, help="most ops in a piece of linear_split (default 1024)")
    add("--print_meta", action="store_true", help="print the metadata of each piece")
    log.add_options(parser)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the tool; returns its exit code, raises HespasError."""
    options = arguments().parse_args(argv)

    from hespas.tools import published

    overrides = {"split_strategy": options.split_strategy, "block_lim": options.block_lim}
    found = published.read(options.config, overrides, estimates=False)
    program = published.required(found.config, "mlir_file", "", found.path)
    folder = published.required(found.config, "output_dir", "", found.path)

    from hespas.tools.commands import flow, mini_modules

    with log.opened(options) as note:
        for text in found.notes:
            note(f"note: {text}")
        split = published.split_pass(found.config)
        with flow.progress(quiet=options.log_level in log.QUIET) as before:
            outcome = flow.execute(flow.Plan(program, (split,)), note, before=before)
        pieces = list(mini_modules.pieces(outcome.module, program))
        mini_modules.write(Path(folder), pieces)
        if found.config.clean:
            published.clean(Path(folder), keep=mini_modules.OURS)
    print(f"Input file: {program}")
    print(f"Output directory: {folder}")
    print(f"Number of splits: {len(pieces)}")
    if options.print_meta:
        for piece in pieces:
            print(f"Module {piece.metadata['id']} metadata:")
            print(mini_modules.as_json(piece))
            print("=" * 80)
    return 0


def script() -> None:
    common.script(main)


if __name__ == "__main__":
    script()
