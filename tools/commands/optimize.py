"""``hespas optimize``: optimise a program with XLA for a target device; no device needed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hespas.tools.commands.command_parser import CommandParser
from hespas.tools.commands.shared_flags import add_module_flags

if TYPE_CHECKING:
    from hespas.dialects.mlir import ir

DESCRIPTION = """\
Optimise a program with XLA for a CPU, GPU or TPU, and write the module: fusions as mhlo.fusion,
library kernels as custom calls, combined collectives. Programs with global shapes are partitioned.
The device is not needed, but its compiler is: pip install 'hespas[gpu-compiler]' or
'hespas[tpu-compiler]'.

  hespas optimize program.mlir --target H100_80GB -o optimised.mlir
"""
METAVARS: dict[type, str] = {int: "N", float: "S"}  # the only option with a fraction is a time
MAX_LISTED_KINDS = 4  # kinds of ops in the summary


def build_parser() -> CommandParser:
    """Build the parser, with a flag for each option of the pass ``xla-optimize``."""
    from hespas.passes.optimize.xla_optimize import XlaOptimizePass

    parser = CommandParser("hespas optimize", DESCRIPTION)
    add_module_flags(parser, selects_form=True)
    add = parser.add_argument
    for spelled, field in XlaOptimizePass.list_spelled_options():
        is_flag = isinstance(field.default, bool)
        default = str(field.default).lower() if is_flag else field.default
        text = (
            f"{field.metadata['help']}{f' (default {default})' if default not in ('', 0) else ''}"
        )
        if is_flag:
            add(f"--{spelled}", nargs="?", const="true", metavar="true|false", help=text)
        else:
            word = METAVARS.get(type(default), spelled.rpartition("-")[2].upper())
            add(f"--{spelled}", metavar=word, help=text)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    command_line = build_parser().parse_args(list(argv))

    from hespas import frontends
    from hespas.dialects.mlir import make_context
    from hespas.passes import pipeline
    from hespas.passes.base import PassRun, build_pass, print_note, spell_as_flag
    from hespas.passes.optimize.xla_optimize import XlaOptimization, XlaOptimizePass
    from hespas.support import output_file
    from hespas.workflows.module_output import encode_module, write_file_or_stdout

    options = {
        spelled: value
        for spelled, _ in XlaOptimizePass.list_spelled_options()
        if (value := getattr(command_line, spelled.replace("-", "_"))) is not None
    }
    step = build_pass(XlaOptimizePass, options)
    if command_line.output != "-":
        output_file.check_writable_file(command_line.output)
    name = "<stdin>" if command_line.input == "-" else frontends.to_display_name(command_line.input)
    module = frontends.read_module(command_line.input, make_context())
    run = PassRun(input_name=name, note=print_note, spell_option=spell_as_flag)
    pipeline.run_pipeline(module, [step], run)
    data = encode_module(
        module,
        command_line.output,
        locations=command_line.mlir_print_debuginfo,
        bytecode=command_line.emit_bytecode,
    )
    write_file_or_stdout(command_line.output, data)
    optimization = run.get_artefact(XlaOptimization)
    print(
        f"{optimization.target}, {optimization.devices} devices, {optimization.seconds:.1f} s: "
        f"{_summarise_ops(module)}",
        file=sys.stderr,
    )
    return 0


def _summarise_ops(module: ir.Module) -> str:
    """Format the number of ops in the entry function, and its most frequent kinds."""
    from hespas.dialects.op_kinds import find_entry_function

    block = find_entry_function(module).regions[0].blocks[0]
    counts = Counter(view.operation.name for view in block.operations)
    most = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MAX_LISTED_KINDS]
    return f"{counts.total()} ops, {', '.join(f'{count} {name}' for name, count in most)}"
