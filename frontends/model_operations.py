"""The operations that a model needs, counted in the program that a framework lowered.

MFU divides by what the model needs, and the program of a training step executes more: what
rematerialisation computes again, and what partitioning pads. The lowered program shows both. Its
shapes are those of all devices, and JAX names every op that ``jax.checkpoint`` computes again.

Counted are matrix products, convolutions, and the products in kernels of attention, as in the
definition of MFU (PaLM, arXiv 2204.02311, appendix B).
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hespas.dialects.attr_codec import read_trip_count
from hespas.dialects.axis_groups import list_manual_axes, list_manual_meshes, read_mesh_shape
from hespas.dialects.mlir import (
    collect_meshes,
    get_attribute,
    get_call_target,
    ir,
    read_frontend_text,
)
from hespas.dialects.op_kinds import (
    BRANCHES,
    CALLEE,
    COLLECTIVE_CALL_TARGETS,
    CUSTOM_CALLS,
    CUSTOM_PARTITIONING_CALL,
    LOOPS,
    MANUAL_CALL_TARGETS,
    MANUAL_COMPUTATION,
    NUM_PARTITIONS,
    NUM_REPLICAS,
    PLACEMENT_CALL_TARGETS,
    RECOMPUTATION_SCOPE,
)
from hespas.dialects.program_facts import Fact
from hespas.estimators.rules.contraction import count_primitive_products
from hespas.estimators.rules.custom_calls import find_kernel_name
from hespas.estimators.work import compute_op_work, find_cost_rule
from hespas.passes.prepare.census import ModuleCensus, collect_census
from hespas.passes.prepare.device_grid import read_stated_count
from hespas.passes.prepare.partition import has_global_shapes, spell_out_shardings
from hespas.passes.prepare.scalars import ScalarEvaluator, build_scalar_evaluator
from hespas.passes.prepare.write_trip_counts import (
    ASSUMED_TRIPS,
    find_maximum_trips,
    find_mean_trips,
    find_trip_count,
)
from hespas.support.errors import HespasError, find_framework_name

MODEL_FLOPS = "flops_per_step"
MODEL_FLOPS_SOURCE = "flops_per_step_source"
# Frontend attribute of a call whose kernel XLA's partitioner inserts: the operations of its model.
KERNEL_MODEL_FLOPS = "hespas_model_flops"
COUNTED = "counted in the lowered program"
PRODUCT_KINDS = ("gemm", "conv", "attention")
# Backward kernels of attention compute scores again, and the second of splash attention also the
# gradients of probabilities: the products of the model among all products of the kernel, for keys
# and values of equal size.
_KERNEL_PRODUCTS = (
    (re.compile(r"__cudnn\$fmha.*Backward"), 4, 5),
    (re.compile(r"splash_m[hq]a_dkv"), 3, 4),
    (re.compile(r"splash_m[hq]a_dq"), 1, 3),
)


def add_model_flops(module: ir.Module, facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """Return the facts of a lowered module with the operations of its model.

    They stay as they are if they have these operations, or if these cannot be counted. The module
    must not have been partitioned or optimised by XLA.
    """
    flops = None if MODEL_FLOPS in facts else count_model_flops(module)
    return {**facts, **({MODEL_FLOPS: flops, MODEL_FLOPS_SOURCE: COUNTED} if flops else {})}


def count_model_flops(module: ir.Module) -> int | None:
    """Count the operations that the model of a lowered program needs, summed over all devices.

    Returns:
        The operations; None if they cannot be counted: the ops carry no names of a framework, so
        that nothing tells what is computed again, or a kernel, a shape or the parts of a device
        are not known.
    """
    census = collect_census(module)
    spell_out_shardings(module, census)
    counter = _ModelOperationCounter(module, census)
    try:
        flops = counter.count_function_flops(counter.entry_name)
        devices = 1 if has_global_shapes(module, census) else _count_devices(module)
    except (HespasError, _UncountableError):
        return None
    return flops * devices


def _count_devices(module: ir.Module) -> int:
    """Return the number of devices that run a module with the shapes of one device."""
    return math.prod(
        read_stated_count(module, name) or 1 for name in (NUM_PARTITIONS, NUM_REPLICAS)
    )


class _UncountableError(Exception):
    """A product whose share in the model is not known."""


@dataclass
class _ModelOperationCounter:
    """Counts the operations of each function once.

    A function that both the forward pass and its recomputation call is told apart by the names of
    the calls.
    """

    module: ir.Module
    census: ModuleCensus
    entry_name: str = field(init=False)
    scalars: ScalarEvaluator = field(init=False)

    def __post_init__(self) -> None:
        self.entry_name = next(iter(self.census.functions))
        self.scalars = build_scalar_evaluator(self.census)
        self.count_function_flops = functools.cache(self._count_function_flops)

    def _count_function_flops(self, name: str) -> int:
        return self._count_region_flops(self.census.functions[name].function.regions[0])

    def _count_region_flops(self, region: ir.Region) -> int:
        return sum(
            self._count_op_flops(view.operation)
            for block in region.blocks
            for view in block.operations
        )

    def _count_op_flops(self, op: ir.Operation) -> int:
        name = op.name
        if name in CALLEE:
            flops = self.count_function_flops(get_attribute(op, CALLEE[name]).value)
            return 0 if flops and _is_recomputed(op) else flops
        if name in LOOPS:
            trips = find_trip_count(op, self.scalars)
            if trips is None:
                trips = read_trip_count(op)
            if trips is None and len(means := find_mean_trips(op, self.scalars)) == 1:
                trips = math.ceil(means.pop())
            if trips is None:
                trips = find_maximum_trips(op, self.scalars)
            return (ASSUMED_TRIPS if trips is None else trips) * self._count_region_flops(
                op.regions[1]
            )
        if name in BRANCHES:
            return max(map(self._count_region_flops, op.regions))
        if name == MANUAL_COMPUTATION:
            return self._count_manual_devices(op) * self._count_region_flops(op.regions[0])
        if name in CUSTOM_CALLS:
            return _count_call_flops(op)
        rule = find_cost_rule(name)
        if rule is None or rule.kind not in PRODUCT_KINDS or _is_recomputed(op):
            return 0
        # Once, if its algorithm makes several products of it.
        return compute_op_work(op).flops // count_primitive_products(op)

    def _count_manual_devices(self, op: ir.Operation) -> int:
        """Return the number of parts into which a manual computation divides its program."""
        names, axes = list_manual_meshes(op), list_manual_axes(op)
        mesh = collect_meshes(self.module).get(names[0]) if names else None
        if mesh is None:
            raise _UncountableError
        return math.prod(size for axis, size in read_mesh_shape(mesh).axes.items() if axis in axes)


def _is_recomputed(op: ir.Operation) -> bool:
    """Return whether the op repeats the forward pass; raises _UncountableError without a name."""
    name = find_framework_name(op.location)
    if not name:
        raise _UncountableError
    return RECOMPUTATION_SCOPE in name


def _count_call_flops(op: ir.Operation) -> int:
    """Return the operations of a custom call that belong to the model."""
    target = get_call_target(op)
    if target in COLLECTIVE_CALL_TARGETS or target in PLACEMENT_CALL_TARGETS:
        return 0
    if target in MANUAL_CALL_TARGETS:
        raise _UncountableError  # the parts of a device have no mesh
    if target == CUSTOM_PARTITIONING_CALL:
        flops_text = read_frontend_text(op, KERNEL_MODEL_FLOPS)
        if not flops_text:
            raise _UncountableError  # lowered by another than hespas
        return 0 if _is_recomputed(op) else int(flops_text)
    work = compute_op_work(op)
    flops = sum(part.flops for part in work.parts if part.unit == "matrix")
    if not flops or _is_recomputed(op):
        return 0
    name = f"{target} {find_kernel_name(op)}"
    for pattern, of_model, of_kernel in _KERNEL_PRODUCTS:
        if pattern.search(name):
            return flops * of_model // of_kernel
    return flops
