"""Custom calls by target. An unknown target is an error, never a cost of 0."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from hespas.dialects import op_kinds
from hespas.dialects.mlir import decode_string_attr, get_call_target, ir
from hespas.estimators.rules import library_calls, linalg_routines
from hespas.estimators.rules.base import (
    FREE,
    KEEP_GOING,
    CostRule,
    NotALeaf,
    OpWork,
    UnknownCost,
    build_matrix_parts,
    build_vector_parts,
    count_read_bytes,
    list_operand_sizes,
    to_buffer_size,
)
from hespas.estimators.rules.library_calls import CallConfig, count_output_bytes, find_config_value
from hespas.estimators.rules.numerics import build_random_work, build_top_k_work

_CallRule = Callable[[ir.Operation, CallConfig], OpWork]


def _compute_custom_call_work(op: ir.Operation) -> OpWork:
    target = get_call_target(op)
    if target in op_kinds.FREE_CALL_TARGETS:
        return FREE
    if target in op_kinds.COLLECTIVE_CALL_TARGETS:
        raise NotALeaf(f"@{target} is a collective: its time is the simulator's")
    if re.fullmatch(op_kinds.HOST_CALL, target):
        return _build_host_call_work(op, target)
    config = read_backend_config(op)
    for pattern, model in _CALL_RULES:
        if re.fullmatch(pattern, target):
            return model(op, config)
    declared = find_config_value(config, "cost_estimate")
    if isinstance(declared, Mapping):
        return _build_declared_work(op, declared)
    reason = (
        "holds a kernel that only it can cost"
        if re.fullmatch(op_kinds.OPAQUE_KERNEL_CALL, target)
        else "has no cost rule"
    )
    raise UnknownCost(f"custom call @{target} {reason}", op=op, remedy=KEEP_GOING)


def read_backend_config(op: ir.Operation) -> CallConfig:
    """The call's configuration: an MLIR dictionary, or the JSON text of the HLO importer."""
    attributes = op.attributes
    if "backend_config" not in attributes and "mhlo.backend_config" not in attributes:
        return {}
    name = "backend_config" if "backend_config" in attributes else "mhlo.backend_config"
    attr = attributes[name]
    if isinstance(attr, ir.DictAttr):
        return {entry.name: _to_python_value(entry.attr) for entry in attr}
    return _parse_json_config(decode_string_attr(attr)) if isinstance(attr, ir.StringAttr) else {}


def _to_python_value(attr: Any) -> Any:
    if isinstance(attr, ir.DictAttr):
        return {entry.name: _to_python_value(entry.attr) for entry in attr}
    if isinstance(attr, ir.ArrayAttr):
        return [_to_python_value(item) for item in attr]
    if isinstance(attr, (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr)):
        return list(attr)
    return getattr(attr, "value", None)


@functools.lru_cache(maxsize=256)
def _parse_json_config(text: str) -> CallConfig:
    try:
        value = json.loads(text)
    except ValueError:
        return {}  # other backends keep binary or their own text there
    return value if isinstance(value, dict) else {}


def _build_declared_work(op: ir.Operation, estimate: Mapping[str, Any]) -> OpWork:
    """A Pallas kernel whose author declared its cost; matrix units, so that time is a bound."""
    write = count_output_bytes(op)
    read = max(int(estimate.get("bytes_accessed", 0)) - write, 0) or count_read_bytes(op)
    key = to_buffer_size(op.operands[0].type).key if len(op.operands) else "f32"
    parts = build_matrix_parts(key, int(estimate.get("flops", 0)))
    return OpWork("custom", read, write, parts, int(estimate.get("transcendentals", 0)))


def _build_host_call_work(op: ir.Operation, target: str) -> OpWork:
    """The device's share is known, to hand operands over and take results; the host's is a gap."""
    gap = f"@{target} runs on the host, whose time is not known"
    return OpWork("custom", count_read_bytes(op), count_output_bytes(op), (), gap=gap)


def _compute_top_k_work(op: ir.Operation, _: CallConfig) -> OpWork:
    result = op.results[0].type
    if isinstance(result, ir.TupleType):
        result = result.get_type(0)
    return build_top_k_work(
        to_buffer_size(op.operands[0].type),
        to_buffer_size(result).shape[-1],
        count_output_bytes(op),
    )


def _compute_radix_sort_work(op: ir.Operation, _: CallConfig) -> OpWork:
    """CUB's radix sort: a pass of 8 bits over keys and values each way, and one to count them."""
    sizes = list_operand_sizes(op)
    data = [size for size in sizes if size.elements > 1] or sizes
    total = sum(size.bytes for size in data)
    keys = data[0]
    passes = -(-keys.bits // 8)
    parts = build_vector_parts(keys.key, keys.elements * passes)
    return OpWork("sort", passes * total + keys.bytes, passes * total, parts)


def _compute_threefry_work(op: ir.Operation, _: CallConfig) -> OpWork:
    write = count_output_bytes(op)
    return build_random_work(write, count_read_bytes(op), write, threefry=True)


def _compute_norm_work(op: ir.Operation, _: CallConfig) -> OpWork:
    """cuDNN's layer normalisation: 8 operations per element, as batch_norm_training."""
    data = to_buffer_size(op.operands[0].type)
    return OpWork(
        "reduction",
        count_read_bytes(op),
        count_output_bytes(op),
        build_vector_parts(data.key, 8 * data.elements),
    )


_CALL_RULES: tuple[tuple[str, _CallRule], ...] = (
    (op_kinds.GEMM_CALL, library_calls.compute_gemm_work),
    (op_kinds.CONVOLUTION_CALL, library_calls.compute_convolution_work),
    (op_kinds.ATTENTION_CALL, library_calls.compute_attention_work),
    (re.escape(op_kinds.NORM_CALL_TARGET), _compute_norm_work),
    (op_kinds.TOP_K_CALL, _compute_top_k_work),
    (op_kinds.RADIX_SORT_CALL, _compute_radix_sort_work),
    (op_kinds.THREEFRY_CALL, _compute_threefry_work),
    (op_kinds.LINALG_CALL, linalg_routines.compute_linalg_work),
)

RULES: dict[str, CostRule] = {
    "stablehlo.custom_call": CostRule(
        "leaf", "custom", "by target", "by target", "by target", _compute_custom_call_work
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
