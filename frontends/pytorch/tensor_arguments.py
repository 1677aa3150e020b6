"""The tensors among a program's arguments: their paths, shapes and shardings."""

from __future__ import annotations

import fnmatch
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jax.sharding import PartitionSpec
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.placement_types import _StridedShard
from torch.utils import _pytree as pytree

from hespas.support.errors import HespasError

Path = tuple[Any, ...]


@dataclass(frozen=True)
class TensorLeaf:
    """A tensor argument: its path, its global and local shape, and its sharding."""

    path: Path
    label: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    local: tuple[int, ...]
    spec: PartitionSpec
    tensor: torch.Tensor


def name_arguments(function: Callable[..., Any], count: int) -> list[str]:
    """Return the names of the first ``count`` arguments; ``*rest`` yields ``rest0``, ``rest1``, ...

    Raises:
        HespasError: If the function accepts fewer arguments.
    """
    labels: list[str] = []
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # built in
        return [f"arg{number}" for number in range(count)]
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            labels += [f"{parameter.name}{number}" for number in range(count - len(labels))]
        elif parameter.kind is not parameter.VAR_KEYWORD:
            labels.append(parameter.name)
    if count > len(labels):
        raise HespasError(f"the program takes {len(labels)} arguments, but {count} were passed")
    return labels[:count]


def collect_tensor_leaves(
    labels: list[str],
    args: tuple[Any, ...],
    patterns: Mapping[str, PartitionSpec],
    axes: Mapping[str, int],
    is_local: bool,
) -> list[TensorLeaf]:
    """Collect the tensors of ``args``; the first pattern that matches a name gives its sharding.

    Args:
        labels: The names of the arguments.
        args: The arguments.
        patterns: Shardings by name pattern.
        axes: Sizes of the mesh axes.
        is_local: Whether the program is that of one device, so that shapes are local shapes.

    Raises:
        HespasError: If a pattern matches nothing, or a tensor does not fit its sharding.
    """
    unused = set(patterns)
    tensor_leaves = []
    for number, (name, arg) in enumerate(zip(labels, args, strict=True)):
        for keys, tensor in pytree.tree_flatten_with_path(arg)[0]:
            if not isinstance(tensor, torch.Tensor):
                continue
            path = (number, *(_to_plain_key(key) for key in keys))
            label = ".".join([name, *(str(part) for part in path[1:])])
            if isinstance(tensor, DTensor):
                if not is_local:
                    remedy = "pass its DeviceMesh as mesh"
                    raise HespasError(f"'{label}' is a DTensor", remedy=remedy)
                spec = to_partition_spec(tensor, axes)
            else:
                pattern = next((p for p in patterns if fnmatch.fnmatchcase(label, p)), None)
                unused.discard(pattern or "")
                spec = PartitionSpec() if pattern is None else patterns[pattern]
            shape = tuple(tensor.shape)
            if len(spec) > len(shape):
                raise HespasError(
                    f"'{label}': {spec} does not fit {list(shape)}",
                    remedy="write a pattern before it that matches this name, with P()",
                )
            local = shape
            if is_local:
                local, shape = _divide_shape(
                    label, shape, spec, axes, is_padded=isinstance(tensor, DTensor)
                )
            tensor_leaves.append(TensorLeaf(path, label, tensor.dtype, shape, local, spec, tensor))
    if unused:
        raise HespasError(
            f"no argument matches '{min(unused)}'",
            remedy=f"the arguments are {', '.join(leaf.label for leaf in tensor_leaves[:4])}, ...",
        )
    return tensor_leaves


def _to_plain_key(key: Any) -> Any:
    for kind, field in ((pytree.MappingKey, "key"), (pytree.SequenceKey, "idx")):
        if isinstance(key, kind):
            return getattr(key, field)
    raise HespasError("arguments must be tensors in dictionaries, lists and tuples")


def to_partition_spec(tensor: DTensor, axes: Mapping[str, int]) -> PartitionSpec:
    """Convert the placements of a DTensor to mesh axes by dimension.

    Raises:
        HespasError: If a placement is a partial sum or names an axis that the mesh lacks.
    """
    parts: list[list[str]] = [[] for _ in tensor.shape]
    labels = tensor.device_mesh.mesh_dim_names or ()
    # A strided shard, as ``fully_shard`` makes it of a parallel layer's weight, is a part of what
    # the axes behind its own have divided.
    placements = sorted(
        zip(labels, tensor.placements, strict=True),
        key=lambda pair: isinstance(pair[1], _StridedShard),
    )
    for axis, placed in placements:
        if axis not in axes:
            raise HespasError(f"a DTensor is placed on the axis '{axis}', which the mesh lacks")
        if isinstance(placed, (Shard, _StridedShard)):
            parts[placed.dim].append(axis)
        elif not placed.is_replicate():
            raise HespasError(
                f"a DTensor has the placement {placed}; only sharding by dimension is supported"
            )
    return PartitionSpec(*(tuple(part) if part else None for part in parts))


def _divide_shape(
    label: str,
    shape: tuple[int, ...],
    spec: PartitionSpec,
    axes: Mapping[str, int],
    *,
    is_padded: bool,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Compute the shape on the first device, and that of all devices together.

    Raises:
        HespasError: If a dimension is not divisible, unless it ``is_padded``: the last devices then
            have fewer elements of a DTensor, and PyTorch pads what it communicates.
    """
    local, whole = list(shape), list(shape)
    for dim, part in enumerate(spec):
        over = part if isinstance(part, tuple) else () if part is None else (part,)
        unknown = [axis for axis in over if axis not in axes]
        if unknown or dim >= len(local):
            raise HespasError(
                f"'{label}': {spec} does not fit {list(shape)} on the mesh {dict(axes)}"
            )
        for axis in over:
            local[dim], rest = divmod(local[dim], axes[str(axis)])
            local[dim] += bool(rest)
            if rest and not is_padded:
                part_count = math.prod(axes[str(axis)] for axis in over)
                raise HespasError(f"'{label}': {shape[dim]} is not divisible by {part_count}")
        whole[dim] = local[dim] * math.prod(axes[str(axis)] for axis in over)
    return tuple(local), tuple(whole)


def get_value_at_path(tree: Any, path: Path) -> Any:
    """Return the value at a path of a tree."""
    for key in path:
        tree = tree[key]
    return tree


def rebuild_arguments(
    args: tuple[Any, ...], values: Mapping[Path, Any], *, constants: bool = False
) -> tuple[Any, ...]:
    """Rebuild the arguments with a value for each tensor.

    Other leaves stay as they are with ``constants``, and become None without.
    """

    def rebuild_tree(tree: Any, path: Path) -> Any:
        if isinstance(tree, dict):
            return {key: rebuild_tree(part, (*path, key)) for key, part in tree.items()}
        if isinstance(tree, (list, tuple)):
            parts = [rebuild_tree(part, (*path, number)) for number, part in enumerate(tree)]
            return parts if isinstance(tree, list) else tuple(parts)
        return values.get(path, tree if constants else None)

    return rebuild_tree(args, ())
