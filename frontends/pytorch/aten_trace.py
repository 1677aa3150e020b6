"""Tracing of a PyTorch function to a graph of ATen ops without mutation, from shapes alone."""

from __future__ import annotations

import contextlib
import itertools
import re
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
import torch.fx
from torch._dynamo.exc import TorchDynamoException
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorDeviceMismatchError,
    FakeTensorMode,
)
from torch.distributed.tensor import _collective_utils
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import checkpoint

from hespas.dialects.attrs import UNFUSED_ATTENTION
from hespas.frontends.pytorch import aten_ops, attention, autocast, ring_attention
from hespas.frontends.pytorch.eager_collectives import run_eager_collectives_by_ops
from hespas.support.errors import HespasError, extract_first_line


def trace_aten_graph(
    function: Callable[..., Sequence[torch.Tensor]],
    shapes: Sequence[tuple[tuple[int, ...], torch.dtype]],
    modules: Sequence[torch.nn.Module],
    device: str,
) -> torch.fx.GraphModule:
    """Trace the ops that ``function`` runs on tensors of the given shapes, without allocation.

    Nodes that run inside children of the modules carry the child's name in their metadata. That of
    the graph has the number of calls of attention that were traced as products and a softmax.
    Errors of torch are passed on.

    Raises:
        HespasError: If control flow depends on values, or a captured tensor is modified in place.
    """
    # For the counters of loops, but not for sizes and control flow that depend on values.
    shapes_of_loops = ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=shapes_of_loops)
    with mode:
        inputs = [torch.empty(shape, dtype=kind, device=device) for shape, kind in shapes]
    try:
        with (
            mode,
            torch.device(device),  # not that of a caller who is making modules on the device meta
            _record_module_names(modules),
            _mark_recomputation(),
            _disable_fused_kernels(),
            run_eager_collectives_by_ops(),
            attention.trace_attention_as_ops() as count_unfused,
            autocast.apply_gpu_autocast(),
            ring_attention.ResizedTensors(),
        ):
            first = make_fx(function, decomposition_table=aten_ops.get_mutation_decompositions())(
                *inputs
            )
    except DynamicOutputShapeException as error:
        raise HespasError(
            f"the shape of a result depends on the values of tensors ({error.func})",
            remedy="use an op whose result has a known shape, such as torch.where with three "
            "arguments instead of a boolean index",
        ) from error
    except DataDependentOutputException as error:
        raise HespasError(
            f"the control flow of the program depends on the values of tensors ({error.func})",
            remedy="make that part depend only on shapes or on constants",
        ) from error
    except GuardOnDataDependentSymNode as error:
        raise HespasError(
            "the gradient of torch.while_loop needs sizes that are not known before it runs",
            remedy="use torch.no_grad if no gradient is needed, or a loop of Python or a scan",
        ) from error
    except FakeTensorDeviceMismatchError as error:
        raise HespasError(
            f"the program uses tensors on several devices: {extract_first_line(str(error))}",
            remedy="pass a module, which may be on the device meta, instead of a function that "
            "captures it",
        ) from error
    except (AssertionError, AttributeError, RuntimeError) as error:
        if not re.search("shape_env|unbacked_symbols|is not tracked with proxy", str(error)):
            raise
        raise HespasError(
            "the program has sizes that are not known before it runs, such as those of nested "
            "tensors",
            remedy="use padded tensors with a mask",
        ) from error
    except TorchDynamoException as error:
        raise HespasError(
            "an op with functions as arguments, such as scan and cond, cannot be "
            f"traced: {extract_first_line(str(error))}",
            remedy="write loops and branches in Python",
        ) from error
    interpreter = _NameKeepingInterpreter(first)
    try:
        with mode, torch.device(device):
            pure = torch.func.functionalize(interpreter.run, remove="mutations_and_views")
            second = make_fx(pure, decomposition_table=aten_ops.get_op_decompositions())(*inputs)
    except RuntimeError as error:
        if "mutating a non-functional tensor" not in str(error):
            raise
        raise _make_capture_error() from error
    _erase_profiler_nodes(second)
    second.meta[UNFUSED_ATTENTION] = count_unfused()
    return second


def _erase_profiler_nodes(graph: torch.fx.GraphModule) -> None:
    """Erase the marks of ``torch.profiler.record_function``, which optimisers set, too."""
    for node in reversed(graph.graph.nodes):
        if getattr(node.target, "namespace", "") == "profiler":
            graph.graph.erase_node(node)


def return_changed_inputs(graph: torch.fx.GraphModule) -> list[int]:
    """Let a graph return the new values of the inputs that it modifies in place.

    Args:
        graph: The graph, in which copies into the inputs stand for modifications.

    Returns:
        The numbers of the inputs whose new values follow the results, in their order.

    Raises:
        HespasError: The graph modifies another tensor.
    """
    nodes = list(graph.graph.nodes)
    numbers = {n: i for i, n in enumerate(n for n in nodes if n.op == "placeholder")}
    changed: dict[int, torch.fx.Node] = {}
    for node in nodes:
        if node.target is torch.ops.aten.copy_.default and node.args[0] in numbers:
            target, value = node.args[:2]
            changed[numbers[target]] = value
            node.replace_all_uses_with(value)
            graph.graph.erase_node(node)
        elif getattr(getattr(node.target, "_schema", None), "is_mutable", False):
            raise _make_capture_error()
    order = sorted(changed)
    output = nodes[-1]
    output.args = ((*output.args[0], *(changed[number] for number in order)),)
    graph.recompile()
    return order


def _make_capture_error() -> HespasError:
    return HespasError(
        "the program modifies a tensor that it captures, and that no module or optimiser holds",
        remedy="make it an argument of the function",
    )


@contextlib.contextmanager
def _disable_fused_kernels() -> Iterator[None]:
    """Trace attention and recurrent layers without the CPU's fused kernels.

    Also keep an all-to-all of DTensor as one op. For the CPU backend, which has none, DTensor would
    write an all-gather unless it runs in a mode that represents other devices.
    """
    as_if = mock.patch.object(_collective_utils, "local_tensor_mode", lambda: True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="TF32 acceleration")
        with (
            as_if,
            _disable_compilers(),
            sdpa_kernel(SDPBackend.MATH),
            torch.backends.mkldnn.flags(enabled=False),
        ):
            yield


@contextlib.contextmanager
def _disable_compilers() -> Iterator[None]:
    """Run what ``torch.compile`` returned as the Python code that it was made from."""
    with torch._dynamo.config.patch(error_on_nested_fx_trace=False):
        yield


@contextlib.contextmanager
def _record_module_names(modules: Sequence[torch.nn.Module]) -> Iterator[None]:
    """Write the names of modules' children to the nodes that they add, innermost child first."""
    started: list[int] = []

    def enter_module(child: torch.nn.Module, args: Any) -> None:
        if not torch.compiler.is_compiling():  # a branch of torch.cond, which has no nodes yet
            started.append(len(_get_traced_nodes()))

    def make_exit_hook(name: str) -> Callable[..., None]:
        def name_module_nodes(child: torch.nn.Module, args: Any, result: Any) -> None:
            if not torch.compiler.is_compiling():
                _name_new_nodes(started.pop(), name)

        return name_module_nodes

    hooks = []
    for name, child in (pair for module in modules for pair in module.named_modules()):
        hooks.append(child.register_forward_pre_hook(enter_module))
        hooks.append(child.register_forward_hook(make_exit_hook(name.replace("/", "."))))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextlib.contextmanager
def _mark_recomputation() -> Iterator[None]:
    """Mark the nodes that ``torch.utils.checkpoint`` runs again for the backward pass."""

    def apply_reentrantly(function: Callable[..., Any], *args: Any) -> Any:
        runs = itertools.count()

        def run(*operands: Any) -> Any:
            if not next(runs):
                return function(*operands)
            with mark_recomputed_nodes():
                return function(*operands)

        return checkpoint_function.apply(run, *args)

    checkpoint_function = checkpoint.CheckpointFunction
    reentrant = types.SimpleNamespace(apply=apply_reentrantly)
    name = "_checkpoint_without_reentrant_generator"
    if hasattr(checkpoint, f"{name}_impl"):  # since torch 2.14
        name += "_impl"
    original = getattr(checkpoint, name)

    def run(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        def run_again(*operands: Any, **options: Any) -> Any:  # the first run is elsewhere
            with mark_recomputed_nodes():
                return function(*operands, **options)

        return original(run_again, *args, **keywords)

    with (
        mock.patch.object(checkpoint, name, run),
        mock.patch.object(checkpoint, "CheckpointFunction", reentrant),
    ):
        yield


@contextlib.contextmanager
def mark_recomputed_nodes() -> Iterator[None]:
    """Mark the nodes that are traced meanwhile as ops that run again for the backward pass."""
    start = len(_get_traced_nodes())
    try:
        yield
    finally:  # torch.utils.checkpoint stops early, by an exception
        _name_new_nodes(start, "", aten_ops.RECOMPUTED)


def _get_traced_nodes() -> Any:
    """Return the nodes of the graph that is being traced."""
    mode = get_proxy_mode()
    return mode.tracer.graph.nodes if mode is not None else ()


def _name_new_nodes(start: int, name: str, key: str = aten_ops.MODULE) -> None:
    """Write metadata on the nodes from number ``start`` on that have none under the key yet."""
    nodes = _get_traced_nodes()
    # The nodes form a linked list: walking from the end visits only the new ones.
    for node in itertools.islice(reversed(nodes), len(nodes) - start):
        node.meta.setdefault(key, name)


class _NameKeepingInterpreter(torch.fx.Interpreter):
    """Runs a graph and copies the metadata of its nodes to the nodes that are traced meanwhile."""

    def run_node(self, n: torch.fx.Node) -> Any:
        start = len(_get_traced_nodes())
        result = super().run_node(n)
        for key in (aten_ops.MODULE, aten_ops.RECOMPUTED):
            if key in n.meta:
                _name_new_nodes(start, n.meta[key], key)
        return result
