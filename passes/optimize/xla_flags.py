"""XLA flags of an optimisation, and of the HLO dump that it needs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from hespas.support.errors import HespasError, UsageError

DISABLE = "--xla_disable_hlo_passes"
# The importer cannot represent the output: a small all-reduce in a Triton kernel, which would be a
# fusion that communicates.
INEXPRESSIBLE = ("collective-fusion",)
# What the program that runs has combined is apart in the published ``-opt`` files: the script that
# made them disables the first.
COMBINERS = ("gpu-reduce-scatter-combiner", "collective-permute-combiner")
# It measures kernels. Without a GPU, it compiles each one, chooses what XLA would not choose with a
# GPU, and fails if Triton cannot compile a product, which a GPU would leave to cuBLAS. No estimate
# depends on its choices: tile sizes, and algorithms of libraries.
AUTOTUNER = "autotuner"
AUTOTUNE_FLAG = "--xla_gpu_autotune_level"
ASYNC_PASS = "async-collective-conversion"
LATENCY_HIDING_PASS = "latency-hiding-scheduler"
LATENCY_HIDING_FLAG = "--xla_gpu_enable_latency_hiding_scheduler"
DISABLE_ASYNC = "--xla_gpu_disable_async_collectives"
SERIAL_FLAG = f"{DISABLE_ASYNC}=ALLCOLLECTIVES"
PARTITIONER = ("spmd-partitioning", "spmd-partitioner", "spmd_partitioner")


@dataclass(frozen=True)
class CompileStage:
    """A stage of XLA's pipeline at which the HLO is dumped; see ``CompileRequest``."""

    passes: str
    wanted: str


# hlo: what RunHloPasses leaves, before what is left unfused is wrapped in a kernel of its own. That
# is the first of two dumps: the autotuner's pipeline starts with the first wrapper; without it, the
# first wrapper follows on the insertion of copies, which is not part of RunHloPasses.
STAGES = {
    "hlo": CompileStage(
        "fusion-wrapper|propagate-call-metadata",
        r"after_pipeline-start\.before_(fusion-wrapper|propagate-call-metadata)",
    ),
    "scheduled": CompileStage("^$", r"gpu_after_optimizations\.hlo\.pb$"),
}
CPU_STAGE = CompileStage("^$", r"cpu_after_optimizations\.hlo\.pb$")


def split_xla_flags(text: str) -> list[str]:
    """Split a line of flags, quoted as in a shell; raises UsageError."""
    try:
        flags = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"xla-optimize: cannot read flags={text}: {error}") from None
    for flag in flags:
        if not flag.startswith("--"):
            raise UsageError(f"xla-optimize: '{flag}' is not an XLA flag: these start with --xla_")
    return flags


def is_flag_off(flags: list[str], name: str) -> bool:
    """Return whether flags turn one off; XLA uses the last of each."""
    values = [value for flag, _, value in (one.partition("=") for one in flags) if flag == name]
    return bool(values) and values[-1].lower() in ("false", "0")


def join_xla_flags(flags: list[str], disabled: list[str]) -> str:
    """Build the value of XLA_FLAGS. XLA uses the last of each flag, so disabled passes are joined.

    Raises HespasError for a flag that XLA_FLAGS cannot represent.
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
