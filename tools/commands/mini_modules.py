"""The pieces of a split module as modules of their own, with what the published splitter tells."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hespas.dialects.attrs import COMMUNICATORS, WAIT, Comm, Region, Target
from hespas.dialects.mlir import func, functions, ir
from hespas.dialects.ops import CALLEE, entry
from hespas.passes.emit.folder import output_folder

KEPT = (COMMUNICATORS, Target.NAME, "mhlo.num_partitions", "mhlo.num_replicas")
STEM = "mini_module_"
OURS = re.compile(rf"{STEM}\d+\.(mlir|json)")


@dataclass(frozen=True)
class MiniModule:
    """One piece: its text, and its metadata with the published keys."""

    text: str
    metadata: dict[str, Any]


def pieces(module: ir.Module, parent: str) -> Iterator[MiniModule]:
    """Regions, collectives and loops around collectives of the entry function, in program order."""
    table = functions(module)
    builder = _Builder(module, table)
    number = 0
    for view in entry(module).regions[0].blocks[0].operations:
        op = view.operation
        kind = _kind(op)
        if not kind:
            continue
        region, comm = Region.of(op), Comm.of(op)
        metadata = {
            "block_type": kind,
            "input_dims": [str(value.type) for value in builder.inputs(op)],
            "output_dims": [str(value.type) for value in op.results],
            "module_file": f"{STEM}{number}.mlir",
            "op_count": region.ops if region else 1,
            "parent_module": parent,
            "collective": op.name if comm else None,
            "id": number,
        }
        yield MiniModule(builder.text(op), metadata)
        number += 1


def _kind(op: ir.Operation) -> str:
    """The block type, or "" for what is no piece: waits, constants that are cloned, the return."""
    attributes = op.attributes
    if Region.NAME in attributes:
        return "COMP_NODE"
    if Comm.NAME in attributes:
        return "COMM_COLL_NODE"
    holds_pieces = len(op.regions) and WAIT not in attributes
    return "CONTROL_NODE" if holds_pieces else ""


class _Builder:
    def __init__(self, module: ir.Module, table: dict[str, ir.Operation]) -> None:
        self.module = module
        self.table = table
        self.of_function: dict[str, str] = {}

    def inputs(self, op: ir.Operation) -> list[ir.Value]:
        from hespas.passes.split.blocks import reads

        return list(dict.fromkeys(reads(op)))

    def text(self, op: ir.Operation) -> str:
        if op.name != "func.call":
            return self._around(op)
        attributes: Any = op.attributes
        name = attributes["callee"].value
        if name not in self.of_function:
            self.of_function[name] = self._from_function(name)
        return self.of_function[name]

    def _from_function(self, name: str) -> str:
        new, point = self._empty()
        main = self.table[name].clone(point).operation
        main.attributes["sym_name"] = ir.StringAttr.get("main", new.context)
        del main.attributes["sym_visibility"]
        return self._finished(new, main, {name})

    def _around(self, op: ir.Operation) -> str:
        """A module whose main function holds a copy of ``op`` alone."""
        from hespas.passes.split.blocks import captures

        new, point = self._empty()
        inputs = self.inputs(op)
        with point, op.location:
            types = [v.type for v in inputs], [r.type for r in op.results]
            main = func.FuncOp("main", ir.FunctionType.get(*types))
            block = main.add_entry_block()
        arguments = dict(zip(inputs, block.arguments, strict=True))
        inner_point = ir.InsertionPoint(block)
        clone = op.clone(inner_point).operation
        for k, value in enumerate(op.operands):
            clone.operands[k] = arguments[value]
        for user, k, value in captures(clone):
            if value in arguments:
                user.operands[k] = arguments[value]
        with inner_point, op.location:
            func.ReturnOp(list(clone.results))
        return self._finished(new, main.operation, set())

    def _empty(self) -> tuple[ir.Module, ir.InsertionPoint]:
        with self.module.context:
            new = ir.Module.create(ir.Location.unknown())
        for name in KEPT:
            if name in self.module.operation.attributes:
                new.operation.attributes[name] = self.module.operation.attributes[name]
        return new, ir.InsertionPoint(new.body)

    def _finished(self, new: ir.Module, main: ir.Operation, present: set[str]) -> str:
        """Add the functions that ``main`` needs, and print."""
        point = ir.InsertionPoint(new.body)
        waiting = list(_callees(main))
        while waiting:
            name = waiting.pop()
            if name not in present and name in self.table:
                present.add(name)
                waiting += _callees(self.table[name].clone(point).operation)
        return str(new.operation.get_asm(assume_verified=True))


def _callees(op: ir.Operation) -> Iterator[str]:
    found: list[str] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        attributes: Any = inner.attributes
        if inner.name in CALLEE and CALLEE[inner.name] in attributes:
            found.append(attributes[CALLEE[inner.name]].value)
        elif "called_computations" in attributes:
            found.extend(symbol.value for symbol in attributes["called_computations"])
        return ir.WalkResult.ADVANCE

    op.walk(visit)
    yield from found


def write(folder: Path, found: list[MiniModule]) -> None:
    """Write ``mini_module_<i>.mlir`` and ``.json``, all or none; those of an earlier split go.

    Raises HespasError.
    """
    with output_folder(folder, ours=OURS) as fresh:
        for piece in found:
            stem = f"{STEM}{piece.metadata['id']}"
            (fresh / f"{stem}.mlir").write_text(piece.text, "utf-8")
            (fresh / f"{stem}.json").write_text(as_json(piece), "utf-8")


def as_json(piece: MiniModule) -> str:
    """The metadata as text."""
    return json.dumps(piece.metadata, indent=4)
