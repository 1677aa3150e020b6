"""Custom calls by target. An unknown target is an error, never a cost of 0."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from hespas.dialects.mlir import call_target, ir, string_of
from hespas.estimators.rules import libraries, linalg
from hespas.estimators.rules.base import (
    FREE,
    KEEP_GOING,
    NotALeaf,
    Rule,
    UnknownCost,
    Work,
    buffer,
    matrix,
    names,
    operand_buffers,
    read_bytes,
    vector,
)
from hespas.estimators.rules.libraries import Config, find, written
from hespas.estimators.rules.numerics import random_work, top_k_work

_Model = Callable[[ir.Operation, Config], Work]

FREE_TARGETS = frozenset(
    names(
        "",
        """
        Sharding SPMDFullToShardShape SPMDShardToFullShape shape_assertion
        annotate_device_placement LayoutConstraint AllocateBuffer MoveToHost
        MoveToDevice PinToDevice PinToDeviceSram Unpin AssumeGatherIndicesInBound
        xla.sdy.FuncResultSharding xla.sdy.GlobalToLocalShape
        xla.sdy.LocalToGlobalShape xla.sdy.PropagationBarrier xla.sdy.ShardingGroup
        X64Combine X64SplitHigh X64SplitLow GetDimensionSize SetDimensionSize
        IntegerToSharding NopReturn __xla_internal_identity
        """,
    )
)
COLLECTIVE_TARGETS = frozenset(("ragged_all_to_all", "_xla_ragged_all_to_all"))
HOST_TARGET = re.compile(
    r"xla_(ffi_)?(partitioned_)?python_(cpu|gpu)_callback|xla_python_callback|xla_buffer_python_.*"
    r"|SendToHost|RecvFromHost|io_callback|CallPythonCallback|tf_host_callback"
)
_OPAQUE = re.compile(r".*triton.*|tpu_custom_call|mosaic_gpu.*|AppleMLX.*")


def _custom_call(op: ir.Operation) -> Work:
    target = call_target(op)
    if target in FREE_TARGETS:
        return FREE
    if target in COLLECTIVE_TARGETS:
        raise NotALeaf(f"@{target} is a collective: its time is the simulator's")
    if HOST_TARGET.fullmatch(target):
        return _host_call(op, target)
    config = backend_config(op)
    for pattern, model in _MODELS:
        if re.fullmatch(pattern, target):
            return model(op, config)
    declared = find(config, "cost_estimate")
    if isinstance(declared, Mapping):
        return _declared(op, declared)
    what = (
        "holds a kernel that only it can cost" if _OPAQUE.fullmatch(target) else "has no cost rule"
    )
    raise UnknownCost(f"custom call @{target} {what}", op=op, remedy=KEEP_GOING)


def backend_config(op: ir.Operation) -> Config:
    """The call's configuration: an MLIR dictionary, or the JSON text of the HLO importer."""
    attributes = op.attributes
    if "backend_config" not in attributes and "mhlo.backend_config" not in attributes:
        return {}
    name = "backend_config" if "backend_config" in attributes else "mhlo.backend_config"
    attr = attributes[name]
    if isinstance(attr, ir.DictAttr):
        return {entry.name: _plain(entry.attr) for entry in attr}
    return _json(string_of(attr)) if isinstance(attr, ir.StringAttr) else {}


def _plain(attr: Any) -> Any:
    if isinstance(attr, ir.DictAttr):
        return {entry.name: _plain(entry.attr) for entry in attr}
    if isinstance(attr, ir.ArrayAttr):
        return [_plain(item) for item in attr]
    if isinstance(attr, (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr)):
        return list(attr)
    return getattr(attr, "value", None)


@functools.lru_cache(maxsize=256)
def _json(text: str) -> Config:
    try:
        value = json.loads(text)
    except ValueError:
        return {}  # other backends keep binary or their own text there
    return value if isinstance(value, dict) else {}


def _declared(op: ir.Operation, estimate: Mapping[str, Any]) -> Work:
    """A Pallas kernel whose author declared its cost; matrix units, so that time is a bound."""
    write = written(op)
    read = max(int(estimate.get("bytes_accessed", 0)) - write, 0) or read_bytes(op)
    key = buffer(op.operands[0].type).key if len(op.operands) else "f32"
    parts = matrix(key, int(estimate.get("flops", 0)))
    return Work("custom", read, write, parts, int(estimate.get("transcendentals", 0)))


def _host_call(op: ir.Operation, target: str) -> Work:
    """The device's share is known, to hand operands over and take results; the host's is a gap."""
    gap = f"@{target} runs on the host, whose time is not known"
    return Work("custom", read_bytes(op), written(op), (), gap=gap)


def _top_k(op: ir.Operation, _: Config) -> Work:
    result = op.results[0].type
    if isinstance(result, ir.TupleType):
        result = result.get_type(0)
    return top_k_work(buffer(op.operands[0].type), buffer(result).shape[-1], written(op))


def _radix_sort(op: ir.Operation, _: Config) -> Work:
    """CUB's radix sort: a pass of 8 bits over keys and values each way, and one to count them."""
    sizes = operand_buffers(op)
    data = [size for size in sizes if size.elements > 1] or sizes
    total = sum(size.bytes for size in data)
    keys = data[0]
    passes = -(-keys.bits // 8)
    parts = vector(keys.key, keys.elements * passes)
    return Work("sort", passes * total + keys.bytes, passes * total, parts)


def _threefry(op: ir.Operation, _: Config) -> Work:
    write = written(op)
    return random_work(write, read_bytes(op), write, threefry=True)


def _norm(op: ir.Operation, _: Config) -> Work:
    """cuDNN's layer normalisation: 8 operations per element, as batch_norm_training."""
    data = buffer(op.operands[0].type)
    return Work("reduction", read_bytes(op), written(op), vector(data.key, 8 * data.elements))


_MODELS: tuple[tuple[str, _Model], ...] = (
    (r"__cublas\$(gemm|lt\$matmul(\$f8)?)|__(onednn|cublas)\$matmul.*", libraries.gemm),
    (r"__cudnn\$conv.*", libraries.convolution),
    (r"__cudnn\$fmha.*", libraries.attention),
    (r"__cudnn\$norm", _norm),
    (r"TopK|mhlo\.topk|chlo\.top_k|stablehlo\.topk|__gpu\$TopK|ApproxTopK|PartialReduce", _top_k),
    (r"__cub\$DeviceRadixSort.*|xla\.gpu\.ext\.cub_sort_.*", _radix_sort),
    (r"cu(da)?_threefry2x32(_ffi)?|hip_threefry2x32(_ffi)?", _threefry),
    (linalg.TARGET, linalg.factorisation),
)

RULES: dict[str, Rule] = {
    "stablehlo.custom_call": Rule(
        "leaf", "custom", "by target", "by target", "by target", _custom_call
    )
}

# Words for the documentation: targets, operations, bytes.
DOCUMENTED: tuple[tuple[str, str, str], ...] = (
    (
        "`__cublas$gemm`, `__cublas$lt$matmul`, `__cublas$lt$matmul$f8`, `__onednn$matmul`",
        "2 x result x contracted size; bias 1, ReLU 1, GELU 8 and 1 transcendental per element",
        "operands; results without workspace",
    ),
    (
        "`__cudnn$conv*`",
        "2 x output positions x kernel / output features, padding inferred from shapes; bias 1, "
        "side input 2, activation 1 per element",
        "operands; results without workspace",
    ),
    (
        "`__cudnn$fmha*`",
        "2 products forward, 5 backward; causal masks halve them; softmax 5 and "
        "1 transcendental per score",
        "operands; results without workspace",
    ),
    ("`__cudnn$norm`", "8 per element", "operands; results"),
    (
        "`TopK`, `mhlo.topk`, `__gpu$TopK`, `ApproxTopK`",
        "elements x (1 + ceil(log2 k))",
        "operand; results",
    ),
    (
        "`__cub$DeviceRadixSort*`",
        "1 per key and pass of 8 bits",
        "all data once per pass, keys once more",
    ),
    ("`cu_threefry2x32*`", "i32: 58 per 4 bytes", "operands; results"),
    (
        "`lapack_*`, `cusolver_*`, `cublas_*`, `hipsolver_*`, `magma_*`, `Qr`, `Eigh` ...",
        "by routine, after LAPACK Working Note 41 and Golub and Van Loan",
        "operands; results",
    ),
    (
        "with a `cost_estimate` in the configuration (Pallas)",
        "as declared, at the matrix rate of the first operand's type",
        "as declared",
    ),
    ("`Sharding`, `SPMDFullToShardShape`, `xla.sdy.*`, `shape_assertion` ...", "0", "0"),
    ("`ragged_all_to_all`", "collective: simulated", "collective: simulated"),
    (
        "`xla_python_*_callback`, `xla_ffi_python_*_callback` ...",
        "0; the host's time is a gap",
        "operands; results",
    ),
    ("any other", "error", "error"),
)
