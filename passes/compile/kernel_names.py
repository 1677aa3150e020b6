"""The names of Pallas kernels while XLA holds a program.

JAX writes the name in the attribute ``kernel_name`` of a call, which HLO lacks. XLA keeps frontend
attributes, so that one of these carries the name.
"""

from __future__ import annotations

from hespas.dialects.mlir import (
    ir,
    read_frontend_items,
    walk_operations,
    write_frontend_items,
)
from hespas.dialects.op_kinds import CUSTOM_CALLS

CARRIER = "hespas_kernel"
KERNEL_NAME = "kernel_name"


def store_kernel_names(module: ir.Module) -> None:
    """Copy the names of kernels to frontend attributes, in place."""

    def store_name(op: ir.Operation) -> ir.WalkResult:
        if op.name in CUSTOM_CALLS and KERNEL_NAME in op.attributes:
            write_frontend_items(
                op, {**read_frontend_items(op), CARRIER: op.attributes[KERNEL_NAME]}
            )
        return ir.WalkResult.ADVANCE

    walk_operations(module.operation, store_name)


def restore_kernel_names(module: ir.Module) -> None:
    """Move the names of kernels from frontend attributes back, in place."""

    def restore_name(op: ir.Operation) -> ir.WalkResult:
        items = read_frontend_items(op)
        if CARRIER in items:
            name = items.pop(CARRIER)
            write_frontend_items(op, items)
            if op.name in CUSTOM_CALLS:  # XLA copies the attributes to what it makes for a call
                op.attributes[KERNEL_NAME] = name
        return ir.WalkResult.ADVANCE

    walk_operations(module.operation, restore_name)
