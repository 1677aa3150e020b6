"""What an op is to the passes: the names of each kind, and the questions asked of one."""

from __future__ import annotations

from hespas.dialects.attrs import CommAttr, read_trip_count
from hespas.dialects.mlir import collect_functions, get_call_target, has_private_symbol, ir
from hespas.support.errors import HespasError

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


def find_entry_function(module: ir.Module) -> ir.Operation:
    """The entry function: the only public one, or ``main``; raises HespasError."""
    table = collect_functions(module)
    public = [function for function in table.values() if not has_private_symbol(function)]
    entry_function = public[0] if len(public) == 1 else table.get("main")
    if entry_function is None:
        problem = "several public functions and none is 'main'" if public else "no public function"
        raise HespasError(
            f"the module has {problem}", op=module.operation, remedy="name one 'main'"
        )
    if not len(entry_function.regions[0].blocks):
        raise HespasError("the entry function has no body", op=entry_function)
    return entry_function


def is_collective(op: ir.Operation) -> bool:
    """Whether an op moves data between devices (or between a device and its host: send, recv)."""
    name = op.name
    return name in COLLECTIVES or (name in CUSTOM_CALLS and get_call_target(op) in COLLECTIVE_CALLS)


def is_marked_collective(op: ir.Operation) -> bool:
    """Whether ``prepare`` marked the op as a collective or point-to-point op."""
    return op.name in MAYBE_COLLECTIVE and CommAttr.NAME in op.attributes


def has_marked_collective(op: ir.Operation) -> bool:
    """Whether there is a marked collective in the op's regions."""
    is_present = False

    def visit_op(inner: ir.Operation) -> ir.WalkResult:
        nonlocal is_present
        is_present = is_marked_collective(inner)
        return ir.WalkResult.INTERRUPT if is_present else ir.WalkResult.ADVANCE

    op.walk(visit_op)
    return is_present


def sum_sent_bytes(region: ir.Region) -> int:
    """Operand bytes of the collectives in one run of a region: loops multiplied, of each branch in
    it the one that sends most."""
    total = 0
    for block in region.blocks:
        for view in block.operations:
            op = view.operation
            name = op.name
            if name in BRANCHES:
                total += max(map(sum_sent_bytes, op.regions))
            elif name in LOOPS:
                trips = read_trip_count(op)
                total += sum(map(sum_sent_bytes, op.regions)) * (1 if trips is None else trips)
            elif name in MAYBE_COLLECTIVE:
                comm = CommAttr.read_from_op(op)
                total += comm.sent_bytes if comm is not None else 0
    return total
