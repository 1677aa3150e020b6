"""A decoder on one device: embedding, layers, loss, decoding.

Letters in shapes: b sequences of this device, s tokens of a sequence, e embedding, v vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from hespas.recipes.attention_ops import (
    AttentionInputs,
    cap_values,
    compute_alibi_bias,
    compute_mask,
    compute_rotation,
)
from hespas.recipes.context_chunks import compute_chunk_positions
from hespas.recipes.layer_weights import EMBEDDING, POSITIONS, UNEMBEDDING, Tree
from hespas.recipes.parallel import VOCAB
from hespas.recipes.rematerialisation import (
    choose_policy,
    list_layer_policies,
    wrap_in_remat,
)
from hespas.recipes.transformer_layer import TransformerLayer
from hespas.recipes.vocabulary import (
    add_loss_metrics,
    average_over_tokens,
    choose_likeliest,
    compute_separate_losses,
    compute_token_losses,
    embed_vocabulary,
)
from hespas.support.errors import UsageError


@dataclass(frozen=True)
class Decoder(TransformerLayer):
    """The layers of a model with its embedding and logits.

    Attributes:
        remat: What a layer keeps for its gradient, see ``rematerialisation``.
        logits_dtype: The type of the logits; the loss is computed in f32.
        vocab_tiles: In how many parts of the tokens the logits are computed, one after the other.
        loss_metrics: How many metrics compute the loss again from the logits.
        separate_loss: Whether each operation of the loss has a kernel of its own.
    """

    remat: str = "none"
    logits_dtype: Any = jnp.float32
    vocab_tiles: int = 1
    loss_metrics: int = 0
    separate_loss: bool = False

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
        super().__post_init__()

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
                compute = compute_separate_losses if self.separate_loss else compute_token_losses
                return compute(self.p, logits, tile_targets)

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


def _run_in_turn(
    layers: Sequence[Callable[..., Any]], x: jax.Array, weights: Sequence[Tree]
) -> tuple[jax.Array, list[Any]]:
    """Run ``x`` through one layer for each of ``weights``; the functions take turns."""
    extras = []
    for number, w in enumerate(weights):
        x, extra = layers[number % len(layers)](x, w)
        extras.append(extra)
    return x, extras
