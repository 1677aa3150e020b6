"""Products of activations with weights in 4 bits, whose scales have two levels (NVFP4).

Each 16 elements along the dimension that is summed share a scale of 8 bits, and all of an array
share a number in f32 (NVFP4BlockScaling of TransformerEngine, transformer_engine/common/recipe).
Activations and gradients have blocks along each of their two dimensions, because the products of
gradients sum over tokens: both copies are made from the same values. With ``hardened``, as by
TransformerEngine's default,

- a block of a weight has 16 x 16 elements, so that both copies hold the same values;
- what is summed over tokens is transformed by Hadamard matrices, which spreads outliers;
- gradients are rounded up or down at random.

For platform cuda these are the kernels of TransformerEngine, named after the functions of its C
interface, and XLA's call of a product of scaled blocks, with one more operand: the factor of both
arrays, which the library applies. For others they are plain ops that compute the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import ManualAxisType, NamedSharding, PartitionSpec

from hespas.recipes.parallel import get_varying_axes
from hespas.support.errors import UsageError

BLOCK = 16  # elements with one scale
F4, F8 = jnp.float4_e2m1fn, jnp.float8_e4m3fn
LARGEST = float(jnp.finfo(F4).max) * float(jnp.finfo(F8).max)  # of an element times its scale
QUANTISED = "quantised"  # the name of operands in few bits that are kept for the gradients
# Signs before the Hadamard transform, the same for both operands of a product.
_SIGNS = np.where(np.random.default_rng(0).integers(0, 2, BLOCK), 1.0, -1.0)


@dataclass(frozen=True)
class FrozenWeight:
    """A weight that is not trained, in the type of activations."""

    values: jax.Array


@dataclass(frozen=True)
class BlockArray:
    """An array in 4 bits, of ``[n, rows, columns]``, with blocks along its columns.

    Attributes:
        values: The elements over their scale.
        scales: The scale of each block over that of the array, ``[n, rows, columns / 16]``.
        largest: The largest magnitude of the array, which gives its scale.
    """

    values: jax.Array
    scales: jax.Array
    largest: jax.Array


for _kind, _fields in ((FrozenWeight, ["values"]), (BlockArray, ["values", "scales", "largest"])):
    jax.tree_util.register_dataclass(_kind, _fields, [])


@dataclass(frozen=True)
class _Quantiser:
    """How an array is quantised: in square blocks, transformed, or with random rounding."""

    square: bool = False
    transformed: bool = False
    stochastic: bool = False

    def quantise(self, x: jax.Array, *, rows: bool = True, columns: bool = True) -> Any:
        """Quantise an array ``[n, r, c]`` with blocks along c, and along r.

        Returns:
            The array, and the transposed array; None for one that is not asked for.
        """
        if self.transformed:
            largest, largest_transformed = _find_largest(x, transformed=True)
            along_rows = _quantise_rows(self, x, largest) if rows else None
            if not columns:
                return along_rows, None
            return along_rows, _quantise_columns(self, x, largest_transformed)
        (largest,) = _find_largest(x, transformed=False)
        return _quantise_both(self, x, largest, rows, columns)


@dataclass(frozen=True)
class BlockScheme:
    """How products with weights, and the two products of their gradients, are computed in 4 bits.

    Attributes:
        hardened: Whether weights have square blocks, what is summed over tokens is transformed, and
            gradients are rounded at random.
    """

    hardened: bool = False

    def multiply(self, formula: str, x: jax.Array, weight: Any) -> jax.Array:
        """Multiply activations by a weight, by a formula of ``jnp.einsum`` with two operands.

        Raises:
            UsageError: If the formula is not that of a linear layer, or blocks do not divide the
                sizes.
        """
        is_frozen = isinstance(weight, FrozenWeight)
        values = weight.values if isinstance(weight, FrozenWeight) else weight
        flatten_input, flatten_weight, result_shape = _plan_product(formula, x, values)
        inputs = _Quantiser(transformed=self.hardened)
        weights = _Quantiser(square=self.hardened)
        gradients = _Quantiser(transformed=self.hardened, stochastic=self.hardened)

        def compute_product(x: jax.Array, weight: jax.Array) -> tuple[jax.Array, Any]:
            a, a_columns = inputs.quantise(flatten_input(x), columns=not is_frozen)
            b, b_columns = weights.quantise(flatten_weight(weight))
            kept = _name_arrays((a_columns, b))  # the gradients' own copies
            return _multiply_blocks(a, b_columns, x.dtype).reshape(result_shape), kept

        def compute_gradients(kept: Any, gradient: jax.Array) -> tuple[jax.Array, Any]:
            a_columns, b = kept
            flat = gradient.reshape(*b.values.shape[:1], -1, b.values.shape[-1])
            g, g_columns = gradients.quantise(flat, columns=not is_frozen)
            x_gradient = _multiply_blocks(g, b, gradient.dtype).reshape(x.shape)
            if is_frozen:
                return x_gradient, jnp.zeros_like(values)
            weight_gradient = _multiply_blocks(a_columns, g_columns, gradient.dtype)
            return x_gradient, weight_gradient.reshape(values.shape)

        product = jax.custom_vjp(lambda x, weight: compute_product(x, weight)[0])
        product.defvjp(compute_product, compute_gradients)
        return product(x, values)


# nvfp4: with blocks alone, as NVIDIA's submissions to MLPerf Training v5.1 set it
# (config_common_fp4.sh: NVTE_NVFP4_DISABLE_RHT, _STOCHASTIC_ROUNDING and _2D_QUANTIZATION are 1).
BLOCK_SCHEMES = {"nvfp4": BlockScheme(), "nvfp4_te": BlockScheme(hardened=True)}


def _name_arrays(arrays: Any) -> Any:
    """Name what policies of rematerialisation keep: all that a product of gradients reads."""
    return jax.tree.map(lambda part: checkpoint_name(part, QUANTISED), arrays)


def _plan_product(
    formula: str, x: jax.Array, weight: jax.Array
) -> tuple[Callable[[jax.Array], jax.Array], Callable[[jax.Array], jax.Array], tuple[int, ...]]:
    """Return how operands become ``[n, rows, summed]`` and ``[n, summed, columns]``, and the shape.

    Raises:
        UsageError: If this needs a transpose, or blocks do not divide the sizes.
    """
    operands, result = formula.split("->")
    left, right = operands.split(",")
    batch = "".join(letter for letter in left if letter in right and letter in result)
    summed = "".join(letter for letter in left if letter in right and letter not in result)
    rows = "".join(letter for letter in left if letter not in right)
    columns = "".join(letter for letter in right if letter not in left)
    if (left, right, result) != (batch + rows + summed, batch + summed + columns,
                                 batch + rows + columns):  # fmt: skip
        raise UsageError(
            "products in 4 bits are those of linear layers, and not with masks",
            remedy="use dispatch=capacity or products=fp8",
        )
    sizes = dict(zip(left + right, x.shape + weight.shape, strict=True))
    count, m, k, n = (
        math.prod(sizes[letter] for letter in letters) for letters in (batch, rows, summed, columns)
    )
    if m % BLOCK or k % BLOCK or n % BLOCK:
        raise UsageError(
            f"a product of {m} x {k} by {k} x {n} has no blocks of {BLOCK} in each dimension",
            remedy=f"use sizes that are multiples of {BLOCK} on each device, or products=fp8",
        )
    shape = tuple(sizes[letter] for letter in result)
    return lambda a: a.reshape(count, m, k), lambda b: b.reshape(count, k, n), shape


def _multiply_blocks(a: BlockArray, b: BlockArray, dtype: Any) -> jax.Array:
    """Multiply ``[n, m, k]`` by ``[n, c, k]``, as ``[n, m, c]``."""
    shape = (*a.values.shape[:2], b.values.shape[1])
    factor = a.largest * b.largest / LARGEST**2

    def call_library(*operands: jax.Array) -> jax.Array:
        return _call("__op$block_scaled_dot", operands, [(shape, dtype)])[0]

    def multiply_whole(
        a: jax.Array, b: jax.Array, a_scales: jax.Array, b_scales: jax.Array, factor: jax.Array
    ) -> jax.Array:
        wide = [
            values.astype(jnp.float32) * jnp.repeat(scales.astype(jnp.float32), BLOCK, axis=-1)
            for values, scales in ((a, a_scales), (b, b_scales))
        ]
        total = jnp.einsum("nmk,nck->nmc", *wide, preferred_element_type=jnp.float32)
        return (total * factor).astype(dtype)

    operands = (a.values, b.values, a.scales, b.scales, factor)
    return lax.platform_dependent(*operands, cuda=call_library, default=multiply_whole)


def _find_largest(x: jax.Array, *, transformed: bool) -> tuple[jax.Array, ...]:
    """Find the largest magnitude of an array ``[n, r, c]``, and of what it is transformed to."""
    name = "nvte_hadamard_transform_amax" if transformed else "nvte_compute_amax"
    results = [((), jnp.float32)] * (2 if transformed else 1)

    def search(x: jax.Array) -> tuple[jax.Array, ...]:
        wide = x.astype(jnp.float32)
        arrays = (wide, _transform_columns(wide)) if transformed else (wide,)
        return tuple(jnp.max(jnp.abs(array)) for array in arrays)

    return lax.platform_dependent(
        x, cuda=lambda x: tuple(_call(name, (x,), results)), default=search
    )


def _quantise_both(
    quantiser: _Quantiser, x: jax.Array, largest: jax.Array, rows: bool, columns: bool
) -> tuple[BlockArray | None, BlockArray | None]:
    """Quantise an array and its transpose in one kernel, which reads it once."""
    asked = [x.shape] * rows + [(x.shape[0], x.shape[2], x.shape[1])] * columns

    def call_library(x: jax.Array, largest: jax.Array) -> tuple[jax.Array, ...]:
        results = [item for shape in asked for item in _list_results(shape)]
        return tuple(_call("nvte_quantize", (x, largest), results))

    def compute(x: jax.Array, largest: jax.Array) -> tuple[jax.Array, ...]:
        wide = x.astype(jnp.float32)
        arrays = [wide] * rows + [jnp.swapaxes(wide, 1, 2)] * columns
        return tuple(part for a in arrays for part in _round_blocks(quantiser, a, largest))

    parts = lax.platform_dependent(x, largest, cuda=call_library, default=compute)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    arrays = [BlockArray(values, scales, largest) for values, scales in pairs]
    return (arrays.pop(0) if rows else None), (arrays.pop(0) if columns else None)


def _quantise_rows(quantiser: _Quantiser, x: jax.Array, largest: jax.Array) -> BlockArray:
    def compute(x: jax.Array, largest: jax.Array) -> tuple[jax.Array, ...]:
        return _round_blocks(quantiser, x.astype(jnp.float32), largest)

    return _quantise_one("nvte_quantize", compute, x, x.shape, largest)


def _quantise_columns(quantiser: _Quantiser, x: jax.Array, largest: jax.Array) -> BlockArray:
    """Transform an array along its rows, and quantise the transpose."""

    def compute(x: jax.Array, largest: jax.Array) -> tuple[jax.Array, ...]:
        transformed = _transform_columns(x.astype(jnp.float32))
        return _round_blocks(quantiser, jnp.swapaxes(transformed, 1, 2), largest)

    name = "nvte_hadamard_transform_cast_fusion_columnwise"
    return _quantise_one(name, compute, x, (x.shape[0], x.shape[2], x.shape[1]), largest)


def _quantise_one(
    name: str,
    compute: Callable[..., tuple[jax.Array, ...]],
    x: jax.Array,
    shape: tuple[int, ...],
    largest: jax.Array,
) -> BlockArray:
    def call_library(x: jax.Array, largest: jax.Array) -> tuple[jax.Array, ...]:
        return tuple(_call(name, (x, largest), _list_results(shape)))

    values, scales = lax.platform_dependent(x, largest, cuda=call_library, default=compute)
    return BlockArray(values, scales, largest)


def _list_results(shape: tuple[int, ...]) -> list[tuple[tuple[int, ...], Any]]:
    return [(shape, F4), ((*shape[:-1], shape[-1] // BLOCK), F8)]


def _transform_columns(x: jax.Array) -> jax.Array:
    """Multiply each 16 rows of ``[n, r, c]`` by signs and an orthogonal Hadamard matrix."""
    matrix = np.ones((1, 1))
    while len(matrix) < BLOCK:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    matrix = jnp.asarray(matrix * _SIGNS / math.sqrt(BLOCK), x.dtype)
    n, r, c = x.shape
    blocks = x.reshape(n, r // BLOCK, BLOCK, c)
    return jnp.einsum("hb,nrbc->nrhc", matrix, blocks, precision="highest").reshape(n, r, c)


def _round_blocks(
    quantiser: _Quantiser, x: jax.Array, largest: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Round an array ``[n, r, c]`` to 4 bits with scales along c.

    The scale of a block makes its largest element 6, and is rounded to 8 bits over the scale of the
    array, which makes the largest scale 448.
    """
    n, r, c = x.shape
    blocks = x.reshape(n, r, c // BLOCK, BLOCK)
    tops = jnp.max(jnp.abs(blocks), axis=-1)
    if quantiser.square:
        square = tops.reshape(n, r // BLOCK, BLOCK, c // BLOCK)
        tops = jnp.repeat(jnp.max(square, axis=2), BLOCK, axis=1)
    encode = jnp.where(largest > 0, LARGEST / largest, 1.0)
    most = float(jnp.finfo(F4).max)
    scales = jnp.clip(tops / most * encode, 0, float(jnp.finfo(F8).max)).astype(F8)
    wide = scales.astype(jnp.float32)[..., None]
    scaled = jnp.clip(jnp.where(wide > 0, blocks * encode / wide, 0.0), -most, most)
    rounded = _round_at_random(scaled) if quantiser.stochastic else scaled
    return rounded.astype(F4).reshape(n, r, c), scales


def _round_at_random(x: jax.Array) -> jax.Array:
    """Round up or down to a number of 4 bits, the nearer one more often."""
    size = jnp.abs(x)
    step = jnp.where(size < 2, 0.5, jnp.where(size < 4, 1.0, 2.0))
    chance = jax.random.uniform(jax.random.key(0), x.shape)
    return jnp.sign(x) * jnp.floor(size / step + chance) * step


def _call(name: str, operands: tuple[jax.Array, ...], results: list[tuple[Any, Any]]) -> Any:
    """Call a kernel of a library, whose results differ on the devices on which an operand does."""
    axes = frozenset[str]().union(*map(get_varying_axes, operands))
    options: dict[str, Any] = {}
    if axes:
        options["sharding"] = NamedSharding(jax.sharding.get_abstract_mesh(), PartitionSpec())
        options["manual_axis_type"] = ManualAxisType(varying=axes)
    types = [jax.ShapeDtypeStruct(*kind, **options) for kind in results]
    marked = [
        lax.pcast(each, tuple(missing), to="varying") if missing else each
        for each in operands
        for missing in [axes - get_varying_axes(each)]
    ]
    return jax.ffi.ffi_call(name, types)(*marked)
