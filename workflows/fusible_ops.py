"""Ops that XLA fuses, of a program that it has not optimised."""

from __future__ import annotations

from collections.abc import Collection

from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import COLLECTIVES, CONTROL, CUSTOM_CALLS, contains_op

# Ops that are kernels of their own after XLA's optimisation too; the other ops fuse.
KERNELS = COLLECTIVES | CONTROL | CUSTOM_CALLS | {
    f"stablehlo.{name}"
    for name in (
        "dot_general", "dot", "convolution", "fft", "sort", "triangular_solve", "cholesky",
        "rng", "rng_bit_generator", "scatter",
    )
} | {"mhlo.copy", "mhlo.topk", "chlo.top_k", "func.call"}  # fmt: skip
# Ops that are no kernels: constants, and the ends of bodies.
FREE = {"stablehlo.constant", "stablehlo.return", "mhlo.return"}
_DIALECTS = ("stablehlo.", "chlo.", "mhlo.")


def has_fusible_pair(module: ir.Module, kinds: Collection[str] | None = None) -> bool:
    """Return whether an op that XLA fuses reads the result of another one.

    Args:
        module: The program.
        kinds: The kinds of ops to consider; None for all that XLA fuses.
    """

    def is_fusible(name: str) -> bool:
        if kinds is not None:
            return name in kinds
        return name.startswith(_DIALECTS) and name not in KERNELS and name not in FREE

    def reads_fusible_result(op: ir.Operation) -> bool:
        return is_fusible(op.name) and any(
            not isinstance(value.owner, ir.Block) and is_fusible(value.owner.operation.name)
            for value in op.operands
        )

    return contains_op(module.operation, reads_fusible_result)
