"""One training step of a decoder: its options, loss, gradients and optimiser, with the facts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.recipe_options import MeshAxes
from hespas.recipes.adapters import (
    AdapterTargets,
    LowRankAdapters,
    count_adapted_flops,
    freeze_weights,
    join_adapters,
)
from hespas.recipes.block_products import BlockScheme
from hespas.recipes.delayed_scaling import DelayedScaling, make_histories
from hespas.recipes.gradient_accumulation import (
    Loss,
    StepGradients,
    make_microbatches,
)
from hespas.recipes.language_models import DecoderModel
from hespas.recipes.layer_weights import (
    Tree,
    count_forward_flops,
    count_model_parameters,
    count_parameters,
    make_layers,
    make_model_weights,
)
from hespas.recipes.optimiser_shards import OptimiserShards
from hespas.recipes.optimisers import AdamW, Lamb
from hespas.recipes.parallel import (
    BATCH,
    DTYPES,
    MeshParallelism,
    ShardedArray,
    check_mesh_axes,
    check_positive_options,
)
from hespas.recipes.quantised_products import SCHEMES, ProductScheme, Scheme
from hespas.recipes.remat_policies import REMAT_HELP, Remat
from hespas.recipes.ring_products import RING_HELP
from hespas.recipes.stored_weights import (
    STORED_HELP,
    join_carriers,
    make_carriers,
    make_weight_conversion,
    store_weights,
)
from hespas.recipes.transformer import Decoder
from hespas.recipes.transformer_layer import Mlp, SeparateKernels
from hespas.support.errors import UsageError

Dtype = Literal["bf16", "f16", "f32"]
Attention = Literal["dot_product", "cudnn", "splash"]
ATTENTION_HELP = (
    "attention by products and a softmax, cuDNN's fused kernel (platform cuda), or JAX's kernels "
    "for TPUs (platform tpu)"
)
EAGER_HELP = (
    "operators as PyTorch runs them if it compiles nothing; and its first FSDP, without fsdp_copies"
)
FSDP_COPIES_HELP = (
    "copies of gathered weights and of their gradients, as PyTorch's FSDP2 makes them"
)
AXES = ("data", "fsdp", "context", "tensor")
MESH = {"fsdp": 8}
MESH_AXES = MeshAxes(AXES)

Partitioning = Literal["manual", "auto"]
Optimiser = Literal["adamw", "lamb"]
Products = Literal[
    "fp8", "fp8_delayed", "fp8_rowwise", "fp8_static", "fp8_te", "fp8_te_current", "int8", "nvfp4",
    "nvfp4_te",
]  # fmt: skip


@dataclass(frozen=True)
class TrainingOptions:
    """The options of every training step: the types of its state and of its computation."""

    weights_dtype: Annotated[Dtype, "type of the parameters"] = "f32"
    compute_dtype: Annotated[Dtype, "type of activations, gathered weights and gradients"] = "bf16"
    moments_dtype: Annotated[Dtype, "type of the optimiser's moments"] = "f32"
    master: Annotated[bool, "keep a copy of the parameters in f32"] = False
    clip: Annotated[float, "largest global norm of the gradients; 0 disables clipping"] = 1.0
    reduce_dtype: Annotated[
        Dtype | None, "type in which gradients are summed over devices; by default compute_dtype"
    ] = None
    accumulate: Annotated[
        int, "microbatches whose gradients are summed in a loop; batch counts those of one"
    ] = 1
    accumulator_dtype: Annotated[Dtype, "type of the gradients' sums over microbatches"] = "f32"
    products: Annotated[
        Products | None, "type of products with weights, by default compute_dtype; fp8: one scale "
        "for an array, E4M3 and E5M2 for gradients; fp8_delayed: scales from earlier steps; "
        "fp8_static: constant scales but of gradients; fp8_te: scales that are known, operands "
        "kept in 8 bits; fp8_te_current: the same, scales from the values but of stored weights; "
        "fp8_rowwise, int8: one for each row; nvfp4: 4 bits, one for 16 elements, "
        "for platform cuda; nvfp4_te: the same with TransformerEngine's transforms and rounding"
    ] = None  # fmt: skip
    logits_dtype: Annotated[Dtype, "type of the logits; the loss is computed in f32"] = "f32"
    vocab_tiles: Annotated[
        int, "parts of the tokens whose logits are computed in turn, and again for the gradients"
    ] = 1
    separate_loss: Annotated[
        bool, "the loss by a kernel for each operation on all logits, as Megatron Core's own"
    ] = False
    zero1: Annotated[
        bool, "divide the optimiser's state over the devices that have the same weights (ZeRO-1)"
    ] = False
    repeated_heads: Annotated[
        bool, "keys and values are copied for each query head that reads them, as torchtitan's"
    ] = False
    ring_branches: Annotated[
        bool, "with attention=cudnn over context, each device runs attention on views of its own "
        "chunks, as TransformerEngine; else one program selects them for all devices"
    ] = False  # fmt: skip
    exchange_heads: Annotated[
        bool, "with attention=cudnn over context, devices exchange tokens for heads around "
        "attention, as TransformerEngine's a2a; else keys and values travel around a ring"
    ] = False  # fmt: skip
    checked_gradients: Annotated[
        bool, "gradients are read for their norm, and divided, before their sum over devices, as "
        "Megatron Core's; with zero1"
    ] = False  # fmt: skip
    optimiser: Annotated[Optimiser, "AdamW, or LAMB, whose steps have the norms of the weights"] = (
        "adamw"
    )

    def make_parallelism(
        self, mesh: Mapping[str, int], partitioning: Partitioning = "manual", **options: Any
    ) -> MeshParallelism:
        """Make the parallelism of a step over ``mesh``.

        Raises:
            UsageError: If XLA chooses the collectives, and would have to choose their types, or
                products in steps have whole tokens.
        """
        manual = partitioning == "manual"
        if self.reduce_dtype is not None and not manual:
            raise UsageError(
                "option 'reduce_dtype' needs explicit collectives", remedy="use partitioning=manual"
            )
        if isinstance(self.find_scheme(), BlockScheme) and not manual:
            raise UsageError(
                f"option 'products' is {self.products}, which needs explicit collectives",
                remedy="use partitioning=manual",
            )
        reduce_dtype = DTYPES[self.reduce_dtype] if self.reduce_dtype else None
        return MeshParallelism(mesh, manual=manual, reduce_dtype=reduce_dtype, **options)

    def find_scheme(self) -> Scheme | None:
        """Find the scheme of products in few bits; None if they have ``compute_dtype``."""
        return SCHEMES[self.products] if self.products else None

    def make_decoder(
        self,
        m: DecoderModel,
        p: MeshParallelism,
        remat: str,
        attention: str,
        mlp: Mlp | None = None,
        loss_metrics: int = 0,
        separate_kernels: SeparateKernels | None = None,
    ) -> Decoder:
        """Make the layers of a training step.

        Raises:
            UsageError: If an option is invalid.
        """
        check_positive_options(vocab_tiles=self.vocab_tiles)
        return Decoder(
            m,
            p,
            DTYPES[self.compute_dtype],
            mlp,
            attention,
            self.find_scheme(),
            remat=remat,
            logits_dtype=DTYPES[self.logits_dtype],
            vocab_tiles=self.vocab_tiles,
            loss_metrics=loss_metrics,
            separate_loss=self.separate_loss,
            repeated_heads=self.repeated_heads,
            ring_branches=self.ring_branches,
            exchange_heads=self.exchange_heads,
            separate_kernels=separate_kernels,
        )

    def make_optimiser(self, params: Any, *, eager: bool) -> AdamW | Lamb:
        """Make the optimiser of a ``ShardedArray`` tree of parameters.

        Raises:
            UsageError: If its operators cannot run one by one.
        """
        convert = make_weight_conversion(self.find_scheme())
        if self.optimiser == "adamw":
            return AdamW(clip=self.clip, eager=eager, convert=convert)
        if eager:
            raise UsageError(f"optimiser={self.optimiser} has no eager", remedy="use adamw")
        stacked = jax.tree.map(lambda weight: weight.stacked, params)
        return Lamb(stacked, clip=self.clip, convert=convert)

    def make_shards(self, p: MeshParallelism) -> OptimiserShards | None:
        """Make the division of the optimiser's state; None if each device updates all weights.

        Raises:
            UsageError: If gradients are checked, and the state is not divided, or XLA sums them.
        """
        if self.checked_gradients and not (self.zero1 and p.manual):
            raise UsageError(
                "option 'checked_gradients' needs zero1 and explicit collectives",
                remedy="set zero1=true and partitioning=manual",
            )
        return self._divide_optimiser(p) if self.zero1 else None

    def _divide_optimiser(self, p: MeshParallelism) -> OptimiserShards:
        return OptimiserShards(p, self.checked_gradients, flattens=self.optimiser == "adamw")

    def choose_sum_dtype(self) -> Any:
        """Choose the type of the gradients of a step before their sum over devices."""
        if self.accumulate > 1:
            return DTYPES[self.accumulator_dtype]
        return DTYPES[self.reduce_dtype or self.compute_dtype]

    def make_delayed_scaling(self, params: Tree) -> DelayedScaling | None:
        """Make the scaling of products by earlier steps, given all weights; None without it.

        Raises:
            UsageError: If the step has other options that are not implemented with it.
        """
        scheme = self.find_scheme()
        if not isinstance(scheme, ProductScheme) or not scheme.delayed:
            return None
        if self.accumulate > 1 or self.zero1 or self.reduce_dtype is not None:
            raise UsageError(
                "products=fp8_delayed has no accumulate, zero1 and reduce_dtype",
                remedy="use products=fp8",
            )
        return DelayedScaling(make_histories(params["layers"]), scheme)

    def make_training_state(self, p: MeshParallelism, params: Any) -> Tree:
        """Make the ``ShardedArray`` tree of everything that a training step updates."""

        def copy_with_dtype(dtype: Any) -> Any:
            arrays = jax.tree.map(lambda w: ShardedArray(w.shape, w.axes, dtype), params)
            divide_array = self._divide_optimiser(p).divide_array
            return jax.tree.map(divide_array, arrays) if self.zero1 else arrays

        moments = DTYPES[self.moments_dtype]
        state = {
            "params": params,
            "mu": copy_with_dtype(moments),
            "nu": copy_with_dtype(moments),
            "step": ShardedArray((), (), jnp.int32),
        }
        return state | ({"master": copy_with_dtype(jnp.float32)} if self.master else {})


@dataclass(frozen=True)
class StepOptions:
    """The options that the training steps of all decoders have besides model and types."""

    sequence: Annotated[int, "tokens of a sequence"] = 4096
    batch: Annotated[int, "sequences for each batch shard (data x fsdp, in a mixture x expert)"] = 1
    scan: Annotated[bool, "run the layers in a loop"] = False
    remat: Annotated[Remat, REMAT_HELP] = "minimal"
    attention: Annotated[Attention, ATTENTION_HELP] = "dot_product"


@dataclass(frozen=True)
class DecoderOptions(StepOptions):
    """The options of the training step of a decoder without experts."""

    partitioning: Annotated[Partitioning, "explicit collectives, or collectives chosen by XLA"] = (
        "manual"
    )
    sequence_parallel: Annotated[bool, "split the tokens between blocks over tensor"] = False
    pad_weights: Annotated[
        bool, "pad weights whose width fsdp does not divide, as PyTorch's FSDP; else an error"
    ] = False
    eager: Annotated[bool, EAGER_HELP] = False
    separate_kernels: Annotated[
        SeparateKernels | None, "operators between products that have kernels of their own, and a "
        "pass each for the dropout and the scale of adapters: Megatron Core's, or megatron_te: "
        "without activations and the split of queries, keys and values, which TransformerEngine "
        "fuses"
    ] = None  # fmt: skip
    fsdp_copies: Annotated[bool, FSDP_COPIES_HELP] = False
    token_copies: Annotated[
        bool, "copies of activations around their collectives, with sequence_parallel, as PyTorch's"
    ] = False
    ring_products: Annotated[bool, RING_HELP] = False
    stored_products: Annotated[bool, STORED_HELP] = False
    loss_metrics: Annotated[
        int, "metrics that compute the loss of each microbatch again from its logits"
    ] = 0
    lora_rank: Annotated[
        int, "rank of the adapters that are trained beside frozen weights (LoRA); 0: no adapters"
    ] = 0
    lora_targets: Annotated[
        AdapterTargets, "projections with adapters: those of attention, or all of a layer"
    ] = "attention"


def build_decoder_step(
    m: DecoderModel, mesh: Mapping[str, int], options: DecoderOptions, training: TrainingOptions
) -> Exportable:
    """Build the training step of a decoder without experts.

    Raises:
        UsageError: If the mesh does not divide the model, or an option is invalid.
    """
    check_mesh_axes(mesh, AXES)
    for name in (
        "eager", "separate_kernels", "fsdp_copies", "token_copies", "ring_products",
        "pad_weights", "stored_products",
    ):  # fmt: skip
        if getattr(options, name) and options.partitioning != "manual":
            raise UsageError(
                f"option '{name}' needs explicit collectives", remedy="use partitioning=manual"
            )
    if options.eager and options.separate_kernels:
        raise UsageError(
            "option 'eager' runs all operators by themselves",
            remedy="leave out separate_kernels",
        )
    if options.stored_products and options.lora_rank:
        raise UsageError(
            "option 'stored_products' has no adapters",
            remedy="leave it out: their frozen weights are stored in 8 bits",
        )
    for name in ("loss_metrics", "lora_rank"):
        if getattr(options, name) < 0:
            raise UsageError(f"option '{name}' is {getattr(options, name)}", remedy="use 0 or more")
    p = training.make_parallelism(
        mesh,
        options.partitioning,
        sequence=options.sequence_parallel,
        eager=options.eager,
        fsdp_copies=options.fsdp_copies,
        token_copies=options.token_copies,
        ring_products=options.ring_products,
        padded_width=m.emb if options.pad_weights else 0,
        paddable_width=m.emb if options.partitioning == "manual" else 0,
    )
    decoder = training.make_decoder(
        m,
        p,
        options.remat,
        options.attention,
        loss_metrics=options.loss_metrics,
        separate_kernels=options.separate_kernels,
    )

    def compute_loss(params: Tree, batch: Mapping[str, jax.Array]) -> jax.Array:
        tokens = batch["tokens"]
        params = decoder.gather_tied_embedding(join_adapters(params))
        x = decoder.embed_tokens(params, tokens)
        x, _ = decoder.run_layers(params["layers"], x, decoder.compute_positions(tokens.shape[1]))
        return decoder.compute_loss(params, x, batch["targets"])

    def make_weights(dtype: Any) -> Tree:
        layers = make_layers(m, dtype, options.scan)
        return make_model_weights(m, dtype, layers, options.sequence)

    params, frozen = make_weights(DTYPES[training.weights_dtype]), {}
    if options.lora_rank:
        adapters = LowRankAdapters(options.lora_rank, options.lora_targets)
        params = adapters.make_adapters(params["layers"], DTYPES[training.weights_dtype])
        weights = make_weights(DTYPES[training.compute_dtype])
        frozen = freeze_weights(weights, training.find_scheme())
    if options.stored_products:
        params = store_weights(params, training.find_scheme(), has_master=training.master)
    return build_training_step(
        "train_step",
        m,
        p,
        p.pad_weights(params),
        compute_loss,
        training,
        sequence=options.sequence,
        batch=options.batch,
        frozen=p.pad_weights(frozen),
    )


def build_training_step(
    name: str,
    m: DecoderModel,
    p: MeshParallelism,
    params: Tree,
    loss: Loss,
    training: TrainingOptions,
    *,
    sequence: int,
    batch: int,
    frozen: Tree | None = None,
) -> Exportable:
    """Build the step ``(state, batch) -> (state, loss)`` for ``batch`` sequences per batch shard.

    ``frozen`` holds the weights of the model if ``params`` are adapters.

    Raises:
        UsageError: If the mesh does not divide the sequences, or an option is invalid.
    """
    check_positive_options(sequence=sequence, batch=batch, accumulate=training.accumulate)
    parts = p.count_devices("context") * (p.count_devices("tensor") if p.sequence else 1)
    if sequence % parts:
        raise UsageError(f"a sequence of {sequence} is not divisible by {parts} devices")
    rows = batch * p.count_devices(*BATCH)
    tokens = ShardedArray((rows, sequence), (BATCH, "context"), jnp.int32)
    total = training.accumulate * rows * sequence
    facts = {
        "tokens_per_step": total,
        "flops_per_step": 3 * count_forward_flops(m, total, sequence, total),
    }
    if frozen:
        facts |= {
            "parameters": count_model_parameters(m, sequence) + count_parameters(params),
            "flops_per_step": count_adapted_flops(m, params, total, sequence),
        }
    batches = {"tokens": tokens, "targets": tokens}
    return build_optimiser_step(name, p, params, loss, training, batches, facts, frozen)


def build_optimiser_step(
    name: str,
    p: MeshParallelism,
    params: Tree,
    loss: Loss,
    training: TrainingOptions,
    microbatch: Mapping[str, ShardedArray],
    facts: Mapping[str, int],
    frozen: Tree | None = None,
) -> Exportable:
    """Build the step ``(state, batch) -> (state, loss)`` of any model.

    Args:
        name: The name of the program.
        p: The parallelism.
        params: The ``ShardedArray`` tree of the parameters.
        loss: The loss of a microbatch.
        training: The types and the optimiser.
        microbatch: The arrays of one microbatch.
        facts: What is reported besides the parameters, if it does not count these too.
        frozen: The ``ShardedArray`` tree of weights that the loss reads besides the parameters, and
            that the step leaves as they are.

    Raises:
        UsageError: If the mesh does not divide an array, or an option is invalid.
    """
    if not training.clip >= 0:  # NaN too
        raise UsageError(f"option 'clip' is {training.clip:g}", remedy="use 0 to disable clipping")
    p.make_shape_tree(params)  # so that errors name the parameter and not its moment
    state = training.make_training_state(p, params)
    scaling = training.make_delayed_scaling(params)
    if scaling:
        state["histories"] = scaling.histories
    if frozen:
        p.make_shape_tree(frozen)
        state["frozen"] = frozen
    data = make_microbatches(microbatch, training.accumulate)
    optimiser = training.make_optimiser(params, eager=p.eager)
    shards = training.make_shards(p)
    gradients = StepGradients(
        loss, p, params, training.accumulate, training.choose_sum_dtype(), shards
    )

    def run_training_step(state: Tree, batch: Mapping[str, jax.Array]) -> tuple[Tree, jax.Array]:
        if scaling:
            value, grads, histories = scaling.compute_gradients(gradients, state, batch)
            return {**optimiser.update_state(state, grads), "histories": histories}, value
        kept, weights = state.get("frozen", {}), state["params"]

        def compute_loss(carriers: Any, batch: Mapping[str, jax.Array]) -> jax.Array:
            return loss({**kept, **join_carriers(carriers, weights)}, batch)

        of_all = dataclasses.replace(gradients, loss=compute_loss)
        carriers = make_carriers(p, weights, DTYPES[training.compute_dtype])
        value, grads = of_all.compute_gradients(carriers, batch)
        if shards is None:
            new = optimiser.update_state(state, grads)
        else:
            new = shards.update_state(optimiser, state, grads, params)
        return {**new, **({"frozen": kept} if frozen else {})}, value

    return p.make_exportable(
        name,
        run_training_step,
        (state, data),
        (p.make_partition_specs(state), p.make_partition_spec()),
        donated=(0,),
        facts={"parameters": count_parameters(params), **facts},
    )
