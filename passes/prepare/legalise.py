"""chlo and shape ops to StableHLO, or to the one mhlo op that XLA has for them."""

from __future__ import annotations

from hespas.dialects.mlir import PassManager, ir, register_passes
from hespas.passes.prepare.census import ModuleCensus
from hespas.support.errors import HespasError, extract_first_diagnostic

# The first makes chlo.erf, chlo.top_k and the like the single HLO op that XLA compiles; what has no
# such op is expanded by the second into the StableHLO that XLA would expand it to.
CHLO = "func.func(chlo-legalize-to-high-level-mhlo,chlo-legalize-to-stablehlo)"
SHAPE = "func.func(shape-legalize-to-stablehlo)"


def legalise_dialects(module: ir.Module, census: ModuleCensus) -> bool:
    """Legalise what is there; whether anything changed. Raises HespasError."""
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
