"""Modules with global shapes and shardings to the program of one device."""

from __future__ import annotations

import re

from hespas.dialects.attrs import Target
from hespas.dialects.errors import HespasError
from hespas.dialects.mlir import (
    attribute,
    call_target,
    ir,
    mesh_shape,
    meshes,
    replace_body,
    string_of,
)
from hespas.dialects.ops import entry
from hespas.dialects.xla import Compilation
from hespas.passes.base import Run
from hespas.passes.compile.process import CompileFailure, Request, compile_module
from hespas.passes.prepare.census import Census, take
from hespas.passes.prepare.collectives import spell_out_axes
from hespas.passes.prepare.devices import drop_boundary, sharding_devices, stated
from hespas.passes.prepare.manual import inline_manual

MARKERS = frozenset(("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"))
SHARDINGS = ("sdy.sharding", "mhlo.sharding")
BOUNDARY = ("arg_attrs", "res_attrs")
PARTITIONS, REPLICAS = "mhlo.num_partitions", "mhlo.num_replicas"
# Passes to dump after, the dump that is wanted, and one that XLA writes after it.
CPU_DUMPS = (
    "spmd-partitioning|control-dep-rewriter",
    "after_spmd-partitioning",
    "after_control-dep-rewriter",
)
GPU_DUMPS = ("ragged_dot_rewriter", r"after_spmd_partitioner\.", "before_ragged_dot_rewriter")
HLO_IMPORT = "mhlo.is_dynamic"  # XLA's importer writes it: the module comes out of XLA's pipeline
EXPORT = "export the module after SPMD partitioning (XLA's dump after_spmd-partitioning)"


def partition(module: ir.Module, census: Census, run: Run, target: str = "cpu") -> bool:
    """Make shapes those of one device; whether anything changed. Raises HespasError.

    A module whose whole work is in ``sdy.manual_computation`` already holds the program of one
    device. Any other goes through XLA's own SPMD partitioner, so that collectives and shapes are
    those of a real compile: for ``target``, ``cpu`` or a GPU target by name or file.
    """
    if Target.NAME in module.operation.attributes:
        return False
    if not is_global(module, census):
        if any(map(_splits, _boundary(census.entry))) and not _is_per_device(census):
            run.warn(
                "arguments carry shardings, but nothing else tells whether the module is "
                "partitioned: shapes are taken as those of one device"
            )
        return False
    if inline_manual(census):
        drop_boundary(census.entry, SHARDINGS)  # not to be divided again
        return True
    what = division(module, census)
    new = _partitioned(module, what, target)
    check_divided(module, census.entry, entry(new))
    replace_program(module, new, what)
    module.operation.walk(drop_copy)
    return True


def replace_program(module: ir.Module, new: ir.Module, what: Compilation) -> None:
    """Put the program that XLA made of a module in its place; its shapes are of one device.

    What JAX says of arguments and results (donated, named) stays: HLO does not carry it. Second
    copies of fusion bodies, which XLA's importer makes, go.
    """
    main = entry(module)
    boundary = {name: _attrs(main, name) for name in BOUNDARY}
    replace_body(module, new)
    main = entry(module)
    for name, attrs in boundary.items():
        _restore(main, name, attrs)
    drop_boundary(main, SHARDINGS)
    module.operation.walk(_drop_shardings)  # XLA leaves some behind, and shapes are global no more
    kind = ir.IntegerType.get_signless(32, module.context)
    for name, count in ((PARTITIONS, what.partitions), (REPLICAS, what.replicas)):
        module.operation.attributes[name] = ir.IntegerAttr.get(kind, count)
    spell_out_axes(module, take(module).collectives())


def drop_copy(op: ir.Operation) -> ir.WalkResult:
    """Remove a copy: here it only carried a sharding, and XLA removes it later in its pipeline."""
    if op.name == "mhlo.copy" and op.operands[0].type == op.results[0].type:
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()
    return ir.WalkResult.ADVANCE


def _drop_shardings(op: ir.Operation) -> ir.WalkResult:
    for name in SHARDINGS:
        if name in op.attributes:
            del op.attributes[name]
    return ir.WalkResult.ADVANCE


def _is_per_device(census: Census) -> bool:
    """Whether there is an op that XLA puts in only when it partitions, or later."""
    block = census.entry.regions[0].blocks[0]
    late = ("mhlo.fusion", "stablehlo.partition_id")
    return bool(census.collectives()) or any(op.operation.name in late for op in block.operations)


def is_global(module: ir.Module, census: Census) -> bool:
    """Whether shapes are global, with shardings that say what each device holds."""
    attributes = module.operation.attributes
    if census.has("sdy."):
        return True
    for call in census.ops("stablehlo.custom_call", "mhlo.custom_call"):
        if call_target(call) in MARKERS:
            return True
    if HLO_IMPORT in attributes and PARTITIONS not in attributes:
        return False  # argument shardings are left over from the partitioner
    if any(_splits(text) for text in _boundary(census.entry)):
        return True
    if meshes(module) or (stated(module, PARTITIONS) or 1) > 1:
        return _has_sharded_op(census)
    return False


def _splits(sharding: str) -> bool:
    """Whether a sharding gives devices different parts."""
    if sharding.startswith("#sdy"):
        return '{"' in sharding
    return "devices=[" in sharding and not re.search(
        r"devices=\[(1,)*\d+\][^ ]* last_tile_dim_replicate", sharding
    )


def _attrs(entry: ir.Operation, name: str) -> list[ir.DictAttr]:
    """The attributes of the entry's arguments or results, one each; empty where there are none."""
    return list(attribute(entry, name)) if name in entry.attributes else []


def _restore(entry: ir.Operation, name: str, attrs: list[ir.DictAttr]) -> None:
    """Put attributes back on arguments or results, where these are as many as before."""
    kind = attribute(entry, "function_type").value
    if attrs and len(attrs) == len(kind.inputs if name == "arg_attrs" else kind.results):
        entry.attributes[name] = ir.ArrayAttr.get(attrs, entry.context)


def _boundary(entry: ir.Operation) -> set[str]:
    """The shardings of the entry's arguments and results."""
    found = set()
    for name in BOUNDARY:
        if name in entry.attributes:
            for attr in attribute(entry, name):
                found |= {_text(attr[key]) for key in SHARDINGS if key in attr}
    return found


def _text(attr: ir.Attribute) -> str:
    return string_of(attr) if isinstance(attr, ir.StringAttr) else str(attr)


def _has_sharded_op(census: Census) -> bool:
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        attributes = op.attributes
        found = any(key in attributes and _splits(_text(attributes[key])) for key in SHARDINGS)
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    for contents in census.functions.values():
        contents.function.walk(visit)
        if found:
            return True
    return False


def _partitions(module: ir.Module, census: Census) -> int:
    """How many devices the shapes are divided over; raises HespasError."""
    implied = max(
        [mesh_shape(mesh).devices for mesh in meshes(module).values()]
        + [sharding_devices(text) for text in _boundary(census.entry)],
        default=1,
    )
    partitions = stated(module, PARTITIONS) or implied
    if implied > partitions:
        raise HespasError(
            f"shardings name {implied} devices, but {PARTITIONS} is {partitions}",
            op=module.operation,
        )
    return partitions


def _partitioned(module: ir.Module, what: Compilation, target: str) -> ir.Module:
    """The module of one device, through the partitioner of XLA for ``target``."""
    from hespas.configs import targets  # it adds to every start-up, and few modules come here

    proto = targets.target(target).proto
    passes, wanted, complete = CPU_DUMPS if proto is None else GPU_DUMPS
    request = Request(what, passes, wanted, complete, target=proto)
    try:
        return compile_module(module, request).module
    except CompileFailure as error:
        raise _refusal(module, str(error)) from None


def division(module: ir.Module, census: Census) -> Compilation:
    """What the partitioner has to know of a module with global shapes; raises HespasError."""
    return Compilation(
        replicas=stated(module, REPLICAS) or 1,
        partitions=_partitions(module, census),
        spmd=True,
        shardy=bool(meshes(module)) or census.has("sdy."),
        free_parameters=_free(census.entry, "arg_attrs", "function_inputs"),
        free_results=_free(census.entry, "res_attrs", "function_results"),
    )


def check_divided(module: ir.Module, old: ir.Operation, new: ir.Operation) -> None:
    """Refuse where sharded arguments stayed global: XLA ignores shardings it cannot read."""
    if "arg_attrs" not in old.attributes:
        return
    before, after = (attribute(entry, "function_type").value.inputs for entry in (old, new))
    sharded = [
        i
        for i, attr in enumerate(attribute(old, "arg_attrs"))
        if any(key in attr and _splits(_text(attr[key])) for key in SHARDINGS)
    ]
    if sharded and len(before) == len(after) and all(before[i] == after[i] for i in sharded):
        raise _refusal(module, f"the sharding of argument {sharded[0]} divides nothing")


def _refusal(module: ir.Module, why: str) -> HespasError:
    return HespasError(
        f"shapes are global and XLA could not partition the module: {why}",
        op=module.operation,
        remedy=EXPORT,
    )


def _free(entry: ir.Operation, name: str, kind: str) -> tuple[bool, ...]:
    """Which arguments or results carry no sharding, so that the partitioner chooses."""
    signature = attribute(entry, "function_type").value
    count = len(signature.inputs if kind == "function_inputs" else signature.results)
    if name not in entry.attributes:
        return (True,) * count
    return tuple(not any(key in attr for key in SHARDINGS) for attr in attribute(entry, name))
