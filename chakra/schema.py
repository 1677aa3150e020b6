"""The Chakra trace schema as one table: names and field numbers of MLCommons Chakra 0.0.4.

The message classes are created at run time, so that there is no conflict with Chakra's own
``et_def_pb2``.
``et.proto`` is the output of ``render_proto_text``, for other languages; a test compares them.
Source of names and numbers: mlcommons/chakra 21585d8, schema/protobuf/et_def.proto.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator
from typing import Any

from hespas.support.protobuf_schema import SCALARS, MessageField, build_message_classes

PACKAGE = "ChakraProtoMsg"
VERSION = "0.0.4"  # in GlobalMetadata; readers ignore it

VALUE = "value"  # the oneof of AttributeProto
NETWORK_KEY = "network"  # what carries a collective, other than the links between devices
SECOND_STREAM = "second stream"  # these links, beside the other collectives of a device
COPY_ROUNDS_KEY = "copy_rounds"  # loads in sequence of a kernel that copies between devices
MAX_TAG = 500_000_000  # ASTRA-sim's limit of message tags
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


def make_value_field(scalar: str, *, many: bool = False) -> MessageField:
    """Return the field of AttributeProto for a scalar of this kind, or for a list of them."""
    number = FIRST_VALUE + 2 * SCALARS.index(scalar) + many
    if many:
        return MessageField(number, f"{scalar.capitalize()}List", f"{scalar}_list", oneof=VALUE)
    return MessageField(number, scalar, f"{scalar}_val", oneof=VALUE)


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
        yield from (_render_field_line(f) for f in members if not f.oneof)
        if any(f.oneof for f in members):
            yield f"  oneof {VALUE} {{"
            yield from (f"  {_render_field_line(f)}" for f in members if f.oneof)
            yield "  }"
        yield "}"


def _render_field_line(f: MessageField) -> str:
    return f"  {'repeated ' if f.repeated else ''}{f.type} {f.name} = {f.number};"


@functools.cache
def get_message_class(name: str) -> Any:
    """Return the protobuf class of a message of the schema."""
    return _build_classes()[name]


@functools.cache
def _build_classes() -> dict[str, Any]:
    return build_message_classes(PACKAGE, MESSAGES, ENUMS)
