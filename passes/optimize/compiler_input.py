"""Conversion of a module to the form that XLA's compilers accept: StableHLO with an entry @main."""

from __future__ import annotations

from hespas.dialects.attrs import TargetAttr
from hespas.dialects.mlir import (
    PassManager,
    copy_attributes,
    create_before,
    drop_boundary_attrs,
    drop_inner_attributes,
    ir,
    register_passes,
)
from hespas.dialects.op_kinds import ASYNC_STARTS, FUSION, SHARDING_ATTRS
from hespas.dialects.program_facts import read_program_facts
from hespas.dialects.xla import CompilationSettings
from hespas.passes.base import PassRun
from hespas.passes.compile.carried_attributes import store_carried_attributes
from hespas.passes.compile.hlo_origin import SCHEDULED_BY
from hespas.passes.prepare.census import ModuleCensus, collect_census
from hespas.passes.prepare.check_input import check_input_form
from hespas.passes.prepare.communicators import (
    infer_grid_and_groups,
    list_open_collectives,
    warn_of_unknown_devices,
)
from hespas.passes.prepare.device_grid import get_channel_id, make_channel_attr
from hespas.passes.prepare.legalise import inline_resources
from hespas.passes.prepare.op_shardings import constrain_sharded_values
from hespas.passes.prepare.partition import (
    HLO_IMPORT,
    LAYOUT_ATTRS,
    build_compilation,
    has_global_shapes,
    name_entry_main,
    remove_sharding_copies,
    spell_out_shardings,
    warn_of_single_device_ops,
)
from hespas.passes.prepare.replace_cross_replica_sums import replace_cross_replica_sums
from hespas.passes.prepare.set_dimension_sizes import set_dimension_sizes
from hespas.passes.prepare.single_partition import remove_shardings
from hespas.support.errors import HespasError, extract_first_diagnostic

OPTIMISED_OPS = {FUSION, "mhlo.bitcast"} | ASYNC_STARTS  # only XLA makes them
ALLOWED_MHLO_OPS = ("mhlo.return",)
VARIADIC = ("stablehlo.all_reduce", "stablehlo.all_to_all")
CHANNEL = "channel_handle"


def prepare_for_compiler(
    module: ir.Module, dims: str, devices: int, run: PassRun
) -> tuple[ModuleCensus, CompilationSettings]:
    """Convert a module for XLA and choose the compilation settings; raises HespasError."""
    if TargetAttr.NAME in module.operation.attributes:
        raise HespasError(
            "the module is prepared for estimation already",
            op=module.operation,
            remedy="put --xla-optimize before the other passes",
        )
    if SCHEDULED_BY in read_program_facts(module):
        raise _refuse_optimised(module.operation)
    census = collect_census(module)
    check_input_form(census)
    if replace_cross_replica_sums(census):
        census = collect_census(module)
    remove_sharding_copies(module)
    if HLO_IMPORT in module.operation.attributes:
        drop_inner_attributes(module.operation, *LAYOUT_ATTRS)
    if set_dimension_sizes(module, census, dims, run):
        census = collect_census(module)
    spell_out_shardings(module, census)
    if has_global_shapes(module, census):
        compilation = build_compilation(module, census)
        if devices and devices != compilation.device_count:
            raise HespasError(
                f"the module is for {compilation.device_count} devices, not {devices}",
                op=module.operation,
            )
        if compilation.partitions == 1:
            remove_shardings(module, census)
            census = collect_census(module)
            compilation = CompilationSettings(compilation.replicas, 1)
        else:
            warn_of_single_device_ops(module, census, run)
            constrain_sharded_values(census, uses_shardy=compilation.shardy)
    else:
        grid, _ = infer_grid_and_groups(module, census, devices)
        if grid.devices == 1:
            warn_of_unknown_devices(list_open_collectives(module, census), run)
        compilation = CompilationSettings(grid.replicas, grid.partitions)
        drop_boundary_attrs(census.entry, SHARDING_ATTRS)
    if _legalise_mhlo(module):
        census = collect_census(module)
    if _split_variadic_collectives(census):
        census = collect_census(module)
    name_entry_main(module, census.entry)
    inline_resources(module)
    store_carried_attributes(module)
    return census, compilation


def _refuse_optimised(op: ir.Operation) -> HespasError:
    return HespasError(
        "XLA has optimised this module already",
        op=op,
        remedy="use the module before optimisation, at most partitioned",
    )


def _legalise_mhlo(module: ir.Module) -> bool:
    """Convert mhlo ops to StableHLO, or to the custom calls that XLA reads as those ops."""
    mhlo_ops: list[ir.Operation] = []

    def collect_mhlo_op(op: ir.Operation) -> ir.WalkResult:
        if op.name.startswith("mhlo.") and op.name not in ALLOWED_MHLO_OPS:
            mhlo_ops.append(op)
            return ir.WalkResult.SKIP
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect_mhlo_op, ir.WalkOrder.PRE_ORDER)
    for op in mhlo_ops:
        if op.name in OPTIMISED_OPS:
            raise _refuse_optimised(op)
    if not mhlo_ops:
        return False
    register_passes()
    manager = PassManager.parse("builtin.module(hlo-legalize-to-stablehlo)", module.context)
    try:
        manager.run(module.operation)
    except ir.MLIRError as error:
        reason = extract_first_diagnostic(error).split(":", 1)[0]
        raise HespasError(
            f"XLA's compilers do not accept this op: {reason}", op=mhlo_ops[0]
        ) from None
    return True


def _split_variadic_collectives(census: ModuleCensus) -> bool:
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
    attributes = copy_attributes(op)
    for operand, result in zip(op.operands, op.results, strict=True):
        if CHANNEL in attributes:
            channel += 1
            attributes[CHANNEL] = make_channel_attr(channel, 1, op.context)
        regions = len(op.regions)
        single = create_before(op, op.name, [operand], [result.type], attributes, regions)
        copy = op.clone(ip=ir.InsertionPoint(op)).operation
        for source, region in zip(copy.regions, single.regions, strict=True):
            source.blocks[0].append_to(region)
        copy.erase()
        result.replace_all_uses_with(single.results[0])
    op.erase()
    return channel
