"""Every call to a function that only computes, by its body: a kernel may span a call."""

from __future__ import annotations

from hespas.dialects.errors import HespasError
from hespas.dialects.mlir import attribute, calls, functions, ir, symbol
from hespas.dialects.ops import entry
from hespas.passes.prepare.inline import splice


def inline_calls(module: ir.Module) -> None:
    """Inline all calls, callees first, and drop the functions. Raises HespasError for recursion."""
    table = functions(module)
    main = symbol(entry(module))
    done: set[str] = set()
    open_: list[str] = []

    def visit(name: str) -> None:
        if name in done:
            return
        open_.append(name)
        for call in list(calls(table[name])):
            callee = attribute(call, "callee").value
            if callee in open_:
                raise HespasError(f"the function @{callee} calls itself", op=call)
            if callee not in table or not len(table[callee].regions[0].blocks):
                continue
            visit(callee)
            _inline(call, table[callee])
        open_.pop()
        done.add(name)

    visit(main)
    for name in done - {main}:
        table[name].erase()


def _inline(call: ir.Operation, function: ir.Operation) -> None:
    copy = function.clone().operation
    _, values = splice(call, call.operands, copy.regions[0].blocks[0])
    for result, value in zip(call.results, values, strict=True):
        result.replace_all_uses_with(value)
    call.erase()
