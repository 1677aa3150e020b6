"""The forward and backward programs of a pipeline stage, apart from each other.

The forward program returns what the backward program reads besides its own arguments. JAX's ``vjp``
tells it: the leaves of its function, except those that are arguments of the stage. Tracing the
forward pass again in the backward program gives the same leaves, which are replaced by those that
were kept; nothing then uses the forward pass, and JAX drops it.

A kept value may differ between devices along any axes of the mesh. Between programs it is therefore
stacked along a leading dimension, which exactly these axes divide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

from hespas.frontends.export.exportable import Exportable
from hespas.recipes.decoder_training import StepOptions, TrainingOptions
from hespas.recipes.expert_layers import BALANCE
from hespas.recipes.layer_weights import (
    Tree,
    count_forward_flops,
    count_parameters,
    make_layers,
    make_model_weights,
)
from hespas.recipes.optimisers import AdamW
from hespas.recipes.parallel import (
    BATCH,
    DTYPES,
    TOKENS,
    MeshParallelism,
    ShardedArray,
    get_varying_axes,
    list_axis_names,
)
from hespas.recipes.split_gradients import GradientParts, split_gradients
from hespas.recipes.stored_weights import (
    join_carriers,
    make_carriers,
    make_weight_conversion,
    store_weights,
)
from hespas.recipes.transformer import Decoder

# The FLOPs of the model in each kind of task, as multiples of those of the forward pass.
FORWARD_PASSES = {"forward": 1, "backward": 2, "input_gradient": 1, "weight_gradient": 1}


def stack_value(
    p: MeshParallelism, shape: Sequence[int], dtype: Any, axes: tuple[str, ...]
) -> ShardedArray:
    """Describe a value between two programs, which differs along ``axes``, by that of a device."""
    return ShardedArray((p.count_devices(*axes), *shape), (axes, *(None for _ in shape)), dtype)


def describe_stacked_value(p: MeshParallelism, x: jax.Array) -> ShardedArray:
    """Describe a value of this device for use by another program."""
    axes = tuple(axis for axis in p.mesh if axis in get_varying_axes(x))
    return stack_value(p, x.shape, x.dtype, axes)


@dataclass(frozen=True)
class StageBuilder:
    """Builds the programs of a stage.

    Attributes:
        decoder: The layers of the stage.
        is_first: Whether it embeds the tokens.
        is_last: Whether it computes the loss.
        options: The options of a step.
        training: The types of state and computation.
        stored_products: Whether the weights of products in 8 bits are stored in these.
        fused_sums: Whether products add the gradients of weights to their sums.
    """

    decoder: Decoder
    is_first: bool
    is_last: bool
    options: StepOptions
    training: TrainingOptions
    stored_products: bool = False
    fused_sums: bool = False

    @property
    def p(self) -> MeshParallelism:
        return self.decoder.p

    @cached_property
    def weights(self) -> Tree:
        """The parameters of the stage."""
        m, stored = self.decoder.m, DTYPES[self.training.weights_dtype]
        layers = make_layers(m, stored, self.options.scan)
        whole = make_model_weights(m, stored, layers, self.options.sequence)
        names = {"layers"}
        if self.is_first:
            names |= {"embedding", "positions"}
        if self.is_last:
            names |= {name for name in whole if name.startswith("final_norm")}
            names.add("embedding" if m.tied else "unembedding")
        weights = {name: weight for name, weight in whole.items() if name in names}
        if not self.stored_products:
            return weights
        scheme, has_master = self.training.find_scheme(), self.training.master
        return store_weights(weights, scheme, has_master=has_master)

    @cached_property
    def inputs(self) -> dict[str, ShardedArray]:
        """What the stage reads for a microbatch: tokens or activations, and targets."""
        rows = self.options.batch * self.p.count_devices(*BATCH)
        shape = (rows, self.options.sequence)
        tokens = ShardedArray(shape, (BATCH, "context"), jnp.int32)
        inputs = {"tokens": tokens} if self.is_first else {"activation": self.activation}
        return {**inputs, "targets": tokens} if self.is_last else inputs

    @cached_property
    def activation(self) -> ShardedArray:
        """The activations between two stages."""
        rows = self.options.batch * self.p.count_devices(*BATCH)
        split = ("context", "tensor") if self.p.sequence else ("context",)
        shape = (rows, self.options.sequence, self.decoder.m.emb)
        return ShardedArray(shape, (BATCH, split, None), self.decoder.dtype)

    def list_gradient_sums(self) -> Tree:
        """Describe the sums of gradients of each device's tokens, one for each weight."""
        p, dtype = self.p, DTYPES[self.training.accumulator_dtype]

        def describe_sum(weight: ShardedArray) -> ShardedArray:
            split = {axis for dim in weight.axes for axis in list_axis_names(dim)}
            axes = tuple(axis for axis in p.get_split_axes(*p.mesh) if axis in split | set(TOKENS))
            shape = tuple(
                extent // p.count_devices(*list_axis_names(dim))
                for extent, dim in zip(weight.shape, weight.axes, strict=True)
            )
            return stack_value(p, shape, dtype, axes)

        p.make_shape_tree(self.weights)  # reports what the mesh does not divide
        return jax.tree.map(describe_sum, self.weights)

    def run_stage(self, params: Tree, inputs: Mapping[str, jax.Array]) -> tuple[jax.Array, Any]:
        """Return the activation or the loss, and the balancing loss of experts, if any."""
        decoder = self.decoder
        if self.is_first:
            params = decoder.gather_tied_embedding(params)
            x = decoder.embed_tokens(params, inputs["tokens"])
        else:
            x = inputs["activation"]
        positions = decoder.compute_positions(
            self.options.sequence // self.p.count_parts("context")
        )
        x, balance = decoder.run_layers(params["layers"], x, positions)
        if not self.is_last:
            return x, balance
        loss = decoder.compute_loss(params, x, inputs["targets"])
        return (loss if balance is None else loss + BALANCE * balance), None

    def differentiate_stage(
        self, params: Tree, inputs: Mapping[str, jax.Array]
    ) -> tuple[jax.Array, Any, StageResiduals]:
        """Run the stage; return its result, its balancing loss, and what its gradients need."""
        copies = jax.tree.map(lambda weight: self.p.mark_varying(weight, *TOKENS), params)
        received = {name: x for name, x in inputs.items() if name == "activation"}
        rest = {name: x for name, x in inputs.items() if name != "activation"}
        carriers = make_carriers(self.p, copies, self.decoder.dtype)

        def run_stage(carriers: Tree, received: Any) -> tuple[jax.Array, Any]:
            return self.run_stage(join_carriers(carriers, copies), {**received, **rest})

        (result, balance), pull_back = jax.vjp(run_stage, carriers, received)
        arguments = jax.tree.leaves((copies, inputs))
        return result, balance, StageResiduals.collect(pull_back, arguments)

    def build_part(self, part: str) -> Exportable:
        """Build the program of a kind of task, or the optimiser's update."""
        if part == "update":
            return self._build_update()
        return self._build_forward() if part == "forward" else self._build_gradients(part)

    def _build_update(self) -> Exportable:
        """Build the program ``(state, sums) -> state``, once for all microbatches of a step.

        The sums of gradients are summed over the devices with other tokens. With ``zero1`` each of
        them updates a part of the state, and gathers the weights. The norm of the gradients is that
        of the stage.
        """
        p, weights, training = self.p, self.weights, self.training
        convert = make_weight_conversion(training.find_scheme())
        optimiser = AdamW(clip=training.clip, eager=self.p.eager, convert=convert)
        shards = training.make_shards(p)

        def update_stage(state: Tree, sums: Tree) -> Tree:
            if shards is not None:
                sums = shards.check_gradients(sums, weights)
            sum_over_devices = (shards or p).sum_gradient
            grads = jax.tree.map(lambda x, w: sum_over_devices(x[0], w), sums, weights)
            grads = jax.tree.map(lambda grad: grad / training.accumulate, grads)
            if shards is None:
                return optimiser.update_state(state, grads)
            return shards.update_state(optimiser, state, grads, weights)

        state: Any = training.make_training_state(p, weights)
        arguments = (state, self.list_gradient_sums())
        outputs = p.make_partition_specs(state)
        return self.make_exportable("update", update_stage, arguments, outputs, donated=(0,))

    def _build_forward(self) -> Exportable:
        saved = self.find_kept_values()

        def run_forward(params: Tree, inputs: Mapping[str, jax.Array]) -> tuple[jax.Array, Any]:
            result, _, residuals = self.differentiate_stage(params, inputs)
            return result, [x[None] for x in residuals.list_kept()]

        outputs = (self.result_spec, self.p.make_partition_specs(saved))
        return self.make_exportable("forward", run_forward, (self.weights, self.inputs), outputs)

    @property
    def result_spec(self) -> PartitionSpec:
        """How the devices divide the result of the stage."""
        if self.is_last:
            return self.p.make_partition_spec()
        return self.p.make_partition_specs(self.activation)

    def find_kept_values(self) -> list[ShardedArray]:
        """Find what the forward program keeps for the gradients."""

        def list_values(params: Tree, inputs: Mapping[str, jax.Array]) -> list[ShardedArray]:
            _, _, residuals = self.differentiate_stage(params, inputs)
            return [describe_stacked_value(self.p, x) for x in residuals.list_kept()]

        return self.trace_values(list_values, (self.weights, self.inputs))

    def trace_values(
        self, list_values: Callable[..., list[ShardedArray]], arguments: Sequence[Any]
    ) -> list[ShardedArray]:
        """Trace a function on the devices, and return what it returned while it was traced.

        Args:
            list_values: The function, which returns no arrays.
            arguments: The ``ShardedArray`` trees of its arguments.
        """
        values: list[ShardedArray] = []

        def trace_once(*args: Any) -> jax.Array:
            values[:] = list_values(*args)
            return jnp.zeros(())

        p = self.p
        mapped = p.map_over_devices(
            trace_once, tuple(map(p.make_partition_specs, arguments)), p.make_partition_spec()
        )
        sizes, names = tuple(p.mesh.values()), tuple(p.mesh)
        mesh = AbstractMesh(sizes, names, axis_types=(AxisType.Auto,) * len(names))
        with jax.sharding.use_abstract_mesh(mesh):
            jax.eval_shape(mapped, *map(p.make_shape_tree, arguments))
        return values

    def make_exportable(
        self,
        part: str,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        outputs: Any,
        donated: tuple[int, ...] = (),
    ) -> Exportable:
        """Make the program of a part from its function on one device."""
        facts = {"parameters": count_parameters(self.weights), **self._count_step_work(part)}
        return self.p.make_exportable(
            f"stage_{part}", function, arguments, outputs, donated=donated, facts=facts
        )

    def _count_step_work(self, part: str) -> dict[str, int]:
        """Count the tokens of a microbatch, and the FLOPs of the model in a kind of task."""
        if part not in FORWARD_PASSES:
            return {}
        tokens = self.options.batch * self.p.count_devices(*BATCH) * self.options.sequence
        unembedded = tokens if self.is_last else 0
        forward = count_forward_flops(self.decoder.m, tokens, self.options.sequence, unembedded)
        return {"tokens_per_step": tokens, "flops_per_step": FORWARD_PASSES[part] * forward}

    def _build_gradients(self, part: str) -> Exportable:
        saved, sums = self.find_kept_values(), self.list_gradient_sums()
        gradient = {} if self.is_last else {"gradient": self.activation}
        arguments = (self.weights, self.inputs, saved, gradient)
        if part == "backward":
            return self._build_backward(arguments, sums)
        shared = self.trace_values(self._list_shared_values, arguments)
        if part == "input_gradient":
            return self._build_input_gradient(arguments, shared)
        return self._build_weight_gradient(arguments, shared, sums)

    def _build_backward(self, arguments: Sequence[Any], sums: Tree) -> Exportable:
        def run_backward(
            params: Tree, inputs: Any, saved: Any, gradient: Any, sums: Tree
        ) -> tuple[Any, Tree]:
            grads, received = self.pull_back_gradient(params, inputs, saved, gradient)
            return received, self.add_gradients(sums, grads)

        outputs = (self.received_specs, self.p.make_partition_specs(sums))
        return self.make_exportable(
            "backward", run_backward, (*arguments, sums), outputs, donated=(4,)
        )

    def _build_input_gradient(
        self, arguments: Sequence[Any], shared: Sequence[ShardedArray]
    ) -> Exportable:
        def run_input_gradient(
            params: Tree, inputs: Any, saved: Any, gradient: Any
        ) -> tuple[Any, list[Any]]:
            leaves = jax.tree.leaves((params, inputs, saved, gradient))
            received, shared = self._split_gradients(params, inputs, saved, gradient).run_first(
                leaves
            )
            return {} if self.is_first else {"activation": received[0]}, [x[None] for x in shared]

        outputs = (self.received_specs, self.p.make_partition_specs(list(shared)))
        return self.make_exportable("input_gradient", run_input_gradient, arguments, outputs)

    def _build_weight_gradient(
        self, arguments: Sequence[Any], shared: Sequence[ShardedArray], sums: Tree
    ) -> Exportable:
        def run_weight_gradient(
            params: Tree, inputs: Any, saved: Any, gradient: Any, shared: Any, sums: Tree
        ) -> Tree:
            leaves = jax.tree.leaves((params, inputs, saved, gradient))
            parts = self._split_gradients(params, inputs, saved, gradient)
            grads = parts.run_second(leaves, [x[0] for x in shared])
            grads = jax.tree.unflatten(jax.tree.structure(params), grads)
            return self.add_gradients(sums, grads)

        outputs = self.p.make_partition_specs(sums)
        return self.make_exportable(
            "weight_gradient", run_weight_gradient, (*arguments, [*shared], sums), outputs, (5,)
        )

    def _list_shared_values(self, *arguments: Any) -> list[ShardedArray]:
        parts = self._split_gradients(*arguments)
        _, shared = parts.run_first(jax.tree.leaves(arguments))
        return [describe_stacked_value(self.p, x) for x in shared]

    def _split_gradients(self, *arguments: Any) -> GradientParts:
        """Divide the backward pass. The first stage sends no gradient, only that of its embedding
        depends on all others.
        """
        leaves, tree = jax.tree.flatten(arguments)

        def pull_back(*leaves: Any) -> tuple[list[Any], list[Any]]:
            grads, received = self.pull_back_gradient(*jax.tree.unflatten(tree, leaves))
            first = [grads["embedding"]] if self.is_first else jax.tree.leaves(received)
            return first, jax.tree.leaves(grads)

        return split_gradients(pull_back, leaves)

    @property
    def received_specs(self) -> Any:
        """How the devices divide the gradient of the input; {} in the first stage."""
        return {} if self.is_first else {"activation": self.p.make_partition_specs(self.activation)}

    def pull_back_gradient(
        self, params: Tree, inputs: Any, saved: Sequence[jax.Array], gradient: Mapping[str, Any]
    ) -> tuple[Tree, Any]:
        """Compute the gradients of the weights and of the input from what was saved."""
        result, balance, residuals = self.differentiate_stage(params, inputs)
        pull_back = residuals.replace_kept([x[0] for x in saved])
        start = gradient["gradient"] if gradient else jnp.ones_like(result)
        weight = None if balance is None else jnp.full_like(balance, BALANCE)
        return pull_back((start, weight))

    def add_gradients(self, sums: Tree, grads: Tree) -> Tree:
        """Add the gradients of a microbatch to their stacked sums.

        A product adds what has its own shape (gradient_accumulation_fusion of Megatron Core).
        """

        def add_gradient(total: jax.Array, grad: jax.Array) -> jax.Array:
            grad = grad.astype(total.dtype)
            if not self.fused_sums:
                return total + grad[None]
            return (total.reshape(grad.shape) + grad).reshape(total.shape)

        return jax.tree.map(add_gradient, sums, grads)


@dataclass(frozen=True)
class StageResiduals:
    """What the gradients of a stage need.

    Attributes:
        leaves: The leaves of the function that ``jax.vjp`` returned.
        tree: Their tree.
        is_argument: Whether each leaf is an argument of the stage.
    """

    leaves: Sequence[Any]
    tree: Any
    is_argument: Sequence[bool]

    @classmethod
    def collect(cls, pull_back: Any, arguments: Sequence[Any]) -> StageResiduals:
        """Collect the leaves of a function that ``jax.vjp`` returned."""
        leaves, tree = jax.tree.flatten(pull_back)
        known = {id(argument) for argument in arguments}
        return cls(leaves, tree, [id(leaf) in known for leaf in leaves])

    def list_kept(self) -> list[Any]:
        """List the leaves that are no arguments, each once."""
        return list({id(leaf): leaf for leaf in self._list_other_leaves()}.values())

    def replace_kept(self, values: Sequence[Any]) -> Callable[..., Any]:
        """Return the function with other values for ``list_kept``."""
        order = {id(leaf): number for number, leaf in enumerate(self.list_kept())}
        leaves = [
            leaf if is_argument else values[order[id(leaf)]]
            for leaf, is_argument in zip(self.leaves, self.is_argument, strict=True)
        ]
        return jax.tree.unflatten(self.tree, leaves)

    def _list_other_leaves(self) -> list[Any]:
        pairs = zip(self.leaves, self.is_argument, strict=True)
        return [leaf for leaf, is_argument in pairs if not is_argument]
