"""Outlining: each region becomes a private function, and equal regions share one function."""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping, Sequence
from dataclasses import field

from hespas.dialects.attrs import Cost, RegionAttr
from hespas.dialects.mlir import (
    collect_functions,
    func,
    ir,
)
from hespas.dialects.op_bodies import list_captured_operands
from hespas.dialects.op_table import NumberRows
from hespas.estimators.aggregate import aggregate_costs
from hespas.estimators.op_content import OpContent
from hespas.estimators.work import is_free_op_name
from hespas.passes.base import EntryOps
from hespas.passes.split.blocks import SplitBlock
from hespas.passes.split.region_digest import (
    CONSTANT_SOURCE,
    FlowWriter,
    OpContentTable,
    RegionDigester,
    RegionKey,
)
from hespas.support.records import record

HEAVY_OP = re.compile(r"\.(dot|convolution|fusion|custom_call|reduce|sort|scatter|gather)")


@record(slots=True)
class RegionShape:
    """The key of one region of a block, and the numbers of the values that it reads and defines.

    ``contents`` holds the numbers of its ops and of the constants that are cloned into it, each
    before its first reader, and ``readers`` the indices of the ops that read inputs or constants.
    """

    key: RegionKey
    inputs: list[int]
    outputs: list[int]
    contents: list[int]
    readers: set[int]


@record(frozen=True, slots=True)
class RegionFunction:
    """A region function. ``cost`` is the sum of the costs of its ops, if all of them have one."""

    name: str
    region: RegionAttr
    kind: ir.FunctionType
    cost: ir.DictAttr | None


@record(slots=True)
class _RegionCalls:
    """The calls that replace the units of a block.

    Invariant: a call's results are the outputs of its unit in the order of their numbers, so that
    the result that replaces a value is found without a table of all values, which would hold 0.3 kB
    for each.

    Attributes:
        body: The block.
        unit_of: The unit of each op; -1 if it has none.
        calls: The call of each unit that has one, and the numbers of what it reads and defines.
    """

    body: SplitBlock
    unit_of: list[int]
    calls: dict[int, tuple[ir.Operation, list[int], list[int]]] = field(default_factory=dict)

    def find_result(self, number: int) -> ir.Value | None:
        """Return the result of a call that replaces a value; None if none does yet."""
        if number < 0:
            return None
        found = self.calls.get(self.unit_of[self.body.producers[number]])
        if found is None:
            return None
        call, _, outputs = found
        return call.results[bisect.bisect_left(outputs, number)]

    def replace_inputs(self, i: int) -> None:
        """Let the op with an index read the results of the calls."""
        inputs = self.body.inputs[i]
        values = {n: value for n in inputs if (value := self.find_result(n)) is not None}
        if values:
            _replace_inputs(self.body.ops[i], inputs, values)


@record(slots=True)
class Outliner:
    """Turns the regions of a module's blocks into functions, one for each distinct region.

    Region ids count regions in the order in which they are outlined. ``region_contents`` receives
    the contents of the ops of each function, by function name, so that a later pass need not read
    them again, and ``regions`` the regions by attribute. ``entry_ops`` are those of the latest
    block, if it is the entry's.
    """

    module: ir.Module
    region_contents: dict[str, list[OpContent]] = field(default_factory=dict)
    regions: dict[ir.Attribute, RegionAttr] = field(default_factory=dict)
    op_contents: OpContentTable = field(default_factory=OpContentTable)
    entry_ops: EntryOps | None = field(default=None, init=False)
    _digester: RegionDigester = field(init=False)
    _region_functions: dict[bytes, RegionFunction] = field(default_factory=dict)  # by hash of key
    _region_entries: dict[tuple[int, str], dict[str, ir.Attribute]] = field(default_factory=dict)
    _i64: ir.Type = field(init=False)
    _used_names: set[str] = field(init=False)
    _next_id: int = 0

    def __post_init__(self) -> None:
        functions = collect_functions(self.module)
        self._digester = RegionDigester(functions, self.op_contents)
        self._used_names = set(functions)
        self._i64 = ir.IntegerType.get_signless(64, self.module.context)

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
        cuts = {*body.comms, *body.waits}
        contents = self.op_contents.contents
        unit_of = [-1] * len(body.ops)
        for u, unit in enumerate(units):
            for i in unit:
                unit_of[i] = u
        outputs = self._find_outputs(body, unit_of, len(units))
        terminator = body.ops[-1]
        calls = _RegionCalls(body, unit_of)
        surplus: list[int] = []  # the ops of regions that equal an earlier one
        for u, unit in enumerate(units):
            last = body.ops[unit[-1]]
            if len(unit) == 1:
                if reorder:
                    last.move_before(terminator)
                if unit[0] not in cuts:
                    content = contents[body.op_numbers[unit[0]]]
                    region = self._number_region(1, self._digester.digest_op(content))
                    self._write_region(last, region)
                continue
            shape = self._build_region_shape(body, unit, sorted(outputs[u]))
            call = self._create_region_call(
                body, unit, shape, calls, surplus, terminator if reorder else last
            )
            calls.calls[u] = call, shape.inputs, shape.outputs  # shapes take as much as the ops
        if calls.calls:
            for i, u in enumerate(unit_of):
                if u not in calls.calls:
                    calls.replace_inputs(i)
        for i in sorted(surplus, reverse=True):
            body.ops[i].erase()
        unread = {i for i in body.constants if not any(True for _ in body.ops[i].results[0].uses)}
        for i in unread:
            body.ops[i].erase()
        others = [i for i, u in enumerate(unit_of) if u == -1 and i not in unread]
        last_ops = [unit[-1] for unit in units]
        order = [*others[:-1], *last_ops, others[-1]] if reorder else sorted([*others, *last_ops])
        rows = {units[u][-1]: (reads, makes) for u, (_, reads, makes) in calls.calls.items()}
        self.entry_ops = self._list_entry_ops(body, order, rows)

    def _list_entry_ops(
        self,
        body: SplitBlock,
        order: list[int],
        calls: Mapping[int, tuple[list[int], list[int]]],
    ) -> EntryOps | None:
        """List what is known of the ops of the entry function; None if values are read elsewhere.

        Args:
            body: A block.
            order: The indices of its ops as they are now; for a call, that of its last op.
            calls: What calls read and define, by the index of the last op.
        """
        if body.around is not None or body.has_inner_blocks:
            return None
        table, op_numbers, first = self.op_contents.contents, body.op_numbers, body.first_results
        contents = [
            table[op_numbers[i]] if i not in calls and op_numbers[i] >= 0 else None for i in order
        ]
        reads = NumberRows(calls[i][0] if i in calls else body.inputs[i] for i in order)
        makes = NumberRows(
            calls[i][1] if i in calls else range(first[i], first[i + 1]) for i in order
        )
        return EntryOps(contents, reads, makes, len(body.block.arguments) + len(body.producers))

    def _number_region(self, ops: int, digest: str) -> RegionAttr:
        self._next_id += 1
        return RegionAttr(self._next_id - 1, ops, digest)

    def _write_region(self, op: ir.Operation, region: RegionAttr) -> None:
        """Write the region of an op.

        Equal regions differ in their ids alone. Building the other entries once for all of them
        takes 2 us for each op, where the codec takes 7.
        """
        context = self.module.context
        content = (region.ops, region.digest)
        entries = self._region_entries.get(content)
        if entries is None:
            attr = region.to_dictionary_attr(context)
            entries = self._region_entries[content] = {
                name: attr[name] for name in ("ops", "digest")
            }
        entries["id"] = ir.IntegerAttr.get(self._i64, region.id)
        attr = op.attributes[RegionAttr.NAME] = ir.DictAttr.get(entries, context)
        self.regions[attr] = region

    def _find_outputs(self, body: SplitBlock, unit_of: list[int], units: int) -> list[set[int]]:
        """Find the numbers of the results of each unit that are read outside it.

        Args:
            body: The block.
            unit_of: The unit of each op; -1 if it has none.
            units: The number of units.
        """
        unit_outputs: list[set[int]] = [set() for _ in range(units)]
        producers = body.producers
        for reader, inputs in zip(unit_of, body.inputs, strict=True):
            for number in inputs:
                if number >= 0:
                    producer = unit_of[producers[number]]
                    if producer not in (reader, -1):
                        unit_outputs[producer].add(number)
        return unit_outputs

    def _build_region_shape(
        self, body: SplitBlock, unit: Sequence[int], outputs: list[int]
    ) -> RegionShape:
        producers, first_results = body.producers, body.first_results
        op_numbers = [body.op_numbers[i] for i in unit]
        local: dict[int, str] = {}  # how the flow names the values that the unit defines
        outside: dict[int, str] = {}  # and those that it reads
        constants: set[int] = set()
        constant_numbers: list[int] = []
        contents: list[int] = []
        readers: set[int] = set()
        flow = FlowWriter()
        for k, i in enumerate(unit):
            sources: list[str] = []
            for value in body.inputs[i]:
                source = local.get(value)
                if source is None:
                    readers.add(i)
                    source = outside.get(value)
                    producer = -1 if source or value < 0 else producers[value]
                    if producer in body.constants:
                        source = CONSTANT_SOURCE
                        constant_numbers.append(body.op_numbers[producer])
                        if producer not in constants:
                            constants.add(producer)
                            contents.append(body.op_numbers[producer])
                    elif source is None:
                        source = outside[value] = f"('in', {len(outside)}, 0)"
                sources.append(source)
            flow.write_op(sources)
            contents.append(op_numbers[k])
            first_result = first_results[i]
            for result in range(first_results[i + 1] - first_result):
                local[first_result + result] = f"('op', {k}, {result})"
        local_indices = {i: k for k, i in enumerate(unit)}
        places = [
            (local_indices[producers[value]], value - first_results[producers[value]])
            for value in outputs
        ]
        key = RegionKey(tuple(op_numbers), tuple(constant_numbers), flow.finish(places))
        return RegionShape(key, list(outside), outputs, contents, readers)

    def _create_region_call(
        self,
        body: SplitBlock,
        unit: Sequence[int],
        shape: RegionShape,
        calls: _RegionCalls,
        surplus: list[int],
        before: ir.Operation,
    ) -> ir.Operation:
        """Create a call of the region's function, with the location of its first heavy op.

        The ops move to the function, or are added to ``surplus`` if it exists.
        """
        inputs = [calls.find_result(number) or body.get_value(number) for number in shape.inputs]
        function = None
        key_hash = shape.key.hash_content()  # all keys would take as much memory as the ops
        region_function = self._region_functions.get(key_hash)
        if region_function is None:
            function, region_function = self._create_region_function(body, unit, shape, inputs)
            self._region_functions[key_hash] = region_function
            region = region_function.region
        else:
            surplus += unit
            region = self._number_region(len(unit), region_function.region.digest)
        hero = next((i for i in unit if HEAVY_OP.search(body.names[i])), unit[0])
        with ir.InsertionPoint(before), body.ops[hero].location:
            call = func.CallOp(region_function.kind.results, region_function.name, inputs).operation
        self._write_region(call, region)
        if region_function.cost is not None:
            call.attributes[Cost.NAME] = region_function.cost
        if function is not None:
            _move_unit_ops(body, unit, shape, function.entry_block)
            for i in unit:
                body.ops[i] = call  # an op that Python holds takes 0.2 kB
        return call

    def _create_region_function(
        self, body: SplitBlock, unit: Sequence[int], shape: RegionShape, inputs: list[ir.Value]
    ) -> tuple[func.FuncOp, RegionFunction]:
        """Create the function of a region, without its ops."""
        region = self._number_region(len(unit), self._digester.digest_region(shape.key))
        name = base = f"region_{region.id}"
        count = 0
        while name in self._used_names:  # as MLIR's SymbolTable names clashes
            name, count = f"{base}_{count}", count + 1
        self._used_names.add(name)
        outputs = [body.get_value(number) for number in shape.outputs]
        with ir.InsertionPoint(self.module.body), body.ops[unit[0]].location:
            kind = ir.FunctionType.get([v.type for v in inputs], [v.type for v in outputs])
            function = func.FuncOp(name, kind, visibility="private")
            block = function.add_entry_block()
        self._write_region(function.operation, region)
        with ir.InsertionPoint(block), body.ops[unit[0]].location:
            func.ReturnOp(outputs)
        self.region_contents[name] = self.op_contents.select_contents(shape.contents)
        cost = self._write_cost_sum(body, unit, function.operation)
        return function, RegionFunction(name, region, kind, cost)

    def _write_cost_sum(
        self, body: SplitBlock, unit: Sequence[int], function: ir.Operation
    ) -> ir.DictAttr | None:
        """Write the sum of the ops' costs on the function, if every op has a cost or is free."""
        costs: list[Cost] = []
        for i in unit:
            cost = Cost.read_from_op(body.ops[i])
            if cost is not None:
                costs.append(cost)
            elif not is_free_op_name(body.names[i]):
                return None
        if not costs:
            return None
        attr = aggregate_costs(costs).to_dictionary_attr(self.module.context)
        function.attributes[Cost.NAME] = attr
        return attr


def _move_unit_ops(
    body: SplitBlock, unit: Sequence[int], shape: RegionShape, block: ir.Block
) -> None:
    """Move the ops of a unit, and clones of the constants that they read, into ``block``."""
    terminator = block.operations[0].operation
    point = ir.InsertionPoint(terminator)
    values = dict(zip(shape.inputs, block.arguments, strict=True))
    for i in unit:
        op = body.ops[i]
        if i in shape.readers:
            for number in body.inputs[i]:
                if number not in values and number >= 0:
                    producer = body.producers[number]
                    if producer in body.constants:
                        clone = body.ops[producer].clone(point).operation
                        values[number] = clone.results[0]
            _replace_inputs(op, body.inputs[i], values)
        op.move_before(terminator)


def _replace_inputs(
    op: ir.Operation, inputs: Sequence[int], values: Mapping[int, ir.Value]
) -> None:
    """Replace the values that an op and its nested regions read, where they have a new one.

    Args:
        op: The op.
        inputs: The numbers of the values (``SplitBlock.inputs``).
        values: The new values by number.
    """
    operands = op.operands
    for k in range(len(operands)):
        if inputs[k] in values:
            operands[k] = values[inputs[k]]
    if len(inputs) > len(operands):
        captured = list_captured_operands(op)
        for (inner, k, _), number in zip(captured, inputs[len(operands) :], strict=True):
            if number in values:
                inner.operands[k] = values[number]
