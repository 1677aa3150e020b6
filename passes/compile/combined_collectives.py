"""Collectives of several operands that StableHLO lacks, on their way through XLA's importer.

XLA:GPU combines reduce-scatters, and permutes; StableHLO's have one operand. Each becomes a custom
call of the same operands before the import, whose groups are the text of a frontend attribute.
After the import, the call has one result for each operand, and the attributes of a collective.
"""

from __future__ import annotations

import json
from typing import Any

from hespas.dialects.buffer_sizes import list_tuple_members
from hespas.dialects.hlo_groups import read_replica_groups, write_replica_groups
from hespas.dialects.mlir import (
    copy_attributes,
    create_before,
    find_ops,
    ir,
    replace_tuple,
    take_frontend_text,
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
    for call in find_ops(module.operation, CUSTOM_CALLS):
        if fields := take_frontend_text(call, _GROUPS):
            _restore_call(call, json.loads(fields))


def _restore_call(call: ir.Operation, fields: dict[str, Any]) -> None:
    """Replace a call whose result is a tuple by one with the elements as results."""
    context = call.context
    types = ir.TupleType(call.results[0].type)
    attributes = copy_attributes(call)
    for field, name in (("groups", "replica_groups"), ("pairs", "source_target_pairs")):
        if fields[field]:
            attributes[name] = make_groups_attr(fields[field], context)
    if fields["channel"]:
        attributes["channel_handle"] = make_channel_attr(fields["channel"], 0, context)
    if fields["global"]:
        attributes["use_global_device_ids"] = ir.UnitAttr.get(context)
    flat = create_before(call, call.name, call.operands, list_tuple_members(types), attributes)
    replace_tuple(call, flat.results)
