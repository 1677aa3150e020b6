"""Language models as data: dimensions, the parts of a layer, and options that change them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from hespas.support.errors import UsageError

Norm = Literal["rms", "layer"]
Activation = Literal["silu", "gelu", "gelu_tanh", "gelu_sigmoid", "relu"]
Positions = Literal["rotary", "learned", "alibi"]
Router = Literal["chosen_softmax", "softmax", "sigmoid"]
SizeOption = Annotated[int | None, "overrides the model's own"]
_HEAD_WEIGHTS = ("wq", "wk", "wv")
_ZERO_OPTIONS = ("window", "global_every", "expert_mlp", "shared_experts", "dense_layers")


@dataclass(frozen=True)
class ModelSizes:
    """Options that override single dimensions of a model; None keeps the model's own."""

    layers: SizeOption = None
    emb: SizeOption = None
    heads: SizeOption = None
    kv_heads: SizeOption = None
    head_dim: SizeOption = None
    mlp: SizeOption = None
    vocab: SizeOption = None


@dataclass(frozen=True)
class ScoreOptions:
    """Options that override the scores of attention; None keeps the model's own."""

    wide_scores: Annotated[
        bool | None, "attention by products keeps its scores in f32, not in compute_dtype"
    ] = None
    late_division: Annotated[
        bool | None,
        "attention by products divides by the sums of exponentials after the product with the "
        "values, as MaxText does; needs wide_scores=false",
    ] = None
    sinks: Annotated[
        bool | None,
        "a learned score of each head beside those of tokens, which cudnn does not have",
    ] = None


@dataclass(frozen=True)
class BlockOptions(ScoreOptions):
    """Options that override the parts of a layer; None keeps the model's own."""

    norm: Annotated[Norm | None, "normalisation by root mean square, or layer norm"] = None
    biases: Annotated[bool | None, "biases of products and layer norms"] = None
    head_biases: Annotated[
        bool | None, "biases of queries, keys and values, even without those of all products"
    ] = None
    activation: Annotated[
        Activation | None,
        "activation of the MLP; gelu is the exact one, the others of its names approximate it",
    ] = None
    gated: Annotated[bool | None, "an MLP whose activation gates a second product"] = None
    positions: Annotated[Positions | None, "how tokens know their positions"] = None
    tied: Annotated[bool | None, "logits by the weights of the embedding"] = None
    window: Annotated[int | None, "tokens that a token attends to, itself included; 0: all"] = None
    global_every: Annotated[int | None, "every Nth layer has no window; 0: none"] = None


@dataclass(frozen=True)
class MixtureOptions:
    """Options that override the mixture of experts; None keeps the model's own."""

    experts: SizeOption = None
    top_k: Annotated[int | None, "experts for each token"] = None
    expert_mlp: Annotated[int | None, "width of an expert; 0: that of the dense MLP"] = None
    shared_experts: Annotated[int | None, "experts that every token goes through besides"] = None
    dense_layers: Annotated[int | None, "first layers with a dense MLP instead"] = None
    router: Annotated[Router | None, "shares of the experts in a token's output"] = None


@dataclass(frozen=True)
class DecoderModel:
    """A decoder; sizes count elements, ``mlp`` is the hidden width of the MLP.

    The defaults are those of Llama. With ``experts`` above 0, each MLP is a mixture of that many
    experts, ``top_k`` for each token. With ``kv_rank`` above 0, attention is DeepSeek's multi-head
    latent attention.

    Attributes:
        biases: Whether all products and layer norms have biases.
        head_biases: Whether the products of queries, keys and values have biases.
        router: How scores become shares, see `route_tokens`.
        route_scale: The factor of the shares of routers other than ``chosen_softmax``.
        expert_groups: The groups of experts, of which a token uses ``top_groups``; 0 means none.
        expert_mlp: The width of an expert; 0 means ``mlp``.
        shared_experts: The number of experts that every token goes through besides.
        dense_layers: The number of first layers with a dense MLP of width ``mlp``.
        query_rank: The rank of the queries' latent vector; 0 means none.
        kv_rank: The rank of the latent vector of keys and values.
        rope_dim: The elements of a head that hold its position; 0 means all.
        value_dim: The head size of values; 0 means ``head_dim``.
        window: The number of tokens that a token attends to, itself included; 0 means all.
        global_every: With a window, every such layer has none; 0 means that all layers have it.
        local_rope_theta: The rotary base of layers with a window; 0 means ``rope_theta``.
        post_norms: Whether the outputs of attention and MLP are normalised too.
        head_norms: Whether each head's queries and keys are normalised.
        norm_offset: What is added to the scales of root-mean-square norms.
        score_cap: The limit of scores, which are squashed by a tanh; 0 means none.
        logit_cap: The limit of logits, likewise.
        query_width: The number whose inverse square root scales the scores; 0 means ``head_dim``.
        scaled_embedding: Whether embeddings are multiplied by the square root of ``emb``.
        causal: Whether a token attends to itself and earlier tokens only.
        norms_after_sums: Whether a norm follows each residual sum, as in BERT, instead of preceding
            attention and MLP.
        wide_scores: Whether attention by products keeps its scores in f32, not in the type of the
            activations.
        late_division: Whether attention by products divides by the sums of exponentials after the
            product with the values instead of before.
        sinks: Whether each head has a learned score, whose share of attention has no value.
        gate_limit: The limit of the activation's input and of what it gates, to which 1 is added,
            as in gpt-oss; 0 means neither.
    """

    emb: int
    heads: int
    kv_heads: int
    head_dim: int
    layers: int
    mlp: int
    vocab: int
    rope_theta: float = 500_000.0
    norm_eps: float = 1e-5
    experts: int = 0
    top_k: int = 2
    norm: Norm = "rms"
    biases: bool = False
    head_biases: bool = False
    activation: Activation = "silu"
    gated: bool = True
    positions: Positions | Literal["relative"] = "rotary"
    tied: bool = False
    window: int = 0
    global_every: int = 0
    local_rope_theta: float = 0.0
    post_norms: bool = False
    head_norms: bool = False
    norm_offset: float = 0.0
    score_cap: float = 0.0
    logit_cap: float = 0.0
    query_width: int = 0
    scaled_embedding: bool = False
    causal: bool = True
    norms_after_sums: bool = False
    wide_scores: bool = True
    late_division: bool = False
    sinks: bool = False
    gate_limit: float = 0.0
    router: Router = "chosen_softmax"
    route_scale: float = 1.0
    expert_groups: int = 0
    top_groups: int = 0
    expert_mlp: int = 0
    shared_experts: int = 0
    dense_layers: int = 0
    query_rank: int = 0
    kv_rank: int = 0
    rope_dim: int = 0
    value_dim: int = 0
    earlier_layers: int = 0

    @property
    def period(self) -> int:
        """The number of consecutive layers after which the pattern of windows repeats."""
        return self.global_every if self.window and self.global_every else 1

    @property
    def score_scale(self) -> float:
        """The factor of the products of queries and keys."""
        return (self.query_width or self.head_dim) ** -0.5

    def has_bias(self, weight: str) -> bool:
        """Return whether the product with a weight of a layer has a bias."""
        return self.biases or (self.head_biases and weight in _HEAD_WEIGHTS)

    def has_even_turns(self, devices: int, tokens: int) -> bool:
        """Return whether tokens that take the next ``top_k`` experts in turn load devices evenly.

        Args:
            devices: The devices that divide the experts.
            tokens: The tokens of each device.
        """
        if self.experts % self.top_k or self.experts % devices:
            return False
        local = self.experts // devices
        joint = min(self.top_k, local)  # experts of a token on one device
        is_whole = self.top_k % joint == 0 and local % joint == 0
        return is_whole and tokens % (self.experts // self.top_k) == 0

    def get_window(self, layer: int) -> int:
        """Return the window of a layer; 0 if it attends to all tokens."""
        number = self.earlier_layers + layer + 1
        is_global = self.global_every and number % self.global_every == 0
        return 0 if is_global else self.window


def adjust_model(model: DecoderModel, **changes: Any) -> DecoderModel:
    """Return a model with some fields changed, except those that are None.

    A model in which each head has keys and values of its own keeps this if only ``heads`` changes.

    Raises:
        UsageError: If the fields do not fit together.
    """
    if model.heads == model.kv_heads and changes.get("kv_heads") is None:
        changes = {**changes, "kv_heads": changes.get("heads")}
    changed = {key: value for key, value in changes.items() if value is not None}
    for key, value in changed.items():
        least = 0 if key in _ZERO_OPTIONS else 1
        if type(value) is int and value < least:
            number = "a positive number" if least else "0 or more"
            raise UsageError(f"option '{key}' is {value}", remedy=f"use {number}")
    m = dataclasses.replace(model, **changed)
    if m.heads % m.kv_heads:
        raise UsageError(f"{m.heads} heads cannot share {m.kv_heads} kv_heads")
    if m.positions == "rotary" and m.head_dim % 2:
        raise UsageError(f"head_dim is {m.head_dim}; rotary embedding needs an even number")
    if m.late_division and (m.wide_scores or m.sinks):
        raise UsageError(
            "option 'late_division' is for scores of compute_dtype, without sinks",
            remedy="add wide_scores=false",
        )
    if m.experts and m.top_k > m.experts:
        raise UsageError(f"top_k is {m.top_k}, of {m.experts} experts")
    if m.dense_layers >= m.layers and m.experts:
        raise UsageError(f"dense_layers is {m.dense_layers}, of {m.layers} layers")
    if m.expert_groups and m.experts % m.expert_groups:
        raise UsageError(f"{m.experts} experts cannot form {m.expert_groups} groups")
    return m
