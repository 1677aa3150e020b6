"""What a module holds, found in one native walk, so that every step can skip what is absent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hespas.dialects.mlir import (
    PassManager,
    attribute,
    functions,
    has_private_symbol,
    ir,
    register_passes,
    symbol,
)
from hespas.dialects.ops import (
    CALLEE,
    CUSTOM_CALLS,
    FUSION,
    LOOPS,
    MAYBE_COLLECTIVE,
    entry,
    is_collective,
)

ASYNC = frozenset((
    "mhlo.async_start", "mhlo.async_update", "mhlo.async_done", "stablehlo.async_start",
    "stablehlo.async_done",
))  # fmt: skip
WANTED = MAYBE_COLLECTIVE | ASYNC | LOOPS | CALLEE.keys()
PLAIN_DIALECTS = ("stablehlo.", "mhlo.", "func.", "builtin.")


@dataclass(slots=True)
class Contents:
    """The ops of one function that a step may want, in program order."""

    function: ir.Operation
    ops: list[tuple[str, ir.Operation]] = field(default_factory=list)  # with their names
    callees: list[tuple[str, ir.Operation]] = field(default_factory=list)

    def named(self, *names: str) -> list[ir.Operation]:
        return [op for name, op in self.ops if name in names]

    def collectives(self) -> list[ir.Operation]:
        return [op for name, op in self.ops if name in MAYBE_COLLECTIVE and is_collective(op)]


@dataclass(slots=True)
class Census:
    """The functions that the entry reaches, entry first, and the ops in them by need."""

    entry: ir.Operation
    functions: dict[str, Contents]

    def ops(self, *names: str) -> list[ir.Operation]:
        return [op for found in self.functions.values() for op in found.named(*names)]

    def collectives(self) -> list[ir.Operation]:
        return [op for found in self.functions.values() for op in found.collectives()]

    def has(self, *prefixes: str) -> bool:
        """Whether there is an op whose name starts with one of ``prefixes``."""
        return any(name.startswith(prefixes) for f in self.functions.values() for name, _ in f.ops)


def take(module: ir.Module) -> Census:
    """Walk what the entry function reaches; private functions that nothing names are erased.

    XLA-optimised modules carry each fusion and reducer body a second time as a private function:
    three quarters of the text of such a module is dead.
    """
    main = entry(module)
    if not has_private_symbol(main):
        register_passes()
        manager = PassManager.parse("builtin.module(symbol-dce)", module.context)
        manager.enable_verifier(False)  # the pipeline verifies the outcome
        manager.run(module.operation)
    table = functions(module)
    found: dict[str, Contents] = {}
    pending = [symbol(main)]
    while pending:
        name = pending.pop()
        if name in found or name not in table:
            continue
        found[name] = contents = _contents(table[name])
        pending += [callee for callee, _ in contents.callees]
    return Census(main, found)


def _contents(function: ir.Operation) -> Contents:
    contents = Contents(function)
    ops, wanted = contents.ops, dict.fromkeys(WANTED, True)

    def visit(op: ir.Operation) -> ir.WalkResult:
        name = op.name
        keep = wanted.get(name)
        if keep is None:
            keep = wanted[name] = not name.startswith(PLAIN_DIALECTS)
        if keep:
            ops.append((name, op))
        # A fusion is one kernel: it neither communicates nor loops over what does.
        return ir.WalkResult.SKIP if name == FUSION else ir.WalkResult.ADVANCE

    function.walk(visit, ir.WalkOrder.PRE_ORDER)
    for name, op in ops:
        contents.callees += [(callee, op) for callee in _symbols(name, op)]
    return contents


def _symbols(name: str, op: ir.Operation) -> Iterator[str]:
    """The functions that an op names."""
    if name in CALLEE:
        yield attribute(op, CALLEE[name]).value
    elif name in CUSTOM_CALLS:
        if "called_computations" in op.attributes:
            for callee in attribute(op, "called_computations"):
                yield callee.value
    elif not name.startswith(PLAIN_DIALECTS):
        for key in op.attributes:
            attr = op.attributes[key]
            if isinstance(attr, ir.FlatSymbolRefAttr):
                yield attr.value
