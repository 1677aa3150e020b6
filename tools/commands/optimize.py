"""``hespas optimize``: what XLA makes of a program, for a device that need not be there."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hespas.tools.commands.parser import Parser

if TYPE_CHECKING:
    from hespas.dialects.mlir import ir

DESCRIPTION = """\
Optimise a program by XLA itself, for a CPU or a GPU that need not be there, and write the module:
fusions as mhlo.fusion, cuBLAS and cuDNN as custom calls, collectives combined. Global shapes are
partitioned on the way. GPUs need: pip install 'hespas[gpu-compiler]'.

  hespas optimize program.mlir --target H100_80GB -o optimised.mlir
"""
SHOWN = 4


def arguments() -> Parser:
    """The parser: a flag for each option of the pass ``xla-optimize``."""
    from hespas.passes.optimize.xla_optimize import XlaOptimizePass

    parser = Parser("hespas optimize", DESCRIPTION)
    add = parser.add_argument
    add("input", nargs="?", default="-", help="module to read; - for stdin (default)")
    add("-o", dest="output", default="-", metavar="FILE", help="write the module here")
    add("--emit-bytecode", action="store_true", help="write MLIR bytecode")
    add("--mlir-print-debuginfo", action="store_true", help="print locations")
    for spelled, field in XlaOptimizePass.options():
        is_flag = isinstance(field.default, bool)
        default = str(field.default).lower() if is_flag else field.default
        text = (
            f"{field.metadata['help']}{f' (default {default})' if default not in ('', 0) else ''}"
        )
        if is_flag:
            add(f"--{spelled}", nargs="?", const="true", metavar="true|false", help=text)
        else:
            add(f"--{spelled}", metavar=spelled.rpartition("-")[2].upper(), help=text)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    given = arguments().parse_args(list(argv))

    from hespas import frontends
    from hespas.dialects.mlir import make_context
    from hespas.passes import pipeline
    from hespas.passes.base import Run, build
    from hespas.passes.emit import file
    from hespas.passes.optimize.xla_optimize import RESULTS, XlaOptimizePass
    from hespas.tools.modules import bytecode, put, text

    names = {spelled: spelled.replace("-", "_") for spelled, _ in XlaOptimizePass.options()}
    options = {
        spelled: getattr(given, name)
        for spelled, name in names.items()
        if getattr(given, name) is not None
    }
    step = build(XlaOptimizePass, options)
    if given.output != "-":
        file.check(given.output)
    name = "<stdin>" if given.input == "-" else frontends.shown(given.input)
    module = frontends.read(given.input, make_context())
    run = Run(input_name=name)
    pipeline.run(module, [step], run)
    locations = given.mlir_print_debuginfo
    data = bytecode(module) if given.emit_bytecode else text(module, locations=locations)
    put(given.output, data)
    found = run.results[RESULTS]
    print(
        f"{found['target']}, {found['devices']} devices, {found['seconds']:.1f} s: "
        f"{summary(module)}",
        file=sys.stderr,
    )
    return 0


def summary(module: ir.Module) -> str:
    """How many ops the entry has, and of which kinds most."""
    from hespas.dialects.ops import entry

    block = entry(module).regions[0].blocks[0]
    counts = Counter(view.operation.name for view in block.operations)
    most = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:SHOWN]
    return f"{counts.total()} ops, {', '.join(f'{count} {name}' for name, count in most)}"
