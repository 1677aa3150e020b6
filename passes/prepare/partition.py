"""Partitioning of modules with global shapes and shardings into the program of one device."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from hespas.dialects.attrs import (
    BRANCH,
    BRANCH_FOUND,
    TRIPS,
    TRIPS_FOUND,
    TRIPS_NOTE,
    Cost,
    KernelCostAttr,
    TargetAttr,
)
from hespas.dialects.axis_groups import read_mesh_shape
from hespas.dialects.mlir import (
    BOUNDARY,
    PassManager,
    collect_functions,
    collect_meshes,
    decode_string_attr,
    drop_boundary_attrs,
    drop_inner_attributes,
    find_ops,
    get_attribute,
    get_call_target,
    get_defining_op,
    get_symbol_name,
    has_users,
    ir,
    read_boundary_attrs,
    read_boundary_items,
    read_frontend_items,
    read_frontend_text,
    register_passes,
    replace_module_body,
    replace_results,
    require_kind,
    select_ops,
    write_boundary_items,
)
from hespas.dialects.op_bodies import get_terminator
from hespas.dialects.op_kinds import (
    CUSTOM_CALLS,
    CUSTOM_PARTITIONING_CALL,
    DEVICE_IDS,
    FUSION,
    NUM_PARTITIONS,
    NUM_REPLICAS,
    PARTITIONER_CALL_TARGETS,
    RESULT_SHARDING_TARGET,
    SHARDING_ATTRS,
    SHARDY_CALL_PREFIX,
    SHARDY_MESHES,
    find_entry_function,
)
from hespas.passes.base import PassRun
from hespas.passes.prepare.census import ModuleCensus, collect_census, is_in_fusion
from hespas.passes.prepare.device_grid import (
    count_sharding_devices,
    read_stated_count,
    write_stated_count,
)
from hespas.passes.prepare.mesh_axes import count_mesh_devices
from hespas.passes.prepare.op_shardings import (
    HLO_SHARDING,
    constrain_sharded_values,
    split_tuple_sharding,
)
from hespas.passes.prepare.preparation import Preparation, PrepareStep
from hespas.passes.prepare.replace_host_placements import use_internal_placements
from hespas.support.errors import HespasError, format_op_place, format_some_places

if TYPE_CHECKING:
    from hespas.dialects.xla import CompilationSettings

ENTRY_NAME = "main"
# The dialects whose attributes are for XLA, or follow from it.
XLA_DIALECTS = frozenset(("chlo", "func", "jax", "mhlo", "sdy", "stablehlo", "tf", "xla"))
# What is carried through XLA if it was stated, and otherwise found again.
FOUND_AGAIN = frozenset((TRIPS, TRIPS_FOUND, TRIPS_NOTE, BRANCH, BRANCH_FOUND))
BATCH_DIMENSIONS = "num_batch_dims"  # the frontend attribute of a call, for XLA's partitioner
Partitioner = Callable[[ir.Module, "CompilationSettings"], ir.Module]
# The layouts that XLA's importer writes on ops. Before XLA assigns layouts, they say only how XLA
# itself made the op.
LAYOUT_ATTRS = ("xla_shape", "result_layout")
SHARDY_CONSTRAINTS = ("sdy.sharding_constraint", "sdy.reshard")
# The attributes of ops that hold shardings, those of Shardy's ops too.
SHARDING_KEYS = (*SHARDING_ATTRS, "sharding", "out_sharding", "in_shardings", "out_shardings")
# The passes to dump after, and the name of the dump.
CPU_DUMPS = ("spmd-partitioning|control-dep-rewriter", "after_spmd-partitioning")
GPU_DUMPS = ("ragged_dot_rewriter", r"after_spmd_partitioner\.")
HLO_IMPORT = "mhlo.is_dynamic"  # XLA's importer writes it on modules from XLA's pipeline
EXPORT_SHARDY = "run sdy-export-pipeline first, which removes what Shardy's own passes add"
EXPORT = "export the module after SPMD partitioning (XLA's dump after_spmd-partitioning)"


class PartitionPass(PrepareStep):
    """Convert global shapes to those of one device by their shardings, with XLA's partitioner."""

    name: ClassVar[str] = "partition"

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        return partition_module(module, view.census, run)


def partition_module(
    module: ir.Module,
    census: ModuleCensus,
    run: PassRun,
    target: str = "cpu",
    partitioner: Partitioner | None = None,
) -> bool:
    """Convert global shapes to the shapes of one device, and return whether anything changed.

    A module that consists of one ``sdy.manual_computation`` already contains the program of one
    device, and so does a module for one partition. Other modules are partitioned by XLA's SPMD
    partitioner, so that collectives and shapes are those of a real compilation.

    Args:
        module: The module.
        census: Its census.
        run: Receives warnings.
        target: ``cpu``, or the name or file of a GPU compile target.
        partitioner: Runs XLA's partitioner; by default a separate process does.

    Raises:
        HespasError: XLA cannot partition the module.
    """
    if TargetAttr.NAME in module.operation.attributes:
        _refuse_late_shardings(module, census)
        return False
    spell_out_shardings(module, census)
    if not has_global_shapes(module, census):
        if any(
            map(_is_dividing_sharding, _collect_boundary_shardings(census.entry))
        ) and not _is_per_device(census):
            run.warn(
                "arguments have shardings, but nothing else shows whether the module is "
                "partitioned: shapes are assumed to be those of one device"
            )
        return False
    # Few modules need these imports, which would slow every start-up.
    from hespas.passes.compile.carried_attributes import store_carried_attributes
    from hespas.passes.prepare.legalise import inline_resources
    from hespas.passes.prepare.manual_computation import inline_manual_computation
    from hespas.passes.prepare.single_partition import remove_shardings
    from hespas.passes.prepare.top_k_forms import TOP_K_OPS, read_top_k_calls, write_top_k_calls

    if inline_manual_computation(module, census):
        drop_boundary_attrs(census.entry, SHARDING_ATTRS)  # shapes must not be divided again
        return True
    compilation = build_compilation(module, census)
    if compilation.partitions == 1:
        remove_shardings(module, census)
        return True
    warn_of_single_device_ops(module, census, run)
    unused = [
        format_op_place(op, run.input_name)
        for op in census.select_ops_by_name(*SHARDY_CONSTRAINTS)
        if not has_users(op.results[0]) and _has_dividing_sharding(op)
    ]
    _refuse_costs(module)
    _refuse_shardings_in_fusions(census)
    constrain_sharded_values(census, uses_shardy=compilation.shardy)
    name_entry_main(module, census.entry)
    inline_resources(module)
    foreign = _count_foreign_attributes(module)
    write_top_k_calls(module, census.select_ops_by_name(*TOP_K_OPS))
    store_carried_attributes(module)
    use_internal_placements(census)
    if partitioner is None:
        _refuse_custom_partitioning(census)
        new = _run_partitioner(module, compilation, target)
    else:
        new = partitioner(module, compilation)
    new_entry = find_entry_function(new)
    check_arguments_divided(module, census.entry, new_entry)
    types = (get_attribute(entry, "function_type") for entry in (census.entry, new_entry))
    if unused and len(set(types)) == 1:
        run.warn(
            "no argument or result is divided, so that every device computes the whole program: "
            f"XLA ignores a sharding constraint whose result has no use: "
            f"{format_some_places(unused)}; use its result in place of its operand"
        )
    read_top_k_calls(new)
    replace_program(module, new, compilation)
    remove_sharding_copies(module)
    drop_inner_attributes(module.operation, *LAYOUT_ATTRS)
    dropped = foreign.keys() - _count_foreign_attributes(module).keys()
    if dropped:
        listed = ", ".join(f"{name} (ops: {foreign[name]})" for name in sorted(dropped))
        run.warn(f"XLA's partitioner has dropped attributes of other dialects: {listed}")
    return True


def _refuse_late_shardings(module: ir.Module, census: ModuleCensus) -> None:
    """Raise HespasError for a sharding that another pass has written since ``prepare``.

    ``prepare`` has removed those that it found.
    """
    ops = [contents.function for contents in census.functions.values()]
    ops += census.list_sharded_ops()
    ops += census.select_ops_by_dialect("sdy")
    dividing = filter(_has_dividing_sharding, ops)
    op = next(itertools.chain(dividing, _list_single_device_ops(module, census)), None)
    if op is not None:
        subject = "an argument or result of the function" if op.name == "func.func" else "the op"
        raise HespasError(
            f"{subject} has a sharding that was written after prepare, which has made all shapes "
            "those of one device",
            op=op,
            remedy="run the pass that writes it before --prepare; or after it hespas-opt "
            "--prepare=partition=false, which removes shardings and divides nothing",
        )


def _has_dividing_sharding(op: ir.Operation) -> bool:
    """Return whether a sharding of an op, or of a function's boundary, divides a value."""
    if op.name == "func.func":
        return any(map(_is_dividing_sharding, _collect_boundary_shardings(op)))
    return any(map(_is_dividing_sharding, _list_shardings(op, op.attributes, SHARDING_KEYS)))


def _refuse_costs(module: ir.Module) -> None:
    """Raise HespasError for an op with a cost, which XLA's partitioner replaces by others."""
    for op in select_ops(module.operation, lambda op: Cost.NAME in op.attributes):
        raise HespasError(
            f"{Cost.NAME} is the cost of an op on one device, and the shapes are global",
            op=op,
            remedy="run --prepare before costs are written; state the work of a custom call on "
            f"one device in {KernelCostAttr.NAME}; or remove the costs with --strip-costs",
        )


def _refuse_shardings_in_fusions(census: ModuleCensus) -> None:
    """Raise HespasError for an op of Shardy that divides a value in a fusion: XLA crashes there."""
    for op in census.select_ops_by_dialect("sdy"):
        if is_in_fusion(op) and _has_dividing_sharding(op):
            raise HespasError(
                "the op divides a value in a kernel, which XLA cannot",
                op=op,
                remedy="move it out of the fusion; or hespas-opt --prepare=partition=false, if "
                "the shapes are those of one device",
            )


def _count_foreign_attributes(module: ir.Module) -> Counter[str]:
    """Count the ops with each discardable attribute of a dialect that XLA does not know."""
    counts: Counter[str] = Counter()

    def count_op(op: ir.Operation) -> ir.WalkResult:
        for name in op.attributes:
            dialect, dot, _ = name.partition(".")
            if dot and dialect not in XLA_DIALECTS and name not in FOUND_AGAIN:
                counts[name] += 1
        return ir.WalkResult.ADVANCE

    module.operation.walk(count_op)
    return counts


def find_custom_partitioning(census: ModuleCensus) -> ir.Operation | None:
    """Find a call whose partitioning rule is a Python function of the process that lowered it."""
    for call in census.select_ops_by_name(*CUSTOM_CALLS):
        if get_call_target(call) == CUSTOM_PARTITIONING_CALL:
            return call
    return None


def _refuse_custom_partitioning(census: ModuleCensus) -> None:
    call = find_custom_partitioning(census)
    if call is not None:
        raise HespasError(
            "the partitioning rule of this kernel is a Python function of the process that lowered "
            "the program",
            op=call,
            remedy="let hespas export lower the program; it partitions such programs itself",
        )


def name_entry_main(module: ir.Module, entry: ir.Operation) -> None:
    """Name the entry function ``main``, as XLA requires, and rename a private function ``main``."""
    if get_symbol_name(entry) == ENTRY_NAME:
        return
    table = collect_functions(module)
    symbols = ir.SymbolTable(module.operation)
    if ENTRY_NAME in table:
        other = next(f"main_{n}" for n in itertools.count(1) if f"main_{n}" not in table)
        symbols.replace_all_symbol_uses(ENTRY_NAME, other, module.operation)
        symbols.set_symbol_name(table[ENTRY_NAME], other)
    symbols.set_symbol_name(entry, ENTRY_NAME)


def replace_program(module: ir.Module, new: ir.Module, compilation: CompilationSettings) -> None:
    """Replace a program by the one that XLA compiled it to, with the shapes of one device.

    Keeps the attributes that JAX writes on arguments and results (names, donation), which HLO does
    not represent, moves those that frontend attributes carry back, and removes the copies of fusion
    bodies that XLA's importer makes.
    """
    from hespas.passes.compile.carried_attributes import restore_carried_attributes

    main = find_entry_function(module)
    boundary = {name: read_boundary_items(main, name) for name in BOUNDARY}
    replace_module_body(module, new)
    main = find_entry_function(module)
    for name, rows in boundary.items():
        if rows and len(rows) == _count_boundary_values(main, name):
            write_boundary_items(main, name, rows)
    drop_boundary_attrs(main, SHARDING_ATTRS)
    restore_carried_attributes(module)
    # XLA leaves some although shapes are now local.
    drop_inner_attributes(module.operation, *SHARDING_ATTRS)
    write_stated_count(module, NUM_PARTITIONS, compilation.partitions)
    write_stated_count(module, NUM_REPLICAS, compilation.replicas)
    collect_census(module)  # erases the copies of fusion bodies


def remove_sharding_copies(module: ir.Module) -> None:
    """Remove copies that only carried a sharding. XLA removes them later in its pipeline."""
    for op in find_ops(module.operation, ("mhlo.copy",)):
        replace_results(op, op.operands)


def _is_per_device(census: ModuleCensus) -> bool:
    """Return whether there is an op that XLA creates only during or after partitioning."""
    block = census.entry.regions[0].blocks[0]
    late = DEVICE_IDS | {FUSION}
    return bool(census.list_collectives()) or any(
        op.operation.name in late for op in block.operations
    )


def spell_out_shardings(module: ir.Module, census: ModuleCensus) -> None:
    """Write meshes that shardings hold themselves as Shardy and XLA's importer read them.

    Each mesh within a sharding of Shardy gets a name, as Shardy's own passes do first, and an HLO
    sharding with a mesh, or a serialised one, becomes the equal one in numbers. A result of the
    program that has a sharding only because the returned value has one in HLO has none afterwards.

    Raises:
        HespasError: An HLO sharding with a mesh has a form that is not known.
    """
    if _is_left_by_partitioner(module):
        return
    if SHARDY_MESHES in read_frontend_items(module.operation):
        _free_results(census.entry)
    texts = _collect_shardings(module, census)
    if census.select_ops_by_dialect("sdy") or any(text.startswith("#sdy") for text in texts):
        register_passes()
        manager = PassManager.parse("builtin.module(sdy-lift-inlined-meshes)", module.context)
        manager.enable_verifier(False)
        manager.run(module.operation)
    if not texts:
        return
    from hespas.passes.compile import named_shardings

    others = [text for text in texts if not named_shardings.is_numbered(text)]
    if others:
        try:
            for text in others:
                named_shardings.number_sharding(text)
        except ValueError as error:
            raise HespasError(str(error), op=module.operation, remedy=EXPORT) from None
        named_shardings.replace_named_shardings(module)


def _free_results(entry: ir.Operation) -> None:
    """Drop the HLO sharding of each result that Shardy has stated none of by a call."""
    rows = read_boundary_items(entry, "res_attrs")
    if not any(HLO_SHARDING in row for row in rows):
        return
    values = get_terminator(entry.regions[0].blocks[0]).operands
    for value, row in zip(values, rows, strict=True):
        if not _is_stated_result(value):
            row.pop(HLO_SHARDING, None)
    write_boundary_items(entry, "res_attrs", rows)


def _is_stated_result(value: ir.Value) -> bool:
    op = get_defining_op(value)
    return (
        op is not None and op.name in CUSTOM_CALLS and get_call_target(op) == RESULT_SHARDING_TARGET
    )


def has_global_shapes(module: ir.Module, census: ModuleCensus) -> bool:
    """Return whether shapes are global, with shardings that assign parts to devices."""
    if census.select_ops_by_dialect("sdy"):
        return True
    for call in census.select_ops_by_name(*CUSTOM_CALLS):
        if get_call_target(call) in PARTITIONER_CALL_TARGETS:
            return True
    if _is_left_by_partitioner(module):
        return False
    if any(_is_dividing_sharding(text) for text in _collect_boundary_shardings(census.entry)):
        return True
    if (
        read_stated_count(module, NUM_PARTITIONS) is None
        and not collect_meshes(module)
        and _is_per_device(census)
    ):
        return False
    return any(map(_is_dividing_sharding, _collect_shardings(module, census))) or bool(
        _list_single_device_ops(module, census)
    )


def warn_of_single_device_ops(module: ir.Module, census: ModuleCensus, run: PassRun) -> None:
    """Warn of the values of one device alone, which XLA's partitioner gives to every device."""
    places = [
        ("an argument or result of " if op.name == "func.func" else "")
        + format_op_place(op, run.input_name)
        for op in _list_single_device_ops(module, census)
    ]
    if places:
        run.warn(
            f"a maximal sharding gives to one device alone: {format_some_places(places)}; XLA's "
            "partitioner lets every device compute the value, and an all-reduce sends that of the "
            "one device to the others: both are estimated"
        )


def _list_single_device_ops(module: ir.Module, census: ModuleCensus) -> list[ir.Operation]:
    """List ops with a maximal sharding, and functions with arguments or results of one device.

    XLA places the calls of the host's functions on one device itself.
    """
    meshes = collect_meshes(module)
    if not meshes and read_stated_count(module, NUM_PARTITIONS) == 1:
        return []
    names = [
        str(ir.FlatSymbolRefAttr.get(name, module.context))
        for name, mesh in meshes.items()
        if read_mesh_shape(mesh).is_maximal
    ]

    def is_maximal(text: str) -> bool:
        return "{maximal" in text or any(f"<{name}, " in text for name in names)

    functions = [contents.function for contents in census.functions.values()]
    found = [op for op in functions if any(map(is_maximal, _collect_boundary_shardings(op)))]
    constraints = census.select_ops_by_name(*SHARDY_CONSTRAINTS)
    for op in itertools.chain(census.list_sharded_ops(), constraints):
        if op.name in CUSTOM_CALLS and get_call_target(op) not in PARTITIONER_CALL_TARGETS:
            continue
        keys = ("sharding",) if op.name in SHARDY_CONSTRAINTS else SHARDING_ATTRS
        if any(map(is_maximal, _list_shardings(op, op.attributes, keys))):
            found.append(op)
    return found


def _is_left_by_partitioner(module: ir.Module) -> bool:
    """Return whether the shardings of a module are those that the partitioner left behind.

    A mesh of Shardy shows that they are not: XLA removes it before it partitions.
    """
    attributes = module.operation.attributes
    if HLO_IMPORT not in attributes or NUM_PARTITIONS in attributes:
        return False
    return not collect_meshes(module) and SHARDY_MESHES not in read_frontend_items(module.operation)


def _is_dividing_sharding(sharding: str) -> bool:
    """Return whether a sharding assigns different parts to different devices."""
    if sharding.startswith("#sdy"):
        return '{"' in sharding
    return any(
        "devices=[" in part
        and not re.search(r"devices=\[(1,)*\d+\][^ ]* last_tile_dim_replicate", part)
        for part in split_tuple_sharding(sharding)
    )


def _count_boundary_values(entry: ir.Operation, name: str) -> int:
    kind = get_attribute(entry, "function_type").value
    return len(kind.inputs if name == "arg_attrs" else kind.results)


def _collect_boundary_shardings(entry: ir.Operation) -> set[str]:
    """Collect the shardings of the entry's arguments and results."""
    rows = [attrs for name in BOUNDARY for attrs in read_boundary_attrs(entry, name)]
    return {text for attrs in rows for text in _list_shardings(entry, attrs)}


def _collect_shardings(module: ir.Module, census: ModuleCensus) -> set[str]:
    """Collect the shardings of functions and ops."""
    shardings: set[str] = set()
    for contents in census.functions.values():
        shardings |= _collect_boundary_shardings(contents.function)
    # Those of ops say nothing in a program for one partition.
    if collect_meshes(module) or read_stated_count(module, NUM_PARTITIONS) != 1:
        for op in census.list_sharded_ops():
            shardings.update(_list_shardings(op, op.attributes))
    return shardings


def _list_shardings(
    op: ir.Operation, attributes: Any, keys: Sequence[str] = SHARDING_ATTRS
) -> list[str]:
    """List the shardings under some keys among attributes of an op, or of its boundary, as text.

    Raises:
        HespasError: One is of a kind that no sharding has.
    """
    shardings: list[str] = []
    for key in keys:
        if key not in attributes:
            continue
        try:
            attr = attributes[key]
        except TypeError:  # the bindings cannot represent locations that are attributes
            remedy = "correct it, or remove it"
            raise HespasError(f"{key} is a location, no sharding", op=op, remedy=remedy) from None
        if key == HLO_SHARDING:
            attr = require_kind(attr, ir.StringAttr, key, op)
        shardings.append(decode_string_attr(attr) if isinstance(attr, ir.StringAttr) else str(attr))
    return shardings


def _count_partitions(module: ir.Module, census: ModuleCensus) -> int:
    """Count the devices that the shapes are divided over; raises HespasError."""
    shardings = _collect_shardings(module, census)
    implied = max(1, count_mesh_devices(module), *map(count_sharding_devices, shardings))
    partitions = read_stated_count(module, NUM_PARTITIONS) or implied
    if implied > partitions:
        raise HespasError(
            f"shardings name {implied} devices, but {NUM_PARTITIONS} is {partitions}",
            op=module.operation,
        )
    return partitions


def state_partitions(module: ir.Module) -> None:
    """Write the number of partitions of an imported program before partitioning, if it has none.

    Without the number, shardings in a program from XLA's importer are those that the partitioner
    has left behind (:func:`has_global_shapes`).
    """
    shardings = _collect_boundary_shardings(find_entry_function(module))
    partitions = max(map(count_sharding_devices, shardings), default=1)
    if partitions > 1 and NUM_PARTITIONS not in module.operation.attributes:
        write_stated_count(module, NUM_PARTITIONS, partitions)


def _run_partitioner(module: ir.Module, compilation: CompilationSettings, target: str) -> ir.Module:
    """Partition the module with XLA's compiler for ``target``."""
    from hespas.configs import compile_targets
    from hespas.passes.compile.compiler_process import (
        CompileFailure,
        CompileRequest,
        compile_module,
    )

    compile_target = compile_targets.load_compile_target(target)
    if compile_target.tpu is not None:
        raise HespasError(
            "XLA:TPU gives a program only after its whole compilation",
            remedy="partition for cpu, or optimise for the TPU",
        )
    proto = compile_target.proto
    dumps = CPU_DUMPS if proto is None else GPU_DUMPS
    request = CompileRequest(compilation, *dumps, target=proto)
    try:
        return compile_module(module, request).module
    except CompileFailure as error:
        raise _to_partition_error(module, str(error)) from None


def build_compilation(module: ir.Module, census: ModuleCensus) -> CompilationSettings:
    """Build the compilation settings of a module with global shapes; raises HespasError."""
    from hespas.dialects.xla import CompilationSettings

    return CompilationSettings(
        replicas=read_stated_count(module, NUM_REPLICAS) or 1,
        partitions=_count_partitions(module, census),
        spmd=True,
        shardy=_uses_shardy(module, census),
        free_parameters=_find_unsharded(census.entry, "arg_attrs"),
        free_results=_find_unsharded(census.entry, "res_attrs"),
        batched_calls=_list_batched_calls(census),
    )


def _list_batched_calls(census: ModuleCensus) -> tuple[str, ...]:
    """List the targets of custom calls that say which of their dimensions are a batch.

    JAX says so of the routines that it has registered for XLA's partitioner, which needs layouts.
    """
    batched, others = set[str](), set[str]()
    for call in census.select_ops_by_name(*CUSTOM_CALLS):
        is_batched = "operand_layouts" in call.attributes and read_frontend_text(
            call, BATCH_DIMENSIONS
        )
        (batched if is_batched else others).add(get_call_target(call))
    return tuple(sorted(batched - others))


def _uses_shardy(module: ir.Module, census: ModuleCensus) -> bool:
    """Return whether XLA divides the module by the shardings of Shardy."""
    if SHARDY_MESHES in read_frontend_items(module.operation):
        return True
    calls = census.select_ops_by_name(*CUSTOM_CALLS)
    if census.select_ops_by_dialect("sdy") or any(
        get_call_target(call).startswith(SHARDY_CALL_PREFIX) for call in calls
    ):
        return True
    shardings = _collect_shardings(module, census)
    if any(text.startswith("#sdy") for text in shardings):
        return True
    return bool(collect_meshes(module)) and not any(map(_is_dividing_sharding, shardings))


def check_arguments_divided(module: ir.Module, old: ir.Operation, new: ir.Operation) -> None:
    """Raise HespasError if sharded arguments are still global.

    XLA ignores shardings that it cannot read.
    """
    before, after = (get_attribute(entry, "function_type").value.inputs for entry in (old, new))
    sharded = [
        i
        for i, attr in enumerate(read_boundary_attrs(old, "arg_attrs"))
        if any(map(_is_dividing_sharding, _list_shardings(old, attr)))
    ]
    if sharded and len(before) == len(after) and all(before[i] == after[i] for i in sharded):
        raise _to_partition_error(module, f"the sharding of argument {sharded[0]} has no effect")


def _to_partition_error(module: ir.Module, why: str) -> HespasError:
    return HespasError(
        f"shapes are global and XLA could not partition the module: {why}",
        op=module.operation,
        remedy=EXPORT_SHARDY if "'sdy." in why and "unsupported op for export" in why else EXPORT,
    )


def _find_unsharded(entry: ir.Operation, name: str) -> tuple[bool, ...]:
    """Return whether each argument or result has no sharding, so that the partitioner chooses."""
    attrs = read_boundary_attrs(entry, name) or [{}] * _count_boundary_values(entry, name)
    return tuple(not any(key in attr for key in SHARDING_ATTRS) for attr in attrs)
