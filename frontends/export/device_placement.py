"""Numbering the devices of a module by their ids on the slices that ``slice_mesh`` places them on.

JAX numbers the devices of a program by their positions in the mesh. A placed module has their ids
instead: in its meshes, in its replica groups, and where it reads its own number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from hespas.dialects.axis_groups import read_axis_groups
from hespas.dialects.mlir import ir, sdy, select_ops, stablehlo
from hespas.frontends.export.slice_mesh import order_devices
from hespas.passes.prepare.device_grid import make_groups_attr, parse_group_rows
from hespas.support.errors import HespasError

MESH, POSITION = "sdy.mesh", "stablehlo.partition_id"
GROUPS = ("replica_groups", "source_target_pairs")


def place_module_devices(
    module: ir.Module, mesh: Mapping[str, int], dcn: Mapping[str, int]
) -> None:
    """Number the devices of a lowered module by their ids instead of their positions in the mesh.

    Raises:
        HespasError: An op lists devices in a form that cannot be renumbered.
    """
    ids = order_devices(mesh, dcn)
    if ids == sorted(ids):
        return
    places = select_ops(
        module.operation,
        lambda op: op.name in (MESH, POSITION) or any(name in op.attributes for name in GROUPS),
    )
    with module.context:
        for op in places:
            _place_op(op, ids)


def _place_op(op: ir.Operation, ids: Sequence[int]) -> None:
    if op.name == MESH:
        op.attributes["mesh"] = _place_mesh(op.attributes["mesh"], ids)
    elif op.name == POSITION:
        _look_up_position(op, ids)
    for name in GROUPS:
        if name in op.attributes:
            op.attributes[name] = _place_groups(op, op.attributes[name], ids)


def _place_mesh(attribute: ir.Attribute, ids: Sequence[int]) -> ir.Attribute:
    mesh: Any = sdy.MeshAttr(attribute)
    axes = [sdy.MeshAxisAttr(axis) for axis in mesh.axes]
    positions = list(mesh.device_ids) or range(math.prod(axis.size for axis in axes))
    if not axes or len(positions) != len(ids):
        return attribute  # the mesh of what one device holds
    return sdy.MeshAttr.get(axes, [ids[position] for position in positions])


def _place_groups(op: ir.Operation, attribute: ir.Attribute, ids: Sequence[int]) -> ir.Attribute:
    """Renumber groups of equal size; groups by mesh axes follow their mesh."""
    if read_axis_groups(attribute) is not None:
        return attribute
    try:
        groups = parse_group_rows(attribute)
    except ValueError as error:
        raise HespasError(f"a list of devices {error}", op=op) from None
    if len({len(group) for group in groups}) > 1:
        raise HespasError("replica groups of several sizes cannot be placed on slices", op=op)
    placed = tuple(tuple(ids[position] for position in group) for group in groups)
    return make_groups_attr(placed, op.context) if placed else attribute


def _look_up_position(op: ir.Operation, ids: Sequence[int]) -> None:
    """Convert the id of the device to its position, which the uses of ``op`` expect."""
    uses = [(use.owner, use.operand_number) for use in op.results[0].uses]
    positions: Any = numpy.empty(len(ids), numpy.uint32)
    positions[list(ids)] = numpy.arange(len(ids))
    number = ir.IntegerType.get_unsigned(32)
    with ir.InsertionPoint.after(op), op.location:
        table = stablehlo.ConstantOp(ir.DenseIntElementsAttr.get(positions, type=number))
        entry = stablehlo.DynamicSliceOp(table.result, [op.results[0]], [1])
        position = stablehlo.ReshapeOp(ir.RankedTensorType.get([], number), entry.result)
    for user, operand in uses:
        user.operands[operand] = position.result
