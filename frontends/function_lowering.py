"""Lowering of a JAX function for its arguments, in this process and without devices."""

from __future__ import annotations

import contextlib
import functools
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
            context, unless the caller has set one. A plain function, or one of
            ``equinox.filter_jit``, may get anything else besides, which is a constant. Python's
            numbers are values of a plain function, as with ``jax.jit``, and constants of one of
            ``equinox.filter_jit``, as there.
        platform: The platform.

    Raises:
        HespasError: The shardings of the arguments are over different meshes.
    """
    import jax

    from hespas.frontends.export.target_device import lower_traced

    traceable: Any = function
    if not hasattr(function, "trace"):
        is_value = _has_dtype if hasattr(function, "donate_first") else _is_array
        leaves, tree = jax.tree.flatten(args)
        donated = [0] if getattr(function, "donate_first", False) else []
        donated += range(1, len(args)) if getattr(function, "donate_rest", False) else []
        if not all(map(is_value, leaves)):
            function = _close_over_constants(function, leaves, tree, is_value)
            args = tree.unflatten(leaf if is_value(leaf) else None for leaf in leaves)
        traceable = jax.jit(function, donate_argnums=donated)
    with _enter_argument_mesh(args, platform):
        return lower_traced(traceable.trace(*args), platform)


def _is_array(leaf: Any) -> bool:
    """Return whether a leaf of the arguments or the result is a value of the program."""
    return isinstance(leaf, (bool, int, float, complex)) or _has_dtype(leaf)


def _has_dtype(leaf: Any) -> bool:
    return hasattr(leaf, "dtype")


def _close_over_constants(
    function: Callable[..., Any], leaves: list[Any], tree: Any, is_value: Callable[[Any], bool]
) -> Callable[..., Any]:
    """Return the function of those leaves of the arguments, and of the result, that are values.

    In the tree of its arguments the others, such as the activation of a model, are None, so that
    the values keep their names.
    """
    import jax

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        arrays = iter(jax.tree.leaves(args))
        merged = [next(arrays) if is_value(leaf) else leaf for leaf in leaves]
        result = function(*tree.unflatten(merged))
        return jax.tree.map(lambda leaf: leaf if is_value(leaf) else None, result)

    return call


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
