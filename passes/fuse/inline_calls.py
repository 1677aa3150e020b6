"""Every call to a function that only computes, by its body: a kernel may span a call."""

from __future__ import annotations

from hespas.dialects.mlir import (
    collect_func_calls,
    collect_functions,
    get_attribute,
    get_symbol_name,
    ir,
)
from hespas.dialects.op_bodies import splice_block_before
from hespas.dialects.op_kinds import find_entry_function
from hespas.support.errors import HespasError


def inline_calls(module: ir.Module) -> None:
    """Inline all calls, callees first, and drop the functions. Raises HespasError for recursion."""
    table = collect_functions(module)
    main = get_symbol_name(find_entry_function(module))
    done: set[str] = set()
    open_: list[str] = []

    def inline_callees(name: str) -> None:
        if name in done:
            return
        open_.append(name)
        for call in list(collect_func_calls(table[name])):
            callee = get_attribute(call, "callee").value
            if callee in open_:
                raise HespasError(f"the function @{callee} calls itself", op=call)
            if callee not in table or not len(table[callee].regions[0].blocks):
                continue
            inline_callees(callee)
            _inline_call(call, table[callee])
        open_.pop()
        done.add(name)

    inline_callees(main)
    for name in done - {main}:
        table[name].erase()


def _inline_call(call: ir.Operation, function: ir.Operation) -> None:
    copy = function.clone().operation
    _, values = splice_block_before(call, call.operands, copy.regions[0].blocks[0])
    for result, value in zip(call.results, values, strict=True):
        result.replace_all_uses_with(value)
    call.erase()
