"""The collectives of ``torch.distributed`` that write into their operands, as functional ones.

``dist.all_reduce(x)`` and its kin call a method of a process group, whose op has a tensor of
another device's library as its result and cannot be traced further. While a program is traced,
these methods run the functional collective of the same kind and copy its result into the operand.
A barrier exchanges no data and is left out. What one rank sends to another cannot be traced,
because the program of rank 0 stands for all ranks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch.distributed import ProcessGroup
from torch.distributed._functional_collectives import REDUCE_OP_TO_STR

from hespas.support.errors import HespasError

Tensors = Sequence[torch.Tensor]


class _FinishedWork:
    """What a collective returns: it has finished when the call returns."""

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


def run_collective(name: str, operand: torch.Tensor, group: Any, *settings: Any) -> torch.Tensor:
    """Run a functional collective over a process group, and wait for its result."""
    op = getattr(torch.ops._c10d_functional, name)
    return torch.ops._c10d_functional.wait_tensor(op(operand, *settings, group.group_name))


@contextlib.contextmanager
def run_eager_collectives_by_ops() -> Iterator[None]:
    """Let process groups run functional collectives, which can be traced."""
    # A barrier asks for the accelerator, and that of torchax has no functions.
    accelerator = mock.patch.object(torch._C, "_get_accelerator", lambda *_: torch.device("cpu"))
    with accelerator, contextlib.ExitStack() as stack:
        for name, function in _FUNCTIONS.items():
            if hasattr(ProcessGroup, name):  # names differ by version of torch
                stack.enter_context(mock.patch.object(ProcessGroup, name, function))
        yield


def _all_reduce(group: Any, tensors: Tensors, opts: Any = None) -> _FinishedWork:
    for x in tensors:
        x.copy_(run_collective("all_reduce", x, group, _name_reduction(opts)))
    return _FinishedWork()


def _broadcast(group: Any, tensors: Tensors, opts: Any) -> _FinishedWork:
    for x in tensors:
        x.copy_(run_collective("broadcast", x, group, opts.rootRank))
    return _FinishedWork()


def _all_gather_tensor(
    group: Any, output: torch.Tensor, operand: torch.Tensor, opts: Any = None
) -> _FinishedWork:
    gathered = run_collective("all_gather_into_tensor", operand, group, group.size())
    output.copy_(gathered.view(output.shape))
    return _FinishedWork()


def _all_gather(
    group: Any, outputs: Sequence[Tensors], tensors: Tensors, opts: Any = None
) -> _FinishedWork:
    for parts, x in zip(outputs, tensors, strict=True):
        rows = run_collective("all_gather_into_tensor", x[None], group, group.size())
        for part, row in zip(parts, rows, strict=True):
            part.copy_(row)
    return _FinishedWork()


def _reduce_scatter_tensor(
    group: Any, output: torch.Tensor, operand: torch.Tensor, opts: Any = None
) -> _FinishedWork:
    rows = operand.reshape(group.size() * output.shape[0], *output.shape[1:])
    settings = (_name_reduction(opts), group.size())
    output.copy_(run_collective("reduce_scatter_tensor", rows, group, *settings))
    return _FinishedWork()


def _reduce_scatter(
    group: Any, outputs: Tensors, operands: Sequence[Tensors], opts: Any = None
) -> _FinishedWork:
    for output, parts in zip(outputs, operands, strict=True):
        _reduce_scatter_tensor(group, output[None], torch.stack(list(parts)), opts)
    return _FinishedWork()


def _all_to_all_tensor(
    group: Any,
    output: torch.Tensor,
    operand: torch.Tensor,
    output_sizes: Sequence[int],
    input_sizes: Sequence[int],
    opts: Any = None,
) -> _FinishedWork:
    sizes = [
        list(sizes) or [x.shape[0] // group.size()] * group.size()
        for sizes, x in ((output_sizes, output), (input_sizes, operand))
    ]
    output.copy_(run_collective("all_to_all_single", operand, group, *sizes))
    return _FinishedWork()


def _all_to_all(group: Any, outputs: Tensors, operands: Tensors, opts: Any = None) -> _FinishedWork:
    sizes = [[x.shape[0] for x in tensors] for tensors in (outputs, operands)]
    result = run_collective("all_to_all_single", torch.cat(list(operands)), group, *sizes)
    for output, part in zip(outputs, result.split(sizes[0]), strict=True):
        output.copy_(part)
    return _FinishedWork()


def _for_each(function: Callable[..., Any]) -> Callable[..., _FinishedWork]:
    """Apply a function of an output and an operand to the elements of two lists."""

    def run(group: Any, outputs: Tensors, operands: Tensors, opts: Any = None) -> _FinishedWork:
        for output, operand in zip(outputs, operands, strict=True):
            function(group, output, operand, opts)
        return _FinishedWork()

    return run


def _skip_barrier(group: Any, *args: Any, **kwargs: Any) -> _FinishedWork:
    return _FinishedWork()


def _make_refusal(name: str) -> Callable[..., Any]:
    def refuse(group: Any, *args: Any, **kwargs: Any) -> Any:
        raise HespasError(
            f"torch.distributed.{name} concerns single ranks, but the program of rank 0 is traced "
            "for all of them",
            remedy="use a collective in which each rank does the same, such as all_reduce or "
            "permute_tensor",
        )

    return refuse


def _name_reduction(opts: Any) -> str:
    if opts is None:
        return "sum"
    kind = opts.reduceOp.op
    return REDUCE_OP_TO_STR.get(kind, kind.name)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_allgather_base": _all_gather_tensor,
    "_reduce_scatter_base": _reduce_scatter_tensor,
    "all_gather_single": _all_gather_tensor,
    "all_gather_single_coalesced": _for_each(_all_gather_tensor),
    "all_to_all_single": _all_to_all_tensor,
    "allgather": _all_gather,
    "allgather_into_tensor_coalesced": _for_each(_all_gather_tensor),
    "allreduce": _all_reduce,
    "allreduce_coalesced": _all_reduce,
    "alltoall": _all_to_all,
    "alltoall_base": _all_to_all_tensor,
    "barrier": _skip_barrier,
    "broadcast": _broadcast,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_single": _reduce_scatter_tensor,
    "reduce_scatter_single_coalesced": _for_each(_reduce_scatter_tensor),
    "reduce_scatter_tensor_coalesced": _for_each(_reduce_scatter_tensor),
    **{name: _make_refusal(name) for name in ("gather", "recv", "reduce", "scatter", "send")},
}
