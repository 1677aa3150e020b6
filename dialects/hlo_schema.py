"""HLO as protobuf messages: the fields that hespas reads or writes, by name and number.

Source of names and numbers: openxla/xla, xla/service/hlo.proto and xla/xla_data.proto; a test
compares them with the copies in jaxlib and in the compilers' plug-ins. Fields that are not listed
are preserved.
"""

from __future__ import annotations

import functools
from typing import Any

from hespas.support.protobuf_schema import MessageField, build_message_classes

PACKAGE = "hespas.hlo"
TUPLE = 13  # PrimitiveType
# PrimitiveType to the bits of an element in memory.
ELEMENT_BITS = {
    1: 8,  # PRED
    30: 1, 26: 2, 21: 4, 2: 8, 3: 16, 4: 32, 5: 64,  # S1 to S64
    31: 1, 27: 2, 22: 4, 6: 8, 7: 16, 8: 32, 9: 64,  # U1 to U64
    32: 4, 35: 6, 36: 6,  # F4E2M1FN, F6E3M2FN, F6E2M3FN
    19: 8, 20: 8, 23: 8, 24: 8, 25: 8, 28: 8, 29: 8, 33: 8,  # F8
    10: 16, 16: 16, 11: 32, 12: 64, 15: 64, 18: 128,  # F16, BF16, F32, F64, C64, C128
}  # fmt: skip


def _many(number: int, type_: str, name: str) -> MessageField:
    return MessageField(number, type_, name, repeated=True)


MESSAGES = {
    "HloProto": (MessageField(1, "HloModuleProto", "hlo_module"),),
    "HloModuleProto": (
        MessageField(1, "string", "name"),
        _many(3, "HloComputationProto", "computations"),
        MessageField(4, "ProgramShapeProto", "host_program_shape"),
        MessageField(6, "int64", "entry_computation_id"),
        MessageField(7, "HloScheduleProto", "schedule"),
        _many(10, "CrossProgramPrefetch", "cross_program_prefetches"),
        MessageField(12, "OpSharding", "spmd_output_sharding"),
        _many(14, "OpSharding", "spmd_parameters_shardings"),
        MessageField(15, "DeviceAssignmentProto", "device_assignment"),
        MessageField(17, "StackFrameIndexProto", "stack_frame_index"),
        MessageField(18, "HloBufferDonorProto", "buffer_donor"),
    ),
    "HloBufferDonorProto": (_many(1, "BufferDonorEntryProto", "entries"),),
    "BufferDonorEntryProto": (
        MessageField(1, "int64", "parameter_number"),
        _many(2, "int64", "parameter_shape_index"),
    ),
    "CrossProgramPrefetch": (MessageField(1, "int64", "parameter"),),
    "HloScheduleProto": (_many(1, "SequencesEntry", "sequences"),),
    "SequencesEntry": (
        MessageField(1, "int64", "key"),
        MessageField(2, "InstructionSequence", "value"),
    ),
    "InstructionSequence": (_many(1, "int64", "instruction_ids"),),
    "DeviceAssignmentProto": (
        MessageField(1, "int32", "replica_count"),
        MessageField(2, "int32", "computation_count"),
    ),
    "StackFrameIndexProto": (
        _many(1, "string", "file_names"),
        _many(3, "FileLocation", "file_locations"),
        _many(4, "StackFrame", "stack_frames"),
    ),
    "FileLocation": (
        MessageField(1, "int32", "file_name_id"),
        MessageField(3, "int32", "line"),
        MessageField(4, "int32", "column"),
    ),
    "StackFrame": (MessageField(1, "int32", "file_location_id"),),
    "HloComputationProto": (
        MessageField(1, "string", "name"),
        _many(2, "HloInstructionProto", "instructions"),
        MessageField(4, "ProgramShapeProto", "program_shape"),
        MessageField(5, "int64", "id"),
        MessageField(6, "int64", "root_id"),
    ),
    "ProgramShapeProto": (
        _many(1, "ShapeProto", "parameters"),
        MessageField(2, "ShapeProto", "result"),
        _many(3, "string", "parameter_names"),
    ),
    "HloInstructionProto": (
        MessageField(1, "string", "name"),
        MessageField(2, "string", "opcode"),
        MessageField(3, "ShapeProto", "shape"),
        MessageField(7, "OpMetadata", "metadata"),
        MessageField(8, "LiteralProto", "literal"),
        MessageField(9, "int64", "parameter_number"),
        MessageField(11, "string", "fusion_kind"),
        MessageField(13, "int64", "tuple_index"),
        _many(14, "int64", "dimensions"),
        MessageField(15, "Window", "window"),
        MessageField(16, "ConvolutionDimensionNumbers", "convolution_dimension_numbers"),
        MessageField(26, "int64", "channel_id"),
        MessageField(28, "string", "custom_call_target"),
        MessageField(30, "DotDimensionNumbers", "dot_dimension_numbers"),
        MessageField(35, "int64", "id"),
        _many(36, "int64", "operand_ids"),
        _many(37, "int64", "control_predecessor_ids"),
        _many(38, "int64", "called_computation_ids"),
        MessageField(40, "OpSharding", "sharding"),
        MessageField(43, "bytes", "backend_config"),
        _many(49, "ReplicaGroup", "replica_groups"),
        MessageField(50, "int64", "feature_group_count"),
        _many(52, "SourceTarget", "source_target_pairs"),
        _many(57, "ShapeProto", "operand_shapes_with_layout"),
        MessageField(58, "int64", "batch_group_count"),
        MessageField(68, "FrontendAttributes", "frontend_attributes"),
        MessageField(71, "bool", "use_global_device_ids"),
        _many(74, "OutputOperandAliasing", "output_operand_aliasing"),
        MessageField(87, "CollectiveDeviceListProto", "collective_device_list"),
        MessageField(92, "IotaReplicaGroupListProto", "iota_collective_device_list"),
        MessageField(93, "MeshAxesReplicaGroupListProto", "mesh_axes_replica_group_list"),
    ),
    "ShapeProto": (
        MessageField(2, "int32", "element_type"),
        _many(3, "int64", "dimensions"),
        _many(4, "ShapeProto", "tuple_shapes"),
        MessageField(5, "LayoutProto", "layout"),
        _many(6, "bool", "is_dynamic_dimension"),
    ),
    "LayoutProto": (
        _many(1, "int64", "minor_to_major"),
        _many(6, "TileProto", "tiles"),
        MessageField(8, "int64", "memory_space"),
    ),
    "TileProto": (_many(1, "int64", "dimensions"),),
    "LiteralProto": (MessageField(1, "ShapeProto", "shape"),),
    "OpMetadata": (
        MessageField(2, "string", "op_name"),
        MessageField(3, "string", "source_file"),
        MessageField(4, "int32", "source_line"),
        MessageField(15, "int32", "stack_frame_id"),
        MessageField(16, "string", "scheduling_name"),
        MessageField(18, "int32", "source_column"),
    ),
    "Window": (_many(1, "WindowDimension", "dimensions"),),
    "WindowDimension": (
        MessageField(1, "int64", "size"),
        MessageField(2, "int64", "stride"),
        MessageField(3, "int64", "padding_low"),
        MessageField(5, "int64", "window_dilation"),
        MessageField(6, "int64", "base_dilation"),
        MessageField(7, "bool", "window_reversal"),
    ),
    "ConvolutionDimensionNumbers": (
        MessageField(3, "int64", "kernel_input_feature_dimension"),
        MessageField(4, "int64", "kernel_output_feature_dimension"),
        _many(6, "int64", "kernel_spatial_dimensions"),
        MessageField(7, "int64", "input_batch_dimension"),
        MessageField(8, "int64", "input_feature_dimension"),
        MessageField(9, "int64", "output_batch_dimension"),
        MessageField(10, "int64", "output_feature_dimension"),
        _many(11, "int64", "input_spatial_dimensions"),
        _many(12, "int64", "output_spatial_dimensions"),
    ),
    "DotDimensionNumbers": (
        _many(1, "int64", "lhs_contracting_dimensions"),
        _many(2, "int64", "rhs_contracting_dimensions"),
        _many(3, "int64", "lhs_batch_dimensions"),
        _many(4, "int64", "rhs_batch_dimensions"),
    ),
    "OpSharding": (MessageField(1, "int32", "type"),),
    "FrontendAttributes": (_many(1, "MapEntry", "map"),),
    "MapEntry": (MessageField(1, "string", "key"), MessageField(2, "string", "value")),
    "OutputOperandAliasing": (MessageField(2, "int64", "operand_index"),),
    "SourceTarget": (MessageField(1, "int64", "source"), MessageField(2, "int64", "target")),
    "ReplicaGroup": (_many(1, "int64", "replica_ids"),),
    "CollectiveDeviceListProto": (_many(1, "ReplicaGroup", "replica_groups"),),
    "IotaReplicaGroupListProto": (
        MessageField(1, "int64", "num_replica_groups"),
        MessageField(2, "int64", "num_devices_per_group"),
        _many(3, "int64", "iota_reshape_dims"),
        _many(4, "int32", "iota_transpose_perm"),
    ),
    "MeshAxesReplicaGroupListProto": (
        MessageField(1, "MeshProto", "mesh"),
        _many(2, "AxisRefProto", "axes"),
    ),
    "MeshProto": (
        _many(1, "MeshAxis", "axes"),
        _many(2, "int64", "device_ids"),
        MessageField(3, "IotaTransform", "iota_transform"),
    ),
    "MeshAxis": (MessageField(2, "int64", "size"),),
    "IotaTransform": (_many(1, "int64", "reshape_dims"), _many(2, "int64", "transpose_perm")),
    "AxisRefProto": (
        MessageField(1, "int64", "mesh_axis_index"),
        MessageField(2, "SubAxis", "sub_axis_info"),
    ),
    "SubAxis": (MessageField(1, "int64", "pre_size"), MessageField(2, "int64", "size")),
}


def parse_hlo_module(proto: bytes) -> Any:
    """Parse a serialised HloModuleProto; raises ValueError if it is damaged."""
    from google.protobuf.message import DecodeError

    message = build_hlo_message("HloModuleProto")
    try:
        message.ParseFromString(proto)
    except DecodeError as error:
        raise ValueError(f"the HLO protobuf is damaged: {error}") from None
    return message


def build_hlo_message(name: str) -> Any:
    """Return a new message of the schema."""
    return _build_classes()[name]()


@functools.cache
def _build_classes() -> dict[str, Any]:
    return build_message_classes(PACKAGE, MESSAGES)
