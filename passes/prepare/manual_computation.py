"""Modules that consist of one ``sdy.manual_computation``, whose body is the program of a device."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from hespas.dialects.axis_groups import (
    list_manual_axes,
    list_manual_meshes,
    list_shardings,
    read_mesh_shape,
)
from hespas.dialects.mlir import collect_meshes, ir, read_boundary_attrs, stablehlo
from hespas.dialects.op_bodies import splice_block_before, update_function_type
from hespas.dialects.op_kinds import MANUAL_COMPUTATION
from hespas.passes.prepare.census import ModuleCensus

CHANNEL, CONSTANT = "channel_handle", "stablehlo.constant"


def inline_manual_computation(module: ir.Module, census: ModuleCensus) -> bool:
    """Inline the manual computation if the entry contains nothing else; return whether it did.

    It must be manual in every axis of the mesh, its operands must be the entry's arguments, and its
    results the entry's results, without resharding between them. Constants that every device has as
    a whole, which JAX lifts out of kernels, may be operands too.
    """
    shardy_ops = census.select_ops_by_dialect("sdy")
    if [op.name for op in shardy_ops] != [MANUAL_COMPUTATION, "sdy.return"]:
        return False
    entry = census.entry
    block = entry.regions[0].blocks[0]
    ops = [op.operation for op in block.operations]
    if [op.name for op in ops] != [CONSTANT] * (len(ops) - 2) + [MANUAL_COMPUTATION, "func.return"]:
        return False
    manual, last = ops[-2:]
    channels = itertools.count(1)
    arguments, body = list(block.arguments), manual.regions[0].blocks[0]
    inputs, outputs = (
        list_shardings(manual.attributes[name]) for name in ("in_shardings", "out_shardings")
    )
    passed: dict[int, ir.Attribute] = {}  # the sharding of each argument, by number
    for value, sharding in zip(manual.operands, inputs, strict=True):
        if not isinstance(value, ir.BlockArgument):
            if '{"' in str(sharding):
                return False
        elif value.arg_number in passed:
            return False
        else:
            passed[value.arg_number] = sharding
    if not (
        _is_fully_manual(manual, module)
        and len(passed) == len(arguments)
        and list(last.operands) == list(manual.results)
        and _allows_shardings(entry, "arg_attrs", passed)
        and _allows_shardings(entry, "res_attrs", dict(enumerate(outputs)))
    ):
        return False
    for outer, inner in zip(manual.operands, body.arguments, strict=True):
        if isinstance(outer, ir.BlockArgument):
            outer.set_type(inner.type)
    _, values = splice_block_before(manual, manual.operands, body)
    for number, value in enumerate(values):
        last.operands[number] = value
    manual.erase()
    update_function_type(entry)
    for contents in census.functions.values():
        _number_channels(contents.function, channels)
    return True


def _number_channels(function: ir.Operation, numbers: Iterator[int]) -> None:
    """Give each collective a different channel id, as XLA's partitioner does.

    JAX uses the same id for all of them, and XLA then assigns them the same layout.
    """

    def replace_channel(op: ir.Operation) -> ir.WalkResult:
        if CHANNEL in op.attributes:
            old: Any = stablehlo.ChannelHandle(op.attributes[CHANNEL])
            op.attributes[CHANNEL] = stablehlo.ChannelHandle.get(
                next(numbers), old.channel_type, op.context
            )
        return ir.WalkResult.ADVANCE

    function.walk(replace_channel, ir.WalkOrder.PRE_ORDER)


def _is_fully_manual(manual: ir.Operation, module: ir.Module) -> bool:
    """Return whether every axis of the mesh is manual or of size one."""
    names, axes = list_manual_meshes(manual), list_manual_axes(manual)
    if len(names) != 1:
        return False
    sizes = read_mesh_shape(collect_meshes(module)[names[0]]).axes
    return all(name in axes or size == 1 for name, size in sizes.items())


def _allows_shardings(
    entry: ir.Operation, name: str, shardings: Mapping[int, ir.Attribute]
) -> bool:
    """Return whether the entry's arguments or results have the wanted shardings or none."""
    attrs = read_boundary_attrs(entry, name)
    return not attrs or all(
        "sdy.sharding" not in attrs[number] or attrs[number]["sdy.sharding"] == sharding
        for number, sharding in shardings.items()
    )
