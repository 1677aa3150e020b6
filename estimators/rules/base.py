"""What every cost rule is made of: the result, the size of a buffer, attribute readers."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hespas.dialects.mlir import ir
from hespas.support.errors import HespasError

FMA_FLOPS = 2  # a multiply-add is two operations, as in XLA's HloCostAnalysis
KEEP_GOING = "use --keep-going to count it as a gap, or add a rule in estimators/rules"
REFINE = "give the sizes with --prepare=dims=..., so that shapes can be refined"


class UnknownCost(HespasError):
    """The op's work cannot be told; ``message`` says why, in words fit for ``Cost.gap``."""


class NotALeaf(TypeError):
    """Control flow or a collective was asked for its work: an error of the caller."""


class DynamicShape(Exception):
    """A type without a static size; ``op_work`` turns it into a ``HespasError`` with the op."""


@dataclass(frozen=True, slots=True)
class WorkPart:
    """Operations that run at one peak rate.

    ``unit`` is ``matrix`` (tensor cores, systolic array) or ``vector``; ``dtype`` a key of the
    table of peak rates: f64 f32 tf32 bf16 f16 f8 f6 f4 i64 i32 i16 i8 i4 i2 i1. Complex numbers
    have the key of their real part and are counted in real operations.
    """

    unit: str
    dtype: str
    flops: int


@dataclass(frozen=True, slots=True)
class OpWork:
    """What one execution of an op does: operations by rate, bytes of device memory touched."""

    kind: str
    read_bytes: int
    write_bytes: int
    parts: tuple[WorkPart, ...]
    transcendentals: int = 0
    trips: int = 1
    gap: str | None = None

    @property
    def flops(self) -> int:
        """Operations of all parts; transcendentals are not among them."""
        return sum(part.flops for part in self.parts)

    @property
    def dtype(self) -> str:
        """The key of the largest part, "none" if there is none."""
        return max(self.parts, key=lambda part: part.flops).dtype if self.parts else "none"

    @property
    def is_free(self) -> bool:
        """Whether it takes no operations and no memory traffic."""
        return not (self.parts or self.transcendentals or self.read_bytes or self.write_bytes)


FREE = OpWork("free", 0, 0, ())


@dataclass(frozen=True, slots=True)
class CostRule:
    """How the work of some ops is counted, and the words for it in docs/reference/op-costs.md.

    ``group`` is leaf, free, collective, control, terminator or host; only the first two, and
    terminators, have ``work``.
    """

    group: str
    kind: str
    flops: str
    read: str
    write: str
    work: Callable[[ir.Operation], OpWork]


@dataclass(frozen=True, slots=True)
class BufferSize:
    """The size of a value: ``bytes`` in memory, ``key`` of its element type's peak rate."""

    shape: tuple[int, ...]
    elements: int
    bytes: int
    key: str
    bits: int
    is_complex: bool

    @property
    def flops_per_addition(self) -> int:
        """Real operations in one addition."""
        return 2 if self.is_complex else 1


_EMPTY_SIZE = BufferSize((), 0, 0, "none", 0, False)


@functools.lru_cache(maxsize=1 << 14)
def to_buffer_size(type_: ir.Type) -> BufferSize:
    """The size of a value of this type; tuples are the sum of their members, tokens nothing."""
    if isinstance(type_, ir.TupleType):
        members = [to_buffer_size(member) for member in list_tuple_members(type_)]
        first = members[0] if members else _EMPTY_SIZE
        size = sum(member.bytes for member in members)
        return BufferSize(
            first.shape, first.elements, size, first.key, first.bits, first.is_complex
        )
    if isinstance(type_, (ir.UnrankedTensorType, ir.UnrankedMemRefType)):
        raise DynamicShape(str(type_))
    if not isinstance(type_, (ir.RankedTensorType, ir.MemRefType)):
        return _EMPTY_SIZE
    if not type_.has_static_shape:
        raise DynamicShape(str(type_))
    shape = tuple(type_.shape)
    elements = math.prod(shape)
    key, bits, is_complex = describe_element_type(type_.element_type)
    return BufferSize(shape, elements, -(-elements * bits // 8), key, bits, is_complex)


def list_tuple_members(type_: ir.TupleType) -> list[ir.Type]:
    """The members of a tuple type."""
    return [type_.get_type(i) for i in range(type_.num_types)]


def describe_element_type(type_: ir.Type) -> tuple[str, int, bool]:
    """Peak-rate key, bits in memory, and whether it is complex, of an element type.

    i1 takes a byte, as PRED does in XLA; types below a byte are packed; quantised types are their
    storage type.
    """
    if isinstance(type_, ir.ComplexType):
        key, bits, _ = describe_element_type(type_.element_type)
        return key, 2 * bits, True
    if isinstance(type_, ir.IntegerType):
        return f"i{type_.width}", 8 if type_.width == 1 else type_.width, False
    if isinstance(type_, ir.IndexType):
        return "i64", 64, False
    text = str(type_)
    storage = re.match(r"!quant\.uniform<[su]?[iu](\d+)", text)
    if storage:
        return f"i{storage[1]}", int(storage[1]), False
    if text == "tf32":
        return "tf32", 32, False
    short = re.match(r"f[468](?=E)", text)
    if short:
        return short[0], int(short[0][1:]), False
    number = re.fullmatch(r"b?f(\d+)", text)
    if not number:
        raise DynamicShape(text)
    return text, int(number[1]), False


def list_operand_sizes(op: ir.Operation) -> list[BufferSize]:
    """The sizes of the operands, in order."""
    return [to_buffer_size(value.type) for value in op.operands]


def list_result_sizes(op: ir.Operation) -> list[BufferSize]:
    """The sizes of the results, in order."""
    return [to_buffer_size(value.type) for value in op.results]


def count_read_bytes(op: ir.Operation) -> int:
    """Bytes of the operands, one read per operand position."""
    return sum([to_buffer_size(value.type).bytes for value in op.operands])


def count_written_bytes(op: ir.Operation) -> int:
    """Bytes of the results."""
    return sum([to_buffer_size(value.type).bytes for value in op.results])


def build_vector_parts(key: str, flops: int) -> tuple[WorkPart, ...]:
    """One part on the vector units, or none where there is nothing to do."""
    return (WorkPart("vector", key, flops),) if flops else ()


def build_matrix_parts(key: str, flops: int) -> tuple[WorkPart, ...]:
    """One part on the matrix units; wide integers and i1 have none, and run on the vector units."""
    if not flops:
        return ()
    unit = "vector" if key in ("i64", "i32", "i16", "i2", "i1") else "matrix"
    return (WorkPart(unit, key, flops),)


@functools.lru_cache(maxsize=4096)
def parse_number_fields(attr: ir.Attribute) -> dict[str, tuple[int, ...]]:
    """The integer fields of a dimension-number or dot-algorithm attribute, of any dialect.

    Read from the text: the bindings have accessors for StableHLO's and none for MHLO's.
    """
    fields = re.findall(r"(\w+) = \[?([-\d, ]*)\]?", str(attr))
    return {name: tuple(int(n) for n in re.findall(r"-?\d+", text)) for name, text in fields}


@functools.lru_cache(maxsize=4096)
def parse_word_fields(attr: ir.Attribute) -> dict[str, str]:
    """The fields of an attribute of the form ``#dialect.name<field = word, ...>``."""
    return dict(re.findall(r"(\w+) = (\w+)", str(attr)))


def get_attribute(op: ir.Operation, name: str) -> Any:
    """An attribute that the op must have, of whatever class its kind has."""
    return op.attributes[name]


def read_integer_list(op: ir.Operation, name: str, default: Iterable[int]) -> tuple[int, ...]:
    """An attribute that lists integers (array or dense elements), or the default where absent."""
    return tuple(get_attribute(op, name) if name in op.attributes else default)


def read_integer(op: ir.Operation, name: str, default: int) -> int:
    """An integer attribute, or the default where absent."""
    return get_attribute(op, name).value if name in op.attributes else default


def ceil_log2(n: int) -> int:
    """The least k with 2**k >= n, and 0 below 2."""
    return max(n - 1, 0).bit_length()
