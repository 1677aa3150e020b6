"""Replica groups given as axes of a mesh (``#stablehlo.replica_group_mesh_axes``)."""

from __future__ import annotations

import re

from hespas.dialects.axis_groups import (
    AxisGroups,
    MeshShape,
    compute_axis_groups,
    read_axis_groups,
    read_mesh_shape,
)
from hespas.dialects.mlir import collect_meshes, ir
from hespas.passes.prepare.device_grid import Groups
from hespas.support.errors import HespasError


def count_mesh_devices(module: ir.Module) -> int:
    """Return the number of devices of the largest mesh that the module uses; 0 without meshes.

    If the module uses none of its meshes, it is that of the largest mesh. A mesh of device 3 alone
    (of a maximal sharding) implies four devices.
    """
    shapes = {name: read_mesh_shape(mesh) for name, mesh in collect_meshes(module).items()}
    sizes = {
        name: shape.device_ids[0] + 1 if shape.is_maximal else shape.device_count
        for name, shape in shapes.items()
    }
    if len(set(sizes.values())) > 1:
        text = module.operation.get_asm(large_elements_limit=16, assume_verified=True)
        names = re.findall(r'(?<!sdy\.mesh )@(?:"([^"]*)"|([\w.$-]+))', str(text))
        used = {quoted or plain for quoted, plain in names} & sizes.keys()
        sizes = {name: sizes[name] for name in used} or sizes
    return max(sizes.values(), default=0)


def resolve_axis_groups(
    attr: ir.Attribute, module: ir.Module, op: ir.Operation | None
) -> Groups | None:
    """Convert mesh axes to groups of device ids; None if ``attr`` does not name mesh axes.

    A group contains the devices that differ only in the named axes, in the order of the axes
    (StableHLO specification, ReplicaGroupMeshAxes). Raises HespasError, located at ``op``, for an
    unknown mesh or axis.
    """
    named = read_axis_groups(attr)
    if named is None:
        return None
    shape = _resolve_mesh_shape(named, module, op)
    return tuple(tuple(group) for group in compute_axis_groups(shape, named.axes))


def _resolve_mesh_shape(
    named: AxisGroups, module: ir.Module, user: ir.Operation | None
) -> MeshShape:
    if isinstance(named.mesh, MeshShape):
        shape, name = named.mesh, "the mesh"
    else:
        op = collect_meshes(module).get(named.mesh)
        name = f"@{named.mesh}"
        if op is None:
            message = f"replica groups name the mesh {name}, which is not defined"
            raise HespasError(message, op=user)
        shape = read_mesh_shape(op)
    for axis, _, _ in named.axes:
        if axis not in shape.axes:
            message = f"replica groups name the axis '{axis}', which {name} does not have"
            raise HespasError(message, op=user)
    return shape
