"""The ``hespas`` dialect in xDSL: one typed attribute per record of ``hespas.dialects.attrs``.

``#hespas.region<id = 0 : i64, ops = 3 : i64, digest = "5f1c">`` holds what the dictionary
``{id = 0 : i64, ops = 3 : i64, digest = "5f1c"}`` holds on the native IR; ``from_dictionary`` and
``to_dictionary`` convert. Importing this module imports no MLIR bindings: the fields are declared
here again, and ``test/unit/test_xdsl_dialect.py`` holds them equal to the schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self, TypeAlias

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
from xdsl.irdl import ParamAttrDef, irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from hespas.dialects.vocabulary import BOUNDS, COMM_KINDS, COST_NUMBERS, KERNEL_KINDS, SPLITS

Int: TypeAlias = IntegerAttr[I64]
Float: TypeAlias = FloatAttr[Float64Type]
Bool: TypeAlias = IntegerAttr[I1]
Ints: TypeAlias = DenseArrayBase[I64]


class TypedRecordAttr(ParametrizedAttribute):
    """An attribute of named fields; those that may be ``NoneAttr`` are left out when unset."""

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    AT_LEAST_0: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def from_dictionary(cls, entries: Mapping[str, Attribute]) -> Self:
        """The typed form of dictionary entries; raises VerifyException."""
        declared = dict(_get_irdl_definition(cls).parameters)
        for name in entries:
            if name not in declared:
                known = ", ".join(declared)
                raise VerifyException(f"{cls.name} has no field '{name}'; its fields are {known}")
        for name, definition in declared.items():
            if name not in entries and not definition.constr.verifies(NoneAttr()):
                raise VerifyException(f"{cls.name} lacks the field '{name}'")
        return cls.new([entries.get(name, NoneAttr()) for name in declared])

    def to_dictionary(self) -> DictionaryAttr:
        """The dictionary form, fields that are unset left out."""
        return DictionaryAttr(dict(self.list_set_fields()))

    def list_set_fields(self) -> list[tuple[str, Attribute]]:
        """The fields that are set, in the order of the schema."""
        names = [name for name, _ in _get_irdl_definition(type(self)).parameters]
        pairs = zip(names, self.parameters, strict=True)
        return [(name, value) for name, value in pairs if not isinstance(value, NoneAttr)]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        entries: dict[str, Attribute] = {}

        def parse_field() -> None:
            name = parser.parse_identifier()
            if name in entries:
                parser.raise_error(f"{cls.name}: field '{name}' is given twice")
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
        values = dict(self.list_set_fields())
        for name, choices in self.CHOICES.items():
            value = values.get(name)
            if isinstance(value, StringAttr) and value.data not in choices:
                known = ", ".join(choices)
                raise VerifyException(f"{self.name}: {name} is '{value.data}', not one of {known}")
        for name in self.AT_LEAST_0:
            value = values.get(name)
            number = 0
            if isinstance(value, FloatAttr | IntegerAttr):
                number = value.value.data
            if not number >= 0:
                raise VerifyException(f"{self.name}: {name} is {number}, less than 0")


def _get_irdl_definition(cls: type[TypedRecordAttr]) -> ParamAttrDef:
    return cls.get_irdl_definition()


@irdl_attr_definition
class TypedCostAttr(TypedRecordAttr):
    """The cost of one execution of an op, kernel, region or call."""

    name = "hespas.cost"
    CHOICES: ClassVar = {"bound": BOUNDS}
    AT_LEAST_0: ClassVar = COST_NUMBERS

    estimator: StringAttr
    flops: Int
    read_bytes: Int
    write_bytes: Int
    latency_ns: Float
    bound: StringAttr
    dtype: StringAttr
    trips: Int | NoneAttr
    energy_nj: Float | NoneAttr
    gap: StringAttr | NoneAttr
    low_ns: Float | NoneAttr
    high_ns: Float | NoneAttr
    tag: StringAttr | NoneAttr


@irdl_attr_definition
class TypedKernelAttr(TypedRecordAttr):
    """One launched kernel."""

    name = "hespas.kernel"
    CHOICES: ClassVar = {"kind": KERNEL_KINDS}

    kind: StringAttr


@irdl_attr_definition
class TypedRegionAttr(TypedRecordAttr):
    """One compute region: an outlined function, the calls to it, or a single op left in place."""

    name = "hespas.region"

    id: Int
    ops: Int
    digest: StringAttr


@irdl_attr_definition
class TypedCommAttr(TypedRecordAttr):
    """One collective or point-to-point operation, in device ids."""

    name = "hespas.comm"
    CHOICES: ClassVar = {"kind": COMM_KINDS}

    kind: StringAttr
    operand_bytes: Int
    result_bytes: Int
    groups: Ints
    pairs: Ints | NoneAttr
    is_async: Bool | NoneAttr
    note: StringAttr | NoneAttr


@irdl_attr_definition
class TypedTargetAttr(TypedRecordAttr):
    """What the module runs on, and where the constants of its annotation come from."""

    name = "hespas.target"

    devices: Int
    replicas: Int
    partitions: Int
    node: StringAttr | NoneAttr
    estimator: StringAttr | NoneAttr
    constants: StringAttr | NoneAttr
    node_overrides: StringAttr | NoneAttr


@irdl_attr_definition
class TypedSplitAttr(TypedRecordAttr):
    """How the module was split."""

    name = "hespas.split"
    CHOICES: ClassVar = {"strategy": SPLITS}

    strategy: StringAttr
    merge: Bool | NoneAttr
    block_limit: Int | NoneAttr


@irdl_attr_definition
class TypedMemoryAttr(TypedRecordAttr):
    """The memory that the program takes on one device."""

    name = "hespas.memory"

    peak_bytes: Int
    live_bytes: Int
    argument_bytes: Int
    result_bytes: Int
    constant_bytes: Int
    temporary_bytes: Int
    op: StringAttr
    points: Int
    timeline_points: Ints
    timeline_bytes: Ints
    parameter_bytes: Int | NoneAttr
    optimizer_bytes: Int | NoneAttr
    activation_bytes: Int | NoneAttr
    location: StringAttr | NoneAttr


RECORD_ATTRS: Mapping[str, type[TypedRecordAttr]] = {
    cls.name: cls
    for cls in (
        TypedCostAttr,
        TypedKernelAttr,
        TypedRegionAttr,
        TypedCommAttr,
        TypedTargetAttr,
        TypedSplitAttr,
        TypedMemoryAttr,
    )
}

HESPAS = Dialect("hespas", [], list(RECORD_ATTRS.values()))


def replace_dictionaries(module: Operation) -> None:
    """Replace the dictionary form of hespas attributes in ``module``; raises VerifyException."""
    for op in module.walk():
        for name, attr in op.attributes.items():
            if name in RECORD_ATTRS and isinstance(attr, DictionaryAttr):
                op.attributes[name] = RECORD_ATTRS[name].from_dictionary(attr.data)


def replace_typed_attributes(module: Operation) -> None:
    """Replace the typed form of hespas attributes in ``module``."""
    for op in module.walk():
        for name, attr in op.attributes.items():
            if isinstance(attr, TypedRecordAttr):
                op.attributes[name] = attr.to_dictionary()
