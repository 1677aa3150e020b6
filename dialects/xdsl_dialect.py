"""The ``hespas`` dialect in xDSL: one typed attribute for each record of ``hespas.dialects.attrs``.

``#hespas.region<id = 0 : i64, ops = 3 : i64, digest = "5f1c">`` holds the same fields as the
dictionary ``{id = 0 : i64, ops = 3 : i64, digest = "5f1c"}`` on the native IR; ``from_dictionary``
and ``to_dictionary`` convert. The classes are generated from the schema, and importing this module
imports no MLIR bindings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

from xdsl.dialects.builtin import (
    I1,
    I64,
    DenseArrayBase,
    DictionaryAttr,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    NoneAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from hespas.dialects.attr_schema import AttrRecord, list_attr_fields
from hespas.dialects.attrs import RECORDS

Int: TypeAlias = IntegerAttr[I64]
Float: TypeAlias = FloatAttr[Float64Type]
Bool: TypeAlias = IntegerAttr[I1]
Ints: TypeAlias = DenseArrayBase[I64]


@dataclass(frozen=True)
class _XdslType:
    """The xDSL attribute of a field kind, and how to read its Python value."""

    annotation: Any
    get_value: Callable[[Any], Any]


_TYPES: dict[str, _XdslType] = {  # by name of the field kind
    "int": _XdslType(Int, lambda attr: attr.value.data),
    "float": _XdslType(Float, lambda attr: attr.value.data),
    "str": _XdslType(StringAttr, lambda attr: attr.data),
    "bool": _XdslType(Bool, lambda attr: bool(attr.value.data)),
    "ints": _XdslType(Ints, lambda attr: attr.get_values()),
}


class TypedRecordAttr(ParametrizedAttribute):
    """An attribute with named fields; a field that is unset is ``NoneAttr`` and is not printed."""

    RECORD: ClassVar[type[AttrRecord]] = AttrRecord

    @classmethod
    def from_dictionary(cls, entries: Mapping[str, Attribute]) -> Self:
        """Return the typed form of dictionary entries.

        Raises:
            VerifyException: The entries violate the schema.
        """
        declared_fields = list_attr_fields(cls.RECORD)
        names = [declared.name for declared in declared_fields]
        for name in entries:
            if name not in names:
                raise VerifyException(
                    f"{cls.name} has no field '{name}'; its fields are {', '.join(names)}"
                )
        for declared in declared_fields:
            if declared.is_required and declared.name not in entries:
                raise VerifyException(f"{cls.name} lacks the field '{declared.name}'")
        return cls.new([entries.get(name, NoneAttr()) for name in names])

    def to_dictionary(self) -> DictionaryAttr:
        """Return the dictionary form, without the fields that are unset."""
        return DictionaryAttr(dict(self.list_set_fields()))

    def list_set_fields(self) -> list[tuple[str, Attribute]]:
        """Return the names and values of the fields that are set, in the order of the schema."""
        names = [name for name, _ in type(self).get_irdl_definition().parameters]
        pairs = zip(names, self.parameters, strict=True)
        return [(name, value) for name, value in pairs if not isinstance(value, NoneAttr)]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        entries: dict[str, Attribute] = {}

        def parse_field() -> None:
            name = parser.parse_identifier()
            if name in entries:
                parser.raise_error(f"{cls.name}: field '{name}' occurs twice")
            parser.parse_punctuation("=")
            entries[name] = parser.parse_attribute()

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parse_field)
        try:
            return cls.from_dictionary(entries).parameters
        except VerifyException as error:
            parser.raise_error(str(error))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            for index, (name, value) in enumerate(self.list_set_fields()):
                printer.print_string(f"{', ' if index else ''}{name} = ")
                printer.print_attribute(value)

    def verify(self) -> None:
        fields = list_attr_fields(self.RECORD)
        kinds = {declared.name: declared.kind for declared in fields}
        values = {
            name: _TYPES[kinds[name].name].get_value(attr) for name, attr in self.list_set_fields()
        }
        violation = self.RECORD.find_value_violation(values)
        if not violation and all(f.name in values for f in fields if f.is_derived):
            violation = self.RECORD(**values).find_inconsistency()
        if violation:
            raise VerifyException(f"{self.name}: {violation}")


def _define_attribute(record: type[AttrRecord]) -> type[TypedRecordAttr]:
    annotations = {}
    for declared in list_attr_fields(record):
        annotation = _TYPES[declared.kind.name].annotation
        annotations[declared.name] = annotation if declared.is_required else annotation | NoneAttr
    members = {
        "__module__": __name__,
        "__doc__": record.__doc__,
        "__annotations__": annotations,
        "name": record.NAME,
        "RECORD": record,
    }
    return irdl_attr_definition(type(f"Typed{record.__name__}", (TypedRecordAttr,), members))


RECORD_ATTRS: Mapping[str, type[TypedRecordAttr]] = {
    record.NAME: _define_attribute(record) for record in RECORDS
}

HESPAS = Dialect("hespas", [], list(RECORD_ATTRS.values()))


def replace_dictionaries(module: Operation) -> None:
    """Replace hespas attributes in dictionary form by their typed form, in place.

    Raises:
        VerifyException: An attribute violates the schema.
    """
    for op in module.walk():
        for name, attr in op.attributes.items():
            if name in RECORD_ATTRS and isinstance(attr, DictionaryAttr):
                op.attributes[name] = RECORD_ATTRS[name].from_dictionary(attr.data)


def replace_typed_attributes(module: Operation) -> None:
    """Replace hespas attributes in typed form by their dictionary form, in place."""
    for op in module.walk():
        for name, attr in op.attributes.items():
            if isinstance(attr, TypedRecordAttr):
                op.attributes[name] = attr.to_dictionary()
