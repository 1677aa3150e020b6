"""Passes as other people write them: right ones, and ones that make mistakes.

The folder is on the path of the tests, and the ``.dist-info`` beside this file makes it an
installed package.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from hespas.passes.annotate.refresh_costs import RefreshCostsPass
from hespas.plugin import HespasError, Pass, PassRun, ir, option, refresh_costs


def select_ops(module: ir.Module, name: str) -> list[ir.Operation]:
    """List the ops with this name, nested ones included."""
    return [op for op in _iterate_ops(module.operation) if op.name == name]


def _iterate_ops(op: ir.Operation) -> Iterator[ir.Operation]:
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                yield view.operation
                yield from _iterate_ops(view.operation)


@dataclass(frozen=True)
class SetTripsPass(Pass):
    """Set the trip count of every loop, after costs have been read."""

    name: ClassVar[str] = "guest-set-trips"

    count: int = option(100, "trip count")
    again: bool = option(False, "bring costs up to date after the change too")

    def apply(self, module: ir.Module, run: PassRun) -> None:
        refresh_costs(module, run)
        kind = ir.IntegerType.get_signless(64, module.context)
        for loop in select_ops(module, "stablehlo.while"):
            loop.attributes["hespas.trips"] = ir.IntegerAttr.get(kind, self.count)
        if self.again:
            refresh_costs(module, run)


@dataclass(frozen=True)
class FuseChainPass(Pass):
    """Replace an add and the multiplication that alone reads it by one mhlo.fusion."""

    name: ClassVar[str] = "guest-fuse-chain"

    def apply(self, module: ir.Module, run: PassRun) -> None:
        refresh_costs(module, run)
        (add,) = select_ops(module, "stablehlo.add")
        (multiply,) = select_ops(module, "stablehlo.multiply")
        inputs, kind = [*add.operands, multiply.operands[1]], multiply.results[0].type
        with ir.InsertionPoint(multiply), multiply.location as location:
            fusion = ir.Operation.create("mhlo.fusion", results=[kind], operands=inputs, regions=1)
            body = fusion.regions[0].blocks.append(*[kind] * 3, arg_locs=[location] * 3)
            a, b, c = body.arguments
            with ir.InsertionPoint(body):
                total = ir.Operation.create("stablehlo.add", results=[kind], operands=[a, b])
                product = ir.Operation.create(
                    "stablehlo.multiply", results=[kind], operands=[total.results[0], c]
                )
                ir.Operation.create("mhlo.return", operands=[product.results[0]])
        multiply.results[0].replace_all_uses_with(fusion.results[0])
        multiply.erase()
        add.erase()


@dataclass(frozen=True)
class DropShapePass(Pass):
    """Give adds a result of another shape, so that the module is invalid."""

    name: ClassVar[str] = "guest-drop-shape"

    def apply(self, module: ir.Module, run: PassRun) -> None:
        for op in select_ops(module, "stablehlo.add"):
            op.results[0].set_type(ir.Type.parse("tensor<7xf32>", module.context))


@dataclass(frozen=True)
class RefuseTanhPass(Pass):
    """Raise HespasError inside ``Operation.walk``."""

    name: ClassVar[str] = "guest-refuse-tanh"

    def apply(self, module: ir.Module, run: PassRun) -> None:
        def visit_op(op: ir.Operation) -> ir.WalkResult:
            if op.name == "stablehlo.tanh":
                raise HespasError("this device has no tanh", op=op, remedy="use another one")
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit_op)


@dataclass(frozen=True)
class MisspellCostPass(Pass):
    """Write a cost that violates the schema on every tanh."""

    name: ClassVar[str] = "guest-misspell-cost"

    def apply(self, module: ir.Module, run: PassRun) -> None:
        for op in select_ops(module, "stablehlo.tanh"):
            op.attributes["hespas.cost"] = ir.Attribute.parse('{flops = "many"}', module.context)


@dataclass(frozen=True)
class MarkPass(Pass):
    """Put a discardable attribute of another dialect on ops."""

    name: ClassVar[str] = "guest-mark"

    op: str = option("stablehlo.tanh", "name of the ops")
    attribute: str = option("guest.hot", "name of the attribute")

    def apply(self, module: ir.Module, run: PassRun) -> None:
        for op in select_ops(module, self.op):
            op.attributes[self.attribute] = ir.UnitAttr.get(module.context)


@dataclass(frozen=True)
class RefuseFunctionPass(Pass):
    """Raise HespasError with an OpView, which blocks iterate over, instead of an Operation."""

    name: ClassVar[str] = "guest-refuse-function"

    def apply(self, module: ir.Module, run: PassRun) -> None:
        raise HespasError("no function is supported", op=module.body.operations[0])


@dataclass(frozen=True)
class CountTanhPass(Pass):
    """Return the number of tanh, in a walk that is not interrupted."""

    name: ClassVar[str] = "guest-count-tanh"

    def apply(self, module: ir.Module, run: PassRun) -> int:
        count = len(select_ops(module, "stablehlo.tanh"))
        run.note(f"{self.name}: {count}")
        return count


@dataclass(frozen=True)
class FailPass(Pass):
    """Raise an exception of Python or of the bindings, or emit errors of MLIR and go on."""

    name: ClassVar[str] = "guest-fail"

    how: str = option("key", "key, walk, lines, bindings, file, exit or emit")

    def apply(self, module: ir.Module, run: PassRun) -> None:
        if self.how == "walk":
            module.operation.walk(self.visit_op)
        elif self.how == "lines":
            raise ValueError("first line\nsecond line")
        elif self.how == "bindings":
            ir.Type.parse("tensor<", module.context)
        elif self.how == "file":
            Path("no/such/file").read_text()
        elif self.how == "exit":
            sys.exit(3)
        elif self.how == "emit":
            for op in select_ops(module, "stablehlo.tanh"):
                op.location.emit_error("tanh is slow")
            return
        self.visit_op(module.operation)

    def visit_op(self, op: ir.Operation) -> ir.WalkResult:
        prices: dict[str, int] = {}
        return ir.WalkResult.ADVANCE if prices[op.name] else ir.WalkResult.SKIP


class DeriveRefreshPass(RefreshCostsPass):
    """Square every tanh before the costs are brought up to date as hespas does it."""

    name: ClassVar[str] = "guest-derive-refresh"

    def apply(self, module: ir.Module, run: PassRun) -> None:
        for op in select_ops(module, "stablehlo.tanh"):
            with ir.InsertionPoint(op), op.location:
                operands = [op.operands[0]] * 2
                square = ir.Operation.create(
                    "stablehlo.multiply", results=[op.results[0].type], operands=operands
                )
            op.operands[0] = square.results[0]
        RefreshCostsPass.apply(self, module, run)


@dataclass(frozen=True)
class OptionsPass(Pass):
    """Have options of several types, some of which no text can set."""

    name: ClassVar[str] = "guest-options"

    mode: Literal["fast", "slow"] = option("fast", "one of two words")
    level: Literal[1, 2] = option(1, "one of two numbers")
    folder: Path = option(Path(), "neither a text nor a number")  # noqa: RUF009
    sizes: tuple[int, ...] = option((), "a list")

    def __post_init__(self) -> None:
        if self.level == 2 and self.mode == "fast":
            raise ValueError("level 2 is for the mode slow")

    def apply(self, module: ir.Module, run: PassRun) -> None:
        run.note(f"{self.name}: {self}")


@dataclass(frozen=True)
class UnknownTypePass(Pass):
    """Declare an option of a type that only a type checker knows."""

    name: ClassVar[str] = "guest-unknown-type"

    size: "Size" = option(1, "a size")  # type: ignore[name-defined]  # noqa: F821, RUF009, UP037

    def apply(self, module: ir.Module, run: PassRun) -> None:
        pass


@dataclass(frozen=True)
class KeepTextPass(Pass):
    """Declare what it keeps as a text instead of a set."""

    name: ClassVar[str] = "guest-keep-text"
    keeps: ClassVar[Any] = "hespas.cost"

    def apply(self, module: ir.Module, run: PassRun) -> None:
        pass


class UndecoratedPass(Pass):
    """Declare an option without the decorator that makes it one."""

    name: ClassVar[str] = "guest-undecorated"

    count: int = option(1, "number of ops")

    def apply(self, module: ir.Module, run: PassRun) -> None:
        run.note(f"{self.count}")


class UnfinishedPass(Pass):
    """Have no method that does anything."""

    name: ClassVar[str] = "guest-unfinished"
