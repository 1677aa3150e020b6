"""XLA's flags for an optimisation, and the dump of it that is wanted."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from hespas.support.errors import HespasError, UsageError

DISABLE = "--xla_disable_hlo_passes"
# The importer has no form for what these make: a reduce-scatter or permute of several operands.
INEXPRESSIBLE = ("gpu-reduce-scatter-combiner", "collective-permute-combiner")
ASYNC_PASS = "async-collective-conversion"
PARTITIONER = ("spmd-partitioning", "spmd-partitioner", "spmd_partitioner")


@dataclass(frozen=True)
class CompileStage:
    """A place in XLA's pipeline: see ``Request`` of ``passes/compile/compiler_process.py``."""

    passes: str
    wanted: str
    complete: str


# hlo: what RunHloPasses leaves, before what is left unfused is wrapped in a kernel of its own.
STAGES = {
    "hlo": CompileStage(
        "fusion-wrapper|propagate-call-metadata",
        r"after_pipeline-start\.before_fusion-wrapper",
        "before_propagate-call-metadata",
    ),
    "scheduled": CompileStage(
        "^$", r"gpu_after_optimizations\.hlo\.pb$", "memory-usage-report|thunk_sequence"
    ),
}
CPU_STAGE = CompileStage(
    "^$", r"cpu_after_optimizations\.hlo\.pb$", "memory-usage-report|ir-no-opt"
)


def split_xla_flags(text: str) -> list[str]:
    """Flags of a line, quoted as in a shell; raises UsageError."""
    try:
        flags = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"xla-optimize: cannot read flags={text}: {error}") from None
    for flag in flags:
        if not flag.startswith("--"):
            raise UsageError(f"xla-optimize: '{flag}' is no flag of XLA: they start with --xla_")
    return flags


def join_xla_flags(flags: list[str], disabled: list[str]) -> str:
    """The value of XLA_FLAGS. XLA takes the last of each flag, so disabled passes are put together.

    Raises HespasError for a flag that the line form of XLA_FLAGS cannot hold.
    """
    enabled_flags = []
    for flag in flags:
        name, _, value = flag.partition("=")
        if name == DISABLE:
            disabled = [*disabled, *value.split(",")]
        elif any(c in flag for c in "\"'") and " " in flag:
            raise HespasError(f"xla-optimize: the flag {flag} has both quotes and spaces")
        else:
            enabled_flags.append(f'{name}="{value}"' if " " in value else flag)
    names = list(dict.fromkeys(name for name in disabled if name))
    return " ".join([*enabled_flags, *([f"{DISABLE}={','.join(names)}"] if names else [])])
