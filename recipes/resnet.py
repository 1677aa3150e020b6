"""ResNet v1.5: a data-parallel training step, or inference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
from jax import lax

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.recipe_options import MeshAxes
from hespas.recipes.decoder_training import Dtype, Partitioning
from hespas.recipes.optimisers import NesterovMomentum
from hespas.recipes.parallel import (
    DTYPES,
    Dim,
    MeshParallelism,
    ShardedArray,
    check_mesh_axes,
    check_positive_options,
)
from hespas.support.errors import UsageError

Depth = Literal[18, 34, 50, 101, 152, 200]
NormImages = Literal["all", "own"]
NORM_IMAGES_HELP = (
    "images that batch norm averages over in training: those of all devices, or each device's own "
    "as in PyTorch's DDP and Horovod"
)
Tree = dict[str, Any]

AXES = ("data",)
MESH = {"data": 8}
IMAGES: tuple[Dim, ...] = ("data", None, None, None)
NORM_MOMENTUM, NORM_EPS = 0.9, 1e-5

# Blocks of each of the four stages (arXiv 1512.03385, table 1; 200: arXiv 1603.05027, table 5).
STAGES = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
}
BASIC = (18, 34)  # blocks of two 3x3 convolutions; the others have 1x1, 3x3, 1x1


@dataclass(frozen=True)
class _ConvLayer:
    """A convolution with a square kernel of ``size``, followed by batch norm."""

    size: int
    inputs: int
    outputs: int
    stride: int = 1


@dataclass(frozen=True)
class _ResidualBlock:
    """A sequence of convolutions, and a projection if the shape changes."""

    convs: tuple[_ConvLayer, ...]
    shortcut: _ConvLayer | None


def build(
    mesh: Annotated[dict[str, int], MeshAxes(AXES)] = MESH,
    depth: Annotated[Depth, "layers"] = 50,
    mode: Annotated[Literal["train", "inference"], "kind of step"] = "train",
    image: Annotated[int, "pixels along each side"] = 224,
    batch: Annotated[int, "images on each device"] = 32,
    classes: Annotated[int, "classes"] = 1000,
    width: Annotated[int, "channels of the first stage"] = 64,
    partitioning: Annotated[
        Partitioning, "explicit collectives, or collectives chosen by XLA"
    ] = "manual",
    dtype: Annotated[Dtype, "type of activations; parameters and gradients are f32"] = "bf16",
    norm_images: Annotated[NormImages, NORM_IMAGES_HELP] = "all",
) -> Exportable:
    """ResNet v1.5: data-parallel training with batch norm and SGD, or inference.

    Version 1.5 strides in the 3x3 convolution.

    Raises:
        UsageError: If an option is invalid.
    """
    check_mesh_axes(mesh, AXES)
    check_positive_options(image=image, batch=batch, classes=classes, width=width)
    p = MeshParallelism(mesh, manual=partitioning == "manual")
    if norm_images == "own" and not p.manual:
        raise UsageError(
            "norm_images 'own' needs explicit collectives", remedy="use partitioning=manual"
        )
    stem, blocks = _make_architecture(depth, width)
    owners = p.count_devices("data") if norm_images == "own" else 0
    params, statistics = _make_resnet_weights(stem, blocks, classes, owners)
    total = batch * p.count_devices("data")
    images = ShardedArray((total, image, image, 3), IMAGES, DTYPES[dtype])
    labels = ShardedArray((total,), ("data",), jnp.int32)
    count = sum(weight.size for weight in jax.tree.leaves(params))
    forward = 2 * total * _count_multiplications(stem, blocks, classes, image)
    net = _ResNet(p, stem, blocks, DTYPES[dtype], norm_images == "own")

    def train_step(state: Tree, images: jax.Array, labels: jax.Array) -> tuple[Tree, jax.Array]:
        def compute_loss(params: Tree) -> tuple[jax.Array, Tree]:
            logits, new = net.compute_logits(params, state["statistics"], images, train=True)
            one_hot_labels = jax.nn.one_hot(labels, classes, dtype=logits.dtype)
            each = -jnp.sum(jax.nn.log_softmax(logits) * one_hot_labels, axis=-1)
            return p.sum_over_axes(jnp.sum(each), "data") / total, new

        (value, new), grads = jax.value_and_grad(compute_loss, has_aux=True)(state["params"])
        params, momentum = NesterovMomentum().update_parameters(
            state["params"], state["momentum"], grads
        )
        return {"params": params, "momentum": momentum, "statistics": new}, value

    def run_inference(params: Tree, statistics: Tree, images: jax.Array) -> jax.Array:
        return net.compute_logits(params, statistics, images, train=False)[0]

    if mode == "train":
        function, result = train_step, p.make_partition_spec()
        arguments = (
            {"params": params, "momentum": params, "statistics": statistics},
            images,
            labels,
        )
    else:
        function, result = run_inference, p.make_partition_spec("data", None)
        arguments = (params, statistics, images)
    return p.make_exportable(
        f"resnet{depth}_{mode}",
        function,
        arguments,
        (p.make_partition_specs(arguments[0]), result) if mode == "train" else result,
        donated=(0,) if mode == "train" else (),
        facts={
            "parameters": count,
            "images_per_step": total,
            "flops_per_step": 3 * forward if mode == "train" else forward,
        },
    )


def _make_architecture(depth: Depth, width: int) -> tuple[_ConvLayer, list[_ResidualBlock]]:
    """Return the first convolution and the residual blocks."""
    blocks, channels = [], width
    for number, repeats in enumerate(STAGES[depth]):
        inner = width * 2**number
        for repeat in range(repeats):
            stride = 2 if number and not repeat else 1
            if depth in BASIC:
                outer = inner
                convs = (_ConvLayer(3, channels, inner, stride), _ConvLayer(3, inner, inner))
            else:
                outer = 4 * inner
                convs = (
                    _ConvLayer(1, channels, inner),
                    _ConvLayer(3, inner, inner, stride),
                    _ConvLayer(1, inner, outer),
                )  # fmt: skip
            changed = stride > 1 or channels != outer
            blocks.append(
                _ResidualBlock(convs, _ConvLayer(1, channels, outer, stride) if changed else None)
            )
            channels = outer
    return _ConvLayer(7, 3, width, 2), blocks


def _make_resnet_weights(
    stem: _ConvLayer, blocks: list[_ResidualBlock], classes: int, owners: int
) -> tuple[Tree, Tree]:
    """Return the parameters and the running statistics of the batch norms.

    The statistics are those of all devices, or each of ``owners`` devices has its own.
    """

    def make_conv_weights(c: _ConvLayer) -> Tree:
        kernel = (c.size, c.size, c.inputs, c.outputs)
        channel = ShardedArray((c.outputs,), (None,))
        return {"kernel": ShardedArray(kernel, (None,) * 4), "scale": channel, "bias": channel}

    def make_norm_statistics(c: _ConvLayer) -> Tree:
        channel = (
            ShardedArray((owners, c.outputs), ("data", None))
            if owners
            else ShardedArray((c.outputs,), (None,))
        )
        return {"mean": channel, "variance": channel}

    def map_over_convs(make_conv_value: Any) -> Tree:
        return {
            "stem": make_conv_value(stem),
            "blocks": [
                {"convs": [make_conv_value(c) for c in block.convs]}
                | ({"shortcut": make_conv_value(block.shortcut)} if block.shortcut else {})
                for block in blocks
            ],
        }

    features = blocks[-1].convs[-1].outputs
    params = map_over_convs(make_conv_weights) | {
        "kernel": ShardedArray((features, classes), (None, None)),
        "bias": ShardedArray((classes,), (None,)),
    }
    return params, map_over_convs(make_norm_statistics)


@dataclass(frozen=True)
class _ResNet:
    """The network on one device of ``p``; activations are ``[batch, height, width, channels]``.

    With ``owns_norms``, batch norm averages over the images of this device only.
    """

    p: MeshParallelism
    stem: _ConvLayer
    blocks: list[_ResidualBlock]
    dtype: Any
    owns_norms: bool = False

    def compute_logits(
        self, params: Tree, statistics: Tree, x: jax.Array, train: bool
    ) -> tuple[jax.Array, Tree]:
        """Compute f32 logits ``[batch, classes]``, and update the running statistics."""
        if train:  # this is where the gradients of all devices are summed
            params = jax.tree.map(lambda weight: self.p.mark_varying(weight, "data"), params)
        x, stem = self._apply_conv_norm(self.stem, params["stem"], statistics["stem"], x, train)
        x = jax.nn.relu(x)
        x = lax.reduce_window(
            x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), [(0, 0), (1, 1), (1, 1), (0, 0)]
        )
        new = []
        for block, w, old in zip(self.blocks, params["blocks"], statistics["blocks"], strict=True):
            x, seen = self._apply_block(block, w, old, x, train)
            new.append(seen)
        x = jnp.mean(x, axis=(1, 2), dtype=jnp.float32).astype(self.dtype)
        kernel = params["kernel"].astype(self.dtype)
        logits = jnp.dot(x, kernel, preferred_element_type=jnp.float32) + params["bias"]
        return logits, {"stem": stem, "blocks": new}

    def _apply_block(
        self, block: _ResidualBlock, w: Tree, old: Tree, x: jax.Array, train: bool
    ) -> tuple[jax.Array, Tree]:
        beside, seen = x, {}
        if block.shortcut:
            args = (block.shortcut, w["shortcut"], old["shortcut"], x, train)
            beside, seen["shortcut"] = self._apply_conv_norm(*args)
        seen["convs"] = []
        for number, conv in enumerate(block.convs):
            x = jax.nn.relu(x) if number else x
            x, conv_statistics = self._apply_conv_norm(
                conv, w["convs"][number], old["convs"][number], x, train
            )
            seen["convs"].append(conv_statistics)
        return jax.nn.relu(x + beside), seen

    def _apply_conv_norm(
        self, c: _ConvLayer, w: Tree, old: Tree, x: jax.Array, train: bool
    ) -> tuple[jax.Array, Tree]:
        """Apply a convolution and batch norm, which averages over images in training."""
        padding = [((c.size - 1) // 2, c.size // 2)] * 2
        x = lax.conv_general_dilated(
            x,
            w["kernel"].astype(self.dtype),
            (c.stride, c.stride),
            padding,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        wide, seen = x.astype(jnp.float32), old
        if self.owns_norms:
            old = jax.tree.map(lambda statistic: statistic[0], old)
        mean, variance = old["mean"], old["variance"]
        if train:
            moments = jnp.stack([jnp.mean(wide, (0, 1, 2)), jnp.mean(wide * wide, (0, 1, 2))])
            mean, square = moments if self.owns_norms else self._average_over_devices(moments)
            variance = square - mean * mean
            seen = {
                "mean": NORM_MOMENTUM * old["mean"] + (1 - NORM_MOMENTUM) * mean,
                "variance": NORM_MOMENTUM * old["variance"] + (1 - NORM_MOMENTUM) * variance,
            }
            if self.owns_norms:
                seen = jax.tree.map(lambda statistic: statistic[None], seen)
        # One array, so that their gradients need one all-reduce.
        moments_to_sum = jnp.stack([mean, lax.rsqrt(variance + NORM_EPS)])
        mean, inverse = self.p.mark_varying(moments_to_sum, "data")
        normal = (wide - mean) * (inverse * w["scale"]) + w["bias"]
        return normal.astype(self.dtype), lax.stop_gradient(seen)

    def _average_over_devices(self, moments: jax.Array) -> jax.Array:
        return self.p.sum_over_axes(moments, "data") / self.p.count_parts("data")


def _count_multiplications(
    stem: _ConvLayer, blocks: list[_ResidualBlock], classes: int, image: int
) -> int:
    """Count the multiplications of convolutions and the last layer for an image, with padding."""

    def count_conv_multiplications(c: _ConvLayer, side: int) -> int:
        return side * side * c.size * c.size * c.inputs * c.outputs

    side = (image + 1) // 2
    total = count_conv_multiplications(stem, side)
    side = (side + 1) // 2
    for block in blocks:
        after = side
        for c in block.convs:
            after = (after + c.stride - 1) // c.stride
            total += count_conv_multiplications(c, after)
        if block.shortcut:
            total += count_conv_multiplications(block.shortcut, after)
        side = after
    return total + blocks[-1].convs[-1].outputs * classes
