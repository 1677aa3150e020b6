"""The Chakra trace schema as one table: names and field numbers of MLCommons Chakra 0.0.4.

The message classes are created at run time in a private descriptor pool. Thus no generated code
depends on a version of protobuf, and there is no conflict with Chakra's own ``et_def_pb2``.
``et.proto`` is the output of ``render_proto_text``, for other languages; a test compares them.
Source of names and numbers: mlcommons/chakra 21585d8, schema/protobuf/et_def.proto.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

PACKAGE = "ChakraProtoMsg"
VERSION = "0.0.4"  # in GlobalMetadata; readers ignore it

SCALARS = (
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32",
    "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes",
)  # fmt: skip
FIRST_VALUE = 3  # AttributeProto: each scalar kind has a value field and, one up, a list field


class NodeType(enum.IntEnum):
    """The types of nodes."""

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
class MessageField:
    """One field of a message; ``value`` marks the members of AttributeProto's oneof."""

    number: int
    type: str
    name: str
    repeated: bool = False
    value: bool = False


def make_value_field(scalar: str, *, many: bool = False) -> MessageField:
    """Return the field of AttributeProto for a scalar of this kind, or for a list of them."""
    number = FIRST_VALUE + 2 * SCALARS.index(scalar) + many
    if many:
        return MessageField(number, f"{scalar.capitalize()}List", f"{scalar}_list", value=True)
    return MessageField(number, scalar, f"{scalar}_val", value=True)


ATTRIBUTE = (
    MessageField(1, "string", "name"),
    MessageField(2, "string", "doc_string"),
    *(make_value_field(scalar, many=many) for scalar in SCALARS for many in (False, True)),
)
MESSAGES: dict[str, tuple[MessageField, ...]] = {
    "AttributeProto": ATTRIBUTE,
    **{f"{s.capitalize()}List": (MessageField(1, s, "values", repeated=True),) for s in SCALARS},
    "GlobalMetadata": (
        MessageField(1, "string", "version"),
        MessageField(2, "AttributeProto", "attr", repeated=True),
    ),
    "Node": (
        MessageField(1, "uint64", "id"),
        MessageField(2, "string", "name"),
        MessageField(3, "NodeType", "type"),
        MessageField(4, "uint64", "ctrl_deps", repeated=True),
        MessageField(5, "uint64", "data_deps", repeated=True),
        MessageField(6, "uint64", "start_time_micros"),
        MessageField(7, "uint64", "duration_micros"),
        MessageField(8, "IOInfo", "inputs"),
        MessageField(9, "IOInfo", "outputs"),
        MessageField(10, "AttributeProto", "attr", repeated=True),
    ),
    "IOInfo": (
        MessageField(1, "string", "values"),
        MessageField(2, "string", "shapes"),
        MessageField(3, "string", "types"),
    ),
}


def render_proto_text() -> str:
    """Return the schema as a .proto file."""
    return "\n".join(_render_proto_lines()) + "\n"


def _render_proto_lines() -> Iterator[str]:
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
        yield from (_render_field_line(f) for f in members if not f.value)
        if any(f.value for f in members):
            yield "  oneof value {"
            yield from (f"  {_render_field_line(f)}" for f in members if f.value)
            yield "  }"
        yield "}"


def _render_field_line(f: MessageField) -> str:
    return f"  {'repeated ' if f.repeated else ''}{f.type} {f.name} = {f.number};"


@functools.cache
def get_message_class(name: str) -> Any:
    """Return the protobuf class of a message of the schema."""
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(
        _build_descriptor_pool().FindMessageTypeByName(f"{PACKAGE}.{name}")
    )


@functools.cache
def _build_descriptor_pool() -> Any:
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
