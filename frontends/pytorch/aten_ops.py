"""The JAX implementation of each ATen op, from torchax, and of each collective."""

from __future__ import annotations

import contextlib
import functools
import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import torch
import torch.fx
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._library.custom_ops import CustomOpDef, _maybe_get_opdef
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from hespas.dialects.op_kinds import RECOMPUTATION_SCOPE
from hespas.frontends.pytorch import (
    attention,
    control_flow,
    embedding_bags,
    layer_functions,
    linear_algebra,
    matrix_products,
    resampling,
    ring_attention,
)
from hespas.frontends.pytorch.platforms import get_platform
from hespas.support.errors import HespasError, extract_first_line

FOR_EACH = "_foreach_"  # the prefix of ops that take lists of tensors
MODULE = "hespas_module"  # key of a node's metadata: its module, such as ``layers.0.mlp``
RECOMPUTED = "hespas_recomputed"  # key of a node that torch.utils.checkpoint runs again
# Ops whose gradients JAX's rule for the forward op computes.
GRADIENTS = {
    f"aten.{name}_backward.default": name
    for name in (
        "_adaptive_avg_pool2d",
        "_adaptive_avg_pool3d",
        "adaptive_max_pool2d",
        "adaptive_max_pool3d",
        "avg_pool2d",
        "avg_pool3d",
        "max_pool2d_with_indices",
        "max_pool3d_with_indices",
        "replication_pad1d",
        "replication_pad2d",
        "replication_pad3d",
        "softshrink",
        "upsample_linear1d",
        "upsample_bilinear2d",
        "upsample_bicubic2d",
        "upsample_trilinear3d",
        *resampling.NEAREST,
    )
}
CONVOLUTIONS = (torch.ops.aten.convolution, torch.ops.aten.convolution_backward)


def _view_array(x: Any, wanted: Sequence[int] | torch.dtype) -> Any:
    """View an array with another shape, or its bytes as another type."""
    return x.view(to_jax_dtype(wanted)) if isinstance(wanted, torch.dtype) else x.reshape(wanted)


# Ops that torchax lacks, or implements incorrectly.
JAX_FUNCTIONS = {
    "_cdist_backward": layer_functions.differentiate_distances,
    "_embedding_bag": embedding_bags.apply_embedding_bag,
    "_embedding_bag_forward_only": embedding_bags.apply_embedding_bag,
    "_embedding_bag_backward": embedding_bags.differentiate_embedding_bag,
    "_embedding_bag_dense_backward": embedding_bags.differentiate_dense_bag,
    "_grouped_mm": matrix_products.apply_grouped_product,
    "_int_mm": functools.partial(jax.lax.dot, preferred_element_type=jax.numpy.int32),
    "_linalg_det": linear_algebra.compute_determinant,
    "_linalg_slogdet": linear_algebra.compute_log_determinant,
    "_linalg_solve_ex": linear_algebra.solve_equations,
    ring_attention.FORWARD: ring_attention.apply_step,
    ring_attention.BACKWARD: ring_attention.differentiate_step,
    "_scaled_mm": matrix_products.apply_scaled_product,
    "_scaled_mm_v2": matrix_products.apply_scaled_product_by_recipes,
    "_weight_int8pack_mm": matrix_products.apply_packed_product,
    "_weight_norm_interface_backward": layer_functions.differentiate_scaled_weight,
    "adaptive_max_pool2d": layer_functions.pool_maxima,
    "adaptive_max_pool3d": layer_functions.pool_maxima,
    "view": _view_array,
    "view_copy": _view_array,
    "zeros_and_scatter": attention.scatter_to_zeros,  # of flex_attention
    **layer_functions.ROUNDING,
    **resampling.NEAREST,
}
RANDOM_FUNCTIONS = {  # ... from a key and a tensor, whose shape and type the result has
    "exponential": lambda key, x, rate=1.0: jax.random.exponential(key, x.shape, x.dtype) / rate,
    "normal_functional": lambda key, x, mean=0.0, deviation=1.0: (
        mean + deviation * jax.random.normal(key, x.shape, x.dtype)
    ),
}
MeshAxis = str | tuple[str, ...]  # an axis, or several that are one group
REDUCTIONS = {"sum": jax.lax.psum, "avg": jax.lax.pmean, "max": jax.lax.pmax, "min": jax.lax.pmin}


class _DroppedOp(str):
    """The name of an op that torch has dropped; its overloads are such names too."""

    def __getattr__(self, key: str) -> _DroppedOp:
        if key.startswith("_"):
            raise AttributeError(key)
        return _DroppedOp(f"{self}.{key}")


@contextlib.contextmanager
def _restore_dropped_ops() -> Iterator[None]:
    """Add placeholders for ops and overloads that torch has dropped, so that torchax's tables load.

    torchax 0.0.13, its last release, names overloads for named tensors, which torch 2.13 lacks, and
    ``aten.cholesky``, which torch 2.14 lacks.
    """
    kinds: tuple[Any, ...] = (OpOverloadPacket, type(torch.ops.aten))
    originals = [kind.__getattr__ for kind in kinds]

    def make_lookup(original: Any) -> Any:
        def look_up(self: Any, key: str) -> Any:
            try:
                return original(self, key)
            except AttributeError:
                if key.startswith("_"):
                    raise
                return _DroppedOp(f"{self}.{key}")

        return look_up

    for kind, original in zip(kinds, originals, strict=True):
        kind.__getattr__ = make_lookup(original)
    try:
        yield
    finally:
        for kind, original in zip(kinds, originals, strict=True):
            kind.__getattr__ = original


def _import_torchax(part: str) -> Any:
    """Import a module of torchax.

    torchax declares an accelerator that is available but has no streams. Optimisers of torch 2.15
    ask an available one for its stream in each step, so it says that it is not.
    """
    with _restore_dropped_ops():
        importlib.import_module("torchax.ops.jaten")
        accelerator: Any = importlib.import_module("torchax.device_module")
        accelerator.is_available = lambda: False
        return importlib.import_module(f"torchax.{part}")


def get_mutation_decompositions() -> dict[Any, Any]:
    """Return decompositions for ops that modify an argument without declaring it."""
    return get_decompositions([torch.ops.aten.native_batch_norm])


def get_op_decompositions() -> dict[Any, Any]:
    """Return decompositions of ops that torchax lacks or implements incorrectly."""
    aten = torch.ops.aten
    known = _import_torchax("ops.ops_registry").all_aten_ops
    batch_norm = [
        aten._native_batch_norm_legit, aten._native_batch_norm_legit_functional,
        aten.native_batch_norm, aten.native_batch_norm_backward,
    ]  # fmt: skip
    core = {
        op: rule
        for op, rule in core_aten_decompositions().items()
        if op not in known and getattr(op, "overloadpacket", op) not in known
    }
    table = {
        **core,
        **_import_torchax("decompositions").DECOMPOSITIONS,
        **get_decompositions(batch_norm),
        **_list_loops(),
    }
    kept = {*GRADIENTS, *(f"aten.{name}.default" for name in JAX_FUNCTIONS)}
    return {op: rule for op, rule in table.items() if str(op) not in kept}


def _list_loops() -> dict[Any, Callable[..., Any]]:
    """Return decompositions of the ops of lists of tensors, such as ``torch._foreach_add``."""
    names = (name for name in dir(torch) if name.startswith(FOR_EACH) and not name.endswith("_"))
    packets = {name.removeprefix(FOR_EACH): getattr(torch.ops.aten, name) for name in names}
    return {
        getattr(packet, overload): functools.partial(_apply_to_each, name)
        for name, packet in packets.items()
        for overload in packet.overloads()
    }


# Functions of one tensor that have another name, and take numbers as well as tensors.
_NAMES_OF_ONE: dict[str, Callable[..., Any]] = {
    "maximum": torch.clamp_min,
    "minimum": torch.clamp_max,
    "norm": torch.linalg.vector_norm,
}


def _apply_to_each(name: str, *args: Any, **kwargs: Any) -> list[Any]:
    """Apply an op to the tensors of lists, one after another."""
    if name in ("addcdiv", "addcmul") and len(args) == 4:  # with a factor, a keyword of the op
        function = getattr(torch, name)
        return [function(*call, value=factor) for *call, factor in _zip_lists(*args)]
    function = _NAMES_OF_ONE.get(name) or getattr(torch, name)
    return [function(*call, **kwargs) for call in _zip_lists(*args)]


def _zip_lists(*args: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the operands of each element of lists; what is no list belongs to all of them."""
    count = next(len(part) for part in args if isinstance(part, (list, tuple)))
    rows = (part if isinstance(part, (list, tuple)) else [part] * count for part in args)
    return zip(*rows, strict=True)


def to_jax_dtype(kind: torch.dtype) -> Any:
    """Convert a torch type to a JAX type; 64-bit types are narrowed unless JAX enables them."""
    return jax.dtypes.canonicalize_dtype(_import_torchax("ops.mappings").t2j_dtype(kind))


def _apply_precision(library: Any) -> contextlib.AbstractContextManager[Any]:
    """Multiply numbers of f32 as PyTorch does on GPUs: as tf32 where its setting allows it.

    That is so by default for convolutions only. XLA's default is tf32, and that of TPUs is kept.

    Args:
        library: ``torch.backends.cuda.matmul``, or ``torch.backends.cudnn.conv``.
    """
    is_narrow = library.fp32_precision in ("tf32", "bf16") or get_platform() == "tpu"
    return jax.default_matmul_precision("default" if is_narrow else "highest")


def _select_gradients(gradients: Sequence[Any], is_returned: Sequence[bool]) -> tuple[Any, ...]:
    """Return the gradients that the output mask of a backward op asks for, and None for others."""
    return tuple(
        part if is_wanted else None for part, is_wanted in zip(gradients, is_returned, strict=True)
    )


def _find_ring_shift(received: Sequence[int], sent: Sequence[int]) -> int:
    """Return how far a ring of ranks hands on whole tensors; 0 if it does something else.

    Args:
        received: The sizes that rank 0 receives from each rank, as ``permute_tensor`` states them.
        sent: Those that it sends to each.
    """
    sources, targets = ([i for i, size in enumerate(sizes) if size] for sizes in (received, sent))
    is_ring = len(sources) == len(targets) == 1 and sources[0] + targets[0] == len(sent)
    return targets[0] if is_ring else 0


def _exchange_unevenly(
    x: Any, received: Sequence[int], sent: Sequence[int], axis: MeshAxis | MeshPart
) -> Any:
    """Send rows to each rank, and receive others from each, in the numbers that rank 0 has."""
    output = jax.numpy.zeros((sum(received), *x.shape[1:]), x.dtype)
    numbers = np.array([sent, received], np.int32)
    starts = np.cumsum(numbers, 1, np.int32) - numbers
    places = np.zeros_like(starts[0])  # where rank 0 writes in the results of all ranks
    return jax.lax.ragged_all_to_all(
        x, output, *map(jax.numpy.asarray, (starts[0], numbers[0], places, numbers[1])),
        axis_name=axis,
    )  # fmt: skip


@dataclass(frozen=True)
class MeshPart:
    """Groups of ``size`` neighbours on a mesh axis."""

    axis: str
    size: int


class _RandomKeys:
    """A source of random keys for torchax that yields the same keys in every run."""

    def __init__(self) -> None:
        self.count = 0

    def get_and_rotate_prng_key(self, generator: object = None) -> Any:
        self.count += 1
        return jax.random.fold_in(jax.random.PRNGKey(0), self.count)


class JaxInterpreter(torch.fx.Interpreter):
    """Runs a graph of ATen ops on JAX values.

    ``axes`` maps the name of each process group to its mesh axes, and ``captured`` the names of
    captured tensors to their values. ``unfused_attentions`` counts the calls of attention that
    became products and a softmax, and ``grouped_products`` the products in groups. Running raises
    HespasError for an op that has no JAX implementation.
    """

    def __init__(
        self,
        graph: torch.fx.GraphModule,
        axes: Mapping[str, MeshAxis | MeshPart],
        captured: Mapping[str, Any],
    ) -> None:
        super().__init__(graph)
        self.axes = axes
        self.captured = captured
        self.unfused_attentions = self.grouped_products = 0
        self.random = _RandomKeys()
        self.barriers: dict[torch.fx.Node, Any] = {}
        self.table = _import_torchax("ops.ops_registry").all_aten_ops

    def run(self, *args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():  # JAX narrows 64-bit types to 32 bits by default
            warnings.filterwarnings("ignore", message="Explicitly requested dtype")
            return super().run(*args, **kwargs)

    def run_node(self, n: torch.fx.Node) -> Any:
        scopes = [RECOMPUTATION_SCOPE] if RECOMPUTED in n.meta else []
        scopes += [n.meta[MODULE]] if n.meta.get(MODULE) else []
        with jax.named_scope("/".join(scopes)) if scopes else contextlib.nullcontext():
            return super().run_node(n)

    def map_nodes_to_values(self, args: Any, n: torch.fx.Node) -> Any:
        """Return the operands of a node; those of a recomputation pass a barrier, as in JAX.

        XLA would otherwise find the equal ops of the forward pass, and keep their results.
        """
        if RECOMPUTED not in n.meta:
            return super().map_nodes_to_values(args, n)

        def load(operand: torch.fx.Node) -> Any:
            value = self.env[operand]
            if RECOMPUTED in operand.meta or not isinstance(value, jax.Array):
                return value
            if operand not in self.barriers:
                self.barriers[operand] = jax.lax.optimization_barrier(value)
            return self.barriers[operand]

        return map_arg(args, load)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target in self.captured:
            return self.captured[target]
        value = self.fetch_attr(target)
        return (
            _import_torchax("ops.mappings").t2j(value) if isinstance(value, torch.Tensor) else value
        )

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(target, HigherOrderOperator):
            function = control_flow.FUNCTIONS.get(target.name())
            if function is None:
                raise HespasError(
                    f"there is no JAX function for the op {target.name()}",
                    remedy="write that part with other ops",
                )
            return function(self.run_graph, *args, **kwargs)
        if not isinstance(target, OpOverload):
            return super().call_function(target, args, kwargs)
        if not any(getattr(value, "dtype", None) == jax.numpy.float32 for value in args):
            return self.call_op(target, args, kwargs)
        is_convolution = target.overloadpacket in CONVOLUTIONS
        with _apply_precision(
            torch.backends.cudnn.conv if is_convolution else torch.backends.cuda.matmul
        ):
            return self.call_op(target, args, kwargs)

    def run_graph(self, graph: torch.fx.GraphModule, *operands: Any) -> Any:
        """Run a graph that is an argument of an op; it counts its ops here."""
        inner = JaxInterpreter(graph, self.axes, {})
        inner.random = self.random
        results = inner.run(*operands, enable_io_processing=False)
        self.unfused_attentions += inner.unfused_attentions
        self.grouped_products += inner.grouped_products
        return results

    def call_op(self, target: OpOverload, args: Any, kwargs: Any) -> Any:
        """Compute an ATen op or one of an extension with JAX."""
        if target is torch.ops.aten.convolution_backward.default:
            return self.differentiate_convolution(*args)
        if target is torch.ops.aten.grid_sampler_2d_backward.default:
            return self.differentiate_samples(*args)
        if str(target) in GRADIENTS:
            return self.differentiate_op(GRADIENTS[str(target)], *args)
        if target.namespace in ("aten", "flex_lib") and target._opname in JAX_FUNCTIONS:
            self.grouped_products += target is torch.ops.aten._grouped_mm.default
            if target._opname == ring_attention.FORWARD:
                self.unfused_attentions += not ring_attention.runs_kernel(args[0])
            return JAX_FUNCTIONS[target._opname](*args, **kwargs)
        if target.namespace == "aten" and target._opname in RANDOM_FUNCTIONS:
            key = self.random.get_and_rotate_prng_key()
            return RANDOM_FUNCTIONS[target._opname](key, *args)
        if target.namespace in ("_c10d_functional", "_dtensor"):
            return self.apply_collective(target, *args, **kwargs)
        if target.namespace == attention.NAMESPACE:
            if target._opname == "attention":
                *operands, dropout, keeps_scores = args
                key = self.random.get_and_rotate_prng_key() if dropout else None
                *results, is_fused = attention.apply_attention(
                    *operands, dropout=dropout, keeps_scores=keeps_scores, dropout_key=key
                )
                self.unfused_attentions += not is_fused
                return results
            gradient, *_, differentiate = args
            return differentiate(gradient)
        if definition := _maybe_get_opdef(target):
            return self.run_own_op(definition, args, kwargs)
        op = self.find_function(target) or self.find_view_function(target)
        if op is None or not op.is_jax_function:
            raise HespasError(
                f"torchax has no JAX function for {target}",
                remedy="write that part of the program with other ops",
            )
        extra = {"env": self.random} if op.needs_env else {}
        try:
            return op.func(*args, **kwargs, **extra)
        except Exception as error:  # whatever its code raises for values that it does not expect
            reason = f"{type(error).__name__}: {extract_first_line(str(error))}"
            raise HespasError(
                f"torchax's JAX function for {target} failed: {reason}",
                remedy="write that part of the program with other ops",
            ) from error

    def run_own_op(
        self, definition: CustomOpDef, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Compute an op that ``torch.library.custom_op`` has defined, by the ops of its function.

        A function for the CPU is preferred, because those for GPUs run kernels.
        """
        function = definition._backend_fns.get("cpu", definition._init_fn)
        leaves, tree = pytree.tree_flatten((list(args), dict(kwargs)))
        numbers = [number for number, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
        arrays = [leaves[number] for number in numbers]

        def compute(*tensors: torch.Tensor) -> Any:
            values = list(leaves)
            for number, tensor in zip(numbers, tensors, strict=True):
                values[number] = tensor
            args, kwargs = pytree.tree_unflatten(values, tree)
            return function(*args, **kwargs)

        try:
            return self.trace_function(compute, arrays).run(*arrays)
        except Exception as error:  # whatever its code raises for fake tensors
            reason = f"{type(error).__name__}: {extract_first_line(str(error))}"
            raise HespasError(
                f"the function of the op {definition._qualname} cannot be traced: {reason}",
                remedy="register one of PyTorch's ops for the CPU: OP.register_kernel('cpu')",
            ) from error

    def trace_function(
        self, function: Callable[..., Any], operands: Sequence[Any]
    ) -> JaxInterpreter:
        """Trace a function of tensors that have the shapes and types of arrays."""
        to_torch_dtype = _import_torchax("ops.mappings").j2t_dtype
        with FakeTensorMode(allow_non_fake_inputs=True):
            samples = [torch.empty(x.shape, dtype=to_torch_dtype(x.dtype)) for x in operands]
            pure = torch.func.functionalize(function, remove="mutations_and_views")
            graph = make_fx(pure, get_op_decompositions())(*samples)
        interpreter = JaxInterpreter(graph, self.axes, {})
        interpreter.random = self.random
        return interpreter

    def find_function(self, target: OpOverload) -> Any:
        """Find torchax's function of an op or of its other overloads; None if there is none."""
        return self.table.get(target) or self.table.get(target.overloadpacket)

    def find_view_function(self, target: OpOverload) -> Any:
        """Find the view op of a copying op such as ``aten.detach_copy``; JAX has no difference."""
        name = target._opname
        if target.namespace != "aten" or not name.endswith("_copy"):
            return None
        return self.table.get(getattr(torch.ops.aten, name.removesuffix("_copy"), None))

    def differentiate_convolution(
        self, gradient: Any, x: Any, weight: Any, bias: Any, *settings: Any
    ) -> tuple[Any, ...]:
        """Compute the gradients of a convolution's operands with JAX's rule for the forward op."""
        forward = self.table[torch.ops.aten.convolution].func
        _, pull = jax.vjp(lambda x, weight: forward(x, weight, None, *settings[:-1]), x, weight)
        channels = tuple(dim for dim in range(gradient.ndim) if dim != 1)
        return _select_gradients((*pull(gradient), gradient.sum(channels)), settings[-1])

    def differentiate_op(self, name: str, gradient: Any, *args: Any) -> Any:
        """Compute the gradient of an op's first operand with JAX's rule for the forward op.

        Args:
            name: The name of the forward op.
            gradient: The gradient of its result.
            args: The other arguments of the backward op.
        """
        x, *settings = args
        if "upsample" in name:  # linear, so that only the shape of the operand matters
            output_size, shape, *settings = args
            x, settings = jax.numpy.zeros(shape, gradient.dtype), [output_size, *settings]
        elif "adaptive" in name:
            settings = [gradient.shape[-int(name[-2]) :]]
        elif name.startswith("max"):  # ends with its indices
            del settings[-1]
        forward = self.make_function(getattr(torch.ops.aten, name).default, settings, x)

        def compute_first_result(x: Any) -> Any:
            results = forward(x)
            return results[0] if isinstance(results, (list, tuple)) else results

        return jax.vjp(compute_first_result, x)[1](gradient)[0]

    def differentiate_samples(
        self, gradient: Any, x: Any, grid: Any, *settings: Any
    ) -> tuple[Any, ...]:
        """Compute the gradients of an image and of the points where it is sampled."""
        target = torch.ops.aten.grid_sampler_2d.default
        _, pull = jax.vjp(self.make_function(target, settings[:-1], x, grid), x, grid)
        return _select_gradients(pull(gradient), settings[-1])

    def make_function(
        self, target: OpOverload, settings: Sequence[Any], *operands: Any
    ) -> Callable[..., Any]:
        """Make a JAX function of an ATen op's operands, of the op or of its decomposition.

        Args:
            target: The op.
            settings: Its arguments after the operands.
            operands: Values that have the shapes and types of the operands.
        """
        known = self.find_function(target)
        function = JAX_FUNCTIONS.get(target._opname, known and known.func)
        if function is not None:
            return lambda *values: function(*values, *settings)
        return self.trace_function(lambda *xs: target(*xs, *settings), operands).run

    def apply_collective(self, target: OpOverload, *args: Any) -> Any:
        """Apply a functional collective of torch.distributed.

        Raises:
            HespasError: If the collective or its process group is not supported.
        """
        name = target._opname
        x = args[0]
        if name in ("wait_tensor", "wait_tensors"):  # several since torch 2.15
            return x
        if name.endswith("_coalesced"):  # XLA combines collectives by itself
            single = getattr(torch.ops._c10d_functional, name.removesuffix("_coalesced")).default
            return [self.apply_collective(single, part, *args[1:]) for part in x]
        axis = self.axes.get(args[-1])
        if axis is None:
            raise HespasError(
                f"{target} runs over a process group that is not an axis of the mesh",
                remedy="use process groups of the DeviceMesh that is passed as mesh",
            )
        if isinstance(axis, MeshPart) and name == "all_gather_into_tensor":
            ranks = range(jax.lax.axis_size(axis.axis))
            groups = [list(ranks[first : first + axis.size]) for first in ranks[:: axis.size]]
            return jax.lax.all_gather(x, axis.axis, axis_index_groups=groups, tiled=True)
        if name == "all_reduce" and args[1] in REDUCTIONS:
            return REDUCTIONS[args[1]](x, axis)
        if name == "all_gather_into_tensor":
            return jax.lax.all_gather(x, axis, tiled=True)
        if name == "reduce_scatter_tensor" and args[1] in ("sum", "avg"):
            result = jax.lax.psum_scatter(x, axis, tiled=True)
            return result / args[2] if args[1] == "avg" else result
        if name == "all_to_all_single" and len({*args[1], *args[2]}) == 1:
            return jax.lax.all_to_all(x, axis, 0, 0, tiled=True)
        if name == "shard_dim_alltoall":
            return jax.lax.all_to_all(x, axis, args[2], args[1], tiled=True)
        if name == "all_to_all_single" and (shift := _find_ring_shift(*args[1:3])):
            count = len(args[1])
            pairs = [(rank, (rank + shift) % count) for rank in range(count)]
            return jax.lax.ppermute(x, axis, pairs)
        if name == "all_to_all_single":
            return _exchange_unevenly(x, args[1], args[2], axis)
        if name == "broadcast":
            if get_platform() == "gpu":  # XLA has a broadcast there only
                return jax.lax.pbroadcast(x, axis, args[1])
            return jax.lax.all_gather(x, axis)[args[1]]
        raise HespasError(
            f"{target} with {args[1:-1]} is not supported",
            remedy="reduce by sum, avg, max or min",
        )
