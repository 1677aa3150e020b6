"""A decoder on one device: layers, loss, decoding.

Letters in shapes: b sequences of this device, s tokens of a sequence, t tokens attended to, e
embedding, h heads, g groups (key-value heads), d head size, f MLP width, v vocabulary.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from hespas.frontends.recipes.attention_checks import check_attention
from hespas.frontends.recipes.attention_ops import (
    AttentionInputs,
    apply_rotation,
    cap_values,
    compute_alibi_bias,
    compute_attention,
    compute_fused_attention,
    compute_mask,
    compute_rotation,
    compute_splash_attention,
)
from hespas.frontends.recipes.cached_attention import compute_cached_attention
from hespas.frontends.recipes.context_chunks import compute_chunk_positions, restore_token_order
from hespas.frontends.recipes.delayed_scaling import PRODUCT_SCALES, gather_delayed_weight
from hespas.frontends.recipes.eager_operators import (
    isolate_part,
    isolate_value,
    run_elementwise,
    run_operator,
)
from hespas.frontends.recipes.language_models import DecoderModel
from hespas.frontends.recipes.latent_attention import project_latent_heads
from hespas.frontends.recipes.layer_ops import ACTIVATIONS, apply_gate, apply_norm
from hespas.frontends.recipes.layer_weights import (
    BIAS,
    EMBEDDING,
    POSITIONS,
    SCALE,
    UNEMBEDDING,
    Tree,
    get_weight_axes,
)
from hespas.frontends.recipes.parallel import VOCAB, MeshParallelism
from hespas.frontends.recipes.quantised_products import (
    ProductScheme,
    QuantisedArray,
    multiply_weight,
)
from hespas.frontends.recipes.rematerialisation import (
    CONTEXT,
    RESIDUAL,
    choose_policy,
    list_layer_policies,
    name_heads,
    wrap_in_remat,
)
from hespas.frontends.recipes.ring_attention import AttentionRing, make_cudnn_kernels
from hespas.frontends.recipes.vocabulary import (
    add_loss_metrics,
    average_over_tokens,
    choose_likeliest,
    compute_token_losses,
    embed_vocabulary,
)
from hespas.support.errors import UsageError

WeightGetter = Callable[[str], Any]  # of a jax.Array, a QuantisedArray or a DelayedWeight
Mlp = Callable[[jax.Array, WeightGetter], tuple[jax.Array, jax.Array | None]]


@dataclass(frozen=True)
class Decoder:
    """The layers of a model on one device of ``p``; activations have type ``dtype``.

    Attributes:
        mlp: What replaces the dense MLP in layers with experts.
        remat: What a layer keeps for its gradient, see ``rematerialisation``.
        attention: ``dot_product``, or ``cudnn`` for cuDNN's fused causal attention.
        scheme: How the products of layers with weights are computed in 8 bits; None in ``dtype``.
        logits_dtype: The type of the logits; the loss is computed in f32.
        vocab_tiles: In how many parts of the tokens the logits are computed, one after the other.
        loss_metrics: How many metrics compute the loss again from the logits.
    """

    m: DecoderModel
    p: MeshParallelism
    dtype: Any
    remat: str = "none"
    mlp: Mlp | None = None
    attention: str = "dot_product"
    scheme: ProductScheme | None = None
    logits_dtype: Any = jnp.float32
    vocab_tiles: int = 1
    loss_metrics: int = 0

    def __post_init__(self) -> None:
        policies = list_layer_policies(self.remat)
        for policy in policies:
            choose_policy(policy)  # so that an unknown name is an error here
        if not self.p.manual and {"weights", "eager_weights"} & set(policies):
            raise UsageError(
                f"remat '{self.remat}' needs explicit collectives", remedy="use partitioning=manual"
            )
        if self.vocab_tiles > 1 and not self.p.manual:
            raise UsageError(
                "option 'vocab_tiles' needs explicit collectives", remedy="use partitioning=manual"
            )
        check_attention(self.attention, self.m, self.p)

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

    def gather_tied_embedding(self, params: Tree) -> Tree:
        """Gather an embedding that the logits use too, once for both; other models keep theirs."""
        if not self.m.tied:
            return params
        return {**params, "tied_table": self.gather_embedding(params)}

    def gather_embedding(self, params: Tree) -> jax.Array:
        """Gather the embedding, unless `gather_tied_embedding` has."""
        if "tied_table" in params:
            return params["tied_table"]
        return self.p.gather_weight(params["embedding"], EMBEDDING, self.dtype)

    def make_getter(self, w: Tree) -> WeightGetter:
        """Make the function that gathers a weight of ``w`` by its name."""

        def gather_layer_weight(name: str) -> Any:
            if self.scheme and name + PRODUCT_SCALES in w:
                return gather_delayed_weight(self.p, self.scheme, w, name, self.dtype)
            stored, scale = w[name], w.get(name + SCALE)
            dtype = self.dtype if scale is None else stored.dtype
            weight = self.p.gather_weight(stored, get_weight_axes(w, name), dtype)
            return weight if scale is None else QuantisedArray(weight, scale, "")

        return gather_layer_weight

    def embed_tokens(self, params: Tree, tokens: jax.Array) -> jax.Array:
        """Embed tokens ``[b, s]`` to ``[b, s, e]``; each device holds a part of the vocabulary."""

        def embed_rows(table: jax.Array) -> jax.Array:
            return embed_vocabulary(self.p, table, tokens)

        x = self._run_operator(embed_rows, self.gather_embedding(params))
        if self.m.scaled_embedding:
            x = x * jnp.asarray(self.m.emb**0.5, self.dtype)
        return self._add_learned_positions(params, x)

    def _add_learned_positions(self, params: Tree, x: jax.Array) -> jax.Array:
        """Add the learned positions, if any, of the tokens ``[b, s, e]`` on this device."""
        if self.m.positions != "learned":
            return x
        table = self.p.gather_weight(params["positions"], POSITIONS, self.dtype)
        axes = ("context", "tensor") if self.p.sequence else ("context",)
        if self.p.manual and self.p.get_split_axes(*axes):
            table = self.p.mark_varying(table, *axes)
            if self.has_chunks:
                return x + jnp.take(table, self.compute_positions(x.shape[1]), axis=0, mode="clip")
            first = self.p.get_part_index(*axes) * x.shape[1]
            table = lax.dynamic_slice_in_dim(table, first, x.shape[1])
        return self._run_operator(jnp.add, x, table)

    def compute_logits(self, params: Tree, x: jax.Array) -> jax.Array:
        """Compute logits ``[b, s, v]`` from ``[b, s, e]`` for the local vocabulary."""
        return self._unembed(self._gather_unembedding(params), self._apply_final_norm(params, x))

    def compute_loss(self, params: Tree, x: jax.Array, targets: jax.Array) -> jax.Array:
        """Compute the mean cross-entropy over the tokens of all devices.

        Gradients need the logits of all tokens, unless there are ``vocab_tiles``: then a loop
        computes them in parts, and again for the gradients.

        Raises:
            UsageError: If the tokens of a device cannot be divided into the parts.
        """
        x, table = self._apply_final_norm(params, x), self._gather_unembedding(params)

        def compute_losses(tile: tuple[jax.Array, jax.Array]) -> jax.Array:
            logits, tile_targets = self._unembed(table, tile[0]), tile[1]

            def compute_loss(logits: jax.Array) -> jax.Array:
                return compute_token_losses(self.p, logits, tile_targets)

            losses = self._run_operator(compute_loss, logits)
            return add_loss_metrics(self.p, losses, logits, tile_targets, self.loss_metrics)

        if self.vocab_tiles == 1:
            return average_over_tokens(self.p, compute_losses((x, targets)))
        if targets.size % self.vocab_tiles:
            raise UsageError(
                f"the {targets.size} tokens of a device are not divisible by "
                f"vocab_tiles={self.vocab_tiles}"
            )
        shape = (self.vocab_tiles, 1, targets.size // self.vocab_tiles)
        tiles = (x.reshape(*shape, x.shape[-1]), targets.reshape(shape))
        return average_over_tokens(self.p, lax.map(jax.checkpoint(compute_losses), tiles))

    def _apply_final_norm(self, params: Tree, x: jax.Array) -> jax.Array:
        x = self._normalise(x, self.make_getter(params), "final_norm")
        return self.p.prepare_column_input(x, *VOCAB)

    def _gather_unembedding(self, params: Tree) -> jax.Array:
        if self.m.tied:
            return self.gather_embedding(params)
        return self.p.gather_weight(params["unembedding"], UNEMBEDDING, self.dtype)

    def _unembed(self, table: jax.Array, x: jax.Array) -> jax.Array:
        product = "bse,ve->bsv" if self.m.tied else "bse,ev->bsv"
        logits = jnp.einsum(product, x, table, preferred_element_type=self.logits_dtype)
        return cap_values(logits, self.m.logit_cap)

    def choose_next_token(self, params: Tree, x: jax.Array) -> jax.Array:
        """Choose the likeliest next token ``[b]`` after the last position of ``[b, s, e]``."""
        return choose_likeliest(self.p, self.compute_logits(params, x[:, -1:])[:, 0], self.m.vocab)

    def compute_positions(self, tokens: int) -> jax.Array:
        """Compute the positions in their sequences of the ``tokens`` columns on this device."""
        if self.has_chunks:
            index, devices = self.p.get_part_index("context"), self.p.count_parts("context")
            return compute_chunk_positions(index, devices, tokens)
        return self.p.get_part_index("context") * tokens + jnp.arange(tokens)

    def run_layers(self, layers: Any, x: jax.Array, positions: jax.Array) -> tuple[jax.Array, Any]:
        """Run all layers; returns the sum of the extra losses too (None without experts).

        Raises:
            UsageError: If layers of a loop have several policies of rematerialisation.
        """
        is_loop, policies = not isinstance(layers, list), list_layer_policies(self.remat)
        if is_loop and len(policies) > 1:
            raise UsageError(
                f"the layers of a loop cannot differ by remat '{self.remat}'",
                remedy="use scan=false",
            )
        count = math.lcm(self.m.period, len(policies))
        period = [self._make_layer(i, positions, is_loop) for i in range(count)]
        if not is_loop:
            x, extras = _run_in_turn(period, x, layers)
        elif "loop" in layers:
            x, _ = _run_in_turn(period, x, layers["first"])
            x, extras = lax.scan(lambda x, ws: _run_in_turn(period, x, ws), x, layers["loop"])
            x, further = _run_in_turn(period, x, layers["rest"])
            extras = [extras, further]
        else:
            x, extras = lax.scan(period[0], x, layers)
        if not self.m.experts:
            return x, None
        return x, sum(map(jnp.sum, jax.tree.leaves(extras)))

    def _make_layer(self, number: int, positions: jax.Array, is_loop: bool) -> Callable[..., Any]:
        """Make the function of a layer, (activations, weights) -> (activations, extra loss)."""
        inputs = self._make_attention_inputs(number, positions)
        policies = list_layer_policies(self.remat)

        def run_one_layer(x: jax.Array, w: Tree) -> tuple[jax.Array, Any]:
            x, _, extra = self.apply_layer(x, w, inputs)
            return x, extra

        return wrap_in_remat(run_one_layer, policies[number % len(policies)], is_loop=is_loop)

    def _make_attention_inputs(self, number: int, positions: jax.Array) -> AttentionInputs:
        """Make what the attention of layer ``number`` of a period depends on."""
        window = self.m.get_window(number)
        keys = jnp.arange(len(positions) * self.p.count_parts("context"))
        theta = self.m.local_rope_theta if window else 0.0
        return AttentionInputs(
            compute_rotation(positions, self.m, theta),
            compute_mask(positions, keys, window, causal=self.m.causal),
            window,
            compute_alibi_bias(self.p, self.m, positions, keys),
            causal=self.m.causal,
        )

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
        h = self.p.prepare_column_input(checkpoint_name(h, "attention_input"))
        q, k, v = self._project_heads(h, get, inputs, encoded)
        if cache is not None:
            k, v = cache(k, v)
        if not self.is_ring:
            k, v = self.p.gather_context(k), self.p.gather_context(v)
        if self.m.sinks:
            inputs = dataclasses.replace(inputs, sinks=get("sinks"))
        mixed = self.p.constrain_heads(self._attend(self.p.constrain_heads(q), k, v, inputs))
        mixed = checkpoint_name(mixed, CONTEXT)
        out = self.p.reduce_row_output(self.multiply_weight("bshd,hde->bse", mixed, get("wo")))
        out = self._finish_block(out, get, "out_proj", "wo", "attention_post_norm")
        return self._add_residual(x, out, get, "attention_norm"), (k, v)

    def apply_mlp(self, x: jax.Array, w: Tree) -> tuple[jax.Array, Any]:
        """Apply the MLP, its norm and the residual sum.

        Returns:
            The sum, and the extra loss (None without experts).
        """
        get = self.make_getter(w)
        h = x if self.m.norms_after_sums else self._normalise(x, get, "mlp_norm")
        h = checkpoint_name(h, "mlp_input")
        if self.mlp is not None and "router" in w:
            out, extra = self.mlp(h, get)
        else:
            out, extra = self._apply_dense_mlp(h, get), None
        out = self.p.reduce_row_output(out)
        bias = None if "router" in w else "down"  # experts have biases of their own
        out = self._finish_block(out, get, "mlpwo", bias, "mlp_post_norm")
        return self._add_residual(x, out, get, "mlp_norm"), extra

    def _run_operator(self, operator: Callable[..., jax.Array], *inputs: jax.Array) -> jax.Array:
        return run_operator(self.p.eager, operator, *inputs)

    def _normalise(self, x: jax.Array, get: WeightGetter, name: str) -> jax.Array:
        return self._run_operator(lambda x: apply_norm(x, self.m, get, name), x)

    def _add_residual(
        self, x: jax.Array, out: jax.Array, get: WeightGetter, norm: str
    ) -> jax.Array:
        """Add the output of a block to its input, and normalise the sum if norms follow sums."""
        x = self._run_operator(jnp.add, x, out)
        x = checkpoint_name(x, RESIDUAL) if self.p.eager else x
        return self._normalise(x, get, norm) if self.m.norms_after_sums else x

    def _project_heads(
        self,
        h: jax.Array,
        get: WeightGetter,
        inputs: AttentionInputs,
        encoded: jax.Array | None = None,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Compute queries, keys and values ``[b, s or t, h or g, d]``."""
        if self.m.kv_rank:
            q, k, v = project_latent_heads(self.m, h, get, inputs.rotation)
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

    def _project_into_heads(self, x: jax.Array, get: WeightGetter, name: str) -> jax.Array:
        """Multiply activations ``[b, s, e]`` by a weight ``[e, h, d]``, and add the bias.

        A library adds the bias in the epilogue of the product if it is a vector.
        """
        weight = get(name)
        if not (self.p.eager and isinstance(weight, jax.Array)):
            return self._add_bias(self.multiply_weight("bse,ehd->bshd", x, weight), get, name)
        flat = weight.reshape(weight.shape[0], -1)
        heads = self.multiply_weight("bse,ef->bsf", x, flat)
        if self.m.biases:
            heads = heads + get(name + BIAS).reshape(-1)
        return isolate_part(heads).reshape(*x.shape[:2], *weight.shape[1:])

    def _add_bias(self, x: jax.Array, get: WeightGetter, weight: str) -> jax.Array:
        return x + get(weight + BIAS) if self.m.biases else x

    def _finish_block(
        self, out: jax.Array, get: WeightGetter, name: str, weight: str | None, norm: str
    ) -> jax.Array:
        """Finish the output of attention or MLP: the bias, the checkpoint name, the norm."""
        out = checkpoint_name(self._add_bias(out, get, weight) if weight else out, name)
        return self._normalise(out, get, norm) if self.m.post_norms else out

    def _apply_dense_mlp(self, h: jax.Array, get: WeightGetter) -> jax.Array:
        h = self.p.prepare_column_input(h)

        def project_input(weight: str, name: str) -> jax.Array:
            x = self._add_bias(self.multiply_weight("bse,ef->bsf", h, get(weight)), get, weight)
            return checkpoint_name(isolate_value(x) if self.p.eager else x, name)

        if self.m.gated:
            gate, up = project_input("gate", "mlpwi_0"), project_input("up", "mlpwi_1")
            gate_up = functools.partial(apply_gate, self.m)
            hidden = run_elementwise(self.p.eager, gate_up, gate, up)
        else:
            activation = ACTIVATIONS[self.m.activation]
            hidden = run_elementwise(self.p.eager, activation, project_input("up", "mlpwi"))
        hidden = checkpoint_name(hidden, "mlp_hidden")
        return self.multiply_weight("bsf,fe->bse", hidden, get("down"))

    def multiply_weight(self, formula: str, x: jax.Array, weight: jax.Array) -> jax.Array:
        """Multiply activations by a weight of a layer, by a formula of ``jnp.einsum``."""
        return multiply_weight(self.scheme, formula, x, weight)

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
                q, k, v, inputs, scale=scale, cap=self.m.score_cap, wide=self.m.wide_scores
            )
        if self.is_ring:
            kernels = make_cudnn_kernels(scale)
            return AttentionRing("context", devices, kernels, CONTEXT).attend(q, k, v)
        if self.has_chunks:
            k, v = (restore_token_order(x, devices, axis=1) for x in (k, v))
        if self.attention == "splash":
            part = (self.p.get_part_index("context"), devices)
            return compute_splash_attention(
                q, k, v, inputs, part, scale=scale, cap=self.m.score_cap
            )
        return compute_fused_attention(q, k, v, inputs, scale=scale)


def _run_in_turn(
    layers: Sequence[Callable[..., Any]], x: jax.Array, weights: Sequence[Tree]
) -> tuple[jax.Array, list[Any]]:
    """Run ``x`` through one layer for each of ``weights``; the functions take turns."""
    extras = []
    for number, w in enumerate(weights):
        x, extra = layers[number % len(layers)](x, w)
        extras.append(extra)
    return x, extras
