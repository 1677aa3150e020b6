"""Compile-only GPU devices, for programs that make their own mesh.

Lowering for a GPU needs no devices (see `exportable_lowering`). These serve code that requires
some, such as ``jax.sharding.Mesh`` or MaxText's ``compile_topology``. Use them only in a separate
process, because XLA may abort.
"""

from __future__ import annotations

from typing import Any

from hespas.configs import compile_targets
from hespas.dialects.xla import get_compiler_library, make_gpu_compile_devices
from hespas.passes.compile.compiler_process import DEVICES_PER_NODE
from hespas.support.errors import HespasError


def make_topology_devices(
    target: str, count: int, devices_per_node: int = DEVICES_PER_NODE
) -> list[Any]:
    """Make ``count`` compile-only ``jax.Device`` objects of a GPU target (a preset or a file).

    Programs can be lowered and compiled for them, but not run.

    Raises:
        HespasError: If the target is the CPU, or if XLA's GPU compiler is missing or rejects it.
    """
    gpu_target = compile_targets.load_compile_target(target)
    if gpu_target.proto is None:
        raise HespasError(
            f"compile-only devices exist for GPU targets, not for {gpu_target.name}",
            remedy="set JAX_NUM_CPU_DEVICES",
        )
    library = get_compiler_library("gpu")
    try:
        return make_gpu_compile_devices(library, gpu_target.proto, count, devices_per_node)
    except RuntimeError as error:
        reason = str(error).split("\n", 1)[0]
        raise HespasError(f"XLA does not accept the target {gpu_target.name}: {reason}") from None
