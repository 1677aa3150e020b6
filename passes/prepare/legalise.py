"""Conversion of chlo and shape ops to StableHLO or mhlo."""

from __future__ import annotations

from typing import Any, ClassVar

from hespas.dialects.mlir import (
    PassManager,
    find_attribute,
    find_ops,
    get_attribute,
    get_defining_op,
    has_static_shape,
    ir,
    list_dictionary_entries,
    register_passes,
    replace_op,
)
from hespas.dialects.op_bodies import format_tensor_type, replace_op_by_function
from hespas.dialects.op_kinds import COMPOSITES, CONSTANTS, SCANS
from hespas.dialects.resources import find_resource_name, read_resource_digits
from hespas.estimators.rules.elementwise import SHARED_WITH_CHLO
from hespas.passes.base import PassRun
from hespas.passes.prepare.census import ModuleCensus, collect_census
from hespas.passes.prepare.preparation import Preparation, PrepareStep
from hespas.passes.prepare.scalars import read_splat_constant
from hespas.passes.prepare.shape_arithmetic import convert_shape_arithmetic
from hespas.support.errors import HespasError, extract_first_diagnostic

# The first pass converts ops such as chlo.erf and chlo.top_k to the one HLO op that XLA compiles.
# The second pass expands the others to the StableHLO ops that XLA would expand them to.
CHLO = "func.func(chlo-legalize-to-high-level-mhlo,chlo-legalize-to-stablehlo)"
SHAPE = "func.func(shape-legalize-to-stablehlo)"
# The functions that chlo-legalize-to-high-level-mhlo has an op for.
RECOMPOSED_FUNCTIONS = frozenset(f"chlo.{name}" for name in SHARED_WITH_CHLO)
DIMENSIONS, PRECISION = "ragged_dot_dimension_numbers", "precision_config"
RAGGED_FIELDS = (  # in the order of the composite
    "lhs_batching_dimensions",
    "rhs_batching_dimensions",
    "lhs_contracting_dimensions",
    "rhs_contracting_dimensions",
    "lhs_ragged_dimensions",
    "rhs_group_dimensions",
)
SCAN_FLAGS = ("dimension", "is_associative", "is_reverse")
NEUTRAL = {"stablehlo.add": 0, "stablehlo.multiply": 1}


class LegalisePass(PrepareStep):
    """Convert chlo and shape ops to StableHLO or mhlo."""

    name: ClassVar[str] = "legalise"

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        scans = _list_scans(view.census)
        replaced = [recompose_chlo_ops(view.census), *map(_replace_scan, scans)]
        has_replaced = any(replaced)
        census = collect_census(module) if has_replaced else view.census
        if census.select_ops_by_dialect("chlo"):
            _make_selections_stable(census)
            _run_native(module, [CHLO, SHAPE])  # a chlo op on symbolic dimensions has shape ops
        elif census.select_ops_by_dialect("shape"):
            _run_native(module, [SHAPE])
        else:
            return has_replaced
        return True


def _make_selections_stable(census: ModuleCensus) -> None:
    """Make selections of the largest stable, which is one of the orders that the others permit.

    MLIR prints ``mhlo.topk`` with ``is_stable = false`` in a form that it cannot read.
    """
    for op in census.select_ops_by_name("chlo.top_k"):
        if "is_stable" in op.attributes:
            del op.attributes["is_stable"]


def recompose_chlo_ops(census: ModuleCensus) -> bool:
    """Replace the composites that stand for chlo ops by these, and return whether there were any.

    ``jax.export`` writes ``chlo.erf`` and others as composites of their names, because the portable
    form has no chlo, and XLA reads them as the ops (stablehlo/transforms/ChloRecomposeOps.cpp).
    """
    recomposed = False
    for op in census.select_ops_by_name(*COMPOSITES):
        attributes = _read_chlo_attributes(op)
        if attributes is not None:
            replace_op(op, get_attribute(op, "name").value, attributes)
            recomposed = True
    return recomposed


def _list_scans(census: ModuleCensus) -> list[ir.Operation]:
    """List the scans, and the composites that stand for them."""
    composites = census.select_ops_by_name(*COMPOSITES)
    scans = [op for op in composites if get_attribute(op, "name").value in SCANS]
    return [*scans, *census.select_ops_by_name(*SCANS)]


def _replace_scan(scan: ir.Operation) -> bool:
    """Replace a running sum or product by a window, as XLA's AssociativeScanRewriter does.

    Returns:
        Whether it is one: associative, of one value, with a neutral start. Others are loops, as
        their decompositions are.
    """
    written = _read_written_attributes(scan)
    flags = {name: written[name].value for name in SCAN_FLAGS if name in written}
    kind = scan.operands[0].type
    if not has_static_shape(kind) or len(scan.operands) != 2 or not flags.get("is_associative"):
        return False
    applied = _find_applied_op(scan)
    if applied is None or _read_start(scan.operands[1]) != NEUTRAL[applied]:
        return False
    text = _format_window(scan, applied, flags["dimension"], bool(flags.get("is_reverse")))
    replace_op_by_function(scan, text)
    return True


def _find_applied_op(scan: ir.Operation) -> str | None:
    """Return the only op of a scan's body, of the input and the carry, if it has a window."""
    if not len(scan.regions):
        return None
    step, *others = (view.operation for view in scan.regions[0].blocks[0].operations)
    is_plain = len(others) == 1 and set(others[0].operands) == set(step.results)
    return step.name if is_plain and step.name in NEUTRAL else None


def _read_start(carry: ir.Value) -> float | None:
    """Read the number that a scan starts from for all rows, or None."""
    op = get_defining_op(carry)
    if op is not None and op.name == "stablehlo.broadcast_in_dim":
        op = get_defining_op(op.operands[0])
    return read_splat_constant(op) if op is not None and op.name in CONSTANTS else None


def _format_window(scan: ir.Operation, applied: str, dim: int, is_reverse: bool) -> str:
    """Format a function with the window of a scan, and its last element."""
    kind = ir.RankedTensorType(scan.operands[0].type)
    shape, element = list(kind.shape), str(kind.element_type)
    scalar, carry = f"tensor<{element}>", scan.operands[1].type
    window, edges = [1] * len(shape), [[0, 0] for _ in shape]
    window[dim], edges[dim][is_reverse] = shape[dim], shape[dim] - 1
    last = 0 if is_reverse else shape[dim] - 1
    ends = [(last, last + 1) if d == dim else (0, size) for d, size in enumerate(shape)]
    limits = ", ".join(f"{start}:{end}" for start, end in ends)
    part = format_tensor_type([end - start for start, end in ends], element)
    number = NEUTRAL[applied] if element[0] in "iu" else float(NEUTRAL[applied])
    return f"""func.func @window(%x: {kind}, %start: {carry}) -> ({kind}, {carry}) {{
      %neutral = stablehlo.constant dense<{number}> : {scalar}
      %all = "stablehlo.reduce_window"(%x, %neutral) <{{
        padding = dense<{edges}> : tensor<{len(shape)}x2xi64>,
        window_dimensions = array<i64: {", ".join(map(str, window))}>}}> ({{
      ^bb0(%a: {scalar}, %b: {scalar}):
        %both = {applied} %a, %b : {scalar}
        stablehlo.return %both : {scalar}
      }}) : ({kind}, {scalar}) -> {kind}
      %part = stablehlo.slice %all [{limits}] : ({kind}) -> {part}
      %last = stablehlo.reshape %part : ({part}) -> {carry}
      return %all, %last : {kind}, {carry}
    }}"""


def _read_written_attributes(op: ir.Operation) -> dict[str, Any]:
    """Read the attributes of a chlo op, or of the composite that stands for one."""
    if op.name not in COMPOSITES:
        return {name: op.attributes[name] for name in op.attributes}
    stated = find_attribute(op, "composite_attributes")
    return dict(list_dictionary_entries(stated)) if isinstance(stated, ir.DictAttr) else {}


def _read_chlo_attributes(composite: ir.Operation) -> dict[str, ir.Attribute] | None:
    """Return the attributes of the chlo op that a composite stands for; None if it is another."""
    name, context = get_attribute(composite, "name").value, composite.context
    if name in RECOMPOSED_FUNCTIONS:
        return {}
    written = _read_written_attributes(composite)
    if name == "chlo.top_k" and "k" in written:
        return {"k": written["k"]}
    if name == "chlo.ragged_dot" and DIMENSIONS in written:
        lists = [list(part) for part in written[DIMENSIONS]]
        fields = [f"{key} = {part}" for key, part in zip(RAGGED_FIELDS, lists, strict=True)]
        precisions = [f"#chlo<precision {text.value}>" for text in written.get(PRECISION, ())]
        texts = {
            DIMENSIONS: f"#chlo.ragged_dot<{', '.join(fields)}>",
            PRECISION: f"[{', '.join(precisions)}]",
        }
        return {key: ir.Attribute.parse(text, context) for key, text in texts.items()}
    return None


def _run_native(module: ir.Module, steps: list[str]) -> None:
    """Run native passes; raises HespasError."""
    register_passes()
    manager = PassManager.parse(f"builtin.module({','.join(steps)})", module.context)
    manager.enable_verifier(False)  # the pipeline verifies what its own passes leave, once
    try:
        manager.run(module.operation)
    except ir.MLIRError as error:
        why = extract_first_diagnostic(error)
        raise HespasError(f"cannot legalise the module: {why}", op=module.operation) from None


def legalise_sizes(module: ir.Module, census: ModuleCensus) -> bool:
    """Convert ops of arith, tensor and shape, in which torch-mlir writes sizes, to StableHLO.

    XLA's partitioner and the propagation of sizes know neither. Returns whether there were any;
    raises HespasError.
    """
    constants = [
        op
        for op in census.select_ops_by_name("arith.constant")
        if isinstance(op.results[0].type, ir.RankedTensorType)
    ]
    for op in constants:
        value = find_attribute(op, "value")
        if value is None:
            replace_op_by_function(op, _format_complex_constant(op))
        else:
            replace_op(op, "stablehlo.constant", {"value": value})
    has_arithmetic = convert_shape_arithmetic(census)
    shapes = census.select_ops_by_dialect("shape")
    if shapes:
        _run_native(module, [SHAPE])
    return bool(constants or shapes or has_arithmetic)


def _format_complex_constant(op: ir.Operation) -> str:
    """Format a function of the constant of an op, for whose value the bindings have no class."""
    bare = op.clone().operation
    for name in [name for name in bare.attributes if name != "value"]:
        del bare.attributes[name]
    text = str(bare.get_asm(assume_verified=True)).partition(" = ")[2]
    return _format_constant(op, text.replace(op.name, "stablehlo.constant", 1))


def _format_constant(op: ir.Operation, text: str) -> str:
    kind = op.results[0].type
    return f"func.func @constant() -> {kind} {{ %0 = {text} return %0 : {kind} }}"


def inline_resources(module: ir.Module) -> None:
    """Write constants in the resources of a module as plain ones, which alone XLA reads.

    PyTorch's exporters keep weights so. Resources that a printer left out stay as they are.
    """
    for op in find_ops(module.operation, CONSTANTS):
        value = find_attribute(op, "value")
        name = find_resource_name(value)
        digits = read_resource_digits(value) if value is not None and name else ""
        if digits:
            _write_elements(op, name, digits)


def _write_elements(op: ir.Operation, resource: str, digits: str) -> None:
    """Write the bytes of a resource into its constant; raises HespasError if they do not fit."""
    kind = op.results[0].type
    text = f'dense<"0x{digits}"> : {kind}'
    try:
        op.attributes["value"] = ir.Attribute.parse(text, op.context)
    except ir.MLIRError:
        raise HespasError(
            f"the {len(digits) // 2} bytes of the resource '{resource}' are not those of {kind}",
            op=op,
            remedy="write the file again: it may be cut off",
        ) from None
    except TypeError:  # the bindings have no class for complex elements
        replace_op_by_function(op, _format_constant(op, f"{op.name} {text}"))
