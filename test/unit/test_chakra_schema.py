"""The schema, the encoder and the reader agree with protobuf."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hespas.chakra import record_encoding, schema
from hespas.chakra.trace_reader import (
    TraceFileError,
    TraceNode,
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
