"""The flags of XLA that a program follows which hespas fuses: those about collectives."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hespas.passes.base import build_pass
from hespas.passes.optimize import xla_flags
from hespas.passes.optimize.xla_optimize import XlaOptimizePass
from hespas.passes.pipeline import parse_options
from hespas.support.errors import UsageError

FLAG_OPTIONS = ("framework", "preset", "flags")
"""The options of ``xla-optimize`` that are flags of XLA."""
# XLA:TPU always has the scheduler of the first, but hides only what the second makes asynchronous.
HIDING_FLAGS = (xla_flags.LATENCY_HIDING_FLAG, "--xla_tpu_enable_async_collective_fusion")
_COLLECTIVES = {
    "ALLREDUCE": "all_reduce", "ALLGATHER": "all_gather", "REDUCESCATTER": "reduce_scatter",
    "ALLTOALL": "all_to_all", "COLLECTIVEBROADCAST": "broadcast", "COLLECTIVEPERMUTE": "permute",
}  # fmt: skip
"""The names of the flag that makes collectives serial, and the kinds of ours."""
_THRESHOLD = re.compile(
    r"--xla_gpu_(all_gather|all_reduce|reduce_scatter)_combine_threshold_bytes=(\d+)"
)


def follow_flags(flags: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the options of the pass ``fuse`` that follow flags of XLA, and the other flags.

    They are those about collectives: which are combined, and what runs alongside them. XLA uses the
    last of each flag, and without asynchronous collectives its scheduler hides none.
    """
    options: dict[str, str] = {}
    others: list[str] = []
    for flag in flags:
        name, _, value = flag.partition("=")
        if match := _THRESHOLD.fullmatch(flag):
            options[f"combine-{match[1].replace('_', '-')}"] = match[2]
        elif name in HIDING_FLAGS and value.lower() in ("", "true", "1"):
            options.setdefault("overlap", "latency-hiding")
        elif flag == xla_flags.SERIAL_FLAG:
            options["overlap"] = "none"
        elif name == xla_flags.DISABLE_ASYNC and {*value.split(",")} <= _COLLECTIVES.keys():
            options["serial"] = ",".join(_COLLECTIVES[kind] for kind in value.split(","))
        else:
            others.append(flag)
    return options, others


def select_followed_flags(xla_options: str) -> str:
    """Select the flags that ``fuse`` follows from options of ``xla-optimize``, as an option."""
    flags = [flag for flag in list_flags(xla_options)[0] if follow_flags([flag])[0]]
    return f'flags="{" ".join(flags)}"' if flags else ""


def check_flag_options(xla_options: str) -> None:
    """Raise UsageError if options of ``xla-optimize`` are wrong, or are no flags of XLA."""
    list_flags(xla_options)
    if others := parse_options(xla_options).keys() - FLAG_OPTIONS:
        raise UsageError(
            f"'xla_optimize' has {' and '.join(sorted(others))}: this is for a program that XLA "
            "compiles, and 'form' is fuse",
            remedy=f"the form fuse follows flags: {', '.join(FLAG_OPTIONS)}",
        )


def list_flags(xla_options: str) -> tuple[list[str], list[str]]:
    """Return the flags of options of ``xla-optimize``, and those that are stated one by one.

    Those of a framework or a preset, which are not stated, come first. Raises UsageError.
    """
    step = build_pass(XlaOptimizePass, parse_options(xla_options))
    assert isinstance(step, XlaOptimizePass)
    return step.list_user_flags(), xla_flags.split_xla_flags(step.flags)
