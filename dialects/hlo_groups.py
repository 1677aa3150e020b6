"""Conversion of HLO replica groups that name mesh axes to lists of devices.

``hlo_to_stablehlo`` of jaxlib 0.10.2 keeps the axes but drops the order of the mesh's devices, and
with it the members of each group; it keeps lists. Names and numbers of fields are those of
xla/service/hlo.proto and xla/xla_data.proto in openxla/xla.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy

MESH_GROUPS = 93  # HloInstructionProto.mesh_axes_replica_group_list
MARK = b"\xea\x05"  # its tag on the wire: 93, length-delimited
INT64 = "int64"

# Message to its fields: (name, number, kind or message, repeated). Unknown fields are preserved.
MESSAGES: dict[str, tuple[tuple[str, int, str, bool], ...]] = {
    "Module": (("computations", 3, "Computation", True),),
    "Computation": (("instructions", 2, "Instruction", True),),
    "Instruction": (("devices", 87, "Devices", False), ("named", MESH_GROUPS, "Named", False)),
    "Devices": (("groups", 1, "Group", True),),
    "Group": (("ids", 1, INT64, True),),
    "Named": (("mesh", 1, "Mesh", False), ("axes", 2, "AxisRef", True)),
    "Mesh": (
        ("axes", 1, "Axis", True),
        ("device_ids", 2, INT64, True),
        ("iota", 3, "Iota", False),
    ),
    "Axis": (("size", 2, INT64, False),),
    "Iota": (("reshape", 1, INT64, True), ("transpose", 2, INT64, True)),
    "AxisRef": (("index", 1, INT64, False), ("part", 2, "Part", False)),
    "Part": (("pre_size", 1, INT64, False), ("size", 2, INT64, False)),
}


def expand_mesh_axis_groups(proto: bytes) -> bytes:
    """Return a serialised HloModuleProto with all replica groups as lists of devices.

    Raises:
        ValueError: ``proto`` is damaged.
    """
    if MARK not in proto:
        return proto
    from google.protobuf.message import DecodeError

    module = build_module_class()()
    try:
        module.ParseFromString(proto)
    except DecodeError as error:
        raise ValueError(f"the HLO protobuf is damaged: {error}") from None
    changed = False
    for computation in module.computations:
        for instruction in computation.instructions:
            if instruction.HasField("named"):
                for ids in compute_device_groups(instruction.named):
                    instruction.devices.groups.add().ids.extend(ids)
                instruction.ClearField("named")
                changed = True
    return module.SerializeToString() if changed else proto


def compute_device_groups(named: Any) -> list[list[int]]:
    """Return the devices of each group: those that differ only in the named axes.

    Groups are ordered by the other axes, and devices by the named ones, major axis first.
    """
    sizes = [axis.size for axis in named.mesh.axes]
    devices = _list_mesh_devices(named.mesh, sizes)
    extents: list[int] = []  # of the mesh, its axes cut where a named part begins or ends
    grouped: list[int] = []
    starts: dict[tuple[int, int], int] = {}  # (axis, devices before the cut) to index in extents
    for index, size in enumerate(sizes):
        cuts = {1, size}
        for axis in named.axes:
            if axis.index == index and axis.HasField("part"):
                cuts |= {axis.part.pre_size, axis.part.pre_size * axis.part.size}
        bounds = sorted(cuts)
        for low, high in itertools.pairwise(bounds):
            starts[index, low] = len(extents)
            extents.append(high // low)
    for axis in named.axes:
        first = axis.part.pre_size if axis.HasField("part") else 1
        last = first * axis.part.size if axis.HasField("part") else sizes[axis.index]
        grouped += [
            place
            for (index, low), place in starts.items()
            if index == axis.index and first <= low < last
        ]
    others = [place for place in range(len(extents)) if place not in grouped]
    count = int(numpy.prod([extents[place] for place in grouped], dtype=numpy.int64))
    return devices.reshape(extents).transpose(*others, *grouped).reshape(-1, count).tolist()


def _list_mesh_devices(mesh: Any, sizes: list[int]) -> Any:
    """Return the devices of a mesh in row-major order of its axes."""
    if mesh.device_ids:
        return numpy.array(mesh.device_ids)
    ids = numpy.arange(int(numpy.prod(sizes, dtype=numpy.int64)))
    if mesh.HasField("iota"):
        return ids.reshape(list(mesh.iota.reshape)).transpose(list(mesh.iota.transpose)).ravel()
    return ids


@functools.cache
def build_module_class() -> Any:
    """Return the protobuf class of a module with the fields in ``MESSAGES``."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(
        name="hespas_hlo.proto", package="hespas_hlo", syntax="proto2"
    )
    kind = descriptor_pb2.FieldDescriptorProto
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, of, repeated in fields:
            field_proto = message.field.add(
                name=field,
                number=number,
                label=kind.LABEL_REPEATED if repeated else kind.LABEL_OPTIONAL,
                type=kind.TYPE_INT64 if of == INT64 else kind.TYPE_MESSAGE,
            )
            if of == INT64:
                field_proto.options.packed = repeated
            else:
                field_proto.type_name = f".{file.package}.{of}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.Module"))
