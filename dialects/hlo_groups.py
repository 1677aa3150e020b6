"""The replica groups of HLO collectives, in each of the forms that HLO has for them.

``hlo_to_stablehlo`` of jaxlib 0.10.2 keeps groups that name mesh axes but drops the order of the
mesh's devices, and with it the members of each group; it keeps lists.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy

from hespas.dialects.axis_groups import MeshShape, compute_axis_groups

_NAMED = "mesh_axes_replica_group_list"
_IOTA = "iota_collective_device_list"


def expand_mesh_axis_groups(instructions: Iterable[Any]) -> None:
    """Replace the replica groups of instructions that name mesh axes by lists of devices.

    Args:
        instructions: HloInstructionProtos.
    """
    listed: dict[bytes, list[list[int]]] = {}
    for one in instructions:
        if not one.HasField(_NAMED):
            continue
        key = one.mesh_axes_replica_group_list.SerializeToString(deterministic=True)
        if key not in listed:
            listed[key] = read_replica_groups(one)
        write_replica_groups(one, listed[key])


def read_replica_groups(instruction: Any) -> list[list[int]]:
    """Return the devices of each group of a collective; an empty list for all devices."""
    if instruction.HasField(_NAMED):
        return compute_device_groups(instruction.mesh_axes_replica_group_list)
    if instruction.HasField(_IOTA):
        iota = instruction.iota_collective_device_list
        count, size = iota.num_replica_groups, iota.num_devices_per_group
        return (
            _transpose_iota(iota.iota_reshape_dims, iota.iota_transpose_perm, count * size)
            .reshape(count, size)
            .tolist()
        )
    groups = instruction.collective_device_list.replica_groups or instruction.replica_groups
    return [list(group.replica_ids) for group in groups]


def write_replica_groups(instruction: Any, groups: Iterable[Iterable[int]]) -> None:
    """Replace the groups of a collective by lists of devices."""
    for name in (_NAMED, _IOTA, "collective_device_list", "replica_groups"):
        instruction.ClearField(name)
    for devices in groups:
        instruction.collective_device_list.replica_groups.add().replica_ids.extend(devices)


def compute_device_groups(named: Any) -> list[list[int]]:
    """Return the devices of each group: those that differ only in the named axes.

    Groups are ordered by the other axes, and devices by the named ones, major axis first.
    """
    mesh = named.mesh
    axes = {str(number): axis.size for number, axis in enumerate(mesh.axes)}
    iota = mesh.iota_transform
    devices = mesh.device_ids or _transpose_iota(
        iota.reshape_dims, iota.transpose_perm, math.prod(axes.values())
    )
    parts = [
        (str(axis.mesh_axis_index), axis.sub_axis_info.pre_size, axis.sub_axis_info.size)
        if axis.HasField("sub_axis_info")
        else (str(axis.mesh_axis_index), 1, 0)
        for axis in named.axes
    ]
    return compute_axis_groups(MeshShape(axes, tuple(devices)), parts)


def _transpose_iota(dims: Iterable[int], permutation: Iterable[int], count: int) -> Any:
    """Return the numbers up to ``count``, reshaped to ``dims``, transposed and flattened."""
    ids = numpy.arange(count)
    shape = list(dims)
    return ids.reshape(shape).transpose(list(permutation)).ravel() if shape else ids
