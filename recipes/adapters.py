"""Adapters of low rank beside the frozen weights of a decoder: LoRA (arXiv 2106.09685).

The product of activations with a weight is the sum of two: with the frozen weight, and with the two
matrices of an adapter, one after the other. Only adapters have gradients and optimiser state. The
backward pass computes the gradients of activations through both products, and no gradient of a
frozen weight. The factor alpha / rank of an adapter is 1 here, and its input has no dropout; with
``separate_kernels`` both are passes over the values in each direction, without the dropout's mask.

Frozen weights are stored in the type in which products read them, so that no step converts them:
in 8 bits with one scale, or in the type of activations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hespas.recipes.block_products import BlockScheme
from hespas.recipes.language_models import DecoderModel
from hespas.recipes.layer_weights import (
    ADAPTER_DOWN,
    ADAPTER_UP,
    ATTENTION,
    DENSE,
    Tree,
    count_forward_flops,
    count_parameters,
    count_product_weights,
    count_summed_dims,
    get_weight_axes,
    join_layers,
    map_layers,
    store_in_eight_bits,
)
from hespas.recipes.parallel import ShardedArray
from hespas.recipes.quantised_products import Scheme
from hespas.support.errors import UsageError

AdapterTargets = Literal["attention", "all"]
ADAPTERS = "adapters"  # the parameters of a step that trains nothing else, nested as the layers


@dataclass(frozen=True)
class LowRankAdapters:
    """The adapters of a decoder without experts and latent attention.

    Attributes:
        rank: The columns of the first matrix of an adapter, and the rows of the second.
        targets: Whether the projections of attention have adapters, or those of the MLP too.
    """

    rank: int
    targets: AdapterTargets

    def make_adapters(self, layers: Any, dtype: Any) -> Tree:
        """Make the parameters of a step, given the ``ShardedArray`` tree of the layers."""
        names = ATTENTION if self.targets == "attention" else ATTENTION | DENSE

        def make_layer_adapters(layer: Tree) -> Tree:
            matrices: Tree = {}
            for name, weight in layer.items():
                if name in names and len(weight.shape) > weight.stacked + 1:
                    matrices |= self._make_matrices(name, weight, dtype)
            return matrices

        return {ADAPTERS: map_layers(make_layer_adapters, layers)}

    def _make_matrices(self, name: str, weight: ShardedArray, dtype: Any) -> Tree:
        count = weight.stacked
        shape, summed = weight.shape[count:], count_summed_dims(name)
        shapes = {
            name + ADAPTER_DOWN: (*shape[:summed], self.rank),
            name + ADAPTER_UP: (self.rank, *shape[summed:]),
        }
        return {
            matrix: ShardedArray(
                (*weight.shape[:count], *extents),
                (*weight.axes[:count], *get_weight_axes({}, matrix)),
                dtype,
                count,
            )
            for matrix, extents in shapes.items()
        }


def freeze_weights(weights: Tree, scheme: Scheme | None) -> Tree:
    """Store the weights of a model, which have the type of activations, for a scheme of products.

    TransformerEngine stores no weights in 4 bits (fp4 parameters), but converts them in each step.

    Raises:
        UsageError: If products need other scales than one for each weight.
    """
    if scheme is None or isinstance(scheme, BlockScheme):
        return weights
    if scheme.delayed or scheme.by_channel:
        raise UsageError(
            "option 'lora_rank' needs products in compute_dtype, or with one scale for a weight",
            remedy="use products=fp8",
        )
    dtype = scheme.forward
    layers = map_layers(lambda layer: store_in_eight_bits(layer, dtype), weights["layers"])
    return {**weights, "layers": layers}


def join_adapters(params: Tree) -> Tree:
    """Join frozen weights and adapters to the weights of layers, if there are adapters."""
    if ADAPTERS not in params:
        return params
    rest = {name: weight for name, weight in params.items() if name != ADAPTERS}
    return {**rest, "layers": join_layers(params["layers"], params[ADAPTERS])}


def count_adapted_flops(m: DecoderModel, adapters: Tree, tokens: int, attended: int) -> int:
    """Count the FLOPs of the matmuls of a step that trains adapters on ``tokens``.

    Those of the frozen weights are a forward pass and the gradients of activations.

    Args:
        m: The model.
        adapters: The ``ShardedArray`` tree of the adapters.
        tokens: The tokens of the step.
        attended: The tokens that each of them attends to.
    """
    whole = 3 * count_forward_flops(m, tokens, attended, tokens)
    frozen = count_product_weights(m) + m.emb * m.vocab
    return whole + 2 * tokens * (3 * count_parameters(adapters) - frozen)
