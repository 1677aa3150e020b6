"""The platform that JAX lowered a program for, as facts of the module.

JAX lowers some primitives to other ops on each platform: a ragged product is the dense product of
all groups on a CPU, and one op on a TPU. Few of them show in a module which it was lowered for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hespas.dialects.mlir import collect_functions, ir
from hespas.dialects.op_kinds import LOOPS, contains_op
from hespas.dialects.program_facts import (
    read_exported_platforms,
    read_program_facts,
    record_exported_platforms,
    write_program_facts,
)
from hespas.passes.prepare.select_platform import select_platform

LOWERED_FOR = "lowered_for"  # the fact that names the platform
PLATFORM_OPS = "platform_ops"  # the fact that lists the primitives that differ between platforms
# Primitives whose lowering has another amount of work, or calls another library, by platform.
_DIFFERING = frozenset((
    "approx_top_k", "cholesky", "eig", "eigh", "geqrf", "hessenberg", "householder_product", "lu",
    "ragged_dot_general", "schur", "svd", "triangular_solve", "tridiagonal", "tridiagonal_solve",
))  # fmt: skip
# Random numbers: for a CPU, a loop over five rounds, each of which reads and writes memory (it is
# eleven times slower on an H100); for other platforms, ops that fuse.
_RANDOM = "threefry2x32"


def read_platforms(lowered: Any) -> Sequence[str]:
    """Return the platforms of a ``jax.stages.Lowered``; empty if it is not of JAX."""
    return getattr(getattr(lowered, "_lowering", None), "_platforms", None) or ()


def settle_platform(module: ir.Module, platforms: Sequence[str], own: str) -> None:
    """Keep the ops of one of the platforms that JAX lowered a module for, and write its facts.

    That is the platform of the device, or else that of a CPU, whose ops are plain, or the first.
    The primitives are the last parts of the locations' names.

    Args:
        module: The module.
        platforms: Its platforms, in order; empty if it is not of JAX.
        own: The platform of the device.
    """
    if not platforms:
        return
    platform = next((name for name in (own, "cpu") if name in platforms), platforms[0])
    record_exported_platforms(module, platforms)
    select_platform(module, platform)
    names: set[str] = set()

    def collect_primitive(op: ir.Operation) -> ir.WalkResult:
        location = op.location
        if isinstance(location, ir.NameLoc):
            names.add(location.name_str.rpartition("/")[2].removesuffix(":"))
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect_primitive)
    differing = _DIFFERING | {_RANDOM} if platform == "cpu" else _DIFFERING
    _write_platform(module, platform, sorted(names & differing))


def infer_platform(module: ir.Module) -> None:
    """Write the facts of a module that does not state its platform, if an op shows it.

    That is the loop of random numbers for a CPU.
    """
    if LOWERED_FOR in read_program_facts(module) or read_exported_platforms(module):
        return
    for name, function in collect_functions(module).items():
        if name.startswith(_RANDOM) and contains_op(function, lambda op: op.name in LOOPS):
            _write_platform(module, "cpu", [_RANDOM])
            return


def _write_platform(module: ir.Module, platform: str, ops: Sequence[str]) -> None:
    facts = {LOWERED_FOR: platform, **({PLATFORM_OPS: ", ".join(ops)} if ops else {})}
    write_program_facts(module, {**read_program_facts(module), **facts})
