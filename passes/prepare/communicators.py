"""The devices of a module, and the groups of its collectives."""

from __future__ import annotations

from hespas.dialects.buffer_sizes import to_buffer_size
from hespas.dialects.mlir import (
    collect_meshes,
    decode_string_attr,
    drop_boundary_attrs,
    drop_inner_attributes,
    find_attribute,
    find_ops,
    ir,
    read_boundary_attrs,
    read_frontend_text,
    require_kind,
)
from hespas.dialects.op_kinds import (
    NUM_PARTITIONS,
    NUM_REPLICAS,
    TRANSFER_PAIRS,
    get_collective_name,
    parse_transfer_pairs,
)
from hespas.passes.base import PassRun
from hespas.passes.prepare.census import ModuleCensus
from hespas.passes.prepare.device_grid import (
    BOTH,
    FLATTENED,
    DeviceGrid,
    Groups,
    count_sharding_devices,
    get_group_mode,
    infer_device_grid,
    make_groups_attr,
    parse_group_rows,
    read_stated_count,
)
from hespas.passes.prepare.mesh_axes import count_mesh_devices, resolve_axis_groups
from hespas.support.errors import (
    HespasError,
    extract_first_diagnostic,
    format_op_place,
    format_some_places,
)


def infer_grid_and_groups(
    module: ir.Module, census: ModuleCensus, devices: int
) -> tuple[DeviceGrid, dict[ir.Attribute, Groups]]:
    """Infer the device grid of a module with local shapes, and parse its collectives' groups.

    Replaces groups that are mesh axes by lists of ids. Returns the grid, and the rows of ids of
    each group attribute. Raises HespasError.
    """
    ops = census.list_collectives()
    spread = max(_count_argument_devices(census.entry), count_mesh_devices(module))
    spell_out_axes(module, ops)
    rows: dict[ir.Attribute, Groups] = {}
    largest: dict[ir.Attribute, int] = {}
    claims: dict[tuple[str, int], ir.Operation] = {}
    for op in ops:
        attr = get_groups_attr(op)
        if attr is None:
            continue
        if attr not in rows:
            rows[attr] = _parse_groups(op, attr)
            largest[attr] = max(map(max, rows[attr]), default=-1)
        claims.setdefault((get_group_mode(op), largest[attr]), op)
    modes = set[str]()
    for op in list_open_collectives(module, census):
        mode = get_group_mode(op)
        modes.add(mode)
        # The parts of all replicas and partitions are as many as there are devices.
        claims.setdefault((FLATTENED if mode == BOTH else mode, _count_parts(op) - 1), op)
    return infer_device_grid(module, claims, spread, devices, modes), rows


def list_open_collectives(module: ir.Module, census: ModuleCensus) -> list[ir.Operation]:
    """List the collectives of all devices, if the module does not state how many there are."""
    if any(read_stated_count(module, name) is not None for name in (NUM_REPLICAS, NUM_PARTITIONS)):
        return []
    return [op for op in census.list_collectives() if _names_no_groups(op)]


def warn_of_unknown_devices(ops: list[ir.Operation], run: PassRun) -> None:
    """Warn of collectives of all devices that are those of one, because no number is stated."""
    if ops:
        places = format_some_places([format_op_place(op, run.input_name) for op in ops])
        run.warn(
            f"{places}: all devices communicate, and the module does not state how many there are: "
            "one is assumed, and the time of communication is 0; state mhlo.num_replicas, or "
            "replica_count=N in the header of HLO text"
        )


def _names_no_groups(op: ir.Operation) -> bool:
    attr = find_attribute(op, "replica_groups")
    return isinstance(attr, ir.DenseIntElementsAttr) and not _parse_groups(op, attr)


def _count_parts(op: ir.Operation) -> int:
    """Count the parts that a collective joins or makes, one for each device; 1 if it does not."""
    sizes = [to_buffer_size(value.type).elements for value in (op.results[0], op.operands[0])]
    if get_collective_name(op) not in ("all_gather", "reduce_scatter") or not min(sizes):
        return 1
    return max(sizes) // min(sizes)


def _parse_groups(op: ir.Operation, attr: ir.Attribute) -> Groups:
    """Parse the groups or pairs of an op; raises HespasError for another form."""
    try:
        groups = parse_group_rows(attr)
    except ValueError as error:
        raise HespasError(f"the list of its devices {error}", op=op) from None
    if "source_target_pairs" in op.attributes and any(len(pair) != 2 for pair in groups):
        raise HespasError("a source-target pair does not name two devices", op=op)
    return groups


def spell_out_axes(module: ir.Module, ops: list[ir.Operation]) -> None:
    """Replace groups given as mesh axes by lists of ids, and remove meshes and Shardy shardings.

    The pairs of a send or receive that XLA made of a permute are in a frontend attribute.
    """
    named = collect_meshes(module)
    dense: dict[ir.Attribute, ir.Attribute | None] = {}
    for op in ops:
        if get_collective_name(op) in ("send", "recv") and get_groups_attr(op) is None:
            text = read_frontend_text(op, TRANSFER_PAIRS)
            if pairs := parse_transfer_pairs(text):
                op.attributes["source_target_pairs"] = make_groups_attr(tuple(pairs), op.context)
        if "replica_groups" in op.attributes:
            attr = op.attributes["replica_groups"]
            if attr not in dense:
                groups = resolve_axis_groups(attr, module, op)
                dense[attr] = None if groups is None else make_groups_attr(groups, module.context)
            new = dense[attr]
            if new is not None:
                op.attributes["replica_groups"] = new
                _verify_spelled_groups(op)
    if named:
        drop_inner_attributes(module.operation, "sdy.sharding")
        for function in find_ops(module.operation, ("func.func",)):
            drop_boundary_attrs(function, ("sdy.sharding",))
        for mesh in named.values():
            mesh.erase()


def _verify_spelled_groups(op: ir.Operation) -> None:
    """Raise HespasError if the groups do not fit the op: MLIR cannot verify mesh axes."""
    try:
        op.verify()
    except ir.MLIRError as error:
        message = f"the groups of its mesh axes do not fit: {extract_first_diagnostic(error)}"
        raise HespasError(message, op=op) from None


def get_groups_attr(op: ir.Operation) -> ir.Attribute | None:
    """Return the attribute with an op's groups or source-target pairs, or None."""
    attributes = op.attributes
    for name in ("replica_groups", "source_target_pairs"):
        if name in attributes:
            return attributes[name]
    if "backend_config" in attributes:
        config = attributes["backend_config"]
        if isinstance(config, ir.DictAttr) and "replica_groups" in config:
            return config["replica_groups"]
    return None


def _count_argument_devices(entry: ir.Operation) -> int:
    """Count the devices that the shardings of the entry's arguments name; 0 if there are none."""
    attrs = read_boundary_attrs(entry, "arg_attrs")
    name = "mhlo.sharding"
    texts = {
        decode_string_attr(require_kind(attr[name], ir.StringAttr, name, entry))
        for attr in attrs
        if name in attr
    }
    return max(map(count_sharding_devices, texts), default=0)
