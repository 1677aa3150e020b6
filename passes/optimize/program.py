"""A module in the form that XLA's compilers take: StableHLO with an entry @main."""

from __future__ import annotations

from hespas.dialects.attrs import Target
from hespas.dialects.errors import HespasError, diagnosis
from hespas.dialects.mlir import PassManager, ir, register_passes
from hespas.dialects.xla import Compilation
from hespas.passes.base import Run
from hespas.passes.prepare.census import Census, take
from hespas.passes.prepare.collectives import layout
from hespas.passes.prepare.devices import drop_boundary
from hespas.passes.prepare.dims import set_dims
from hespas.passes.prepare.legalise import legalise
from hespas.passes.prepare.partition import SHARDINGS, division, drop_copy, is_global

OPTIMISED = ("mhlo.fusion", "mhlo.bitcast", "mhlo.async_start")  # what XLA alone makes
ALLOWED = ("mhlo.return",)


def readied(module: ir.Module, dims: str, devices: int, run: Run) -> tuple[Census, Compilation]:
    """Make the module one that XLA takes, and say how it is to be compiled; raises HespasError."""
    if Target.NAME in module.operation.attributes:
        raise HespasError(
            "the module is prepared for estimation already",
            op=module.operation,
            remedy="put --xla-optimize before the other passes",
        )
    census = take(module)
    module.operation.walk(drop_copy)
    if set_dims(module, census, dims, run):
        census = take(module)
    if census.has("shape.") and legalise(module, census):
        census = take(module)
    if is_global(module, census):
        what = division(module, census)
        if devices and devices != what.devices:
            raise HespasError(
                f"the module is for {what.devices} devices, not {devices}", op=module.operation
            )
    else:
        grid, _ = layout(module, census, devices)
        what = Compilation(grid.replicas, grid.partitions)
        drop_boundary(census.entry, SHARDINGS)
    if _legalise_mhlo(module):
        census = take(module)
    census.entry.attributes["sym_name"] = ir.StringAttr.get("main", module.context)
    return census, what


def _legalise_mhlo(module: ir.Module) -> bool:
    """mhlo ops to StableHLO, or to the custom calls that XLA reads as those ops."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name.startswith("mhlo.") and op.name not in ALLOWED:
            found.append(op)
            return ir.WalkResult.SKIP
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    for op in found:
        if op.name in OPTIMISED:
            raise HespasError(
                "XLA has optimised this module already",
                op=op,
                remedy="give the module as it was before, after SPMD partitioning at the latest",
            )
    if not found:
        return False
    register_passes()
    manager = PassManager.parse("builtin.module(hlo-legalize-to-stablehlo)", module.context)
    try:
        manager.run(module.operation)
    except ir.MLIRError as error:
        reason = diagnosis(error).split(":", 1)[0]
        raise HespasError(f"XLA's compilers do not take this op: {reason}", op=found[0]) from None
    return True
