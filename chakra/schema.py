"""The Chakra trace schema: names and field numbers of MLCommons Chakra 0.0.4, as one table.

The message classes come from the protobuf runtime's own descriptor pool, so no generated file pins
a protobuf version, and a private pool does not clash with Chakra's own ``et_def_pb2``. ``et.proto``
is ``proto_text()``, for other languages; a test keeps them equal.
Source of names and numbers: mlcommons/chakra 21585d8, schema/protobuf/et_def.proto.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

PACKAGE = "ChakraProtoMsg"
VERSION = "0.0.4"  # what GlobalMetadata says; readers ignore it

SCALARS = (
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32",
    "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes",
)  # fmt: skip
FIRST_VALUE = 3  # AttributeProto: each scalar kind has a value field and, one up, a list field


class NodeType(enum.IntEnum):
    """What a node does."""

    INVALID_NODE = 0
    METADATA_NODE = 1
    MEM_LOAD_NODE = 2
    MEM_STORE_NODE = 3
    COMP_NODE = 4
    COMM_SEND_NODE = 5
    COMM_RECV_NODE = 6
    COMM_COLL_NODE = 7


class CollectiveCommType(enum.IntEnum):
    """The values of a collective's ``comm_type`` attribute."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


ENUMS: tuple[type[enum.IntEnum], ...] = (NodeType, CollectiveCommType)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message; ``value`` marks the members of AttributeProto's oneof."""

    number: int
    type: str
    name: str
    repeated: bool = False
    value: bool = False


def value_field(scalar: str, *, many: bool = False) -> Field:
    """The field of AttributeProto that holds a scalar of this kind, or a list of them."""
    number = FIRST_VALUE + 2 * SCALARS.index(scalar) + many
    if many:
        return Field(number, f"{scalar.capitalize()}List", f"{scalar}_list", value=True)
    return Field(number, scalar, f"{scalar}_val", value=True)


ATTRIBUTE = (
    Field(1, "string", "name"),
    Field(2, "string", "doc_string"),
    *(value_field(scalar, many=many) for scalar in SCALARS for many in (False, True)),
)
MESSAGES: dict[str, tuple[Field, ...]] = {
    "AttributeProto": ATTRIBUTE,
    **{f"{s.capitalize()}List": (Field(1, s, "values", repeated=True),) for s in SCALARS},
    "GlobalMetadata": (
        Field(1, "string", "version"),
        Field(2, "AttributeProto", "attr", repeated=True),
    ),
    "Node": (
        Field(1, "uint64", "id"),
        Field(2, "string", "name"),
        Field(3, "NodeType", "type"),
        Field(4, "uint64", "ctrl_deps", repeated=True),
        Field(5, "uint64", "data_deps", repeated=True),
        Field(6, "uint64", "start_time_micros"),
        Field(7, "uint64", "duration_micros"),
        Field(8, "IOInfo", "inputs"),
        Field(9, "IOInfo", "outputs"),
        Field(10, "AttributeProto", "attr", repeated=True),
    ),
    "IOInfo": (
        Field(1, "string", "values"),
        Field(2, "string", "shapes"),
        Field(3, "string", "types"),
    ),
}


def proto_text() -> str:
    """The schema as a .proto file."""
    return "\n".join(_proto_lines()) + "\n"


def _proto_lines() -> Iterator[str]:
    yield "// The Chakra execution trace. A trace file is a GlobalMetadata and then Nodes, each"
    yield "// preceded by its length as a varint. Written from chakra/schema.py: do not edit."
    yield 'syntax = "proto3";'
    yield ""
    yield f"package {PACKAGE};"
    for kind in ENUMS:
        yield from ("", f"enum {kind.__name__} {{")
        yield from (f"  {member.name} = {member.value};" for member in kind)
        yield "}"
    for name, members in MESSAGES.items():
        yield from ("", f"message {name} {{")
        yield from (_field_line(f) for f in members if not f.value)
        if any(f.value for f in members):
            yield "  oneof value {"
            yield from (f"  {_field_line(f)}" for f in members if f.value)
            yield "  }"
        yield "}"


def _field_line(f: Field) -> str:
    return f"  {'repeated ' if f.repeated else ''}{f.type} {f.name} = {f.number};"


@functools.cache
def message_class(name: str) -> Any:
    """The protobuf class of a message of the schema."""
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


@functools.cache
def _pool() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool

    file: Any = descriptor_pb2.FileDescriptorProto()
    file.name, file.package, file.syntax = "et.proto", PACKAGE, "proto3"
    for kind in ENUMS:
        target = file.enum_type.add(name=kind.__name__)
        for member in kind:
            target.value.add(name=member.name, number=member.value)
    enums = {kind.__name__ for kind in ENUMS}
    kinds: Any = descriptor_pb2.FieldDescriptorProto
    for name, members in MESSAGES.items():
        message = file.message_type.add(name=name)
        if any(f.value for f in members):
            message.oneof_decl.add(name="value")
        for f in members:
            field = message.field.add(name=f.name, number=f.number)
            field.label = kinds.LABEL_REPEATED if f.repeated else kinds.LABEL_OPTIONAL
            if f.type in SCALARS:
                field.type = getattr(kinds, f"TYPE_{f.type.upper()}")
            else:
                field.type = kinds.TYPE_ENUM if f.type in enums else kinds.TYPE_MESSAGE
                field.type_name = f".{PACKAGE}.{f.type}"
            if f.value:
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool
