"""Traces that differ in names only are found among any number of parsed traces."""

from hespas.chakra import record_encoding
from hespas.chakra.schema import NodeType
from hespas.simulators.trace_templates import TraceIndex, TraceTemplate


def encode_trace(group: int, peer: int, micros: int = 20) -> bytes:
    """Encode two collectives of a communicator, and a message between device 7 and a peer."""
    collective = record_encoding.encode_text_attr("pg_name", str(group))
    message = record_encoding.encode_int_attr(
        "comm_src", 7, "int32"
    ) + record_encoding.encode_int_attr("comm_dst", peer, "int32")
    nodes = [
        record_encoding.encode_node(1, b"", NodeType.COMM_COLL_NODE, (), 0, collective),
        record_encoding.encode_node(2, b"", NodeType.COMP_NODE, (1,), micros, b""),
        record_encoding.encode_node(3, b"", NodeType.COMM_COLL_NODE, (2,), 0, collective),
        record_encoding.encode_node(4, b"", NodeType.COMM_SEND_NODE, (3,), 0, message),
    ]
    return b"".join(map(record_encoding.encode_record, nodes))


def build_index(*traces: bytes) -> TraceIndex[int]:
    index: TraceIndex[int] = TraceIndex()
    for number, data in enumerate(traces):
        index.add_template(TraceTemplate(data), number)
    return index


def test_a_match_maps_names():
    match = build_index(encode_trace(3, 8)).find_match(encode_trace(4, 9))
    assert match is not None
    assert (match.parsed, match.groups, match.devices) == (0, {3: 4}, {8: 9})


def test_equal_names_are_left_out():
    match = build_index(encode_trace(3, 8)).find_match(encode_trace(3, 8))
    assert match is not None
    assert (match.groups, match.devices) == ({}, {})


def test_names_map_one_to_one():
    """The devices 7 and 8 cannot both be the device 7 of the other trace."""
    assert build_index(encode_trace(3, 8)).find_match(encode_trace(3, 7)) is None


def test_other_differences_are_no_match():
    index = build_index(encode_trace(3, 8, micros=20), encode_trace(3, 8, micros=21))
    assert index.find_match(encode_trace(3, 8, micros=22)) is None
    match = index.find_match(encode_trace(4, 8, micros=21))
    assert match is not None
    assert (match.parsed, match.groups) == (1, {3: 4})


def test_names_of_another_length_are_no_match():
    assert build_index(encode_trace(3, 8)).find_match(encode_trace(30, 8)) is None


def test_cost_does_not_grow_with_the_square_of_the_traces():
    """A trace is compared with the traces of equal fixed bytes only, found by their hash."""
    traces = [encode_trace(3, 8, micros) for micros in range(1, 101)]
    index = build_index(*traces)
    compared = []
    for similar in index._by_length[len(traces[0])].values():
        compared += [len(candidates) for candidates in similar.templates.values()]
    assert max(compared) == 1
