"""Device meshes, and replica groups that are given by their axes."""

from __future__ import annotations

import math
from typing import Any

from hespas.dialects.mlir import ir, sdy, stablehlo
from hespas.support.records import record


@record(frozen=True)
class MeshShape:
    """A device mesh.

    Attributes:
        axes: Size by axis name, major axis first.
        device_ids: Device ids in row-major order; empty for 0, 1, 2, ...
    """

    axes: dict[str, int]
    device_ids: tuple[int, ...] = ()

    @property
    def device_count(self) -> int:
        return math.prod(self.axes.values())

    @property
    def is_maximal(self) -> bool:
        """Whether a sharding of the mesh places a whole value on one device of several."""
        return not self.axes and len(self.device_ids) == 1


@record(frozen=True)
class AxisGroups:
    """Replica groups by mesh axes: ``#stablehlo.replica_group_mesh_axes``.

    Attributes:
        mesh: The mesh, or the symbol of an ``sdy.mesh``.
        axes: Axis name, pre-size and size of each axis or part of one; size 0 for a whole axis.
    """

    mesh: MeshShape | str
    axes: tuple[tuple[str, int, int], ...]


def read_mesh_shape(mesh: ir.Operation) -> MeshShape:
    """Return the shape of an ``sdy.mesh``."""
    attr: Any = sdy.MeshAttr(mesh.attributes["mesh"])
    axes = {axis.name: axis.size for axis in map(sdy.MeshAxisAttr, attr.axes)}
    return MeshShape(axes, tuple(attr.device_ids))


def list_shardings(attr: ir.Attribute) -> list[ir.Attribute]:
    """List the shardings in an attribute with one for each value, such as ``in_shardings``."""
    return list(sdy.TensorShardingPerValueAttr(attr).shardings)


def list_manual_meshes(op: ir.Operation) -> list[str]:
    """List the names of the meshes that the shardings of a manual computation have, each once."""
    shardings: Any = [
        sdy.TensorShardingAttr(sharding)
        for key in ("in_shardings", "out_shardings")
        for sharding in list_shardings(op.attributes[key])
    ]
    return list(dict.fromkeys(sharding.mesh_or_ref.value for sharding in shardings))


def list_manual_axes(op: ir.Operation) -> list[str]:
    """List the axes over which a manual computation is the program of one device."""
    axes: Any = sdy.ManualAxesAttr(op.attributes["manual_axes"])
    return list(axes)


def read_axis_groups(attr: ir.Attribute) -> AxisGroups | None:
    """Return ``attr`` as groups by mesh axes, or None if it has another form."""
    if not stablehlo.ReplicaGroupMeshAxesAttr.isinstance(attr):
        return None
    groups: Any = stablehlo.ReplicaGroupMeshAxesAttr(attr)
    axes = []
    for named in groups.axes:
        ref: Any = stablehlo.AxisRefAttr(named)
        part = ref.sub_axis_info
        info: Any = stablehlo.SubAxisInfoAttr(part) if part is not None else None
        axes.append((ref.name, info.pre_size, info.size) if info else (ref.name, 1, 0))
    if stablehlo.MeshAttr.isinstance(groups.mesh):
        mesh: Any = stablehlo.MeshAttr(groups.mesh)
        sizes = {axis.name: axis.size for axis in map(stablehlo.MeshAxisAttr, mesh.axes)}
        ids = tuple(mesh.device_ids) if mesh.device_ids is not None else ()
        return AxisGroups(MeshShape(sizes, ids), tuple(axes))
    return AxisGroups(groups.mesh.value, tuple(axes))
