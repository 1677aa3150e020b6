"""Writes the parts of a split module as separate modules, like the published splitter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hespas.dialects.attrs import COMMUNICATORS, WAIT, CommAttr, RegionAttr, TargetAttr
from hespas.dialects.mlir import collect_functions, func, ir
from hespas.dialects.op_kinds import CALLEE, NUM_PARTITIONS, NUM_REPLICAS, find_entry_function
from hespas.support.folder_manifest import OutputSet
from hespas.support.output_folder import open_output_folder

COPIED_ATTRIBUTES = (COMMUNICATORS, TargetAttr.NAME, NUM_PARTITIONS, NUM_REPLICAS)
STEM = "mini_module_"
MINI_MODULES = OutputSet("mini modules", re.compile(rf"{STEM}\d+\.(mlir|json)"))


@dataclass(frozen=True)
class MiniModule:
    """One part of a module: its text, and its metadata with the published keys."""

    text: str
    metadata: dict[str, Any]


def build_mini_modules(module: ir.Module, parent: str) -> Iterator[MiniModule]:
    """Build the regions, collectives and loops with collectives of the entry function, in order."""
    table = collect_functions(module)
    builder = _MiniModuleBuilder(module, table)
    number = 0
    for view in find_entry_function(module).regions[0].blocks[0].operations:
        op = view.operation
        kind = _classify_block(op)
        if not kind:
            continue
        region, comm = RegionAttr.read_from_op(op), CommAttr.read_from_op(op)
        metadata = {
            "block_type": kind,
            "input_dims": [str(value.type) for value in builder.collect_inputs(op)],
            "output_dims": [str(value.type) for value in op.results],
            "module_file": f"{STEM}{number}.mlir",
            "op_count": region.ops if region else 1,
            "parent_module": parent,
            "collective": op.name if comm else None,
            "id": number,
        }
        yield MiniModule(builder.build_piece_text(op), metadata)
        number += 1


def _classify_block(op: ir.Operation) -> str:
    """Return the block type, or "" for ops that are not written: waits, constants, the return."""
    attributes = op.attributes
    if RegionAttr.NAME in attributes:
        return "COMP_NODE"
    if CommAttr.NAME in attributes:
        return "COMM_COLL_NODE"
    holds_pieces = len(op.regions) and WAIT not in attributes
    return "CONTROL_NODE" if holds_pieces else ""


class _MiniModuleBuilder:
    def __init__(self, module: ir.Module, table: dict[str, ir.Operation]) -> None:
        self.module = module
        self.table = table
        self.texts_by_function: dict[str, str] = {}

    def collect_inputs(self, op: ir.Operation) -> list[ir.Value]:
        from hespas.dialects.op_bodies import list_read_values

        return list(dict.fromkeys(list_read_values(op)))

    def build_piece_text(self, op: ir.Operation) -> str:
        if op.name != "func.call":
            return self._build_around_op(op)
        attributes: Any = op.attributes
        name = attributes["callee"].value
        if name not in self.texts_by_function:
            self.texts_by_function[name] = self._build_from_function(name)
        return self.texts_by_function[name]

    def _build_from_function(self, name: str) -> str:
        new, point = self._create_empty_module()
        main = self.table[name].clone(point).operation
        main.attributes["sym_name"] = ir.StringAttr.get("main", new.context)
        del main.attributes["sym_visibility"]
        return self._finish_module_text(new, main, {name})

    def _build_around_op(self, op: ir.Operation) -> str:
        """Build a module whose main function contains only a copy of ``op``."""
        from hespas.dialects.op_bodies import list_captured_operands

        new, point = self._create_empty_module()
        inputs = self.collect_inputs(op)
        with point, op.location:
            types = [v.type for v in inputs], [r.type for r in op.results]
            main = func.FuncOp("main", ir.FunctionType.get(*types))
            block = main.add_entry_block()
        arguments = dict(zip(inputs, block.arguments, strict=True))
        inner_point = ir.InsertionPoint(block)
        clone = op.clone(inner_point).operation
        for k, value in enumerate(op.operands):
            clone.operands[k] = arguments[value]
        for user, k, value in list_captured_operands(clone):
            if value in arguments:
                user.operands[k] = arguments[value]
        with inner_point, op.location:
            func.ReturnOp(list(clone.results))
        return self._finish_module_text(new, main.operation, set())

    def _create_empty_module(self) -> tuple[ir.Module, ir.InsertionPoint]:
        with self.module.context:
            new = ir.Module.create(ir.Location.unknown())
        for name in COPIED_ATTRIBUTES:
            if name in self.module.operation.attributes:
                new.operation.attributes[name] = self.module.operation.attributes[name]
        return new, ir.InsertionPoint(new.body)

    def _finish_module_text(self, new: ir.Module, main: ir.Operation, present: set[str]) -> str:
        """Add the functions that ``main`` calls, and print the module."""
        point = ir.InsertionPoint(new.body)
        waiting = list(_collect_callees(main))
        while waiting:
            name = waiting.pop()
            if name not in present and name in self.table:
                present.add(name)
                waiting += _collect_callees(self.table[name].clone(point).operation)
        return str(new.operation.get_asm(assume_verified=True))


def _collect_callees(op: ir.Operation) -> Iterator[str]:
    callees: list[str] = []

    def visit_op(inner: ir.Operation) -> ir.WalkResult:
        attributes: Any = inner.attributes
        if inner.name in CALLEE and CALLEE[inner.name] in attributes:
            callees.append(attributes[CALLEE[inner.name]].value)
        elif "called_computations" in attributes:
            callees.extend(symbol.value for symbol in attributes["called_computations"])
        return ir.WalkResult.ADVANCE

    op.walk(visit_op)
    yield from callees


def write_mini_modules(folder: Path, mini_modules: list[MiniModule], *, clean: bool) -> None:
    """Write ``mini_module_<i>.mlir`` and ``.json``, all or none; earlier ones are removed.

    Args:
        clean: Whether the other outputs of hespas in the folder are removed too.

    Raises:
        HespasError: A file cannot be written.
    """
    with open_output_folder(folder, MINI_MODULES, clean=clean) as fresh:
        for piece in mini_modules:
            stem = f"{STEM}{piece.metadata['id']}"
            (fresh / f"{stem}.mlir").write_text(piece.text, "utf-8")
            (fresh / f"{stem}.json").write_text(to_metadata_json(piece), "utf-8")


def to_metadata_json(piece: MiniModule) -> str:
    """Format the metadata as JSON."""
    return json.dumps(piece.metadata, indent=4)
