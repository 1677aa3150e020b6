"""Protobuf message classes that are built at run time from names and numbers of fields.

The classes live in a private descriptor pool. Thus no generated code depends on a version of
protobuf, and there is no conflict with other copies of the same schema in the process. A schema
lists only the fields that hespas uses; the others of a message are preserved.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from hespas.support.records import record

SCALARS = (
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32",
    "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes",
)  # fmt: skip


@record(frozen=True, slots=True)
class MessageField:
    """One field of a message.

    Attributes:
        number: Its number on the wire.
        type: One of ``SCALARS``, or the name of a message or an enumeration of the same schema.
        oneof: The name of the group of which a message sets one field; "" if it is in none.
    """

    number: int
    type: str
    name: str
    repeated: bool = False
    oneof: str = ""


def build_message_classes(
    package: str,
    messages: Mapping[str, Sequence[MessageField]],
    enums: Sequence[type[enum.IntEnum]] = (),
) -> dict[str, Any]:
    """Build the protobuf class of each message, by its name; imports protobuf, which is slow."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file: Any = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto3"
    )
    for kind in enums:
        target = file.enum_type.add(name=kind.__name__)
        for member in kind:
            target.value.add(name=member.name, number=member.value)
    enum_names = {kind.__name__ for kind in enums}
    kinds: Any = descriptor_pb2.FieldDescriptorProto
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        oneofs = list(dict.fromkeys(field.oneof for field in fields if field.oneof))
        for oneof in oneofs:
            message.oneof_decl.add(name=oneof)
        for field in fields:
            added = message.field.add(name=field.name, number=field.number)
            added.label = kinds.LABEL_REPEATED if field.repeated else kinds.LABEL_OPTIONAL
            if field.type in SCALARS:
                added.type = getattr(kinds, f"TYPE_{field.type.upper()}")
            else:
                added.type = kinds.TYPE_ENUM if field.type in enum_names else kinds.TYPE_MESSAGE
                added.type_name = f".{package}.{field.type}"
            if field.oneof:
                added.oneof_index = oneofs.index(field.oneof)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }
