"""Modules with global shapes and shardings to the program of one device."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

from hespas.dialects.attrs import Target
from hespas.dialects.errors import HespasError
from hespas.dialects.mlir import (
    attribute,
    call_target,
    hlo_proto_to_stablehlo,
    ir,
    mesh_shape,
    meshes,
    replace_body,
    string_of,
)
from hespas.dialects.ops import entry
from hespas.frontends.protobuf import hlo_module_bytes
from hespas.passes.base import Run
from hespas.passes.prepare import spmd_worker
from hespas.passes.prepare.census import Census
from hespas.passes.prepare.devices import drop_boundary, sharding_devices, stated
from hespas.passes.prepare.manual import inline_manual

TIMEOUT_S = 1800
MARKERS = frozenset(("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"))
SHARDINGS = ("sdy.sharding", "mhlo.sharding")
PARTITIONS = "mhlo.num_partitions"
HLO_IMPORT = "mhlo.is_dynamic"  # XLA's importer writes it: the module comes out of XLA's pipeline
EXPORT = "export the module after SPMD partitioning (XLA's dump after_spmd-partitioning)"


def partition(module: ir.Module, census: Census, run: Run) -> bool:
    """Make shapes those of one device; whether anything changed. Raises HespasError.

    A module whose whole work is in ``sdy.manual_computation`` already holds the program of one
    device. Any other goes through XLA's own SPMD partitioner, so that collectives and shapes are
    those of a real compile.
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
    partitions = _partitions(module, census)
    new = _partitioned(module, census, partitions)
    _check_divided(module, census.entry, entry(new))
    replace_body(module, new)
    module.operation.walk(_drop_copy)
    drop_boundary(entry(module), SHARDINGS)
    kind = ir.IntegerType.get_signless(32, module.context)
    module.operation.attributes[PARTITIONS] = ir.IntegerAttr.get(kind, partitions)
    return True


def _drop_copy(op: ir.Operation) -> ir.WalkResult:
    """Remove a copy: here it only carried a sharding, and XLA removes it later in its pipeline."""
    if op.name == "mhlo.copy" and op.operands[0].type == op.results[0].type:
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()
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


def _boundary(entry: ir.Operation) -> set[str]:
    """The shardings of the entry's arguments and results."""
    found = set()
    for name in ("arg_attrs", "res_attrs"):
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


def _partitioned(module: ir.Module, census: Census, partitions: int) -> ir.Module:
    """The module of one device, through XLA's partitioner in a process of its own."""
    import subprocess  # these two add to every start-up, and few modules come here
    import tempfile

    options = {
        "replicas": stated(module, "mhlo.num_replicas") or 1,
        "partitions": partitions,
        "shardy": bool(meshes(module)) or census.has("sdy."),
        "free_parameters": _free(census.entry, "arg_attrs", "function_inputs"),
        "free_results": _free(census.entry, "res_attrs", "function_results"),
    }
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    with tempfile.TemporaryDirectory(prefix="hespas-") as name:
        folder = Path(name)
        (folder / spmd_worker.INPUT).write_bytes(buffer.getvalue())
        command = [sys.executable, "-P", "-m", spmd_worker.__name__, name, json.dumps(options)]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, text=True
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _refusal(module, str(error)) from None
        output = folder / spmd_worker.OUTPUT
        if not output.exists():
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise _refusal(module, lines[-1] if lines else f"exit code {done.returncode}")
        proto = hlo_module_bytes(output.read_bytes()) or b""
    try:
        return ir.Module.parse(hlo_proto_to_stablehlo(proto), module.context)
    except (RuntimeError, ValueError, ir.MLIRError) as error:
        raise _refusal(module, str(error).split("\n", 1)[0]) from None


def _check_divided(module: ir.Module, old: ir.Operation, new: ir.Operation) -> None:
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


def _free(entry: ir.Operation, name: str, kind: str) -> list[bool]:
    """Which arguments or results carry no sharding, so that the partitioner chooses."""
    signature = attribute(entry, "function_type").value
    count = len(signature.inputs if kind == "function_inputs" else signature.results)
    if name not in entry.attributes:
        return [True] * count
    return [not any(key in attr for key in SHARDINGS) for attr in attribute(entry, name)]
