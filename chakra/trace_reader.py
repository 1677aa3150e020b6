"""Reading a trace: records of a file, and nodes as plain Python values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hespas.chakra.schema import get_message_class
from hespas.support.errors import HespasError


@dataclass(frozen=True, slots=True)
class TraceNode:
    """One node. ``attrs`` maps a name to the kind it is typed as, e.g. "int64", and its value."""

    id: int
    name: str
    type: int
    data_deps: tuple[int, ...] = ()
    ctrl_deps: tuple[int, ...] = ()
    duration_us: int = 0
    attrs: dict[str, tuple[str, Any]] = field(default_factory=dict)

    @property
    def dependency_ids(self) -> tuple[int, ...]:
        """The ids of all nodes that must finish first."""
        return self.data_deps + self.ctrl_deps if self.ctrl_deps else self.data_deps

    def get_attr_value(self, name: str, default: Any = None) -> Any:
        """The value of an attribute, or the default where the node lacks it."""
        return self.attrs[name][1] if name in self.attrs else default


class TraceFileError(HespasError):
    """A trace file that cannot be read; ``records`` of it were good."""

    def __init__(self, message: str, path: Path, records: int) -> None:
        self.records = records
        super().__init__(message, where=str(path))


def split_records(data: bytes, path: Path) -> Iterator[bytes]:
    """The length-delimited messages in a file's bytes; raises TraceError where they break off."""
    position, end, count = 0, len(data), 0
    while position < end:
        length = shift = 0
        while True:
            if position == end or shift > 63:
                raise TraceFileError(f"record {count} has no readable length", path, count)
            byte = data[position]
            position += 1
            length |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
        if position + length > end:
            raise TraceFileError(f"the file breaks off in record {count}", path, count)
        yield data[position : position + length]
        position += length
        count += 1


def parse_trace_node(record: bytes) -> TraceNode:
    """A node from the bytes of its message; raises ValueError where they are none."""
    from google.protobuf.message import DecodeError

    message = get_message_class("Node")()
    try:
        message.ParseFromString(record)
    except DecodeError as error:
        raise ValueError(str(error)) from None
    attrs = {}
    for attr in message.attr:
        kind = attr.WhichOneof("value")
        if kind is None:
            attrs[attr.name] = ("", None)
        elif kind.endswith("_list"):
            attrs[attr.name] = (kind, list(getattr(attr, kind).values))
        else:
            attrs[attr.name] = (kind.removesuffix("_val"), getattr(attr, kind))
    return TraceNode(
        message.id,
        message.name,
        message.type,
        tuple(message.data_deps),
        tuple(message.ctrl_deps),
        message.duration_micros,
        attrs,
    )


def is_metadata_record(first: bytes) -> bool:
    """Whether a file's first record is a GlobalMetadata: its field 1 is text, a Node's a number."""
    return not first or first[0] in (0x0A, 0x12)


def read_trace_nodes(path: Path) -> Iterator[TraceNode]:
    """The nodes of a trace file, in file order; raises TraceError and OSError."""
    return parse_trace_nodes(path.read_bytes(), path)


def parse_trace_nodes(data: bytes, path: Path) -> Iterator[TraceNode]:
    """The nodes in a file's bytes, in file order; raises TraceError."""
    for count, record in enumerate(split_records(data, path)):
        if count == 0 and is_metadata_record(record):
            continue
        try:
            yield parse_trace_node(record)
        except ValueError:
            raise TraceFileError(f"record {count} is not a Chakra node", path, count) from None
