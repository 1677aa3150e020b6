"""Lowering of an ``Exportable`` with JAX, for devices that are not available."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hespas.support.errors import HespasError
from hespas.support.suggestions import suggest_nearest

if TYPE_CHECKING:
    from jax.sharding import AbstractDevice, AbstractMesh
    from jax.stages import Lowered

    from hespas.frontends.export.exportable import Exportable


def lower_exportable(program: Exportable, platform: str = "cpu", target: str = "") -> Lowered:
    """Lower a program for ``platform`` (cpu, cuda, rocm or tpu) over its mesh, without allocation.

    The mesh is abstract and may have any number of devices. Errors of JAX and of the program itself
    are passed on.

    Args:
        program: The program.
        platform: The platform.
        target: The device of that platform that the program sees; "" for a recent one.

    Raises:
        HespasError: If the mesh or a sharding does not fit the program, or if there is no such
            target.
    """
    from hespas.frontends.export.target_device import find_target_device

    device = find_target_device(platform, target)
    try:
        return _lower_for_device(program, platform, device, device)
    except ValueError:
        if device is None:
            raise
        # JAX refuses an ``AbstractMesh`` of the program's own, which has no device, beside one that
        # has; such a program asks no mesh for its device.
        with contextlib.suppress(Exception):
            return _lower_for_device(program, platform, device, None)
        raise


def _lower_for_device(
    program: Exportable,
    platform: str,
    device: AbstractDevice | None,
    mesh_device: AbstractDevice | None,
) -> Lowered:
    """Lower a program for ``device`` over a mesh of ``mesh_device``, None for unknown devices."""
    import jax

    from hespas.frontends.export.custom_partitioning import lower_without_devices
    from hespas.frontends.export.target_device import lower_traced

    mesh = _make_abstract_mesh(program.mesh, program.explicit_axes, mesh_device)
    for leaf in jax.tree.leaves(program.args):
        _check_element_width(leaf)
    options: dict[str, Any] = {"donate_argnums": program.donate_argnums}
    if program.in_shardings is not None:
        sharding_count, argument_count = len(program.in_shardings), len(program.args)
        if sharding_count != argument_count:
            raise HespasError(
                f"in_shardings has {sharding_count} entries for {argument_count} arguments"
            )
        options["in_shardings"] = to_named_shardings(program.in_shardings, mesh)
    if program.out_shardings is not None:
        options["out_shardings"] = to_named_shardings(program.out_shardings, mesh)
    jitted = jax.jit(_rename_function(program.function, program.name), **options)
    with jax.sharding.use_abstract_mesh(mesh), lower_without_devices(mesh):
        return lower_traced(jitted.trace(*program.args), platform, device)


def _check_element_width(leaf: Any) -> None:
    """Raise HespasError for a 64-bit array that JAX would silently narrow to 32 bits."""
    import jax

    dtype = getattr(leaf, "dtype", None)
    if dtype is None or jax.numpy.issubdtype(dtype, jax.dtypes.extended):
        return
    canonical_dtype = jax.dtypes.canonicalize_dtype(dtype)
    if canonical_dtype != dtype:
        raise HespasError(
            f"JAX would convert {dtype} to {canonical_dtype}",
            remedy="set JAX_ENABLE_X64=1 in the environment",
        )


def _make_abstract_mesh(
    axes: Mapping[str, int], explicit: tuple[str, ...], device: AbstractDevice | None
) -> AbstractMesh:
    """Make a mesh of abstract devices; raises HespasError for an invalid axis."""
    from jax.sharding import AbstractMesh, AxisType

    for name, size in axes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise HespasError(f"the size of mesh axis '{name}' is {size}; it must be at least 1")
    unknown = set(explicit) - set(axes)
    if unknown:
        raise HespasError(f"explicit_axes names '{min(unknown)}', which is not an axis of the mesh")
    kinds = tuple(AxisType.Explicit if name in explicit else AxisType.Auto for name in axes)
    sizes = tuple(axes.values())
    return AbstractMesh(sizes, tuple(axes), axis_types=kinds, abstract_device=device)


def to_named_shardings(specs: Any, mesh: AbstractMesh) -> Any:
    """Convert a tree of ``PartitionSpec`` to ``NamedSharding``; None stays None.

    Raises:
        HespasError: If a sharding names an axis that the mesh lacks.
    """
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    def to_named_sharding(spec: Any) -> Any:
        if not isinstance(spec, PartitionSpec):
            type_name = type(spec).__name__
            raise HespasError(f"a sharding must be a PartitionSpec or None, not a {type_name}")
        for entry in spec:
            for axis in entry if isinstance(entry, tuple) else (entry,):
                if isinstance(axis, str) and axis not in mesh.axis_names:
                    known = [str(name) for name in mesh.axis_names]
                    raise HespasError(
                        f"a sharding names the axis '{axis}', which the mesh does not have",
                        remedy=suggest_nearest(axis, known) if known else f"add --mesh {axis}=N",
                    )
        return NamedSharding(mesh, spec) if mesh.axis_names else None

    return jax.tree.map(
        to_named_sharding, specs, is_leaf=lambda leaf: isinstance(leaf, PartitionSpec)
    )


def _rename_function(function: Any, name: str) -> Any:
    """Wrap a function under another name and keep its parameter names.

    JAX writes both to the module.
    """

    def call_function(*args: Any) -> Any:
        return function(*args)

    functools.update_wrapper(call_function, function, assigned=("__doc__",), updated=())
    call_function.__name__ = call_function.__qualname__ = name
    with contextlib.suppress(ValueError):  # builtins have no signature
        call_function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return call_function
