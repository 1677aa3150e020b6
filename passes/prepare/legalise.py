"""Conversion of chlo and shape ops to StableHLO or mhlo."""

from __future__ import annotations

from hespas.dialects.mlir import PassManager, ir, register_passes
from hespas.passes.prepare.census import ModuleCensus
from hespas.support.errors import HespasError, extract_first_diagnostic

# The first pass converts ops such as chlo.erf and chlo.top_k to the one HLO op that XLA compiles.
# The second pass expands the others to the StableHLO ops that XLA would expand them to.
CHLO = "func.func(chlo-legalize-to-high-level-mhlo,chlo-legalize-to-stablehlo)"
SHAPE = "func.func(shape-legalize-to-stablehlo)"


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
