"""The schema, the encoder and the reader agree with protobuf."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hespas.chakra import record_encoding, schema
from hespas.chakra.trace_reader import (
    TraceFileError,
    TraceNode,
    TraceNodeDecoder,
    parse_trace_node,
    read_trace_nodes,
    split_records,
)
from hespas.support.errors import HespasError

uint = st.integers(0, 2**63 - 1)
text = st.text(max_size=200)


def test_proto_file_is_the_schema():
    proto = Path(schema.__file__).with_name("et.proto")
    assert proto.read_text(encoding="utf-8") == schema.render_proto_text()


def test_numbers_of_the_published_schema():
    # mlcommons/chakra 21585d8, et_def.proto
    numbers = {f.name: f.number for f in schema.MESSAGES["AttributeProto"]}
    expected = {"int32_val": 7, "int64_val": 9, "uint64_val": 13, "bool_val": 27, "bool_list": 28}
    assert {name: numbers[name] for name in expected} == expected
    assert (numbers["string_val"], numbers["bytes_list"]) == (29, 32)
    assert [f.number for f in schema.MESSAGES["Node"]] == list(range(1, 11))


@given(uint, text, st.sampled_from(schema.NodeType), st.lists(uint, max_size=20), uint, text)
def test_node_bytes_are_those_of_protobuf(number, name, kind, deps, micros, value):
    attrs = (
        record_encoding.encode_int_attr("is_cpu_op", 0, "bool")
        + record_encoding.IntAttrEncoder("num_ops", "int64")(number)
        + record_encoding.encode_int_attr("tensor_size", micros, "uint64")
        + record_encoding.encode_int_attr("comm_tag", number % 2**31, "int32")
        + record_encoding.encode_text_attr("pg_name", value)
    )
    data = record_encoding.encode_node(
        number, record_encoding.encode_node_name(name), kind, deps, micros, attrs
    )
    message = schema.get_message_class("Node")(
        id=number, name=name, type=kind, data_deps=deps, duration_micros=micros
    )
    message.attr.add(name="is_cpu_op", bool_val=False)
    message.attr.add(name="num_ops", int64_val=number)
    message.attr.add(name="tensor_size", uint64_val=micros)
    message.attr.add(name="comm_tag", int32_val=number % 2**31)
    message.attr.add(name="pg_name", string_val=value)
    # An INVALID node is proto3's default, which protobuf leaves out; we never write one.
    if kind:
        assert data == message.SerializeToString()
    node = parse_trace_node(data)
    assert (node.id, node.name, node.type, node.data_deps) == (number, name, kind, tuple(deps))
    assert node.attrs["pg_name"] == ("string", value)
    assert node.attrs["is_cpu_op"] == ("bool", False)


ATTRIBUTE_VALUES = st.one_of(
    st.tuples(st.just("bool_val"), st.booleans()),
    st.tuples(st.just("int32_val"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("uint32_val"), st.integers(0, 2**32 - 1)),
    st.tuples(st.just("int64_val"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("uint64_val"), st.integers(0, 2**64 - 1)),
    st.tuples(st.just("sint64_val"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("double_val"), st.floats(allow_nan=False)),
    st.tuples(st.just("string_val"), text),
    st.tuples(st.just("doc_string"), text),
)


@st.composite
def node_records(draw) -> bytes:
    """Return a node as protobuf writes it, with any fields and kinds of attributes."""
    message = schema.get_message_class("Node")(
        id=draw(st.integers(0, 2**64 - 1)),
        name=draw(text),
        type=draw(st.sampled_from([*schema.NodeType, 200])),
        ctrl_deps=draw(st.lists(uint, max_size=3)),
        data_deps=draw(st.lists(uint, max_size=3)),
        start_time_micros=draw(st.sampled_from([0, 0, 7])),
        duration_micros=draw(st.sampled_from([0, 20, 300, 2**40])),
    )
    for name, (field, value) in draw(st.lists(st.tuples(text, ATTRIBUTE_VALUES), max_size=3)):
        message.attr.add(name=name, **{field: value})
    return message.SerializeToString()


def decode_record(decoder: TraceNodeDecoder, record: bytes) -> TraceNode | None:
    """Decode a record behind a metadata record; None if it is refused."""
    data = record_encoding.encode_metadata_record() + record_encoding.encode_record(record)
    try:
        (node,) = decoder.decode_nodes(data, Path("x"))
    except TraceFileError:
        return None
    return node


def parse_record(record: bytes) -> TraceNode | None:
    try:
        return parse_trace_node(record)
    except ValueError:
        return None


@given(node_records(), st.lists(st.tuples(uint, st.integers(0, 255)), max_size=2))
def test_the_decoder_reads_what_protobuf_reads(record, damages):
    """It decodes common forms itself, and must leave every other form and damage to protobuf."""
    data = bytearray(record)
    for position, byte in damages if record else ():
        data[position % len(data)] = byte
    decoder = TraceNodeDecoder()
    expected = repr(parse_record(bytes(data)))  # two equal NaN have equal texts
    for _ in range(2):  # the second time, the attributes are known
        assert repr(decode_record(decoder, bytes(data))) == expected


def test_metadata_is_a_message():
    (data,) = split_records(record_encoding.encode_metadata_record(), Path("x"))
    assert schema.get_message_class("GlobalMetadata").FromString(data).version == "0.0.4"


def test_reads_list_attributes_and_ids_from_zero(tmp_path):
    message = schema.get_message_class("Node")(name="n", type=7, ctrl_deps=[3])
    message.attr.add(name="involved_dim").bool_list.values.extend([True, False])
    data = record_encoding.encode_metadata_record() + record_encoding.encode_record(
        message.SerializeToString()
    )
    path = tmp_path / "dev.0.et"
    path.write_bytes(data)
    (node,) = read_trace_nodes(path)
    attrs = {"involved_dim": ("bool_list", [True, False])}
    assert node == TraceNode(0, "n", 7, ctrl_deps=(3,), attrs=attrs)


@pytest.mark.parametrize("cut", [1, 3])
def test_truncated_trace_is_an_error(tmp_path, cut):
    path = tmp_path / "dev.0.et"
    whole = record_encoding.encode_metadata_record() + record_encoding.encode_record(
        record_encoding.encode_node(1, b"", 4, (), 5, b"")
    )
    path.write_bytes(whole[:-cut])
    with pytest.raises(TraceFileError, match="ends within record 1"):
        list(read_trace_nodes(path))


@pytest.mark.parametrize("data", [b"\xff" * 20, b"\x05hello"])
def test_garbage_is_an_error(tmp_path, data):
    path = tmp_path / "dev.0.et"
    path.write_bytes(data)
    with pytest.raises(HespasError):
        list(read_trace_nodes(path))
