"""Where an HLO module comes from: the compiler that wrote it, and what it has done already."""

from __future__ import annotations

import re

from hespas.dialects.op_kinds import PARTITIONER_CALL_TARGETS, SHARDY_CALL_PREFIX
from hespas.passes.compile.hlo_program import HloInstruction, HloProgram, Shape

SCHEDULED_BY = "scheduled_by"  # the fact that names the compiler whose schedule a program has
PARTITIONED_BY = "partitioned_by"  # the fact of a program that XLA has partitioned, not scheduled
SCHEDULER = "scheduler"  # the fact that names the scheduler of XLA:GPU that made the schedule
LATENCY_HIDING, IN_MEMORY_ORDER = "latency-hiding", "memory"
TPU, GPU, CPU, UNKNOWN = "XLA:TPU", "XLA:GPU", "XLA:CPU", "XLA"
_PARTITIONED_NAME = re.compile(r"_spmd(\.\d+)*$")  # of the entry, by XLA's partitioner
# Fields of the configurations that a compiler attaches to instructions.
_GPU_FIELDS = (b'"fusion_backend_config"', b'"operation_queue_id"', b'"collective_backend_config"')
_CPU_FIELDS = (b'"outer_dimension_partitions"', b'"parallel_task_config"')


def find_compiler(program: HloProgram) -> str:
    """Return the compiler that has optimised a program; ``UNKNOWN`` if it left no trace."""
    instructions = program.find_entry().instructions
    if any(_has_tiling(one.shape) for one in instructions):
        return TPU
    for compiler, fields in ((GPU, _GPU_FIELDS), (CPU, _CPU_FIELDS)):
        if any(field in one.backend_config for one in instructions for field in fields):
            return compiler
    return UNKNOWN


def has_latency_hiding_schedule(program: HloProgram) -> bool:
    """Return whether XLA:GPU's latency-hiding scheduler has ordered a program.

    The passes of that scheduler end with one that writes the name of each instruction into its
    metadata; no other pass does.
    """
    return any(one.metadata.scheduling_name for one in program.iterate_instructions())


def is_partitioned(program: HloProgram) -> bool:
    """Return whether XLA's partitioner has divided the shapes of a program over its devices.

    It has if the program is scheduled, if the entry has a name of the partitioner, or if there are
    collectives but no calls that the partitioner replaces: only a manual computation, between such
    calls, has collectives before.
    """
    if program.is_scheduled or _PARTITIONED_NAME.search(program.find_entry().message.name):
        return True
    instructions = list(program.iterate_instructions())
    return any(program.find_collective(one) is not None for one in instructions) and not any(
        map(_is_partitioner_call, instructions)
    )


def _is_partitioner_call(one: HloInstruction) -> bool:
    target = one.custom_call_target
    return target in PARTITIONER_CALL_TARGETS or target.startswith(SHARDY_CALL_PREFIX)


def _has_tiling(shape: Shape) -> bool:
    """Return whether a layout has tiles, as those of XLA:TPU do."""
    return bool(shape.layout.tiles) or any(map(_has_tiling, shape.tuple_shapes))
