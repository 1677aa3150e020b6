"""A layer of a transformer on one device: attention, MLP, and their norms and residual sums.

Letters in shapes: b sequences of this device, s tokens of a sequence, t tokens attended to, e
embedding, h heads, g groups (key-value heads), d head size, f MLP width.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from hespas.recipes.attention_ops import (
    AttentionInputs,
    apply_rotation,
    compute_attention,
    compute_fused_attention,
    compute_splash_attention,
)
from hespas.recipes.block_products import BlockScheme, FrozenWeight
from hespas.recipes.cached_attention import compute_cached_attention
from hespas.recipes.context_chunks import restore_token_order
from hespas.recipes.delayed_scaling import PRODUCT_SCALES, gather_delayed_weight
from hespas.recipes.eager_operators import (
    copy_array,
    isolate_gradient,
    isolate_part,
    isolate_value,
    run_elementwise,
    run_operator,
)
from hespas.recipes.head_exchange import attend_by_heads
from hespas.recipes.language_models import DecoderModel
from hespas.recipes.latent_attention import project_latent_heads
from hespas.recipes.layer_ops import ACTIVATIONS, apply_gate, apply_norm
from hespas.recipes.layer_weights import (
    ADAPTER_DOWN,
    ADAPTER_UP,
    ATTENTION,
    BIAS,
    DENSE,
    SCALE,
    Tree,
    get_weight_axes,
)
from hespas.recipes.parallel import RECEIVED, MeshParallelism
from hespas.recipes.quantised_products import (
    AdaptedWeight,
    ProductScheme,
    QuantisedArray,
    Scheme,
    StoredWeight,
    multiply_adapter,
    multiply_weight,
    multiply_weight_by_parts,
)
from hespas.recipes.rematerialisation import CONTEXT, LOW_RANK, RESIDUAL, name_heads
from hespas.recipes.ring_attention import AttentionRing, make_cudnn_kernels
from hespas.recipes.ring_products import TokenParts, TokenRing
from hespas.support.errors import UsageError

WeightGetter = Callable[[str], Any]  # a jax.Array or a class of quantised_products
Mlp = Callable[[jax.Array, WeightGetter], tuple[jax.Array, jax.Array | None]]
SeparateKernels = Literal["megatron", "megatron_te"]
# Weights whose adapters read what the dropout before another adapter wrote
_SHARED_INPUTS = frozenset({"wk", "wv", "gate"})
# Weights whose products are summed over devices of ``tensor``
_ROW_WEIGHTS = frozenset({"wo", "down"})


@dataclass(frozen=True)
class TransformerLayer:
    """A layer of a model on one device of ``p``; activations have type ``dtype``.

    Attributes:
        mlp: What replaces the dense MLP in layers with experts.
        attention: ``dot_product``, or ``cudnn`` for cuDNN's fused causal attention.
        scheme: How the products of layers with weights are computed in few bits; None in ``dtype``.
        repeated_heads: Whether keys and values are copied for each head of the queries.
        ring_branches: Whether each device runs the kernels of its own chunks, see ring_attention.
        exchange_heads: Whether devices of ``context`` exchange tokens for heads, see head_exchange.
        separate_kernels: The framework that runs operators between products as kernels of their
            own; None if XLA fuses them. See ``runs_apart``.
    """

    m: DecoderModel
    p: MeshParallelism
    dtype: Any
    mlp: Mlp | None = None
    attention: str = "dot_product"
    scheme: Scheme | None = None
    repeated_heads: bool = False
    ring_branches: bool = False
    exchange_heads: bool = False
    separate_kernels: SeparateKernels | None = None

    def __post_init__(self) -> None:
        check_attention(self.attention, self.m, self.p)
        # The gradients of delayed scales are maxima, which products in steps would sum.
        is_delayed = isinstance(self.scheme, ProductScheme) and self.scheme.delayed
        if self.p.ring_products and (self.m.kv_rank or is_delayed):
            raise UsageError(
                "option 'ring_products' has no latent attention and no delayed scaling",
                remedy="leave it out",
            )
        devices = self.p.count_parts("context")
        heads = {x // self.p.count_parts("tensor") for x in (self.m.heads, self.m.kv_heads)}
        if self.exchange_heads and (
            self.attention != "cudnn" or any(count % devices for count in heads)
        ):
            raise UsageError(
                "option 'exchange_heads' needs attention=cudnn, and heads that the devices of "
                f"mesh axis 'context', {devices}, divide",
                remedy="leave it out",
            )

    @property
    def runs_apart(self) -> bool:
        """Whether rotations, sums and activations are kernels of their own in both passes.

        Other kernels then convert their results to 8 bits. Megatron Core calls one kernel for each:
        its own, which torch.compile makes (megatron/core/fusions/fused_bias_swiglu.py and
        fused_bias_dropout.py), or TransformerEngine's (fused_rope.py of its attention). Those of
        TransformerEngine that convert what they compute are norms, unless adapters read the result
        too, and with ``use_transformer_engine_op_fuser`` (megatron_te) activations. Without its
        ``fused_single_qkv_rope`` (megatron_te too), the gradients of queries, keys and values are
        copied into one array (SplitAlongDim in get_query_key_value_tensors of
        megatron/core/transformer/attention.py).
        """
        return self.p.eager or self.separate_kernels is not None

    @property
    def has_chunks(self) -> bool:
        """Whether the devices of ``context`` have two chunks of a sequence, see context_chunks.

        Attention by products computes all pairs, so that the order is not important.
        """
        return self.attention != "dot_product" and bool(self.p.get_split_axes("context"))

    @property
    def is_ring(self) -> bool:
        """Whether keys and values travel around the devices of ``context``."""
        return self.attention == "cudnn" and self.has_chunks

    def make_getter(self, w: Tree) -> WeightGetter:
        """Make the function that gathers a weight of ``w`` by its name."""

        has_adapters = any(name.endswith(ADAPTER_DOWN) for name in w)
        is_frozen = has_adapters and isinstance(self.scheme, BlockScheme)

        def gather_layer_weight(name: str) -> Any:
            if name + ADAPTER_DOWN not in w:
                return gather_whole_weight(name)
            frozen, down, up = map(
                gather_whole_weight, (name, name + ADAPTER_DOWN, name + ADAPTER_UP)
            )
            is_apart = self.separate_kernels is not None
            is_part = name in _ROW_WEIGHTS and bool(self.p.get_split_axes("tensor"))
            return AdaptedWeight(
                frozen,
                down,
                up,
                is_dropped=is_apart and name not in _SHARED_INPUTS,
                is_scaled=is_apart and not is_part,
            )

        def gather_whole_weight(name: str) -> Any:
            if isinstance(self.scheme, ProductScheme) and name + PRODUCT_SCALES in w:
                return gather_delayed_weight(self.p, self.scheme, w, name, self.dtype)
            stored, scale = w[name], w.get(name + SCALE)
            if isinstance(stored, StoredWeight):
                axes, values = get_weight_axes(w, name), stored.values
                return StoredWeight(
                    self.p.gather_weight(stored.carrier, axes, self.dtype),
                    self.p.gather_weight(values, axes, values.dtype),
                )
            dtype = self.dtype if scale is None else stored.dtype
            weight = self.p.gather_weight(stored, get_weight_axes(w, name), dtype)
            if scale is not None:
                return QuantisedArray(weight, scale, "")
            return FrozenWeight(weight) if is_frozen and name in ATTENTION | DENSE else weight

        return gather_layer_weight

    def apply_layer(
        self, x: jax.Array, w: Tree, inputs: AttentionInputs, cache: Any = None
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array], Any]:
        """Apply one layer.

        Args:
            x: Activations ``[b, s, e]``.
            w: The weights of the layer.
            inputs: What its attention depends on besides.
            cache: Maps the new keys and values to all those to attend to.

        Returns:
            The output, the keys and values ``[b, t, g, d]``, and the extra loss (None without
            experts).
        """
        x, keys_and_values = self.apply_attention(x, w, inputs, cache=cache)
        x, extra = self.apply_mlp(x, w)
        return x, keys_and_values, extra

    def apply_attention(
        self,
        x: jax.Array,
        w: Tree,
        inputs: AttentionInputs,
        *,
        encoded: jax.Array | None = None,
        cache: Any = None,
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        """Apply attention, its norm and the residual sum.

        Args:
            x: Activations ``[b, s, e]``.
            w: The weights of the layer.
            inputs: What attention depends on besides.
            encoded: Activations ``[b, t, e]`` that are attended to; None for ``x``.
            cache: Maps the new keys and values to all those to attend to.

        Returns:
            The sum, and the keys and values ``[b, t, g, d]``.
        """
        get = self.make_getter(w)
        x = checkpoint_name(x, "decoder_layer_input")
        h = x if self.m.norms_after_sums else self._normalise(x, get, "attention_norm")
        h = self._isolate_norm(checkpoint_name(h, "attention_input"), w, "wq")
        h = self._gather_tokens(h)
        q, k, v = self._project_heads(h, get, inputs, encoded)
        if cache is not None:
            k, v = cache(k, v)
        if self.repeated_heads:
            k, v = (jnp.repeat(x, q.shape[2] // x.shape[2], axis=2) for x in (k, v))
        if not self.is_ring:
            k, v = self.p.gather_context(k), self.p.gather_context(v)
        if self.m.sinks:
            inputs = dataclasses.replace(inputs, sinks=get("sinks"))
        mixed = self.p.constrain_heads(self._attend(self.p.constrain_heads(q), k, v, inputs))
        mixed = checkpoint_name(mixed, CONTEXT)
        out = self._multiply_rows("bshd,hde->bse", mixed, get("wo"))
        out = self._finish_block(out, get, "out_proj", "wo", "attention_post_norm")
        return self._add_residual(x, out, get, "attention_norm"), (k, v)

    def apply_mlp(self, x: jax.Array, w: Tree) -> tuple[jax.Array, Any]:
        """Apply the MLP, its norm and the residual sum.

        Returns:
            The sum, and the extra loss (None without experts).
        """
        get = self.make_getter(w)
        h = x if self.m.norms_after_sums else self._normalise(x, get, "mlp_norm")
        h = self._isolate_norm(checkpoint_name(h, "mlp_input"), w, "up")
        if self.mlp is not None and "router" in w:
            out, extra = self.mlp(h, get)
            out = self.p.reduce_row_output(out)
        else:
            out, extra = self._apply_dense_mlp(h, get), None
        bias = None if "router" in w else "down"  # experts have biases of their own
        out = self._finish_block(out, get, "mlpwo", bias, "mlp_post_norm")
        return self._add_residual(x, out, get, "mlp_norm"), extra

    def _run_operator(self, operator: Callable[..., jax.Array], *inputs: jax.Array) -> jax.Array:
        return run_operator(self.runs_apart, operator, *inputs)

    def _normalise(self, x: jax.Array, get: WeightGetter, name: str) -> jax.Array:
        x = isolate_value(x) if self.runs_apart else x
        normalised = apply_norm(x, self.m, get, name)
        return isolate_value(normalised) if self.p.eager else normalised

    def _isolate_norm(self, h: jax.Array, w: Tree, weight: str) -> jax.Array:
        """Keep a norm from converting its result, which the adapter of a weight reads too.

        TransformerEngine then converts it by another kernel (with_quantized_norm of
        transformer_engine/pytorch/module/layernorm_linear.py).
        """
        is_read = weight + ADAPTER_DOWN in w
        return isolate_value(h) if self.separate_kernels and is_read else h

    def _add_residual(
        self, x: jax.Array, out: jax.Array, get: WeightGetter, norm: str
    ) -> jax.Array:
        """Add the output of a block to its input, and normalise the sum if norms follow sums."""
        x = self._run_operator(jnp.add, x, out)
        x = checkpoint_name(x, RESIDUAL) if self.runs_apart else x
        return self._normalise(x, get, norm) if self.m.norms_after_sums else x

    def _project_heads(
        self,
        h: jax.Array,
        get: WeightGetter,
        inputs: AttentionInputs,
        encoded: jax.Array | None,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Compute queries, keys and values ``[b, s or t, h or g, d]``."""
        if self.m.kv_rank:
            q, k, v = project_latent_heads(self.m, h, get, inputs.rotation, is_eager=self.p.eager)
            return name_heads(*map(self.p.constrain_heads, (q, k, v)))

        source = h if encoded is None else self.p.prepare_column_input(encoded)

        def project_input(weight: str, norm: str | None) -> jax.Array:
            x = h if weight == "wq" else source
            x = self.p.constrain_heads(self._project_into_heads(x, get, weight))
            if norm is None:
                return x
            x = self._normalise(x, get, norm) if self.m.head_norms else x
            if inputs.rotation is None:
                return x
            return self._run_operator(lambda x: apply_rotation(x, inputs.rotation), x)

        return name_heads(
            project_input("wq", "query_norm"),
            project_input("wk", "key_norm"),
            project_input("wv", None),
        )

    def _project_into_heads(
        self, x: jax.Array | TokenParts, get: WeightGetter, name: str
    ) -> jax.Array:
        """Multiply activations ``[b, s, e]`` by a weight ``[e, h, d]``, and add the bias.

        A library adds the bias in the epilogue of the product if it is a vector.
        """
        weight = get(name)
        if isinstance(x, TokenParts) or not (self.p.eager and isinstance(weight, jax.Array)):
            heads = self.multiply_weight("bse,ehd->bshd", x, weight)
            heads = self._add_bias(heads, get, name)
            return isolate_part(heads) if self.separate_kernels == "megatron" else heads
        flat = weight.reshape(weight.shape[0], -1)
        heads = self.multiply_weight("bse,ef->bsf", x, flat)
        if self.m.has_bias(name):
            heads = heads + get(name + BIAS).reshape(-1)
        return isolate_part(heads).reshape(*x.shape[:2], *weight.shape[1:])

    def _add_bias(self, x: jax.Array, get: WeightGetter, weight: str) -> jax.Array:
        return x + get(weight + BIAS) if self.m.has_bias(weight) else x

    def _finish_block(
        self, out: jax.Array, get: WeightGetter, name: str, weight: str | None, norm: str
    ) -> jax.Array:
        """Finish the output of attention or MLP: the bias, the checkpoint name, the norm."""
        out = checkpoint_name(self._add_bias(out, get, weight) if weight else out, name)
        return self._normalise(out, get, norm) if self.m.post_norms else out

    def _apply_dense_mlp(self, x: jax.Array, get: WeightGetter) -> jax.Array:
        h = self._gather_tokens(x)

        def project_input(weight: str, name: str) -> jax.Array:
            x = self._add_bias(self.multiply_weight("bse,ef->bsf", h, get(weight)), get, weight)
            return checkpoint_name(isolate_value(x) if self.p.eager else x, name)

        if self.m.gated:
            gate, up = project_input("gate", "mlpwi_0"), project_input("up", "mlpwi_1")
            hidden = self._activate(functools.partial(apply_gate, self.m), gate, up)
        else:
            activation = ACTIVATIONS[self.m.activation]
            hidden = self._activate(activation, project_input("up", "mlpwi"))
        hidden = checkpoint_name(hidden, "mlp_hidden")
        return self._multiply_rows("bsf,fe->bse", hidden, get("down"))

    def _activate(self, activation: Callable[..., jax.Array], *inputs: jax.Array) -> jax.Array:
        """Apply an activation, by kernels of its own unless XLA or TransformerEngine fuses it.

        Its inputs are not kept apart from products, which are library calls. So no kernel joins
        the parts of the tokens before it; TransformerEngine's products write them in their places.
        """
        if self.separate_kernels != "megatron":
            return run_elementwise(self.p.eager, activation, *inputs)
        return isolate_value(jax.checkpoint(activation)(*map(isolate_gradient, inputs)))

    def multiply_weight(self, formula: str, x: jax.Array | TokenParts, weight: Any) -> jax.Array:
        """Multiply activations by a weight of a layer, by a formula of ``jnp.einsum``."""
        if isinstance(x, TokenParts):
            return x.map_parts(lambda parts: self._multiply_parts(formula, parts, weight))
        if not isinstance(weight, AdaptedWeight):
            return multiply_weight(self.scheme, formula, x, weight)
        product = multiply_weight(self.scheme, formula, x, weight.frozen)
        x = checkpoint_name(copy_array(x), LOW_RANK) if weight.is_dropped else x
        change = multiply_adapter(formula, x, weight, lambda low: checkpoint_name(low, LOW_RANK))
        if weight.is_scaled:
            change = copy_array(change)  # the product with alpha / rank
        return run_operator(self.p.eager or weight.is_scaled, jnp.add, product, change)

    def _multiply_parts(
        self, formula: str, parts: Sequence[jax.Array], weight: Any
    ) -> list[jax.Array]:
        """Multiply each part ``[b, s, ...]`` of activations by a weight of a layer."""
        if isinstance(weight, AdaptedWeight):
            return [self.multiply_weight(formula, part, weight) for part in parts]
        return multiply_weight_by_parts(self.scheme, formula, parts, weight)

    def _multiply_rows(self, formula: str, x: jax.Array, weight: Any) -> jax.Array:
        """Multiply by a weight whose rows ``tensor`` splits, and sum the results."""
        ring = self._find_ring()
        if ring is None:
            return self.p.reduce_row_output(self.multiply_weight(formula, x, weight))
        total = ring.sum_products(lambda parts: self._multiply_parts(formula, parts, weight), x)
        return checkpoint_name(total, RECEIVED)

    def _gather_tokens(self, x: jax.Array) -> Any:
        """Gather tokens ``[b, s, e]`` for products; as ``TokenParts`` if these have steps."""
        ring = self._find_ring()
        return self.p.prepare_column_input(x) if ring is None else ring.gather_parts(x)

    def _find_ring(self) -> TokenRing | None:
        has_steps = self.p.ring_products and self.p.get_split_axes("tensor")
        return TokenRing("tensor", self.p.count_parts("tensor")) if has_steps else None

    def _attend(
        self, q: jax.Array, k: jax.Array, v: jax.Array, inputs: AttentionInputs
    ) -> jax.Array:
        """Compute attention ``[b, s, h, d]``."""
        scale, devices = self.m.score_scale, self.p.count_parts("context")
        if inputs.cached is not None:
            return compute_cached_attention(
                self.attention, q, k, v, inputs, scale=scale, cap=self.m.score_cap
            )
        if self.attention == "dot_product":
            return compute_attention(
                q, k, v, inputs, scale=scale, cap=self.m.score_cap, wide=self.m.wide_scores,
                late_division=self.m.late_division,
            )  # fmt: skip
        if self.exchange_heads and self.has_chunks:
            attend = functools.partial(compute_fused_attention, inputs=inputs, scale=scale)
            return attend_by_heads(attend, q, k, v, devices)
        if self.is_ring:
            kernels = make_cudnn_kernels(scale)
            ring = AttentionRing("context", devices, kernels, CONTEXT, self.ring_branches)
            return ring.attend(q, k, v)
        if self.has_chunks:
            k, v = (restore_token_order(x, devices, axis=1) for x in (k, v))
        if self.attention == "splash":
            part = (self.p.get_part_index("context"), devices)
            return compute_splash_attention(
                q, k, v, inputs, part, scale=scale, cap=self.m.score_cap
            )
        return compute_fused_attention(q, k, v, inputs, scale=scale)


def check_attention(attention: str, m: DecoderModel, p: MeshParallelism) -> None:
    """Check that a kernel of attention can compute that of a model; raises UsageError."""
    if attention == "dot_product":
        return
    has_bias = m.positions == "alibi"
    is_divided = bool(p.get_split_axes("context"))
    is_cudnn, is_splash = attention == "cudnn", attention == "splash"
    plain = "use attention=dot_product"
    for is_wrong, reason, remedy in (
        (
            is_divided and not p.manual,
            "needs explicit collectives over mesh axis 'context'",
            "use partitioning=manual or attention=dot_product",
        ),
        (
            is_cudnn and is_divided and (m.window or has_bias),
            "has no window and no bias of scores where mesh axis 'context' divides sequences",
            f"{plain} or a mesh without 'context'",
        ),
        (
            is_splash and (has_bias or not p.manual),
            "has no bias of scores, and XLA cannot divide its kernels",
            f"{plain}, or partitioning=manual without ALiBi",
        ),
        (
            m.positions == "relative",
            "has no biases of relative positions, which the model has",
            plain,
        ),
        (is_splash and not m.causal, "is causal, and the model is not", plain),
        (is_cudnn and m.sinks, "has no sinks, which the model has", f"{plain} or sinks=false"),
        (is_cudnn and m.score_cap, "has no limit of scores, which the model has", plain),
    ):
        if is_wrong:
            raise UsageError(f"attention '{attention}' {reason}", remedy=remedy)
