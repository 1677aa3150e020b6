"""Conversion of chlo, shape and deprecated ops to StableHLO or mhlo."""

from __future__ import annotations

from hespas.dialects.mlir import PassManager, get_attribute, ir, register_passes
from hespas.dialects.op_kinds import CROSS_REPLICA_SUMS
from hespas.passes.prepare.census import ModuleCensus
from hespas.passes.prepare.device_grid import get_channel_id
from hespas.support.errors import HespasError, extract_first_diagnostic

# The first pass converts ops such as chlo.erf and chlo.top_k to the one HLO op that XLA compiles.
# The second pass expands the others to the StableHLO ops that XLA would expand them to.
CHLO = "func.func(chlo-legalize-to-high-level-mhlo,chlo-legalize-to-stablehlo)"
SHAPE = "func.func(shape-legalize-to-stablehlo)"
HOST_CALL_BY_TRANSFER = {
    f"{dialect}.{op}": call
    for dialect in ("stablehlo", "mhlo")
    for op, call in (("send", "SendToHost"), ("recv", "RecvFromHost"))
}
VARIADIC = ("stablehlo.all_reduce", "stablehlo.all_to_all")
CHANNEL = "channel_handle"


def legalise_dialects(module: ir.Module, census: ModuleCensus) -> bool:
    """Convert chlo and shape ops, and return whether there were any. Raises HespasError."""
    steps = [
        text
        for prefix, text in (("chlo.", CHLO), ("shape.", SHAPE))
        if census.has_op_with_prefix(prefix)
    ]
    if not steps:
        return False
    register_passes()
    manager = PassManager.parse(f"builtin.module({','.join(steps)})", module.context)
    try:
        manager.run(module.operation)
    except ir.MLIRError as error:
        why = extract_first_diagnostic(error)
        raise HespasError(f"cannot legalise the module: {why}", op=module.operation) from None
    return True


def replace_host_transfers(census: ModuleCensus) -> bool:
    """Replace each send to or receive from the host by a call, and return whether there were any.

    JAX lowers callbacks for TPUs to them. Nothing crosses the network, and what the host does
    takes a time that is not known, as with the calls that are callbacks on other devices.
    """
    transfers = [
        op
        for op in census.select_ops_by_name(*HOST_CALL_BY_TRANSFER)
        if "is_host_transfer" in op.attributes and get_attribute(op, "is_host_transfer").value
    ]
    for op in transfers:
        target = ir.StringAttr.get(HOST_CALL_BY_TRANSFER[op.name], op.context)
        kind = ir.BoolAttr.get(True, op.context)
        call = ir.Operation.create(
            "stablehlo.custom_call",
            results=[result.type for result in op.results],
            operands=list(op.operands),
            attributes={"call_target_name": target, "has_side_effect": kind},
            loc=op.location,
            ip=ir.InsertionPoint(op),
        )
        for old, new in zip(op.results, call.results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()
    return bool(transfers)


def replace_cross_replica_sums(census: ModuleCensus) -> bool:
    """Replace each cross-replica-sum by an all_reduce, and return whether there were any."""
    sums = census.select_ops_by_name(*CROSS_REPLICA_SUMS)
    for op in sums:
        _replace_cross_replica_sum(op)
    return bool(sums)


def split_variadic_collectives(census: ModuleCensus) -> bool:
    """Split collectives of several operands into one for each, and return whether there were any.

    They are those that XLA refuses: an all_reduce with a channel, for whose tuple it finds no
    layout, and an all_to_all of several shapes. XLA combines all_reduces again.
    """
    variadic = [op for op in census.select_ops_by_name(*VARIADIC) if len(op.operands) > 1]
    channel = max(map(get_channel_id, census.list_collectives()), default=0) if variadic else 0
    for op in variadic:
        channel = _split_by_operand(op, channel)
    return bool(variadic)


def _split_by_operand(op: ir.Operation, channel: int) -> int:
    """Replace an op by one for each operand, with channels after ``channel``; returns the last."""
    attributes = {name: op.attributes[name] for name in op.attributes}
    for operand, result in zip(op.operands, op.results, strict=True):
        if CHANNEL in attributes:
            channel += 1
            attributes[CHANNEL] = ir.Attribute.parse(
                f"#stablehlo.channel_handle<handle = {channel}, type = 1>", op.context
            )
        single = ir.Operation.create(
            op.name, [result.type], [operand], attributes,
            regions=len(op.regions), loc=op.location, ip=ir.InsertionPoint(op),
        )  # fmt: skip
        copy = op.clone(ip=ir.InsertionPoint(op)).operation
        for source, region in zip(copy.regions, single.regions, strict=True):
            source.blocks[0].append_to(region)
        copy.erase()
        result.replace_all_uses_with(single.results[0])
    op.erase()
    return channel


def _replace_cross_replica_sum(op: ir.Operation) -> None:
    """Replace the op by an all_reduce that adds."""
    value = op.operands[0]
    element: ir.Type = value.type.element_type  # type: ignore[attr-defined]
    scalar = ir.RankedTensorType.get([], element, loc=op.location)
    reduction = ir.Operation.create(
        "stablehlo.all_reduce",
        results=[op.results[0].type],
        operands=[value],
        attributes={"replica_groups": op.attributes["replica_groups"]},
        regions=1,
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    body = reduction.regions[0].blocks.append(scalar, scalar, arg_locs=[op.location] * 2)
    end = ir.InsertionPoint(body)
    sum_op = ir.Operation.create(
        "stablehlo.add", results=[scalar], operands=list(body.arguments), loc=op.location, ip=end
    )
    ir.Operation.create("stablehlo.return", operands=sum_op.results, loc=op.location, ip=end)
    op.results[0].replace_all_uses_with(reduction.results[0])
    op.erase()
