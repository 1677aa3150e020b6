"""Outlining: each region becomes a private function, and equal regions share one function."""

from __future__ import annotations

import operator
import re
from array import array
from collections.abc import Container, Mapping, Sequence
from dataclasses import field
from itertools import chain, islice, repeat

from hespas.dialects.attrs import Cost, RegionAttr
from hespas.dialects.mlir import (
    collect_functions,
    func,
    has_users,
    ir,
    list_dictionary_entries,
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
    OpContentTable,
    RegionDigester,
    RegionKey,
    format_flow,
)
from hespas.support.records import record

OP_SOURCE = "('op', "  # starts a value of an op in the flow of a region; its number follows
HEAVY_OP = re.compile(r"\.(dot|convolution|fusion|custom_call|reduce|sort|scatter|gather)")


@record(slots=True)
class RegionShape:
    """The key of one region of a block, and the numbers of the values that it reads and defines.

    ``contents`` holds the numbers of its ops and of the constants that are cloned into it, each
    before its first reader, and ``reads`` what the ops with inputs or constants read, by index.
    """

    key: RegionKey
    inputs: list[int]
    outputs: list[int]
    contents: list[int]
    reads: Mapping[int, Sequence[int]]


@record(slots=True)
class RegionCall:
    """The call of a region function, with the numbers of the values that it reads and defines."""

    op: ir.Operation
    reads: Sequence[int]
    makes: Sequence[int]


@record(frozen=True, slots=True)
class RegionFunction:
    """A region function. ``cost`` is the sum of the costs of its ops, if all of them have one."""

    name: str
    region: RegionAttr
    result_types: list[ir.Type]
    cost: ir.DictAttr | None


@record(slots=True)
class Outliner:
    """Turns the regions of a module's blocks into functions, one for each distinct region.

    Region ids count regions in the order in which they are outlined. ``region_contents`` receives
    the contents of the ops of each function, by function name, so that a later pass need not read
    them again. ``entry_ops`` are those of the latest block, if it is the entry's.
    """

    module: ir.Module
    region_contents: dict[str, list[OpContent]] = field(default_factory=dict)
    op_contents: OpContentTable = field(default_factory=OpContentTable)
    entry_ops: EntryOps | None = field(default=None, init=False)
    _digester: RegionDigester = field(init=False)
    _region_functions: dict[bytes, RegionFunction] = field(default_factory=dict)  # by hash of key
    _region_entries: dict[tuple[int, str], dict[str, ir.Attribute]] = field(default_factory=dict)
    _result_sources: list[str] = field(default_factory=list)  # by op, of its only result
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
        has_calls = any(len(unit) > 1 for unit in units)
        escaping = _find_escaping_values(body, unit_of) if has_calls else ()
        terminator = body.ops[-1]
        # The calls of units, by the last op of a unit, and the results of all calls.
        calls: dict[int, RegionCall] = {}
        results: dict[int, ir.Value] = {}
        surplus: list[int] = []  # the ops of regions that equal an earlier one
        regions: list[RegionAttr | None] = [None] * len(body.ops)  # by the last op of a unit
        for unit in units:
            last = body.ops[unit[-1]]
            if len(unit) == 1:
                (i,) = unit
                if reorder:
                    last.move_before(terminator)
                if i not in cuts:
                    content = contents[body.kinds[i].number]
                    region = self._number_region(1, self._digester.digest_op(content))
                    self._write_region(last, region)
                    regions[i] = region
                continue
            shape = self._build_region_shape(body, unit, escaping)
            call, regions[unit[-1]] = self._create_region_call(
                body, unit, shape, results, surplus, terminator if reorder else last
            )
            calls[unit[-1]] = RegionCall(call, array("i", shape.inputs), array("i", shape.outputs))
            results.update(zip(shape.outputs, call.results, strict=True))
        if results:
            for i in [i for i, u in enumerate(unit_of) if u < 0 or len(units[u]) == 1]:
                reads = body.inputs[i]
                if not results.keys().isdisjoint(reads):
                    _replace_inputs(body.ops[i], reads, results)
        for i in sorted(surplus, reverse=True):
            body.ops[i].erase()
        unread = {i for i in body.constants if not has_users(body.ops[i].results[0])}
        for i in unread:
            body.ops[i].erase()
        others = [i for i, u in enumerate(unit_of) if u == -1 and i not in unread]
        last_ops = [unit[-1] for unit in units]
        order = [*others[:-1], *last_ops, others[-1]] if reorder else sorted([*others, *last_ops])
        self.entry_ops = self._list_entry_ops(body, order, calls, regions)

    def _list_entry_ops(
        self,
        body: SplitBlock,
        order: list[int],
        calls: Mapping[int, RegionCall],
        regions: Sequence[RegionAttr | None],
    ) -> EntryOps | None:
        """List what is known of the ops of the entry function; None if values are read elsewhere.

        Args:
            body: A block.
            order: The indices of its ops as they are now; for a call, that of its last op.
            calls: The calls of regions, by the index of the last op.
            regions: The regions of ops, likewise.
        """
        if body.around is not None or body.has_inner_blocks:
            return None
        table, kinds = self.op_contents.contents, body.kinds
        contents = [
            table[kinds[i].number] if i not in calls and kinds[i].number >= 0 else None
            for i in order
        ]
        ops = [calls[i].op if i in calls else body.ops[i] for i in order]
        reads, makes = body.inputs, NumberRows.list_ranges(body.first_results)
        if order != [*range(len(body.ops))]:
            reads = NumberRows(calls[i].reads if i in calls else reads[i] for i in order)
            makes = NumberRows(calls[i].makes if i in calls else makes[i] for i in order)
        values = len(body.block.arguments) + len(body.producers)
        return EntryOps(ops, contents, reads, makes, [regions[i] for i in order], values)

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
            attr = op.attributes[RegionAttr.NAME] = region.to_dictionary_attr(context, op)
            names = [name for name, _ in list_dictionary_entries(attr)]
            self._region_entries[content] = {name: attr[name] for name in names}
            return
        entries["id"] = ir.IntegerAttr.get(self._i64, region.id)
        op.attributes[RegionAttr.NAME] = ir.DictAttr.get(entries, context)

    def _build_region_shape(
        self, body: SplitBlock, unit: Sequence[int], escaping: Container[int]
    ) -> RegionShape:
        numbers, ends, producers = body.inputs.numbers, body.inputs.ends, body.producers
        rows = [numbers[ends[i] : ends[i + 1]] for i in unit]
        reads = list(chain.from_iterable(rows))
        contents = op_numbers = [body.kinds[i].number for i in unit]
        sources = self._name_results(body, unit)
        outputs = [value for value in sources if value in escaping]
        places = [f"({sources[value].removeprefix(OP_SOURCE)}" for value in outputs]
        inputs: list[int] = []
        constants: dict[int, int] = {}  # numbers of contents, by value
        outside = [value for value in dict.fromkeys(reads) if value not in sources]
        for value in outside:
            if value >= 0 and producers[value] in body.constants:
                constants[value] = body.kinds[producers[value]].number
                sources[value] = CONSTANT_SOURCE
            else:
                sources[value] = f"('in', {len(inputs)}, 0)"
                inputs.append(value)
        constant_numbers = [constants[value] for value in reads if value in constants]
        flow = format_flow(map(len, rows), map(sources.__getitem__, reads), places)
        key = RegionKey(tuple(op_numbers), tuple(constant_numbers), flow)
        if constants:
            contents = []
            for row, op_number in zip(rows, op_numbers, strict=True):
                contents += [constants.pop(value) for value in row if value in constants]
                contents.append(op_number)
        boundary = set(outside)
        boundary_reads = {
            i: row for i, row in zip(unit, rows, strict=True) if not boundary.isdisjoint(row)
        }
        return RegionShape(key, inputs, outputs, contents, boundary_reads)

    def _name_results(self, body: SplitBlock, unit: Sequence[int]) -> dict[int, str]:
        """Return the source of each value that a unit defines, by its number."""
        firsts = body.first_results
        known = self._result_sources
        known += [f"{OP_SOURCE}{k}, 0)" for k in range(len(known), len(unit))]
        if body.several_results.isdisjoint(unit):
            return dict(zip([firsts[i] for i in unit], known, strict=False))
        return {
            value: f"{OP_SOURCE}{k}, {result})"
            for k, i in enumerate(unit)
            for result, value in enumerate(range(firsts[i], firsts[i + 1]))
        }

    def _create_region_call(
        self,
        body: SplitBlock,
        unit: Sequence[int],
        shape: RegionShape,
        results: Mapping[int, ir.Value],
        surplus: list[int],
        before: ir.Operation,
    ) -> tuple[ir.Operation, RegionAttr]:
        """Create a call of the region's function, with the location of its first heavy op.

        The ops move to the function, or are added to ``surplus`` if it exists.

        Args:
            body: The block.
            unit: The indices of the ops.
            shape: The shape of the region.
            results: The results of earlier calls, by the numbers of the values that they replace.
            surplus: Receives indices of ops.
            before: The place of the call.
        """
        block = None
        key_hash = shape.key.hash_content()  # all keys would take as much memory as the ops
        region_function = self._region_functions.get(key_hash)
        if region_function is None:
            block, region_function = self._create_region_function(body, unit, shape)
            self._region_functions[key_hash] = region_function
            region = region_function.region
        else:
            surplus += unit
            region = self._number_region(len(unit), region_function.region.digest)
        hero = next((i for i in unit if HEAVY_OP.search(body.kinds[i].name)), unit[0])
        inputs = [results.get(number) or body.get_value(number) for number in shape.inputs]
        with ir.InsertionPoint(before), body.ops[hero].location:
            callee = ir.FlatSymbolRefAttr.get(region_function.name)
            # The class of the op would look at each operand.
            call = ir.Operation.create(
                "func.call", region_function.result_types, inputs, {"callee": callee}
            )
        self._write_region(call, region)
        if region_function.cost is not None:
            call.attributes[Cost.NAME] = region_function.cost
        if block is not None:
            _move_unit_ops(body, unit, shape, block)
            for i in unit:
                body.ops[i] = call  # an op that Python holds takes 0.2 kB
        return call, region

    def _create_region_function(
        self, body: SplitBlock, unit: Sequence[int], shape: RegionShape
    ) -> tuple[ir.Block, RegionFunction]:
        """Create the function of a region, without its ops."""
        region = self._number_region(len(unit), self._digester.digest_region(shape.key))
        name = base = f"region_{region.id}"
        count = 0
        while name in self._used_names:  # as MLIR's SymbolTable names clashes
            name, count = f"{base}_{count}", count + 1
        outputs = body.get_values(shape.outputs)
        with ir.InsertionPoint(self.module.body), body.ops[unit[0]].location:
            types, result_types = body.get_types(shape.inputs), body.get_types(shape.outputs)
            kind = ir.FunctionType.get(types, result_types)
            function = func.FuncOp(name, kind, visibility="private").operation
            block = function.regions[0].blocks.append(*types)
        self._write_region(function, region)
        with ir.InsertionPoint(block), body.ops[unit[0]].location:
            func.ReturnOp(outputs)
        self.region_contents[name] = self.op_contents.select_contents(shape.contents)
        cost = self._write_cost_sum(body, unit, function)
        return block, RegionFunction(name, region, result_types, cost)

    def _write_cost_sum(
        self, body: SplitBlock, unit: Sequence[int], function: ir.Operation
    ) -> ir.DictAttr | None:
        """Write the sum of the ops' costs on the function, if every op has a cost or is free."""
        costs: list[Cost] = []
        for i in unit:
            cost = Cost.read_from_op(body.ops[i])
            if cost is not None:
                costs.append(cost)
            elif not is_free_op_name(body.kinds[i].name):
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
        reads = shape.reads.get(i)
        if reads is not None:
            for number in reads:
                if number not in values and number >= 0:
                    producer = body.producers[number]
                    if producer in body.constants:
                        clone = body.ops[producer].clone(point).operation
                        values[number] = clone.results[0]
            _replace_inputs(op, reads, values)
        op.move_before(terminator)


def _find_escaping_values(body: SplitBlock, unit_of: Sequence[int]) -> set[int]:
    """Find the numbers of the results that ops of another unit read, or ops of no unit."""
    ends = body.inputs.ends
    producing_units = [unit_of[producer] for producer in body.producers]
    counts = map(operator.sub, islice(ends, 1, None), ends)
    reading_units = chain.from_iterable(map(repeat, unit_of, counts))
    return {
        number
        for number, unit in zip(body.inputs.numbers, reading_units, strict=True)
        if number >= 0 and producing_units[number] != unit
    }


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
    count = len(operands)
    for k, number in zip(range(count), inputs, strict=False):
        if number in values:
            operands[k] = values[number]
    if len(inputs) > count:
        captured = list_captured_operands(op)
        for (inner, k, _), number in zip(captured, inputs[count:], strict=True):
            if number in values:
                inner.operands[k] = values[number]
