"""Outlining: each region becomes a private function, and equal regions share one function."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hespas.dialects.attrs import Cost, KernelCostAttr, RegionAttr
from hespas.dialects.mlir import collect_functions, func, ir, to_canonical_text
from hespas.dialects.op_bodies import list_captured_operands
from hespas.dialects.op_kinds import LOOPS
from hespas.estimators.aggregate import aggregate_costs
from hespas.passes.split.blocks import SplitBlock

SYMBOL = re.compile(r'@(?:"([^"]*)"|([\w.$-]+))')
CONSTANT_VALUE = re.compile(r"(stablehlo\.constant) dense(?:_resource)?<(?:[^<>]|<[^<>]*>)*>")
HEAVY_OP = re.compile(r"\.(dot|convolution|fusion|custom_call|reduce|sort|scatter|gather)")

# Where an op of a region reads a value from: ("in", number of the region's input, 0),
# ("op", index of an op in the region, result number), or ("const", text number of a constant, 0).
InputRef = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class RegionKey:
    """What a region computes; regions with equal keys share one function.

    Attributes:
        ops: For each op, the number of its text and the sources of its inputs.
        outputs: For each output, the index of an op in the region and its result number.
    """

    ops: tuple[tuple[int, tuple[InputRef, ...]], ...]
    outputs: tuple[tuple[int, int], ...]


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
class _OpTextTable:
    """Numbers the distinct canonical texts of ops; ``texts[n]`` is the text with number ``n``."""

    texts: list[str] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)
    _numbers_by_flat_key: dict[object, int] = field(default_factory=dict)

    def number_op(self, op: ir.Operation) -> int:
        key = None if len(op.regions) else _build_flat_key(op)
        number = self._numbers_by_flat_key.get(key)
        if number is None:
            text = to_canonical_text(op)
            number = self._numbers.setdefault(text, len(self._numbers))
            if number == len(self.texts):
                self.texts.append(text)
            if key is not None:
                self._numbers_by_flat_key[key] = number
        return number


@dataclass(slots=True)
class _RegionDigester:
    """Computes the digests of regions. Values of constants count only if a loop may read them."""

    functions: dict[str, ir.Operation]
    texts: list[str]
    _callee_texts: dict[str, str] = field(default_factory=dict)
    _single_op_digests: dict[int, str] = field(default_factory=dict)

    def digest_single_op(self, text: int) -> str:
        if text not in self._single_op_digests:
            self._single_op_digests[text] = self._digest_texts((text,))
        return self._single_op_digests[text]

    def digest_region(self, key: RegionKey) -> str:
        return self._digest_texts([text for text, _ in key.ops], key)

    def _digest_texts(self, text_numbers: Sequence[int], key: RegionKey | None = None) -> str:
        texts = [self.texts[number] for number in text_numbers]
        texts += dict.fromkeys(
            callee_text
            for text in texts
            if "@" in text
            for callee_text in self._collect_callee_texts(text)
        )
        has_loop = any(loop in text for text in texts for loop in LOOPS)
        hasher = hashlib.sha256()
        for text in texts:
            hasher.update((text if has_loop else CONSTANT_VALUE.sub(r"\1", text)).encode())
            hasher.update(b"\0")
        if key is not None:
            wiring = [
                tuple(
                    ("const", self.texts[ref[1]] if has_loop else "") if ref[0] == "const" else ref
                    for ref in refs
                )
                for _, refs in key.ops
            ]
            hasher.update(repr((wiring, key.outputs)).encode())
        return hasher.hexdigest()[:16]

    def _collect_callee_texts(self, text: str) -> list[str]:
        """Collect the texts of the functions that an op calls, because names are arbitrary."""
        callee_texts = []
        for quoted, plain in SYMBOL.findall(text):
            name = quoted or plain
            if name in self.functions:
                if name not in self._callee_texts:
                    self._callee_texts[name] = ""  # ends the recursion of a recursive function
                    function_text = to_canonical_text(self.functions[name])
                    self._callee_texts[name] = "\0".join(
                        [function_text, *self._collect_callee_texts(function_text)]
                    )
                callee_texts.append(self._callee_texts[name])
        return callee_texts


@dataclass(slots=True)
class Outliner:
    """Turns the regions of a module's blocks into functions, one for each distinct region.

    Region ids count regions in the order in which they are outlined. ``region_texts`` receives the
    canonical texts of the ops of each function, by function name, so that a later pass need not
    print them again.
    """

    module: ir.Module
    region_texts: dict[str, list[str]] = field(default_factory=dict)
    _op_texts: _OpTextTable = field(default_factory=_OpTextTable)
    _digester: _RegionDigester = field(init=False)
    _region_functions: dict[RegionKey, RegionFunction] = field(default_factory=dict)
    _used_names: set[str] = field(init=False)
    _next_id: int = 0

    def __post_init__(self) -> None:
        functions = collect_functions(self.module)
        self._digester = _RegionDigester(functions, self._op_texts.texts)
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
        unit_of = {i: u for u, unit in enumerate(units) for i in unit}
        outputs = self._find_outputs(body, unit_of, len(units))
        terminator = body.ops[-1]
        replaced: dict[ir.Value, ir.Value] = {}
        for u, unit in enumerate(units):
            last = body.ops[unit[-1]]
            if len(unit) == 1:
                if reorder:
                    last.move_before(terminator)
                if unit[0] in compute:
                    digest = self._digester.digest_single_op(self._op_texts.number_op(last))
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
        self, body: SplitBlock, unit_of: dict[int, int], units: int
    ) -> list[dict[tuple[int, int], ir.Value]]:
        """Find the results of each unit that are read outside it, by (op index, result number)."""
        unit_outputs: list[dict[tuple[int, int], ir.Value]] = [{} for _ in range(units)]
        for i, values in enumerate(body.inputs):
            reader = unit_of.get(i, -1)
            for value in values:
                place = body.producer.get(value)
                if place is not None:
                    producer = unit_of.get(place[0], -1)
                    if producer not in (reader, -1):
                        unit_outputs[producer][place] = value
        return unit_outputs

    def _build_region_shape(
        self, body: SplitBlock, unit: Sequence[int], outputs: dict[tuple[int, int], ir.Value]
    ) -> RegionShape:
        number_op = self._op_texts.number_op
        local_indices = {i: k for k, i in enumerate(unit)}
        inputs: dict[ir.Value, int] = {}
        ops = []
        for i in unit:
            refs: list[InputRef] = []
            for value in body.inputs[i]:
                index, number = body.producer.get(value, (-1, 0))
                if index in local_indices:
                    refs.append(("op", local_indices[index], number))
                elif index in body.constants:
                    refs.append(("const", number_op(body.ops[index]), 0))
                else:
                    refs.append(("in", inputs.setdefault(value, len(inputs)), 0))
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
        name = f"region_{region.id}"
        while name in self._used_names:
            name += "_"
        self._used_names.add(name)
        with ir.InsertionPoint(self.module.body), body.ops[unit[0]].location:
            kind = ir.FunctionType.get(
                [v.type for v in shape.inputs], [v.type for v in shape.outputs]
            )
            function = func.FuncOp(name, kind, visibility="private")
            block = function.add_entry_block()
        region.write_to_op(function.operation)
        values = dict(zip(shape.inputs, block.arguments, strict=True))
        self.region_texts[name] = self._copy_unit_ops(body, unit, shape.key, values, block)
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
    ) -> list[str]:
        """Clone the ops of a unit and the constants that they read into ``block``.

        ``values`` maps old values to new ones; the results of the clones are added to it. Returns
        the texts of the clones.
        """
        point = ir.InsertionPoint(block)
        op_texts = self._op_texts.texts
        texts: list[str] = []
        for i, (text, refs) in zip(unit, key.ops, strict=True):
            op = body.ops[i]
            for value, ref in zip(body.inputs[i], refs, strict=True):
                if value not in values:
                    constant = body.ops[body.producer[value][0]]
                    values[value] = constant.clone(point).operation.results[0]
                    texts.append(op_texts[ref[1]])
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
            texts.append(op_texts[text])
        return texts

    def _write_cost_sum(
        self, body: SplitBlock, unit: Sequence[int], function: ir.Operation
    ) -> ir.DictAttr | None:
        """Write the sum of the ops' costs on the function, if every op has a cost."""
        costs = [Cost.read_from_op(body.ops[i]) for i in unit]
        known_costs = [cost for cost in costs if cost is not None]
        if len(known_costs) < len(costs):
            return None
        attr = aggregate_costs(known_costs).to_dictionary_attr(self.module.context)
        function.attributes[Cost.NAME] = attr
        return attr


def _build_flat_key(op: ir.Operation) -> object:
    """Build a key that identifies the text of an op without regions and is cheaper to make."""
    attributes = op.attributes
    try:
        return (
            op.name,
            tuple(
                [
                    (n, attributes[n])
                    for n in attributes
                    if not n.startswith("hespas.") or n == KernelCostAttr.NAME
                ]
            ),
            tuple([value.type for value in op.operands]),
            tuple([value.type for value in op.results]),
        )
    except TypeError:  # The bindings cannot represent constants with complex elements.
        return None
