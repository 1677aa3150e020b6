"""Mixed precision by ``torch.autocast`` of GPUs, in a trace on the tensors of a CPU.

``torch.autocast("cuda")`` does nothing to tensors of a CPU, and is disabled where there is no GPU.
Within a trace it is that of the CPU, which casts the operands of products and convolutions alike.
The ops that only GPUs compute in f32 are cast by a mode.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from hespas.support.errors import HespasError

# Of PyTorch's reference of autocast, "CUDA ops that autocast to float32", with functions that
# consist of such ops.
FLOAT32_OPS = frozenset((
    "__pow__", "__rdiv__", "__rpow__", "__rtruediv__", "acos", "asin",
    "binary_cross_entropy_with_logits", "cdist", "cosh", "cosine_embedding_loss",
    "cosine_similarity", "cross_entropy", "cumprod", "cumsum", "dist", "erfinv", "exp", "expm1",
    "group_norm", "gumbel_softmax", "hinge_embedding_loss", "kl_div", "l1_loss", "layer_norm",
    "log", "log10", "log1p", "log2", "log_softmax", "logsumexp", "margin_ranking_loss",
    "mse_loss", "multi_margin_loss", "multilabel_margin_loss", "nll_loss", "norm", "normalize",
    "pdist", "poisson_nll_loss", "pow", "prod", "reciprocal", "renorm", "rms_norm", "rsqrt",
    "sinh", "smooth_l1_loss", "soft_margin_loss", "softmax", "softmin", "softplus", "sum",
    "tan", "triplet_margin_loss",
))  # fmt: skip
ATTENTION = "scaled_dot_product_attention"
CPU = "cpu"


class _GpuCasts(TorchFunctionMode):
    """Casts the operands of ops as the autocast of a GPU does, where that of the CPU does not.

    Attributes:
        devices: The devices of the regions of autocast that the trace is in.
    """

    def __init__(self) -> None:
        super().__init__()
        self.devices: list[str] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if self.devices and self.devices[-1] != CPU and torch.is_autocast_enabled(CPU):
            if name in FLOAT32_OPS and kwargs.get("dtype") is None:
                args, kwargs = _cast_tensors((args, kwargs), torch.float32)
            elif name == ATTENTION:  # an op of its own in the trace
                args, kwargs = _cast_tensors((args, kwargs), torch.get_autocast_dtype(CPU))
        return func(*args, **kwargs)


def _cast_tensors(tree: Any, kind: torch.dtype) -> Any:
    """Cast the tensors in a tree that have floats of at most 32 bits."""

    def cast(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(kind) if tensor.is_floating_point() and tensor.itemsize <= 4 else tensor

    return pytree.tree_map_only(torch.Tensor, cast, tree)


@contextmanager
def apply_gpu_autocast() -> Iterator[None]:
    """Let ``torch.autocast`` of any device act on the tensors of a trace.

    Raises:
        HespasError: A region was made before the trace, and torch has disabled it, because this
            machine has no such device.
    """
    casts = _GpuCasts()
    initialise, enter, leave = (
        getattr(torch.autocast, f"__{name}__") for name in ("init", "enter", "exit")
    )

    def make_region(
        self: Any,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        dtype = torch.get_autocast_dtype(device_type) if dtype is None else dtype
        initialise(self, CPU, dtype, enabled, cache_enabled)
        self.device, self.is_of_trace = device_type, True

    def enter_region(self: Any) -> Any:
        is_of_trace = getattr(self, "is_of_trace", False)
        if self.device != CPU and not self._enabled and not is_of_trace:
            raise HespasError(
                f"a region of torch.autocast for {self.device} was made outside the function that "
                "is exported, and torch has disabled it, as this machine has no such device",
                remedy="make it in the function, or for the device cpu",
            )
        casts.devices.append(self.device)
        with mock.patch.object(self, "device", CPU):
            return enter(self)

    def leave_region(self: Any, *error: Any) -> Any:
        casts.devices.pop()
        with mock.patch.object(self, "device", CPU):
            return leave(self, *error)

    with (
        mock.patch.multiple(
            torch.autocast, __init__=make_region, __enter__=enter_region, __exit__=leave_region
        ),
        casts,
    ):
        yield
