"""PyTorch programs, exported and run through XLA, against PyTorch; prints differences as JSON.

A process of its own: pytest's never imports torch.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import io
import json
import math
import os
import re
import sys
import tempfile
import warnings
from collections import Counter

os.environ.update(JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES="8")

import jax
import numpy as np
import torch
import torch.distributed as dist
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.scan import scan
from torch.distributed import _functional_collectives as functional_collectives
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

from hespas import frontends
from hespas.dialects.mlir import collect_functions, make_context
from hespas.frontends.export import lower_exportable
from hespas.frontends.pytorch import TorchTrainingStep, to_exportable
from hespas.support.errors import HespasError
from support.export_execution import run

P = PartitionSpec


class Block(nn.Module):
    """A transformer block: causal attention and an MLP."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def forward(self, x):
        b, t, d = x.shape
        parts = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class Language(nn.Module):
    """Embedding, RMSNorm with rotary positions, logits."""

    def __init__(self, width=16):
        super().__init__()
        self.embedding, self.norm = nn.Embedding(50, width), nn.RMSNorm(width)

    def forward(self, tokens):
        x = self.norm(self.embedding(tokens))
        half = x.shape[-1] // 2
        angle = torch.outer(torch.arange(x.shape[1]), 1e4 ** (-torch.arange(half) / half))
        a, b = x[..., :half], x[..., half:]
        turned = (a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos())
        return torch.cat(turned, -1) @ self.embedding.weight.T


class Image(nn.Module):
    """Convolution, batch norm that counts, an activation in place, pooling."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8),
            nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1), nn.Conv2d(8, 8, 3, groups=4),
        )  # fmt: skip
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class MLP(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.up, self.down = nn.Linear(width, 64), nn.Linear(64, width)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class Repeated(nn.Module):
    """A module that runs again for the backward pass."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False)


def numpy(tree):
    """The tensors of a tree as JAX keeps them, in the order of JAX's leaves."""
    arrays = pytree.tree_map_only(torch.Tensor, lambda t: t.detach().numpy(), tree)
    return [
        a.astype(np.int32) if a.dtype == np.int64 else a
        for a in jax.tree.leaves(arrays)
        if isinstance(a, np.ndarray)
    ]


def through_xla(program, values):
    """The results of an exported program on one CPU device, read back as the tools do."""
    buffer = io.BytesIO()
    lower_exportable(program).compiler_ir("stablehlo").operation.write_bytecode(buffer)
    module = frontends.parse_module(buffer.getvalue(), "export", make_context())
    main = collect_functions(module)["main"]
    used = {str(argument.location) for argument in main.regions[0].blocks[0].arguments}
    names = list(inspect.signature(program.function).parameters)
    paths = [path for path, _ in jax.tree.leaves_with_path(program.args)]
    labels = [names[path[0].idx] + jax.tree_util.keystr(path[1:]) for path in paths]
    program_arguments = [
        [value]
        for label, value in zip(labels, numpy(values), strict=True)
        if f'loc("{label}")' in used  # JAX leaves out what is not used
    ]
    return [column[0] for column in run(module, program_arguments, jax.devices()[:1], shardy=True)]


def difference(result, expected):
    """The largest difference, relative to the largest value."""
    expected = numpy(expected)
    assert len(result) == len(expected), (len(result), len(expected))
    worst = 0.0
    for actual, reference in zip(result, expected, strict=True):
        assert actual.shape == reference.shape, (actual.shape, reference.shape)
        scale = max(1e-3, float(np.abs(reference).max()))
        worst = max(worst, float(np.abs(np.asarray(actual, np.float64) - reference).max()) / scale)
    return worst


def module_case(module, *args):
    module = module.eval()
    program = to_exportable("case", module, args)
    state = (dict(module.named_parameters()), dict(module.named_buffers()), *args)
    return difference(through_xla(program, state), module(*args))


def training_case(module, loss, *batch):
    """A step against torch.optim.AdamW: new weights, buffers and the loss."""
    # Epsilon is large, or the first step takes but the sign of a gradient, be it ever so small.
    step = TorchTrainingStep(module, loss, rate=0.01, decay=0.1, epsilon=1e-3)
    state = {**step.state, "count": torch.zeros(())}
    before = {key: value.detach().clone() for key, value in module.named_parameters()}
    buffers = {key: value.clone() for key, value in module.named_buffers()}
    arguments = ({**state, "weights": before, "buffers": buffers}, *batch)
    result = through_xla(to_exportable("case", step, arguments), arguments)
    optimizer = torch.optim.AdamW(
        module.parameters(), lr=0.01, betas=(0.9, 0.95), eps=1e-3, weight_decay=0.1
    )
    value = loss(module, *batch)
    value.backward()
    optimizer.step()
    moments = {
        name: {
            k: optimizer.state[p].get(name, torch.zeros_like(p))
            for k, p in module.named_parameters()
            if p.requires_grad
        }
        for name in ("exp_avg", "exp_avg_sq")
    }
    expected = {
        "weights": dict(module.named_parameters()), "buffers": dict(module.named_buffers()),
        "first": moments["exp_avg"], "second": moments["exp_avg_sq"], "count": torch.ones(()),
    }  # fmt: skip
    return difference(result, (expected, value))


def attention():
    """Attention in 16 bits with its gradients: the op that stands for PyTorch's kernels."""
    torch.manual_seed(0)
    masks = None, torch.rand(6, 10) > 0.3, torch.randn(1, 1, 6, 10).bfloat16()

    def differentiate(q, k, v, number):
        q, k, v = (x.detach().bfloat16().requires_grad_() for x in (q, k, v))
        with torch.enable_grad():
            y = functional.scaled_dot_product_attention(
                q, k, v, masks[number], is_causal=not number, scale=0.3, enable_gqa=True
            )
            gradients = torch.autograd.grad(y.float().pow(2).sum(), (q, k, v))
        return [x.detach().float() for x in (y, *gradients)]

    q, k, v = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 10, 8), torch.randn(2, 2, 10, 8)
    differences = []
    for number in range(len(masks)):
        case = functools.partial(differentiate, number=number)
        result = through_xla(to_exportable("case", case, (q, k, v)), (q, k, v))
        differences.append(difference(result, case(q, k, v)))
    return max(differences)


def ring_steps():
    """The step of ring attention with its gradients, against products and a softmax."""
    torch.manual_seed(0)
    values = [torch.randn(2, 4, 6, 8) for _ in "qkv"]

    def attend(q, k, v):
        return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True)[:2]

    def attend_plainly(q, k, v):
        scores = (q @ k.mT / math.sqrt(8)).masked_fill(torch.ones(6, 6).tril() == 0, -math.inf)
        return scores.softmax(-1) @ v, scores.logsumexp(-1)

    def differentiate(*values, function):
        values = [x.detach().requires_grad_() for x in values]
        with torch.enable_grad():
            y, sums = function(*values)
            return [y.detach(), sums.detach(), *torch.autograd.grad(y.pow(2).sum(), values)]

    case = functools.partial(differentiate, function=attend)
    result = through_xla(to_exportable("case", case, tuple(values)), values)
    return difference(result, differentiate(*values, function=attend_plainly))


def list_ring_collectives():
    """The collectives of causal attention in a context, with gradients, and its calls on a GPU."""
    mesh = init_device_mesh("cpu", (8,), mesh_dim_names=("context",))
    module = nn.Linear(64, 192, bias=False).bfloat16()

    def differentiate(x):
        with context_parallel(mesh, buffers=[x], buffer_seq_dims=[1]):
            parts = module(x).chunk(3, -1)
            q, k, v = (part.unflatten(-1, (4, 16)).transpose(1, 2) for part in parts)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            y.float().pow(2).mean().backward()
        return y.detach()

    program = to_exportable("case", differentiate, (torch.empty(2, 128, 64).bfloat16(),), mesh=mesh)
    text = lower_exportable(program, platform="cuda").as_text()
    calls = Counter(re.findall(r"custom_call @(\w+\$\w+)", text))
    assert tuple(program.function.__signature__.parameters) == ("x", "module")
    return {**Counter(list_collectives(program)), **calls}


def flexible_attention():
    """Attention with functions of scores and masks; PyTorch's own has no gradients on the CPU."""
    torch.manual_seed(0)
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device="cpu")
    q, k, v = torch.randn(2, 4, 128, 8), torch.randn(2, 2, 128, 8), torch.randn(2, 2, 128, 8)
    slopes = torch.rand(4)

    def attend(q, k, v, slopes):
        return flex_attention(
            q, k, v, lambda score, b, h, i, j: score + slopes[h] * (j - i), mask, enable_gqa=True
        )

    def attend_plainly(q, k, v, slopes):
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        distance = torch.arange(128)[:, None] - torch.arange(128)
        scores = q @ k.mT / math.sqrt(8) - slopes[:, None, None] * distance
        return scores.masked_fill(distance < 0, -math.inf).softmax(-1) @ v

    def differentiate(*values, function):
        values = [x.detach().requires_grad_() for x in values]
        with torch.enable_grad():
            y = function(*values)
            return [y.detach(), *torch.autograd.grad(y.pow(2).sum(), values)]

    values = q, k, v, slopes
    expected = differentiate(*values, function=attend_plainly)
    assert torch.allclose(attend(*values), expected[0], atol=1e-5)
    case = functools.partial(differentiate, function=attend)
    return difference(through_xla(to_exportable("case", case, values), values), expected)


def partly_trained():
    """One weight frozen, one that the loss does not use."""
    module = MLP()
    module.up.weight.requires_grad_(False)
    module.unused = nn.Parameter(torch.ones(3))
    return training_case(module, lambda m, x: m(x).pow(2).mean(), torch.randn(4, 32))


def pad(value, shape):
    """Add what the last devices lack of a parameter that they do not divide."""
    extra = [(0, size - old) for size, old in zip(shape, value.shape, strict=True)]
    return np.pad(value, extra) if extra else value


def distributed(program, values):
    """The results of a program on its mesh of CPU devices."""
    sizes = tuple(program.mesh.values())
    mesh = Mesh(
        np.array(jax.devices()).reshape(sizes), tuple(program.mesh),
        axis_types=(AxisType.Auto,) * len(sizes),
    )  # fmt: skip
    specs = jax.tree.leaves(program.in_shardings, is_leaf=lambda leaf: isinstance(leaf, P))
    shapes = [leaf.shape for leaf in jax.tree.leaves(program.args)]
    placed = [
        jax.device_put(pad(value, shape), NamedSharding(mesh, spec))
        for value, shape, spec in zip(numpy(values), shapes, specs, strict=True)
    ]
    tree = jax.tree.unflatten(jax.tree.structure(program.args), placed)
    with jax.set_mesh(mesh):
        return [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(program.function)(*tree))]


def partitioned_by_xla():
    module, x = Block(), torch.randn(8, 16, 32)
    program = to_exportable(
        "case", module, (x,), mesh={"data": 2, "tensor": 4},
        shardings={"x": P("data"), "weights.mlp.0.*": P("tensor"), "*.qkv.weight": P("tensor")},
    )  # fmt: skip
    return difference(distributed(program, (dict(module.named_parameters()), x)), module(x))


def tensor_parallel():
    whole, x = MLP(), torch.randn(8, 32)
    with torch.device("meta"):
        module = MLP()
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("data", "tensor"))
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    parallelize_module(module, mesh["tensor"], plan)
    program = to_exportable("case", module, (torch.empty(8, 32),), mesh=mesh, shardings={"x": P()})
    return difference(distributed(program, (dict(whole.named_parameters()), x)), whole(x))


def sharded_training():
    """Weights and batch divided over 8 devices, as FSDP does, against one device."""
    whole, x = MLP(), torch.randn(16, 32)
    with torch.device("meta"):
        module = MLP()
    mesh = init_device_mesh("cpu", (8,), mesh_dim_names=("data",))
    for layer in (module.up, module.down):
        for name, weight in list(layer.named_parameters()):
            placed = distribute_tensor(weight, mesh, [Shard(0)])
            layer.register_parameter(name, nn.Parameter(placed))

    def loss(model, x):
        return model(x).pow(2).mean()

    step, single = TorchTrainingStep(module, loss), TorchTrainingStep(whole, loss)
    batch = distribute_tensor(torch.empty(16, 32, device="meta"), mesh, [Shard(0)])
    program = to_exportable("case", step, (step.state, batch), mesh=mesh)
    state = {**single.state, "count": torch.zeros(())}
    return difference(distributed(program, (state, x)), single(state, x))


def fully_sharded_training():
    """Steps of ``fully_shard`` with what it composes with, against one device."""
    differences = []
    for axes, resharded, tensor_parallel, outputs in (
        ({"data": 8}, True, False, 11),
        ({"data": 8}, False, False, 8),
        ({"replica": 2, "data": 4}, True, False, 11),
        ({"data": 4, "tensor": 2}, True, True, 8),
    ):
        whole = nn.Sequential(MLP(), Repeated(MLP()), nn.Linear(32, outputs))
        x = torch.randn(16, 32)
        with torch.device("meta"):
            module = nn.Sequential(MLP(), Repeated(MLP()), nn.Linear(32, outputs))
        mesh = init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
        sharded = mesh["data"] if tensor_parallel else mesh
        for layer in (module[0], module[1].inner):
            if tensor_parallel:
                plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
                parallelize_module(layer, mesh["tensor"], plan)
            fully_shard(layer, mesh=sharded, reshard_after_forward=resharded)
        fully_shard(module, mesh=sharded)

        def loss(model, x):
            return model(x).pow(2).mean()

        step, single = TorchTrainingStep(module, loss), TorchTrainingStep(whole, loss)
        rows = P(tuple(axis for axis in axes if axis != "tensor"))
        program = to_exportable(
            "case", step, (step.state, torch.empty(16, 32, device="meta")),
            mesh=mesh, shardings={"batch*": rows},
        )  # fmt: skip
        state = {**single.state, "count": torch.zeros(())}
        *results, _ = distributed(program, (state, x))  # the loss is that of the local batch
        expected = single(state, x)[0]
        parts = zip(results, numpy(expected), strict=True)
        cut = [part[tuple(map(slice, like.shape))] for part, like in parts]
        differences.append(difference(cut, expected))
    return max(differences)


def replicated_training():
    """A step of DistributedDataParallel in several buckets, with a frozen bias."""
    whole = nn.Sequential(MLP(), Repeated(MLP()), nn.Linear(32, 8))
    module = copy.deepcopy(whole)
    module[0].up.bias.requires_grad_(False)
    whole[0].up.bias.requires_grad_(False)
    mesh = init_device_mesh("cpu", (8,), mesh_dim_names=("data",))
    wrapper = DistributedDataParallel(module, device_mesh=mesh, bucket_cap_mb=0.01)

    def loss(model, x):
        return model(x).pow(2).mean()

    step, single = TorchTrainingStep(wrapper, loss), TorchTrainingStep(whole, loss)
    x = torch.randn(16, 32)
    program = to_exportable("case", step, (step.state, x), mesh=mesh, shardings={"b*": P("data")})
    state = {**single.state, "count": torch.zeros(())}
    *results, _ = distributed(program, (state, x))
    return difference(results, single(state, x)[0])


def eager_collectives():
    """Collectives that write into their operands, over one axis of the mesh and over both."""
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("data", "tensor"))
    tensor, both = mesh.get_group("tensor"), mesh["data", "tensor"]._flatten("both")

    def communicate(x):
        reduced, largest, sent = x * 2, x * 3, x * 4
        dist.all_reduce(reduced, group=tensor)
        work = dist.all_reduce(largest, dist.ReduceOp.MAX, async_op=True)
        work.wait()
        parts = [torch.empty_like(x) for _ in range(8)]
        dist.all_gather(parts, x)
        gathered = torch.empty(4, *x.shape)
        dist.all_gather_into_tensor(gathered, x, group=tensor)
        part, scattered = torch.empty(2, 4), torch.empty(1, 4)
        dist.reduce_scatter(part, list(x.chunk(4)), group=tensor)
        dist.reduce_scatter_tensor(scattered, x)
        exchanged, listed = torch.empty_like(x), [torch.empty(2, 4) for _ in range(4)]
        dist.all_to_all_single(exchanged, x)
        dist.all_to_all(listed, list(x.chunk(4)), group=tensor)
        dist.broadcast(sent, 4)
        first, second = x * 5, x[:1] * 6
        with dist._coalescing_manager():
            dist.all_reduce(first)
            dist.all_reduce(second)
        dist.barrier()
        ring = functional_collectives.permute_tensor(x, [1, 2, 3, 4, 5, 6, 7, 0], both)
        total = functional_collectives.all_reduce(x, "sum", both)
        rest = reduced, largest, *parts, gathered, part, scattered, exchanged, *listed
        several = functional_collectives.all_reduce_coalesced([x, x[:2]], "sum", both)
        return *rest, sent, first, second, ring.clone(), total, *several

    x = torch.randn(64, 4)
    ranks = x.chunk(8)  # what follows is what rank 0 has
    expected = (
        sum(ranks[:4]) * 2, torch.stack(ranks).amax(0) * 3, *ranks, torch.stack(ranks[:4]),
        sum(ranks[:4])[:2], sum(ranks)[:1], torch.cat([part[:1] for part in ranks]),
        *(part[:2] for part in ranks[:4]), ranks[4] * 4, sum(ranks) * 5, sum(ranks)[:1] * 6,
        ranks[7], sum(ranks), sum(ranks), sum(ranks)[:2],
    )  # fmt: skip
    program = to_exportable(
        "case", communicate, (torch.empty(64, 4),), mesh=mesh,
        shardings={"x": P(("data", "tensor"))},
    )  # fmt: skip
    return difference(distributed(program, (x,)), expected)


def divided_attention():
    """Attention whose batch and heads are divided over a mesh, with a gradient."""
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("data", "tensor"))

    def differentiate(q, k, v):
        q = q.detach().requires_grad_()
        with torch.enable_grad():
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            (gradient,) = torch.autograd.grad(y.pow(2).sum(), q)
        return y.detach(), gradient

    values = [torch.randn(2, 4, 8, 16) for _ in "qkv"]
    placed = [distribute_tensor(x.to("meta"), mesh, [Shard(0), Shard(1)]) for x in values]
    program = to_exportable("case", differentiate, tuple(placed), mesh=mesh)
    return difference(distributed(program, values), differentiate(*values))


def step_by_parts(wrapper, module, optimiser, x):
    """Make a step of two batches; gradients are reduced after the second one."""
    first, second = x.chunk(2)
    if isinstance(wrapper, DistributedDataParallel):
        with wrapper.no_sync():
            wrapper(first).pow(2).mean().backward()
    else:
        for sets in (wrapper.set_requires_gradient_sync, wrapper.set_reshard_after_backward):
            sets(False)
        wrapper(first).pow(2).mean().backward()
        for sets in (wrapper.set_requires_gradient_sync, wrapper.set_reshard_after_backward):
            sets(True)
    wrapper(second).pow(2).mean().backward()
    optimiser.step()


def accumulated_gradients():
    """Steps of both wrappers over accumulated gradients, against one device; and what they send."""
    worst, mesh = [], init_device_mesh("cpu", (8,), mesh_dim_names=("data",))
    for kind in (DistributedDataParallel, fully_shard):
        module = nn.Sequential(MLP(), nn.Linear(32, 8))
        whole, x = copy.deepcopy(module), torch.randn(2, 8, 2, 32)  # parts of devices
        if kind is fully_shard:
            fully_shard(module[0], mesh=mesh)
        wrapper = kind(module, **{"mesh" if kind is fully_shard else "device_mesh": mesh})
        parameters = dict(whole.named_parameters())
        optimiser = torch.optim.SGD(wrapper.parameters(), lr=0.1)
        step = functools.partial(step_by_parts, wrapper, module, optimiser)
        rows = x.transpose(0, 1).reshape(-1, 32)  # each device has rows of both batches
        program = to_exportable("case", step, (rows,), mesh=mesh, shardings={"x": P("data")})
        collectives = [name.split()[0] for name in list_collectives(program)]
        # The outer unit is gathered once, the inner one after each forward pass, too.
        assert collectives == (
            [*["all_gather"] * 4, *["reduce_scatter"] * 2]
            if kind is fully_shard
            else ["all_reduce"]
        ), collectives
        result = distributed(program, (rows, {"weights": parameters}))
        for part in x:
            whole(part.reshape(-1, 32)).pow(2).mean().backward()
        torch.optim.SGD(whole.parameters(), lr=0.1).step()
        worst.append(difference(result, dict(whole.named_parameters())))
    return max(worst)


def list_replicated_collectives():
    """The collectives of a step of DistributedDataParallel."""
    mesh = init_device_mesh("cpu", (8,), mesh_dim_names=("data",))
    module = nn.Sequential(nn.Linear(1024, 1024), nn.BatchNorm1d(1024), nn.Linear(1024, 512))
    wrapper = DistributedDataParallel(module, device_mesh=mesh)
    step = TorchTrainingStep(wrapper, lambda m, x: m(x).pow(2).mean())
    program = to_exportable(
        "case", step, (step.state, torch.empty(16, 1024)), mesh=mesh, shardings={"b*": P("data")}
    )
    return list_collectives(program)


def list_sharded_collectives(resharded=None, reduce_dtype=torch.float32, **options):
    """The collectives of a mixed-precision step of ``fully_shard``."""
    mesh = init_device_mesh("cpu", (8,), mesh_dim_names=("data",))
    with torch.device("meta"):
        module, x = nn.Sequential(MLP(), Repeated(MLP()), MLP()), torch.empty(16, 32)
    policy = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype, **options)
    for child in (module[0], module[1].inner, module):
        fully_shard(child, mesh=mesh, mp_policy=policy, reshard_after_forward=resharded)
    step = TorchTrainingStep(module, lambda m, x: m(x).float().pow(2).mean())
    program = to_exportable(
        "case", step, (step.state, x), mesh=mesh, shardings={"batch*": P("data")}
    )
    return list_collectives(program)


def list_collectives_of_types():
    """The collectives of a step whose biases stay in f32; none before torch 2.15."""
    option = "param_dtype_override_fn"
    if option not in (field.name for field in dataclasses.fields(MixedPrecisionPolicy)):
        return []
    return list_sharded_collectives(**{option: lambda p: p.dtype if p.ndim == 1 else None})


def list_collectives(program):
    """The collectives of a program with the types of results, and which are in two groups of 4."""
    text = lower_exportable(program).as_text()
    pattern = r'stablehlo\.(all_\w+|reduce_scatter|collective_permute)"(.*?)-> tensor<(\w+)>'
    found = re.findall(pattern, text, re.S)
    return sorted(
        f"{name} {kind}" + (" in parts" if "tensor<2x4xi64>" in attributes else "")
        for name, attributes, kind in found
    )


def dropout():
    module = nn.Dropout(0.25).train()
    program = to_exportable("case", module, (torch.ones(64, 64),))
    (output,) = through_xla(program, ({}, {}, torch.ones(64, 64)))
    is_kept = output != 0
    assert np.allclose(output[is_kept], 1 / 0.75)
    return abs(float(is_kept.mean()) - 0.75)


def exported_program():
    module, x = Block().eval(), torch.randn(2, 16, 32)
    program = torch.export.export(module, (x,))
    with tempfile.NamedTemporaryFile(suffix=".pt2") as file:
        torch.export.save(program, file.name)
        program = torch.export.load(file.name)
    inner = program.module()
    state = (dict(inner.named_parameters()), dict(inner.named_buffers()), x)
    return difference(through_xla(to_exportable("case", program, (x,)), state), module(x))


class Scaled(MLP):
    def forward(self, x, *, scale):
        return super().forward(x) * scale


def exported_program_with_keywords():
    module, x, scale = Scaled().eval(), torch.randn(4, 32), torch.randn(32)
    program = torch.export.export(module, (x,), {"scale": scale})
    state = (dict(program.module().named_parameters()), x, scale)
    case = to_exportable("case", program, (x, scale))
    return difference(through_xla(case, state), module(x, scale=scale))


class Bags(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 8, mode=mode)

    def forward(self, indices, offsets=None, weights=None):
        return self.bag(indices, offsets, weights)


def embedding_bags():
    """Sums, means and maxima, with an empty bag; and the gradients of two of them."""
    pairs, flat = torch.randint(0, 20, (5, 3)), torch.randint(0, 20, (12,))
    offsets, weights = torch.tensor([0, 4, 4, 9]), torch.randn(12)
    worst = [module_case(Bags("sum"), flat, offsets, weights)]
    worst += [module_case(Bags(mode), flat, offsets) for mode in ("sum", "mean", "max")]
    for mode in ("sum", "mean"):
        worst.append(training_case(Bags(mode), lambda m, x: m(x).pow(2).mean(), pairs))
    return max(worst)


class Checkpointed(MLP):
    def forward(self, x):
        return x + checkpoint(super().forward, x, use_reentrant=False)


def checkpointed_training():
    """The first product runs again for the backward pass, and XLA must not merge both."""
    loss = lambda m, x: m(x).pow(2).mean()  # noqa: E731
    with torch.device("meta"):
        step = TorchTrainingStep(Checkpointed(), loss)
        program = to_exportable("case", step, (step.state, torch.empty(4, 32)))
    text = lower_exportable(program).as_text(debug_info=True)
    assert text.count("rematted_computation/up/dot_general") == 1, text
    assert text.count("stablehlo.dot_general") == 2 + 3 + 1, text
    assert "stablehlo.optimization_barrier" in text
    return training_case(Checkpointed(), loss, torch.randn(4, 32))


def reentrant_checkpoint():
    """The older kind of checkpoint runs again, too."""
    module = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())

    def differentiate(x):
        y = checkpoint(module, x.detach().requires_grad_(), use_reentrant=True)
        y.pow(2).mean().backward()
        return y.detach()

    x = torch.randn(4, 32)
    program = to_exportable("case", differentiate, (x,))
    text = lower_exportable(program).as_text(debug_info=True)
    assert len(re.findall(r"rematted_computation/\d/dot_general", text)) == 2
    state = dict(module.named_parameters())
    y, gradients = differentiate(x), {name: p.grad for name, p in state.items()}
    result = through_xla(program, (x, {"weights": state}))
    return difference(result, (y, {"gradients": gradients}))


def control_flow():
    """Ops with functions as arguments, with modules inside, and their gradients."""
    layer, x = nn.Linear(8, 8), torch.rand(5, 8)

    def choose(x, cond=torch.cond):
        y = cond(x.sum() > 0, lambda x: layer(x), lambda x: x @ layer.weight, (x,))
        y.pow(2).sum().backward()
        return y.detach()

    def walk(x, scan=scan):
        last, rows = scan(lambda c, row: (torch.tanh(layer(c) + row), c * row), torch.zeros(8), x)
        (last.sum() + rows.pow(2).sum()).backward()
        return last.detach(), rows.detach()

    def repeat(x, loop=torch.while_loop):
        with torch.no_grad():
            step = lambda i, x: (i + 1, torch.tanh(layer(x)))  # noqa: E731
            return loop(lambda i, x: i < 3, step, (torch.tensor(0), x))

    def accumulate(x, scan=associative_scan):
        return scan(lambda a, b: a * b, x, 0, combine_mode="pointwise")

    def loop_plainly(is_running, body, carried):
        while is_running(*carried):
            carried = body(*carried)
        return carried

    def scan_plainly(body, carried, rows):
        results = []
        for row in rows:
            carried, result = body(carried, row)
            results.append(result)
        return carried, torch.stack(results)

    plain = {
        choose: lambda predicate, yes, no, args: (yes if predicate else no)(*args),
        walk: scan_plainly,
        repeat: loop_plainly,
        accumulate: lambda function, x, dim, combine_mode: torch.cumprod(x, dim),
    }
    worst = []
    for function, rule in plain.items():
        layer.zero_grad()
        expected, program = function(x, rule), to_exportable("case", function, (x,))
        state = dict(layer.named_parameters())
        if layer.weight.grad is not None:
            gradients = {name: p.grad for name, p in state.items() if p.grad is not None}
            expected = (expected, {"gradients": gradients})
        values = (x,) if function is accumulate else (x, {"weights": state})
        worst.append(difference(through_xla(program, values), expected))
    return max(worst)


def own_ops():
    """Ops of ``torch.library`` are what their functions for the CPU run."""
    name = "hespas_test::scaled"

    @torch.library.custom_op(name, mutates_args=(), device_types="cuda")
    def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
        raise NotImplementedError  # runs a kernel

    @scale.register_kernel("cpu")
    def _(x, factor):
        y = x.clone()
        y.mul_(factor)
        return y.relu()

    scale.register_fake(lambda x, factor: torch.empty_like(x))
    scale.register_autograd(
        lambda ctx, gradient: (scale(gradient, 3.0), None), setup_context=lambda *_, **__: None
    )
    return gradient_case(lambda x: scale(x, 2.0), torch.randn(4, 8))


def dropped_attention():
    """The mean of attention with dropout over 4,096 heads with equal values."""
    q = torch.randn(64, 64, 4, 8).bfloat16()
    attend = lambda q: functional.scaled_dot_product_attention(  # noqa: E731
        q, q, torch.ones_like(q), dropout_p=0.25, is_causal=True
    ).float().mean((0, 1, 3))  # fmt: skip
    values = (q.float(),)
    program = to_exportable("case", lambda q: attend(q.bfloat16()), values)
    (result,) = through_xla(program, values)
    return float(np.abs(result - 1).max())


def list_uneven_exchanges():
    """The operands and results of an uneven all-to-all, and of its gradient."""
    mesh = init_device_mesh("cpu", (8,), mesh_dim_names=("data",))
    exchange = functional_collectives.all_to_all_single_autograd
    received, sent = [1, 2, 3, 4, 1, 2, 3, 5], [4, 3, 2, 1, 4, 3, 2, 1]

    def differentiate(x):
        x = x.detach().requires_grad_()
        exchange(x, received, sent, mesh.get_group()).pow(2).sum().backward()
        return x.grad

    program = to_exportable("case", differentiate, (torch.empty(20, 32),), mesh=mesh)
    text = lower_exportable(program).as_text()
    found = re.findall(r"@ragged_all_to_all.*: \((tensor<\w+>).*-> (tensor<\w+>)", text)
    return [" to ".join(pair) for pair in found]


def find_autocast_types(device, dtype):
    """The types of results in a region of autocast, as a trace for a GPU has them."""
    kinds = {}

    def compute(x, w):
        with torch.autocast(device, dtype):
            y = x @ w
            kinds["product"], kinds["sum"] = y.dtype, y.sum(-1).dtype
            kinds["mean"], kinds["softmax"] = y.mean(-1).dtype, functional.softmax(y, -1).dtype
            kinds["norm"] = functional.layer_norm(y, y.shape[-1:]).dtype
            q = x[None, None]
            kinds["attention"] = functional.scaled_dot_product_attention(q, q, q).dtype
            with torch.autocast(device, enabled=False):
                kinds["disabled"] = (x @ w).dtype
        kinds["outside"] = (x @ w).dtype
        return y

    to_exportable("case", compute, (torch.empty(16, 32), torch.empty(32, 16)))
    return {name: str(kind).removeprefix("torch.") for name, kind in kinds.items()}


def find_precisions(setting):
    """The precisions of a product of f32, one of bf16, and a convolution, for a GPU."""
    torch.set_float32_matmul_precision(setting)
    image, kernel = torch.ones(1, 2, 8, 8), torch.ones(2, 2, 3, 3)
    x = torch.ones(8, 8)
    compute = lambda x, y, i, k: (x @ x, y @ y, functional.conv2d(i, k))  # noqa: E731
    program = to_exportable("case", compute, (x, x.bfloat16(), image, kernel))
    text = lower_exportable(program, "cuda").as_text()
    torch.set_float32_matmul_precision("highest")
    return re.findall(r"(?:dot_general|convolution).*(DEFAULT|HIGHEST)", text)


def integer_product():
    a, b = (torch.randint(-9, 9, (32, 32), dtype=torch.int8) for _ in range(2))
    return difference(
        through_xla(to_exportable("case", torch._int_mm, (a, b)), (a, b)), a.int() @ b.int()
    )


def multiply_groups(a, b, ends):
    """In bf16, the only type that torch 2.13 multiplies in groups."""
    return functional.grouped_mm(a.bfloat16(), b.bfloat16(), offs=ends).float()


class Experts(nn.Module):
    """Experts whose products are grouped, as Hugging Face's models have them."""

    def __init__(self):
        super().__init__()
        self.up = nn.Parameter(torch.randn(4, 16, 24))
        self.down = nn.Parameter(torch.randn(4, 16, 24))

    def forward(self, x, expert):
        expert, order = torch.sort(expert)
        ends = torch.histc(expert.float(), 4, 0, 3).cumsum(0, dtype=torch.int32)
        wide = torch.relu(multiply_groups(x[order], self.up, ends))
        y = multiply_groups(wide, self.down.transpose(1, 2), ends)
        return torch.zeros_like(x).index_add(0, order, y)


def products_of_eight_bits():
    x, w = torch.randn(32, 16), torch.randint(-99, 99, (24, 16), dtype=torch.int8)
    scales = torch.rand(24)
    packed = to_exportable("case", torch.ops.aten._weight_int8pack_mm, (x, w, scales))
    worst = [difference(through_xla(packed, (x, w, scales)), x @ w.float().T * scales)]
    a, b = (torch.randn(n, 16).to(torch.float8_e4m3fn) for n in (32, 48))
    rows, columns = torch.rand(32, 1), torch.rand(1, 48)
    recipes = functional.ScalingType
    for scale_a, scale_b, recipe in (
        (torch.tensor(0.5), torch.tensor(3.0), recipes.TensorWise),
        (rows, columns, recipes.RowWise),
    ):
        multiply = lambda a, b, *scales: torch._scaled_mm(  # noqa: E731
            a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).T, *scales,
            out_dtype=torch.float32,
        )  # fmt: skip
        multiply_by_recipe = lambda a, b, scale_a, scale_b, recipe=recipe: functional.scaled_mm(  # noqa: E731
            a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).T, scale_a, recipe, scale_b,
            recipe, output_dtype=torch.float32,
        )  # fmt: skip
        values = (a.float(), b.float(), scale_a, scale_b)  # numpy has no type of 8 bits
        expected = a.float() @ b.float().T * scale_a * scale_b
        for case in (multiply, multiply_by_recipe):
            program = to_exportable("case", case, values)
            worst.append(difference(through_xla(program, values), expected))
    return max(worst)


def linear_algebra():
    x, rows = torch.randn(3, 8, 8), torch.randn(3, 8, 4)
    cases = [
        lambda x, b: torch.linalg.solve(x, b),
        lambda x, b: torch.linalg.solve(x, b[..., 0]),
        lambda x, b: torch.linalg.solve(x, b.mT, left=False),
        lambda x, b: torch.linalg.det(x),
        lambda x, b: tuple(torch.linalg.slogdet(x)),
    ]
    return max(
        difference(through_xla(to_exportable("case", case, (x, rows)), (x, rows)), case(x, rows))
        for case in cases
    )


def gradient_case(function, *values):
    """Compare the result of a function, and its gradients, with PyTorch's."""

    def compute(*values):
        values = [value.detach().requires_grad_() for value in values]
        result = function(*values)
        parts = torch.autograd.grad(result.sin().sum(), values, allow_unused=True)
        return (result.detach(), *(part for part in parts if part is not None))

    return difference(through_xla(to_exportable("case", compute, values), values), compute(*values))


def resampling():
    """Results and gradients of resampled images, most of which torchax has no rule for."""
    x, points = torch.rand(2, 3, 8, 6), torch.rand(2, 5, 4, 2)
    resize = lambda mode, **size: lambda x, p: functional.interpolate(x, mode=mode, **size)  # noqa: E731
    cases = [
        resize("nearest", scale_factor=2),
        resize("nearest", size=(13, 5)),
        resize("nearest", scale_factor=1.7),
        resize("nearest-exact", size=(13, 3)),
        resize("bilinear", scale_factor=2),
        resize("bilinear", size=(13, 5), align_corners=True),
        resize("bicubic", scale_factor=2),
        lambda x, p: functional.interpolate(x[0], scale_factor=2, mode="linear"),
        lambda x, p: functional.interpolate(x[None], scale_factor=2, mode="trilinear"),
        lambda x, p: functional.interpolate(x[None], scale_factor=3),
        lambda x, p: functional.adaptive_avg_pool2d(x, (3, 4)),
        lambda x, p: functional.adaptive_max_pool2d(x, (4, 3)),
        lambda x, p: functional.adaptive_max_pool2d(x[0], (3, 4)),
        lambda x, p: functional.adaptive_max_pool3d(x[None], (2, 5, 4)),
        lambda x, p: functional.adaptive_max_pool1d(x[0], 5),
        lambda x, p: functional.pad(x, (1, 2, 1, 1), mode="replicate"),
        lambda x, p: functional.grid_sample(x, 2 * p - 1, align_corners=False),
        lambda x, p: functional.softshrink(x),
    ]

    return max(gradient_case(case, x, points) for case in cases)


def layers():
    """Results and gradients of functions of layers that torchax lacks."""
    x, y, scale = torch.randn(2, 5, 8), torch.randn(2, 7, 8), torch.rand(5) + 0.5
    zeros = torch.zeros(5, dtype=torch.int32)
    per_tensor = torch.fake_quantize_per_tensor_affine
    cases = [
        *(lambda x, y, s, p=p: torch.cdist(x, y, p) for p in (0.0, 1.0, 2.0, 3.0, torch.inf)),
        lambda x, y, s: torch._weight_norm(x, s.reshape(1, 5, 1)[:, :1, :1].expand(2, 1, 1), 0),
        lambda x, y, s: torch._weight_norm(y, s.mean() + torch.ones(1, 1, 8), 2),
        lambda x, y, s: per_tensor(x, 0.1, 3, -8, 7),
        lambda x, y, s: per_tensor(x, s[:1].detach(), zeros[:1], -8, 7),
        lambda x, y, s: torch.fake_quantize_per_channel_affine(x, s.detach(), zeros, 1, -2, 1),
    ]
    worst = [gradient_case(case, x, y, scale) for case in cases]
    for function in (update_lists, view_bytes):
        results = through_xla(to_exportable("case", function, (x,)), (x,))
        worst.append(difference(results, function(x)))
    return max(worst)


def view_bytes(x):
    """What packs several types into one buffer does."""
    return x.view(torch.int16).float(), x.view(torch.uint8).view(torch.int32).view(x.dtype)


def update_lists(x):
    """What optimisers do with lists of tensors."""
    moments = torch._foreach_add([x, 2 * x], [x, x], alpha=0.5)
    torch._foreach_mul_(moments, [2.0, 3.0])
    scaled = torch._foreach_addcdiv(moments, moments, torch._foreach_exp(moments), 0.3)
    mixed = torch._foreach_lerp(torch._foreach_addcmul(scaled, moments, scaled), moments, 0.1)
    powers = torch._foreach_pow(2.0, torch._foreach_maximum(mixed, 0.5))
    return torch.stack(torch._foreach_norm(powers)), *torch._foreach_addcmul(
        mixed, mixed, mixed, [0.5, 2.0]
    )


def random_values():
    """The means of distributions that torchax lacks."""
    x = torch.zeros(10_000)
    draw = lambda x: (  # noqa: E731
        torch.empty_like(x).exponential_(4.0).mean(), torch.empty_like(x).normal_(1.0, 2.0).std()
    )  # fmt: skip
    mean, deviation = through_xla(to_exportable("case", draw, (x,)), (x,))
    return max(abs(4 * mean - 1), abs(deviation / 2 - 1)).item()


def grouped_products():
    """Forward and backward, with an expert that gets no token; and the other two shapes."""
    x, expert = torch.randn(32, 16), torch.randint(0, 3, (32,))
    ends, many = torch.tensor([8, 8, 32], dtype=torch.int32), torch.randn(3, 16, 16)
    cases = [(many, torch.randn(16, 32), ends), (many, many, None)]
    worst = [training_case(Experts(), lambda m, x, e: m(x, e).pow(2).mean(), x, expert)]
    for a, b, ends in cases:
        values = (a, b, ends)[: 2 + (ends is not None)]
        program = to_exportable("case", multiply_groups, (a, b, ends))
        worst.append(difference(through_xla(program, values), multiply_groups(a, b, ends)))
    return max(worst)


@dataclasses.dataclass
class Prediction:
    loss: torch.Tensor
    logits: torch.Tensor
    hidden: tuple[torch.Tensor, ...] | None = None


class Cache:
    """An object that holds tensors and a reference to itself, as caches of libraries do."""

    def __init__(self, keys):
        self.layers, self.owner, self.size = [keys, keys + 1], self, 2


class Predictor(nn.Module):
    """A model whose result is an object, as in Hugging Face's transformers."""

    def __init__(self):
        super().__init__()
        self.mlp = MLP()

    def forward(self, x):
        y = self.mlp(x)
        return Prediction(y.sum(), y), Cache(x)


def results_that_are_objects():
    module, x = Predictor().eval(), torch.randn(4, 32)
    result = through_xla(to_exportable("case", module, (x,)), (dict(module.named_parameters()), x))
    y = module.mlp(x)
    return difference(result, ({"loss": y.sum(), "logits": y}, {"layers": [x, x + 1]}))


def compiled():
    """What torch.compile returns for a module and for a function, and a module in place."""
    x, worst = torch.randn(4, 32), 0.0
    for change in (torch.compile, lambda module: (module.up.compile(), module)[1]):
        module = MLP().eval()
        state = (dict(module.named_parameters()), x)
        expected = module(x)
        result = through_xla(to_exportable("case", change(module), (x,)), state)
        worst = max(worst, difference(result, expected))
    function = torch.compile(lambda x: torch.relu(x) + 1)
    result = through_xla(to_exportable("case", function, (x,)), (x,))
    return max(worst, difference(result, torch.relu(x) + 1))


def captured_model():
    """A function around a model and a tensor: both are arguments, no constants of the program."""
    module, table, x = MLP().eval(), torch.randn(8, 32), torch.randn(4, 32)
    program = to_exportable("case", lambda x: module(x) * 2 + table.sum(0), (x,))
    _, weights, captured = program.args
    assert sorted(weights["weights"]) == sorted(dict(module.named_parameters()))
    assert [tuple(leaf.shape) for leaf in captured.values()] == [(8, 32)]
    weights = {"weights": dict(module.named_parameters())}
    values = (x, weights, dict.fromkeys(captured, table))
    return difference(through_xla(program, values), module(x) * 2 + table.sum(0))


class Trainer:
    """A training loop's body: gradients of two batches are added and clipped."""

    def __init__(self, module, optimiser, clips=True, **options):
        self.model, self.clips = module, clips
        self.optimizer = optimiser(module.parameters(), **{"lr": 0.01, **options})
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda count: 1)

    def step(self, x):
        self.optimizer.zero_grad()
        for part in x.chunk(2):
            with torch.profiler.record_function("loss"):
                loss = self.model(part).pow(2).mean()
            loss.backward()
        if self.clips:
            nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)
        self.optimizer.step()
        self.scheduler.step()
        return loss.detach()


class Tied(nn.Module):
    """A language model whose output layer has the weights of its embedding; and a batch norm."""

    def __init__(self):
        super().__init__()
        self.norm, self.embedding = nn.BatchNorm1d(16), nn.Embedding(16, 50)
        self.head = nn.Linear(50, 16, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(self.embedding(x.argmax(-1))) + self.norm(x)


def optimised_in_place():
    """The second step of a trainer, which the program is, against PyTorch."""
    worst = []
    for module, optimiser, options in (
        (MLP(16), torch.optim.SGD, {}),
        (MLP(16), torch.optim.SGD, {"momentum": 0.9, "fused": True}),
        (Tied(), torch.optim.AdamW, {"eps": 1e-3}),
        (MLP(16), torch.optim.AdamW, {"eps": 1e-3, "lr": torch.tensor(0.02)}),
        (MLP(16), torch.optim.AdamW, {"eps": 1e-3, "foreach": True, "amsgrad": True}),
        (MLP(16), torch.optim.Adam, {"eps": 1e-3, "fused": True}),
        (MLP(16), torch.optim.Adagrad, {}),
        (MLP(16), torch.optim.RMSprop, {"eps": 1e-3}),
    ):
        trainer, x = Trainer(module, optimiser, **options), torch.randn(4, 16)
        trainer.step(x)
        names = dict(module.named_parameters())
        is_fused = optimiser is torch.optim.Adam  # which has the number of the step on the device

        def collect(names=names, trainer=trainer, is_fused=is_fused):
            buffers = dict(trainer.model.named_buffers())
            optimizer = {
                f"{name}.{key}": value
                for name, parameter in names.items()
                for key, value in trainer.optimizer.state[parameter].items()
                if value is not None and (key != "step" or is_fused)
            }
            roles = {"weights": names, "buffers": buffers, "opt_state": optimizer}
            copies = {
                role: {key: value.detach().clone() for key, value in tensors.items()}
                for role, tensors in roles.items()
                if tensors
            }
            moments = {role: copies.pop(role) for role in ("opt_state",) if role in copies}
            return {"model": copies, **({"optimizer": moments} if moments else {})}

        program, before = to_exportable("case", trainer.step, (x,)), collect()
        assert program.donate_argnums == tuple(range(1, len(before) + 1))
        result = through_xla(program, (x, *before.values()))
        worst.append(difference(result, (trainer.step(x), collect())))
    return max(worst)


class Optimisers(torch.optim.Optimizer):
    """An optimiser that wraps others."""

    def __init__(self, *modules):
        self.parts = [torch.optim.SGD(module.parameters(), 0.1, 0.9) for module in modules]
        super().__init__([p for module in modules for p in module.parameters()], {})

    def step(self, closure=None):
        for part in self.parts:
            part.step()


def wrapped_optimisers():
    """Optimisers that another one wraps, and that an export leaves as they were."""
    layers, x = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), torch.randn(4, 8)
    optimizer = Optimisers(*layers)

    def step(x):
        layers(x).pow(2).mean().backward()
        optimizer.step()

    step(x)  # the gradients stay
    before = {name: p.detach().clone() for name, p in layers.named_parameters()}
    moments = [
        {
            "opt_state": {
                f"{number}.{name}.momentum_buffer": part.state[p]["momentum_buffer"].clone()
                for name, p in layer.named_parameters()
            }
        }
        for number, (part, layer) in enumerate(zip(optimizer.parts, layers, strict=True))
    ]
    for parameter in layers.parameters():
        parameter.grad.zero_()
    program = to_exportable("case", step, (x,))
    result = through_xla(program, (x, {"weights": before}, *moments))
    step(x)
    momenta = [
        [part.state[p]["momentum_buffer"] for p in (layer.bias, layer.weight)]
        for part, layer in zip(optimizer.parts, layers, strict=True)
    ]
    return difference(result, ({"weights": dict(layers.named_parameters())}, momenta))


def gradients_in_place():
    """Gradients that ``backward`` adds to parameters, of a module on the device meta, too."""
    whole, x = nn.LSTM(8, 6), torch.randn(3, 2, 8)
    with torch.device("meta"):
        module = nn.LSTM(8, 6)

    def differentiate(module, x):
        loss = module(x)[0].pow(2).mean()
        loss.backward()
        return loss.detach()

    program = to_exportable("case", functools.partial(differentiate, module), (x.to("meta"),))
    state = dict(whole.named_parameters())
    loss = differentiate(whole, x)
    gradients = {name: parameter.grad for name, parameter in state.items()}
    result = through_xla(program, (x, {"weights": state}))
    return difference(result, (loss, {"gradients": gradients}))


class Filled(nn.Module):
    """A module with a cache of keys, which it fills in evaluation."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.ones(2, 4, 8))

    def forward(self, x):
        self.keys[:, 1] = x
        return self.keys.sum()


def buffers_in_place():
    module, x = Filled().eval(), torch.randn(2, 8)
    program, before = to_exportable("case", module, (x,)), module.keys.clone()
    assert program.donate_argnums == (1,)
    result = through_xla(program, ({}, {"keys": before}, x))
    return difference(result, (module(x), {"buffers": {"keys": module.keys}}))


def arguments_in_place():
    """A cache of keys that the program fills, and a count that it does not use otherwise."""
    cache, count, x = torch.randn(2, 4, 8), torch.zeros(3), torch.randn(2, 8)

    def fill(cache, count, x):
        cache[:, 1] = x
        count.add_(1)
        return cache.sum()

    program = to_exportable("case", fill, (cache, count, x))
    assert program.donate_argnums == (0, 1)
    result = through_xla(program, (cache, count, x))
    new = {"cache": cache.clone(), "count": count.clone()}
    return difference(result, (fill(*new.values(), x), new))


def list_clipped_collectives():
    """The collectives of a step around a model under ``fully_shard``, with clipped gradients."""
    mesh = init_device_mesh("cpu", (8,), mesh_dim_names=("data",))
    with torch.device("meta"):
        module, x = nn.Sequential(MLP(), MLP()), torch.empty(16, 32)
    for child in (*module, module):
        fully_shard(child, mesh=mesh)
    step = Trainer(module, torch.optim.AdamW, foreach=True).step
    program = to_exportable("case", step, (x[:1],), mesh=mesh)
    return list_collectives(program)


class Positions(MLP):
    def forward(self, x):
        return super().forward(x) + torch.arange(x.shape[-1])


def made_in_a_context():
    """A program is traced on one device, also where modules are being made on another."""
    whole, x = Positions().eval(), torch.randn(4, 32)
    with torch.device("meta"):
        program = to_exportable("case", Positions().eval(), (torch.empty(4, 32),))
    return difference(through_xla(program, (dict(whole.named_parameters()), {}, x)), whole(x))


def errors():
    """The message of each program that cannot be expressed."""
    x = torch.empty(4, 6, device="meta")
    mesh = init_device_mesh("cpu", (8,), mesh_dim_names=("data",))

    count = torch.zeros(())

    def in_place(x):
        count.add_(1)
        return x * count

    def pad_rows(x, y):
        rows = torch.nested.as_nested_tensor([x, y], layout=torch.jagged)
        return torch.nested.to_padded_tensor(rows, 0.0)

    def send(x):
        dist.send(x * 2, 1)
        return x

    def multiply(x):
        y = x * 2
        dist.all_reduce(y, dist.ReduceOp.PRODUCT)
        return y

    def attend_unevenly(x):
        with context_parallel(mesh, buffers=[x], buffer_seq_dims=[2]):
            return functional.scaled_dot_product_attention(x, x, x, is_causal=True)

    with warnings.catch_warnings(action="ignore"):
        early_region = torch.autocast("cuda", torch.bfloat16)
    model = MLP()
    optimiser = torch.optim.LBFGS(model.parameters())

    def optimise(x):
        return optimiser.step(lambda: model(x).pow(2).mean())

    doubled = torch.library.custom_op(
        "hespas_test::relu", lambda x: x.numpy(), mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    doubled.register_fake(torch.empty_like)

    cases = {
        "captured in place": lambda: to_exportable("case", in_place, (torch.empty(4, 6),)),
        "rank": lambda: to_exportable(
            "case", lambda y: y, (x[:, 0],), mesh={"data": 2}, shardings={"y": P("data", "data")}
        ),
        "pattern": lambda: to_exportable("case", torch.relu, (x,), shardings={"y": P("data")}),
        "no mesh": lambda: to_exportable(
            "case", MLP(), (distribute_tensor(x, mesh, [Replicate()]),)
        ),
        "divide": lambda: to_exportable(
            "case", lambda x: x, (x,), mesh=mesh, shardings={"x": P(None, "data")}
        ),
        "arguments": lambda: to_exportable("case", MLP(), (x, x)),
        "op": lambda: lower_exportable(to_exportable("case", torch.poisson, (x,))),
        "own op": lambda: lower_exportable(to_exportable("case", lambda x: doubled(x), (x,))),
        "no mesh of shards": lambda: to_exportable("case", fully_shard(MLP(), mesh=mesh), (x,)),
        "captured meta": lambda: to_exportable("case", lambda y: y + x, (torch.empty(4, 6),)),
        "keywords": lambda: to_exportable(
            "case",
            torch.export.export(Scaled(), (torch.ones(4, 32),), {"scale": torch.ones(32)}),
            (torch.ones(4, 32),),
        ),
        "optimiser": lambda: to_exportable("case", optimise, (torch.ones(4, 32),)),
        "autocast": lambda: to_exportable("case", early_region(torch.relu), (x,)),
        "nested": lambda: to_exportable("case", pad_rows, (x, x)),
        "ring": lambda: to_exportable(
            "case", attend_unevenly, (torch.empty(2, 4, 24, 16),), mesh=mesh
        ),
        "send": lambda: to_exportable("case", send, (x,), mesh=mesh),
        "reduction": lambda: lower_exportable(to_exportable("case", multiply, (x,), mesh=mesh)),
        "control flow": lambda: to_exportable("case", lambda x: x if x.sum() > 0 else -x, (x,)),
    }
    messages = {}
    for name, case in cases.items():
        try:
            case()
            messages[name] = "none"
        except HespasError as error:
            messages[name] = str(error)
        except Exception as error:
            messages[name] = f"{type(error).__name__}: {error}"
    return messages


def main():
    torch.manual_seed(0)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    image, labels = torch.randn(4, 3, 16, 16), torch.tensor([1, 5, 2, 9])
    tokens = torch.randint(0, 50, (2, 8))
    cases = {
        "block": lambda: module_case(Block(), torch.randn(2, 16, 32)),
        "language": lambda: module_case(Language(), tokens),
        "image": lambda: module_case(Image(), image),
        "exported program": exported_program,
        "dropout": dropout,
        "block training": lambda: training_case(
            Block(), lambda m, x, y: (m(x) - y).pow(2).mean(),
            torch.randn(2, 16, 32), torch.randn(2, 16, 32),
        ),
        "language training": lambda: training_case(
            Language(), lambda m, t: functional.cross_entropy(m(t).flatten(0, 1), t.flatten()),
            tokens,
        ),
        "image training": lambda: training_case(
            Image(), lambda m, x, y: functional.cross_entropy(m(x), y), image, labels
        ),
        "partly trained": partly_trained,
        "partitioned by XLA": partitioned_by_xla,
        "tensor parallel": tensor_parallel,
        "sharded training": sharded_training,
        "fully sharded training": fully_sharded_training,
        "replicated training": replicated_training,
        "accumulated gradients": accumulated_gradients,
        "eager collectives": eager_collectives,
        "divided attention": divided_attention,
        "flexible attention": flexible_attention,
        "made in a context": made_in_a_context,
        "results that are objects": results_that_are_objects,
        "compiled": compiled,
        "captured model": captured_model,
        "optimised in place": optimised_in_place,
        "gradients in place": gradients_in_place,
        "arguments in place": arguments_in_place,
        "buffers in place": buffers_in_place,
        "wrapped optimisers": wrapped_optimisers,
        "attention": attention,
        "exported program with keywords": exported_program_with_keywords,
        "embedding bags": embedding_bags,
        "checkpointed training": checkpointed_training,
        "reentrant checkpoint": reentrant_checkpoint,
        "control flow": control_flow,
        "own ops": own_ops,
        "dropped attention": dropped_attention,
        "ring steps": ring_steps,
        "integer product": integer_product,
        "grouped products": grouped_products,
        "products of 8 bits": products_of_eight_bits,
        "layers": layers,
        "linear algebra": linear_algebra,
        "random values": random_values,
        "resampling": resampling,
    }  # fmt: skip
    names = sys.argv[1:] or [*cases]
    answer = {name: cases[name]() for name in names}
    types = {
        f"{device} {kind}": find_autocast_types(device, getattr(torch, kind))
        for device, kind in (("cpu", "bfloat16"), ("cuda", "bfloat16"), ("cuda", "float16"))
    }
    precisions = {setting: find_precisions(setting) for setting in ("highest", "high")}
    print(
        json.dumps(
            {
                "differences": answer,
                "errors": errors(),
                "types": types,
                "precisions": precisions,
                "sharded collectives": list_sharded_collectives(),
                "ring": list_ring_collectives(),
                "uneven exchanges": list_uneven_exchanges(),
                "clipped collectives": list_clipped_collectives(),
                "partly sharded collectives": list_sharded_collectives(4),
                "replicated collectives": list_replicated_collectives(),
                "unreduced type": list_sharded_collectives(reduce_dtype=None),
                "types of parameters": list_collectives_of_types(),
            }
        )
    )


if __name__ == "__main__":
    main()
