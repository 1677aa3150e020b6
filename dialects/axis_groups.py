"""Device meshes, and replica groups that are given by their axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
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


def compute_axis_groups(mesh: MeshShape, axes: Sequence[tuple[str, int, int]]) -> list[list[int]]:
    """Compute the groups of devices that differ only in some axes, or in parts of axes.

    Groups are ordered by the other axes, and devices by the named ones, in their order.

    Args:
        mesh: The mesh.
        axes: The named axes, as those of ``AxisGroups``.
    """
    import numpy

    named = [(name, before, size or mesh.axes[name]) for name, before, size in axes]
    # The mesh is taken to have one axis for each part between the cuts of the named parts.
    parts: list[tuple[str, int, int]] = []  # name, product of the parts before it, size
    for axis, length in mesh.axes.items():
        cuts = {1, length}
        for name, before, size in named:
            if name == axis:
                cuts |= {before, before * size}
        parts += [(axis, low, high // low) for low, high in pairwise(sorted(cuts))]
    inside = [
        number
        for name, before, size in named
        for number, (axis, low, _) in enumerate(parts)
        if axis == name and before <= low < before * size
    ]
    outside = [number for number in range(len(parts)) if number not in inside]
    width = math.prod(parts[number][2] for number in inside)
    grid = numpy.array(mesh.device_ids or range(mesh.device_count))
    grid = grid.reshape([size for _, _, size in parts])
    return grid.transpose(outside + inside).reshape(-1, width).tolist()


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
