"""Outlining: each region becomes a private function, and equal regions share one function."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hespas.dialects.attrs import Cost, RegionAttr
from hespas.dialects.mlir import collect_functions, func, ir
from hespas.dialects.op_bodies import list_captured_operands
from hespas.estimators.aggregate import aggregate_costs
from hespas.estimators.op_content import OpContent
from hespas.estimators.work import is_free_op_name
from hespas.passes.split.blocks import SplitBlock
from hespas.passes.split.region_digest import (
    InputRef,
    OpContentTable,
    RegionDigester,
    RegionKey,
)

HEAVY_OP = re.compile(r"\.(dot|convolution|fusion|custom_call|reduce|sort|scatter|gather)")


@dataclass(slots=True)
class RegionShape:
    """The key of one region of a block, and the values that the region reads and defines."""

    key: RegionKey
    inputs: list[ir.Value]
    outputs: list[ir.Value]


@dataclass(frozen=True, slots=True)
class RegionFunction:
    """A region function. ``cost`` is the sum of the costs of its ops, if all of them have one."""

    name: str
    region: RegionAttr
    cost: ir.DictAttr | None


@dataclass(slots=True)
class Outliner:
    """Turns the regions of a module's blocks into functions, one for each distinct region.

    Region ids count regions in the order in which they are outlined. ``region_contents`` receives
    the contents of the ops of each function, by function name, so that a later pass need not read
    them again.
    """

    module: ir.Module
    region_contents: dict[str, list[OpContent]] = field(default_factory=dict)
    _op_contents: OpContentTable = field(default_factory=OpContentTable)
    _digester: RegionDigester = field(init=False)
    _region_functions: dict[RegionKey, RegionFunction] = field(default_factory=dict)
    _used_names: set[str] = field(init=False)
    _next_id: int = 0

    def __post_init__(self) -> None:
        functions = collect_functions(self.module)
        self._digester = RegionDigester(functions, self._op_contents)
        self._used_names = set(functions)

    def outline_block_units(
        self, body: SplitBlock, units: Sequence[Sequence[int]], reorder: bool = False
    ) -> None:
        """Replace the units of a block by calls.

        Args:
            body: The block.
            units: Op indices of each unit, in the new order. A unit of one op stays in place and
                is marked as a region if it is a compute op; a longer unit becomes a call.
            reorder: Move all ops to the order of the units. Without it, a call takes the place
                of the last op of its unit, and the other ops stay where they are.
        """
        compute = set(body.compute_op_indices)
        unit_of = [-1] * len(body.ops)
        for u, unit in enumerate(units):
            for i in unit:
                unit_of[i] = u
        outputs = self._find_outputs(body, unit_of, len(units))
        terminator = body.ops[-1]
        replaced: dict[ir.Value, ir.Value] = {}
        for u, unit in enumerate(units):
            last = body.ops[unit[-1]]
            if len(unit) == 1:
                if reorder:
                    last.move_before(terminator)
                if unit[0] in compute:
                    digest = self._digester.digest_op(self._op_contents.find_content(last))
                    self._number_region(1, digest).write_to_op(last)
                continue
            shape = self._build_region_shape(body, unit, outputs[u])
            call = self._create_region_call(
                body, unit, shape, replaced, terminator if reorder else last
            )
            replaced.update(zip(shape.outputs, call.results, strict=True))
        for old, new in replaced.items():
            old.replace_all_uses_with(new)
        for unit in units:
            if len(unit) > 1:
                for i in reversed(unit):
                    body.ops[i].erase()
        for i in body.constants:
            if not any(True for _ in body.ops[i].results[0].uses):
                body.ops[i].erase()

    def _number_region(self, ops: int, digest: str) -> RegionAttr:
        self._next_id += 1
        return RegionAttr(self._next_id - 1, ops, digest)

    def _find_outputs(
        self, body: SplitBlock, unit_of: list[int], units: int
    ) -> list[dict[tuple[int, int], ir.Value]]:
        """Find the results of each unit that are read outside it, by (op index, result number).

        Args:
            body: The block.
            unit_of: The unit of each op; -1 if it has none.
            units: The number of units.
        """
        unit_outputs: list[dict[tuple[int, int], ir.Value]] = [{} for _ in range(units)]
        for i, places in enumerate(body.sources):
            reader = unit_of[i]
            for k, place in enumerate(places):
                if place is not None:
                    producer = unit_of[place[0]]
                    if producer not in (reader, -1):
                        unit_outputs[producer][place] = body.inputs[i][k]
        return unit_outputs

    def _build_region_shape(
        self, body: SplitBlock, unit: Sequence[int], outputs: dict[tuple[int, int], ir.Value]
    ) -> RegionShape:
        number_op = self._op_contents.number_op
        local_indices = {i: k for k, i in enumerate(unit)}
        inputs: dict[ir.Value, int] = {}
        ops = []
        for i in unit:
            refs: list[InputRef] = []
            for k, place in enumerate(body.sources[i]):
                if place is not None and place[0] in local_indices:
                    refs.append(("op", local_indices[place[0]], place[1]))
                elif place is not None and place[0] in body.constants:
                    refs.append(("const", number_op(body.ops[place[0]]), 0))
                else:
                    refs.append(("in", inputs.setdefault(body.inputs[i][k], len(inputs)), 0))
            ops.append((number_op(body.ops[i]), tuple(refs)))
        places = sorted(outputs)
        key = RegionKey(tuple(ops), tuple((local_indices[i], number) for i, number in places))
        return RegionShape(key, list(inputs), [outputs[place] for place in places])

    def _create_region_call(
        self,
        body: SplitBlock,
        unit: Sequence[int],
        shape: RegionShape,
        replaced: dict[ir.Value, ir.Value],
        before: ir.Operation,
    ) -> ir.Operation:
        """Create a call of the region's function, with the location of its first heavy op."""
        region_function = self._region_functions.get(shape.key)
        if region_function is None:
            region_function = self._create_region_function(body, unit, shape)
            self._region_functions[shape.key] = region_function
            region = region_function.region
        else:
            region = self._number_region(len(unit), region_function.region.digest)
        hero = next(
            (body.ops[i] for i in unit if HEAVY_OP.search(body.ops[i].name)), body.ops[unit[0]]
        )
        with ir.InsertionPoint(before), hero.location:
            call = func.CallOp(
                [value.type for value in shape.outputs],
                region_function.name,
                [replaced.get(value, value) for value in shape.inputs],
            ).operation
        region.write_to_op(call)
        if region_function.cost is not None:
            call.attributes[Cost.NAME] = region_function.cost
        return call

    def _create_region_function(
        self, body: SplitBlock, unit: Sequence[int], shape: RegionShape
    ) -> RegionFunction:
        region = self._number_region(len(unit), self._digester.digest_region(shape.key))
        name = base = f"region_{region.id}"
        count = 0
        while name in self._used_names:  # as MLIR's SymbolTable names clashes
            name, count = f"{base}_{count}", count + 1
        self._used_names.add(name)
        with ir.InsertionPoint(self.module.body), body.ops[unit[0]].location:
            kind = ir.FunctionType.get(
                [v.type for v in shape.inputs], [v.type for v in shape.outputs]
            )
            function = func.FuncOp(name, kind, visibility="private")
            block = function.add_entry_block()
        region.write_to_op(function.operation)
        values = dict(zip(shape.inputs, block.arguments, strict=True))
        self.region_contents[name] = self._copy_unit_ops(body, unit, shape.key, values, block)
        with ir.InsertionPoint(block), body.ops[unit[0]].location:
            func.ReturnOp([values[v] for v in shape.outputs])
        return RegionFunction(name, region, self._write_cost_sum(body, unit, function.operation))

    def _copy_unit_ops(
        self,
        body: SplitBlock,
        unit: Sequence[int],
        key: RegionKey,
        values: dict[ir.Value, ir.Value],
        block: ir.Block,
    ) -> list[OpContent]:
        """Clone the ops of a unit and the constants that they read into ``block``.

        ``values`` maps old values to new ones; the results of the clones are added to it. Returns
        the contents of the clones.
        """
        point = ir.InsertionPoint(block)
        op_contents = self._op_contents.contents
        contents: list[OpContent] = []
        for i, (number, refs) in zip(unit, key.ops, strict=True):
            op = body.ops[i]
            for value, place, ref in zip(body.inputs[i], body.sources[i], refs, strict=True):
                if place is not None and value not in values:
                    constant = body.ops[place[0]]
                    values[value] = constant.clone(point).operation.results[0]
                    contents.append(op_contents[ref[1]])
            inputs = [values[value] for value in body.inputs[i]]
            clone = op.clone(point).operation
            operand_count = len(op.operands)
            for k in range(operand_count):
                clone.operands[k] = inputs[k]
            if len(inputs) > operand_count:
                for (inner, k, _), value in zip(
                    list_captured_operands(clone), inputs[operand_count:], strict=True
                ):
                    inner.operands[k] = value
            values.update(zip(op.results, clone.results, strict=True))
            contents.append(op_contents[number])
        return contents

    def _write_cost_sum(
        self, body: SplitBlock, unit: Sequence[int], function: ir.Operation
    ) -> ir.DictAttr | None:
        """Write the sum of the ops' costs on the function, if every op has a cost or is free."""
        ops = [body.ops[i] for i in unit]
        costs = [Cost.read_from_op(op) for op in ops]
        known_costs = [cost for cost in costs if cost is not None]
        is_complete = all(
            cost is not None or is_free_op_name(op.name)
            for op, cost in zip(ops, costs, strict=True)
        )
        if not known_costs or not is_complete:
            return None
        attr = aggregate_costs(known_costs).to_dictionary_attr(self.module.context)
        function.attributes[Cost.NAME] = attr
        return attr
