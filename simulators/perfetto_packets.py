"""Perfetto's trace format: tracks, slices with arguments and flow arrows, counters.

Invariant: each name or text is written once (``interned_data``), in the first packet that uses it,
and referred to by its number from then on. Slices that differ only in time share one encoded event.
Equal calls give equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hespas.chakra.record_encoding import encode_varint

Args = tuple[tuple[str, int | float | str], ...]

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_SEQUENCE_ID = 1  # one writer, one sequence of packets
CLEARED, NEEDED = 1, 2  # sequence flags: interned names start here; this packet uses them
_PACKET_KEY = b"\x0a"  # key of the field ``packet`` in ``Trace``, length-delimited
BEGIN, END, COUNTER = 1, 2, 4  # TrackEvent.Type
_EXPLICIT_ORDER = 3  # TrackDescriptor.ChildTracksOrdering


class PerfettoTrace:
    """A trace under construction; times are integer nanoseconds."""

    def __init__(self) -> None:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2

        self._new: Callable[[], Any] = perfetto_trace_pb2.TracePacket
        self._parts: list[bytes] = []
        self._tracks = 0
        self._names: dict[tuple[str, str], int] = {}
        self._events: dict[tuple[str, str, Args], Any] = {}
        first = self._new()
        first.sequence_flags = CLEARED
        self._append_packet(first)

    def to_bytes(self) -> bytes:
        """Return the bytes of the trace file."""
        return b"".join(self._parts)

    def add_child_track(
        self, name: str, parent: int = 0, *, rank: int = 0, unit: str = "", bytes_: bool = False
    ) -> int:
        """Add a track and return its number.

        With a unit the track holds counter values, else slices. Perfetto merges tracks of equal
        name and parent.

        Args:
            name: The name of the track.
            parent: The number of the track above it; 0 for none.
            rank: The position among the children of the parent.
            unit: The unit of a counter.
            bytes_: Whether the unit is bytes.
        """
        self._tracks += 1
        packet = self._new()
        track = packet.track_descriptor
        track.uuid, track.name = self._tracks, name
        if parent:
            track.parent_uuid = parent
            track.sibling_order_rank = rank
        if bytes_:
            track.counter.unit = track.counter.UNIT_SIZE_BYTES
        elif unit:
            track.counter.unit_name = unit
        else:
            track.child_ordering = _EXPLICIT_ORDER
        self._append_packet(packet)
        return self._tracks

    def begin_slice(
        self,
        track: int,
        time_ns: int,
        name: str,
        category: str = "",
        args: Args = (),
        flows: Sequence[int] = (),
        ends: Sequence[int] = (),
    ) -> None:
        """Begin a slice; the flows ``flows`` leave at its begin, and the flows ``ends`` arrive."""
        packet = self._new()
        key = (name, category, args)
        event = self._events.get(key)
        if event is None:
            event = self._events[key] = self._build_slice_event(packet, name, category, args)
        packet.sequence_flags = NEEDED
        slice_event = packet.track_event
        slice_event.CopyFrom(event)
        slice_event.track_uuid = track
        if flows:
            slice_event.flow_ids.extend(flows)
        if ends:
            slice_event.terminating_flow_ids.extend(ends)
        packet.timestamp = time_ns
        self._append_packet(packet)

    def end_slice(self, track: int, time_ns: int, ends: Sequence[int] = ()) -> None:
        """End the slice of a track; the flows ``ends`` arrive at its end."""
        packet = self._new()
        packet.timestamp = time_ns
        event = packet.track_event
        event.type, event.track_uuid = END, track
        if ends:
            event.terminating_flow_ids.extend(ends)
        self._append_packet(packet)

    def set_counter_value(self, track: int, time_ns: int, value: float) -> None:
        """Set the value of a counter from a time on."""
        packet = self._new()
        packet.timestamp = time_ns
        event = packet.track_event
        event.type, event.track_uuid = COUNTER, track
        if isinstance(value, int):
            event.counter_value = value
        else:
            event.double_counter_value = value
        self._append_packet(packet)

    def _build_slice_event(self, packet: Any, name: str, category: str, args: Args) -> Any:
        """Build the event of a slice without track and flows; new names are added to ``packet``."""
        event = self._new().track_event
        event.type = BEGIN
        event.name_iid = self._intern_text(packet, "event_names", name)
        if category:
            event.category_iids.append(self._intern_text(packet, "event_categories", category))
        for key, value in args:
            note = event.debug_annotations.add()
            note.name_iid = self._intern_text(packet, "debug_annotation_names", key)
            if isinstance(value, bool):
                note.bool_value = value
            elif isinstance(value, int) and _INT64_MIN <= value <= _INT64_MAX:
                note.int_value = value
            elif isinstance(value, float):
                note.double_value = value
            else:
                kind = "debug_annotation_string_values"
                note.string_value_iid = self._intern_text(packet, kind, str(value))
        return event

    def _intern_text(self, packet: Any, kind: str, text: str) -> int:
        number = self._names.get((kind, text))
        if number is None:
            number = self._names[kind, text] = len(self._names) + 1
            entry = getattr(packet.interned_data, kind).add()
            entry.iid = number
            if kind == "debug_annotation_string_values":
                entry.str = text.encode()
            else:
                entry.name = text
        return number

    def _append_packet(self, packet: Any) -> None:
        packet.trusted_packet_sequence_id = _SEQUENCE_ID
        data = packet.SerializeToString()
        self._parts.append(_PACKET_KEY + encode_varint(len(data)) + data)
