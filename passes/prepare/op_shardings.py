"""Shardings that XLA's importer of programs discards, written in a form that it reads.

XLA keeps ``sdy.sharding`` on the arguments and results of the entry function and on the custom
calls of its partitioner, and the shardings of constraints and manual computations
(xla/service/spmd/shardy/sdy_round_trip/import_shardy_attrs.cc). It discards those on other ops and
functions, and in a program with Shardy's shardings also ``mhlo.sharding``. A constraint of the
value says the same: Shardy itself moves it to the op (``sdy-apply-sharding-constraints``).
"""

from __future__ import annotations

from collections.abc import Sequence

from hespas.dialects.axis_groups import list_shardings
from hespas.dialects.mlir import (
    BOUNDARY,
    decode_string_attr,
    drop_attributes,
    drop_boundary_attrs,
    get_call_target,
    has_users,
    ir,
    list_dictionary_entries,
    read_boundary_attrs,
    read_frontend_items,
    replace_results,
    require_kind,
)
from hespas.dialects.op_bodies import get_terminator
from hespas.dialects.op_kinds import (
    BRANCHES,
    CUSTOM_CALLS,
    LOOPS,
    PARTITIONER_CALL_TARGETS,
    SHARDING_ATTRS,
    SHARDING_CALL_TARGET,
    SHARDY_CALL_PREFIX,
    SHARDY_MESHES,
)
from hespas.passes.prepare.census import ModuleCensus
from hespas.support.errors import HespasError

SHARDY_SHARDING, HLO_SHARDING = SHARDING_ATTRS
# Ops between the parts of arrays, with the attribute of the result's sharding. All are identities
# in the program of global shapes, also the reductions: XLA's partitioner adds those of its own.
RESHARDING_OPS = {
    "sdy.reshard": "sharding",
    "sdy.all_gather": "out_sharding",
    "sdy.all_reduce": "out_sharding",
    "sdy.all_slice": "out_sharding",
    "sdy.all_to_all": "out_sharding",
    "sdy.collective_permute": "out_sharding",
    "sdy.reduce_scatter": "out_sharding",
}


def constrain_sharded_values(census: ModuleCensus, *, uses_shardy: bool) -> None:
    """Insert a constraint for each sharding that XLA would discard.

    Args:
        census: The census of a module with global shapes.
        uses_shardy: Whether XLA divides the module by the shardings of Shardy. Otherwise it reads
            ``mhlo.sharding`` on every op.

    Raises:
        HespasError: XLA cannot read an ``mhlo.sharding``.
    """
    _check_hlo_shardings(census)
    module = census.entry.parent
    if module is not None and SHARDY_MESHES in read_frontend_items(module):
        # XLA restores Shardy's ops from frontend attributes, and refuses other ops between. Any
        # sharding of HLO beside them would make it use GSPMD.
        for op in census.list_sharded_ops():
            drop_attributes(op, *SHARDING_ATTRS)
        for contents in census.functions.values():
            if contents.function != census.entry:
                drop_boundary_attrs(contents.function, SHARDING_ATTRS)
        return
    for contents in census.functions.values():
        if uses_shardy or contents.function != census.entry:
            _constrain_boundary(contents.function, is_entry=contents.function == census.entry)
    if not uses_shardy:
        return
    for op in census.list_sharded_ops():
        if not _is_read_by_xla(op):
            for number, sharding in enumerate(list_result_shardings(op)[: len(op.results)]):
                _constrain_result(op, number, sharding)
            drop_attributes(op, *SHARDING_ATTRS)
    for op in census.select_ops_by_name(*RESHARDING_OPS):
        sharding = op.attributes[RESHARDING_OPS[op.name]]
        constraint = _create_constraint(op.operands[0], sharding, ir.InsertionPoint(op))
        replace_results(op, constraint.results)


def _check_hlo_shardings(census: ModuleCensus) -> None:
    """Raise HespasError for an HLO sharding that XLA cannot read, which it would ignore."""
    from jaxlib import _hlo

    stated = [(op, op.attributes) for op in census.list_sharded_ops()]
    for contents in census.functions.values():
        for where in BOUNDARY:
            attrs = read_boundary_attrs(contents.function, where)
            stated += [(contents.function, attr) for attr in attrs]
    read: set[str] = {""}  # a serialised sharding that is replicated
    for op, attributes in stated:
        if HLO_SHARDING not in attributes:
            continue
        sharding = require_kind(attributes[HLO_SHARDING], ir.StringAttr, HLO_SHARDING, op)
        text = decode_string_attr(sharding)
        if text in read:
            continue
        try:
            _hlo.HloSharding.from_string(text)
        except RuntimeError:
            raise HespasError(
                f"XLA cannot read the sharding {text}",
                op=op,
                remedy="write it as in {devices=[2,1]<=[2]}",
            ) from None
        read.add(text)


def list_result_shardings(op: ir.Operation) -> list[ir.Attribute]:
    """List the sharding of each result of a sharded op, of Shardy if it has both kinds."""
    if SHARDY_SHARDING in op.attributes:
        return list_shardings(op.attributes[SHARDY_SHARDING])
    parts = split_tuple_sharding(decode_string_attr(op.attributes[HLO_SHARDING]))
    if len(parts) == 1:
        parts *= len(op.results)
    return [ir.StringAttr.get(part, op.context) for part in parts]


def split_tuple_sharding(text: str) -> list[str]:
    """Split the HLO sharding of a tuple, ``{{devices=[2]<=[2]}, {replicated}}``, into its parts."""
    if not text.startswith("{{"):
        return [text]
    parts, depth, start = [], 0, 1
    for index, character in enumerate(text[:-1]):
        if character == "{":
            depth += 1
            start = index if depth == 2 else start
        elif character == "}":
            depth -= 1
            if depth == 1:
                parts.append(text[start : index + 1])
    return parts


def _is_read_by_xla(op: ir.Operation) -> bool:
    """Return whether XLA reads the sharding of the op in a program with Shardy's shardings."""
    if op.name not in CUSTOM_CALLS:
        return False
    target = get_call_target(op)
    is_callback = "_python_" in target  # runs on one device, as its sharding says
    return (
        is_callback or target in PARTITIONER_CALL_TARGETS or target.startswith(SHARDY_CALL_PREFIX)
    )


def _constrain_boundary(function: ir.Operation, *, is_entry: bool) -> None:
    """Constrain the arguments and results of a function whose sharding XLA would discard."""
    block = function.regions[0].blocks[0]
    last = get_terminator(block)
    arguments = _list_boundary_shardings(function, "arg_attrs", is_entry)
    for number, sharding in enumerate(arguments):
        if sharding is not None:
            point = ir.InsertionPoint.at_block_begin(block)
            _constrain_uses(block.arguments[number], sharding, point)
    results = _list_boundary_shardings(function, "res_attrs", is_entry)
    for number, sharding in enumerate(results):
        if sharding is not None:
            _constrain_operand(last, number, sharding)


def _list_boundary_shardings(
    function: ir.Operation, where: str, is_entry: bool
) -> Sequence[ir.Attribute | None]:
    """List the sharding of each argument or result that XLA would discard, and None for others."""
    shardings: list[ir.Attribute | None] = []
    for attr in read_boundary_attrs(function, where):
        attrs = dict(list_dictionary_entries(attr))
        is_read = is_entry and SHARDY_SHARDING in attrs
        shardings.append(None if is_read else attrs.get(SHARDY_SHARDING) or attrs.get(HLO_SHARDING))
    return shardings


def _constrain_result(op: ir.Operation, number: int, sharding: ir.Attribute) -> None:
    """Constrain a result of an op, and what branches or the rounds of a loop return for it.

    The values of a loop all have one sharding. XLA drops constraints that nothing uses: where
    nothing uses the result of a loop, its initial value is constrained instead.
    """
    value = op.results[number]
    if not isinstance(value.type, ir.RankedTensorType):
        return  # a token
    is_loop = op.name in LOOPS
    if is_loop or op.name in BRANCHES:
        for region in list(op.regions)[is_loop:]:  # not the condition of a loop
            _constrain_operand(get_terminator(region.blocks[0]), number, sharding)
    if is_loop and not has_users(value):
        _constrain_operand(op, number, sharding)
    else:
        _constrain_uses(value, sharding, ir.InsertionPoint.after(op))


def _constrain_operand(op: ir.Operation, number: int, sharding: ir.Attribute) -> None:
    constraint = _create_constraint(op.operands[number], sharding, ir.InsertionPoint(op))
    op.operands[number] = constraint.results[0]


def _constrain_uses(value: ir.Value, sharding: ir.Attribute, point: ir.InsertionPoint) -> None:
    constraint = _create_constraint(value, sharding, point)
    value.replace_all_uses_except(constraint.results[0], constraint)


def _create_constraint(
    value: ir.Value, sharding: ir.Attribute, point: ir.InsertionPoint
) -> ir.Operation:
    """Create the op that constrains a value to a sharding of Shardy, or to that of an HLO text."""
    if isinstance(sharding, ir.StringAttr):
        name, key = "stablehlo.custom_call", HLO_SHARDING
    else:
        name, key = "sdy.sharding_constraint", "sharding"
    attributes = {key: sharding}
    if key == HLO_SHARDING:
        attributes["call_target_name"] = ir.StringAttr.get(SHARDING_CALL_TARGET, value.context)
    return ir.Operation.create(
        name,
        results=[value.type],
        operands=[value],
        attributes=attributes,
        loc=value.location,
        ip=point,
    )
