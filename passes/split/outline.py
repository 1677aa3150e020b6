"""Outlining: each region becomes a private function, equal regions the same one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hespas.dialects.attrs import Cost, RegionAttr
from hespas.dialects.mlir import collect_functions, func, ir, to_canonical_text
from hespas.dialects.op_bodies import list_captured_operands
from hespas.dialects.op_kinds import LOOPS
from hespas.estimators.aggregate import aggregate_costs
from hespas.passes.split.blocks import SplitBlock

SYMBOL = re.compile(r'@(?:"([^"]*)"|([\w.$-]+))')
HEAVY_OP = re.compile(r"\.(dot|convolution|fusion|custom_call|reduce|sort|scatter|gather)")

InputRef = tuple[
    str, int, int
]  # ("in", input number, 0) | ("op", local op, result) | ("const", text, 0)


@dataclass(frozen=True, slots=True)
class RegionKey:
    """What a region computes: per op its text and where its inputs come from, and the outputs."""

    ops: tuple[tuple[int, tuple[InputRef, ...]], ...]
    outputs: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class RegionShape:
    """One region of a block: the key, the values it takes, the values it gives."""

    key: RegionKey
    inputs: list[ir.Value]
    outputs: list[ir.Value]


@dataclass(frozen=True, slots=True)
class RegionFunction:
    """A region function: its name, its mark, and its cost where its ops had one."""

    name: str
    region: RegionAttr
    cost: ir.DictAttr | None


@dataclass(slots=True)
class Outliner:
    """Turns the regions of a module's blocks into functions, one per distinct region.

    ``known`` collects the texts of each function's ops, which a pass that follows may want.
    """

    module: ir.Module
    region_texts: dict[str, list[str]] = field(default_factory=dict)
    text_numbers: dict[str, int] = field(default_factory=dict)
    flat_numbers: dict[object, int] = field(default_factory=dict)
    op_texts: list[str] = field(default_factory=list)
    region_functions: dict[RegionKey, RegionFunction] = field(default_factory=dict)
    single_op_digests: dict[int, str] = field(default_factory=dict)
    callee_texts: dict[str, str] = field(default_factory=dict)
    named_functions: dict[str, ir.Operation] = field(init=False)
    used_names: set[str] = field(init=False)
    next_id: int = 0

    def __post_init__(self) -> None:
        self.named_functions = collect_functions(self.module)
        self.used_names = set(self.named_functions)

    def outline_block_units(
        self, body: SplitBlock, units: Sequence[Sequence[int]], reorder: bool = False
    ) -> None:
        """Rewrite the block: ``units`` lists op indices in their new order.

        A unit of one op stays in place and is marked, if it is a compute op; a longer one becomes
        a call. With ``reorder`` the ops left in place move to the units' order; without, a call
        stands where its unit's last op stood.
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
                    self._number_region(
                        1, self._digest_single_op(self._number_op_text(last))
                    ).write_to_op(last)
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
        self.next_id += 1
        return RegionAttr(self.next_id - 1, ops, digest)

    def _find_outputs(
        self, body: SplitBlock, unit_of: dict[int, int], units: int
    ) -> list[dict[tuple[int, int], ir.Value]]:
        """Per unit the results read outside it, by (op index, result number)."""
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
        local = {i: k for k, i in enumerate(unit)}
        inputs: dict[ir.Value, int] = {}
        ops = []
        for i in unit:
            refs: list[InputRef] = []
            for value in body.inputs[i]:
                index, number = body.producer.get(value, (-1, 0))
                if index in local:
                    refs.append(("op", local[index], number))
                elif index in body.constants:
                    refs.append(("const", self._number_op_text(body.ops[index]), 0))
                else:
                    refs.append(("in", inputs.setdefault(value, len(inputs)), 0))
            ops.append((self._number_op_text(body.ops[i]), tuple(refs)))
        places = sorted(outputs)
        key = RegionKey(tuple(ops), tuple((local[i], number) for i, number in places))
        return RegionShape(key, list(inputs), [outputs[place] for place in places])

    def _number_op_text(self, op: ir.Operation) -> int:
        key = None if len(op.regions) else _build_flat_key(op)
        number = self.flat_numbers.get(key)
        if number is None:
            text = to_canonical_text(op)
            number = self.text_numbers.setdefault(text, len(self.text_numbers))
            if number == len(self.op_texts):
                self.op_texts.append(text)
            if key is not None:
                self.flat_numbers[key] = number
        return number

    def _create_region_call(
        self,
        body: SplitBlock,
        unit: Sequence[int],
        shape: RegionShape,
        replaced: dict[ir.Value, ir.Value],
        before: ir.Operation,
    ) -> ir.Operation:
        region_function = self.region_functions.get(shape.key)
        if region_function is None:
            region_function = self.region_functions[shape.key] = self._create_region_function(
                body, unit, shape
            )
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
        digest = self._compute_region_digest([text for text, _ in shape.key.ops], shape.key)
        region = self._number_region(len(unit), digest)
        name = f"region_{region.id}"
        while name in self.used_names:
            name += "_"
        self.used_names.add(name)
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
        """Clone the unit's ops, and constants they read, into ``block``; the texts of the clones.

        ``values`` maps old values to new ones, and is extended.
        """
        point = ir.InsertionPoint(block)
        texts: list[str] = []
        for i, (text, refs) in zip(unit, key.ops, strict=True):
            op = body.ops[i]
            for value, ref in zip(body.inputs[i], refs, strict=True):
                if value not in values:
                    constant = body.ops[body.producer[value][0]]
                    values[value] = constant.clone(point).operation.results[0]
                    texts.append(self.op_texts[ref[1]])
            mapped = [values[value] for value in body.inputs[i]]
            clone = op.clone(point).operation
            own = len(op.operands)
            for k in range(own):
                clone.operands[k] = mapped[k]
            if len(mapped) > own:
                for (inner, k, _), value in zip(
                    list_captured_operands(clone), mapped[own:], strict=True
                ):
                    inner.operands[k] = value
            values.update(zip(op.results, clone.results, strict=True))
            texts.append(self.op_texts[text])
        return texts

    def _write_cost_sum(
        self, body: SplitBlock, unit: Sequence[int], function: ir.Operation
    ) -> ir.DictAttr | None:
        """The sum of the ops' costs, written on the function, where all of them have one."""
        costs = [Cost.read_from_op(body.ops[i]) for i in unit]
        known = [cost for cost in costs if cost is not None]
        if len(known) < len(costs):
            return None
        attr = aggregate_costs(known).to_dictionary_attr(self.module.context)
        function.attributes[Cost.NAME] = attr
        return attr

    def _digest_single_op(self, text: int) -> str:
        """The digest of a region of one op."""
        if text not in self.single_op_digests:
            self.single_op_digests[text] = self._compute_region_digest((text,))
        return self.single_op_digests[text]

    def _collect_callee_texts(self, text: str) -> list[str]:
        """The texts of the functions that an op calls: their names alone say nothing."""
        texts = []
        for quoted, plain in SYMBOL.findall(text):
            name = quoted or plain
            if name in self.named_functions:
                if name not in self.callee_texts:
                    self.callee_texts[name] = ""  # should it call itself
                    own = to_canonical_text(self.named_functions[name])
                    self.callee_texts[name] = "\0".join([own, *self._collect_callee_texts(own)])
                texts.append(self.callee_texts[name])
        return texts

    def _compute_region_digest(self, texts: Sequence[int], key: RegionKey | None = None) -> str:
        """Content hash of a region; values of constants do not count where no loop reads them."""
        spelled = [self.op_texts[number] for number in texts]
        called = dict.fromkeys(
            t for text in spelled if "@" in text for t in self._collect_callee_texts(text)
        )
        spelled += called
        loops = any(loop in text for text in spelled for loop in LOOPS)
        hasher = hashlib.sha256()
        for text in spelled:
            hasher.update((text if loops else _CONSTANT.sub(r"\1", text)).encode())
            hasher.update(b"\0")
        if key is not None:
            wiring = [
                tuple(
                    ("const", self.op_texts[ref[1]] if loops else "") if ref[0] == "const" else ref
                    for ref in refs
                )
                for _, refs in key.ops
            ]
            hasher.update(repr((wiring, key.outputs)).encode())
        return hasher.hexdigest()[:16]


def _build_flat_key(op: ir.Operation) -> object:
    """Equal for ops without regions whose texts are equal, and cheaper than the text."""
    attributes = op.attributes
    try:
        return (
            op.name,
            tuple([(n, attributes[n]) for n in attributes if not n.startswith("hespas.")]),
            tuple([value.type for value in op.operands]),
            tuple([value.type for value in op.results]),
        )
    except TypeError:  # a constant of complex elements: the bindings cannot hold its value
        return None


_CONSTANT = re.compile(r"(stablehlo\.constant) dense(?:_resource)?<(?:[^<>]|<[^<>]*>)*>")
