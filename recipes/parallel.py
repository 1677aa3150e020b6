"""Division of a program over a mesh: with explicit collectives, or by XLA's partitioner.

A model is written once, for one device, and asks a `MeshParallelism` for everything that crosses
devices. With ``manual`` these operations are collectives inside ``jax.shard_map``; the collectives
of the gradient follow by transposition. Without, they are sharding constraints, and XLA chooses the
collectives.

Axes: ``data`` and ``fsdp`` split the batch, ``fsdp`` also the weights (ZeRO-3, arXiv 1910.02054);
``tensor`` splits heads, MLP width and vocabulary (arXiv 1909.08053); ``context`` the sequence;
``expert`` batch and experts; ``stage`` layers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import PartitionSpec

from hespas.frontends.export.exportable import Exportable
from hespas.recipes.eager_operators import copy_array, isolate_value
from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest

BATCH = ("data", "fsdp", "expert")
TOKENS = (*BATCH, "context")
VOCAB = ("stage", "tensor")
RECEIVED = "received"  # the checkpoint name of activations that a collective made

Dim = str | tuple[str, ...] | None

DTYPES = {"bf16": jnp.bfloat16, "f16": jnp.float16, "f32": jnp.float32}


@dataclass(frozen=True)
class ShardedArray:
    """An array that is not allocated: its shape, and the mesh axes that split each dimension.

    ``stacked`` is the number of leading dimensions that number the layers of a stack.
    """

    shape: tuple[int, ...]
    axes: tuple[Dim, ...]
    dtype: Any = jnp.float32
    stacked: int = 0

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class MeshParallelism:
    """The parallelism of a program over ``mesh`` (axis sizes, major axis first).

    With ``sequence``, the ``tensor`` axis splits the tokens between blocks: Megatron's sequence
    parallelism (arXiv 2205.05198). Gradients of weights are summed over devices in
    ``reduce_dtype``, or, if it is None, in the type that the weights are gathered in. With
    ``eager``, operators run one by one, see ``eager_operators``, and weights and gradients pass
    through the flat buffers of PyTorch's first FSDP, unless there are ``fsdp_copies``: then
    gathered weights and their gradients are copied from and to the buffers of FSDP2. With
    ``token_copies``, activations are copied after a gather and before a scatter of their tokens
    over ``tensor``. With ``ring_products``, these run alongside parts of the products of layers,
    see ``ring_products``.
    Weights whose dimension over ``fsdp`` has ``padded_width`` elements are stored with as many as
    its devices divide. ``paddable_width`` is what the option ``pad_weights`` would pad; 0: nothing.
    With ``spread_weights``, the devices of ``expert`` divide the weights outside of experts too,
    along the dimension of ``fsdp``.
    """

    mesh: Mapping[str, int]
    manual: bool = True
    sequence: bool = False
    reduce_dtype: Any = None
    eager: bool = False
    fsdp_copies: bool = False
    token_copies: bool = False
    ring_products: bool = False
    padded_width: int = 0
    paddable_width: int = 0
    spread_weights: bool = False

    def __post_init__(self) -> None:
        if self.ring_products and (self.eager or not self.sequence):
            raise UsageError(
                "option 'ring_products' needs sequence_parallel, and operators that are fused",
                remedy="set sequence_parallel=true and eager=false",
            )

    def get_split_axes(self, *names: str) -> tuple[str, ...]:
        """Return those of the axes that have more than one device."""
        return tuple(name for name in names if self.mesh.get(name, 1) > 1)

    def count_devices(self, *names: str) -> int:
        """Return the number of devices along the axes together."""
        return math.prod(self.mesh.get(name, 1) for name in names)

    def make_partition_spec(self, *dims: Dim) -> PartitionSpec:
        """Make a PartitionSpec of the axes that have more than one device."""
        parts = [self.get_split_axes(*list_axis_names(dim)) for dim in dims]
        return PartitionSpec(*(part[0] if len(part) == 1 else part or None for part in parts))

    def make_partition_specs(self, tree: Any) -> Any:
        """Make the PartitionSpecs of a tree of ``ShardedArray``."""
        return jax.tree.map(lambda weight: self.make_partition_spec(*weight.axes), tree)

    def divide_weights(self, tree: Any) -> Any:
        """Divide the weights of a ``ShardedArray`` tree as ``spread_weights`` says."""
        return jax.tree.map(lambda w: replace(w, axes=self._spread_axes(w.axes)), tree)

    def _spread_axes(self, axes: Sequence[Dim]) -> tuple[Dim, ...]:
        if not self.spread_weights or "expert" in axes:
            return tuple(axes)
        return tuple(("fsdp", "expert") if dim == "fsdp" else dim for dim in axes)

    def _get_gathered_axes(self, dim: Dim) -> tuple[str, ...]:
        """Return the axes along which a dimension of a weight is gathered for its layer."""
        names = list_axis_names(dim)
        return self.get_split_axes(*names) if "fsdp" in names else ()

    def pad_weights(self, tree: Any) -> Any:
        """Pad the weights of a ``ShardedArray`` tree as ``padded_width`` says."""
        padding = self._count_padding()

        def pad_weight(weight: ShardedArray) -> ShardedArray:
            dims = zip(weight.shape, weight.axes, strict=True)
            shape = [
                extent + (padding if axis == "fsdp" and extent == self.padded_width else 0)
                for extent, axis in dims
            ]
            return replace(weight, shape=tuple(shape))

        return jax.tree.map(pad_weight, tree) if padding else tree

    def _count_padding(self) -> int:
        """Count the elements that are added to ``padded_width``."""
        return -self.padded_width % self.count_devices("fsdp")

    def make_shape_tree(self, tree: Any) -> Any:
        """Make the shapes of a tree of ``ShardedArray``.

        Raises:
            UsageError: If the mesh does not divide a dimension.
        """
        return jax.tree_util.tree_map_with_path(self._make_shape_struct, tree)

    def _make_shape_struct(self, path: Any, weight: ShardedArray) -> jax.ShapeDtypeStruct:
        for extent, part in zip(weight.shape, self.make_partition_spec(*weight.axes), strict=True):
            names = list_axis_names(part)
            if extent % self.count_devices(*names):
                axes = ", ".join(f"{name}={self.mesh[name]}" for name in names)
                shape = "x".join(map(str, weight.shape))
                where = jax.tree_util.keystr(path, simple=True, separator=".") or "an operand"
                raise UsageError(
                    f"{where} of {shape} cannot be divided: {extent} over {axes}",
                    remedy=self._suggest_padding(names, extent),
                )
        return jax.ShapeDtypeStruct(weight.shape, weight.dtype)

    def _suggest_padding(self, names: Sequence[str], extent: int) -> str:
        """Suggest what divides a dimension; FSDP alone may pad the width of the model."""
        other = "use another mesh or other dimensions"
        if list(names) == ["fsdp"] and extent == self.paddable_width:
            return f"set pad_weights=true, which pads the weights as PyTorch's FSDP, or {other}"
        return other

    def map_over_devices(self, function: Callable[..., Any], in_specs: Any, out_specs: Any) -> Any:
        """Wrap a function that is written for one device as a function of global arrays."""
        if not self.manual or self.count_devices(*self.mesh) == 1:
            return function

        @functools.wraps(function)
        def call_sharded(*args: Any) -> Any:
            return jax.shard_map(function, in_specs=in_specs, out_specs=out_specs)(*args)

        return call_sharded

    def make_exportable(
        self,
        name: str,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        outputs: Any,
        *,
        donated: tuple[int, ...] = (),
        facts: Mapping[str, int],
    ) -> Exportable:
        """Make the program of a function that is written for one device.

        Args:
            name: The name of the program.
            function: The function.
            arguments: The ``ShardedArray`` tree of each of its arguments.
            outputs: The PartitionSpecs of its results.
            donated: The arguments whose memory the results may reuse.
            facts: What is reported of the program.

        Raises:
            UsageError: If the mesh does not divide a dimension.
        """
        inputs = tuple(map(self.make_partition_specs, arguments))
        return Exportable(
            name,
            self.map_over_devices(function, inputs, outputs),
            tuple(map(self.make_shape_tree, arguments)),
            mesh=self.mesh,
            in_shardings=inputs,
            out_shardings=outputs,
            donate_argnums=donated,
            facts=facts,
        )

    def gather_weight(self, weight: jax.Array, axes: Sequence[Dim], dtype: Any) -> jax.Array:
        """Convert a weight to ``dtype`` and gather it along ``fsdp`` for its layer.

        With ``spread_weights``, one outside of experts is gathered along ``expert`` too.

        Its gradient is summed over the devices that have other tokens: it is first reduce-scattered
        over ``fsdp``, then the remaining part is summed over the other axes.
        """
        axes = self._spread_axes(axes)
        if not self.manual:
            kept = (None if "fsdp" in list_axis_names(dim) else dim for dim in axes)
            return self._constrain_sharding(weight.astype(dtype), *kept)
        if self.reduce_dtype not in (None, dtype) or self._has_buffer(axes):
            return self._gather_with_own_sums(weight, axes, dtype)
        return self._gather_shards(weight, axes, dtype)

    @property
    def _has_flat_buffers(self) -> bool:
        """Whether the buffers are those of PyTorch's first FSDP."""
        return self.eager and not self.fsdp_copies

    def _has_buffer(self, axes: Sequence[Dim]) -> bool:
        """Return whether a weight or its gradient passes through the buffers of PyTorch's FSDP."""
        is_divided = any(map(self._get_gathered_axes, axes))
        return is_divided and (self.eager or self.fsdp_copies)

    def _gather_shards(self, weight: jax.Array, axes: Sequence[Dim], dtype: Any) -> jax.Array:
        weight = self.mark_varying(weight.astype(dtype), *TOKENS)
        for number, dim in enumerate(axes):
            if names := self._get_gathered_axes(dim):
                weight = lax.all_gather(weight, names, axis=number, tiled=True)
                if weight.shape[number] == self.padded_width + self._count_padding():
                    weight = lax.slice_in_dim(weight, 0, self.padded_width, axis=number)
        # FSDP2 gathers the weights of a block in one buffer, and copies each of them out
        # (split_with_sizes_copy in _fsdp_collectives.py of torch/distributed). The slice that
        # removes padding is such a copy.
        is_copied = self.fsdp_copies and not self._count_padding() and self._has_buffer(axes)
        return copy_array(weight) if is_copied else weight

    def _gather_with_own_sums(
        self, weight: jax.Array, axes: Sequence[Dim], dtype: Any
    ) -> jax.Array:
        """Gather a weight whose gradient is summed in ``reduce_dtype``, or in flat buffers.

        The forward rule contains the all-gather itself, which policies of rematerialisation name.
        """
        stored, missing = weight.dtype, self._list_missing_axes(weight, *TOKENS)

        @jax.custom_vjp
        def gather(weight: jax.Array) -> jax.Array:
            return self._gather_shards(weight, axes, dtype)

        def sum_gradient(_: None, gradient: jax.Array) -> tuple[jax.Array]:
            gradient = self._fill_gradient_buffer(gradient, axes, self.reduce_dtype or dtype)
            for number, dim in enumerate(axes):
                if names := self._get_gathered_axes(dim):
                    if padding := self._count_padding():
                        width = [(0, padding if i == number else 0) for i in range(gradient.ndim)]
                        gradient = jnp.pad(gradient, width)
                    gradient = lax.psum_scatter(
                        gradient, names, scatter_dimension=number, tiled=True
                    )
            return (self.sum_over_axes(gradient, *missing).astype(stored),)

        def keep_nothing(weight: jax.Array) -> tuple[jax.Array, None]:
            return self._gather_shards(weight, axes, dtype), None

        gather.defvjp(keep_nothing, sum_gradient)
        return gather(weight)

    def _fill_gradient_buffer(
        self, gradient: jax.Array, axes: Sequence[Dim], sum_dtype: Any
    ) -> jax.Array:
        """Convert the gradient of a weight to the type in which it is summed.

        FSDP joins the gradients of the weights of a block, converts the result, and divides it by a
        part of the number of devices before the reduce-scatter (_unshard_grads_for_reduction and
        _reduce_grad of torch/distributed/fsdp/_runtime_utils.py): three kernels. The loss here is
        the mean over all tokens already, so that the division is a copy. `finish_flat_gradient`
        is the second division. FSDP2 joins and converts the gradients in one kernel
        (foreach_reduce_scatter_copy_in of _fsdp_collectives.py), and NCCL divides.
        """
        if not self._has_buffer(axes):
            return gradient.astype(sum_dtype)
        if self._has_flat_buffers:
            return copy_array(copy_array(gradient).astype(sum_dtype))
        if sum_dtype == gradient.dtype:
            return copy_array(gradient)
        return isolate_value(isolate_value(gradient).astype(sum_dtype))

    def finish_flat_gradient(self, gradient: jax.Array, weight: ShardedArray) -> jax.Array:
        """Divide the sum over devices of a gradient by the rest of their number, as FSDP does.

        This runs on the gradients of all layers together. In a loop over layers, the kernel would
        lie between the reduce-scatter and the stack of gradients, and XLA could no longer run the
        reduce-scatter alongside the next layer, as PyTorch does.
        """
        is_divided = self._has_flat_buffers and self._has_buffer(weight.axes)
        return copy_array(gradient) if is_divided else gradient

    def isolate_gradient(self, gradient: jax.Array, weight: ShardedArray) -> jax.Array:
        """Isolate the gradient of a weight of a microbatch from its sum over microbatches.

        PyTorch's AccumulateGrad adds it by a kernel of its own, where a product could add it. The
        gradient of a weight that FSDP divides comes from a reduce-scatter, and not from a product.
        """
        shared = ("fsdp", "expert") if self.spread_weights else ("fsdp",)
        is_divided = bool(self.get_split_axes(*shared)) and "expert" not in weight.axes
        return gradient if is_divided else isolate_value(gradient)

    def prepare_column_input(self, x: jax.Array, *axes: str) -> jax.Array:
        """Prepare ``[batch, sequence, emb]`` for a matmul whose columns ``axes`` split."""
        axes = self.get_split_axes(*axes or ("tensor",))
        if not self.manual:
            return self._constrain_sharding(x, BATCH, "context", None)
        if self.sequence and "tensor" in axes:
            x = self._copy_tokens(lax.all_gather(x, "tensor", axis=1, tiled=True))
        return self.mark_varying(x, *axes)

    def reduce_row_output(self, x: jax.Array, *axes: str) -> jax.Array:
        """Sum partial ``[batch, sequence, emb]`` of a matmul whose rows ``axes`` split."""
        axes = self.get_split_axes(*axes or ("tensor",))
        if not self.manual:
            split = ("context", "tensor") if self.sequence else "context"
            return checkpoint_name(self._constrain_sharding(x, BATCH, split, None), RECEIVED)
        if self.sequence and "tensor" in axes:
            x = lax.psum_scatter(self._copy_tokens(x), "tensor", scatter_dimension=1, tiled=True)
            x = checkpoint_name(x, RECEIVED)
            axes = tuple(axis for axis in axes if axis != "tensor")
        return self.sum_over_axes(x, *axes)

    def _copy_tokens(self, x: jax.Array) -> jax.Array:
        """Copy ``[batch, sequence, emb]`` between the order of its memory and that of a collective.

        NCCL gathers and scatters the first dimension. PyTorch's functional collectives join the
        parts of another one by a copy (all_gather_tensor and reduce_scatter_tensor of
        torch/distributed/_functional_collectives.py), while XLA lets the product read and write
        the order of the collective.
        """
        return copy_array(x) if self.token_copies else x

    def constrain_heads(self, x: jax.Array) -> jax.Array:
        """Constrain ``[batch, sequence, heads, head_dim]`` to be split by heads over ``tensor``."""
        return x if self.manual else self._constrain_sharding(x, BATCH, "context", "tensor", None)

    def gather_context(self, x: jax.Array) -> jax.Array:
        """Gather keys or values ``[batch, sequence, heads, head_dim]`` of the whole sequence."""
        if not self.manual:
            return checkpoint_name(
                self._constrain_sharding(x, BATCH, None, "tensor", None), RECEIVED
            )
        if not self.get_split_axes("context"):
            return x
        gathered = lax.all_gather(x, "context", axis=1, tiled=True)
        return checkpoint_name(gathered, RECEIVED)

    def exchange_parts(self, x: jax.Array, axis: str, split: int, concat: int) -> jax.Array:
        """Send part i of dimension ``split`` to device i, and join the parts in ``concat``."""
        if not self.get_split_axes(axis):
            return x
        x = lax.all_to_all(x, axis, split_axis=split, concat_axis=concat, tiled=True)
        return checkpoint_name(x, RECEIVED)

    def gather_rows(self, x: jax.Array, axis: str) -> jax.Array:
        """Gather the rows of all devices along a mesh axis."""
        return lax.all_gather(x, axis, tiled=True) if self.get_split_axes(axis) else x

    def exchange_rows(self, x: jax.Array, room: int, sent: jax.Array, axis: str) -> jax.Array:
        """Send rows, sorted by the device that gets them, and return a buffer of those received.

        Args:
            x: The rows of this device.
            room: The rows of the buffer.
            sent: How many rows each device sends to each, ``[devices, devices]``.
            axis: The mesh axis of the devices.
        """
        if not self.get_split_axes(axis):
            return lax.pad(x, jnp.zeros((), x.dtype), [(0, room - len(x), 0), (0, 0, 0)])
        here = self.get_part_index(axis)
        starts = jnp.cumsum(sent, axis=1) - sent  # of what a device sends, in its rows
        places = jnp.cumsum(sent, axis=0) - sent  # of what a device gets, in its buffer
        zeros = jnp.zeros((room, *x.shape[1:]), x.dtype)
        buffer = self.mark_varying(zeros, *get_varying_axes(x))
        numbers = (starts[here], sent[here], places[here], sent[:, here])
        x = lax.ragged_all_to_all(x, buffer, *numbers, axis_name=axis)
        return checkpoint_name(x, RECEIVED)

    def sum_over_axes(self, x: jax.Array, *axes: str) -> jax.Array:
        """Sum the values of all devices along the axes; does nothing to global arrays."""
        axes = self.get_split_axes(*axes)
        return checkpoint_name(lax.psum(x, axes), RECEIVED) if self.manual and axes else x

    def max_over_axes(self, x: jax.Array, *axes: str) -> jax.Array:
        """Take the maximum of the values of all devices along the axes."""
        axes = self.get_split_axes(*axes)
        return lax.pmax(x, axes) if self.manual and axes else x

    def get_part_index(self, *axes: str) -> jax.Array | int:
        """Return the index of this device's part along the axes; 0 for global arrays."""
        axes = self.get_split_axes(*axes)
        return lax.axis_index(axes) if self.manual and axes else 0

    def count_parts(self, *axes: str) -> int:
        """Return the number of parts that `get_part_index` counts; 1 for global arrays."""
        return self.count_devices(*axes) if self.manual else 1

    def mark_varying(self, x: jax.Array, *axes: str) -> jax.Array:
        """Mark equal values as varying along the axes, so that their gradients are summed here."""
        if not self.manual:
            return x
        missing = self._list_missing_axes(x, *axes)
        return lax.pcast(x, missing, to="varying") if missing else x

    def make_zeros_like(self, x: jax.Array, dtype: Any) -> jax.Array:
        """Make zeros of the shape of ``x`` that vary along the axes along which it varies."""
        return self.mark_varying(jnp.zeros(x.shape, dtype), *get_varying_axes(x))

    def list_copy_axes(self, weight: ShardedArray) -> tuple[str, ...]:
        """List the axes whose devices have the same part of a weight, and other tokens."""
        split = {axis for dim in weight.axes for axis in list_axis_names(dim)}
        return tuple(axis for axis in self.get_split_axes(*TOKENS) if axis not in split)

    def sum_gradient(self, gradient: jax.Array, weight: ShardedArray) -> jax.Array:
        """Sum gradients of a device's tokens over the devices that have the same part of a weight.

        Does nothing to global arrays.
        """
        return self.sum_over_axes(gradient, *self.list_copy_axes(weight))

    def constrain_shards(self, arrays: Any, weights: Any) -> Any:
        """Constrain arrays to be divided like the ``ShardedArray`` tree of their weights."""
        if self.manual:
            return arrays
        return jax.tree.map(lambda x, w: self._constrain_sharding(x, *w.axes), arrays, weights)

    def _list_missing_axes(self, x: jax.Array, *axes: str) -> tuple[str, ...]:
        """List those of the axes along which the values of ``x`` are equal."""
        known = get_varying_axes(x)
        return tuple(axis for axis in self.get_split_axes(*axes) if axis not in known)

    def _constrain_sharding(self, x: jax.Array, *dims: Dim) -> jax.Array:
        if self.count_devices(*self.mesh) == 1:
            return x
        return lax.with_sharding_constraint(x, self.make_partition_spec(*dims))


def list_axis_names(dim: Dim) -> tuple[str, ...]:
    """List the mesh axes that split a dimension."""
    return (dim,) if isinstance(dim, str) else dim or ()


def get_varying_axes(x: jax.Array) -> frozenset[str]:
    """Return the mesh axes along which the values of ``x`` differ; none for a global array."""
    return jax.typeof(x).manual_axis_type.varying


def check_mesh_axes(mesh: Mapping[str, int], known: Sequence[str]) -> None:
    """Raise UsageError for an unknown mesh axis, or a size below one."""
    for name, size in mesh.items():
        if name not in known:
            raise UsageError(
                f"the recipe has no mesh axis '{name}'", remedy=suggest_nearest(name, list(known))
            )
        if size < 1:
            raise UsageError(f"mesh axis '{name}' has {size} devices")


def check_positive_options(**options: int) -> None:
    """Raise UsageError for an option below one."""
    for name, value in options.items():
        if value < 1:
            raise UsageError(f"option '{name}' is {value}", remedy="use a positive number")
