"""The tensors among a program's arguments: their places, shapes and shardings."""

# pyright: reportMissingImports=false

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
from torch.utils import _pytree as pytree

from hespas.support.errors import HespasError

Path = tuple[Any, ...]


@dataclass(frozen=True)
class TensorLeaf:
    """One tensor: where it stands, its global shape, one device's, and how it is divided."""

    path: Path
    label: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    local: tuple[int, ...]
    spec: PartitionSpec
    tensor: torch.Tensor


def name_arguments(function: Callable[..., Any], count: int) -> list[str]:
    """The names of the first arguments; those of ``*rest`` are ``rest0`` and so on.

    Raises HespasError where there are not as many.
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
        raise HespasError(f"the program takes {len(labels)} arguments, and {count} are given")
    return labels[:count]


def collect_tensor_leaves(
    labels: list[str],
    args: tuple[Any, ...],
    patterns: Mapping[str, PartitionSpec],
    axes: Mapping[str, int],
    is_local: bool,
) -> list[TensorLeaf]:
    """The tensors of ``args``; of the patterns for their names the first that fits counts.

    ``is_local``: the program is one device's, whose shapes are parts of the global ones. Raises
    HespasError for a pattern that fits nothing, and for a tensor that cannot be placed.
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
                    remedy = "give its DeviceMesh as mesh"
                    raise HespasError(f"'{label}' is a DTensor", remedy=remedy)
                spec = to_partition_spec(tensor, axes)
            else:
                pattern = next((p for p in patterns if fnmatch.fnmatchcase(label, p)), None)
                unused.discard(pattern or "")
                spec = PartitionSpec() if pattern is None else patterns[pattern]
            shape = tuple(tensor.shape)
            local = _divide_shape(label, shape, spec, axes) if is_local else shape
            tensor_leaves.append(TensorLeaf(path, label, tensor.dtype, shape, local, spec, tensor))
    if unused:
        raise HespasError(
            f"no argument is called '{min(unused)}'",
            remedy=f"they are called {', '.join(leaf.label for leaf in tensor_leaves[:4])}, ...",
        )
    return tensor_leaves


def _to_plain_key(key: Any) -> Any:
    for kind, field in ((pytree.MappingKey, "key"), (pytree.SequenceKey, "idx")):
        if isinstance(key, kind):
            return getattr(key, field)
    raise HespasError("arguments are to be tensors in dictionaries, lists and tuples")


def to_partition_spec(tensor: DTensor, axes: Mapping[str, int]) -> PartitionSpec:
    """The placements of a DTensor as axes by dimension; raises HespasError for partial sums."""
    parts: list[list[str]] = [[] for _ in tensor.shape]
    labels = tensor.device_mesh.mesh_dim_names or ()
    for axis, placed in zip(labels, tensor.placements, strict=True):
        if axis not in axes:
            raise HespasError(f"a DTensor is placed on the axis '{axis}', which the mesh lacks")
        if isinstance(placed, Shard):
            parts[placed.dim].append(axis)
        elif not placed.is_replicate():
            raise HespasError(f"a DTensor is placed as {placed}, not by dimension")
    return PartitionSpec(*(tuple(part) if part else None for part in parts))


def _divide_shape(
    label: str, shape: tuple[int, ...], spec: PartitionSpec, axes: Mapping[str, int]
) -> tuple[int, ...]:
    """The shape on one device; raises HespasError where it does not divide."""
    local = list(shape)
    for dim, part in enumerate(spec):
        over = part if isinstance(part, tuple) else () if part is None else (part,)
        unknown = [axis for axis in over if axis not in axes]
        if unknown or dim >= len(local):
            raise HespasError(
                f"'{label}': {spec} does not fit {list(shape)} on the mesh {dict(axes)}"
            )
        ways = math.prod(axes[str(axis)] for axis in over)
        if local[dim] % ways:
            raise HespasError(f"'{label}': {local[dim]} does not divide by {ways}")
        local[dim] //= ways
    return tuple(local)


def get_value_at_path(tree: Any, path: Path) -> Any:
    """What stands at a path."""
    for key in path:
        tree = tree[key]
    return tree


def rebuild_arguments(
    args: tuple[Any, ...], values: Mapping[Path, Any], *, constants: bool = False
) -> tuple[Any, ...]:
    """The arguments with a value for each tensor; the rest as it is, or None without constants."""

    def rebuild_tree(tree: Any, path: Path) -> Any:
        if isinstance(tree, dict):
            return {key: rebuild_tree(part, (*path, key)) for key, part in tree.items()}
        if isinstance(tree, (list, tuple)):
            parts = [rebuild_tree(part, (*path, number)) for number, part in enumerate(tree)]
            return parts if isinstance(tree, list) else tuple(parts)
        return values.get(path, tree if constants else None)

    return rebuild_tree(args, ())
