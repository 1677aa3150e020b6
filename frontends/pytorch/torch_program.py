"""Conversion of a PyTorch program to an ``Exportable``."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import torch
from jax.sharding import PartitionSpec
from torch.distributed import get_process_group_ranks
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.distributed_c10d import _resolve_process_group
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.func import functional_call
from torch.utils import _pytree as pytree

from hespas.dialects.attrs import GROUPED_PRODUCTS, UNFUSED_ATTENTION
from hespas.frontends.export.exportable import Exportable
from hespas.frontends.pytorch import (
    aten_ops,
    aten_trace,
    data_parallel_wrappers,
    held_state,
    tensor_arguments,
)
from hespas.frontends.pytorch.tensor_arguments import TensorLeaf
from hespas.support.errors import HespasError

CAPTURED = "captured"
MAX_CONSTANT_ELEMENTS = 64  # of a captured tensor whose values are written into the program


def to_exportable(
    name: str,
    program: Any,
    args: tuple[Any, ...],
    *,
    mesh: Any = None,
    shardings: Mapping[str, PartitionSpec] | None = None,
    donate_argnums: tuple[int, ...] = (),
    facts: Mapping[str, int | float | str] | None = None,
) -> Exportable:
    """Convert a PyTorch function, module or ``ExportedProgram`` for ``hespas export``.

    Only the shapes and types of tensors are used, so models and inputs can be made on the device
    ``meta``. A module becomes a function of its weights, its buffers and ``args``; it returns the
    module's result and, in training mode, its buffers. A result that is an object becomes a
    dictionary of its fields, and what ``torch.compile`` returned is traced as it was before.

    The tensors of modules and optimisers that a function captures become arguments after ``args``,
    by the names of the variables, and so do large tensors that it captures otherwise. If the
    program modifies an argument in place, it returns its result and a dictionary with the new
    values of such arguments, which are donated, and with the ``gradients`` that no optimiser used.

    Args:
        name: The name of the program.
        program: The function, module or ``ExportedProgram``.
        args: Tensors in dictionaries, lists and tuples; other values are constants. Those of the
            keywords of an ``ExportedProgram`` follow the others, in its order.
        mesh: Sizes of mesh axes by name, so that XLA partitions the program by the shardings of its
            arguments; or the ``DeviceMesh`` of a program that is already written for one device,
            with ``DTensor`` and functional collectives, which is then traced for rank 0.
        shardings: Shardings by patterns for the names of arguments, the first match counts:
            ``{"weights.*.up.weight": P("tensor"), "x": P("data")}``. Shapes are global.
        donate_argnums: Arguments whose memory the results may reuse.
        facts: Figures about the program for reports.

    Raises:
        HespasError: If the program cannot be expressed in JAX, or has an old wrapper of FSDP.
            Errors of torch are passed on.
    """
    manual = mesh if isinstance(mesh, DeviceMesh) else None
    axes = _get_mesh_axes(mesh)
    source = _prepare_call(program, args, manual)
    labels, args = source.labels, source.args
    known = dict(facts or {})
    if source.modules:
        weights = {weight for module in source.modules for weight in module.parameters()}
        known.setdefault("parameters", sum(weight.numel() for weight in weights))
    leaves = tensor_arguments.collect_tensor_leaves(
        labels, args, shardings or {}, axes, manual is not None
    )
    traced = _trace_function(source, leaves, manual)
    captured = _collect_captured_tensors(traced.graph)

    def run_traced_graph(*tree: Any) -> Any:
        leaf_values = [tensor_arguments.get_value_at_path(tree, leaf.path) for leaf in leaves]
        captured_values = tree[len(args)] if captured else {}
        interpreter = aten_ops.JaxInterpreter(traced.graph, traced.groups, captured_values)
        values = interpreter.run(*leaf_values, enable_io_processing=False)
        counts = {
            UNFUSED_ATTENTION: traced.graph.meta[UNFUSED_ATTENTION]
            + interpreter.unfused_attentions,
            GROUPED_PRODUCTS: interpreter.grouped_products,
        }
        for fact, count in counts.items():  # of the last lowering, on which the kernels depend
            known.pop(fact, None)
            if count:
                known[fact] = count
        return traced.assemble_results(values, leaf_values)

    specs = tensor_arguments.rebuild_arguments(args, {leaf.path: leaf.spec for leaf in leaves})
    if captured:
        labels.append(CAPTURED)
        specs = (*specs, dict.fromkeys(captured, PartitionSpec()))
    call = (
        _shard_over_mesh(run_traced_graph, specs, traced)
        if manual is not None
        else run_traced_graph
    )
    positional = inspect.Parameter.POSITIONAL_ONLY
    signature = inspect.Signature([inspect.Parameter(label, positional) for label in labels])
    call.__signature__ = signature  # type: ignore[attr-defined]
    shapes = {
        leaf.path: jax.ShapeDtypeStruct(leaf.shape, aten_ops.to_jax_dtype(leaf.dtype))
        for leaf in leaves
    }
    arguments = tensor_arguments.rebuild_arguments(args, shapes)
    return Exportable(
        name,
        call,
        (*arguments, captured) if captured else arguments,
        mesh=axes,
        in_shardings=specs if axes else None,
        donate_argnums=tuple(sorted({*donate_argnums, *traced.list_changed_arguments()})),
        facts=known,
    )


@dataclass(frozen=True)
class _Call:
    """A function of tensors that is traced.

    Attributes:
        function: The function. It returns its result, and gradients by the names of parameters.
        args: Its arguments.
        labels: The names of the arguments.
        modules: The modules that it calls.
    """

    function: Callable[..., tuple[Any, dict[str, torch.Tensor]]]
    args: tuple[Any, ...]
    labels: list[str]
    modules: list[torch.nn.Module]


def _prepare_call(program: Any, args: tuple[Any, ...], mesh: DeviceMesh | None) -> _Call:
    """Turn a program into a function whose state is among its arguments."""
    keywords: list[str] = []
    if isinstance(program, torch.export.ExportedProgram):
        keywords = _list_keywords(program, len(args))
        program = program.module()
    program = _get_uncompiled_program(program)
    if isinstance(program, torch.nn.Module):
        data_parallel_wrappers.check_wrappers(program)
        names = tensor_arguments.name_arguments(program.forward, len(args) - len(keywords))
        taken = (held_state.WEIGHTS, held_state.BUFFERS)
        labels = [*taken, *(f"{n}_" if n in taken else n for n in (*names, *keywords))]
        args = (dict(program.named_parameters()), dict(program.named_buffers()), *args)
        return _Call(_functionalise_module(program, keywords), args, labels, [program])
    labels = tensor_arguments.name_arguments(program, len(args))
    if isinstance(module := getattr(program, "module", None), torch.nn.Module):
        data_parallel_wrappers.check_wrappers(module)
        return _Call(lambda *values: (program(*values), {}), args, labels, [module])
    held = held_state.find_held_state(program)
    for module in held.modules.values():
        data_parallel_wrappers.check_wrappers(module)
    stateful = held_state.StatefulFunction(
        program, held, functools.partial(_make_fake_like, device=_get_device(mesh))
    )
    for name in stateful.tensors:
        while name in labels:
            name += "_"
        labels.append(name)
    args = (*args, *stateful.tensors.values())
    return _Call(stateful, args, labels, [*held.modules.values()])


def _get_device(mesh: DeviceMesh | None) -> str:
    return mesh.device_type if mesh is not None else "cpu"


def _make_fake_like(tensor: torch.Tensor, device: str) -> torch.Tensor:
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    fake = torch.empty(local.shape, dtype=local.dtype, device=device)
    return _to_distributed_tensor(fake, tensor)


def _get_uncompiled_program(program: Any) -> Any:
    """Return the module or function that ``torch.compile`` was called with."""
    original = getattr(program, "_orig_mod", None)
    if isinstance(original, torch.nn.Module):
        return original
    return getattr(program, "_torchdynamo_orig_callable", program)


def _get_mesh_axes(mesh: Any) -> dict[str, int]:
    if isinstance(mesh, DeviceMesh):
        return dict(zip(mesh.mesh_dim_names or (), mesh.shape, strict=True))
    return dict(mesh or {})


def _list_keywords(program: torch.export.ExportedProgram, count: int) -> list[str]:
    """List the keywords that a program was exported with; raises HespasError if values lack."""
    example = program.example_inputs
    if example is None or not example[1]:
        return []
    keywords = list(example[1])
    if count != len(example[0]) + len(keywords):
        raise HespasError(
            f"the program was exported with {len(example[0])} arguments and the keywords "
            f"{', '.join(keywords)}, but {count} arguments were passed",
            remedy="pass the values of the keywords after the other arguments, in this order",
        )
    return keywords


def _functionalise_module(module: torch.nn.Module, keywords: Sequence[str]) -> Callable[..., Any]:
    """Wrap a module as a function of its state that returns its result and its changed buffers.

    The last arguments are those of the keywords.
    """

    def call_functionally(weights: dict[str, Any], buffers: dict[str, Any], *args: Any) -> Any:
        # In evaluation, buffers that the module modifies are arguments that the program modifies.
        changed = {k: x.clone() if module.training else x for k, x in buffers.items()}
        with torch.no_grad():
            positional = args[: len(args) - len(keywords)]
            named = dict(zip(keywords, args[len(positional) :], strict=True))
            result = functional_call(module, {**weights, **changed}, positional, named)
        return ((result, changed) if changed and module.training else result), {}

    return call_functionally


@dataclass(frozen=True)
class _TracedGraph:
    """A traced graph.

    Attributes:
        graph: The graph. It returns the leaves of ``result``, and the new values of arguments.
        result: The tree of the function's result and of gradients by name.
        specs: The shardings of the leaves of ``result``.
        groups: The mesh axes by process group.
        source: What was traced.
        leaves: The tensors among its arguments.
        changed: The numbers of the leaves of which the graph returns new values.
    """

    graph: torch.fx.GraphModule
    result: Any
    specs: list[PartitionSpec]
    groups: dict[str, aten_ops.MeshAxis | aten_ops.MeshPart]
    source: _Call
    leaves: list[TensorLeaf]
    changed: list[int]

    def list_changed_arguments(self) -> list[int]:
        """List the numbers of the arguments that have a tensor that the program changes."""
        return sorted({self.leaves[number].path[0] for number in self.changed})

    def assemble_results(self, values: Sequence[Any], leaf_values: Sequence[Any]) -> Any:
        """Build the results of the program from those of the graph.

        Args:
            values: The results of the graph.
            leaf_values: The tensors among the arguments.
        """
        count = self.result.num_leaves
        result, gradients = pytree.tree_unflatten(list(values[:count]), self.result)
        pairs = zip(self.leaves, leaf_values, strict=True)
        new = {leaf.path: value for leaf, value in pairs}
        for number, value in zip(self.changed, values[count:], strict=True):
            new[self.leaves[number].path] = value
        arguments = tensor_arguments.rebuild_arguments(self.source.args, new)
        labels = self.source.labels
        state = {labels[number]: arguments[number] for number in self.list_changed_arguments()}
        if gradients:
            state[held_state.GRADIENTS] = gradients
        return (result, state) if state else result


def _collect_captured_tensors(graph: torch.fx.GraphModule) -> dict[str, jax.ShapeDtypeStruct]:
    """Collect the shapes of the tensors that a graph captures and that become arguments.

    The values of other captured tensors are constants of the program.
    """
    captured: dict[str, jax.ShapeDtypeStruct] = {}
    for node in graph.graph.nodes:
        value: Any = getattr(graph, str(node.target), None) if node.op == "get_attr" else None
        if isinstance(value, torch.Tensor) and value.numel() > MAX_CONSTANT_ELEMENTS:
            dtype = aten_ops.to_jax_dtype(value.dtype)
            captured[str(node.target)] = jax.ShapeDtypeStruct(tuple(value.shape), dtype)
    return captured


def _trace_function(
    source: _Call, leaves: list[TensorLeaf], mesh: DeviceMesh | None
) -> _TracedGraph:
    axes = _get_mesh_axes(mesh)
    trees: list[Any] = []
    specs: list[PartitionSpec] = []

    def run_on_leaves(*tensors: torch.Tensor) -> list[Any]:
        pairs = zip(leaves, tensors, strict=True)
        values = {leaf.path: _to_distributed_tensor(tensor, leaf.tensor) for leaf, tensor in pairs}
        args = tensor_arguments.rebuild_arguments(source.args, values, constants=True)
        result, gradients = source.function(*args)
        results, tree = pytree.tree_flatten((to_plain_result(result), gradients))
        trees.append(tree)
        return [_to_local_result(result, axes, specs) for result in results]

    shapes = [(leaf.local, leaf.dtype) for leaf in leaves]
    with data_parallel_wrappers.run_wrappers_by_ops(source.modules):
        graph = aten_trace.trace_aten_graph(
            run_on_leaves, shapes, source.modules, _get_device(mesh)
        )
    groups: dict[str, aten_ops.MeshAxis | aten_ops.MeshPart] = {
        **data_parallel_wrappers.find_kept_groups(source.modules),
        **(_find_axis_groups(graph, mesh) if mesh is not None else {}),
    }
    changed = aten_trace.return_changed_inputs(graph)
    return _TracedGraph(graph, trees[0], specs, groups, source, leaves, changed)


def _find_axis_groups(graph: torch.fx.GraphModule, mesh: DeviceMesh) -> dict[str, Any]:
    """Map the process groups that a graph names to the mesh axes that they extend over."""
    axes = tuple(_get_mesh_axes(mesh))
    axes_of_ranks: dict[tuple[int, ...], Any] = {}
    for count in range(len(axes), 0, -1):  # one axis rather than it and others of size 1
        for chosen in itertools.combinations(axes, count):
            line = tuple(slice(None) if axis in chosen else 0 for axis in axes)
            ranks = tuple(mesh.mesh[line].flatten().tolist())
            axes_of_ranks[ranks] = chosen if count > 1 else chosen[0]
    groups = {str(mesh.get_group(axis).group_name): axis for axis in axes}
    for node in graph.graph.nodes:
        if getattr(node.target, "namespace", "") != "_c10d_functional" or len(node.args) < 2:
            continue
        name = node.args[-1]
        ranks = tuple(get_process_group_ranks(_resolve_process_group(name)))
        if ranks in axes_of_ranks:
            groups.setdefault(name, axes_of_ranks[ranks])
    return groups


def _to_distributed_tensor(local: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Wrap a local tensor as a DTensor if the corresponding argument ``like`` is one."""
    if not isinstance(like, DTensor):
        return local
    return DTensor.from_local(
        local, like.device_mesh, like.placements,
        run_check=False, shape=like.shape, stride=like.stride(),
    )  # fmt: skip


def to_plain_result(value: Any) -> Any:
    """Convert a result to dictionaries, lists and tuples of tensors.

    A mapping or a dataclass becomes a dictionary of its fields, such as ``logits``. Any other
    object becomes a dictionary of those attributes that hold tensors, such as a cache of keys and
    values. Other values become None, which has no leaf.
    """
    return _to_plain_tree(value, {})


def _to_plain_tree(value: Any, converted: dict[int, Any]) -> Any:
    """Convert a value; ``converted`` maps the ids of objects to results, None for open ones."""
    if isinstance(value, torch.Tensor):
        return value
    if id(value) in converted:
        return converted[id(value)]
    converted[id(value)] = result = None
    if isinstance(value, Mapping):
        result = {str(key): _to_plain_tree(item, converted) for key, item in value.items()}
    elif isinstance(value, (list, tuple)):
        items = [_to_plain_tree(item, converted) for item in value]
        result = items if isinstance(value, list) else tuple(items)
    elif hasattr(value, "__dict__") and not callable(value):
        fields = {key: _to_plain_tree(item, converted) for key, item in vars(value).items()}
        result = {key: item for key, item in fields.items() if pytree.tree_leaves(item)} or None
    converted[id(value)] = result
    return result


def _to_local_result(result: Any, axes: Mapping[str, int], specs: list[PartitionSpec]) -> Any:
    """Convert a result to its local part, reduce partial sums, and record its sharding."""
    if not isinstance(result, DTensor):
        specs.append(PartitionSpec())
        return result
    full_placements = [p if isinstance(p, Shard) else Replicate() for p in result.placements]
    result = result.redistribute(placements=full_placements)
    specs.append(tensor_arguments.to_partition_spec(result, axes))
    return result.to_local()


def _shard_over_mesh(
    run: Callable[..., Any], specs: Any, traced: _TracedGraph
) -> Callable[..., Any]:
    """Wrap the program of one device as the program of all devices of the context's mesh."""
    leaf_specs = [leaf.spec for leaf in traced.leaves]
    changed_specs = [leaf_specs[number] for number in traced.changed]
    results = traced.assemble_results([*traced.specs, *changed_specs], leaf_specs)

    def call_sharded(*tree: Any) -> Any:
        return jax.shard_map(run, in_specs=specs, out_specs=results, check_vma=False)(*tree)

    return call_sharded
