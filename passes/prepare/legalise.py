"""Conversion of chlo and shape ops to StableHLO or mhlo."""

from __future__ import annotations

from typing import Any, ClassVar

from hespas.dialects.mlir import (
    PassManager,
    find_attribute,
    get_attribute,
    get_defining_op,
    ir,
    list_dictionary_entries,
    register_passes,
    replace_op,
)
from hespas.dialects.op_kinds import COMPOSITES
from hespas.passes.base import PassRun
from hespas.passes.prepare.census import ModuleCensus, collect_census
from hespas.passes.prepare.device_grid import get_channel_id
from hespas.passes.prepare.preparation import Preparation, PrepareStep
from hespas.support.errors import HespasError, extract_first_diagnostic

# The first pass converts ops such as chlo.erf and chlo.top_k to the one HLO op that XLA compiles.
# The second pass expands the others to the StableHLO ops that XLA would expand them to.
CHLO = "func.func(chlo-legalize-to-high-level-mhlo,chlo-legalize-to-stablehlo)"
SHAPE = "func.func(shape-legalize-to-stablehlo)"
# The functions of one operand that chlo-legalize-to-high-level-mhlo has an op for.
RECOMPOSED_FUNCTIONS = frozenset(
    f"chlo.{name}" for name in ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "sinh")
)
DIMENSIONS, PRECISION = "ragged_dot_dimension_numbers", "precision_config"
RAGGED_FIELDS = (  # in the order of the composite
    "lhs_batching_dimensions",
    "rhs_batching_dimensions",
    "lhs_contracting_dimensions",
    "rhs_contracting_dimensions",
    "lhs_ragged_dimensions",
    "rhs_group_dimensions",
)
SCANS = ("chlo.scan", "mhlo.scan")
VARIADIC = ("stablehlo.all_reduce", "stablehlo.all_to_all")
CHANNEL = "channel_handle"


class LegalisePass(PrepareStep):
    """Convert chlo and shape ops to StableHLO or mhlo."""

    name: ClassVar[str] = "legalise"

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        has_recomposed = _recompose_ops(view.census)
        census = collect_census(module) if has_recomposed else view.census
        return legalise_dialects(module, census) or has_recomposed


def _recompose_ops(census: ModuleCensus) -> bool:
    """Replace the composites that stand for chlo ops by these, and return whether there were any.

    ``jax.export`` writes ``chlo.erf`` and others as composites of their names, because the portable
    form has no chlo, and XLA reads them as the ops (stablehlo/transforms/ChloRecomposeOps.cpp).
    """
    calls = census.select_ops_by_name(*COMPOSITES)
    read = [(op, _read_chlo_attributes(op)) for op in calls]
    scans = [op for op in calls if get_attribute(op, "name").value in SCANS]
    replaced = [_replace_scan(op) for op in (*scans, *census.select_ops_by_name(*SCANS))]
    for op, attributes in read:
        if attributes is not None:
            replace_op(op, get_attribute(op, "name").value, attributes)
            replaced.append(True)
    return any(replaced)


def _replace_scan(scan: ir.Operation) -> bool:
    """Replace a running sum, or another such reduction, by the window that XLA makes of it.

    Returns:
        Whether it is one: associative, of one value, with one op and an initial number. The others
        are loops, as their decompositions are.
    """
    stated = find_attribute(scan, "composite_attributes")
    attributes = stated if isinstance(stated, ir.DictAttr) else scan.attributes
    body = scan.regions[0].blocks[0] if len(scan.regions) else None
    init = get_defining_op(scan.operands[1]) if len(scan.operands) == 2 else None
    if body is None or init is None or init.name != "stablehlo.broadcast_in_dim":
        return False
    step, *others = (view.operation for view in body.operations)
    is_plain = len(others) == 1 and set(others[0].operands) == set(step.results)
    if not is_plain or set(step.operands) != set(body.arguments) or len(step.attributes):
        return False
    number, kind = init.operands[0], scan.operands[0].type
    assert isinstance(kind, ir.RankedTensorType)
    if ir.RankedTensorType(number.type).rank or "is_associative" not in attributes:
        return False
    if not ir.BoolAttr(attributes["is_associative"]).value or not kind.has_static_shape:
        return False
    dim = ir.IntegerAttr(attributes["dimension"]).value
    is_reverse = "is_reverse" in attributes and ir.BoolAttr(attributes["is_reverse"]).value
    _create_window(scan, step, number, dim, is_reverse=is_reverse)
    return True


def _create_window(
    scan: ir.Operation, step: ir.Operation, number: ir.Value, dim: int, *, is_reverse: bool
) -> None:
    source, context = scan.operands[0], scan.context
    shape = list(ir.RankedTensorType(source.type).shape)
    window, edges = [1] * len(shape), [[0, 0] for _ in shape]
    window[dim] = shape[dim]
    edges[dim][is_reverse] = shape[dim] - 1
    op = ir.Operation.create(
        "stablehlo.reduce_window",
        [source.type],
        [source, number],
        {
            "window_dimensions": ir.DenseI64ArrayAttr.get(window, context),
            "padding": ir.Attribute.parse(f"dense<{edges}> : tensor<{len(shape)}x2xi64>", context),
        },
        regions=1,
        loc=scan.location,
        ip=ir.InsertionPoint(scan),
    )
    place = scan.location
    block = op.regions[0].blocks.append(number.type, number.type, arg_locs=[place, place])
    point = ir.InsertionPoint(block)
    both = ir.Operation.create(step.name, [number.type], block.arguments, loc=place, ip=point)
    ir.Operation.create("stablehlo.return", [], both.results, loc=place, ip=point)
    scan.results[0].replace_all_uses_with(op.results[0])
    if any(True for _ in scan.results[1].uses):
        _replace_last(scan, op.results[0], dim, 0 if is_reverse else shape[dim] - 1)
    scan.erase()


def _replace_last(scan: ir.Operation, sums: ir.Value, dim: int, place: int) -> None:
    """Replace the final value of a scan by its last element."""
    start = [0] * len(ir.RankedTensorType(sums.type).shape)
    limit = list(ir.RankedTensorType(sums.type).shape)
    start[dim], limit[dim] = place, place + 1
    sizes = [end - begin for begin, end in zip(start, limit, strict=True)]
    element = ir.RankedTensorType(sums.type).element_type
    numbers = {"start_indices": start, "limit_indices": limit, "strides": [1] * len(start)}
    point = ir.InsertionPoint(scan)
    part = ir.Operation.create(
        "stablehlo.slice",
        [ir.RankedTensorType.get(sizes, element, loc=scan.location)],
        [sums],
        {name: ir.DenseI64ArrayAttr.get(values, scan.context) for name, values in numbers.items()},
        loc=scan.location,
        ip=point,
    )
    kinds = [scan.results[1].type]
    last = ir.Operation.create(
        "stablehlo.reshape", kinds, part.results, loc=scan.location, ip=point
    )
    scan.results[1].replace_all_uses_with(last.results[0])


def _read_chlo_attributes(composite: ir.Operation) -> dict[str, ir.Attribute] | None:
    """Return the attributes of the chlo op that a composite stands for; None if it is another."""
    name, context = get_attribute(composite, "name").value, composite.context
    if name in RECOMPOSED_FUNCTIONS:
        return {}
    stated = find_attribute(composite, "composite_attributes")
    written: dict[str, Any] = {}
    if isinstance(stated, ir.DictAttr):
        written.update(list_dictionary_entries(stated))
    if name == "chlo.top_k" and "k" in written:
        return {"k": written["k"]}
    if name == "chlo.ragged_dot" and DIMENSIONS in written:
        lists = [list(part) for part in written[DIMENSIONS]]
        fields = [f"{key} = {part}" for key, part in zip(RAGGED_FIELDS, lists, strict=True) if part]
        precisions = [f"#chlo<precision {text.value}>" for text in written.get(PRECISION, ())]
        texts = {
            DIMENSIONS: f"#chlo.ragged_dot<{', '.join(fields)}>",
            PRECISION: f"[{', '.join(precisions)}]",
        }
        return {key: ir.Attribute.parse(text, context) for key, text in texts.items()}
    return None


def legalise_dialects(module: ir.Module, census: ModuleCensus) -> bool:
    """Convert chlo and shape ops, and return whether there were any. Raises HespasError."""
    has_chlo = census.has_op_with_prefix("chlo.")
    if not has_chlo and not census.has_op_with_prefix("shape."):
        return False
    # A chlo op on symbolic dimensions becomes shape ops.
    steps = [CHLO, SHAPE] if has_chlo else [SHAPE]
    register_passes()
    manager = PassManager.parse(f"builtin.module({','.join(steps)})", module.context)
    try:
        manager.run(module.operation)
    except ir.MLIRError as error:
        why = extract_first_diagnostic(error)
        raise HespasError(f"cannot legalise the module: {why}", op=module.operation) from None
    return True


def split_variadic_collectives(census: ModuleCensus) -> bool:
    """Split collectives of several operands into one for each, and return whether there were any.

    They are those that XLA refuses: an all_reduce with a channel, for whose tuple it finds no
    layout, and an all_to_all of several shapes. XLA combines all_reduces again.
    """
    variadic = [op for op in census.select_ops_by_name(*VARIADIC) if len(op.operands) > 1]
    channel = max(map(get_channel_id, census.list_collectives()), default=0) if variadic else 0
    for op in variadic:
        channel = _split_by_operand(op, channel)
    return bool(variadic)


def _split_by_operand(op: ir.Operation, channel: int) -> int:
    """Replace an op by one for each operand, with channels after ``channel``; returns the last."""
    attributes = {name: op.attributes[name] for name in op.attributes}
    for operand, result in zip(op.operands, op.results, strict=True):
        if CHANNEL in attributes:
            channel += 1
            attributes[CHANNEL] = ir.Attribute.parse(
                f"#stablehlo.channel_handle<handle = {channel}, type = 1>", op.context
            )
        single = ir.Operation.create(
            op.name, [result.type], [operand], attributes,
            regions=len(op.regions), loc=op.location, ip=ir.InsertionPoint(op),
        )  # fmt: skip
        copy = op.clone(ip=ir.InsertionPoint(op)).operation
        for source, region in zip(copy.regions, single.regions, strict=True):
            source.blocks[0].append_to(region)
        copy.erase()
        result.replace_all_uses_with(single.results[0])
    op.erase()
    return channel
