"""Building blocks of cost rules: rules and their results, buffer sizes, and attribute readers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from hespas.dialects.buffer_sizes import (
    BufferSize,
    DynamicShape,
    describe_element_type,
    list_tuple_members,
    to_buffer_size,
)
from hespas.dialects.mlir import cache_ir_function, get_attribute, ir
from hespas.support.errors import HespasError
from hespas.support.records import record

__all__ = [
    "BufferSize",
    "DynamicShape",
    "describe_element_type",
    "list_tuple_members",
    "to_buffer_size",
]

FMA_FLOPS = 2  # a multiply-add is two operations, as in XLA's HloCostAnalysis
KEEP_GOING = (
    "use --keep-going to count it as a gap, or add a rule by the entry point hespas.cost_rules"
)
REFINE = "give the sizes with --prepare=dims=..., so that shapes can be refined"


def explain_declaration(name: str) -> str:
    """Say how the cost of an op or custom call of this name is declared, as a remedy.

    ``kernel-cost=...`` is an option of the annotate passes, and with ``--`` a flag of commands.
    """
    return (
        f"declare the work of {name} with kernel-cost={name}=FLOPS:BYTES, write a rule for it in a "
        "file (kernel-cost=FILE.py) or a package (hespas.cost_rules), or use --keep-going to count "
        "it as a gap"
    )


class UnknownCost(HespasError):
    """The work or cost of an op is unknown.

    ``message`` gives the reason; with ``--keep-going`` it becomes ``Cost.gap``.
    """


class NotALeaf(TypeError):
    """The caller asked for the work of control flow or of a collective, which have none."""


@record(frozen=True, slots=True)
class WorkPart:
    """Operations that run at one peak rate.

    Attributes:
        unit: ``matrix`` (tensor cores, systolic arrays) or ``vector``.
        dtype: The key of the peak rate: f64 f32 tf32 bf16 f16 f8 f6 f4 i64 i32 i16 i8 i4 i2 i1. A
            complex type has the key of its real part.
        flops: The number of operations on real numbers.
    """

    unit: str
    dtype: str
    flops: int


@record(frozen=True, slots=True)
class OpWork:
    """What one execution of an op does, on any device.

    Attributes:
        kind: The kind of kernel, such as ``gemm``, ``loop`` or ``custom``.
        read_bytes: The bytes that it reads from device memory.
        write_bytes: The bytes that it writes to device memory.
        parts: The operations, by peak rate.
        transcendentals: The number of transcendental functions, which ``parts`` do not contain.
        trips: How many iterations of a loop are counted.
        gap: What of the op has no known time, if anything.
    """

    kind: str
    read_bytes: int
    write_bytes: int
    parts: tuple[WorkPart, ...]
    transcendentals: int = 0
    trips: int = 1
    gap: str | None = None

    @property
    def flops(self) -> int:
        """The operations of all parts, without transcendentals."""
        return sum(part.flops for part in self.parts)

    @property
    def dtype(self) -> str:
        """The type of the part with the most operations, "none" for an op without operations."""
        return max(self.parts, key=lambda part: part.flops).dtype if self.parts else "none"

    @property
    def integer_product_flops(self) -> int:
        """The operations of matrix products and convolutions of integers.

        Integers that matrix units do not multiply are in a part on the vector units.
        """
        integers = [part for part in self.parts if part.dtype.startswith("i")]
        if not integers:
            return 0
        on_matrix_unit = sum(part.flops for part in integers if part.unit == "matrix")
        if on_matrix_unit or self.kind not in ("gemm", "conv"):
            return on_matrix_unit
        return sum(part.flops for part in integers)

    @property
    def is_free(self) -> bool:
        """Whether the op computes nothing and moves no bytes."""
        return not (self.parts or self.transcendentals or self.read_bytes or self.write_bytes)


FREE = OpWork("free", 0, 0, ())


@record(frozen=True, slots=True)
class CostRule:
    """How to count the work of some ops and custom calls.

    ``flops``, ``read`` and ``write`` say in words what is counted; they are columns of
    docs/reference/op-costs.md. A package adds rules by the entry point group ``hespas.cost_rules``,
    see ``hespas.estimators.rules.registry``.

    Attributes:
        work: Computes the work of an op; raises ``UnknownCost`` for an op that it cannot count.
        kind: The kind of kernel that the ops make.
        ops: The full names of the ops, such as ``stablehlo.add``.
        call_targets: The targets of custom calls; hespas's own rules use ``op_kinds`` instead.
        discardable_attributes: The discardable attributes that the work depends on, by name. Of an
            unregistered op and of a custom call the work may depend on any attribute.
        group: ``leaf`` for ops with work, ``free`` and ``terminator`` for ops without; the work of
            ``control``, ``collective`` and ``host`` ops is not computed by a rule.
    """

    work: Callable[[ir.Operation], OpWork]
    kind: str = "custom"
    flops: str = ""
    read: str = "operands"
    write: str = "results"
    ops: tuple[str, ...] = ()
    call_targets: tuple[str, ...] = ()
    discardable_attributes: tuple[str, ...] = ()
    group: str = "leaf"


def list_operand_sizes(op: ir.Operation) -> list[BufferSize]:
    """Return the sizes of the operands, in order."""
    return [to_buffer_size(value.type) for value in op.operands]


def list_result_sizes(op: ir.Operation) -> list[BufferSize]:
    """Return the sizes of the results, in order."""
    return [to_buffer_size(value.type) for value in op.results]


def count_read_bytes(op: ir.Operation) -> int:
    """Sum the bytes of the operands; a value that is used twice counts twice."""
    return sum([to_buffer_size(value.type).bytes for value in op.operands])


def count_written_bytes(op: ir.Operation) -> int:
    """Sum the bytes of the results."""
    return sum([to_buffer_size(value.type).bytes for value in op.results])


def build_vector_parts(key: str, flops: int) -> tuple[WorkPart, ...]:
    """Return one part on the vector units, or no part for 0 operations."""
    return (WorkPart("vector", key, flops),) if flops else ()


def build_matrix_parts(key: str, flops: int) -> tuple[WorkPart, ...]:
    """Return one part on the matrix units, or on the vector units for other types."""
    if not flops:
        return ()
    unit = "vector" if key in ("i64", "i32", "i16", "i2", "i1") else "matrix"
    return (WorkPart(unit, key, flops),)


@cache_ir_function(4096)
def parse_number_fields(attr: ir.Attribute) -> dict[str, tuple[int, ...]]:
    """Return the integer fields of a dimension-number or dot-algorithm attribute of any dialect.

    The text of the attribute is parsed, because the bindings have no accessors for MHLO.
    """
    fields = re.findall(r"(\w+) = \[?([-\d, ]*)\]?", str(attr))
    return {name: tuple(int(n) for n in re.findall(r"-?\d+", text)) for name, text in fields}


@cache_ir_function(4096)
def parse_word_fields(attr: ir.Attribute) -> dict[str, str]:
    """Return the fields of an attribute of the form ``#dialect.name<field = word, ...>``."""
    return dict(re.findall(r"(\w+) = (\w+)", str(attr)))


def read_integer_list(op: ir.Operation, name: str, default: Iterable[int]) -> tuple[int, ...]:
    """Return an array or dense attribute of integers, or the default if the op lacks it."""
    attributes = op.attributes
    return _read_integers(attributes[name]) if name in attributes else tuple(default)


@cache_ir_function(4096)
def _read_integers(attr: Any) -> tuple[int, ...]:
    """Read the integers of an array or dense attribute, each of which the bindings wrap."""
    return tuple(attr)


def read_flag(op: ir.Operation, name: str) -> bool:
    """Read an attribute that is true or false; false if it is absent."""
    return name in op.attributes and ir.BoolAttr(op.attributes[name]).value


def read_integer(op: ir.Operation, name: str, default: int) -> int:
    """Return an integer attribute, or the default if the op lacks it."""
    return get_attribute(op, name).value if name in op.attributes else default


def ceil_log2(n: int) -> int:
    """Return the least k with 2**k >= n; 0 for n below 2."""
    return max(n - 1, 0).bit_length()
