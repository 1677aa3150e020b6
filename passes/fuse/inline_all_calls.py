"""Inlining of all calls, so that kernels are formed across functions."""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.mlir import (
    collect_functions,
    find_ops,
    get_attribute,
    get_symbol_name,
    ir,
)
from hespas.dialects.op_kinds import find_entry_function
from hespas.passes.base import PassRun
from hespas.passes.fuse.block_pass import FuseStep
from hespas.passes.prepare.inline_calls import inline_call


class InlineAllCallsPass(FuseStep):
    """Inline all calls from the entry function, and erase the called functions."""

    name: ClassVar[str] = "inline-all-calls"

    def rewrite(self, module: ir.Module, view: list[ir.Block], run: PassRun) -> bool:
        inline_all_calls(module)
        return True


def inline_all_calls(module: ir.Module) -> None:
    """Inline all calls from the entry function, callees first, and erase the called functions.

    ``prepare`` has checked that each of them has a body, and that none calls itself.
    """
    functions = collect_functions(module)
    entry = get_symbol_name(find_entry_function(module))
    done: set[str] = set()

    def inline_callees(name: str) -> None:
        if name in done:
            return
        for call in find_ops(functions[name], ("func.call",)):
            callee = get_attribute(call, "callee").value
            inline_callees(callee)
            inline_call(call, functions[callee], last=False)
        done.add(name)

    inline_callees(entry)
    for name in done - {entry}:
        functions[name].erase()
