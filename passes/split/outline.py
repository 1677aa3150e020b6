"""Outlining: each region becomes a private function, equal regions the same one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hespas.dialects.attrs import Cost, Region
from hespas.dialects.mlir import func, functions, ir, op_text
from hespas.dialects.ops import LOOPS
from hespas.estimators.aggregate import aggregate
from hespas.passes.split.blocks import Body, captures

SYMBOL = re.compile(r'@(?:"([^"]*)"|([\w.$-]+))')
HERO = re.compile(r"\.(dot|convolution|fusion|custom_call|reduce|sort|scatter|gather)")

Ref = tuple[
    str, int, int
]  # ("in", input number, 0) | ("op", local op, result) | ("const", text, 0)


@dataclass(frozen=True, slots=True)
class Key:
    """What a region computes: per op its text and where its inputs come from, and the outputs."""

    ops: tuple[tuple[int, tuple[Ref, ...]], ...]
    outputs: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Shape:
    """One region of a block: the key, the values it takes, the values it gives."""

    key: Key
    inputs: list[ir.Value]
    outputs: list[ir.Value]


@dataclass(frozen=True, slots=True)
class Made:
    """A region function: its name, its mark, and its cost where its ops had one."""

    name: str
    region: Region
    cost: ir.DictAttr | None


@dataclass(slots=True)
class Outliner:
    """Turns the regions of a module's blocks into functions, one per distinct region.

    ``known`` collects the texts of each function's ops, which a pass that follows may want.
    """

    module: ir.Module
    known: dict[str, list[str]] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)
    flat: dict[object, int] = field(default_factory=dict)
    spelled: list[str] = field(default_factory=list)
    made: dict[Key, Made] = field(default_factory=dict)
    singles: dict[int, str] = field(default_factory=dict)
    called: dict[str, str] = field(default_factory=dict)
    callable: dict[str, ir.Operation] = field(init=False)
    taken: set[str] = field(init=False)
    next_id: int = 0

    def __post_init__(self) -> None:
        self.callable = functions(self.module)
        self.taken = set(self.callable)

    def split(self, body: Body, units: Sequence[Sequence[int]], reorder: bool = False) -> None:
        """Rewrite the block: ``units`` lists op indices in their new order.

        A unit of one op stays in place and is marked, if it is a compute op; a longer one becomes
        a call. With ``reorder`` the ops left in place move to the units' order; without, a call
        stands where its unit's last op stood.
        """
        compute = set(body.compute)
        unit_of = {i: u for u, unit in enumerate(units) for i in unit}
        outputs = self._outputs(body, unit_of, len(units))
        terminator = body.ops[-1]
        replaced: dict[ir.Value, ir.Value] = {}
        for u, unit in enumerate(units):
            last = body.ops[unit[-1]]
            if len(unit) == 1:
                if reorder:
                    last.move_before(terminator)
                if unit[0] in compute:
                    self._region(1, self._single(self._text(last))).set_on(last)
                continue
            shape = self._shape(body, unit, outputs[u])
            call = self._call(body, unit, shape, replaced, terminator if reorder else last)
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

    def _region(self, ops: int, digest: str) -> Region:
        self.next_id += 1
        return Region(self.next_id - 1, ops, digest)

    def _outputs(
        self, body: Body, unit_of: dict[int, int], units: int
    ) -> list[dict[tuple[int, int], ir.Value]]:
        """Per unit the results read outside it, by (op index, result number)."""
        found: list[dict[tuple[int, int], ir.Value]] = [{} for _ in range(units)]
        for i, values in enumerate(body.inputs):
            mine = unit_of.get(i, -1)
            for value in values:
                place = body.producer.get(value)
                if place is not None:
                    theirs = unit_of.get(place[0], -1)
                    if theirs not in (mine, -1):
                        found[theirs][place] = value
        return found

    def _shape(
        self, body: Body, unit: Sequence[int], outputs: dict[tuple[int, int], ir.Value]
    ) -> Shape:
        local = {i: k for k, i in enumerate(unit)}
        inputs: dict[ir.Value, int] = {}
        ops = []
        for i in unit:
            refs: list[Ref] = []
            for value in body.inputs[i]:
                index, number = body.producer.get(value, (-1, 0))
                if index in local:
                    refs.append(("op", local[index], number))
                elif index in body.constants:
                    refs.append(("const", self._text(body.ops[index]), 0))
                else:
                    refs.append(("in", inputs.setdefault(value, len(inputs)), 0))
            ops.append((self._text(body.ops[i]), tuple(refs)))
        places = sorted(outputs)
        key = Key(tuple(ops), tuple((local[i], number) for i, number in places))
        return Shape(key, list(inputs), [outputs[place] for place in places])

    def _text(self, op: ir.Operation) -> int:
        key = None if len(op.regions) else _flat_key(op)
        number = self.flat.get(key)
        if number is None:
            text = op_text(op)
            number = self.texts.setdefault(text, len(self.texts))
            if number == len(self.spelled):
                self.spelled.append(text)
            if key is not None:
                self.flat[key] = number
        return number

    def _call(
        self,
        body: Body,
        unit: Sequence[int],
        shape: Shape,
        replaced: dict[ir.Value, ir.Value],
        before: ir.Operation,
    ) -> ir.Operation:
        made = self.made.get(shape.key)
        if made is None:
            made = self.made[shape.key] = self._function(body, unit, shape)
            region = made.region
        else:
            region = self._region(len(unit), made.region.digest)
        hero = next((body.ops[i] for i in unit if HERO.search(body.ops[i].name)), body.ops[unit[0]])
        with ir.InsertionPoint(before), hero.location:
            call = func.CallOp(
                [value.type for value in shape.outputs],
                made.name,
                [replaced.get(value, value) for value in shape.inputs],
            ).operation
        region.set_on(call)
        if made.cost is not None:
            call.attributes[Cost.NAME] = made.cost
        return call

    def _function(self, body: Body, unit: Sequence[int], shape: Shape) -> Made:
        digest = self._digest([text for text, _ in shape.key.ops], shape.key)
        region = self._region(len(unit), digest)
        name = f"region_{region.id}"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        with ir.InsertionPoint(self.module.body), body.ops[unit[0]].location:
            kind = ir.FunctionType.get(
                [v.type for v in shape.inputs], [v.type for v in shape.outputs]
            )
            function = func.FuncOp(name, kind, visibility="private")
            block = function.add_entry_block()
        region.set_on(function.operation)
        values = dict(zip(shape.inputs, block.arguments, strict=True))
        self.known[name] = self._copy(body, unit, shape.key, values, block)
        with ir.InsertionPoint(block), body.ops[unit[0]].location:
            func.ReturnOp([values[v] for v in shape.outputs])
        return Made(name, region, self._cost(body, unit, function.operation))

    def _copy(
        self,
        body: Body,
        unit: Sequence[int],
        key: Key,
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
                    texts.append(self.spelled[ref[1]])
            mapped = [values[value] for value in body.inputs[i]]
            clone = op.clone(point).operation
            own = len(op.operands)
            for k in range(own):
                clone.operands[k] = mapped[k]
            if len(mapped) > own:
                for (inner, k, _), value in zip(captures(clone), mapped[own:], strict=True):
                    inner.operands[k] = value
            values.update(zip(op.results, clone.results, strict=True))
            texts.append(self.spelled[text])
        return texts

    def _cost(self, body: Body, unit: Sequence[int], function: ir.Operation) -> ir.DictAttr | None:
        """The sum of the ops' costs, written on the function, where all of them have one."""
        costs = [Cost.of(body.ops[i]) for i in unit]
        known = [cost for cost in costs if cost is not None]
        if len(known) < len(costs):
            return None
        attr = aggregate(known).to_attr(self.module.context)
        function.attributes[Cost.NAME] = attr
        return attr

    def _single(self, text: int) -> str:
        """The digest of a region of one op."""
        if text not in self.singles:
            self.singles[text] = self._digest((text,))
        return self.singles[text]

    def _function_texts(self, text: str) -> list[str]:
        """The texts of the functions that an op calls: their names alone say nothing."""
        found = []
        for quoted, plain in SYMBOL.findall(text):
            name = quoted or plain
            if name in self.callable:
                if name not in self.called:
                    self.called[name] = ""  # should it call itself
                    own = op_text(self.callable[name])
                    self.called[name] = "\0".join([own, *self._function_texts(own)])
                found.append(self.called[name])
        return found

    def _digest(self, texts: Sequence[int], key: Key | None = None) -> str:
        """Content hash of a region; values of constants do not count where no loop reads them."""
        spelled = [self.spelled[number] for number in texts]
        called = dict.fromkeys(
            t for text in spelled if "@" in text for t in self._function_texts(text)
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
                    ("const", self.spelled[ref[1]] if loops else "") if ref[0] == "const" else ref
                    for ref in refs
                )
                for _, refs in key.ops
            ]
            hasher.update(repr((wiring, key.outputs)).encode())
        return hasher.hexdigest()[:16]


def _flat_key(op: ir.Operation) -> object:
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
