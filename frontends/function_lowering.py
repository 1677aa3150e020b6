"""Lowering of a JAX function for its arguments, in this process and without devices."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from hespas.support.errors import HespasError

if TYPE_CHECKING:
    from jax.sharding import AbstractMesh
    from jax.stages import Lowered

_PLATFORMS = {"NVIDIA": "cuda", "AMD": "rocm", "Google": "tpu"}


def select_lowering_platform(vendor: str) -> str:
    """Return the platform that JAX lowers for, for devices of a vendor.

    It decides which kernels a program uses. Programs for other vendors have those of a CPU, which
    are plain ops.
    """
    return _PLATFORMS.get(vendor, "cpu")


def lower_function(function: Callable[..., Any], args: tuple[Any, ...], platform: str) -> Lowered:
    """Lower a function for ``platform`` (cpu, cuda, rocm or tpu), without allocation.

    Errors of JAX and of the function itself are passed on.

    Args:
        function: What ``jax.jit`` returns, which keeps its shardings and donated arguments, or a
            plain function.
        args: Its arguments: arrays, ``jax.ShapeDtypeStruct``, and trees of these. Their shardings
            may be over a mesh of abstract devices. The function sees this mesh as the mesh of the
            context, unless the caller has set one.
        platform: The platform.

    Raises:
        HespasError: The shardings of the arguments are over different meshes.
    """
    import jax

    from hespas.frontends.export.target_device import lower_traced

    traceable: Any = function if hasattr(function, "trace") else jax.jit(function)
    with _enter_argument_mesh(args, platform):
        return lower_traced(traceable.trace(*args), platform)


@contextlib.contextmanager
def _enter_argument_mesh(args: tuple[Any, ...], platform: str) -> Iterator[None]:
    """Set the mesh of the arguments as that of the context, unless there is one.

    Without a mesh, kernels of Pallas ask the context for their device: a recent one of ``platform``
    answers.
    """
    import jax

    from hespas.frontends.export.custom_partitioning import (
        assume_recent_gpu,
        lower_without_devices,
    )
    from hespas.frontends.export.target_device import enter_target_device, find_target_device

    mesh = _find_argument_mesh(args)
    with contextlib.ExitStack() as stack:
        if mesh is None:
            stack.enter_context(assume_recent_gpu())
            context_mesh, device = jax.sharding.get_abstract_mesh(), find_target_device(platform)
            if context_mesh.empty and context_mesh.abstract_device is None and device is not None:
                stack.enter_context(enter_target_device(device))
        else:
            if jax.sharding.get_abstract_mesh().empty:
                stack.enter_context(jax.sharding.use_abstract_mesh(mesh))
            stack.enter_context(lower_without_devices(mesh))
        yield


def _find_argument_mesh(args: tuple[Any, ...]) -> AbstractMesh | None:
    """Return the mesh of the arguments' shardings; None if no argument has one."""
    import jax
    from jax.sharding import NamedSharding

    shardings = [getattr(leaf, "sharding", None) for leaf in jax.tree.leaves(args)]
    meshes = {s.mesh.abstract_mesh: s for s in shardings if isinstance(s, NamedSharding)}
    if len(meshes) > 1:
        first, second = list(meshes)[:2]
        raise HespasError(
            f"the shardings of the arguments are over different meshes: {dict(first.shape)} and "
            f"{dict(second.shape)}",
            remedy="use one mesh for all arguments",
        )
    return next(iter(meshes), None)
