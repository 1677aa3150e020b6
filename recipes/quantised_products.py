"""Products of activations with weights in 8 bits, with scales from the values themselves.

Each operand is divided by a scale so that its largest magnitude becomes representable, and
converted. The product of the converted operands is multiplied by the scales. Scales are computed
for every product (current scaling); delayed scaling takes them from the steps before
(``delayed_scaling``). A scale of 8-bit floats that is computed here is a power of two, so that
multiplying by it is exact in any type. With constant scales no values are read to find one.

XLA makes one library call or one Triton kernel of such a product of 8-bit floats, with the scales.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from hespas.recipes.block_products import BLOCK_SCHEMES, QUANTISED, BlockScheme
from hespas.support.errors import UsageError


@dataclass(frozen=True)
class QuantisedArray:
    """An array in 8 bits, and its scale with as many dimensions; a letter names each dimension."""

    values: jax.Array
    scale: jax.Array
    letters: str


jax.tree_util.register_dataclass(QuantisedArray, ["values", "scale"], ["letters"])


@dataclass(frozen=True)
class DelayedWeight:
    """A weight whose products have scales from earlier steps.

    Attributes:
        weight: The weight in the type of activations; its value is not read, but it has a gradient.
        values: The weight in 8 bits.
        largest: The largest magnitude of the part of the weight that this device stores.
        scales: Those of inputs, of the weight and of the gradients of results. Their gradients are
            the largest magnitudes of these.
    """

    weight: jax.Array
    values: jax.Array
    largest: jax.Array
    scales: jax.Array


@dataclass(frozen=True)
class StoredWeight:
    """A weight that is trained, and stored in 8 bits as products read it.

    Attributes:
        carrier: An array in the type of activations; its value is not read, but it has the gradient
            of the weight.
        values: The weight in 8 bits, with the constant scale of the scheme of its products.
    """

    carrier: jax.Array
    values: jax.Array


jax.tree_util.register_dataclass(StoredWeight, ["carrier", "values"], [])


@dataclass(frozen=True)
class AdaptedWeight:
    """A frozen weight beside which two matrices of low rank multiply activations, see ``adapters``.

    Attributes:
        frozen: The weight, a ``jax.Array`` or a ``QuantisedArray``.
        down: The dimensions that the product sums over, and the rank.
        up: The rank, and the dimensions of the result.
        is_dropped: Whether a kernel of its own computes a dropout of the input of the adapter.
        is_scaled: Whether kernels of their own scale the result of the adapter, and add it. Those
            of a partial result, which devices sum, are left out: NeMo scales and adds what they
            have summed (nemo/collections/llm/peft/utils.py).
    """

    frozen: Any
    down: jax.Array
    up: jax.Array
    is_dropped: bool = False
    is_scaled: bool = False


@dataclass(frozen=True)
class ProductScheme:
    """How products with weights, and the two products of their gradients, are computed.

    Attributes:
        forward: The type of activations and weights.
        gradient: The type of the gradients of results.
        by_channel: Whether the elements that are summed share a scale, or those of an array.
        weight_gradients: Whether the gradient of a weight is a product in 8 bits too.
        limit: The largest magnitude of activations and weights, which gives them a constant scale;
            larger values become this one. 0 for scales from the values.
        gradient_limit: The same of the gradients of results.
        keeps_operands: Whether policies of rematerialisation may keep the operands in 8 bits.
        delayed: Whether scales follow from earlier steps; weights are then ``DelayedWeight``.
        current: Whether activations and gradients have scales from their values, and a weight too
            unless it is stored in 8 bits, with the scale that ``limit`` gives.
    """

    forward: Any
    gradient: Any
    by_channel: bool = False
    weight_gradients: bool = True
    limit: float = 0.0
    gradient_limit: float = 0.0
    keeps_operands: bool = False
    delayed: bool = False
    current: bool = False

    @property
    def has_known_scales(self) -> bool:
        """Whether all scales are constants."""
        return bool(self.limit and self.gradient_limit)

    @property
    def has_te_kernels(self) -> bool:
        """Whether products are TransformerEngine's: their kernels multiply by both scales as one
        number, and weights may be stored in 8 bits, as ``StoredWeight``.
        """
        return self.has_known_scales or self.current

    def multiply(self, formula: str, x: jax.Array, weight: Any) -> jax.Array:
        """Multiply activations by a weight, by a formula of ``jnp.einsum`` with two operands.

        The weight is an array, a ``StoredWeight``, or a ``QuantisedArray``, which has no gradient.

        Raises:
            UsageError: If scales follow from earlier steps and the weight has none.
        """
        if self.delayed:
            return self._multiply_delayed(formula, x, weight)
        return self._multiply_parts(formula, [x], weight)[0]

    def multiply_parts(
        self, formula: str, parts: Sequence[jax.Array], weight: Any
    ) -> list[jax.Array]:
        """Multiply each part ``[b, s, ...]`` of activations by a weight.

        With scales that are known the gradient of the weight is one product of all tokens, which
        are joined in the order of the parts. Other parts have scales of their own.
        """
        if self.has_known_scales:
            return self._multiply_parts(formula, parts, weight)
        return [self.multiply(formula, x, weight) for x in parts]

    def _multiply_parts(
        self, formula: str, parts: Sequence[jax.Array], weight: Any
    ) -> list[jax.Array]:
        operands, result = formula.split("->")
        left, right = operands.split(",")
        carrier, stored = self._split_weight(weight, right)

        def multiply_operands(
            a: QuantisedArray, b: QuantisedArray, letters: str, dtype: Any
        ) -> Any:
            return multiply_arrays(a, b, letters, dtype, is_scaled_within=self.has_te_kernels)

        def compute_products(parts: list[jax.Array], carrier: Any, stored: Any) -> Any:
            inputs = [self._quantise(x, self.forward, left, result) for x in parts]
            b = stored or self._quantise(carrier, self.forward, right, result)
            products = [multiply_operands(a, b, result, parts[0].dtype) for a in inputs]
            if carrier is None:  # the gradients read the weight where it is stored
                return products, (None, b)
            if self.keeps_operands:
                inputs = [_name_quantised(a, has_constant_scale=not self.current) for a in inputs]
                b = stored or _name_quantised(b, has_constant_scale=not self.current)
            # With one scale for an array, its 8 bits serve the products of the gradients too.
            return products, (parts, carrier) if self.by_channel else (inputs, b)

        def compute_gradients(residuals: Any, gradients: list[jax.Array]) -> tuple[Any, ...]:
            inputs, weight = residuals
            dtype = gradients[0].dtype
            received = [self._quantise(g, self.gradient, result, left) for g in gradients]
            b = self._quantise(weight, self.forward, right, left)
            input_gradients = [multiply_operands(g, b, left, dtype) for g in received]
            if carrier is None:
                return input_gradients, None, None
            if not self.weight_gradients:
                letters = (left, result, right)
                product = contract_arrays(inputs[0], gradients[0], letters, dtype)
                return input_gradients, product, None
            a = _join_tokens([self._quantise(x, self.forward, left, right) for x in inputs])
            g = _join_tokens([self._quantise(g, self.gradient, result, right) for g in gradients])
            return input_gradients, multiply_operands(a, g, right, dtype), None

        product = jax.custom_vjp(lambda *inputs: compute_products(*inputs)[0])
        product.defvjp(compute_products, compute_gradients)
        return product(list(parts), carrier, stored)

    def _split_weight(self, weight: Any, letters: str) -> tuple[Any, QuantisedArray | None]:
        """Split a weight into what has its gradient, and its 8 bits if it is stored in these."""
        if isinstance(weight, StoredWeight):
            scale = make_limit_scale(self.forward, weight.values.ndim, self.limit)
            return weight.carrier, QuantisedArray(weight.values, scale, letters)
        return (None, weight) if isinstance(weight, QuantisedArray) else (weight, None)

    def _multiply_delayed(self, formula: str, x: jax.Array, weight: Any) -> jax.Array:
        if not isinstance(weight, DelayedWeight):
            raise UsageError(
                "products=fp8_delayed is for decoders without experts, stages and other heads",
                remedy="use products=fp8",
            )
        operands, result = formula.split("->")
        left, right = operands.split(",")

        def compute_product(
            x: jax.Array, _: jax.Array, values: jax.Array, largest: jax.Array, scales: jax.Array
        ) -> tuple[jax.Array, Any]:
            a = quantise_by_scale(x, self.forward, left, scales[0])
            b = QuantisedArray(values, scales[1].reshape((1,) * values.ndim), right)
            product = multiply_arrays(a, b, result, x.dtype)
            return product, (a, b, find_largest(x), largest, scales[2])

        def compute_gradients(residuals: Any, gradient: jax.Array) -> tuple[Any, ...]:
            a, b, largest_input, largest_weight, scale = residuals
            g = quantise_by_scale(gradient, self.gradient, result, scale)
            maxima = jnp.stack([largest_input, largest_weight, find_largest(gradient)])
            x_gradient = multiply_arrays(g, b, left, gradient.dtype)
            return x_gradient, multiply_arrays(a, g, right, gradient.dtype), None, None, maxima

        product = jax.custom_vjp(lambda *inputs: compute_product(*inputs)[0])
        product.defvjp(compute_product, compute_gradients)
        return product(x, weight.weight, weight.values, weight.largest, weight.scales)

    def _quantise(self, x: Any, dtype: Any, letters: str, result: str) -> QuantisedArray:
        """Quantise an operand of a product that has the dimensions ``result``."""
        if isinstance(x, QuantisedArray):
            return x
        limit = self.limit if dtype == self.forward else self.gradient_limit
        if limit and not self.current:
            return quantise_by_limit(x, dtype, letters, limit)
        if not self.by_channel:
            return quantise_array(x, dtype, letters, letters)
        summed = "".join(letter for letter in letters if letter not in result)
        return quantise_array(x, dtype, letters, summed)


# fp8: torchao's tensorwise recipe. fp8_delayed: Flax's Fp8DotGeneralOp, which MaxText calls fp8.
# fp8_rowwise: torchao's recipe of this name. fp8_static: MaxText's fp8_full with the calibration
# "fixed,-224,224" of its activations and weights (quantization and *_calibration_method in
# configs/base.yml). fp8_te: TransformerEngine's delayed scaling, whose kernels convert in one pass
# by a scale that is known, and keep what they converted; they find the largest values in the same
# pass, and the scales that follow are left out.
# fp8_te_current: its Float8CurrentScaling. The kernels of norms and activations find the largest
# value of what they write, and a kernel of its own finds that of other operands; another one reads
# the values again and converts them (rmsnorm_fwd, activation_forward and quantize_impl in
# transformer_engine/pytorch/csrc of NVIDIA/TransformerEngine v2.8). int8: AQT as MaxText configures
# it, with gradients of weights in 16 bits.
PRODUCT_SCHEMES = {
    "fp8": ProductScheme(jnp.float8_e4m3fn, jnp.float8_e5m2),
    "fp8_delayed": ProductScheme(jnp.float8_e4m3fn, jnp.float8_e5m2, delayed=True),
    "fp8_rowwise": ProductScheme(jnp.float8_e4m3fn, jnp.float8_e4m3fn, by_channel=True),
    "fp8_static": ProductScheme(jnp.float8_e4m3fn, jnp.float8_e5m2, limit=224.0),
    "fp8_te": ProductScheme(
        jnp.float8_e4m3fn, jnp.float8_e5m2, limit=224.0, gradient_limit=1.0, keeps_operands=True
    ),
    "fp8_te_current": ProductScheme(
        jnp.float8_e4m3fn, jnp.float8_e5m2, limit=224.0, keeps_operands=True, current=True
    ),
    "int8": ProductScheme(jnp.int8, jnp.int8, by_channel=True, weight_gradients=False),
}


# How products with weights are computed in few bits; a recipe's option names one.
Scheme = ProductScheme | BlockScheme
SCHEMES: dict[str, Scheme] = PRODUCT_SCHEMES | BLOCK_SCHEMES


def multiply_weight(scheme: Scheme | None, formula: str, x: jax.Array, weight: Any) -> jax.Array:
    """Multiply activations by a weight by a scheme, or without one in the type that they have.

    A weight that is stored in 8 bits needs a scheme.
    """
    return multiply_weight_by_parts(scheme, formula, [x], weight)[0]


def multiply_weight_by_parts(
    scheme: Scheme | None, formula: str, parts: Sequence[jax.Array], weight: Any
) -> list[jax.Array]:
    """Multiply each part ``[b, s, ...]`` of activations by a weight as ``multiply_weight``."""
    if scheme is None:
        return [jnp.einsum(formula, x, weight) for x in parts]
    if isinstance(scheme, BlockScheme):
        return [scheme.multiply(formula, x, weight) for x in parts]
    if isinstance(weight, QuantisedArray):
        weight = replace(weight, letters=formula.split("->")[0].split(",")[1])
    return scheme.multiply_parts(formula, parts, weight)


def multiply_adapter(
    formula: str, x: jax.Array, adapter: AdaptedWeight, name_value: Callable[[jax.Array], jax.Array]
) -> jax.Array:
    """Multiply activations by the two matrices of an adapter.

    Args:
        formula: That of the product with the frozen weight.
        x: The activations.
        adapter: The weight with its adapter.
        name_value: Names what is between both products, for policies of rematerialisation.
    """
    operands, result = formula.split("->")
    left, right = operands.split(",")
    rank = next(letter for letter in string.ascii_lowercase if letter not in left + right)
    summed = "".join(letter for letter in right if letter not in result)
    kept = "".join(letter for letter in left if letter not in summed)
    rest = "".join(letter for letter in right if letter in result)
    low = jnp.einsum(f"{left},{summed}{rank}->{kept}{rank}", x, adapter.down)
    return jnp.einsum(f"{kept}{rank},{rank}{rest}->{result}", name_value(low), adapter.up)


def quantise_array(x: jax.Array, dtype: Any, letters: str, summed: str) -> QuantisedArray:
    """Quantise an array with one scale for all elements along the dimensions ``summed``."""
    wide = x.astype(jnp.float32)
    dims = tuple(letters.index(letter) for letter in summed)
    largest = jnp.max(jnp.abs(wide), axis=dims, keepdims=True)
    if jnp.issubdtype(dtype, jnp.integer):
        scale = jnp.where(largest > 0, largest / jnp.iinfo(dtype).max, 1.0)
        return QuantisedArray(jnp.round(wide / scale).astype(dtype), scale, letters)
    _, exponent = jnp.frexp(largest / float(jnp.finfo(dtype).max))  # the mantissa is below 1
    scale = jnp.where(largest > 0, jnp.ldexp(jnp.ones_like(largest), exponent), 1.0)
    return QuantisedArray((wide / scale).astype(dtype), scale, letters)


def quantise_by_limit(x: jax.Array, dtype: Any, letters: str, limit: float) -> QuantisedArray:
    """Quantise an array to 8-bit floats with the constant scale that makes a limit the largest."""
    largest = float(jnp.finfo(dtype).max)
    scale = make_limit_scale(dtype, x.ndim, limit)
    values = jnp.clip(x.astype(jnp.float32) / scale, -largest, largest)
    return QuantisedArray(values.astype(dtype), scale, letters)


def make_limit_scale(dtype: Any, rank: int, limit: float) -> jax.Array:
    """Make the constant scale that makes a limit the largest value of 8-bit floats."""
    return jnp.full((1,) * rank, limit / float(jnp.finfo(dtype).max), jnp.float32)


def quantise_by_scale(x: jax.Array, dtype: Any, letters: str, scale: jax.Array) -> QuantisedArray:
    """Quantise an array to 8-bit floats with a scalar scale, in its own type as Flax does."""
    largest = jnp.asarray(jnp.finfo(dtype).max, x.dtype)
    values = lax.clamp(-largest, x / scale.astype(x.dtype), largest)
    return QuantisedArray(values.astype(dtype), scale.reshape((1,) * x.ndim), letters)


def find_largest(x: jax.Array) -> jax.Array:
    """Find the largest magnitude of an array, as f32."""
    return jnp.max(jnp.abs(x)).astype(jnp.float32)


def _name_quantised(array: QuantisedArray, *, has_constant_scale: bool) -> QuantisedArray:
    """Name values in 8 bits, and their scale, for policies of rematerialisation."""
    values, scale = checkpoint_name(array.values, QUANTISED), array.scale
    if not has_constant_scale:
        scale = checkpoint_name(scale, QUANTISED)
    return replace(array, values=values, scale=scale)


def _join_tokens(parts: Sequence[QuantisedArray]) -> QuantisedArray:
    """Join parts ``[b, s, ...]`` that have one scale."""
    if len(parts) == 1:
        return parts[0]
    return replace(parts[0], values=jnp.concatenate([part.values for part in parts], axis=1))


def multiply_arrays(
    a: QuantisedArray,
    b: QuantisedArray,
    result: str,
    dtype: Any,
    *,
    is_scaled_within: bool = False,
) -> jax.Array:
    """Multiply two quantised arrays, as ``dtype`` with the dimensions ``result``.

    ``is_scaled_within`` stands for a product whose kernel multiplies by both scales as one number.
    """
    is_integer = jnp.issubdtype(a.values.dtype, jnp.integer)
    sums, wide = (jnp.int32, jnp.float32) if is_integer else (dtype, dtype)
    total = contract_arrays(a.values, b.values, (a.letters, b.letters, result), sums).astype(wide)
    if is_scaled_within:
        return total * (a.scale.reshape(()) * b.scale.reshape(())).astype(wide)
    scales = [_align_scale(x, result).astype(wide) for x in (a, b)]
    if a.scale.size == b.scale.size == 1:
        return total * (scales[0] * scales[1])  # one factor, which the library applies
    return (total * scales[0] * scales[1]).astype(dtype)


def contract_arrays(
    a: jax.Array, b: jax.Array, letters: tuple[str, str, str], dtype: Any
) -> jax.Array:
    """Contract two arrays of any types; ``jnp.einsum`` has no products of mixed 8-bit types."""
    left, right, result = letters
    both = [letter for letter in left if letter in right]
    batch = [letter for letter in both if letter in result]
    summed = [letter for letter in both if letter not in result]

    def find_dims(kind: list[str]) -> tuple[list[int], list[int]]:
        return [left.index(letter) for letter in kind], [right.index(letter) for letter in kind]

    numbers = (find_dims(summed), find_dims(batch))
    product = lax.dot_general(a, b, numbers, preferred_element_type=dtype)
    made = [*batch, *(x for x in left if x not in both), *(x for x in right if x not in both)]
    return lax.transpose(product, [made.index(letter) for letter in result])


def _align_scale(array: QuantisedArray, result: str) -> jax.Array:
    """Arrange the dimensions of a scale like those of a product; summed ones have one element."""
    summed = [i for i, letter in enumerate(array.letters) if letter not in result]
    letters = [letter for letter in array.letters if letter in result]
    scale = jnp.squeeze(array.scale, summed)
    scale = lax.transpose(scale, [letters.index(x) for x in result if x in letters])
    return jnp.expand_dims(scale, [i for i, x in enumerate(result) if x not in letters])
