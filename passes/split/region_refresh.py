"""Updates ``hespas.region`` after passes that know nothing of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from hespas.dialects.attrs import RegionAttr, SplitAttr
from hespas.dialects.mlir import collect_functions, get_attribute, ir, walk_operations
from hespas.estimators.op_content import OpContent
from hespas.passes.base import PassRun
from hespas.passes.split.region_digest import (
    OpContentTable,
    RegionDigester,
    build_function_key,
)
from hespas.support.records import record


def refresh_regions(module: ir.Module, run: PassRun) -> Mapping[str, Sequence[OpContent]]:
    """Make ``hespas.region`` describe the ops of a split module as they are.

    Counts and digests are computed again; a call that was copied or has no region gets a new id.
    Nothing is done if no other pass has run since the split.

    Returns:
        The contents of the ops of each region function, in order.
    """
    if not run.is_current(RegionAttr.NAME):
        run.contents.clear()
        run.entry_ops = None
        if SplitAttr.NAME in module.operation.attributes:
            _RegionRefresh(module, run).refresh_module()
            run.mark_current(RegionAttr.NAME)
    return run.contents


_Content = tuple[int, str]  # of a region: the number of its ops, and its digest


@record(slots=True)
class _RegionRefresh:
    module: ir.Module
    run: PassRun
    functions: dict[str, ir.Operation] = field(init=False)
    op_contents: OpContentTable = field(default_factory=OpContentTable)
    digester: RegionDigester = field(init=False)
    contents: dict[str, _Content] = field(default_factory=dict)
    used_ids: set[int] = field(default_factory=set)
    lowest_ids: dict[str, int] = field(default_factory=dict)
    without_id: list[tuple[ir.Operation, str, _Content]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.functions = collect_functions(self.module)
        self.digester = RegionDigester(self.functions, self.op_contents)

    def refresh_module(self) -> None:
        for function in self.functions.values():
            if RegionAttr.NAME not in function.attributes:
                walk_operations(function, self._refresh_op)
        for op, callee, content in self.without_id:
            self._write_region(op, callee, RegionAttr(max(self.used_ids, default=-1) + 1, *content))
        for name, content in self.contents.items():
            RegionAttr(self.lowest_ids[name], *content).write_to_op(self.functions[name])

    def _refresh_op(self, op: ir.Operation) -> ir.WalkResult:
        callee = get_attribute(op, "callee").value if op.name == "func.call" else ""
        is_region_call = (
            callee in self.functions and RegionAttr.NAME in self.functions[callee].attributes
        )
        if is_region_call or RegionAttr.NAME in op.attributes:
            old = RegionAttr.read_from_op(op)
            if is_region_call:
                content = self._describe_function(callee)
            else:
                digest = self.digester.digest_op(self.op_contents.find_content(op))
                callee, content = "", (1, digest)
            if old is None or old.id in self.used_ids:
                self.without_id.append((op, callee, content))
            else:
                self._write_region(op, callee, RegionAttr(old.id, *content))
        return ir.WalkResult.ADVANCE

    def _write_region(self, op: ir.Operation, callee: str, region: RegionAttr) -> None:
        self.used_ids.add(region.id)
        self.lowest_ids[callee] = min(region.id, self.lowest_ids.get(callee, region.id))
        region.write_to_op(op)

    def _describe_function(self, name: str) -> _Content:
        content = self.contents.get(name)
        if content is None:
            numbers: list[int] = []
            key = build_function_key(self.functions[name], self.op_contents, numbers)
            digest = self.digester.digest_region(key)
            content = self.contents[name] = len(key.ops), digest
            table = self.op_contents.contents
            self.run.contents[name] = [table[number] for number in numbers]
        return content
