"""What an op is to the passes: the names of each kind, and the questions asked of one."""

from __future__ import annotations

from hespas.dialects.attrs import Comm, trips_of
from hespas.dialects.errors import HespasError
from hespas.dialects.mlir import call_target, functions, has_private_symbol, ir

TERMINATORS = frozenset(("func.return", "stablehlo.return", "mhlo.return", "sdy.return"))
LOOPS = frozenset(("stablehlo.while", "mhlo.while"))
BRANCHES = frozenset(("stablehlo.if", "stablehlo.case", "mhlo.if", "mhlo.case"))
CONTROL = LOOPS | BRANCHES
FUSION = "mhlo.fusion"
CUSTOM_CALLS = frozenset(("stablehlo.custom_call", "mhlo.custom_call"))
CALLEE = {  # and the attribute that names the function
    "func.call": "callee",
    "stablehlo.composite": "decomposition",
    "mhlo.async_start": "called_computation",
}
COLLECTIVES = frozenset(
    f"{dialect}.{name}"
    for dialect in ("stablehlo", "mhlo")
    for name in (
        "all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute",
        "recv", "reduce_scatter", "send",
    )
)  # fmt: skip
COLLECTIVE_CALLS = frozenset(("ragged_all_to_all",))  # targets of custom calls
MAYBE_COLLECTIVE = COLLECTIVES | CUSTOM_CALLS


def entry(module: ir.Module) -> ir.Operation:
    """The entry function: the only public one, or ``main``; raises HespasError."""
    table = functions(module)
    public = [function for function in table.values() if not has_private_symbol(function)]
    found = public[0] if len(public) == 1 else table.get("main")
    if found is None:
        what = "several public functions and none is 'main'" if public else "no public function"
        raise HespasError(f"the module has {what}", op=module.operation, remedy="name one 'main'")
    if not len(found.regions[0].blocks):
        raise HespasError("the entry function has no body", op=found)
    return found


def is_collective(op: ir.Operation) -> bool:
    """Whether an op moves data between devices (or between a device and its host: send, recv)."""
    name = op.name
    return name in COLLECTIVES or (name in CUSTOM_CALLS and call_target(op) in COLLECTIVE_CALLS)


def is_comm(op: ir.Operation) -> bool:
    """Whether ``prepare`` marked the op as a collective or point-to-point op."""
    return op.name in MAYBE_COLLECTIVE and Comm.NAME in op.attributes


def communicates(op: ir.Operation) -> bool:
    """Whether there is a marked collective in the op's regions."""
    found = False

    def visit(inner: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found = is_comm(inner)
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    op.walk(visit)
    return found


def sent_bytes(region: ir.Region) -> int:
    """Operand bytes of the collectives in one run of a region: loops multiplied, of each branch in
    it the one that sends most."""
    total = 0
    for block in region.blocks:
        for view in block.operations:
            op = view.operation
            name = op.name
            if name in BRANCHES:
                total += max(map(sent_bytes, op.regions))
            elif name in LOOPS:
                trips = trips_of(op)
                total += sum(map(sent_bytes, op.regions)) * (1 if trips is None else trips)
            elif name in MAYBE_COLLECTIVE:
                comm = Comm.of(op)
                total += comm.sent_bytes if comm is not None else 0
    return total
