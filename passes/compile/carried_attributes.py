"""Attributes of ops that HLO lacks, while XLA holds a program.

JAX writes the name of a Pallas kernel in the attribute ``kernel_name`` of its call, and somebody
may have stated the work of a call or what it sends, the trip count of a loop or the branch that
runs. XLA keeps frontend attributes, so that each of these attributes has a carrier among them. The
numbers are those of one device, whatever the shapes were when they were stated.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from hespas.dialects.attrs import (
    BRANCH,
    BRANCH_FOUND,
    TRIPS,
    TRIPS_FOUND,
    CommAttr,
    KernelCostAttr,
)
from hespas.dialects.mlir import (
    FRONTEND,
    find_ops,
    ir,
    read_frontend_items,
    select_ops,
    write_frontend_items,
)
from hespas.dialects.op_kinds import BRANCHES, CUSTOM_CALLS, LOOPS


class _CarriedAttribute(NamedTuple):
    """An attribute, the kinds of its ops, and the frontend attribute that carries it.

    What ``prepare`` has found is no statement: the attribute ``found`` has the same value then.
    """

    name: str
    holders: frozenset[str]
    carrier: str
    found: str = ""
    is_text: bool = False

    def is_stated(self, attributes: ir.OpAttributeMap) -> bool:
        """Return whether an op with these attributes has the attribute by a statement."""
        return self.name in attributes and not (
            self.found in attributes and attributes[self.found] == attributes[self.name]
        )


KERNEL_NAME_CARRIER = "hespas_kernel"
CARRIED_ATTRIBUTES = (
    _CarriedAttribute("kernel_name", CUSTOM_CALLS, KERNEL_NAME_CARRIER, is_text=True),
    _CarriedAttribute(KernelCostAttr.NAME, CUSTOM_CALLS, "hespas_kernel_cost"),
    _CarriedAttribute(CommAttr.NAME, CUSTOM_CALLS, "hespas_comm"),
    _CarriedAttribute(TRIPS, LOOPS, "hespas_trips", TRIPS_FOUND),
    _CarriedAttribute(BRANCH, BRANCHES, "hespas_branch", BRANCH_FOUND),
)


def store_carried_attributes(module: ir.Module) -> None:
    """Copy the attributes that HLO lacks to frontend attributes, in place."""
    for op in find_ops(module.operation, CUSTOM_CALLS | LOOPS | BRANCHES):
        attributes = op.attributes
        carried = {
            one.carrier: attributes[one.name]
            if one.is_text
            else ir.StringAttr.get(str(attributes[one.name]), op.context)
            for one in CARRIED_ATTRIBUTES
            if op.name in one.holders and one.is_stated(attributes)
        }
        if carried:
            write_frontend_items(op, {**read_frontend_items(op), **carried})


def restore_carried_attributes(module: ir.Module) -> None:
    """Move the attributes that HLO lacks from frontend attributes back, in place."""
    for op in select_ops(module.operation, lambda op: FRONTEND in op.attributes):
        items = read_frontend_items(op)
        carried = [one for one in CARRIED_ATTRIBUTES if one.carrier in items]
        for one in carried:
            stored = cast(ir.StringAttr, items.pop(one.carrier))
            if op.name in one.holders:  # XLA copies the attributes to what it makes for an op
                op.attributes[one.name] = (
                    stored if one.is_text else ir.Attribute.parse(stored.value, op.context)
                )
        if carried:
            write_frontend_items(op, items)
