"""Devices of GPUs that are not there, for programs that make their own mesh.

Lowering for a GPU needs no devices (``lower``): these are for code that asks for some, such as
``jax.sharding.Mesh`` or MaxText's ``compile_topology``. Only for processes of their own, as XLA may
abort.
"""

from __future__ import annotations

from typing import Any

from hespas.configs import targets
from hespas.dialects.errors import HespasError
from hespas.dialects.xla import gpu_devices, gpu_library
from hespas.passes.compile.process import DEVICES_PER_NODE, NO_PLUGIN


def devices(target: str, count: int, devices_per_node: int = DEVICES_PER_NODE) -> list[Any]:
    """``count`` devices of a GPU target (``hespas targets``, or a file), as ``jax.Device``.

    Programs can be lowered and compiled for them, not run. Raises HespasError.
    """
    found = targets.target(target)
    if found.proto is None:
        raise HespasError("the CPU has devices of its own", remedy="set JAX_NUM_CPU_DEVICES")
    library = gpu_library()
    if library is None:
        raise HespasError("XLA's GPU compiler is not installed", remedy=NO_PLUGIN)
    try:
        return gpu_devices(library, found.proto, count, devices_per_node)
    except RuntimeError as error:
        reason = str(error).split("\n", 1)[0]
        raise HespasError(f"XLA does not take the target {found.name}: {reason}") from None
