"""An ``Exportable`` to JAX's ``Lowered``, for devices that need not be there."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hespas.dialects.errors import HespasError
from hespas.passes.base import nearest

if TYPE_CHECKING:
    from jax.sharding import AbstractMesh
    from jax.stages import Lowered

    from hespas.frontends.export.exportable import Exportable


def lower(program: Exportable, platform: str = "cpu") -> Lowered:
    """Lower a program for ``platform`` (cpu, cuda, rocm, tpu) over its mesh, without allocation.

    The mesh is abstract, so any number of devices will do. Raises HespasError for a mesh or
    shardings that do not fit; what JAX or the program raises is passed on.
    """
    import jax

    mesh = abstract_mesh(program.mesh, program.explicit_axes)
    for leaf in jax.tree.leaves(program.args):
        _check_width(leaf)
    options: dict[str, Any] = {"donate_argnums": program.donate_argnums}
    if program.in_shardings is not None:
        given, wanted = len(program.in_shardings), len(program.args)
        if given != wanted:
            raise HespasError(f"in_shardings has {given} entries for {wanted} arguments")
        options["in_shardings"] = on_mesh(program.in_shardings, mesh)
    if program.out_shardings is not None:
        options["out_shardings"] = on_mesh(program.out_shardings, mesh)
    jitted = jax.jit(named(program.function, program.name), **options)
    with jax.sharding.use_abstract_mesh(mesh):
        return jitted.trace(*program.args).lower(lowering_platforms=(platform,))


def _check_width(leaf: Any) -> None:
    """Raise HespasError for an array of 64 bits that JAX would take for one of 32."""
    import jax

    dtype = getattr(leaf, "dtype", None)
    if dtype is None or jax.numpy.issubdtype(dtype, jax.dtypes.extended):
        return
    taken = jax.dtypes.canonicalize_dtype(dtype)
    if taken != dtype:
        raise HespasError(
            f"JAX takes {dtype} for {taken}", remedy="set JAX_ENABLE_X64=1 in the environment"
        )


def abstract_mesh(axes: Mapping[str, int], explicit: tuple[str, ...] = ()) -> AbstractMesh:
    """A mesh of devices that are nowhere; raises HespasError."""
    from jax.sharding import AbstractMesh, AxisType

    for name, size in axes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise HespasError(f"the mesh axis '{name}' has the size {size}, not a number from 1")
    unknown = set(explicit) - set(axes)
    if unknown:
        raise HespasError(f"explicit_axes names '{min(unknown)}', which is no axis of the mesh")
    kinds = tuple(AxisType.Explicit if name in explicit else AxisType.Auto for name in axes)
    return AbstractMesh(tuple(axes.values()), tuple(axes), axis_types=kinds)


def on_mesh(specs: Any, mesh: AbstractMesh) -> Any:
    """A tree of ``PartitionSpec`` as one of ``NamedSharding``; None stays. Raises HespasError."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    def place(spec: Any) -> Any:
        if not isinstance(spec, PartitionSpec):
            what = type(spec).__name__
            raise HespasError(f"a sharding is to be a PartitionSpec or None, not a {what}")
        for entry in spec:
            for axis in entry if isinstance(entry, tuple) else (entry,):
                if isinstance(axis, str) and axis not in mesh.axis_names:
                    known = [str(name) for name in mesh.axis_names]
                    raise HespasError(
                        f"a sharding names the axis '{axis}', which the mesh does not have",
                        remedy=nearest(axis, known) if known else f"say --mesh {axis}=N",
                    )
        return NamedSharding(mesh, spec) if mesh.axis_names else None

    return jax.tree.map(place, specs, is_leaf=lambda leaf: isinstance(leaf, PartitionSpec))


def named(function: Any, name: str) -> Any:
    """The function under another name, its arguments' names kept: JAX puts both into the module."""

    def call(*args: Any) -> Any:
        return function(*args)

    functools.update_wrapper(call, function, assigned=("__doc__",), updated=())
    call.__name__ = call.__qualname__ = name
    with contextlib.suppress(ValueError):  # a builtin that tells none
        call.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return call
