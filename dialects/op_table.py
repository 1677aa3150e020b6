"""The ops of a function as numbers, read from its bytecode.

Bytecode numbers values, types and attributes natively, in 1 us for each op, and reading the numbers
takes 2 us. Reading an op, its operands, results and attributes through the bindings takes 7 us.

Version 0 of the format is enough: attributes of an op are one dictionary, and nothing says in which
order the uses of a value are listed.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Any

from hespas.dialects import bytecode
from hespas.dialects.bytecode import read_varint
from hespas.dialects.mlir import ir, to_mlir_bytecode
from hespas.support.records import record

_VERSION = 0
# What follows the name of an op, by the bits of its mask.
_ATTRIBUTES, _RESULTS, _OPERANDS, _SUCCESSORS, _REGIONS = 1, 2, 4, 8, 16
_NO_ATTRIBUTES = -1
_LATER_TYPE = -1  # of a value that is defined in a block further down
_CAPTURED = -1
_SIZES = [(first & -first).bit_length() or 9 for first in range(256)]  # of a number, by first byte
# All properties of their ops are attributes; version 0 has no others.
_PLAIN_DIALECTS = ("stablehlo.", "mhlo.", "chlo.", "func.")


class NumberRows(Sequence[Sequence[int]]):
    """A list of rows of numbers in two arrays, in an eighth of the memory of a list of tuples.

    Attributes:
        numbers: The numbers of all rows.
        ends: Where each row ends in them; first 0.
    """

    __slots__ = ("ends", "numbers")

    def __init__(self, rows: Iterable[Iterable[int]] = ()) -> None:
        self.numbers, self.ends = array("i"), array("i", (0,))
        for row in rows:
            self.append(row)

    @classmethod
    def list_ranges(cls, ends: array[int]) -> NumberRows:
        """Return rows that count from 0 on together; the first of ``ends`` is 0."""
        rows = cls()
        rows.numbers, rows.ends = array("i", range(ends[-1])), ends
        return rows

    def append(self, row: Iterable[int]) -> None:
        self.numbers.extend(row)
        self.ends.append(len(self.numbers))

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, index: Any) -> Any:
        """Return the row with an index, which is not negative."""
        return self.numbers[self.ends[index] : self.ends[index + 1]]

    def __iter__(self) -> Iterator[Sequence[int]]:
        numbers = self.numbers
        for start, end in pairwise(self.ends):
            yield numbers[start:end]


@record(slots=True)
class TableBlock:
    """The ops of a block, by columns.

    The results of its ops are numbered from 0 in program order. Its arguments have the numbers
    before, up to -1, and values of the blocks around it lower ones.

    Attributes:
        first_result: The number of its result 0 in the function.
        kinds: The kind of each op. Ops of a kind are equal in name, attributes, types and bodies;
            equal ops of another dialect than those of programs may have several kinds.
        reads: For each op, the values that it and its bodies read from outside the op, once for
            each occurrence in a pre-order walk.
        result_counts: The number of results of each op.
        bodies: The first block of each region of the ops whose bodies were asked for, by op.
    """

    first_result: int
    kinds: array[int] = field(default_factory=lambda: array("i"))
    reads: NumberRows = field(default_factory=NumberRows)
    result_counts: array[int] = field(default_factory=lambda: array("i"))
    bodies: dict[int, list[TableBlock]] = field(default_factory=dict)


@record(slots=True)
class OpTable:
    """The first block of a function, and the name of each kind of ops."""

    block: TableBlock
    kind_names: list[str]


def write_op_code(function: ir.Operation) -> bytes:
    """Return the bytecode of a function, from which ``read_op_table`` reads."""
    return to_mlir_bytecode(function, _VERSION)


def read_op_table(
    function: ir.Operation, with_bodies: Collection[str] = (), data: bytes = b""
) -> OpTable:
    """Read the ops of a function.

    Args:
        function: The function.
        with_bodies: The names of the ops of whose bodies the blocks are kept.
        data: Its bytecode if it has been written.
    """
    data = data or write_op_code(function)
    sections = {kind: (start, end) for kind, start, end in bytecode.list_sections(data)}
    strings = bytecode.read_strings(data, sections[bytecode.STRINGS][0])
    names = _read_op_names(data, *sections[bytecode.DIALECTS], strings)
    context = function.context
    reader = _OpReader(
        data,
        names,
        [
            name.startswith(_PLAIN_DIALECTS) and context.is_registered_operation(name)
            for name in names
        ],
        sections[bytecode.IR][0],
        {function.name, *with_bodies},
    )
    root = reader.read_block(0, [])
    return OpTable(root.bodies[0][0], reader.kind_names)


def _read_op_names(data: bytes, start: int, end: int, strings: list[bytes]) -> list[str]:
    """Read the names of ops from the section of dialects."""
    count, position = read_varint(data, start)
    dialects: list[str] = []
    for _ in range(count):
        number, position = read_varint(data, position)
        dialects.append(strings[number].decode())
    names: list[str] = []
    while position < end:
        dialect, position = read_varint(data, position)
        count, position = read_varint(data, position)
        for _ in range(count):
            number, position = read_varint(data, position)
            names.append(f"{dialects[dialect]}.{strings[number].decode()}")
    return names


@record(slots=True)
class _OpReader:
    """Reads blocks from ``position`` on, whose kinds of ops it numbers."""

    data: bytes
    names: list[str]
    is_plain: list[bool]
    position: int
    with_bodies: Collection[str]
    kind_names: list[str] = field(default_factory=list)
    _kinds: dict[object, int] = field(default_factory=dict)

    def read_block(self, first_value: int, types: list[int]) -> TableBlock:
        """Read a block.

        Args:
            first_value: The number of its first argument in the function.
            types: The types of values by number, which receives those of the block.
        """
        data, position = self.data, self.position
        op_count, position = read_varint(data, position)
        value = first_value
        if op_count & 1:
            count, position = read_varint(data, position)
            for _ in range(count):
                types[value], position = read_varint(data, position)
                position += _SIZES[data[position]]  # the location
                value += 1
        block = TableBlock(value)
        first_result = value
        kinds, names, is_plain, sizes = self._kinds, self.names, self.is_plain, _SIZES
        add_kind, add_read, add_end = (
            block.kinds.append, block.reads.numbers.append, block.reads.ends.append
        )  # fmt: skip
        reads = block.reads.numbers
        add_result_count = block.result_counts.append
        for op in range(op_count >> 1):
            # Most numbers have 7 bits, and are one byte whose last bit is 1. They are read in
            # place, because a call takes as long as the rest of the loop takes for each number.
            name = data[position]
            if name & 1:
                name >>= 1
                position += 1
            else:
                name, position = read_varint(data, position)
            mask = data[position]
            position += 1 + sizes[data[position + 1]]  # and the location
            attributes = _NO_ATTRIBUTES
            if mask & _ATTRIBUTES:
                attributes = data[position]
                if attributes & 1:
                    attributes >>= 1
                    position += 1
                else:
                    attributes, position = read_varint(data, position)
            result_count = 0
            key: list[object] = [name, attributes, result_count]
            if mask & _RESULTS:
                result_count = data[position] >> 1
                if data[position] & 1:
                    position += 1
                else:
                    result_count, position = read_varint(data, position)
                key[2] = result_count
                for _ in range(result_count):
                    type_ = data[position]
                    if type_ & 1:
                        type_ >>= 1
                        position += 1
                    else:
                        type_, position = read_varint(data, position)
                    types[value] = type_
                    key.append(type_)
                    value += 1
            if mask & _OPERANDS:
                count = data[position] >> 1
                if data[position] & 1:
                    position += 1
                else:
                    count, position = read_varint(data, position)
                for _ in range(count):
                    number = data[position]
                    if number & 1:
                        number >>= 1
                        position += 1
                    elif number & 2:
                        number = (number | data[position + 1] << 8) >> 2
                        position += 2
                    elif number & 4:
                        number = (number | data[position + 1] << 8 | data[position + 2] << 16) >> 3
                        position += 3
                    else:
                        number, position = read_varint(data, position)
                    add_read(number - first_result)
                    key.append(types[number])
            if mask & _SUCCESSORS:
                count, position = read_varint(data, position)
                for _ in range(count):
                    successor, position = read_varint(data, position)
                    key.append((successor,))
            if mask & _REGIONS:
                self.position = position
                bodies, captured = self._read_bodies(types, key)
                reads.extend([number - first_result for number in captured])
                position = self.position
                if names[name] in self.with_bodies:
                    block.bodies[op] = bodies
            if not is_plain[name]:
                key.append(position)
            content = tuple(key)
            kind = kinds.get(content)
            if kind is None:
                kind = kinds[content] = len(kinds)
                self.kind_names.append(names[name])
            add_kind(kind)
            add_end(len(reads))
            add_result_count(result_count)
        self.position = position
        return block

    def _read_bodies(
        self, types: list[int], key: list[object]
    ) -> tuple[list[TableBlock], list[int]]:
        """Read the regions of an op.

        Args:
            types: The types of values by number.
            key: The key of the op, to which the bodies are added.

        Returns:
            The first block of each region that is not empty, and the numbers in the function of the
            values from outside that the bodies read.
        """
        first_blocks: list[TableBlock] = []
        captured: list[int] = []
        encoding, self.position = read_varint(self.data, self.position)
        is_isolated = encoding & 1
        inner_types, first_value = ([], 0) if is_isolated else (types, len(types))
        for _ in range(encoding >> 1):
            block_count, self.position = read_varint(self.data, self.position)
            key.append((block_count,))
            if not block_count:
                continue
            value_count, self.position = read_varint(self.data, self.position)
            inner_types += [_LATER_TYPE] * value_count
            value = first_value
            for number in range(block_count):
                block = self.read_block(value, inner_types)
                if not number:
                    first_blocks.append(block)
                key.append((*inner_types[value : block.first_result],))
                key.append(block.kinds.tobytes())  # which say how many values each op reads
                reads = block.reads.numbers
                if is_isolated and block_count == 1:
                    key.append(reads.tobytes())
                else:
                    base = block.first_result - first_value
                    key.append((*[max(base + read, _CAPTURED) for read in reads],))
                    captured += [read + block.first_result for read in reads if base + read < 0]
                value = block.first_result + sum(block.result_counts)
            del inner_types[first_value:]
        return first_blocks, captured
