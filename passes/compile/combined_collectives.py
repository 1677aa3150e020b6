"""Collectives of several operands that StableHLO lacks, on their way through XLA's importer.

XLA:GPU combines reduce-scatters, and permutes; StableHLO's have one operand. Each becomes a custom
call of the same operands before the import, whose groups are the text of a frontend attribute.
After the import, the call has one result for each operand, and the attributes of a collective.
"""

from __future__ import annotations

import json
from typing import Any

from hespas.dialects.hlo_groups import read_replica_groups, write_replica_groups
from hespas.dialects.mlir import (
    FRONTEND,
    get_attribute,
    ir,
    list_users,
    read_frontend_items,
    write_frontend_items,
)
from hespas.dialects.op_kinds import COMBINED_PERMUTE_TARGET, COMBINED_SCATTER_TARGET, CUSTOM_CALLS
from hespas.passes.compile.hlo_program import HloInstruction, HloProgram, write_frontend_value
from hespas.passes.prepare.device_grid import make_channel_attr, make_groups_attr

_GROUPS = "hespas_groups"
_TARGETS = {
    "reduce-scatter": COMBINED_SCATTER_TARGET,
    "collective-permute": COMBINED_PERMUTE_TARGET,
}


def replace_combined_collectives(program: HloProgram) -> None:
    """Replace the combined collectives of a program by custom calls."""
    for one in program.iterate_instructions():
        if one.opcode in _TARGETS and len(one.operand_ids) > 1:
            _replace_by_call(one)


def _replace_by_call(one: HloInstruction) -> None:
    fields = {
        "groups": read_replica_groups(one),
        "pairs": [[pair.source, pair.target] for pair in one.source_target_pairs],
        "channel": one.channel_id,
        "global": one.use_global_device_ids,
    }
    write_frontend_value(one, _GROUPS, json.dumps(fields))
    one.custom_call_target = _TARGETS[one.opcode]
    one.opcode = "custom-call"
    write_replica_groups(one, [])
    for name in (
        "called_computation_ids", "channel_id", "dimensions", "source_target_pairs",
        "use_global_device_ids", "backend_config",
    ):  # fmt: skip
        one.ClearField(name)


def restore_combined_collectives(module: ir.Module) -> None:
    """Give the custom calls their results and the attributes of collectives."""
    calls: list[ir.Operation] = []

    def collect_call(op: ir.Operation) -> ir.WalkResult:
        if op.name in CUSTOM_CALLS and FRONTEND in op.attributes:
            calls.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect_call)
    for call in calls:
        items = read_frontend_items(call)
        fields = items.pop(_GROUPS, None)
        if fields is not None:
            write_frontend_items(call, items)
            _restore_call(call, json.loads(ir.StringAttr(fields).value))


def _restore_call(call: ir.Operation, fields: dict[str, Any]) -> None:
    """Replace a call whose result is a tuple by one with the elements as results."""
    context = call.context
    elements = list_users(call.results[0])
    types = ir.TupleType(call.results[0].type)
    attributes = {name: call.attributes[name] for name in call.attributes}
    for field, name in (("groups", "replica_groups"), ("pairs", "source_target_pairs")):
        if fields[field]:
            attributes[name] = make_groups_attr(fields[field], context)
    if fields["channel"]:
        attributes["channel_handle"] = make_channel_attr(fields["channel"], 0, context)
    if fields["global"]:
        attributes["use_global_device_ids"] = ir.UnitAttr.get(context)
    with call.location, ir.InsertionPoint(call):
        flat = ir.Operation.create(
            call.name,
            [types.get_type(i) for i in range(types.num_types)],
            list(call.operands),
            attributes,
        )
    for element in elements:
        index = get_attribute(element, "index").value
        element.results[0].replace_all_uses_with(flat.results[index])
        element.erase()
    call.erase()
