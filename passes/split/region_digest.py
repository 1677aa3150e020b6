"""Digests of ops and regions, which identify what a cost was estimated for.

A digest covers the contents of the ops (``estimators.op_content``), how values flow between them,
and the functions that they call. It leaves out the names of functions, and the values of constants
unless a loop may read them. The digest of a region is the same before and after it is outlined.
"""

from __future__ import annotations

import functools
import hashlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import field

from hespas.dialects.mlir import ir
from hespas.dialects.op_bodies import is_small_constant, list_read_values
from hespas.dialects.op_kinds import CONSTANTS, TERMINATORS
from hespas.estimators.op_content import (
    OpContent,
    build_op_key,
    read_op_content,
)
from hespas.support.records import record

CONSTANT_SOURCE = "('const', '')"  # in the flow of a region, without the value of the constant


@record(frozen=True, slots=True)
class RegionKey:
    """What a region computes; regions with equal keys share one function.

    Attributes:
        ops: The number of each op in the table of contents.
        constants: The number of each constant, once for each time that an op reads it.
        flow: Where the ops and the outputs read their values from (``format_flow``).
    """

    ops: tuple[int, ...]
    constants: tuple[int, ...]
    flow: str

    def hash_content(self) -> bytes:
        """Return a hash that keys share only if they are equal."""
        numbers = array("q", (len(self.ops), *self.ops, *self.constants))
        return hashlib.sha256(numbers.tobytes() + self.flow.encode()).digest()


def format_flow(read_counts: Iterable[int], sources: Iterable[str], outputs: Sequence[str]) -> str:
    """Format the flow of values in a region as text, which takes less memory than objects.

    Args:
        read_counts: How many values each op reads.
        sources: The sources of these values, of all ops: ('in', number of the region's input, 0),
            ('op', index of an op in the region, result number), or ('const', '').
        outputs: For each output, the index of its op and its result number; its source, if that
            is not an op.
    """
    # Formatting the texts of all ops at once takes a third of the time of a text for each op.
    ops = ", ".join(map(_make_tuple_format, read_counts)) % tuple(sources)
    return f"([{ops}], {_make_tuple_format(len(outputs)) % tuple(outputs)})"


@functools.cache
def _make_tuple_format(count: int) -> str:
    """Return the format of the text of a tuple."""
    return f"({', '.join(['%s'] * count)}{',' if count == 1 else ''})"


@record(slots=True)
class OpContentTable:
    """Numbers ops that are equal in all attributes; ``contents[n]`` is the content of number ``n``.

    Ops of several numbers may have equal contents: attributes that do not count for costs differ.
    """

    contents: list[OpContent] = field(default_factory=list)
    _numbers: dict[object, int] = field(default_factory=dict)

    def number_op(self, op: ir.Operation, name: str = "") -> int:
        """Return the number of an op, whose name may be given if it is known."""
        key = build_op_key(op, name or op.name)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.contents)
            self.contents.append(read_op_content(op))
        return number

    def find_content(self, op: ir.Operation) -> OpContent:
        """Return the content of an op; that of equal ops is read once."""
        return self.contents[self.number_op(op)]

    def select_contents(self, numbers: Iterable[int]) -> list[OpContent]:
        """Return the contents with these numbers."""
        return [self.contents[number] for number in numbers]


@record(slots=True)
class RegionDigester:
    """Computes the digests of ops and regions whose contents are in ``op_contents``."""

    functions: dict[str, ir.Operation]
    op_contents: OpContentTable
    _function_contents: dict[str, OpContent] = field(default_factory=dict)
    _digests: dict[str, str] = field(default_factory=dict)

    def digest_op(self, content: OpContent) -> str:
        """Return the digest of an op with this content."""
        digest = self._digests.get(content.text)
        if digest is None:
            digest = self._digests[content.text] = self._digest_contents([content])
        return digest

    def digest_region(self, key: RegionKey) -> str:
        return self._digest_contents(self.op_contents.select_contents(key.ops), key)

    def digest_function(self, function: ir.Operation) -> str:
        """Return the digest of the region that a function contains."""
        return self.digest_region(build_function_key(function, self.op_contents))

    def _digest_contents(self, contents: list[OpContent], key: RegionKey | None = None) -> str:
        called = self._collect_called_functions(dict.fromkeys(contents))
        contents = [*contents, *(self._read_function(name) for name in called)]
        distinct = dict.fromkeys(contents)
        has_loop = any(content.has_loop for content in distinct)
        numbers = {name: f"@{number}" for number, name in enumerate(called)}

        def describe_function(name: str) -> str:
            return numbers.get(name, f"@{name}")

        encoded = {
            content: content.text.encode() + b"\0"
            if len(content.parts) == 1
            else content.render(describe_function, with_values=has_loop).encode() + b"\0"
            for content in distinct
        }
        hasher = hashlib.sha256()
        for content in contents:
            hasher.update(encoded[content])
        if key is not None:
            flow = self._render_flow_with_values(key) if has_loop else key.flow
            hasher.update(flow.encode())
        return hasher.hexdigest()[:16]

    def _render_flow_with_values(self, key: RegionKey) -> str:
        """Return the flow of a region with the contents of the constants that it reads."""
        constants = self.op_contents.select_contents(key.constants)
        head, *rest = key.flow.split(CONSTANT_SOURCE)
        parts = [
            f"{('const', constant.text)}{part}"
            for constant, part in zip(constants, rest, strict=True)
        ]
        return head + "".join(parts)

    def _collect_called_functions(self, contents: Iterable[OpContent]) -> list[str]:
        """List the functions that ops call, directly or not, in the order of the first call."""
        called: dict[str, None] = {}
        pending = [name for content in contents for name in content.list_function_names()]
        while pending:
            name = pending.pop(0)
            if name in self.functions and name not in called:
                called[name] = None
                pending += self._read_function(name).list_function_names()
        return list(called)

    def _read_function(self, name: str) -> OpContent:
        content = self._function_contents.get(name)
        if content is None:
            content = self._function_contents[name] = read_op_content(self.functions[name])
        return content


def build_function_key(
    function: ir.Operation, op_contents: OpContentTable, op_numbers: list[int] | None = None
) -> RegionKey:
    """Build the key of the region that a function contains.

    Args:
        function: A function with one block.
        op_contents: Numbers the ops.
        op_numbers: Receives the numbers of all ops but the terminator, in order.
    """
    block = function.regions[0].blocks[0]
    sources: dict[ir.Value, tuple[str, int, int]] = {
        argument: ("in", i, 0) for i, argument in enumerate(block.arguments)
    }
    read_counts: list[int] = []
    read_sources: list[str] = []
    ops: list[int] = []
    constants: list[int] = []
    outputs: list[str] = []
    for view in block.operations:
        op = view.operation
        name = op.name
        if name in TERMINATORS:
            refs = [sources[value] for value in op.operands]
            outputs = [repr(ref[1:] if ref[0] == "op" else ref) for ref in refs]
            break
        number = op_contents.number_op(op, name)
        if op_numbers is not None:
            op_numbers.append(number)
        if name in CONSTANTS and is_small_constant(op):
            sources[op.results[0]] = ("const", number, 0)
            continue
        for k, result in enumerate(op.results):
            sources[result] = ("op", len(ops), k)
        ops.append(number)
        refs = [sources[value] for value in list_read_values(op, name)]
        constants += [ref[1] for ref in refs if ref[0] == "const"]
        read_counts.append(len(refs))
        read_sources += [CONSTANT_SOURCE if ref[0] == "const" else repr(ref) for ref in refs]
    flow = format_flow(read_counts, read_sources, outputs)
    return RegionKey(tuple(ops), tuple(constants), flow)
