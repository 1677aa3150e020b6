"""The sizes of values in memory, by their types."""

from __future__ import annotations

import math
import re

from hespas.dialects.mlir import cache_ir_function, ir
from hespas.support.records import record


class DynamicShape(Exception):
    """A type has no static size; ``compute_op_work`` turns this into a ``HespasError``."""


@record(frozen=True, slots=True)
class BufferSize:
    """The size of a value in memory.

    Attributes:
        bytes: The size, rounded up to whole bytes.
        key: The key of the peak rate of the element type.
        bits: The bits of one element in memory; of both parts of a complex number.
    """

    shape: tuple[int, ...]
    elements: int
    bytes: int
    key: str
    bits: int
    is_complex: bool

    @property
    def flops_per_addition(self) -> int:
        """The real operations of one addition."""
        return 2 if self.is_complex else 1


EMPTY_SIZE = BufferSize((), 0, 0, "none", 0, False)


@cache_ir_function(1 << 14)
def to_buffer_size(type_: ir.Type) -> BufferSize:
    """Return the size of a value of this type.

    The bytes of a tuple are the sum of its members, and its other fields are those of the first
    member. A token has size 0.

    Raises:
        DynamicShape: The type has no static shape, or an element type of unknown size.
    """
    if isinstance(type_, ir.TupleType):
        members = [to_buffer_size(member) for member in list_tuple_members(type_)]
        first = members[0] if members else EMPTY_SIZE
        size = sum(member.bytes for member in members)
        return BufferSize(
            first.shape, first.elements, size, first.key, first.bits, first.is_complex
        )
    if isinstance(type_, (ir.UnrankedTensorType, ir.UnrankedMemRefType)):
        raise DynamicShape(str(type_))
    if not isinstance(type_, (ir.RankedTensorType, ir.MemRefType)):
        return EMPTY_SIZE
    if not type_.has_static_shape:
        raise DynamicShape(str(type_))
    shape = tuple(type_.shape)
    elements = math.prod(shape)
    key, bits, is_complex = describe_element_type(type_.element_type)
    return BufferSize(shape, elements, -(-elements * bits // 8), key, bits, is_complex)


def list_tuple_members(type_: ir.TupleType) -> list[ir.Type]:
    """Return the members of a tuple type."""
    return [type_.get_type(i) for i in range(type_.num_types)]


def describe_element_type(type_: ir.Type) -> tuple[str, int, bool]:
    """Return the key of the peak rate, the bits in memory, and whether the type is complex.

    An i1 occupies a byte, as PRED does in XLA. Other types below a byte are packed. A quantised
    type counts as its storage type.
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
