"""The text by which equal ops are found."""

from __future__ import annotations

import re
from typing import cast

from hespas.dialects.attrs import TRIPS, CompilerEstimateAttr, KernelCostAttr, OnChipAttr
from hespas.dialects.mlir import ir

# The hespas attributes that the cost of an op depends on.
COST_INPUTS = (TRIPS, KernelCostAttr.NAME, CompilerEstimateAttr.NAME, OnChipAttr.NAME)
OTHER_HESPAS_ATTR = re.compile(
    r"hespas\.(?!(?:" + "|".join(name.removeprefix("hespas.") for name in COST_INPUTS) + r")\b)"
)


def to_canonical_text(op: ir.Operation) -> str:
    """Return the op's text without operand names, locations and most ``hespas`` attributes.

    Those that its cost depends on remain: trip counts and the costs of kernels. Ops with equal text
    have equal costs. Operands print as ``<<UNKNOWN SSA VALUE>>``, so that the text does not depend
    on where the op is. A detached clone is printed, because printing in place would number the
    whole parent each time.
    """
    clone = op.clone().operation
    _strip_hespas_attrs(clone)  # mostly they are only on the op itself
    text = cast(str, clone.get_asm(use_local_scope=True, assume_verified=True))
    if not OTHER_HESPAS_ATTR.search(text):
        return text
    clone.walk(_strip_hespas_attrs)
    return cast(str, clone.get_asm(use_local_scope=True, assume_verified=True))


def _strip_hespas_attrs(op: ir.Operation) -> ir.WalkResult:
    attributes = op.attributes
    for name in [n for n in attributes if n.startswith("hespas.") and n not in COST_INPUTS]:
        del attributes[name]
    return ir.WalkResult.ADVANCE
