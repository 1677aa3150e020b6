"""``hespas_mlir_splitter CONFIG``: write the parts of a program, like the published tool."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hespas.tools import console_scripts
from hespas.tools.commands.command_parser import CommandParser
from hespas.tools.published import log_options
from hespas.tools.terminal import show_progress

DESCRIPTION = """\
Split a program at its collectives, and write each part as mini_module_<i>.mlir and .json.
CONFIG contains mlir_file and output_dir; flags override it. Paths are relative to the current
folder.
"""


def build_parser() -> CommandParser:
    parser = CommandParser("hespas_mlir_splitter", DESCRIPTION)
    add = parser.add_argument
    add("config", help="configuration file (JSON)")
    add("--mlir_file", help="program in any format that hespas reads")
    add("--output", dest="output_dir", help="output folder")
    add("--split_fn", dest="split_strategy", help="linear_split (default) or individual_split")
    add("--block_lim", type=int, help="most ops in a part of linear_split (default 1024)")
    add("--print_meta", action="store_true", help="print the metadata of each part")
    log_options.add_log_options(parser)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the tool; returns its exit code, raises HespasError."""
    options = build_parser().parse_args(argv)

    from hespas.tools.published import published_config

    keys = ("mlir_file", "output_dir", "split_strategy", "block_lim")
    overrides = {key: getattr(options, key) for key in keys}
    config_file = published_config.read_published_config(options.config, overrides, estimates=False)
    program = published_config.require_config_value(
        config_file.config, "mlir_file", "or give --mlir_file", config_file.path
    )
    folder = published_config.require_config_value(
        config_file.config, "output_dir", "or give --output", config_file.path
    )

    from hespas.support.output_folder import check_writable_folder
    from hespas.tools.published import mini_modules
    from hespas.workflows import run_flow
    from hespas.workflows.run_plan import RunPlan

    check_writable_folder(folder, mini_modules.MINI_MODULES)
    with log_options.open_log(options) as note:
        for text in config_file.notes:
            note(f"note: {text}")
        split = published_config.build_split_pass(config_file.config)
        with show_progress(quiet=options.log_level in log_options.QUIET) as progress:
            plan = RunPlan(program, (split,))
            run = run_flow.create_pass_run(plan, note, progress)
            outcome = run_flow.execute_plan(plan, run)
        pieces = list(mini_modules.build_mini_modules(outcome.module, program))
        mini_modules.write_mini_modules(Path(folder), pieces, clean=config_file.config.clean)
    print(f"Parsing MLIR file: {program}")
    print(f"Output path: {folder}")
    print(f"Number of splits: {len(pieces)}")
    if options.print_meta:
        for piece in pieces:
            print(f"Module {piece.metadata['id']} metadata:")
            print(mini_modules.to_metadata_json(piece))
            print("=" * 80)
    return 0


def script() -> None:
    console_scripts.script(main)


if __name__ == "__main__":
    script()
