"""Shardings of HLO that name the axes of a mesh, in the form with numbers that XLA imports.

XLA of jax 0.12 writes ``{mesh['x'=2,'y'=4], [{'y'}, {}]}``, and its own importer of StableHLO
refuses it. In numbers, it is ``{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}``. Only GSPMD
divides by such shardings if Shardy's are missing, as in XLA's dumps: manual computations are
written as GSPMD reads them.
"""

from __future__ import annotations

import itertools
import math
import re

from hespas.dialects.mlir import (
    BOUNDARY,
    create_before,
    decode_string_attr,
    get_attribute,
    get_call_target,
    get_defining_op,
    ir,
    read_boundary_items,
    read_frontend_items,
    walk_operations,
    write_boundary_items,
    write_frontend_items,
)
from hespas.dialects.op_kinds import (
    CUSTOM_CALLS,
    GSPMD_CALL_TARGETS,
    SHARD_TO_FULL,
    SHARDING_CALL_TARGET,
    TUPLE_ELEMENTS,
)
from hespas.passes.prepare.op_shardings import split_tuple_sharding

SHARDING = "mhlo.sharding"
_NAMED = re.compile(r"(mesh|single_device)\[")
PROTO_START = (
    "\x08"  # the tag of the first field of an OpSharding, which early versions of JAX write
)
_LEAF = re.compile(
    r"\{mesh\[(?P<axes>[^\]]*)\](, \[(?P<dims>[^\]]*)\]|, (?P<whole>manual|replicated))?"
    r"(, replicated=\{[^}]*\})?(, unreduced=\{(?P<unreduced>[^}]*)\})?"
    r"(, manual=\{(?P<manual>[^}]*)\})?\}"
)
_SINGLE_DEVICE = re.compile(r"\{(single_device|maximal_mesh)\[device_id=(\d+)\]\}")
_AXIS = re.compile(r"'([^']*)'=(\d+)")
_DIMENSION = re.compile(r"\{([^}]*)\}")
_NAME = re.compile(r"'([^']*)'(?::\((\d+)\)(\d+))?")
_SUBGROUPS = ("manual", "unreduced")  # in the order of the last dimensions of a sharding in numbers


def replace_named_shardings(module: ir.Module) -> None:
    """Replace the named and serialised shardings of a module.

    Raises:
        ValueError: A named sharding has a form that is not known.
    """

    manual_calls: list[ir.Operation] = []
    function_calls: list[ir.Operation] = []

    def replace_on_op(op: ir.Operation) -> ir.WalkResult:
        if SHARDING in op.attributes and op.name in CUSTOM_CALLS:
            target = get_call_target(op)
            if target in GSPMD_CALL_TARGETS:
                manual_calls.append(op)
                return ir.WalkResult.ADVANCE
            if target == SHARDING_CALL_TARGET:
                _state_open_dimensions(op, decode_string_attr(op.attributes[SHARDING]))
        elif SHARDING in op.attributes and op.name == "func.call":
            function_calls.append(op)
        _replace_in_attributes(op)
        return ir.WalkResult.ADVANCE

    walk_operations(module.operation, replace_on_op)
    for call in manual_calls:
        _replace_manual_call(call)
    if manual_calls:
        for call in function_calls:  # that GSPMD inlines: it knows no function of manual values
            items = read_frontend_items(call)
            items.pop("inlineable", None)
            write_frontend_items(call, items)
            del call.attributes[SHARDING]


def _state_open_dimensions(call: ir.Operation, text: str) -> None:
    """Say in the way of GSPMD which dimensions of a call's result may be divided further."""
    leaf = _LEAF.fullmatch(text)
    dimensions = _DIMENSION.findall(leaf["dims"] or "") if leaf else []
    numbers = [str(number) for number, names in enumerate(dimensions) if "?" in names]
    if numbers:
        config = f"unspecified_dims=[{','.join(numbers)}]"
        call.attributes["backend_config"] = ir.StringAttr.get(config, call.context)


def _replace_manual_call(call: ir.Operation) -> None:
    """Replace a call at the boundary of a manual computation by GSPMD's call for each value.

    GSPMD needs the sharding of what the computation returns, too, which is on its call.
    """
    target = GSPMD_CALL_TARGETS[get_call_target(call)]
    shardings = split_tuple_sharding(decode_string_attr(call.attributes[SHARDING]))
    results = _list_results(call)
    if not len(shardings) == len(results) == len(call.operands):
        raise ValueError(f"{get_call_target(call)} has a form that is not known")
    for operand, (kind, old), sharding in zip(call.operands, results, shardings, strict=True):
        value = operand
        manual = _read_manual_sharding(operand) if target == SHARD_TO_FULL else ""
        if manual:
            value = _create_call(call, SHARDING_CALL_TARGET, value, value.type, manual, sharding)
        new = _create_call(call, target, value, kind, number_sharding(sharding), sharding)
        for each in old:
            each.replace_all_uses_with(new)
    for user in [use.owner.operation for result in call.results for use in result.uses]:
        user.erase()
    call.erase()


def _list_results(call: ir.Operation) -> list[tuple[ir.Type, list[ir.Value]]]:
    """List the type of each value of a call, with the values that stand for it: a tuple's parts."""
    if len(call.results) != 1 or not isinstance(call.results[0].type, ir.TupleType):
        return [(value.type, [value]) for value in call.results]
    kinds = ir.TupleType(call.results[0].type)
    parts: list[list[ir.Value]] = [[] for _ in range(kinds.num_types)]
    for use in call.results[0].uses:
        user = use.owner.operation
        if user.name not in TUPLE_ELEMENTS:
            raise ValueError(f"{get_call_target(call)} returns a tuple that is used as a whole")
        parts[get_attribute(user, "index").value].append(user.results[0])
    return [(kinds.get_type(number), values) for number, values in enumerate(parts)]


def _read_manual_sharding(value: ir.Value) -> str:
    """Return the sharding of what a manual computation returns, from its call; "" if not stated."""
    owner = get_defining_op(value)
    number = 0
    while owner is not None and owner.name in TUPLE_ELEMENTS:
        number = get_attribute(owner, "index").value
        owner = get_defining_op(owner.operands[0])
    if owner is None or SHARDING not in owner.attributes:
        return ""
    parts = split_tuple_sharding(decode_string_attr(owner.attributes[SHARDING]))
    return parts[number] if number < len(parts) else ""


def _create_call(
    at: ir.Operation, target: str, value: ir.Value, kind: ir.Type, sharding: str, named: str
) -> ir.Value:
    """Create a call of GSPMD before an op; ``named`` tells which dimensions are open."""
    attributes: dict[str, ir.Attribute] = {
        "call_target_name": ir.StringAttr.get(target, at.context),
        SHARDING: ir.StringAttr.get(sharding, at.context),
    }
    call = create_before(at, "stablehlo.custom_call", [value], [kind], attributes)
    _state_open_dimensions(call, named)
    return call.results[0]


def number_sharding(text: str) -> str:
    """Return an HLO sharding, or a tuple of them, without names; raises ValueError."""
    numbered = _SINGLE_DEVICE.sub(r"{maximal device=\2}", _LEAF.sub(_number_leaf, text))
    if _NAMED.search(numbered):
        raise ValueError(f"the sharding {text} has a form that is not known")
    return numbered


def _number_leaf(match: re.Match[str]) -> str:
    """Return a sharding without names, or the text as it is if its form is not known."""
    if match["whole"]:
        return f"{{{match['whole']}}}"
    sizes = {name: int(size) for name, size in _AXIS.findall(match["axes"])}
    dimensions = _DIMENSION.findall(match["dims"] or "")
    groups = [_NAME.findall(text) for text in dimensions]
    groups += [_NAME.findall(match[kind] or "") for kind in _SUBGROUPS]
    # A part of an axis, 'x':(4)2, is the 2 that follow the first 4: the mesh is taken to have one
    # axis for each part between such cuts.
    cuts = {name: {1, size} for name, size in sizes.items()}
    for name, before, size in itertools.chain.from_iterable(groups):
        if name not in sizes:
            return match[0]
        if size:
            cuts[name] |= {int(before), int(before) * int(size)}
    parts: list[tuple[str, int, int]] = []  # name, product of the parts before it, size
    for name, found in cuts.items():
        for low, high in itertools.pairwise(sorted(found)):
            if high % low:
                return match[0]
            parts.append((name, low, high // low))
    order: list[int] = []
    tiles: list[int] = []
    for group in groups:
        first = len(order)
        for name, before, size in group:
            low = int(before or 1)
            covered = range(low, low * int(size or sizes[name]))
            order += [n for n, part in enumerate(parts) if part[0] == name and part[1] in covered]
        tiles.append(math.prod(parts[n][2] for n in order[first:]))
    if len(set(order)) < len(order):
        return match[0]
    count = math.prod(sizes.values())
    kinds = [*_SUBGROUPS, "replicated"]
    subgroups = [*tiles[len(dimensions) :], count // math.prod(tiles)]
    used = {kind: size for kind, size in zip(kinds, subgroups, strict=True) if size > 1}
    if max(used.values(), default=1) == count:
        return f"{{{next(iter(used))}}}"
    order += [n for n in range(len(parts)) if n not in order]
    devices = f"[{count}]"  # XLA reads more dimensions only with an order of them
    if order != sorted(order):
        devices = f"[{','.join(str(part[2]) for part in parts)}]T({','.join(map(str, order))})"
    tile = ",".join(map(str, [*tiles[: len(dimensions)], *used.values()]))
    suffix = f" last_tile_dims={{{', '.join(used)}}}" if used else ""
    if list(used) == ["replicated"]:
        suffix = " last_tile_dim_replicate"
    return f"{{devices=[{tile}]<={devices}{suffix}}}"


def _replace_in_attributes(op: ir.Operation) -> None:
    """Replace the shardings of an op, or of a function's arguments and results."""
    if SHARDING in op.attributes:
        op.attributes[SHARDING] = _number_attribute(op.attributes[SHARDING])
    for where in BOUNDARY:
        rows = read_boundary_items(op, where)
        sharded = [row for row in rows if SHARDING in row]
        for row in sharded:
            row[SHARDING] = _number_attribute(row[SHARDING])
        if sharded:
            write_boundary_items(op, where, rows)


def is_numbered(text: str) -> bool:
    """Return whether an HLO sharding has the form with numbers."""
    return not _NAMED.search(text) and not text.startswith(PROTO_START)


def _number_attribute(attribute: ir.Attribute) -> ir.Attribute:
    string = ir.StringAttr(attribute)
    if string.value_bytes.startswith(PROTO_START.encode()):
        return ir.StringAttr.get(_proto_to_text(string.value_bytes), attribute.context)
    text = decode_string_attr(string)
    return (
        attribute
        if is_numbered(text)
        else ir.StringAttr.get(number_sharding(text), attribute.context)
    )


def _proto_to_text(proto: bytes) -> str:
    """Convert a serialised OpSharding to text."""
    from jaxlib import _hlo

    sharding = _hlo.OpSharding()
    sharding.ParseFromString(proto)
    return str(_hlo.HloSharding.from_proto(sharding))
