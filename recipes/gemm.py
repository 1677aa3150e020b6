"""Distributed matrix multiplications, one for each way to divide them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
from jax import lax

from hespas.frontends.export.exportable import Exportable
from hespas.recipes.decoder_training import Dtype
from hespas.recipes.parallel import (
    DTYPES,
    Dim,
    MeshParallelism,
    ShardedArray,
    check_mesh_axes,
    check_positive_options,
)
from hespas.support.errors import UsageError

Kind = Literal["all-gather", "reduce-scatter", "all-reduce", "ring", "summa"]
AXES = ("x", "y")
MESH = {"x": 8}

# Per kind the axes that split a [m, k], b [k, n] and c [m, n].
DIVIDED: dict[str, tuple[tuple[Dim, ...], ...]] = {
    "all-gather": (("x", None), (None, "x"), (None, "x")),
    "ring": (("x", None), (None, "x"), (None, "x")),
    "reduce-scatter": ((None, "x"), ("x", None), ("x", None)),
    "all-reduce": ((None, "x"), ("x", None), (None, None)),
    "summa": (("x", "y"), ("x", "y"), ("x", "y")),
}


def build(
    mesh: Annotated[dict[str, int], "devices along x, and y for summa"] = MESH,
    kind: Annotated[
        Kind, "the collective, which determines how the matrices are divided"
    ] = "all-gather",
    m: Annotated[int, "rows of a and c"] = 8192,
    n: Annotated[int, "columns of b and c"] = 8192,
    k: Annotated[int, "columns of a, rows of b"] = 8192,
    panels: Annotated[int, "steps of summa, each of which gathers one panel of a and of b"] = 1,
    dtype: Annotated[Dtype, "type of the matrices; sums are f32"] = "bf16",
) -> Exportable:
    """A distributed matrix multiplication c = a b, with the collective of one way to divide it.

    ``all-gather`` gathers the rows of a. ``ring`` does the same with collective_permute, and
    multiplies alongside. ``reduce-scatter`` and ``all-reduce`` sum partial products. ``summa``
    divides a, b and c over a grid (doi 10.1002/(SICI)1096-9128(199704)9:4<255): ``panels`` of a are
    gathered along its rows and of b along its columns.

    Raises:
        UsageError: If the mesh does not divide the matrices.
    """
    check_mesh_axes(mesh, AXES if kind == "summa" else AXES[:1])
    check_positive_options(m=m, n=n, k=k, panels=panels)
    p = MeshParallelism(mesh)
    rows, columns = p.count_devices("x"), p.count_devices("y")
    if panels > 1 and (kind != "summa" or rows != columns or k % (rows * panels)):
        raise UsageError(
            f"{panels} panels do not fit {kind} on {rows}x{columns} devices",
            remedy="panels are for summa on a square grid, and must divide the local part of k",
        )
    shapes = ((m, k), (k, n), (m, n))
    a, b, c = (
        ShardedArray(shape, axes, DTYPES[dtype])
        for shape, axes in zip(shapes, DIVIDED[kind], strict=True)
    )
    p.make_shape_tree(c)  # this checks its divisibility too
    return p.make_exportable(
        f"gemm_{kind.replace('-', '_')}",
        _make_local_product(kind, p, panels),
        (a, b),
        p.make_partition_specs(c),
        facts={"flops_per_step": 2 * m * n * k},
    )


def _make_local_product(
    kind: str, p: MeshParallelism, panels: int
) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """Make the function that one device applies to its parts of a and b."""

    def gather_along_axis(x: jax.Array, axis: str, dimension: int) -> jax.Array:
        return lax.all_gather(x, axis, axis=dimension, tiled=True) if p.get_split_axes(axis) else x

    def multiply_gathered(a: jax.Array, b: jax.Array) -> jax.Array:
        return _multiply_to_f32(gather_along_axis(a, "x", 0), b).astype(a.dtype)

    def multiply_all_reduced(a: jax.Array, b: jax.Array) -> jax.Array:
        return p.sum_over_axes(_multiply_to_f32(a, b).astype(a.dtype), "x")

    def multiply_reduce_scattered(a: jax.Array, b: jax.Array) -> jax.Array:
        partial = _multiply_to_f32(a, b).astype(a.dtype)
        if not p.get_split_axes("x"):
            return partial
        return lax.psum_scatter(partial, "x", scatter_dimension=0, tiled=True)

    def multiply_in_ring(a: jax.Array, b: jax.Array) -> jax.Array:
        devices, device_index, rows = p.count_devices("x"), p.get_part_index("x"), a.shape[0]
        back = [(i, (i - 1) % devices) for i in range(devices)]
        c = p.mark_varying(jnp.zeros((rows * devices, b.shape[1]), a.dtype), "x")
        for step in range(devices):
            part = _multiply_to_f32(a, b).astype(a.dtype)
            first = (device_index + step) % devices * rows
            c = lax.dynamic_update_slice_in_dim(c, part, first, axis=0)
            if step < devices - 1:
                a = lax.ppermute(a, "x", back)
        return c

    def multiply_panels(a: jax.Array, b: jax.Array) -> jax.Array:
        c: Any = 0.0
        for x, y in zip(jnp.split(a, panels, axis=1), jnp.split(b, panels, axis=0), strict=True):
            c += _multiply_to_f32(gather_along_axis(x, "y", 1), gather_along_axis(y, "x", 0))
        return c.astype(a.dtype)

    return {
        "all-gather": multiply_gathered,
        "all-reduce": multiply_all_reduced,
        "reduce-scatter": multiply_reduce_scattered,
        "ring": multiply_in_ring,
        "summa": multiply_panels,
    }[kind]


def _multiply_to_f32(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.dot(a, b, preferred_element_type=jnp.float32)
