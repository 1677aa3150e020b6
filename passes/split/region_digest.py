"""Digests of ops and regions, which identify what a cost was estimated for.

A digest covers the ops with their attributes, types and bodies, how values flow between them, and
the functions that they call. It leaves out names, locations, ``hespas`` attributes, and the values
of constants unless a loop may read them. The digest of a region is the same before and after it is
outlined.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hespas.dialects.canonical_text import COST_INPUTS, to_canonical_text
from hespas.dialects.mlir import ir
from hespas.dialects.op_bodies import is_small_constant
from hespas.dialects.op_kinds import CONSTANTS, LOOPS, TERMINATORS
from hespas.passes.split.blocks import list_read_values

SYMBOL = re.compile(r'@(?:"([^"]*)"|([\w.$-]+))')
CONSTANT_VALUE = re.compile(r"(stablehlo\.constant) dense(?:_resource)?<(?:[^<>]|<[^<>]*>)*>")

# Where an op of a region reads a value from: ("in", number of the region's input, 0),
# ("op", index of an op in the region, result number), or ("const", text number of a constant, 0).
InputRef = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class RegionKey:
    """What a region computes; regions with equal keys share one function.

    Attributes:
        ops: For each op, the number of its text and the sources of its inputs.
        outputs: For each output, the index of an op in the region and its result number; its
            source, if that is not an op.
    """

    ops: tuple[tuple[int, tuple[InputRef, ...]], ...]
    outputs: tuple[tuple[int, int] | InputRef, ...]


@dataclass(slots=True)
class OpTextTable:
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

    def render_op(self, op: ir.Operation) -> str:
        """Return the canonical text of an op; equal ops without regions are rendered once."""
        return self.texts[self.number_op(op)]


@dataclass(slots=True)
class RegionDigester:
    """Computes the digests of ops and regions whose texts are in ``op_texts``."""

    functions: dict[str, ir.Operation]
    op_texts: OpTextTable
    _callee_texts: dict[str, str] = field(default_factory=dict)
    _digests_by_text: dict[str, str] = field(default_factory=dict)

    def digest_text(self, text: str) -> str:
        """Return the digest of an op with this canonical text."""
        digest = self._digests_by_text.get(text)
        if digest is None:
            digest = self._digests_by_text[text] = self._digest_texts([text])
        return digest

    def digest_region(self, key: RegionKey) -> str:
        return self._digest_texts([self.op_texts.texts[number] for number, _ in key.ops], key)

    def digest_function(self, function: ir.Operation) -> str:
        """Return the digest of the region that a function contains."""
        return self.digest_region(build_function_key(function, self.op_texts))

    def _digest_texts(self, texts: list[str], key: RegionKey | None = None) -> str:
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
            wiring = [self._list_sources(refs, has_loop) for _, refs in key.ops]
            hasher.update(repr((wiring, key.outputs)).encode())
        return hasher.hexdigest()[:16]

    def _list_sources(self, refs: Sequence[InputRef], has_loop: bool) -> tuple[object, ...]:
        texts = self.op_texts.texts
        return tuple(
            ("const", texts[ref[1]] if has_loop else "") if ref[0] == "const" else ref
            for ref in refs
        )

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


def build_function_key(
    function: ir.Operation, op_texts: OpTextTable, op_numbers: list[int] | None = None
) -> RegionKey:
    """Build the key of the region that a function contains.

    Args:
        function: A function with one block.
        op_texts: Numbers the texts of the ops.
        op_numbers: Receives the text numbers of all ops but the terminator, in order.
    """
    block = function.regions[0].blocks[0]
    sources: dict[ir.Value, InputRef] = {
        argument: ("in", i, 0) for i, argument in enumerate(block.arguments)
    }
    ops: list[tuple[int, tuple[InputRef, ...]]] = []
    outputs: list[tuple[int, int] | InputRef] = []
    for view in block.operations:
        op = view.operation
        name = op.name
        if name in TERMINATORS:
            refs = [sources[value] for value in op.operands]
            outputs = [(ref[1], ref[2]) if ref[0] == "op" else ref for ref in refs]
            break
        number = op_texts.number_op(op)
        if op_numbers is not None:
            op_numbers.append(number)
        if name in CONSTANTS and is_small_constant(op):
            sources[op.results[0]] = ("const", number, 0)
            continue
        for k, result in enumerate(op.results):
            sources[result] = ("op", len(ops), k)
        ops.append((number, tuple(sources[value] for value in list_read_values(op))))
    return RegionKey(tuple(ops), tuple(outputs))


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
                    if not n.startswith("hespas.") or n in COST_INPUTS
                ]
            ),
            tuple([value.type for value in op.operands]),
            tuple([value.type for value in op.results]),
        )
    except TypeError:  # The bindings cannot represent constants with complex elements.
        return None
