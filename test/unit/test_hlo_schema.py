"""The fields of HLO messages are those of XLA; what is not changed stays what it was."""

from __future__ import annotations

import mmap
from pathlib import Path

import jaxlib
from google.protobuf import descriptor_pb2
from support.hlo import print_hlo_program, read_hlo_program

from hespas.dialects.hlo_schema import ELEMENT_BITS, MESSAGES
from hespas.dialects.mlir import hlo_text_to_proto
from hespas.dialects.protobuf import has_complete_module
from hespas.dialects.xla import hlo_proto_to_text

FILES = ("xla/service/hlo.proto", "xla/xla_data.proto")
# Our name of a message to XLA's, where XLA's is nested in another message.
NESTED = {
    "BufferDonorEntryProto": "HloBufferDonorProto.BufferDonorEntryProto",
    "SequencesEntry": "HloScheduleProto.SequencesEntry",
    "InstructionSequence": "HloScheduleProto.InstructionSequence",
    "FileLocation": "StackFrameIndexProto.FileLocation",
    "StackFrame": "StackFrameIndexProto.StackFrame",
    "MapEntry": "FrontendAttributes.MapEntry",
    "MeshAxis": "MeshProto.MeshAxis",
    "IotaTransform": "MeshProto.IotaTransform",
    "SubAxis": "AxisRefProto.SubAxis",
}
PROGRAM = """HloModule m, is_scheduled=true

%body (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %n = f32[8]{0} negate(%p), metadata={op_name="jit(f)/neg"}
}

ENTRY %main (x: f32[8], y: s32[]) -> (f32[8], s32[]) {
  %x = f32[8]{0} parameter(0)
  %y = s32[] parameter(1)
  %w = f32[8]{0} constant({1, 2, 3, 4, 5, 6, 7, 8})
  %f = f32[8]{0} fusion(%x), kind=kLoop, calls=%body, frontend_attributes={mine="x"}
  %d = f32[8]{0} subtract(%f, %w), control-predecessors={%y}
  ROOT %t = (f32[8]{0}, s32[]) tuple(%d, %y)
}
"""


def read_descriptors() -> dict[str, descriptor_pb2.DescriptorProto]:
    """Return XLA's own descriptors, which its library contains, by the names of messages."""
    library = Path(jaxlib.__file__).parent / "libjax_common.so"
    messages: dict[str, descriptor_pb2.DescriptorProto] = {}
    enums: dict[str, descriptor_pb2.EnumDescriptorProto] = {}

    def collect(prefix: str, message: descriptor_pb2.DescriptorProto) -> None:
        messages[f"{prefix}{message.name}"] = message
        for inner in message.nested_type:
            collect(f"{prefix}{message.name}.", inner)

    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for name in FILES:
            start = data.find(b"\n" + bytes([len(name)]) + name.encode() + b"\x12")
            end = data.find(b"b\x06proto3", start) + len(b"b\x06proto3")
            descriptor = descriptor_pb2.FileDescriptorProto.FromString(data[start:end])
            for message in descriptor.message_type:
                collect("", message)
            enums |= {enum.name: enum for enum in descriptor.enum_type}
    bits = {value.number: value.name for value in enums["PrimitiveType"].value}
    assert {bits[number] for number in ELEMENT_BITS} >= {"PRED", "BF16", "F8E4M3FN", "S4", "C128"}
    for number, count in ELEMENT_BITS.items():
        digits = bits[number].lstrip("BSUFC").partition("E")[0]
        assert count == (8 if bits[number] == "PRED" else int(digits))
    return messages


def test_names_and_numbers_are_those_of_xla():
    messages = read_descriptors()
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in MESSAGES.items():
        theirs = {field.number: field for field in messages[NESTED.get(name, name)].field}
        for field in fields:
            their = theirs[field.number]
            assert their.name == field.name, name
            assert (their.label == kinds.LABEL_REPEATED) == field.repeated, (name, field.name)
            if their.type == kinds.TYPE_MESSAGE:
                assert their.type_name.rpartition(".")[2] == field.type, (name, field.name)
            elif their.type == kinds.TYPE_ENUM:
                assert field.type == "int32"
            else:
                assert kinds.Type.Name(their.type) == f"TYPE_{field.type.upper()}", field.name


def test_what_is_not_changed_stays():
    """XLA's printer is the oracle; a schedule becomes control dependencies on request."""
    program = read_hlo_program(PROGRAM)
    assert program.is_scheduled
    unscheduled = PROGRAM.replace(", is_scheduled=true", "").replace(
        ", control-predecessors={%y}", ""
    )
    expected = hlo_proto_to_text(hlo_text_to_proto(unscheduled), constants=True)
    assert print_hlo_program(program) == expected
    dependent = hlo_proto_to_text(read_hlo_program(PROGRAM).serialize(keep_schedule=True))
    assert "subtract(%f, %w), control-predecessors={%f}" in dependent


def test_names_stay_unique():
    program = read_hlo_program(PROGRAM)
    entry = program.find_entry()
    entry.instructions[3].name = "t"
    text = print_hlo_program(program)
    assert "%t = f32[8]{0} fusion" in text and "ROOT %t.1 = " in text


def test_a_dump_is_complete_when_its_module_is(tmp_path):
    """XLA writes an HloProto, whose first field is the module."""
    module = hlo_text_to_proto(PROGRAM)
    size = len(module)
    head = b"\n" + bytes([size & 127 | 128, size >> 7])
    file = tmp_path / "dump.hlo.pb"
    for data, complete in (
        (b"", False),
        (head[:1], False),
        (head + module[:-1], False),
        (head + module, True),
        (head + module + b"\x1a\x05", True),  # the next field is cut off
    ):
        file.write_bytes(data)
        assert has_complete_module(file) is complete
