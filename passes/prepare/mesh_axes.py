"""Groups given as axes of a mesh (``#stablehlo.replica_group_mesh_axes``): XLA writes them now."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy

from hespas.dialects.errors import HespasError
from hespas.dialects.mlir import AxisGroups, MeshShape, axis_groups_of, ir, mesh_shape, meshes

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a mesh axis: ``size`` positions, ``before`` the product of the more major parts."""

    axis: str
    before: int
    size: int


def axis_groups(
    attr: ir.Attribute, module: ir.Module, op: ir.Operation | None = None
) -> Groups | None:
    """The groups of ids that the axes stand for; None where ``attr`` is not of that form.

    A group holds the devices that differ in the named axes only, in the axes' order (StableHLO
    specification, ReplicaGroupMeshAxes). Raises HespasError, with ``op``, for an unknown mesh or
    axis.
    """
    named = axis_groups_of(attr)
    if named is None:
        return None
    shape = _shape(named, module, op)
    inside = [_Piece(name, before, size or shape.axes[name]) for name, before, size in named.axes]
    pieces = [piece for axis, size in shape.axes.items() for piece in _pieces(axis, size, inside)]
    ids = shape.device_ids or range(math.prod(shape.axes.values()))
    grid = numpy.array(ids).reshape([piece.size for piece in pieces])
    last = [pieces.index(piece) for piece in inside]
    first = [i for i in range(len(pieces)) if i not in last]
    width = math.prod(piece.size for piece in inside)
    rows = grid.transpose(first + last).reshape(-1, width)
    return tuple(tuple(int(i) for i in row) for row in rows)


def _shape(named: AxisGroups, module: ir.Module, user: ir.Operation | None) -> MeshShape:
    if isinstance(named.mesh, MeshShape):
        shape, name = named.mesh, "the mesh"
    else:
        op = meshes(module).get(named.mesh)
        name = f"@{named.mesh}"
        if op is None:
            message = f"replica groups name the mesh {name}, which is not there"
            raise HespasError(message, op=user)
        shape = mesh_shape(op)
    for axis, _, _ in named.axes:
        if axis not in shape.axes:
            message = f"replica groups name the axis '{axis}', which {name} lacks"
            raise HespasError(message, op=user)
    return shape


def _pieces(axis: str, size: int, inside: list[_Piece]) -> list[_Piece]:
    """An axis cut into the parts that groups name, and what lies between them, major first."""
    result: list[_Piece] = []
    done = 1
    for piece in sorted((p for p in inside if p.axis == axis), key=lambda p: p.before):
        if piece.before > done:
            result.append(_Piece(axis, done, piece.before // done))
        result.append(piece)
        done = piece.before * piece.size
    if done < size or not result:
        result.append(_Piece(axis, done, size // done))
    return result
