"""What the ``inline`` of MLIR does to calls of ``func``, which the one of jaxlib leaves."""

from __future__ import annotations

from hespas.dialects.mlir import (
    collect_functions,
    find_ops,
    get_attribute,
    has_private_symbol,
    ir,
    walk_operations,
)
from hespas.passes.prepare.census import find_callees
from hespas.passes.prepare.inline_calls import inline_call

NO_INLINE = "no_inline"  # an attribute of calls and functions that MLIR's inliner leaves


def inline_func_calls(module: ir.Module) -> list[ir.Operation]:
    """Inline the calls of ``func``, callees first, and erase private functions that were inlined.

    As in MLIR, calls of functions without a body or that call themselves stay, and so do those that
    are marked so.

    Returns:
        The calls that stay because their functions have several blocks, which MLIR inlines.
    """
    functions = collect_functions(module)
    inlined: set[str] = set()
    left: list[ir.Operation] = []
    done: set[str] = set()

    def inline_callees(name: str, callers: tuple[str, ...]) -> None:
        for call in find_ops(functions[name], ("func.call",)):
            callee = get_attribute(call, "callee").value
            if callee not in functions or callee in callers:
                continue
            if callee not in done:
                inline_callees(callee, (*callers, callee))
            function = functions[callee]
            blocks = len(function.regions[0].blocks)
            if not blocks or NO_INLINE in call.attributes or NO_INLINE in function.attributes:
                continue
            if blocks > 1:
                left.append(call)
            elif callee not in _list_callees(function):
                inline_call(call, function, last=False)
                inlined.add(callee)
        done.add(name)

    for name in functions:
        if name not in done:
            inline_callees(name, (name,))
    pending = inlined
    while pending:
        used = _collect_symbols(module)
        dead = [n for n in pending if n not in used and has_private_symbol(functions[n])]
        for name in dead:
            functions[name].erase()
        pending = pending.difference(dead) if dead else set()
    return left


def _list_callees(function: ir.Operation) -> set[str]:
    return {get_attribute(call, "callee").value for call in find_ops(function, ("func.call",))}


def _collect_symbols(module: ir.Module) -> set[str]:
    """Collect the names of the symbols that ops refer to."""
    names: set[str] = set()

    def add_names(op: ir.Operation) -> ir.WalkResult:
        names.update(find_callees(op.name, op))
        return ir.WalkResult.ADVANCE

    walk_operations(module.operation, add_names)
    return names
