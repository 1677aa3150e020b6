"""Removal of shardings from a program for one partition, whose global shapes are its local ones."""

from __future__ import annotations

from hespas.dialects.mlir import (
    drop_attributes,
    drop_boundary_attrs,
    ir,
    replace_op,
    replace_results,
)
from hespas.dialects.op_bodies import splice_block_before
from hespas.dialects.op_kinds import SHARDING_ATTRS
from hespas.passes.prepare.census import ModuleCensus
from hespas.passes.prepare.communicators import spell_out_axes
from hespas.support.errors import HespasError


def remove_shardings(module: ir.Module, census: ModuleCensus) -> None:
    """Remove meshes, sharding attributes and Shardy ops; XLA's partitioner does not run for these.

    Manual computations are inlined, and the other Shardy ops are identities on one device.

    Raises:
        HespasError: A Shardy op changes a type.
    """
    spell_out_axes(module, census.list_collectives())
    drop_shardings(census)
    shardy_ops = census.select_ops_by_dialect("sdy")
    for op in [op for op in shardy_ops if op.name != "sdy.return"]:  # it goes with its region
        remove_shardy_op(op)


def drop_shardings(census: ModuleCensus) -> None:
    """Remove the sharding attributes of all functions and ops."""
    for contents in census.functions.values():
        drop_boundary_attrs(contents.function, SHARDING_ATTRS)
    for op in census.list_sharded_ops():
        drop_attributes(op, *SHARDING_ATTRS)
    census.forget_sharded_ops()


def remove_shardy_op(op: ir.Operation) -> None:
    """Replace an op of Shardy by what it is on one device. Raises HespasError if a type changes."""
    if op.name == "sdy.constant":
        replace_op(op, "stablehlo.constant", {"value": op.attributes["value"]})
        return
    values = list(op.operands)
    if len(op.regions):
        _, values = splice_block_before(op, op.operands, op.regions[0].blocks[0])
    if not len(op.results):
        op.erase()
        return
    if [value.type for value in values] != list(op.results.types):
        raise HespasError("the op changes a type, but the module is for one partition", op=op)
    replace_results(op, values)
