"""The work of custom calls, by target.

The order is: a cost that the user declares, targets that hespas knows, rules of installed packages,
a cost that the call declares. Any other target is an error, never a cost of 0.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hespas.dialects import op_kinds
from hespas.dialects.attrs import KernelCostAttr
from hespas.dialects.mlir import (
    decode_string_attr,
    find_attribute,
    get_call_target,
    ir,
    list_dictionary_entries,
    read_frontend_text,
)
from hespas.estimators.rules import library_calls, linalg_routines
from hespas.estimators.rules.base import (
    FMA_FLOPS,
    FREE,
    CostRule,
    NotALeaf,
    OpWork,
    UnknownCost,
    WorkPart,
    build_matrix_parts,
    build_vector_parts,
    count_read_bytes,
    explain_declaration,
    list_operand_sizes,
    to_buffer_size,
)
from hespas.estimators.rules.library_calls import (
    CallConfig,
    count_output_bytes,
    find_config_value,
    list_output_sizes,
)
from hespas.estimators.rules.numerics import build_random_work, build_top_k_work
from hespas.estimators.rules.registry import (
    add_call_patterns,
    build_declared_work,
    find_call_rule,
    get_first_operand_key,
)
from hespas.support.records import record


def _compute_custom_call_work(op: ir.Operation) -> OpWork:
    target = get_call_target(op)
    if target in op_kinds.FREE_CALL_TARGETS:
        return FREE
    if target in op_kinds.COLLECTIVE_CALL_TARGETS:
        raise NotALeaf(f"@{target} is a collective: simulate it")
    user_cost = KernelCostAttr.read_from_op(op)
    if user_cost is not None:
        work = build_declared_work(op, user_cost, count_output_bytes(op))
        return replace(work, parts=_build_declared_parts(op, user_cost.flops))
    if re.fullmatch(op_kinds.HOST_CALL, target):
        # The device transfers operands and results.
        gap = f"@{target} runs on the host, whose time is not known"
        return OpWork("custom", count_read_bytes(op), count_output_bytes(op), (), gap=gap)
    config = read_backend_config(op)
    for family in CALL_FAMILIES:
        if re.fullmatch(family.pattern, target):
            return family.work(op, config)
    kernel = find_kernel_name(op)
    if re.fullmatch(op_kinds.SPLASH_KERNEL, kernel):
        from hespas.estimators.rules.pallas_attention import (
            compute_splash_work,  # few calls need it
        )

        return compute_splash_work(op, kernel, read_kernel_metadata(op))
    package_rule = find_call_rule(target)
    if package_rule is not None:
        return package_rule.work(op)
    declared = find_config_value(config, "cost_estimate") or _parse_json_config(
        read_frontend_text(op, op_kinds.DECLARED_COST)
    )
    if declared and isinstance(declared, Mapping):
        return _build_declared_work(op, declared)
    raise _build_unknown_call_error(op, target)


def _build_unknown_call_error(op: ir.Operation, target: str) -> UnknownCost:
    kernel = find_kernel_name(op)
    is_opaque = re.fullmatch(op_kinds.OPAQUE_KERNEL_CALL, target)
    reason = (
        "holds a kernel that only it can cost"
        if is_opaque
        else "has no cost rule in hespas or in a package"
    )
    name = f"@{target} of kernel '{kernel}'" if kernel else f"@{target}"
    remedy = explain_declaration(kernel or target)
    return UnknownCost(f"custom call {name} {reason}", op=op, remedy=remedy)


def read_backend_config(op: ir.Operation) -> CallConfig:
    """Return the call's configuration: an MLIR dictionary, or the JSON text of the HLO importer.

    It is empty for binary data. JAX writes an empty ``backend_config`` beside that of MHLO.
    """
    for name in ("backend_config", "mhlo.backend_config"):
        attr = find_attribute(op, name)
        config: CallConfig = {}
        if isinstance(attr, ir.DictAttr):
            config = _to_python_dictionary(attr)
        elif isinstance(attr, ir.StringAttr):
            config = _parse_json_config(decode_string_attr(attr))
        if config:
            return config
    return {}


def find_kernel_name(op: ir.Operation) -> str:
    """Return the name of the kernel that a custom call runs, or "" if the call does not tell.

    Pallas writes it in the attribute ``kernel_name``, and Triton in the configuration.
    """
    attr = find_attribute(op, "kernel_name")
    if isinstance(attr, ir.StringAttr):
        return decode_string_attr(attr)
    name = read_backend_config(op).get("name")
    return name if isinstance(name, str) else ""


def list_kernel_names(op: ir.Operation) -> list[str]:
    """List the names by which the work of an op may be declared, the one that counts first."""
    if op.name in op_kinds.CUSTOM_CALLS:
        return [name for name in (find_kernel_name(op), get_call_target(op)) if name]
    return [op.name]


def read_kernel_metadata(op: ir.Operation) -> str:
    """Return the text that the author of a Pallas kernel gave it; "" if there is none."""
    return read_frontend_text(op, "kernel_metadata")


def _to_python_dictionary(attr: ir.DictAttr) -> dict[str, Any]:
    return {name: _to_python_value(value) for name, value in list_dictionary_entries(attr)}


def _to_python_value(attr: Any) -> Any:
    if isinstance(attr, ir.DictAttr):
        return _to_python_dictionary(attr)
    if isinstance(attr, ir.ArrayAttr):
        return [_to_python_value(item) for item in attr]
    if isinstance(attr, ir.StringAttr):
        return decode_string_attr(attr)
    if isinstance(attr, (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr)):
        return list(attr)
    return getattr(attr, "value", None)


@functools.lru_cache(maxsize=256)
def _parse_json_config(text: str) -> CallConfig:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}  # other backends write binary data or text in another format
    return value if isinstance(value, dict) else {}


_HADAMARD_ROWS = 16  # of the matrices by which TransformerEngine transforms


# Ops of a kernel that multiply matrices: of Triton, of Mosaic on TPUs, and of Mosaic on GPUs.
_PRODUCT_WORDS = (b"dot", b"matmul", b"contract", b"mma")


def has_matrix_products(op: ir.Operation) -> bool | None:
    """Return whether the kernel of a custom call multiplies matrices; None if it is not known.

    Pallas writes the kernel into the configuration of the call, as MLIR bytecode, whose names of
    ops are legible. A name of something else that contains one of the words counts as a product.
    """
    config = read_backend_config(op)
    body = next((config[key] for key in ("ir", "module") if key in config), None)
    if body is None:
        body = find_config_value(config, "body")
        if isinstance(body, str):
            try:
                body = base64.b64decode(body, validate=True)
            except binascii.Error:
                body = None
    if isinstance(body, str):
        body = body.encode(errors="replace")
    return any(word in body for word in _PRODUCT_WORDS) if isinstance(body, bytes) else None


def _build_declared_parts(op: ir.Operation, flops: int) -> tuple[WorkPart, ...]:
    """Build the operations of a kernel of which only their number is declared.

    They run at the matrix rate, so that the time is a lower bound, or at the rate of the vector
    units if the kernel has no products.
    """
    if has_matrix_products(op) is False:
        return build_vector_parts("f32", flops)
    return build_matrix_parts(get_first_operand_key(op), flops)


def _build_declared_work(op: ir.Operation, estimate: Mapping[str, Any]) -> OpWork:
    """Build the work that the author of a Pallas kernel declared."""
    write = count_output_bytes(op)
    read = max(int(estimate.get("bytes_accessed", 0)) - write, 0) or count_read_bytes(op)
    parts = _build_declared_parts(op, int(estimate.get("flops", 0)))
    return OpWork("custom", read, write, parts, int(estimate.get("transcendentals", 0)))


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
    """Count CUB's radix sort: passes of 8 bits over all data, and one over the keys."""
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
    """Count 8 operations per element of a layer normalisation, as for batch_norm_training."""
    data = to_buffer_size(op.operands[0].type)
    return OpWork(
        "reduction",
        count_read_bytes(op),
        count_output_bytes(op),
        build_vector_parts(data.key, 8 * data.elements),
    )


def _compute_activation_work(op: ir.Operation, _: CallConfig) -> OpWork:
    """Count what XLA's GELU takes, or its derivative, for each element of the result."""
    data = to_buffer_size(op.results[0].type)
    parts = build_vector_parts(data.key, 8 * data.elements)
    return OpWork("loop", count_read_bytes(op), data.bytes, parts, data.elements)


def _compute_narrowing_work(op: ir.Operation, _: CallConfig) -> OpWork:
    """Count a search for the largest magnitude, or the conversion of each element of the result."""
    data, target = to_buffer_size(op.operands[0].type), get_call_target(op)
    narrow = [size for size in list_output_sizes(op) if size.bits <= 8]
    converted = sum(size.elements for size in narrow)
    parts = build_vector_parts("f32", 5 * converted if narrow else 2 * data.elements)
    if "hadamard" in target:
        parts += build_matrix_parts(data.key, FMA_FLOPS * _HADAMARD_ROWS * data.elements)
    return OpWork("loop", count_read_bytes(op), count_output_bytes(op), parts)


def _compute_softmax_work(op: ir.Operation, _: CallConfig) -> OpWork:
    """Count a softmax, or its derivative, which has no exponential."""
    data = to_buffer_size(op.results[0].type)
    parts = build_vector_parts(data.key, library_calls.SOFTMAX_FLOPS * data.elements)
    exponentials = 0 if get_call_target(op).endswith("Backward") else data.elements
    return OpWork("reduction", count_read_bytes(op), data.bytes, parts, exponentials)


@record(frozen=True, slots=True)
class CallFamily:
    """Custom calls whose target matches ``pattern``, with their row in the documentation."""

    pattern: str
    work: Callable[[ir.Operation, CallConfig], OpWork]
    targets: str
    flops: str
    bytes: str = "operands; results"


CALL_FAMILIES = (
    CallFamily(
        op_kinds.GEMM_CALL, library_calls.compute_gemm_work,
        "`__cublas$gemm`, `__cublas$lt$matmul`, `__cublas$lt$matmul$f8`, `__onednn$matmul`, "
        "`__op$block_scaled_dot`, `__cudnn$blockScaledDot`",
        "2 x result x contracted size; bias 1, ReLU 1, GELU 8 and 1 transcendental per element",
        "operands; results without workspace",
    ),
    CallFamily(
        op_kinds.CONVOLUTION_CALL, library_calls.compute_convolution_work, "`__cudnn$conv*`",
        "2 x output positions x kernel / output features, padding inferred from shapes; bias 1, "
        "side input 2, activation 1 per element",
        "operands; results without workspace",
    ),
    CallFamily(
        op_kinds.ATTENTION_CALL, library_calls.compute_attention_work, "`__cudnn$fmha*`",
        "2 products forward, 5 backward, of the pairs within the causal mask and the window; "
        "softmax 5 and "
        "1 transcendental per score",
        "operands; results without workspace",
    ),
    CallFamily(
        op_kinds.NORM_CALL, _compute_norm_work, "`__cudnn$norm`, `AwsNeuronRmsNorm`",
        "8 per element",
    ),
    CallFamily(
        op_kinds.ACTIVATION_CALL, _compute_activation_work,
        "`AwsNeuronGelu*`, `AwsNeuronSilu*`", "8 and 1 transcendental per element",
    ),
    CallFamily(
        op_kinds.SOFTMAX_CALL, _compute_softmax_work, "`AwsNeuronSoftmax*`",
        "5 per element; forward 1 transcendental",
    ),
    CallFamily(
        op_kinds.NARROWING_CALL, _compute_narrowing_work,
        "`nvte_compute_amax`, `nvte_quantize`, `nvte_hadamard_transform_amax`, "
        "`nvte_hadamard_transform_cast_fusion_columnwise`",
        "2 per element of a search for the largest, 5 per element of 8 bits and less that is "
        "written; 32 at the matrix rate per element of a Hadamard transform",
    ),
    CallFamily(
        op_kinds.TOP_K_CALL, _compute_top_k_work,
        "`TopK`, `mhlo.topk`, `__gpu$TopK`, `ApproxTopK`", "elements x (1 + ceil(log2 k))",
        "operand; results",
    ),
    CallFamily(
        op_kinds.RADIX_SORT_CALL, _compute_radix_sort_work, "`__cub$DeviceRadixSort*`",
        "1 per key and pass of 8 bits", "all data once per pass, keys once more",
    ),
    CallFamily(
        op_kinds.THREEFRY_CALL, _compute_threefry_work, "`cu_threefry2x32*`", "i32: 58 per 4 bytes"
    ),
    CallFamily(
        linalg_routines.LINALG_CALL, linalg_routines.compute_linalg_work,
        "`lapack_*`, `cusolver_*`, `cublas_*`, `cusparse_gtsv2*`, `cuhybrid_*`, `hipsolver_*`, "
        "`magma_*`, `Qr`, `Eigh` ...",
        "by routine, after LAPACK Working Note 41 and Golub and Van Loan",
    ),
)  # fmt: skip

add_call_patterns(
    [
        *(family.pattern for family in CALL_FAMILIES),
        op_kinds.HOST_CALL,
        *map(re.escape, op_kinds.FREE_CALL_TARGETS | op_kinds.COLLECTIVE_CALL_TARGETS),
    ]
)

RULES = (
    CostRule(
        _compute_custom_call_work, "custom", "by target", "by target", "by target",
        ops=("stablehlo.custom_call",),
    ),
)  # fmt: skip


def list_documented_calls() -> list[tuple[str, str, str]]:
    """Return the rows of the documentation: targets, operations, bytes."""
    return [
        *((family.targets, family.flops, family.bytes) for family in CALL_FAMILIES),
        (
            "any target with the option `kernel-cost`",
            "as declared, at the matrix rate of the first operand's type; at the f32 rate of the "
            "vector units if the kernel is known to have no products",
            "as declared",
        ),
        (
            "`tpu_custom_call` of splash attention (`splash_mha_fwd*`, `dkv`, `dq`)",
            "2 products forward, 4 and 3 backward (5 in one kernel), of whole blocks that the mask "
            "reaches; softmax 5 and 1 transcendental per score",
            "operands, one side of each block again; results",
        ),
        ("any target that an installed package has a rule for", "by that rule", "by that rule"),
        (
            "with a `cost_estimate` in the configuration (Pallas)",
            "as declared, at the matrix rate of the first operand's type; at the f32 rate of the "
            "vector units if the kernel is known to have no products",
            "as declared",
        ),
        ("`Sharding`, `SPMDFullToShardShape`, `xla.sdy.*`, `shape_assertion` ...", "0", "0"),
        ("`ragged_all_to_all`", "collective: simulated", "collective: simulated"),
        (
            "`xla_python_*_callback`, `xla_ffi_python_*_callback` ...",
            "0; the host's time is a gap",
            "operands; results",
        ),
        (
            "`annotate_device_placement`, `MoveToHost`, `MoveToDevice`, and the copies to and from "
            "the host that XLA:TPU has scheduled",
            "simulated, on the host's link",
            "simulated, on the host's link",
        ),
        ("any other", "error", "error"),
    ]
