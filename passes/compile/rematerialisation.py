"""What XLA computes a second time so that a program keeps within its memory.

XLA's pass ``rematerialization`` clones an instruction before a late use, so that its first result
need not stay in memory. A clone has the name of its origin and the suffix ``.remat`` with a number
(``HloInstruction::Clone`` of openxla/xla). The origin may have lost all its uses and be gone;
therefore of the instructions of one origin in a computation, those after the first are what is
computed again. Frontend attributes carry the mark through XLA's importer.
"""

from __future__ import annotations

import re

from hespas.dialects.attrs import RECOMPUTED, RECOMPUTED_KERNEL, RECOMPUTED_ORIGIN
from hespas.dialects.mlir import FRONTEND, ir, select_ops, take_frontend_text
from hespas.estimators.op_content import digest_kernel
from hespas.passes.compile.hlo_program import HloInstruction, HloProgram, write_frontend_value

CARRIER = "hespas_recomputed"
FIRST_CARRIER = "hespas_computed_first"  # on the first instruction and on its clones: its name
MEMORY_LIMIT = "compile_memory_limit_bytes"  # the fact of the memory that XLA schedules for
_SUFFIX = re.compile(r"\.remat\d*(_(un)?compressed)?(\.\d+)*$")
# What takes no time: XLA clones views of a value with the value.
_FREE = frozenset(("bitcast", "get-tuple-element", "tuple", "parameter", "constant"))


def mark_recomputed_instructions(program: HloProgram) -> bool:
    """Mark what XLA computes again with the name of its origin; returns whether there is any."""
    found = False
    for computation in program.computations.values():
        names = [one.name for one in computation.instructions]
        if not any(".remat" in name for name in names):
            continue
        firsts: dict[str, HloInstruction] = {}
        cloned: dict[str, HloInstruction] = {}
        for one in computation.instructions:
            origin = find_origin(one.name)
            first = firsts.setdefault(origin, one)
            if first is not one and one.opcode not in _FREE:
                write_frontend_value(one, CARRIER, origin)
                write_frontend_value(one, FIRST_CARRIER, first.name)
                cloned[first.name] = first
        for name, first in cloned.items():
            write_frontend_value(first, FIRST_CARRIER, name)
        found = found or bool(cloned)
    return found


def find_origin(name: str) -> str:
    """Return the name of the instruction that one is a clone of, or its own."""
    while (shorter := _SUFFIX.sub("", name)) != name:
        name = shorter
    return name


def restore_recomputed_marks(module: ir.Module) -> None:
    """Move the marks from frontend attributes to ``hespas.recomputed``, with digests, in place."""
    clones: list[tuple[ir.Operation, str]] = []
    digests: dict[str, str] = {}  # of the first instructions, by name
    for op in select_ops(module.operation, lambda op: FRONTEND in op.attributes):
        first = take_frontend_text(op, FIRST_CARRIER)
        if first is None:
            continue
        origin, digest = take_frontend_text(op, CARRIER), digest_kernel(op)
        if origin is None:
            digests[first] = digest
        else:
            op.attributes[RECOMPUTED] = ir.StringAttr.get(origin, op.context)
            op.attributes[RECOMPUTED_KERNEL] = ir.StringAttr.get(digest, op.context)
            clones.append((op, first))
    for op, first in clones:
        if first in digests:
            op.attributes[RECOMPUTED_ORIGIN] = ir.StringAttr.get(digests[first], op.context)
