"""ResNet v1.5: a data-parallel training step with synchronised batch norm, or inference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
from jax import lax

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.recipes.optimisers import Momentum
from hespas.frontends.recipes.parallel import (
    DTYPES,
    Dim,
    Parallel,
    Weight,
    check_mesh,
    check_positive,
)
from hespas.frontends.recipes.training import Dtype, Partitioning

Depth = Literal[18, 34, 50, 101, 152, 200]
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
class Conv:
    """A convolution with batch norm after it: a square kernel of ``size``."""

    size: int
    inputs: int
    outputs: int
    stride: int = 1


@dataclass(frozen=True)
class Block:
    """Convolutions in a row, and one beside them where the shape changes."""

    convs: tuple[Conv, ...]
    shortcut: Conv | None


def build(
    mesh: Annotated[dict[str, int], "devices along data"] = MESH,
    depth: Annotated[Depth, "layers"] = 50,
    mode: Annotated[Literal["train", "inference"], "what the step does"] = "train",
    image: Annotated[int, "pixels along each side"] = 224,
    batch: Annotated[int, "images for each device"] = 32,
    classes: Annotated[int, "classes"] = 1000,
    width: Annotated[int, "channels of the first stage"] = 64,
    partitioning: Annotated[Partitioning, "collectives written out, or chosen by XLA"] = "manual",
    dtype: Annotated[Dtype, "type of activations; parameters and gradients are f32"] = "bf16",
) -> Exportable:
    """ResNet v1.5: data-parallel training with synchronised batch norm and SGD, or inference.

    v1.5 strides in the 3x3 convolution. Raises UsageError for a wrong option.
    """
    check_mesh(mesh, AXES)
    check_positive(image=image, batch=batch, classes=classes, width=width)
    p = Parallel(mesh, manual=partitioning == "manual")
    stem, blocks = architecture(depth, width)
    params, statistics = weights(stem, blocks, classes)
    total = batch * p.size("data")
    images = Weight((total, image, image, 3), IMAGES, DTYPES[dtype])
    labels = Weight((total,), ("data",), jnp.int32)
    count = sum(weight.size for weight in jax.tree.leaves(params))
    forward = 2 * total * _multiplications(stem, blocks, classes, image)
    net = Net(p, stem, blocks, DTYPES[dtype])

    def train(state: Tree, images: jax.Array, labels: jax.Array) -> tuple[Tree, jax.Array]:
        def loss(params: Tree) -> tuple[jax.Array, Tree]:
            logits, new = net.forward(params, state["statistics"], images, train=True)
            chosen = jax.nn.one_hot(labels, classes, dtype=logits.dtype)
            each = -jnp.sum(jax.nn.log_softmax(logits) * chosen, axis=-1)
            return p.sum(jnp.sum(each), "data") / total, new

        (value, new), grads = jax.value_and_grad(loss, has_aux=True)(state["params"])
        params, momentum = Momentum().update(state["params"], state["momentum"], grads)
        return {"params": params, "momentum": momentum, "statistics": new}, value

    def inference(params: Tree, statistics: Tree, images: jax.Array) -> jax.Array:
        return net.forward(params, statistics, images, train=False)[0]

    if mode == "train":
        function, result = train, p.spec()
        given = ({"params": params, "momentum": params, "statistics": statistics}, images, labels)
    else:
        function, result = inference, p.spec("data", None)
        given = (params, statistics, images)
    inputs = tuple(map(p.specs, given))
    outputs = (inputs[0], result) if mode == "train" else result
    return Exportable(
        f"resnet{depth}_{mode}",
        p.per_device(function, inputs, outputs),
        tuple(map(p.shapes, given)),
        mesh=p.mesh,
        in_shardings=inputs,
        out_shardings=outputs,
        donate_argnums=(0,) if mode == "train" else (),
        facts={
            "parameters": count,
            "images_per_step": total,
            "flops_per_step": 3 * forward if mode == "train" else forward,
        },
    )


def architecture(depth: Depth, width: int) -> tuple[Conv, list[Block]]:
    """The first convolution, and the blocks."""
    blocks, channels = [], width
    for number, repeats in enumerate(STAGES[depth]):
        inner = width * 2**number
        for repeat in range(repeats):
            stride = 2 if number and not repeat else 1
            if depth in BASIC:
                outer = inner
                convs = (Conv(3, channels, inner, stride), Conv(3, inner, inner))
            else:
                outer = 4 * inner
                convs = (
                    Conv(1, channels, inner), Conv(3, inner, inner, stride), Conv(1, inner, outer)
                )  # fmt: skip
            changed = stride > 1 or channels != outer
            blocks.append(Block(convs, Conv(1, channels, outer, stride) if changed else None))
            channels = outer
    return Conv(7, 3, width, 2), blocks


def weights(stem: Conv, blocks: list[Block], classes: int) -> tuple[Tree, Tree]:
    """The parameters, and the running statistics of the batch norms, as trees of ``Weight``."""

    def conv(c: Conv) -> Tree:
        kernel = (c.size, c.size, c.inputs, c.outputs)
        channel = Weight((c.outputs,), (None,))
        return {"kernel": Weight(kernel, (None,) * 4), "scale": channel, "bias": channel}

    def statistic(c: Conv) -> Tree:
        return {"mean": Weight((c.outputs,), (None,)), "variance": Weight((c.outputs,), (None,))}

    def tree(one: Any) -> Tree:
        return {
            "stem": one(stem),
            "blocks": [
                {"convs": [one(c) for c in block.convs]}
                | ({"shortcut": one(block.shortcut)} if block.shortcut else {})
                for block in blocks
            ],
        }

    features = blocks[-1].convs[-1].outputs
    params = tree(conv) | {
        "kernel": Weight((features, classes), (None, None)),
        "bias": Weight((classes,), (None,)),
    }
    return params, tree(statistic)


@dataclass(frozen=True)
class Net:
    """The network on one device of ``p``; activations ``[batch, height, width, channels]``."""

    p: Parallel
    stem: Conv
    blocks: list[Block]
    dtype: Any

    def forward(
        self, params: Tree, statistics: Tree, x: jax.Array, train: bool
    ) -> tuple[jax.Array, Tree]:
        """f32 logits ``[batch, classes]``, and the statistics with this batch's in them."""
        if train:  # the gradients of each device's batch are summed here
            params = jax.tree.map(lambda weight: self.p.vary(weight, "data"), params)
        x, stem = self._conv(self.stem, params["stem"], statistics["stem"], x, train)
        x = jax.nn.relu(x)
        x = lax.reduce_window(
            x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), [(0, 0), (1, 1), (1, 1), (0, 0)]
        )
        new = []
        for block, w, old in zip(self.blocks, params["blocks"], statistics["blocks"], strict=True):
            x, seen = self._block(block, w, old, x, train)
            new.append(seen)
        x = jnp.mean(x, axis=(1, 2), dtype=jnp.float32).astype(self.dtype)
        kernel = params["kernel"].astype(self.dtype)
        logits = jnp.dot(x, kernel, preferred_element_type=jnp.float32) + params["bias"]
        return logits, {"stem": stem, "blocks": new}

    def _block(
        self, block: Block, w: Tree, old: Tree, x: jax.Array, train: bool
    ) -> tuple[jax.Array, Tree]:
        beside, seen = x, {}
        if block.shortcut:
            args = (block.shortcut, w["shortcut"], old["shortcut"], x, train)
            beside, seen["shortcut"] = self._conv(*args)
        seen["convs"] = []
        for number, conv in enumerate(block.convs):
            x = jax.nn.relu(x) if number else x
            x, one = self._conv(conv, w["convs"][number], old["convs"][number], x, train)
            seen["convs"].append(one)
        return jax.nn.relu(x + beside), seen

    def _conv(
        self, c: Conv, w: Tree, old: Tree, x: jax.Array, train: bool
    ) -> tuple[jax.Array, Tree]:
        """Convolution and batch norm; the mean over all devices' images where it trains."""
        padding = [((c.size - 1) // 2, c.size // 2)] * 2
        x = lax.conv_general_dilated(
            x,
            w["kernel"].astype(self.dtype),
            (c.stride, c.stride),
            padding,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        wide, seen = x.astype(jnp.float32), old
        mean, variance = old["mean"], old["variance"]
        if train:
            moments = jnp.stack([jnp.mean(wide, (0, 1, 2)), jnp.mean(wide * wide, (0, 1, 2))])
            mean, square = self.p.sum(moments, "data") / self.p.parts("data")
            variance = square - mean * mean
            seen = {
                "mean": NORM_MOMENTUM * old["mean"] + (1 - NORM_MOMENTUM) * mean,
                "variance": NORM_MOMENTUM * old["variance"] + (1 - NORM_MOMENTUM) * variance,
            }
        # In one array, so that their gradients are one all-reduce.
        both = jnp.stack([mean, lax.rsqrt(variance + NORM_EPS)])
        mean, inverse = self.p.vary(both, "data")
        normal = (wide - mean) * (inverse * w["scale"]) + w["bias"]
        return normal.astype(self.dtype), lax.stop_gradient(seen)


def _multiplications(stem: Conv, blocks: list[Block], classes: int, image: int) -> int:
    """Multiplications of the convolutions and the last layer for one image, padding included."""

    def conv(c: Conv, side: int) -> int:
        return side * side * c.size * c.size * c.inputs * c.outputs

    side = (image + 1) // 2
    total = conv(stem, side)
    side = (side + 1) // 2
    for block in blocks:
        after = side
        for c in block.convs:
            after = (after + c.stride - 1) // c.stride
            total += conv(c, after)
        if block.shortcut:
            total += conv(block.shortcut, after)
        side = after
    return total + blocks[-1].convs[-1].outputs * classes
