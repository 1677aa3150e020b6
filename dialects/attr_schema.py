"""How a ``hespas`` attribute is declared: a frozen dataclass whose fields declare their attributes.

On the IR an attribute is a discardable dictionary of builtin attributes (``hespas.cost = {flops =
4 : i64, ...}``), so that an annotated module stays valid in every MLIR tool. The Python type of a
field determines its attribute (``FIELD_KINDS``). A field whose default is ``None`` is absent when
unset. This module imports no MLIR bindings.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import MISSING, field, fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hespas.support.records import record

if TYPE_CHECKING:
    from hespas.dialects.mlir import ir


@record(frozen=True)
class FieldKind:
    """A type of attribute fields.

    Attributes:
        name: Key under which the codecs of the bindings and of xDSL register this type.
        description: The type as an error message and the reference page call it.
        irdl_base: The builtin attribute in IRDL.
    """

    name: str
    description: str
    irdl_base: str


FIELD_KINDS = {  # by the annotation of the field
    "int": FieldKind("int", "an i64", "integer"),
    "float": FieldKind("float", "an f64", "float"),
    "str": FieldKind("str", "a string", "string"),
    "bool": FieldKind("bool", "a bool", "integer"),
    "tuple[int, ...]": FieldKind("ints", "an array<i64>", "dense_array"),
}

VALUE_TYPES: dict[str, type] = {"int": Integral, "float": Real, "str": str}


@record(frozen=True)
class AttrField:
    """One field of an attribute, as its dataclass declares it.

    Attributes:
        default: ``MISSING`` for a field without one; ``None`` for one that is absent when unset.
        choices: The permitted words; empty if every value is permitted.
        is_derived: Whether the field is absent if its value follows from the op.
        adds: How the field of a cost adds up; see ``dialects/attrs.py``.
    """

    name: str
    kind: FieldKind
    description: str
    default: Any
    choices: tuple[str, ...]
    is_derived: bool
    adds: str = ""

    @property
    def is_required(self) -> bool:
        """Whether the attribute always has the field."""
        return self.default is MISSING and not self.is_derived


def declare_field(
    text: str,
    *,
    default: Any = MISSING,
    choices: tuple[str, ...] = (),
    compare: bool = True,
    derived: bool = False,
    adds: str = "",
) -> Any:
    """Declare a field of a record.

    Args:
        text: The description of the field.
        default: Its default, which is not written; ``None`` if the field is absent when unset.
        choices: The permitted words; empty if every value is permitted.
        compare: Whether records that differ in this field only are different.
        derived: Whether the field is not written if ``derive_fields`` finds its value in the op.
        adds: How the field of a cost adds up.
    """
    metadata = {"doc": text, "choices": choices, "derived": derived, "adds": adds}
    return field(default=default, compare=compare, metadata=metadata)


class AttrRecord:
    """The base of the attributes: reads and writes its dictionary form on MLIR operations."""

    NAME: ClassVar[str]
    HOLDERS: ClassVar[str]

    def to_dictionary_attr(
        self, context: ir.Context, op: ir.Operation | None = None
    ) -> ir.DictAttr:
        """Return the dictionary attribute, without the fields that have their defaults.

        Args:
            context: The context of the attribute.
            op: The op that will have it; fields that follow from it are left out.
        """
        return _load_codec().build_dictionary_attr(self, context, op)

    def write_to_op(self, op: ir.Operation) -> None:
        """Set the attribute on ``op``, in place of an existing one."""
        op.attributes[self.NAME] = self.to_dictionary_attr(op.context, op)

    @classmethod
    def derive_fields(cls, op: ir.Operation) -> dict[str, Any]:
        """Return the values of fields that follow from an op, by name."""
        return {}

    @classmethod
    def read_from_op(cls, op: ir.Operation) -> Self | None:
        """Return the attribute of ``op``, or None if it has none.

        Raises:
            HespasError: The attribute violates the schema.
        """
        attributes = op.attributes
        if cls.NAME not in attributes:
            return None
        return cls.from_dictionary_attr(attributes[cls.NAME], op)

    @classmethod
    def from_dictionary_attr(cls, attr: ir.Attribute, op: ir.Operation | None = None) -> Self:
        """Return the record that a dictionary attribute holds.

        Args:
            op: The op that has it, which error messages name.

        Raises:
            HespasError: The attribute violates the schema.
        """
        return _load_codec().parse_dictionary_attr(cls, attr, op)

    def find_schema_violation(self) -> str:
        """Return the first rule on values, or between fields, that the record violates, or ""."""
        values = {entry.name: getattr(self, entry.name) for entry in list_attr_fields(type(self))}
        return self.find_value_violation(values) or self.find_inconsistency()

    def find_type_violation(self) -> str:
        """Return the first field whose value is not of its type, or ""."""
        for entry in list_attr_fields(type(self)):
            value, kind = getattr(self, entry.name), VALUE_TYPES.get(entry.kind.name)
            if kind and not isinstance(value, kind) and not (value is None is entry.default):
                return f"{entry.name} is {value!r}, not {entry.kind.description}"
            if kind is Real and value is not None:
                try:
                    float(value)
                except OverflowError:  # of a whole number or a fraction
                    return f"{entry.name} is more than {entry.kind.description} holds"
        return ""

    @classmethod
    def find_value_violation(cls, values: Mapping[str, Any]) -> str:
        """Return the first rule on values that fields violate, some of which may be missing, or "".

        Numbers are finite and never negative, and words are among the permitted ones.
        """
        numbers, words = _list_checked_fields(cls)
        for name in numbers:
            value = values.get(name)
            if value is not None and not 0 <= value < math.inf:
                problem = "less than 0" if value < 0 else "no finite number"
                return f"{name} is {value}, {problem}"
        for name, choices in words:
            value = values.get(name)
            if value is not None and value not in choices:
                return f"{name} is '{value}', not one of {', '.join(choices)}"
        return ""

    def find_inconsistency(self) -> str:
        """Return the first rule between fields that the record violates, or ""."""
        return ""


@functools.cache
def _load_codec() -> Any:
    """Import the codec, which imports this module; an import statement takes as long as a field."""
    from hespas.dialects import attr_codec

    return attr_codec


@functools.cache
def list_attr_fields(record_class: type[AttrRecord]) -> tuple[AttrField, ...]:
    """Return the fields of an attribute in order."""
    return tuple(
        AttrField(
            entry.name,
            FIELD_KINDS[entry.type.removesuffix(" | None")],
            entry.metadata["doc"],
            entry.default,
            entry.metadata["choices"],
            entry.metadata["derived"],
            entry.metadata["adds"],
        )
        for entry in fields(record_class)  # type: ignore[arg-type]
    )


@functools.cache
def _list_checked_fields(
    record_class: type[AttrRecord],
) -> tuple[tuple[str, ...], tuple[tuple[str, tuple[str, ...]], ...]]:
    """Return the names of the numbers, and the names and permitted words of the words."""
    declared_fields = list_attr_fields(record_class)
    numbers = tuple(f.name for f in declared_fields if f.kind.name in ("int", "float"))
    return numbers, tuple((f.name, f.choices) for f in declared_fields if f.choices)
