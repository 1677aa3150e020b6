"""Reading of traces: the records of a file, and nodes as Python values."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from hespas.chakra.record_decoding import NodeHead, decode_attrs, decode_node_head
from hespas.chakra.schema import get_message_class
from hespas.support.data_files import read_file_bytes
from hespas.support.errors import HespasError
from hespas.support.protobuf_schema import SCALARS

_SCALAR_FIELDS = {f"{scalar}_val": scalar for scalar in SCALARS}

NodeAttrs = Mapping[str, tuple[str, Any]]
"""The attributes of a node: by name, the kind of the value ("int64", ...) and the value."""

_NO_ATTRS: NodeAttrs = MappingProxyType({})


class TraceNode(NamedTuple):
    """A trace node. Nodes with equal attributes may share one ``attrs``, which is never changed."""

    id: int
    name: str
    type: int
    data_deps: tuple[int, ...] = ()
    ctrl_deps: tuple[int, ...] = ()
    duration_us: int = 0
    attrs: NodeAttrs = _NO_ATTRS

    @property
    def dependency_ids(self) -> tuple[int, ...]:
        """The ids of the nodes that must finish first."""
        return self.data_deps + self.ctrl_deps if self.ctrl_deps else self.data_deps

    def get_attr_value(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute, or ``default`` if the node lacks it."""
        return self.attrs[name][1] if name in self.attrs else default


# A third of the time of a call of the class, which matters for traces of many nodes.
_make_node = functools.partial(tuple.__new__, TraceNode)


class TraceFileError(HespasError):
    """A trace file cannot be read; ``records`` is the number of valid records before the error."""

    def __init__(self, message: str, path: Path, records: int) -> None:
        self.records = records
        super().__init__(message, where=str(path))


def split_records(data: bytes, path: Path) -> Iterator[bytes]:
    """Iterate over the length-delimited messages in the bytes of a file.

    Raises:
        TraceFileError: The file is truncated.
    """
    position, end, count = 0, len(data), 0
    while position < end:
        length = shift = 0
        while True:
            if position == end or shift > 63:
                raise TraceFileError(f"the length of record {count} is not readable", path, count)
            byte = data[position]
            position += 1
            length |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
        if position + length > end:
            raise TraceFileError(f"the file ends within record {count}", path, count)
        yield data[position : position + length]
        position += length
        count += 1


def parse_trace_node(record: bytes) -> TraceNode:
    """Parse the message of a node.

    Raises:
        ValueError: The bytes are not a Chakra node.
    """
    message = _parse_message(record)
    return TraceNode(
        message.id,
        message.name,
        message.type,
        tuple(message.data_deps),
        tuple(message.ctrl_deps),
        message.duration_micros,
        _collect_attrs(message),
    )


def _parse_message(record: bytes) -> Any:
    message_class, decode_error = _load_message_classes()
    try:
        return message_class.FromString(record)
    except decode_error as error:
        raise ValueError(str(error)) from None


def _collect_attrs(message: Any) -> NodeAttrs:
    attrs = {}
    for attr in message.attr:
        field = attr.WhichOneof("value")
        kind = _SCALAR_FIELDS.get(field)
        if kind is not None:
            attrs[attr.name] = (kind, getattr(attr, field))
        elif field is None:
            attrs[attr.name] = ("", None)
        else:
            attrs[attr.name] = (field, list(getattr(attr, field).values))
    return attrs


@functools.cache
def _load_message_classes() -> tuple[Any, type[Exception]]:
    from google.protobuf.message import DecodeError

    return get_message_class("Node"), DecodeError


def is_metadata_record(first: bytes) -> bool:
    """Return whether the first record of a file is a GlobalMetadata.

    Its field 1 is a string, and that of a Node a number.
    """
    return not first or first[0] in (0x0A, 0x12)


def read_trace_nodes(path: Path) -> Iterator[TraceNode]:
    """Iterate over the nodes of a trace file.

    Raises:
        HespasError: The file cannot be read, or is not a trace (TraceFileError).
    """
    return TraceNodeDecoder().decode_nodes(read_file_bytes(path, unpacks=False), path)


class TraceNodeDecoder:
    """Decodes the nodes of traces, and decodes attributes that several nodes have only once."""

    def __init__(self) -> None:
        self._attrs: dict[bytes, NodeAttrs] = {}  # by their encoded form

    def decode_nodes(self, data: bytes, path: Path) -> Iterator[TraceNode]:
        """Iterate over the nodes in the bytes of a trace file.

        Raises:
            TraceFileError: The bytes are not a trace.
        """
        for count, record in enumerate(split_records(data, path)):
            if count == 0 and is_metadata_record(record):
                continue
            head = decode_node_head(record)
            attrs = self._attrs.get(head[-1]) if head is not None else None
            if head is not None and attrs is not None:
                yield _make_node((*head[:-1], attrs))
                continue
            try:
                yield self._decode_new_node(record, head)
            except ValueError:
                raise TraceFileError(f"record {count} is not a Chakra node", path, count) from None

    def _decode_new_node(self, record: bytes, head: NodeHead | None) -> TraceNode:
        """Decode a node of an unusual form, or one with attributes that no node had before."""
        if head is not None:
            attrs = decode_node_attrs(head[-1])
            if attrs is not None:
                self._attrs[head[-1]] = attrs
                return TraceNode(*head[:-1], attrs)
        return parse_trace_node(record)


def decode_node_attrs(encoded: bytes) -> NodeAttrs | None:
    """Decode the attributes at the end of a record; None if it contains other fields."""
    attrs = decode_attrs(encoded)
    if attrs is not None:
        return attrs
    message = _parse_message(encoded)
    fields = [descriptor.name for descriptor, _ in message.ListFields()]
    return _collect_attrs(message) if fields == ["attr"] else None
