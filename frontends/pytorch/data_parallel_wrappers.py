"""The wrappers of data parallelism, with collectives that can be traced.

``fully_shard`` gathers the parameters of a unit before its forward pass and again before its
backward pass, and reduce-scatters their gradients; ``DistributedDataParallel`` averages gradients
by buckets. Both do so in hooks that write to storages and run on streams. While a program is
traced, these hooks are put aside, and parameters are read through properties that apply functional
collectives. Their number, sizes and types are those of the wrappers. When they run is decided by
what reads their results, as for any other op.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils import _pytree as pytree

from hespas.frontends.pytorch.aten_ops import MeshPart
from hespas.frontends.pytorch.aten_trace import mark_recomputed_nodes
from hespas.frontends.pytorch.eager_collectives import run_collective
from hespas.support.errors import HespasError


def check_wrappers(module: torch.nn.Module) -> None:
    """Raise HespasError for the older wrapper of FSDP, whose hooks cannot be replaced by ops."""
    for name, child in module.named_modules():
        if isinstance(child, FullyShardedDataParallel):
            raise HespasError(
                f"{_format_place(name)} is wrapped by FullyShardedDataParallel, which acts through "
                "hooks and cannot be traced",
                remedy="call fully_shard on the plain modules instead",
            )


def _format_place(name: str) -> str:
    return f"the module '{name}'" if name else "the program"


@contextlib.contextmanager
def run_wrappers_by_ops(modules: Sequence[torch.nn.Module]) -> Iterator[None]:
    """Let the wrappers of data parallelism in modules communicate by ops instead of by hooks."""
    saved = _SavedWeights()
    units_of_states: dict[Any, list[_ShardedUnit]] = {}
    for module in modules:
        units_of_states |= _collect_units(module, saved)
    with contextlib.ExitStack() as stack:
        for child in (child for module in modules for child in module.modules()):
            if isinstance(child, DistributedDataParallel):
                stack.enter_context(_replace_reducer(child))
        for state, units in units_of_states.items():
            stack.enter_context(_replace_hooks(state, units))
            for unit in units:
                stack.enter_context(_replace_parameters(unit))
        if units_of_states:
            stack.enter_context(saved_tensors_hooks(saved.pack, saved.unpack))
        yield


def _collect_units(root: torch.nn.Module, saved: _SavedWeights) -> dict[Any, list[_ShardedUnit]]:
    """Collect the groups of parameters that are gathered together, by the state that FSDP keeps."""
    units: dict[Any, list[_ShardedUnit]] = {}
    for module in root.modules():
        if not isinstance(module, FSDPModule) or (state := module._get_fsdp_state()) in units:
            continue
        # Unless the user has said otherwise, the outermost unit keeps its parameters.
        is_kept = module is root and state._auto_reshard_after_forward
        units[state] = [
            _ShardedUnit(group, group._reshard_after_forward and not is_kept, saved)
            for group in state._fsdp_param_groups
        ]
    return units


@contextlib.contextmanager
def _replace_hooks(state: Any, units: Sequence[_ShardedUnit]) -> Iterator[None]:
    """Put FSDP's hooks aside. Those in their place cast operands and results, and drop weights."""
    handles = (state._pre_forward_hook_handle, state._post_forward_hook_handle)
    ids = {part.id for handle in handles for part in getattr(handle, "handles", (handle,))}
    left = set(state._modules)

    def cast_operands(module: torch.nn.Module, args: Any, keywords: Any) -> Any:
        policy = state._mp_policy
        kind = policy.param_dtype if policy.cast_forward_inputs else None
        return _cast_floats((args, keywords), kind)

    def end_forward_pass(module: torch.nn.Module, args: Any, result: Any) -> Any:
        left.discard(module)
        if not left:
            left.update(state._modules)
            # A pass that torch.utils.checkpoint runs again belongs to the backward pass.
            if torch._C._current_graph_task_id() == -1:
                for unit in units:
                    unit.drop_resharded_weights()
        return _cast_floats(result, state._mp_policy.output_dtype)

    with contextlib.ExitStack() as stack:
        for module in state._modules:
            for hooks in (module._forward_pre_hooks, module._forward_hooks):
                stack.callback(_restore_hooks, hooks, dict(hooks))
                for number in ids & set(hooks):
                    del hooks[number]
            module.register_forward_pre_hook(cast_operands, prepend=True, with_kwargs=True)
            module.register_forward_hook(end_forward_pass)
        yield


def _restore_hooks(hooks: dict[int, Any], kept: dict[int, Any]) -> None:
    hooks.clear()
    hooks.update(kept)


@contextlib.contextmanager
def _replace_parameters(unit: _ShardedUnit | _Bucket) -> Iterator[None]:
    """Let the modules of a unit read its weights under the names of their parameters."""
    properties: dict[torch.nn.Module, dict[str, property]] = {}
    for number, places in enumerate(unit.places):
        read = property(lambda _, number=number: unit.get_weight(number))
        for module, name in places:
            properties.setdefault(module, {})[name] = read
    kinds = {module: type(module) for module in properties}
    try:
        for module, kind in kinds.items():
            module.__class__ = type(kind.__name__, (kind,), properties[module])
        yield
    finally:
        for module, kind in kinds.items():
            module.__class__ = kind


def _read_parameters(unit: _ShardedUnit | _Bucket) -> list[Any]:
    """Return the parameters of a unit as they are, from the first of the places of each."""
    return [module._parameters[name] for (module, name), *_ in unit.places]


class _ShardedUnit:
    """Parameters that FSDP gathers by one collective.

    ``weights`` are the gathered parameters while a forward or backward pass uses them. If the unit
    is ``resharded``, they are dropped after the forward pass, but for the ``kept`` parts where some
    of the devices, ``kept_group``, hold a copy for the backward pass. ``flat`` are the gathered
    parameters with the padding of a number of rows that the devices do not divide. ``accumulated``
    are the gradients of passes for which the user has put off their reduction, ``scattered`` those
    that are not yet reduced over replicas, and ``whole`` the parameters that the user keeps between
    passes.
    """

    def __init__(self, group: Any, resharded: bool, saved: _SavedWeights) -> None:
        self.group = group
        self.parameters, self.mesh = group.fsdp_params, group.mesh_info
        for parameter in self.parameters:
            parameter.init_dtype_attrs(parameter.mp_policy)  # FSDP does when its hooks first run
        infos = [parameter._module_info for parameter in self.parameters]
        self.places = [
            [
                (info.module, info.param_name),
                *zip(info.shared_modules, info.shared_param_names, strict=True),
            ]
            for info in infos
        ]
        self.resharded, self.saved = resharded, saved
        self.kept_group: Any = (
            group.post_forward_mesh_info.shard_process_group
            if group._use_post_forward_mesh
            else None
        )
        self.weights: Any = None
        self.flat: list[torch.Tensor] = []
        self.kept: list[torch.Tensor] | None = None
        self.accumulated: list[torch.Tensor | None] | None = None
        self.scattered: torch.Tensor | None = None
        self.whole: list[torch.Tensor] | None = None

    def get_weight(self, number: int) -> torch.Tensor:
        """Return a gathered parameter, which stays sharded over axes that are not FSDP's."""
        weight = self.get_local_weight(number)
        spec = self.parameters[number]._unsharded_dtensor_spec
        return weight if spec is None else _distribute_like(weight, spec)

    def get_local_weight(self, number: int) -> torch.Tensor:
        if self.weights is None:
            shards = (weight.to_local() for weight in _read_parameters(self))
            self.weights = weights = _GatherParameters.apply(self, *shards)
            if self.resharded:
                self.saved.add(self, weights)
        return self.weights[number]

    def drop_resharded_weights(self) -> None:
        if not self.resharded:
            return
        if self.kept_group is not None and self.weights is not None:
            count = self.kept_group.size()
            self.kept = [flat[: flat.numel() // count].clone() for flat in self.flat]
        self.weights = None

    def drop_weights(self) -> None:
        """Drop the weights, and what is kept of them, after the backward pass."""
        if not self.group.reshard_after_backward and self.weights is not None:
            self.whole = [weight.detach() for weight in self.weights]
        self.weights = self.kept = None

    def gather_shards(self, shards: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Gather parameters of their shards, each in the type in which the unit computes with it.

        Several types are gathered together, as bytes.
        """
        if self.whole is not None:
            whole, self.whole = self.whole, None
            return [weight.clone() for weight in whole]
        types = [parameter.param_dtype for parameter in self.parameters]
        shards = [x.to(kind or x.dtype) for x, kind in zip(shards, types, strict=True)]
        group, parts = self.mesh.shard_process_group, [x.reshape(-1) for x in shards]
        count = group.size()
        if self.kept is not None:
            group, parts = self.kept_group, self.kept
        if len({x.dtype for x in parts}) > 1:
            parts = [x.view(torch.uint8) for x in parts]
        gathered = run_collective("all_gather_into_tensor", torch.cat(parts), group, group.size())
        rows = gathered.view(group.size(), -1).split([x.numel() for x in parts], 1)
        self.flat = [row.reshape(-1).view(x.dtype) for row, x in zip(rows, shards, strict=True)]
        weights = []
        for flat, x, parameter in zip(self.flat, shards, self.parameters, strict=True):
            dim, size = parameter.fsdp_placement.dim, parameter._orig_size
            weight = flat.view(count, *x.shape).movedim(0, dim).flatten(dim, dim + 1)
            weights.append(weight.narrow(dim, 0, size[dim]).clone())
        return weights

    def reduce_gradients(
        self, gradients: Sequence[torch.Tensor | None]
    ) -> list[torch.Tensor | None]:
        """Average gradients of gathered parameters over the devices, and return their shards.

        Without ``reduce_dtype`` in the policy, gradients are averaged in their own type, and since
        torch 2.15 in that of the sharded parameters. The result is None for those that the user
        lets accumulate.
        """
        group = self.mesh.shard_process_group
        gradients = self._accumulate_gradients(gradients)
        if not self.group.reduce_grads:
            self.accumulated = gradients
            return [None] * len(gradients)
        self.accumulated = None
        rows = {}
        for number, gradient in enumerate(gradients):
            if gradient is not None:
                dim = self.parameters[number].fsdp_placement.dim
                whole = _pad_dimension(gradient, dim, group.size())
                rows[number] = whole.unflatten(dim, (group.size(), -1)).movedim(dim, 0)
        if not rows:
            return list(gradients)
        flat = torch.cat([row.reshape(group.size(), -1) for row in rows.values()], 1)
        reduced = run_collective("reduce_scatter_tensor", flat.view(-1), group, "avg", group.size())
        if hasattr(self.mesh, "replicate_process_group"):
            if self.scattered is not None:
                reduced = reduced + self.scattered
            self.scattered = None if self.group.all_reduce_grads else reduced
            if self.scattered is not None:
                return [None] * len(gradients)
            reduced = run_collective(
                "all_reduce", reduced, self.mesh.replicate_process_group, "avg"
            )
        parts = reduced.split([row[0].numel() for row in rows.values()])
        shards = {
            number: part.view(row.shape[1:]).to(self.parameters[number].sharded_param.dtype)
            for (number, row), part in zip(rows.items(), parts, strict=True)
        }
        return [shards.get(number) for number in range(len(gradients))]

    def _accumulate_gradients(
        self, gradients: Sequence[torch.Tensor | None]
    ) -> list[torch.Tensor | None]:
        """Return gradients in the types in which they are reduced, with those put off before."""
        sums: list[torch.Tensor | None] = []
        for number, gradient in enumerate(gradients):
            parameter = self.parameters[number]
            kind = getattr(parameter, "unsharded_grad_dtype", parameter.reduce_dtype)
            new = None if gradient is None else gradient.to(kind or gradient.dtype)
            sums.append(_add_gradients(self.accumulated and self.accumulated[number], new))
        return sums


def _add_gradients(one: torch.Tensor | None, other: torch.Tensor | None) -> torch.Tensor | None:
    """Add two gradients, either of which may be absent."""
    if one is None or other is None:
        return other if one is None else one
    return one + other


class _GatherParameters(torch.autograd.Function):
    """The gathered parameters of a unit; their gradients are averaged and scattered."""

    @staticmethod
    def forward(ctx: Any, unit: _ShardedUnit, *shards: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.unit = unit
        return tuple(unit.gather_shards(shards))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        # All ops that read the weights have been differentiated.
        ctx.unit.drop_weights()
        needed = zip(gradients, ctx.needs_input_grad[1:], strict=True)
        wanted = [gradient if is_needed else None for gradient, is_needed in needed]
        return (None, *ctx.unit.reduce_gradients(wanted))


class _Bucket:
    """Parameters whose gradients DistributedDataParallel averages by one collective.

    ``accumulated`` are the gradients of passes within ``no_sync``, and ``is_synced`` tells whether
    the gradients of the current pass are averaged.
    """

    def __init__(self, places: list[list[tuple[torch.nn.Module, str]]], group: Any) -> None:
        self.places, self.group = places, group
        self.weights: Any = None
        self.accumulated: list[torch.Tensor | None] | None = None
        self.is_synced = True

    def reduce_gradients(
        self, gradients: Sequence[torch.Tensor], is_synced: bool
    ) -> list[torch.Tensor | None]:
        """Average gradients over the devices; the result is None for those that accumulate."""
        kept = self.accumulated or [None] * len(gradients)
        sums = [_add_gradients(*pair) for pair in zip(kept, gradients, strict=True)]
        if not is_synced:
            self.accumulated = sums
            return [None] * len(sums)
        self.accumulated = None
        return [*_run_flat([x for x in sums if x is not None], "all_reduce", self.group, "avg")]

    def get_weight(self, number: int) -> torch.Tensor:
        """Return a parameter whose gradient is averaged."""
        if self.weights is None:
            self.weights = _AverageGradients.apply(self, *_read_parameters(self))
        return self.weights[number]


class _AverageGradients(torch.autograd.Function):
    """The parameters of a bucket; their gradients are averaged over the devices."""

    @staticmethod
    def forward(ctx: Any, bucket: _Bucket, *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.bucket, ctx.is_synced = bucket, bucket.is_synced
        return tuple(weight.view_as(weight) for weight in weights)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        ctx.bucket.weights = None
        return (None, *ctx.bucket.reduce_gradients(gradients, ctx.is_synced))


@contextlib.contextmanager
def _replace_reducer(wrapper: DistributedDataParallel) -> Iterator[None]:
    """Average the gradients of a wrapped module by ops, and broadcast its buffers as it does."""
    buckets = _list_buckets(wrapper)

    def run_module(*args: Any, **keywords: Any) -> Any:
        for bucket in buckets:
            bucket.weights, bucket.is_synced = None, wrapper.require_backward_grad_sync
        if wrapper.will_sync_module_buffers():
            _broadcast_buffers(wrapper)
        return wrapper.module(*args, **keywords)

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(wrapper, "forward", run_module))
        for bucket in buckets:
            stack.enter_context(_replace_parameters(bucket))
        yield


def _list_buckets(wrapper: DistributedDataParallel) -> list[_Bucket]:
    """List the buckets of a wrapper, which fills them in the reverse order of the parameters."""
    places: dict[torch.nn.Parameter, list[tuple[torch.nn.Module, str]]] = {}
    for path, module in wrapper.module.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            full_name = f"{path}.{name}" if path else name
            if parameter.requires_grad and full_name not in wrapper.parameters_to_ignore:
                places.setdefault(parameter, []).append((module, name))
    order = list(reversed(places))
    limits = [torch.distributed._DEFAULT_FIRST_BUCKET_BYTES, wrapper.bucket_bytes_cap]
    numbers, _ = torch.distributed._compute_bucket_assignment_by_size(order, limits)
    return [
        _Bucket([places[order[number]] for number in bucket], wrapper.process_group)
        for bucket in numbers
    ]


def _broadcast_buffers(wrapper: DistributedDataParallel) -> None:
    """Give the buffers of a wrapped module the values of the first device."""
    buffers: dict[torch.dtype, list[torch.Tensor]] = {}
    for name, buffer in wrapper.module.named_buffers():
        if name not in wrapper.parameters_to_ignore:
            buffers.setdefault(buffer.dtype, []).append(buffer)
    for same_type in buffers.values():
        values = _run_flat(same_type, "broadcast", wrapper.process_group, 0)
        for buffer, value in zip(same_type, values, strict=True):
            buffer.copy_(value)


class _SavedWeights:
    """What the backward pass needs of resharded weights: their places, to gather them again.

    FSDP frees the storages of gathered weights after the forward pass, and fills them again before
    the backward pass, so that what autograd has saved of them is there. Here such a tensor is saved
    as its size, strides and offset in the storage.
    """

    def __init__(self) -> None:
        # The weights are held, so that no other tensor gets the address of one of their storages.
        self.places: dict[int, tuple[_ShardedUnit, int, torch.Tensor]] = {}

    def add(self, unit: _ShardedUnit, weights: Sequence[torch.Tensor]) -> None:
        for number, weight in enumerate(weights):
            self.places[_get_storage_address(weight)] = unit, number, weight

    def pack(self, tensor: torch.Tensor) -> Any:
        local = tensor._local_tensor if isinstance(tensor, DTensor) else tensor
        place = self.places.get(_get_storage_address(local))
        if place is None:
            return tensor
        unit, number, _ = place
        spec = tensor._spec if isinstance(tensor, DTensor) else None
        return unit, number, (local.size(), local.stride(), local.storage_offset()), spec

    def unpack(self, saved: Any) -> torch.Tensor:
        if isinstance(saved, torch.Tensor):
            return saved
        unit, number, layout, spec = saved
        with torch.no_grad(), mark_recomputed_nodes():
            local = _view_with_layout(unit.get_local_weight(number), *layout)
            return local if spec is None else _distribute_like(local, spec)


def _list_groups(module: torch.nn.Module) -> Sequence[Any]:
    """List the groups of parameters that FSDP gathers for a module."""
    return module._get_fsdp_state()._fsdp_param_groups if isinstance(module, FSDPModule) else ()


def find_kept_groups(modules: Sequence[torch.nn.Module]) -> dict[str, MeshPart]:
    """Find the groups of devices that keep parameters between the passes, by their names."""
    groups: dict[str, MeshPart] = {}
    for child in (child for module in modules for child in module.modules()):
        for group in _list_groups(child):
            if group._use_post_forward_mesh:
                mesh, kept = group.mesh_info, group.post_forward_mesh_info
                axis = mesh.mesh.mesh_dim_names[mesh.shard_mesh_dim]
                name = str(kept.shard_process_group.group_name)
                groups[name] = MeshPart(axis, kept.shard_mesh_size)
    return groups


def _run_flat(
    tensors: Sequence[torch.Tensor], name: str, group: Any, *settings: Any
) -> list[torch.Tensor]:
    """Run one collective that keeps shapes on several tensors."""
    flat = torch.cat([x.reshape(-1) for x in tensors])
    parts = run_collective(name, flat, group, *settings).split([x.numel() for x in tensors])
    return [part.view(x.shape) for part, x in zip(parts, tensors, strict=True)]


def _pad_dimension(x: torch.Tensor, dim: int, count: int) -> torch.Tensor:
    """Pad a dimension with zeros to a multiple of ``count``."""
    missing = -x.shape[dim] % count
    if not missing:
        return x
    shape = [missing if number == dim else size for number, size in enumerate(x.shape)]
    return torch.cat([x, x.new_zeros(shape)], dim)


def _cast_floats(tree: Any, kind: torch.dtype | None) -> Any:
    """Convert the tensors of floating-point numbers in a tree, unless ``kind`` is None."""
    return pytree.tree_map_only(
        torch.Tensor, lambda x: x.to(kind) if kind and x.is_floating_point() else x, tree
    )


def _get_storage_address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _view_with_layout(
    weight: torch.Tensor, size: torch.Size, stride: Sequence[int], offset: int
) -> torch.Tensor:
    """View a contiguous tensor with a size, strides and an offset, as a transpose if it is one."""
    order = sorted(range(len(size)), key=lambda dim: (-stride[dim], dim))
    if offset == 0 and weight.shape == torch.Size(size[dim] for dim in order):
        view = weight.permute([order.index(dim) for dim in range(len(size))])
        if view.stride() == tuple(stride):
            return view
    return weight.as_strided(size, stride, offset)


def _distribute_like(local: torch.Tensor, spec: Any) -> torch.Tensor:
    return DTensor.from_local(
        local, spec.mesh, spec.placements, run_check=False, shape=spec.shape, stride=spec.stride
    )
